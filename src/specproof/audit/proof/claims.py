"""What has to hold for a rule to be lossless on one shape, as equations between numbers of any kind.

The same functions make the claims for symbolic rows, where they are proved, and for rows of fractions, where
they are checked; so a counterexample is checked by the very claim that it refutes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from specproof.audit.proof.setting import Setting, Text
from specproof.errors import SpecproofError
from specproof.rules.spec.numbers import Number, Numbers, Row, SpecLaw


@dataclass(frozen=True)
class Models:
    """Rows for every context, of numbers of one kind; `draft` has none after the deepest level."""

    target: Mapping[Text, Sequence[Number]]
    draft: Mapping[Text, Sequence[Number]]


class DividesByZeroError(Exception):
    """The specification divides by zero for a draft that can be drawn."""

    def __init__(self, tokens: Text) -> None:
        super().__init__(f"the specification divides by zero for the drafted tokens {tokens}")
        self.tokens = tokens


class Drafted(NamedTuple):
    """A draft, its probability, and the law that the specification gives it."""

    tokens: Text
    probability: Number
    law: SpecLaw


class TextLaw(NamedTuple):
    """A text with its probability as the rule commits it, and as the target gives it."""

    text: Text
    law: Number
    wanted: Number


class Arithmetic(NamedTuple):
    """What claims need beside a specification's own operations.

    Attributes:
        number: as the specification gets it.
        is_zero: whether a probability is 0 for all rows.
        same: whether two rows are equal for all rows.
        weigh: multiplies a draft's probability with that of stopping somewhere and that of the extra token.
    """

    number: Numbers
    is_zero: Callable[[Number], bool]
    same: Callable[[Sequence[Number], Sequence[Number]], bool]
    weigh: Callable[[Drafted, Number, Number], Number]


def drafted(setting: Setting, models: Models, arithmetic: Arithmetic) -> Iterator[list[Drafted]]:
    """For every drafter, all drafts that it can make, with their laws."""
    laws: dict[Text, SpecLaw] = {}
    for choices in setting.drafters():
        drafts = []
        for tokens in choices:
            probability = _probability(setting, models, tokens)
            if not arithmetic.is_zero(probability):
                if tokens not in laws:
                    laws[tokens] = _law(setting, models, arithmetic.number, tokens)
                drafts.append(Drafted(tokens, probability, laws[tokens]))
        yield drafts


def text_laws(
    setting: Setting, models: Models, drafts: list[Drafted], arithmetic: Arithmetic
) -> Iterator[TextLaw]:
    """The law of the text, a draft that stops early being completed with target rows.

    The text is one token longer than the deepest path; that token is left out where every law draws it from
    the target's own row, so that it cannot be wrong.
    """
    leaves = [node for node, d in enumerate((0, *setting.tree.depths), start=-1) if d == setting.depth]
    exact_end = all(
        arithmetic.same(draft.law.next[node + 1], models.target[setting.path(draft.tokens, node)])
        for draft in drafts
        for node in leaves
    )
    committed = _commits(setting, drafts, arithmetic, leaves if exact_end else [])
    for text in setting.texts(setting.depth + (not exact_end)):
        law: Number = 0
        wanted: Number = 1
        for end, token in enumerate(text):
            mass = models.target[text[:end]][token]
            law = law * mass + committed[text[: end + 1]]
            wanted = wanted * mass
        # Without nodes the whole text is empty, and committed at once.
        yield TextLaw(text, law if text else committed[()], wanted)


def _commits(
    setting: Setting, drafts: list[Drafted], arithmetic: Arithmetic, whole: list[int]
) -> dict[Text, Number]:
    """Probability of each text that a round can commit; at nodes of `whole` without the extra token."""
    result: dict[Text, Number] = defaultdict(int)
    for draft in drafts:
        for node, (stop, following) in enumerate(zip(draft.law.stop, draft.law.next, strict=True), start=-1):
            path = setting.path(draft.tokens, node)
            if node in whole:
                result[path] += arithmetic.weigh(draft, stop, 1)
                continue
            for token, mass in enumerate(following):
                result[(*path, token)] += arithmetic.weigh(draft, stop, mass)
    return result


def _probability(setting: Setting, models: Models, tokens: Text) -> Number:
    """Of drawing these tokens, those that the drafter chooses left out."""
    probability: Number = 1
    for node, token in enumerate(tokens):
        parent = setting.tree.parents[node]
        if setting.is_chosen(node):
            continue
        row = models.draft[setting.path(tokens, parent)]
        mass, taken = row[token], [tokens[i] for i in setting.tree.children(parent) if i < node]
        if setting.siblings_differ and taken:
            mass = 0 if token in taken else mass / sum(other for x, other in enumerate(row) if x not in taken)
        probability = probability * mass
    return probability


def _law(setting: Setting, models: Models, number: Numbers, tokens: Text) -> SpecLaw:
    nodes = range(-1, len(setting.tree))
    target = [list(models.target[setting.path(tokens, node)]) for node in nodes]
    drawn = [_drawn_row(setting, models, tokens, node) for node in nodes]
    try:
        law = setting.spec(number, target, drawn, setting.tree, list(tokens), **setting.keywords)
    except ZeroDivisionError:
        raise DividesByZeroError(tokens) from None
    if (len(law.stop), [len(row) for row in law.next]) != (len(nodes), [setting.vocabulary] * len(nodes)):
        raise SpecproofError(
            f"the specification gives {len(law.stop)} stops and rows of {[len(row) for row in law.next]} tokens: "
            f"give {len(nodes)} of each, for the root and every node, rows of {setting.vocabulary} tokens"
        )
    return law


def _drawn_row(setting: Setting, models: Models, tokens: Text, node: int) -> Row:
    """What the children of a node were drawn from: nothing at a leaf, and no one row for several point drafts."""
    children = setting.tree.children(node)
    if children and setting.drawn != "point":
        return list(models.draft[setting.path(tokens, node)])
    if len(children) == 1:
        return [Fraction(int(token == tokens[children[0]])) for token in range(setting.vocabulary)]
    return []
