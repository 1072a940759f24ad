"""Verification rules: RULES, the one table, and how a rule refuses what it is not lossless for.

A rule is a pure function from target rows and a draft to a law. It has no randomness, no end-of-text, no
cache and no sampling parameters; `draw` turns its law into an outcome. Importing this table loads no torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from specproof.errors import SpecproofError, unknown
from specproof.tree import Tree
from specproof.types import Draft, Drafter, Drawn, Law

if TYPE_CHECKING:
    from torch import Tensor

ANY_DRAW: tuple[Drawn, ...] = ("iid", "without_replacement", "top_and_one", "point")

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
        usable: whether an engine may use it; false for published rules that are unsound.
        shape: which trees, a key of SHAPES.
    """

    name: str
    lossless: bool
    draws: tuple[Drawn, ...]
    trees: bool
    paper: str
    dominates: tuple[str, ...] = ()
    usable: bool = True
    shape: Shape = "any"

    def __call__(self, target: Tensor, draft: Draft) -> Law:
        """The law of one verification; target rows are [B, N+1, V]."""
        self.check(draft.drawn, all(tree.is_chain for tree in draft.trees))
        self.check_shapes(draft)
        if draft.tokens.shape[1] == 0:
            # Every rule's law of an empty draft, at no cost: plain decoding goes through here.
            return Law(target.new_ones(len(target), 1), lambda at: target[:, 0])
        law: Law = self.law(target, draft)
        return law

    @cached_property
    def law(self) -> Callable[[Tensor, Draft], Law]:
        """The batched torch rule, unchecked."""
        return getattr(import_module(f"specproof.rules.{self.name}"), self.name)  # type: ignore[no-any-return]

    @cached_property
    def spec(self) -> Callable[..., Any]:
        """The scalar specification over an abstract number (see `spec.numbers`)."""
        return getattr(import_module(f"specproof.rules.spec.{self.name}"), self.name)  # type: ignore[no-any-return]

    def specification(self, drawn: Drawn) -> Callable[..., Any]:
        """The specification for drafts drawn like this: `name_drawn` where there is one beside `name`."""
        module = import_module(f"specproof.rules.spec.{self.name}")
        return getattr(module, f"{self.name}_{drawn}", self.spec)

    def accepts(self, drawn: Drawn, chain: bool) -> bool:
        """Whether the rule is made for drafts that were drawn like this."""
        return drawn in self.draws and (chain or self.trees)

    def fits(self, drawn: Drawn, tree: Tree) -> bool:
        """Whether the rule is made for drafts of this very shape that were drawn like this."""
        return self.accepts(drawn, tree.is_chain) and SHAPES[self.shape][1](tree)

    def check_shapes(self, draft: Draft) -> None:
        """Raise for a tree that the rule is not made for; the error says which rules are."""
        if self.shape == "any":
            return
        words, right = SHAPES[self.shape]
        for tree in dict.fromkeys(draft.trees):
            if not right(tree):
                fitting = ", ".join(rule.name for rule in RULES.values() if rule.fits(draft.drawn, tree))
                raise SpecproofError(
                    f"rule {self.name!r} takes {words}, not parents {tree.parents}; rules that take it: {fitting}"
                )

    def check(self, drawn: Drawn, chain: bool) -> None:
        """Raise unless the rule accepts such drafts; the error says which rules do."""
        if not self.accepts(drawn, chain):
            shape = "chains" if chain else "trees"
            fitting = ", ".join(rule.name for rule in RULES.values() if rule.accepts(drawn, chain)) or "none"
            raise SpecproofError(f"rule {self.name!r} does not take {drawn} {shape}; rules that do: {fitting}")


RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule("rejection", True, ("iid", "point"), False, "Leviathan et al. 2023, 2.3; Chen et al. 2023, alg. 2"),
        Rule("block", True, ("iid", "point"), False, "Sun et al. 2024 (2403.10444), alg. 2", ("rejection",)),
        Rule("walk", True, ANY_DRAW, True, "Miao et al. 2023 (2305.09781), naive sampling; EAGLE-2 trees"),
        Rule(
            "siblings",
            True,
            ("iid", "without_replacement"),
            True,
            "Miao et al. 2023 (2305.09781), alg. 2; Li et al. 2024 (2401.15077), A.2",
            ("rejection",),
        ),
        # On trees it may accept a little less than `siblings`, see its docstring.
        Rule(
            "traversal",
            True,
            ("iid", "without_replacement"),
            True,
            "Weng et al. 2025 (2505.12398)",
            ("block", "rejection"),
        ),
        Rule("kseq", True, ("iid",), True, "Sun et al. 2023 (2310.15141), K-SEQ", shape="parallel"),
        Rule(
            "transport",
            True,
            ("iid", "without_replacement"),
            True,
            "Sun et al. 2023 (2310.15141), optimal transport; Khisti et al. 2024 (2410.18234); Hu et al. 2025",
        ),
        Rule("hu", True, ("top_and_one",), True, "Hu et al. 2025 (2502.18779), greedy construction"),
        Rule("multipath", True, ("iid",), True, "Thomas & Pal 2026 (2602.16961)", shape="even"),
    )
}


def choose_rule(name: str, drafter: Drafter) -> Rule:
    """The rule of that name, or for "auto" the one that suits what the drafter draws best.

    Raises:
        SpecproofError: no such rule, or the rule is not lossless for this drafter's draws.
    """
    if name == "auto":
        # The target walk is optimal for point drafts, block verification for sampled chains; traversal is
        # block verification on trees.
        sampled = "block" if drafter.drawn == "iid" and drafter.chains else "traversal"
        return RULES[{"point": "walk", "top_and_one": "hu"}.get(drafter.drawn, sampled)]
    if name not in RULES:
        raise unknown("rule", name, ["auto", *RULES])
    RULES[name].check(drafter.drawn, drafter.chains)
    return RULES[name]
