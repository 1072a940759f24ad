"""Specification of greedy multi-path block verification (Thomas and Pal 2026)."""

from __future__ import annotations

from specproof.rules.spec.block import block
from specproof.rules.spec.numbers import Number, Numbers, Row, SpecLaw
from specproof.tree import Tree


def multipath(number: Numbers, target: list[Row], drawn: list[Row], tree: Tree, tokens: list[int]) -> SpecLaw:
    """Keep the largest chain by target/draft; it was drawn from known rows: judge it as a block with those."""
    leaves = [node for node in range(len(tree)) if node not in tree.parents]
    first: dict[tuple[int, ...], int] = {(): -1}  # the first node with that text
    for node in range(len(tree)):
        first.setdefault(_text(tree, tokens, node), node)
    stop: list[Number] = [0] * (len(tree) + 1)
    following = list(target)
    texts = [_text(tree, tokens, leaf) for leaf in leaves]
    for i, text in enumerate(texts):
        rows = [first[text[:depth]] + 1 for depth in range(len(text) + 1)]
        judged, source = [target[row] for row in rows], [drawn[row] for row in rows]
        kept: Number = 1  # 1 if this is the kept chain, else 0
        for j, other in enumerate(texts):
            if text != other:
                kept = kept * _larger(number, judged, source, text, other)
            elif j < i:
                kept = 0
        law = block(
            number, judged, _kept_rows(number, judged, source, text, len(texts)), Tree.chain(len(text)), list(text)
        )
        for row, mass, extra in zip(rows, law.stop, law.next, strict=True):
            stop[row] = stop[row] + kept * mass
            following[row] = extra  # the same whichever chain with this text is kept
    return SpecLaw(stop, following) if texts else SpecLaw([1], following)


def _text(tree: Tree, tokens: list[int], node: int) -> tuple[int, ...]:
    return tuple(tokens[i] for i in tree.path(node))


def _larger(
    number: Numbers, target: list[Row], drawn: list[Row], text: tuple[int, ...], other: tuple[int, ...]
) -> Number:
    """1 if `text` comes after `other` in the order, else 0; rows are those along `text`."""
    depth = next(d for d, (a, b) in enumerate(zip(text, other, strict=True)) if a != b)
    return _after(number, target[depth], drawn[depth], text[depth], other[depth])


def _after(number: Numbers, target: Row, drawn: Row, token: int, other: int) -> Number:
    """1 if target/drawn of `token` is larger, or equal and its number is; else 0."""
    gap = target[token] * drawn[other] - target[other] * drawn[token]
    if token > other:
        return number.if_positive(-gap, lambda: 0, lambda: 1)
    return number.if_positive(gap, lambda: 1, lambda: 0)


def _kept_rows(
    number: Numbers, target: list[Row], drawn: list[Row], text: tuple[int, ...], chains: int
) -> list[Row]:
    """Rows that the largest of independent chains was drawn from, along its tokens."""
    rows: list[Row] = []
    below: Number = 0  # mass of all chains smaller than those that begin like this one
    begun: Number = 1  # mass of those
    for depth, token in enumerate(text):
        p, q = target[depth], drawn[depth]
        every = _chord(below, below + begun, chains)
        low = [
            below + begun * sum(q[y] * _after(number, p, q, x, y) for y in range(len(q)) if y != x)
            for x in range(len(q))
        ]
        rows.append([q[x] * _chord(low[x], low[x] + begun * q[x], chains) / every for x in range(len(q))])
        below, begun = low[token], begun * q[token]
    return [*rows, []]


def _chord(low: Number, high: Number, count: int) -> Number:
    """(high^count - low^count) / (high - low) as a sum of products."""
    total: Number = 0
    for power in range(count):
        term: Number = 1
        for factor in [high] * power + [low] * (count - 1 - power):
            term = term * factor
        total = total + term
    return total
