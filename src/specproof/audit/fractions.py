"""The exact law of a specification's output, in fractions: for golden values and worked examples.

The scalar twin of `audit.exact`, written to be read: one recursion over contexts, drafts and outcomes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from specproof.rules.spec.numbers import EXACT, Numbers, Row, SpecLaw
from specproof.tree import Tree
from specproof.types import Drawn

Text = tuple[int, ...]
Rows = Callable[[Text], list[Fraction]]  # a model: next-token row after these tokens
Spec = Callable[[Numbers, list[Row], list[Row], Tree, list[int]], SpecLaw]


class FractionLaw(NamedTuple):
    """Law of the text, texts without mass left out, and expected accepted nodes of the first round."""

    law: dict[Text, Fraction]
    accepted: Fraction


def spec_law(spec: Spec, target: Rows, draft: Rows, tree: Tree, drawn: Drawn, length: int) -> FractionLaw:
    """The exact law of the first `length` tokens that rounds of `spec` commit; tokens beyond are cut.

    Args:
        spec: a specification; it gets an empty list for rows that nothing was drawn from (a leaf's), and for
            point draws one-hot rows (empty where several children hang: no one row made them).
        target, draft: models; of a point draft, the nth child is the nth likeliest token.
        tree, drawn: shape and way of drawing, in every round. Rows need as many tokens with mass as there are
            siblings drawn without replacement: other drafts have no probability.
        length: tokens in the text, counted from the empty context.
    """

    def outcomes(context: Text) -> Iterator[tuple[Fraction, Text, Row]]:
        for tokens, probability in drafts(draft, tree, drawn, context):
            paths = [context + tuple(tokens[i] for i in tree.path(node)) for node in range(-1, len(tree))]
            drawn_from = [_drawn_row(draft, tree, drawn, tokens, node, paths) for node in range(-1, len(tree))]
            law = spec(EXACT, [target(path) for path in paths], drawn_from, tree, tokens)
            for stop, path, following in zip(law.stop, paths, law.next, strict=True):
                if stop:
                    yield probability * stop, path, following

    @cache
    def texts(context: Text) -> dict[Text, Fraction]:
        if len(context) >= length:
            return {context[:length]: Fraction(1)}
        law: dict[Text, Fraction] = defaultdict(Fraction)
        for probability, path, following in outcomes(context):
            for token, mass in enumerate(following):
                if mass:
                    for text, rest in texts((*path, token)).items():
                        law[text] += probability * mass * rest
        return dict(law)

    accepted = sum((probability * len(path) for probability, path, _ in outcomes(())), Fraction(0))
    return FractionLaw(texts(()), accepted)


def target_law(target: Rows, length: int) -> dict[Text, Fraction]:
    """The target's own law of the first `length` tokens."""
    law: dict[Text, Fraction] = {(): Fraction(1)}
    for _ in range(length):
        law = {(*t, x): p * mass for t, p in law.items() for x, mass in enumerate(target(t)) if mass}
    return law


def tv(law: dict[Text, Fraction], other: dict[Text, Fraction]) -> Fraction:
    """Total variation: half the sum of differences."""
    texts = {*law, *other}
    return sum((abs(law.get(t, Fraction(0)) - other.get(t, Fraction(0))) for t in texts), Fraction(0)) / 2


def drafts(draft: Rows, tree: Tree, drawn: Drawn, context: Text = ()) -> Iterator[tuple[list[int], Fraction]]:
    """Every draft after a context: the nodes' tokens, with the probability that they are drawn."""

    def extend(tokens: list[int], probability: Fraction) -> Iterator[tuple[list[int], Fraction]]:
        node = len(tokens)
        if node == len(tree):
            yield tokens, probability
            return
        parent = tree.parents[node]
        row = list(draft(context + tuple(tokens[i] for i in tree.path(parent))))
        earlier = [sibling for sibling in tree.children(parent) if sibling < node]
        if drawn == "point":
            row = _one_hot(len(row), _ranked(row)[len(earlier) % len(row)])
        elif drawn == "without_replacement":
            row = [Fraction(0) if x in {tokens[s] for s in earlier} else mass for x, mass in enumerate(row)]
        total = sum(row)
        for token, mass in enumerate(row):
            if mass:
                yield from extend([*tokens, token], probability * mass / total)

    return extend([], Fraction(1))


def _drawn_row(draft: Rows, tree: Tree, drawn: Drawn, tokens: list[int], node: int, paths: list[Text]) -> Row:
    children = tree.children(node)
    if not children:
        return []
    row = draft(paths[node + 1])
    if drawn != "point":
        return row
    return _one_hot(len(row), tokens[children[0]]) if len(children) == 1 else []


def _ranked(row: Row) -> list[int]:
    return sorted(range(len(row)), key=lambda token: -row[token])


def _one_hot(size: int, token: int) -> Row:
    return [Fraction(int(x == token)) for x in range(size)]
