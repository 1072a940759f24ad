"""What the table knows of a rule, and how a rule refuses what it is not made for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from specproof.errors import SpecproofError
from specproof.rules.parameters import Parameter
from specproof.tree import Tree
from specproof.types import Draft, Drawn, Law

if TYPE_CHECKING:
    from torch import Tensor

Shape = Literal["any", "parallel", "even"]
SHAPES: dict[Shape, tuple[str, Callable[[Tree], bool]]] = {
    "any": ("trees", lambda tree: True),
    "parallel": ("trees that branch at the root only", lambda tree: tree.is_parallel),
    "even": (
        "trees of equally long chains that hang from the root",
        lambda tree: tree.is_parallel and tree.is_even,
    ),
}


@dataclass(frozen=True)
class Rule:
    """An entry of RULES; calling it checks the draft and returns the law.

    Attributes:
        name: the key in RULES; also the module that holds the torch rule, and its specification in `spec`.
        lossless: whether the output law is the target's for every draft that it accepts.
        draws: ways of drawing for which that holds.
        trees: whether it takes trees; otherwise chains only.
        paper: where it comes from.
        dominates: rules that never accept more in expectation on the same draft (all exact, see `audit.exact`).
        usable: whether an engine may use it; false for published rules that are unsound, or need what no
            engine has.
        shape: which trees, a key of SHAPES.
        parameters: numbers that configure it, in the order in which a name gives them ("typical:0.09,0.3").
        values: of the first of these parameters; the others have their defaults.
        coupled: whether an engine decides the target rows with shared noise first (see `rules.coupling`).
        refuted: whether it was published as lossless, which it is not.
    """

    name: str
    lossless: bool
    draws: tuple[Drawn, ...]
    trees: bool
    paper: str
    dominates: tuple[str, ...] = ()
    usable: bool = True
    shape: Shape = "any"
    parameters: tuple[Parameter, ...] = ()
    values: tuple[Fraction, ...] = ()
    coupled: bool = False
    refuted: bool = False

    @property
    def label(self) -> str:
        """The name that `find_rule` takes, values included."""
        # Shortest decimals; a fraction stays one where it is not a decimal.
        texts = [repr(float(v)) if Fraction(repr(float(v))) == v else str(v) for v in self.values]
        return ":".join([self.name, ",".join(texts)]) if texts else self.name

    @property
    def claim(self) -> str:
        """What may be said of its law: "EXACT", "LOSSY", or "UNSOUND" where it was published as lossless."""
        return "EXACT" if self.lossless else "UNSOUND" if self.refuted else "LOSSY"

    def __call__(self, target: Tensor, draft: Draft) -> Law:
        """The law of one verification; target rows are [B, N+1, V]."""
        for tree in dict.fromkeys(draft.trees):
            self.check_tree(draft.drawn, tree)
        if draft.tokens.shape[1] == 0:
            # Every rule's law of an empty draft, at no cost: plain decoding goes through here.
            return Law(target.new_ones(len(target), 1), lambda at: target[:, 0])
        law: Law = self.law(target, draft)
        return law

    @cached_property
    def law(self) -> Callable[[Tensor, Draft], Law]:
        """The batched torch rule, unchecked."""
        function = getattr(import_module(f"specproof.rules.{self.name}"), self.name)
        return partial(function, **self._settings(float)) if self.values else function

    @cached_property
    def spec(self) -> Callable[..., Any]:
        """The scalar specification over an abstract number (see `spec.numbers`)."""
        return self._specification(self.name)

    def specification(self, drawn: Drawn) -> Callable[..., Any]:
        """The specification for drafts drawn like this: `name_drawn` where there is one beside `name`."""
        return self._specification(f"{self.name}_{drawn}")

    def accepts(self, drawn: Drawn, chain: bool) -> bool:
        """Whether the rule is made for drafts that were drawn like this."""
        return drawn in self.draws and (chain or self.trees)

    def fits(self, drawn: Drawn, tree: Tree) -> bool:
        """Whether the rule is made for drafts of this very shape that were drawn like this."""
        return self.accepts(drawn, tree.is_chain) and SHAPES[self.shape][1](tree)

    def check(self, drawn: Drawn, chain: bool) -> None:
        """Raise unless the rule accepts such drafts; the error says which rules do."""
        if not self.accepts(drawn, chain):
            shape = "chains" if chain else "trees"
            fitting = _names(lambda rule: rule.accepts(drawn, chain))
            raise SpecproofError(f"rule {self.name!r} does not take {drawn} {shape}; rules that do: {fitting}")

    def check_tree(self, drawn: Drawn, tree: Tree) -> None:
        """Raise unless the rule is made for drafts of this very shape; the error says which rules are."""
        self.check(drawn, tree.is_chain)
        words, right = SHAPES[self.shape]
        if not right(tree):
            fitting = _names(lambda rule: rule.fits(drawn, tree))
            raise SpecproofError(
                f"rule {self.name!r} takes {words}, not parents {tree.parents}; rules that take it: {fitting}"
            )

    def _specification(self, name: str) -> Callable[..., Any]:
        module = import_module(f"specproof.rules.spec.{self.name}")
        function = getattr(module, name, None) or getattr(module, self.name)
        return partial(function, **self._settings(Fraction)) if self.values else function

    def _settings(self, number: Callable[[Fraction], Any]) -> dict[str, Any]:
        """Keywords for the values that were given."""
        return {p.name: number(value) for p, value in zip(self.parameters, self.values, strict=False)}


def _names(fitting: Callable[[Rule], bool]) -> str:
    """Rules that an error may recommend."""
    from specproof.rules import sound_rules  # the table is made of this class

    return ", ".join(rule.name for rule in sound_rules() if fitting(rule)) or "none"
