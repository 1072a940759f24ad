"""Rows of the batch as requests of the engine, and the tensor that they become."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig
from transformers.generation.stopping_criteria import EosTokenCriteria, MaxLengthCriteria

from specproof.engine.requests import Request, check_prompt
from specproof.errors import SpecproofError
from specproof.hf.inputs import prompts, row_processors, without_warpers
from specproof.noise import completion_seed
from specproof.sampling import processors_for
from specproof.types import Backend, SamplingParams, TokenSequence


class Row(Request):
    """A request that transformers' stopping criteria can end.

    Args:
        sequence: its prompt, without padding.
        padding: the tokens that stood left of the prompt; criteria see them, as in `generate`.
        criteria: asked after every token.
        device: where criteria expect the tokens.
    """

    def __init__(
        self, sequence: TokenSequence, padding: list[int], criteria: Sequence[Any], device: torch.device
    ) -> None:
        super().__init__(sequence, None, reserve=len(sequence.tokens) + sequence.params.max_tokens)
        self.padding = padding
        self.criteria = criteria
        self.device = device

    @property
    def stopped(self) -> Callable[[TokenSequence], bool] | None:
        """See `Request.stopped`."""
        return self._met if self.criteria else None

    def _met(self, sequence: TokenSequence) -> bool:
        ids = torch.tensor([self.padding + sequence.tokens], device=self.device)
        return any(bool(torch.as_tensor(criterion(ids, None)).all()) for criterion in self.criteria)


@dataclass(frozen=True)
class Prepared:
    """What transformers' `generate` made of its arguments.

    Attributes:
        input_ids: [B, L], padded on the left.
        processors, criteria: its own and the caller's.
        config: with its defaults filled in.
        model_kwargs: further inputs of the model.
    """

    input_ids: Tensor
    processors: list[Any]
    criteria: list[Any]
    config: GenerationConfig
    model_kwargs: dict[str, Any]

    def rows(self, target: Backend, seed: int | None) -> list[Row]:
        """A request for each row.

        Args:
            target: takes the tokens.
            seed: of the first row; the others' are derived from it.

        Raises:
            SpecproofError: a row does not fit the model, or has inputs that cannot be honoured; or rows of
                different lengths could come out and there is nothing to fill them with.
        """
        if seed is not None and not (isinstance(seed, int) and 0 <= seed < 2**64):
            raise SpecproofError(f"seed={seed!r} is not allowed: give a whole number in [0, 2**64)")
        ends = frozenset(t for c in self.criteria if type(c) is EosTokenCriteria for t in c.eos_token_id.tolist())
        criteria = [c for c in self.criteria if type(c) not in (EosTokenCriteria, MaxLengthCriteria)]
        texts = prompts(self.input_ids, self.model_kwargs)
        if criteria and len(texts) > 1 and self.config._pad_token_tensor is None:
            raise SpecproofError("rows may end one before another: give pad_token_id, which fills them up")
        processors = without_warpers(self.processors, self.config)
        if seed is None and self.config.do_sample:
            seed = int(torch.randint(2**63 - 1, ()))
        rows = []
        for number, (padding, prompt) in enumerate(texts):
            tokens = check_prompt(prompt, None, target)
            params = self._params(row_processors(processors, number, padding))
            self._check_length(number, len(tokens) + params.max_tokens, target.context)
            made = processors_for(params, target.vocabulary)
            own = completion_seed(seed or 0, number)
            sequence = TokenSequence(tokens, len(tokens), params, own, ends, made)
            rows.append(Row(sequence, padding, criteria, self.input_ids.device))
        return rows

    def together(self, rows: Sequence[Row]) -> Tensor:
        """Prompts and what came out [B, longest], filled up on the right, as `generate` returns them."""
        longest = max(len(row.sequence.output) for row in rows)
        fill = self.config._pad_token_tensor
        pad = 0 if fill is None else int(fill)  # without one all rows have one length
        outputs = [row.sequence.output + [pad] * (longest - len(row.sequence.output)) for row in rows]
        return torch.cat([self.input_ids, self.input_ids.new_tensor(outputs)], dim=1)

    def _params(self, processor: Callable[[list[int], Tensor], Tensor] | None) -> SamplingParams:
        """Filters act in sampling only; everything else that changes logits is in the processors."""
        config = self.config
        most = min(c.max_length for c in self.criteria if type(c) is MaxLengthCriteria)
        length = {"max_tokens": most - self.input_ids.shape[1]}
        own = () if processor is None else (processor,)
        if not config.do_sample:
            return SamplingParams(temperature=0, processors=own, **length)
        return SamplingParams(
            temperature=1.0 if config.temperature is None else config.temperature,
            top_k=config.top_k or 0,
            top_p=1.0 if config.top_p is None else config.top_p,
            min_p=config.min_p or 0.0,
            processors=own,
            **length,
        )

    def _check_length(self, number: int, needed: int, context: int) -> None:
        if needed > context:
            raise SpecproofError(
                f"row {number} may come to {needed} tokens and the context takes {context}: "
                f"ask for at most {max(0, context - needed + self._params(None).max_tokens)} new tokens"
            )
