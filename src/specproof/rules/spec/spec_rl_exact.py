"""Specification of SPEC-RL with the residual: token-by-token rejection under another name."""

from specproof.rules.spec.numbers import Numbers, Row, SpecLaw
from specproof.rules.spec.rejection import rejection
from specproof.tree import Tree


def spec_rl_exact(number: Numbers, target: list[Row], drawn: list[Row], tree: Tree, tokens: list[int]) -> SpecLaw:
    """Accept token i with min(1, target/draft); at the first rejection draw from the residual."""
    return rejection(number, target, drawn, tree, tokens)
