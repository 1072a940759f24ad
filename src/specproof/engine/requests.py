"""A request on its way through the engine, and the result it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from specproof.engine.stats import Statistics
from specproof.engine.text import Detokenizer
from specproof.errors import SpecproofError
from specproof.types import Backend, FinishReason, TokenSequence


@dataclass(frozen=True)
class Result:
    """What came out, and how.

    Attributes:
        text, tokens: the completion; tokens include the end-of-text token, text does not. Text is empty
            without a tokenizer.
        delta: text that is new since the last result of a stream.
        finish_reason: "stop" at an end-of-text token, "length" at max_tokens or the context limit, None
            while it runs.
        seed: reproduces the text.
        rule: the verification rule that was used.
        lossless: whether that rule keeps the target's law; None if it is not one of RULES.
        stats: what it cost and gained.
    """

    text: str
    tokens: tuple[int, ...]
    delta: str
    finish_reason: FinishReason | None
    seed: int
    rule: str
    lossless: bool | None
    stats: Statistics

    def as_dict(self) -> dict[str, Any]:
        """Everything but `delta`, for JSON."""
        return {
            "text": self.text,
            "tokens": list(self.tokens),
            "finish_reason": self.finish_reason,
            "seed": self.seed,
            "rule": self.rule,
            "lossless": self.lossless,
            "stats": self.stats.as_dict(),
        }


class Request:
    """A sequence with its statistics and its text so far."""

    def __init__(self, sequence: TokenSequence, tokenizer: Any) -> None:
        self.sequence = sequence
        self.stats = Statistics()
        self._detokenizer = Detokenizer(tokenizer) if tokenizer is not None else None
        self._text = ""
        self._seen = 0

    def result(self, rule: str, lossless: bool | None) -> Result:
        """The result so far; settles the text that the tokens since the last call make up."""
        output = self.sequence.output
        delta = ""
        if self._detokenizer is not None:
            delta = self._detokenizer.push(output[self._seen :])
            if self.sequence.finish_reason is not None:
                delta += self._detokenizer.finish()
        self._seen = len(output)
        self._text += delta
        return Result(
            self._text,
            tuple(output),
            delta,
            self.sequence.finish_reason,
            self.sequence.seed,
            rule,
            lossless,
            self.stats,
        )


def check_prompt(prompt: str | Sequence[int], tokenizer: Any, target: Backend) -> list[int]:
    """Tokens of a prompt that the target can take.

    Raises:
        SpecproofError: empty, longer than the context, or with tokens outside the vocabulary.
    """
    if isinstance(prompt, str):
        if tokenizer is None:
            raise SpecproofError("a text prompt needs a tokenizer; give tokens, or an engine with a tokenizer")
        tokens = list(tokenizer(prompt)["input_ids"])
    else:
        tokens = [int(token) for token in prompt]
    if not tokens:
        raise SpecproofError("the prompt is empty; give at least one token")
    if len(tokens) > target.context:
        raise SpecproofError(
            f"the prompt has {len(tokens)} tokens and the context takes {target.context}; shorten it"
        )
    if outside := [token for token in tokens if not 0 <= token < target.vocabulary]:
        raise SpecproofError(
            f"token {outside[0]} is outside the vocabulary; tokens are 0 to {target.vocabulary - 1}"
        )
    return tokens
