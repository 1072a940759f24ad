"""What a proof is about: a specification, a vocabulary, and the drafts that drafters make."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product
from typing import Any

from specproof.audit.proof.freedom import Freedom
from specproof.errors import SpecproofError
from specproof.rules.spec.numbers import SpecLaw
from specproof.tree import Tree

Text = tuple[int, ...]
Specification = Callable[..., SpecLaw]
_Plan = Mapping[tuple[int, Text], Text]  # what a drafter chooses as the first children of a node with this text


@dataclass(frozen=True)
class Setting:
    """A rule's specification, and the drafts it is asked about.

    Attributes:
        spec: the specification.
        vocabulary: number of tokens.
        tree: shape of every draft.
        drawn: how the tokens are drawn. Where siblings differ, rows have at least as many tokens with mass as
            there are siblings. Tokens that a drafter chooses itself may be any, the likeliest or not.
        freedom: numbers that a proof leaves open; in exact arithmetic the specification chooses them.
        keywords: further arguments of the specification.
    """

    spec: Specification
    vocabulary: int
    tree: Tree
    drawn: str
    freedom: Freedom | None = None
    keywords: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        most = max(map(self.siblings, range(self.depth)), default=0)
        if self.vocabulary < 2 or (self.siblings_differ and self.vocabulary < most):
            raise SpecproofError(f"--vocab {self.vocabulary} is too small here: give at least {max(2, most)}")

    @property
    def depth(self) -> int:
        """Most tokens that a round accepts."""
        return max(self.tree.depths, default=0)

    @property
    def siblings_differ(self) -> bool:
        """Whether siblings are drawn so that they differ."""
        return self.drawn in ("without_replacement", "top_and_one")

    def texts(self, length: int) -> list[Text]:
        """All token sequences of a length."""
        return list(product(range(self.vocabulary), repeat=length))

    def path(self, tokens: Sequence[int], node: int) -> Text:
        """The drafted tokens down to a node; none for the root (-1)."""
        return tuple(tokens[i] for i in self.tree.path(node))

    def siblings(self, depth: int) -> int:
        """Most tokens that are drawn from one row after `depth` drafted tokens."""
        nodes = enumerate((0, *self.tree.depths), start=-1)
        return max((len(self.tree.children(node)) for node, d in nodes if d == depth), default=0)

    def is_chosen(self, node: int) -> bool:
        """Whether the drafter chooses the node's token itself, by the context, and does not draw it."""
        siblings = self.tree.children(self.tree.parents[node])
        return self.drawn == "point" or (self.drawn == "top_and_one" and node != siblings[-1])

    def drafters(self) -> Iterator[list[Text]]:
        """For every drafter the tokens that it can draft; what it chooses it may choose by the text before."""
        open_: list[_Plan] = [{}]
        while open_:
            plan = open_.pop()
            drafts, missing = self._drafts(plan)
            if missing is None:
                yield drafts
            else:
                open_ += [{**plan, missing: choice} for choice in self._choices(missing[0])]

    def _drafts(self, plan: _Plan) -> tuple[list[Text], tuple[int, Text] | None]:
        """The drafts of a plan, or the first choice that it lacks for them."""
        drafts: list[Text] = [()]
        for node, parent in enumerate(self.tree.parents):
            longer: list[Text] = []
            for tokens in drafts:
                family, options = (parent, self.path(tokens, parent)), range(self.vocabulary)
                if not self.is_chosen(node):
                    longer += [(*tokens, token) for token in options]
                elif family in plan:
                    longer.append((*tokens, plan[family][self.tree.children(parent).index(node)]))
                else:
                    return [], family
            drafts = longer
        return drafts, None

    def _choices(self, parent: int) -> Iterator[Text]:
        siblings = len(self.tree.children(parent))
        if self.drawn == "point":
            return product(range(self.vocabulary), repeat=siblings)
        return permutations(range(self.vocabulary), siblings - 1)
