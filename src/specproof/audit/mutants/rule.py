"""Faults of verification rules, as specifications: what to accept, and what to draw after a refusal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import exp

from specproof.audit.fractions import Spec
from specproof.rules.spec.numbers import Number, Numbers, Row, SpecLaw, excess, normalised, ratio, without
from specproof.rules.spec.rejection import rejection
from specproof.rules.spec.siblings import siblings, siblings_without_replacement
from specproof.tree import Tree

Redraw = Callable[[Numbers, Row, Row, int], Row]  # target row, drawn row and refused token to another row


def redrawn(redraw: Redraw) -> Spec:
    """Rejection with another law of the token that comes in a refused one's place."""

    def spec(number: Numbers, target: list[Row], drawn: list[Row], tree: Tree, tokens: list[int]) -> SpecLaw:
        right = rejection(number, target, drawn, tree, tokens)
        rows = [redraw(number, target[i], drawn[i], token) for i, token in enumerate(tokens)]
        return SpecLaw(right.stop, [*rows, target[len(tokens)]])

    return spec


def from_target(number: Numbers, target: Row, drawn: Row, token: int) -> Row:
    """The whole target row."""
    return target


def softmax(number: Numbers, target: Row, drawn: Row, token: int) -> Row:
    """A softmax over the residual, where it should be divided by its sum."""
    weights = [Fraction(exp(float(mass))) for mass in excess(number, target, drawn)]
    return normalised(number, weights, target)


def less_the_drafted(number: Numbers, target: Row, drawn: Row, token: int) -> Row:
    """The target less what was drawn of the refused token alone."""
    only = [mass if x == token else 0 for x, mass in enumerate(drawn)]
    return normalised(number, excess(number, target, only), target)


def absolute(number: Numbers, target: Row, drawn: Row, token: int) -> Row:
    """Differences of either sign."""
    return normalised(number, [abs(p - q) for p, q in zip(target, drawn, strict=True)], target)


def accept_all(number: Numbers, target: list[Row], drawn: list[Row], tree: Tree, tokens: list[int]) -> SpecLaw:
    """Every draft is kept whole."""
    return SpecLaw([0] * len(tokens) + [1], list(target))


def one_coin(number: Numbers, target: list[Row], drawn: list[Row], tree: Tree, tokens: list[int]) -> SpecLaw:
    """One coin for the whole chain: a node passes with those before it if the coin is below its ratio, too."""
    right = rejection(number, target, drawn, tree, tokens)
    reached: list[Number] = [1]
    for i, token in enumerate(tokens):
        reached.append(number.minimum(reached[-1], ratio(number, target[i][token], drawn[i][token])))
    stop = [before - after for before, after in zip(reached, [*reached[1:], 0], strict=True)]
    return SpecLaw(stop, right.next)


def own_samples(number: Numbers, target: list[Row], drawn: list[Row], tree: Tree, tokens: list[int]) -> SpecLaw:
    """Every child compares with a target sample of its own; if none matches, the first one's comes out."""
    refused: Number = 1
    stop: list[Number] = []
    for token in tokens:
        stop.append(refused * target[0][token])
        refused = refused * (1 - target[0][token])
    return SpecLaw([refused, *stop], [without(number, target[0], tokens[0]), *target[1:]])


def half_renormalised(
    number: Numbers, target: list[Row], drawn: list[Row], tree: Tree, tokens: list[int]
) -> SpecLaw:
    """Takes elder siblings out of the drawn row, yet does not divide by what is left."""
    owed, source = target[0], list(drawn[0])
    refused: Number = 1
    stop: list[Number] = []
    for token in tokens:
        accept = number.minimum(1, ratio(number, owed[token], source[token]))
        stop.append(refused * accept)
        refused = refused * (1 - accept)
        owed = normalised(number, excess(number, owed, source), owed)
        source[token] = 0
    return SpecLaw([refused, *stop], [owed, *target[1:]])


def first_accepted(number: Numbers, target: list[Row], drawn: list[Row], tree: Tree, tokens: list[int]) -> SpecLaw:
    """Each child of the root is verified as if it were alone, and the first that passes is taken."""
    refused: Number = 1
    stop: list[Number] = []
    for token in tokens:
        accept = number.minimum(1, ratio(number, target[0][token], drawn[0][token]))
        stop.append(refused * accept)
        refused = refused * (1 - accept)
    residual = normalised(number, excess(number, target[0], drawn[0]), target[0])
    return SpecLaw([refused, *stop], [residual, *target[1:]])


def reordered(kept: Callable[[Row, list[int]], list[int]]) -> Spec:
    """Recursive rejection over the root's children that `kept(row, tokens)` names, in that order."""

    def spec(number: Numbers, target: list[Row], drawn: list[Row], tree: Tree, tokens: list[int]) -> SpecLaw:
        nodes = kept(drawn[0], tokens)
        rows = [0, *(node + 1 for node in nodes)]
        part = siblings_without_replacement(
            number,
            [target[row] for row in rows],
            [drawn[0], *[[]] * len(nodes)],
            Tree((-1,) * len(nodes)),
            [tokens[node] for node in nodes],
        )
        stop = dict(zip(rows, part.stop, strict=True))
        return SpecLaw([stop.get(row, 0) for row in range(len(target))], [part.next[0], *target[1:]])

    return spec


def likeliest_first(row: Row, tokens: list[int]) -> list[int]:
    """All nodes by their drawn probability."""
    return sorted(range(len(tokens)), key=lambda node: -row[tokens[node]])


def distinct(row: Row, tokens: list[int]) -> list[int]:
    """The first of equal nodes, in drawing order."""
    return [tokens.index(token) for token in dict.fromkeys(tokens)]


def distinct_likeliest_first(row: Row, tokens: list[int]) -> list[int]:
    """The same by their drawn probability."""
    return sorted(distinct(row, tokens), key=lambda node: -row[tokens[node]])


def one_hot(number: Numbers, target: list[Row], drawn: list[Row], tree: Tree, tokens: list[int]) -> SpecLaw:
    """Rejection of whatever was drafted as if it could not have been another token."""
    rows = [[Fraction(int(x == token)) for x in range(len(target[0]))] for token in tokens]
    return rejection(number, target, [*rows, []], tree, tokens)


def soft(row: Sequence[Number]) -> Spec:
    """Recursive rejection that takes whatever was drafted for draws from this row."""

    def spec(number: Numbers, target: list[Row], drawn: list[Row], tree: Tree, tokens: list[int]) -> SpecLaw:
        return siblings(number, target, [list(row)] * len(target), tree, tokens)

    return spec


def dropped(token: int) -> Spec:
    """A chain loses every node that drew this token, and all below it, before rejection sees it."""

    def spec(number: Numbers, target: list[Row], drawn: list[Row], tree: Tree, tokens: list[int]) -> SpecLaw:
        return _cut(number, target, drawn, tokens, tokens.index(token) if token in tokens else len(tokens))

    return spec


def stopped_after(token: int) -> Spec:
    """A chain ends with the first node that drew this token; that node stays."""

    def spec(number: Numbers, target: list[Row], drawn: list[Row], tree: Tree, tokens: list[int]) -> SpecLaw:
        return _cut(number, target, drawn, tokens, tokens.index(token) + 1 if token in tokens else len(tokens))

    return spec


def _cut(number: Numbers, target: list[Row], drawn: list[Row], tokens: list[int], length: int) -> SpecLaw:
    """Rejection of the first `length` nodes of a chain."""
    part = rejection(number, target, drawn, Tree.chain(length), tokens[:length])
    return SpecLaw(part.stop + [0] * (len(tokens) - length), part.next + list(target[length + 1 :]))
