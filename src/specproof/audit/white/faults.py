"""The library of known faults: the law that each of them gives out, from target rows and draft rows.

Named after what the faulty engine does. `audit.mutants` plants most of them in engines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from specproof.audit.white.emission import Floats, quotient

# From target rows [n, V] and draft rows [n, V] to the rows that come out [n, V].
Output = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True)
class Fault:
    """A known way to be wrong.

    Attributes:
        name: as reports say it.
        law: what comes out where there is a draft row, or anywhere if it needs none.
        needs_draft: whether it acts on drafted places only.
    """

    name: str
    law: Output
    needs_draft: bool = True

    def rows(self, target: Floats, draft: Floats) -> Floats:
        """[n, V] what comes out; the target's own rows where the fault does not act."""
        if not self.needs_draft:
            return self.law(target, draft)
        drafted = draft.sum(1) > 0
        out = target.copy()
        if drafted.any():
            out[drafted] = self.law(target[drafted], draft[drafted])
        return out


def distance(one: Floats, other: Floats) -> Floats:
    """[n] total variation between rows [n, V]."""
    return np.asarray(np.abs(one - other).sum(1) / 2)


def residual(target: Floats, draft: Floats) -> Floats:
    """[n, V] what rejection draws its correction from; the target's row where draft and target are equal."""
    rest = np.maximum(target - draft, 0)
    total = rest.sum(1, keepdims=True)
    return np.where(total > 0, quotient(rest, np.broadcast_to(total, rest.shape)), target)


def _rejection(proposed: Floats, accept: Floats, correction: Floats) -> Floats:
    """Law of accept-or-correct: proposal rows, chance of acceptance for each token, correction rows."""
    kept = proposed * accept
    return np.asarray(kept + np.maximum(1 - kept.sum(1, keepdims=True), 0) * correction)


def _accept(target: Floats, draft: Floats, lenience: float = 1.0) -> Floats:
    return np.minimum(quotient(lenience * target, draft), 1)


def redrawn(target: Floats, draft: Floats, lenience: float = 1.0) -> Floats:
    """The correction is drawn from the whole target row; with a lenience above 1 accepted too often besides."""
    return _rejection(draft, _accept(target, draft, lenience), target)


def absolute(target: Floats, draft: Floats) -> Floats:
    """The correction is drawn from |target - draft|."""
    away = np.abs(target - draft)
    total = away.sum(1, keepdims=True)
    rows = np.where(total > 0, quotient(away, np.broadcast_to(total, away.shape)), target)
    return _rejection(draft, _accept(target, draft), rows)


def lenient(target: Floats, draft: Floats, lenience: float = 1.1) -> Floats:
    """Acceptance is `lenience` times as likely as it should be."""
    return _rejection(draft, _accept(target, draft, lenience), residual(target, draft))


def likeliest(target: Floats, draft: Floats) -> Floats:
    """The draft's likeliest token is judged as if it had been drawn from the draft's row."""
    proposed = np.zeros_like(draft)
    proposed[np.arange(len(draft)), draft.argmax(1)] = 1
    return _rejection(proposed, _accept(target, draft), residual(target, draft))


def filtered_draft(target: Floats, draft: Floats, top_p: float = 0.9) -> Floats:
    """The draft was drawn from its nucleus and is judged by its whole row (transformers issue 47932)."""
    return _rejection(nucleus(draft, draft, top_p), _accept(target, draft), residual(target, draft))


def unverified(target: Floats, draft: Floats) -> Floats:
    """Whatever was drafted comes out."""
    return draft


def nucleus(target: Floats, draft: Floats, top_p: float) -> Floats:
    """Top-p that nobody asked for."""
    ordered = -np.sort(-target, axis=1)
    before = ordered.cumsum(1) - ordered
    floor = np.where(before < top_p, ordered, np.inf).min(1, keepdims=True)
    return _kept(target, target >= floor)


def top_k(target: Floats, draft: Floats, most: int) -> Floats:
    """Top-k that nobody asked for."""
    if most >= target.shape[1]:
        return target
    floor = -np.partition(-target, most - 1, axis=1)[:, most - 1 : most]
    return _kept(target, target >= floor)


def min_p(target: Floats, draft: Floats, share: float) -> Floats:
    """Min-p that nobody asked for."""
    return _kept(target, target >= share * target.max(1, keepdims=True))


def tempered(target: Floats, draft: Floats, exponent: float) -> Floats:
    """The rows raised to a power, which is 1 / temperature where the target's own is 1."""
    powers = quotient(target, np.broadcast_to(target.max(1, keepdims=True), target.shape)) ** exponent
    return np.asarray(powers / powers.sum(1, keepdims=True))


def _kept(rows: Floats, kept: np.ndarray) -> Floats:
    rows = np.where(kept, rows, 0)
    return np.asarray(rows / rows.sum(1, keepdims=True))


FAULTS: tuple[Fault, ...] = (
    Fault("correction drawn from the target's row", redrawn),
    Fault("correction drawn from |target - draft|", absolute),
    Fault("acceptance 1.1 times too likely", lenient),
    Fault("likeliest token drafted, judged by the soft row", likeliest),
    Fault("draft drawn after top-p 0.9, judged by the row before", filtered_draft),
    Fault("drafted tokens not verified", unverified),
    Fault("top-p 0.95 added", partial(nucleus, top_p=0.95), needs_draft=False),
    Fault("top-p 0.8 added", partial(nucleus, top_p=0.8), needs_draft=False),
    Fault("top-k 50 added", partial(top_k, most=50), needs_draft=False),
    Fault("top-k 10 added", partial(top_k, most=10), needs_draft=False),
    Fault("min-p 0.05 added", partial(min_p, share=0.05), needs_draft=False),
)

# Powers that the temperature arm bets on; 0.5 is twice the temperature.
EXPONENTS = (0.5, 0.7, 0.85, 0.93, 0.97, 1.03, 1.075, 1.2, 1.43, 2.0)


def temperature_fault(exponent: float) -> Fault:
    """The target at another temperature, wherever a token comes out."""
    return Fault(f"temperature times {1 / exponent:.2f}", partial(tempered, exponent=exponent), needs_draft=False)
