"""Specification for the greedy construction of Hu et al. 2025: all children but the last are chosen."""

from specproof.rules.spec.numbers import Numbers, Row, SpecLaw, excess, normalised
from specproof.rules.spec.topdown import Judgement, top_down
from specproof.tree import Tree


def hu(number: Numbers, target: list[Row], drawn: list[Row], tree: Tree, tokens: list[int]) -> SpecLaw:
    """Test the last child against the drawn row without the others; else follow the residual into those."""

    def judge(target: Row, drawn: Row, tokens: list[int]) -> Judgement:
        *chosen, last = tokens
        nothing: Row = [0] * len(drawn)
        rest = normalised(number, [0 if x in chosen else mass for x, mass in enumerate(drawn)], nothing)
        accept = number.minimum(1, target[last] / rest[last])
        residual = normalised(number, excess(number, target, rest), target)
        taken = [(1 - accept) * residual[token] for token in chosen]
        return Judgement([*taken, accept], [0 if x in chosen else mass for x, mass in enumerate(residual)])

    return top_down(number, target, drawn, (tree, tokens), judge)
