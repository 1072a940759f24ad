"""What transformers' `generate` prepared, taken apart: prompts without padding, warpers, processors of a row."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig
from transformers.generation import logits_process as hf

from specproof.errors import SpecproofError

# Prepared by `generate` for its own loop, and without influence on the text.
_UNUSED = {"use_cache", "logits_to_keep"}


def prompts(input_ids: Tensor, model_kwargs: dict[str, Any]) -> list[tuple[list[int], list[int]]]:
    """Padding and prompt of each row [B, L].

    Raises:
        SpecproofError: padding that is not on the left, positions of the caller's own, a filled cache, or any
            other input of the model.
    """
    left = dict(model_kwargs)
    mask, positions, cache = (left.pop(name, None) for name in ("attention_mask", "position_ids", "cache"))
    for name, value in left.items():
        if name not in _UNUSED and value is not None:
            raise SpecproofError(f"{name} cannot be passed on by specproof.hf.generate: give token ids and a mask")
    if cache is not None and (getattr(cache, "_is_user_defined", False) or cache.get_seq_length() > 0):
        raise SpecproofError("a cache cannot be given, specproof keeps its own: give the whole text as input_ids")
    real = torch.ones_like(input_ids) if mask is None else (mask != 0).long()
    if bool((real.diff(dim=1) < 0).any()):
        row = int((real.diff(dim=1) < 0).any(1).long().argmax())
        raise SpecproofError(
            f"row {row} of attention_mask has a 0 after a 1: pad on the left only (padding_side='left')"
        )
    expected = real.cumsum(-1) - 1
    if positions is not None and bool(((positions != expected) & (real == 1)).any()):
        raise SpecproofError("position_ids of your own cannot be honoured: leave them out, tokens are counted")
    widths = (real == 0).sum(1).tolist()
    return [(ids[:pad], ids[pad:]) for ids, pad in zip(input_ids.tolist(), widths, strict=True)]


def without_warpers(processors: list[Any], config: GenerationConfig) -> list[Any]:
    """The processors without the warpers that `generate` appends last and that SamplingParams stands for.

    Raises:
        SpecproofError: the list does not end as this version of specproof expects.
    """
    tail: list[type] = []
    if config.do_sample:
        tail += [hf.TemperatureLogitsWarper] * (config.temperature not in (None, 1))
        tail += [hf.TopKLogitsWarper] * (config.top_k not in (None, 0))
        tail += [hf.TopPLogitsWarper] * (config.top_p is not None and config.top_p < 1)
        tail += [hf.MinPLogitsWarper] * (config.min_p is not None)
    tail += [hf.LogitNormalization] * (config.renormalize_logits is True)  # a softmax follows: no difference
    split = len(processors) - len(tail)
    found = [type(processor) for processor in processors[split:]]
    if found != tail:
        raise SpecproofError(
            f"this version of transformers prepares {[kind.__name__ for kind in found]} where specproof expects "
            f"{[kind.__name__ for kind in tail]}; install a version that specproof was tested with"
        )
    return list(processors[:split])


@dataclass(frozen=True, eq=False)
class RowProcessor:
    """transformers' processors as they act on one row of the batch, padding included.

    They have to be functions of the text alone: a draft calls them along paths that are then given up.
    """

    processors: list[Any]
    padding: list[int]

    def __call__(self, context: list[int], logits: Tensor) -> Tensor:
        """Logits [V] after a text, drafted tokens included; float32 at least, as in `generate`."""
        ids = torch.tensor([self.padding + context], device=logits.device)
        scores = (logits if logits.dtype == torch.float64 else logits.float())[None]
        for processor in self.processors:
            scores = processor(ids, scores)
        return scores[0]


def row_processors(processors: list[Any], row: int, padding: list[int]) -> RowProcessor | None:
    """What acts on row number `row`; None where nothing does.

    Two processors know the whole batch: they are made again for the one row.
    """

    def of_row(processor: Any) -> Any:
        if type(processor) is hf.RepetitionPenaltyLogitsProcessor:
            ignored = processor.prompt_ignore_length
            if isinstance(ignored, Tensor):
                ignored = ignored[row : row + 1]
            return hf.RepetitionPenaltyLogitsProcessor(processor.penalty, prompt_ignore_length=ignored)
        if type(processor) is hf.PrefixConstrainedLogitsProcessor:
            allowed, prompt = processor._prefix_allowed_tokens_fn, row // processor._num_beams
            return hf.PrefixConstrainedLogitsProcessor(lambda _, ids: allowed(prompt, ids), 1)
        return processor

    return RowProcessor([of_row(processor) for processor in processors], padding) if processors else None


def kept_back(name: str) -> Any:
    """An argument of the `generate` call under way that transformers 5.24 keeps from a callable, or None.

    `GenerationMixin._extract_generation_mode_kwargs` drops `streamer` and `assistant_model`. A streamer that
    is never ended makes its reader wait for ever, so the calling frame is asked for it.
    """
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "generate" and frame.f_globals["__name__"] == "transformers.generation.utils":
            return frame.f_locals.get(name)
        frame = frame.f_back
    return None
