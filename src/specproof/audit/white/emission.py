"""What an audit knows of each token that an engine gave out: the law it should have had, and the draft's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Emissions:
    """Some emitted tokens, in the order in which they came out.

    Everything but `tokens` has to be known before the token it stands beside; only then is a bet on it fair.

    Attributes:
        tokens: [n] what came out.
        target: [n, V] the row that each should have been drawn from; sums to 1.
        draft: [n, V] the row that a token was drafted from at that place; zero where there was none.
        noise: [n] uniform in [0, 1), fresh: makes the position of a token in its row continuous.
        strata: [n] which part of a draft the place is in, see `STRATA`.
        follows: [n] whether the emission before it in this object is the token before it in the text.
    """

    tokens: Integers
    target: Floats
    draft: Floats
    noise: Floats
    strata: Integers
    follows: Flags

    def __len__(self) -> int:
        return len(self.tokens)

    @staticmethod
    def of(tokens: Any, target: Any, draft: Any = None, noise: Any = None, strata: Any = None) -> Emissions:
        """Emissions of one text from what is there: no draft rows, the middle of each token, one stratum."""
        tokens, target = np.asarray(tokens, dtype=np.int64), np.asarray(target, dtype=np.float64)
        count = len(tokens)
        return Emissions(
            tokens,
            target,
            np.zeros_like(target) if draft is None else np.asarray(draft, dtype=np.float64),
            np.full(count, 0.5) if noise is None else np.asarray(noise, dtype=np.float64),
            np.zeros(count, dtype=np.int64) if strata is None else np.asarray(strata, dtype=np.int64),
            np.arange(count) > 0,
        )

    @staticmethod
    def join(parts: Sequence[Emissions]) -> Emissions:
        """Several one after the other."""
        return Emissions(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Emissions)))

    def some(self, chosen: Any) -> Emissions:
        """Those at `chosen`, a slice or flags; what is left out breaks the link to its successor."""
        picked = {field.name: getattr(self, field.name)[chosen] for field in fields(self)}
        places = np.arange(len(self))[chosen]
        linked = np.diff(places, prepend=-2) == 1
        return Emissions(**picked | {"follows": picked["follows"] & linked})

    def at_token(self, rows: Floats) -> Floats:
        """[n] the entry of each of rows [n, V] at the emitted token."""
        return rows[np.arange(len(self)), self.tokens]

    @cached_property
    def mass(self) -> Floats:
        """[n] probability of each token under its target row."""
        return self.at_token(self.target)

    @cached_property
    def drafted(self) -> Flags:
        """[n] where there was a draft row."""
        return np.asarray(self.draft.sum(1) > 0)

    @cached_property
    def log_target(self) -> Floats:
        """[n, V] logarithm of the target rows, minus infinity where they are zero."""
        with np.errstate(divide="ignore"):
            return np.log(self.target)

    @cached_property
    def ratio(self) -> Floats:
        """[n, V] draft over target, 0 where the target has no mass."""
        return quotient(self.draft, self.target)


def quotient(above: Floats, below: Floats) -> Floats:
    """Elementwise quotient, 0 where the divisor is."""
    with np.errstate(over="ignore"):
        return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


# Places in a draft. Each is a stratum with evidence of its own: a fault of the bonus token is diluted elsewhere.
STRATA = ("first node", "second node", "third node", "later nodes", "bonus", "no draft")
BONUS, UNDRAFTED = 4, 5
