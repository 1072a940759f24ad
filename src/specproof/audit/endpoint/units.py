"""Texts as sequences of units, and the places where texts of one prompt have the same past.

A unit is a token where the server tells its tokens, else a word: any fixed way to cut texts is fair, as it is the
same with speculation and without.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from specproof.audit.endpoint.wire import Answer
from specproof.audit.white.emission import Integers

Units = tuple[str, ...]
_WORD = re.compile(r"\s*\w+|\s*[^\w\s]|\s+")
_END = "\x00end"
# Places that fewer texts come to say nothing; units that fewer texts have are counted together.
FEWEST_TEXTS = 40
FEWEST_UNITS = 10


def units(answer: Answer, told: bool) -> Units:
    """The units of an answer, its end included.

    Args:
        answer: a text.
        told: whether the server tells tokens.
    """
    if not told:
        parts: Sequence[str] = _WORD.findall(answer.text)
    elif answer.ids:
        parts = [str(token) for token in answer.ids]
    else:
        parts = answer.tokens
    return (*parts, f"{_END} {answer.finish}")


class Place(NamedTuple):
    """Texts with one past.

    Attributes:
        texts: [N] their numbers.
        next: [N] number of the unit that each goes on with, likeliest first.
        kinds: how many different ones there are.
    """

    texts: Integers
    next: Integers
    kinds: int

    @property
    def counts(self) -> Integers:
        """[kinds] how many texts go on with each."""
        return np.bincount(self.next, minlength=self.kinds)

    def cells(self) -> Integers:
        """[kinds] the cell of each unit: rare ones share the last.

        Cells depend on both arms' texts together, so labels of arms can be exchanged without changing them.
        """
        counts = self.counts
        alone = int((counts >= FEWEST_UNITS).sum())
        rest = int(counts[alone:].sum())
        last = alone if rest >= FEWEST_UNITS or alone == 0 else alone - 1
        return np.minimum(np.arange(self.kinds), last)


def places(texts: Sequence[Units], fewest: int = FEWEST_TEXTS) -> Iterator[Place]:
    """Every past that at least `fewest` texts share and that they go on from in more than one way.

    Args:
        texts: of one prompt, of both arms.
        fewest: see above.
    """
    waiting = [(np.arange(len(texts)), 0)]
    while waiting:
        here, depth = waiting.pop()
        following = np.array([texts[int(number)][depth] for number in here])
        kinds, inverse, counts = np.unique(following, return_inverse=True, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        rank = np.argsort(order, kind="stable")
        place = Place(here, rank[inverse], len(kinds))
        if place.cells().max() > 0:
            yield place
        for kind in order:
            if counts[kind] >= fewest and not kinds[kind].startswith(_END):
                waiting.append((here[inverse == kind], depth + 1))
