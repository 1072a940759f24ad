"""Specification of K-SEQ (Sun et al. 2023, algorithm 2)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from specproof.rules.spec.numbers import Number, Numbers, Row, SpecLaw
from specproof.rules.spec.topdown import Judgement, top_down
from specproof.tree import Tree

Slack = Callable[[Row, Row, int], Number]  # target row, drawn row, number of drafts


def smallest_slack(target: Row, drawn: Row, count: int) -> Fraction:
    """The least valid slack, found by bisection and rounded up by at most count / 2^64; on `Fraction` only."""
    return _smallest_slack(tuple(target), tuple(drawn), count)


def kseq(
    number: Numbers,
    target: list[Row],
    drawn: list[Row],
    tree: Tree,
    tokens: list[int],
    slack: Slack = smallest_slack,
) -> SpecLaw:
    """Test the drafts in turn, each against the whole target row divided by `slack`.

    The output law is the target's for every slack >= 1; it is a law, with no negative residual, where
    1 - (1 - b)^k <= slack · b with b = sum of min(target / slack, drawn). A proof passes a variable with this
    constraint, see `valid`.
    """

    def judge(target: Row, drawn: Row, tokens: list[int]) -> Judgement:
        loose = slack(target, drawn, len(tokens))
        refused: Number = 1
        taken = []
        for token in tokens:
            accept = number.minimum(1, target[token] / (loose * drawn[token]))
            taken.append(refused * accept)
            refused = refused * (1 - accept)
        shared = [number.minimum(p / loose, q) for p, q in zip(target, drawn, strict=True)]
        tries = expected_tries(sum(shared), len(tokens))
        return Judgement(taken, [p - both * tries for p, both in zip(target, shared, strict=True)])

    return top_down(number, target, drawn, (tree, tokens), judge)


def expected_tries(accepted: Number, count: int) -> Number:
    """How many of `count` drafts are tested: (1 - (1 - accepted)^count) / accepted, as a sum."""
    tries: Number = 0
    untested: Number = 1
    for _ in range(count):
        tries = tries + untested
        untested = untested * (1 - accepted)
    return tries


def excess_slack(number: Numbers, target: Row, drawn: Row, count: int, slack: Number) -> Number:
    """What has to be >= 0 for a slack >= 1 to be valid: how far target mass exceeds the acceptances at it."""
    return slack - expected_tries(
        sum(number.minimum(p / slack, q) for p, q in zip(target, drawn, strict=True)), count
    )


@lru_cache(maxsize=4096)
def _smallest_slack(target: tuple[Number, ...], drawn: tuple[Number, ...], count: int) -> Fraction:
    low, high = Fraction(1), Fraction(count)
    for _ in range(64 if count > 1 else 0):
        middle = (low + high) / 2
        accepted = sum(min(p / middle, q) for p, q in zip(target, drawn, strict=True))
        low, high = (low, middle) if expected_tries(accepted, count) <= middle else (middle, high)
    return high
