"""The best plan for children drawn without replacement, by maximal flow; plain Python, for floats and fractions.

Every set that may be drawn has to be named, so this is for small vocabularies.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

from specproof.errors import SpecproofError

Number = Any  # float or Fraction
Tokens = tuple[int, ...]  # ascending
Moved = dict[Tokens, dict[int, Number]]

MOST_SETS = 256


class Plan(NamedTuple):
    """What is taken of which drawn set.

    Attributes:
        taken: for each set, the probability to take each of its tokens, once this set was drawn.
        given: for each token, what it gets altogether.
    """

    taken: Moved
    given: list[Number]


def best_plan(target: Sequence[Number], drawn: Sequence[Number], count: int, tiny: Number = 0) -> Plan:
    """The plan for `count` draws that takes as much as any lossless rule can; no token gets more than its mass.

    A row with fewer tokens gives them all.

    Args:
        target, drawn: rows.
        count: draws without replacement.
        tiny: what counts as nothing; above 0 for floats.

    Raises:
        SpecproofError: there are more than MOST_SETS sets.
    """
    law = set_law(drawn, count)
    left, need = dict(law), list(target)
    plan: Moved = {tokens: dict.fromkeys(tokens, 0 * drawn[0]) for tokens in left}
    holders: dict[int, list[Tokens]] = defaultdict(list)
    for tokens in plan:
        for token in tokens:
            holders[token].append(tokens)
    while path := _augmenting_path(plan, holders, left, need, tiny):
        source, end = path[0][0], path[-1][1]
        # Along the path each set gives to the next token what it gave to the one before.
        takes = [(tokens, token) for (tokens, _), (_, token) in zip(path[1:], path[:-1], strict=True)]
        amount = min([left[source], need[end], *(plan[tokens][token] for tokens, token in takes)])
        left[source] -= amount
        need[end] -= amount
        for tokens, token in path:
            plan[tokens][token] += amount
        for tokens, token in takes:
            plan[tokens][token] -= amount
    taken = {tokens: {x: mass / law[tokens] for x, mass in parts.items()} for tokens, parts in plan.items()}
    return Plan(taken, [sum(plan[tokens][x] for tokens in holders[x]) for x in range(len(need))])


def set_law(drawn: Sequence[Number], count: int) -> dict[Tokens, Number]:
    """Probability of each set of `count` draws without replacement; see `best_plan` for errors."""
    support = [token for token, mass in enumerate(drawn) if mass > 0]
    size = min(count, len(support))
    if comb(len(support), size) > MOST_SETS:
        raise SpecproofError(
            f"rule 'transport' plans for each set that may be drawn without replacement, at most {MOST_SETS}; "
            f"{size} of {len(support)} tokens give {comb(len(support), size)}: "
            "draw fewer children, from fewer tokens (top_k), or independently"
        )
    law: dict[Tokens, Number] = {(): 1}
    for length in range(1, size + 1):
        larger: dict[Tokens, Number] = {}
        for tokens in combinations(support, length):
            # By the token that was drawn last.
            larger[tokens] = sum(
                law[others] * drawn[token] / sum(drawn[x] for x in support if x not in others)
                for token, others in ((x, tuple(y for y in tokens if y != x)) for x in tokens)
            )
        law = larger
    return law


def _augmenting_path(
    plan: Moved, holders: dict[int, list[Tokens]], left: dict[Tokens, Number], need: list[Number], tiny: Number
) -> list[tuple[Tokens, int]]:
    """A shortest way from a set with something left to a token in need: (set, token it gives to); or nothing."""
    came: dict[int, tuple[Tokens, int | None]] = {}
    queue: deque[int] = deque()

    def reach(tokens: Tokens, origin: int | None) -> None:
        for token in tokens:
            if token not in came:
                came[token] = (tokens, origin)
                queue.append(token)

    for tokens, mass in left.items():
        if mass > tiny:
            reach(tokens, None)
    while queue:
        token = queue.popleft()
        if need[token] > tiny:
            path: list[tuple[Tokens, int]] = []
            at: int | None = token
            while at is not None:
                path.append((came[at][0], at))
                at = came[at][1]
            return path[::-1]
        for tokens in holders[token]:
            if plan[tokens][token] > tiny:
                reach(tokens, token)
    return []
