"""From logits to rows: the one `warp` used by target, drafter, baseline and auditor.

Order and meaning of the filters follow transformers' logits processors (temperature, top-k, top-p, min-p),
with one difference: tokens that tie with the last one kept by top-p are kept as well, where transformers
keeps whichever its sort put first. A law must not depend on a sort.
"""

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor

from specproof.errors import NumericsError
from specproof.types import SamplingParams, TokenSequence

# Wide enough that nearly every nucleus lies inside; a full sort of a large vocabulary costs a forward pass.
_NUCLEUS_GUESS = 256


def warp(logits: Tensor, params: SamplingParams) -> Tensor:
    """Next-token rows [..., V] from logits [..., V]: float32 or better, each sums to 1.

    Temperature 0 gives a one-hot row at the first maximum.

    Raises:
        NumericsError: a row has a NaN or no finite logit.
    """
    scores = logits if logits.dtype == torch.float64 else logits.float()
    if params.temperature == 0:
        peak, first = scores.max(-1, keepdim=True)
        _check(bool(torch.isfinite(peak).all()))  # max propagates NaN
        return torch.zeros_like(scores).scatter_(-1, first, 1)
    if params.temperature != 1:
        # Subtracting the peak first keeps tiny temperatures from overflowing.
        scores = (scores - scores.amax(-1, keepdim=True)).div_(params.temperature)
    if 0 < params.top_k < scores.shape[-1]:
        floor = scores.topk(params.top_k).values[..., -1:]
        scores = scores.masked_fill(scores < floor, -torch.inf)
    rows = scores.softmax(-1)
    # A softmax over NaN, +infinity, or nothing finite is NaN everywhere, so one token of each row tells.
    _check(not bool(rows[..., 0].sum().isnan()))
    if params.top_p < 1:
        rows = _keep(rows, rows >= _nucleus_floor(rows, params.top_p))
    if params.min_p > 0:
        rows = _keep(rows, rows >= params.min_p * rows.amax(-1, keepdim=True))
    return rows


def warp_batch(logits: Tensor, batch: Sequence[TokenSequence]) -> Tensor:
    """`warp` for logits [B, ..., V], each sequence under its own parameters.

    Raises:
        NumericsError: names the sequence (its place in the batch) whose logits are no distribution.
    """
    rows: list[Tensor] = []
    for params, group in groupby(batch, key=lambda sequence: sequence.params):
        first = sum(len(part) for part in rows)
        part = logits[first : first + len(list(group))]
        try:
            rows.append(warp(part, params))
        except NumericsError as error:
            finite = torch.isfinite(part.amax(-1)).flatten(1).all(1)
            raise NumericsError(f"sequence {first + int(finite.long().argmin())}: {error}") from error
    return torch.cat(rows) if len(rows) > 1 else rows[0]


def _nucleus_floor(rows: Tensor, top_p: float) -> Tensor:
    """Smallest probability [..., 1] in the smallest set of top tokens that holds mass `top_p`."""
    size = rows.shape[-1]
    for width in (min(size, _NUCLEUS_GUESS), size):
        top = rows.topk(width).values
        above = top.cumsum(-1) - top  # mass of the tokens ranked strictly before
        if width == size or bool((above[..., -1] >= top_p).all()):
            break
    # The first token is always kept: nothing ranks above it.
    return top.masked_fill(above >= top_p, 2).amin(-1, keepdim=True)


def _check(finite: bool) -> None:
    if not finite:
        raise NumericsError("logits hold NaN or infinity where a distribution was expected")


def _keep(rows: Tensor, kept: Tensor) -> Tensor:
    rows = rows.masked_fill(~kept, 0)
    return rows / rows.sum(-1, keepdim=True)
