"""Filters that need no context: temperature, top-k, top-p, min-p.

Order and meaning of the filters follow transformers' logits processors (temperature, top-k, top-p, min-p),
with one difference: tokens that tie with the last one kept by top-p are kept as well, where transformers
keeps whichever its sort put first. A law must not depend on a sort.
"""

import torch
from torch import Tensor

from specproof.errors import NumericsError
from specproof.types import SamplingParams

# Wide enough that nearly every nucleus lies inside; a full sort of a large vocabulary costs a forward pass.
_NUCLEUS_GUESS = 256


def warp(logits: Tensor, params: SamplingParams) -> Tensor:
    """Next-token rows [..., V] from logits [..., V], under the parameters that need no context.

    Raises:
        NumericsError: a row has a NaN, +infinity or no finite logit.
    """
    rows = filtered(logits, params)
    if bool(rows[..., 0].isnan().any()):
        raise NumericsError("logits hold NaN or infinity where a distribution was expected")
    return rows


def settings(params: SamplingParams) -> tuple[float, ...]:
    """All that `filtered` reads: sequences that agree on it can be filtered together."""
    return params.temperature, params.top_k, params.top_p, params.min_p


def filtered(logits: Tensor, params: SamplingParams) -> Tensor:
    """As `warp`, but a row that is no distribution comes out as NaN everywhere.

    Float32 or better, each row sums to 1. Temperature 0 gives a one-hot row at the first maximum.
    """
    scores = precise(logits)
    if params.temperature == 0:
        peak, first = scores.max(-1, keepdim=True)  # max propagates NaN
        rows = torch.zeros_like(scores).scatter_(-1, first, 1)
        broken = ~torch.isfinite(peak)
        return rows.masked_fill_(broken, torch.nan) if bool(broken.any()) else rows
    if params.temperature != 1:
        # Subtracting the peak first keeps tiny temperatures from overflowing.
        scores = (scores - scores.amax(-1, keepdim=True)).div_(params.temperature)
    if 0 < params.top_k < scores.shape[-1]:
        floor = scores.topk(params.top_k).values[..., -1:]
        scores = scores.masked_fill(scores < floor, -torch.inf)
    rows = scores.softmax(-1)  # NaN everywhere over NaN, +infinity, or nothing finite
    if params.top_p < 1:
        rows = _keep(rows, rows >= _nucleus_floor(rows, params.top_p))
    if params.min_p > 0:
        rows = _keep(rows, rows >= params.min_p * rows.amax(-1, keepdim=True))
    return rows


def precise(logits: Tensor) -> Tensor:
    """In float32 or better."""
    return logits if logits.dtype == torch.float64 else logits.float()


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


def _keep(rows: Tensor, kept: Tensor) -> Tensor:
    rows = rows.masked_fill(~kept, 0)
    return rows / rows.sum(-1, keepdim=True)
