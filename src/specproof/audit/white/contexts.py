"""The contexts of a panel: prefixes that are repeated, and what is likely to come after them, scored beforehand.

Which contexts are looked at, and in which cells draws are counted there, follows from the target's rows alone:
a context counts if it is expected often enough. So every test on them is fixed before the first draw.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from specproof.audit.white.emission import Floats, Integers
from specproof.audit.white.forcing import Reference, nudged_row, whole_row
from specproof.audit.white.panel import FEWEST_EXPECTED, cells
from specproof.types import TokenSequence

# A context has to be expected so often.
FEWEST = 16.0


class Place(NamedTuple):
    """Where in the panel: number of the prefix, and the tokens after it."""

    prefix: int
    path: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Context:
    """A place that is looked at.

    Attributes:
        place: where it is.
        expected: draws that are expected to come there.
        row: [V] the target's.
        owner: [V] the cell of each token; -1 without mass.
        masses: [K] of the cells.
    """

    place: Place
    expected: float
    row: Floats
    owner: Integers
    masses: Floats

    @staticmethod
    def of(place: Place, expected: float, row: Floats) -> Context:
        """With cells for as many draws as are expected."""
        owner = cells(row, max(1, int(expected)))
        inside = owner >= 0
        masses = np.bincount(owner[inside], row[inside], int(owner.max()) + 1)
        return Context(place, expected, row, owner, np.asarray(masses / masses.sum()))

    def pooled(self, rows: Floats) -> Floats:
        """[K] masses of a row [V] in these cells; what lies outside of all is left out."""
        inside = self.owner >= 0
        return np.asarray(np.bincount(self.owner[inside], rows[inside], len(self.masses)), dtype=np.float64)


@dataclass
class Prefixes:
    """What is repeated, and the reference for it.

    Attributes:
        starts: the sequence of each prefix, before its first token.
        reference: scores texts.
        draws, depth: as in the plan.
    """

    starts: Sequence[TokenSequence]
    reference: Reference
    draws: int
    depth: int
    contexts: dict[Place, Context] = field(default_factory=dict)

    def score(self) -> None:
        """Score every context that is expected at least `FEWEST` times."""
        for prefix in range(len(self.starts)):
            level = [(Place(prefix, ()), float(self.draws))]
            for _ in range(self.depth):
                level = [following for place, often in level for following in self._grown(place, often)]

    def chance(self, prefix: int, text: tuple[int, ...]) -> float:
        """Logarithm of a text's probability after a prefix."""
        start = self.starts[prefix]
        logits = self.reference([*start.tokens, *text], len(start.tokens))
        places = (Place(prefix, text[:at]) for at in range(len(text)))
        rows = [whole_row(self._at(place), each) for place, each in zip(places, logits, strict=True)]
        with np.errstate(divide="ignore"):
            return float(sum(np.log(row[token]) for row, token in zip(rows, text, strict=True)))

    def row(self, place: Place) -> Floats:
        """[V] the target's row there."""
        start = self.starts[place.prefix]
        return whole_row(self._at(place), self.reference([*start.tokens, *place.path, 0], self._length(place))[0])

    def at_edge(self, place: Place, token: int, margin: float) -> bool:
        """Whether a token without mass has some once its logit is raised by the margin that rounding has."""
        start = self.starts[place.prefix]
        logits = self.reference([*start.tokens, *place.path, 0], self._length(place))[0]
        return margin > 0 and bool(nudged_row(self._at(place), logits, token, margin)[token] > 0)

    def _grown(self, place: Place, often: float) -> Iterator[tuple[Place, float]]:
        context = self.contexts[place] = Context.of(place, often, self.row(place))
        start = self.starts[place.prefix]
        for token in np.flatnonzero(often * context.row >= FEWEST):
            # After the end of a text nothing comes.
            if int(token) not in start.ends:
                yield Place(place.prefix, (*place.path, int(token))), float(often * context.row[token])

    def _length(self, place: Place) -> int:
        return len(self.starts[place.prefix].tokens) + len(place.path)

    def _at(self, place: Place) -> TokenSequence:
        start = self.starts[place.prefix]
        return replace(start, tokens=[*start.tokens, *place.path])


def informative(rows: Floats, draws: int) -> Integers:
    """[n] how many tokens of each row [n, V] expect five draws or more: where a panel sees most."""
    return np.asarray((draws * rows >= FEWEST_EXPECTED).sum(1))
