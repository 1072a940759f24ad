"""What the specifications of rules share that go down the tree one token at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from specproof.rules.spec.numbers import Number, Numbers, Row, SpecLaw, normalised
from specproof.tree import Tree


@dataclass(frozen=True)
class Judgement:
    """What a rule says to the tokens drafted after a text.

    Attributes:
        taken: probability to move on to each of them, in their order; the rest stops there.
        residual: what is left to the extra token then, not normalised.
    """

    taken: list[Number]
    residual: Row


Judge = Callable[[Row, Row, list[int]], Judgement]  # target row, drawn row, drafted tokens


def top_down(
    number: Numbers, target: list[Row], drawn: list[Row], draft: tuple[Tree, list[int]], judge: Judge
) -> SpecLaw:
    """Judge what was drafted after the root, then after each token that was taken.

    Nodes with the same text count as one: its mass stands at the first, its drafts are those below all of them.
    """
    tree, tokens = draft
    stop: list[Number] = [0] * (len(tree) + 1)
    following = list(target)

    def visit(twins: list[int], reached: Number) -> None:
        row = twins[0] + 1
        drafts = sorted(child for node in twins for child in tree.children(node))
        if not drafts:
            stop[row] = reached
            return
        said = judge(target[row], drawn[row], [tokens[node] for node in drafts])
        stop[row] = reached * (1 - sum(said.taken))
        following[row] = normalised(number, said.residual, target[row])
        for token in dict.fromkeys(tokens[node] for node in drafts):
            same = [(node, taken) for node, taken in zip(drafts, said.taken, strict=True) if tokens[node] == token]
            visit([node for node, _ in same], reached * sum(taken for _, taken in same))

    visit([-1], 1)
    return SpecLaw(stop, following)
