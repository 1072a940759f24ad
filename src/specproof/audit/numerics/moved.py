"""What happened to a row: distances, the likeliest token, and how close the decision was; position by position."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specproof.audit.numerics.blocks import Text, rows, standing
from specproof.sampling import fold

QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class Moved:
    """Rows against other rows, one entry a position in every array [n].

    Attributes:
        tv: total variation.
        kl: Kullback-Leibler divergence from the other row, in nats; infinite where a token lost all mass.
        log: largest |difference of log p| over the tokens that have mass in both.
        flip: whether another token is the likeliest.
        gap: of the other row: log p of the likeliest token minus that of the next, before temperature and filters.
        support: whether some token has mass in one row only.
        spread: standard deviation of the difference of the logits; a shift of all of them counts as nothing.
        scale: standard deviation of the other logits themselves.
    """

    tv: NDArray[np.float64]
    kl: NDArray[np.float64]
    log: NDArray[np.float64]
    flip: NDArray[np.bool_]
    gap: NDArray[np.float64]
    support: NDArray[np.bool_]
    spread: NDArray[np.float64]
    scale: NDArray[np.float64]

    @staticmethod
    def joined(parts: list[Moved]) -> Moved:
        """One after the other."""
        return Moved(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Moved)))


@dataclass(frozen=True)
class Summary:
    """`Moved` in numbers.

    Attributes:
        positions: how many rows were compared.
        tv, kl, log: mean, median, 90 %, 99 % and largest.
        flips: rows whose likeliest token is another one.
        widest: the largest gap between the two likeliest tokens at which that happened; 0 if it never did.
        support: rows with a token that has mass in one of the two only.
    """

    positions: int
    tv: tuple[float, ...]
    kl: tuple[float, ...]
    log: tuple[float, ...]
    flips: int
    widest: float
    support: int

    @staticmethod
    def of(moved: Moved) -> Summary:
        """Of arrays with at least one position."""
        widest = float(moved.gap[moved.flip].max(initial=0.0))
        tv, kl, log = (_numbers(each) for each in (moved.tv, moved.kl, moved.log))
        return Summary(len(moved.tv), tv, kl, log, int(moved.flip.sum()), widest, int(moved.support.sum()))


def _numbers(values: NDArray[np.float64]) -> tuple[float, ...]:
    # An infinite neighbour makes an interpolated quantile NaN.
    between = (float(np.quantile(values, q, method="inverted_cdf")) for q in QUANTILES)
    return float(values.mean()), *between, float(values.max())


def compare(text: Text, first: int, logits: Tensor, others: Tensor) -> Moved:
    """Rows of logits [n, V] against rows of other logits [n, V], both for tokens of `text` from `first` on."""
    found, other = rows(text, first, logits), rows(text, first, others)
    both = (found > 0) & (other > 0)
    ratio = torch.where(both, other.log() - found.log(), 0.0)
    lost = (other > 0) & (found == 0)
    kl = (other * ratio).sum(-1).masked_fill(lost.any(-1), torch.inf).clamp(min=0)
    sequence, draft = standing(text, first, len(logits))
    scores, plain = (fold(each.double()[None], [sequence], draft)[0] for each in (logits, others))
    top = plain.topk(2).values
    away = logits.double() - others.double()
    away = away - away.mean(-1, keepdim=True)
    found_here = (
        (found - other).abs().sum(-1) / 2,
        kl,
        ratio.abs().amax(-1),
        scores.argmax(-1) != plain.argmax(-1),
        top[:, 0] - top[:, 1],
        ((found > 0) != (other > 0)).any(-1),
        away.square().mean(-1).sqrt(),
        others.double().std(-1),
    )
    return Moved(*(each.numpy() for each in found_here))
