"""The best choice of one token out of k independent draws, in exact scalars; see `rules.selector` for why.

It sorts and compares, so it runs on `Fraction` only; the rule around it takes any selector.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

Exact = tuple[Fraction, ...]


@lru_cache(maxsize=4096)
def thresholds(target: Exact, drawn: Exact, count: int) -> tuple[list[Fraction], list[int]]:
    """Until when each cut between tokens is there, and the place of each token (0 for those never drawn)."""
    density = best_density(target, drawn, count)
    order = sorted(density, key=lambda x: (density[x], x))
    cuts = [sum((drawn[x] for x in order[: i + 1]), Fraction(0)) for i in range(len(order) - 1)]
    corners = [density[b] - density[a] for a, b in pairwise(order)]
    ranks = [order.index(x) if x in density else 0 for x in range(len(drawn))]
    return _until(cuts, corners, count), ranks


def best_density(target: Exact, drawn: Exact, count: int) -> dict[int, Fraction]:
    """Of the best law: what each token gets, as a multiple of its draft probability."""
    support = [x for x, mass in enumerate(drawn) if mass > 0]
    order = sorted(support, key=lambda x: (target[x] / drawn[x], x))
    below = [sum((target[x] for x in order[:i]), Fraction(0)) for i in range(len(order) + 1)]
    under = [sum((drawn[x] for x in order[:i]), Fraction(0)) for i in range(len(order) + 1)]
    gain = max(q**count - p for p, q in zip(below, under, strict=True))
    cut = next(i for i in range(len(order) + 1) if under[i] ** count - below[i] == gain)
    floor = min(((gain + below[i]) / under[i] for i in range(1, cut + 1)), default=Fraction(0))
    ceiling = [(1 - below[i] - gain) / (1 - under[i]) for i in range(cut, len(order))]
    density = {x: max(target[x] / drawn[x], floor) for x in support}
    return {x: min(mass, max(ceiling)) for x, mass in density.items()} if ceiling else density


def chances(until: list[Fraction], ranks: list[int]) -> list[Fraction]:
    """Chance of each draw to be chosen: of the mixture's part in which it is the first of the highest block."""
    top = max(ranks)
    earlier, found = Fraction(1), []
    for rank in ranks:
        together = max(until[rank:top], default=Fraction(0))
        found.append(max(earlier - together, Fraction(0)))
        earlier = min(earlier, together)
    return found


def _until(cuts: list[Fraction], corners: list[Fraction], count: int) -> list[Fraction]:
    """Take the inscribed polygon with a corner at every cut in use out of the curve, until one is used up."""
    until = [Fraction(int(corner > 0)) for corner in corners]
    alive = [i for i, corner in enumerate(corners) if corner > 0]
    left, corners = Fraction(1), list(corners)
    while left and alive:
        points = [Fraction(0), *(cuts[i] for i in alive), Fraction(1)]
        chords = [(b**count - a**count) / (b - a) for a, b in pairwise(points)]
        bends = {i: after - before for i, before, after in zip(alive, chords[:-1], chords[1:], strict=True)}
        taken = min(left, *(corners[i] / bends[i] for i in alive))
        left -= taken
        for i in alive:
            corners[i] -= taken * bends[i]
            until[i] = until[i] if corners[i] else 1 - left
        alive = [i for i in alive if corners[i]]
    return until
