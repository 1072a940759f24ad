"""Specification of DropMatch (2603.03333). Its test takes logarithms: for Python's own numbers only."""

from math import exp, log

from specproof.rules.spec.longest import longest_path
from specproof.rules.spec.numbers import Number, Numbers, Row, SpecLaw
from specproof.tree import Tree


def dropmatch(
    number: Numbers,
    target: list[Row],
    drawn: list[Row],
    tree: Tree,
    tokens: list[int],
    *,
    masked: list[list[Row]] | None = None,
) -> SpecLaw:
    """A token passes if its row is no farther from the centre than some masked row, or by majority vote."""
    assert tree.is_chain
    masked = [[row] for row in target] if masked is None else masked
    passes: list[Number] = [
        int(_close(drawn[i], masked[i]) or _vote(masked[i]) == token) for i, token in enumerate(tokens)
    ]
    return SpecLaw(longest_path(tree, passes), list(target))


def _close(drawn: Row, masked: list[Row]) -> bool:
    centre = _centre(masked)
    return _jensen_shannon(drawn, centre) <= max(_jensen_shannon(row, centre) for row in masked)


def _vote(masked: list[Row]) -> int:
    """The token that is the largest of most masked rows; of equal ones the lowest, in both counts."""
    first = [row.index(max(row)) for row in masked]
    return min(first, key=lambda token: (-first.count(token), token))


def _centre(masked: list[Row]) -> list[float]:
    """The softmax of the mean logits: the normalised geometric mean, uniform where no token is in all rows."""
    size = len(masked[0])
    mean = [
        exp(sum(log(row[token]) for row in masked) / len(masked)) if all(row[token] > 0 for row in masked) else 0.0
        for token in range(size)
    ]
    total = sum(mean)
    return [mass / total for mass in mean] if total > 0 else [1 / size] * size


def _jensen_shannon(row: Row, other: list[float]) -> float:
    middle = [(float(p) + q) / 2 for p, q in zip(row, other, strict=True)]
    return (_kl([float(p) for p in row], middle) + _kl(other, middle)) / 2


def _kl(row: list[float], other: list[float]) -> float:
    return sum(p * log(p / q) for p, q in zip(row, other, strict=True) if p > 0)
