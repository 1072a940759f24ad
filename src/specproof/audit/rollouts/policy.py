"""A checkpoint that rollouts are held against, and what a text must have been for its tokens to be bets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from specproof.audit.rollouts.read import STOPPED, Rollout
from specproof.audit.white.forcing import reference_for
from specproof.backends.hf import HFBackend
from specproof.engine.engine import Engine
from specproof.engine.loading import end_tokens, load_model, load_tokenizer
from specproof.errors import SpecproofError
from specproof.types import Backend, SamplingParams, TokenSequence

# Names that other engines have for the same thing.
_ALIASES = {"max_new_tokens": "max_tokens"}


class Policy:
    """A model, with the tokens that end its texts.

    Args:
        target: the model.
        tokenizer: for parameters that are given as text.
        eos: tokens that end a text.
    """

    def __init__(self, target: Backend, tokenizer: Any = None, eos: Collection[int] = ()) -> None:
        self.target = target
        self._engine = Engine(target, "none", tokenizer=tokenizer, eos=eos)
        self.reference = reference_for(target)

    @classmethod
    def load(cls, name: str, dtype: str = "float32", device: str = "cpu") -> Policy:
        """From a folder or a name."""
        model, tokenizer = load_model(name, dtype, device), load_tokenizer(name)
        return cls(HFBackend(model), tokenizer, end_tokens(model, tokenizer))

    def start(self, prompt: Sequence[int], params: SamplingParams) -> TokenSequence:
        """A text before its first token."""
        request = self._engine.requests(list(prompt), params)[0]
        request.read(len(request.unread))
        return request.sequence

    def logits(self, start: TokenSequence, output: list[int]) -> Tensor:
        """[n, V] what each token of an output was drawn from, in one plain pass."""
        outside = [token for token in output if not 0 <= token < self.target.vocabulary]
        if outside:
            raise SpecproofError(
                f"token {outside[0]} is outside the vocabulary, 0 to {self.target.vocabulary - 1}; give the model "
                "that wrote the texts"
            )
        if len(start.tokens) + len(output) > self.target.context:
            raise SpecproofError(
                f"a text has {len(start.tokens) + len(output)} tokens and the model's context "
                f"{self.target.context}; give the model that wrote it"
            )
        return self.reference(start.tokens + output, len(start.tokens))

    def fresh(self) -> Backend | None:
        """Another backend for the model, to see what rounding does; None where it does nothing."""
        return HFBackend(self.target.model, self.target.context) if isinstance(self.target, HFBackend) else None


def params_of(given: Mapping[str, Any]) -> SamplingParams:
    """Sampling parameters from a file, which say nothing of the law where they ask for reports or more texts.

    Raises:
        SpecproofError: one that is not known, or a value that is not allowed.
    """
    named = {_ALIASES.get(key, key): value for key, value in given.items() if value is not None}
    if named.get("top_k") == -1:  # all, in vLLM's words
        named["top_k"] = 0
    if "logit_bias" in named:  # keys of JSON are texts
        named["logit_bias"] = {int(token): float(bias) for token, bias in named["logit_bias"].items()}
    if "max_tokens" not in named and "min_tokens" in named:
        named["max_tokens"] = max(SamplingParams().max_tokens, int(named["min_tokens"]))
    return replace(SamplingParams.from_dict(named), n=1, seed=None, logprobs=None, prompt_logprobs=None)


def whole_output(text: Rollout, start: TokenSequence, limited: bool) -> tuple[list[int], bool]:
    """Every token that was drawn, the one that ended the text included, and whether that one was left out.

    Where nobody wrote the end token down it was drawn all the same: to leave it out would favour all others, for
    each of which the row had less mass.

    Args:
        text: from the file.
        start: the text before its first token.
        limited: whether max_tokens is known.

    Raises:
        SpecproofError: nobody can tell how the text ended.
    """
    output, reason = list(text.completion_ids), text.finish_reason
    if text.updates:
        # What comes after is another policy's. When new weights arrive does not hang on what is drawn.
        return output[: text.updates[0][0]], False
    ended = bool(output) and output[-1] in start.ends
    full = limited and len(output) >= start.params.max_tokens
    if reason is None and not ended and not full:
        if start.ends:
            raise SpecproofError(
                f"text {text.sample} of prompt {text.prompt} has no finish_reason and no end token, so nobody can "
                "tell whether it was cut; give finish_reason (stop or length), or max_tokens in params"
            )
        return output, False
    if reason in STOPPED and not ended and not start.params.stop and start.ends:
        return [*output, min(start.ends)], True
    return output, False


def goes_on(output: Sequence[int], start: TokenSequence) -> bool:
    """Whether a text goes on after a token that ends it."""
    return any(token in start.ends for token in output[:-1])
