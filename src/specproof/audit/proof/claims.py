"""What has to hold for a rule to be lossless on one shape, as equations between numbers of any kind.

The same functions make the claims for symbolic rows, where they are proved, and for rows of fractions, where
they are checked; so a counterexample is checked by the very claim that it refutes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

from specproof.errors import SpecproofError
from specproof.rules.spec.numbers import Number, Numbers, Row, SpecLaw
from specproof.tree import Tree
from specproof.types import Drawn

Text = tuple[int, ...]
Specification = Callable[..., SpecLaw]


@dataclass(frozen=True)
class Setting:
    """A rule's specification, and the drafts it is asked about.

    Attributes:
        spec: the specification.
        vocabulary: number of tokens.
        tree: shape of every draft.
        drawn: how the tokens are drawn. Without replacement, rows have at least as many tokens with mass as
            there are siblings; point drafts may be any tokens, equal siblings included.
        keywords: further arguments of the specification.
    """

    spec: Specification
    vocabulary: int
    tree: Tree
    drawn: Drawn
    keywords: Mapping[str, Any] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """Most tokens that a round accepts."""
        return max(self.tree.depths, default=0)

    def texts(self, length: int) -> list[Text]:
        """All token sequences of a length."""
        return list(product(range(self.vocabulary), repeat=length))

    def path(self, tokens: Text, node: int) -> Text:
        """The drafted tokens down to a node; none for the root (-1)."""
        return tuple(tokens[i] for i in self.tree.path(node))

    def siblings(self, depth: int) -> int:
        """Most tokens that are drawn from one row after `depth` drafted tokens."""
        depths = enumerate((0, *self.tree.depths), start=-1)
        return max((len(self.tree.children(node)) for node, d in depths if d == depth), default=0)


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


def drafted(setting: Setting, models: Models, arithmetic: Arithmetic) -> list[Drafted]:
    """All drafts that can be drawn, with their laws; point drafts are any tokens, each with probability 1."""
    result = []
    for tokens in product(range(setting.vocabulary), repeat=len(setting.tree)):
        probability = _probability(setting, models, tokens)
        if not arithmetic.is_zero(probability):
            result.append(Drafted(tokens, probability, _law(setting, models, arithmetic.number, tokens)))
    return result


def drafters(setting: Setting, drafts: list[Drafted]) -> list[list[Drafted]]:
    """The drafts that one drafter makes, for every drafter: point drafts come from drafters of their own."""
    return [[draft] for draft in drafts] if setting.drawn == "point" else [drafts]


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
    probability: Number = 1
    for node, token in enumerate(tokens if setting.drawn != "point" else ()):
        parent = setting.tree.parents[node]
        row = models.draft[setting.path(tokens, parent)]
        mass, taken = row[token], [tokens[i] for i in setting.tree.children(parent) if i < node]
        if setting.drawn == "without_replacement" and taken:
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
