"""What one step did to a watched request: the drafted tree, the path taken, and what the rows gave for both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from specproof.types import Draft, Step

Kind = Literal["plain", "correction", "bonus"]


@dataclass(frozen=True)
class Watched:
    """One step of one request; tuples have an entry a drafted node.

    Attributes:
        parents, tokens: the drafted tree.
        target: the target's probability of each node's token there, sampling parameters folded in.
        draft: the draft's, from the row that the token was drawn from; None for a node that is a function of
            the context.
        path: accepted nodes.
        extra, kind: the token after them, and why it came: "plain" where nothing was drafted, "correction"
            after a rejection, "bonus" after a whole path was accepted.
        extra_target, extra_draft: its probabilities; no draft row after a leaf, or where drafts are points.
        kept: how many of path and extra token were committed; fewer than all where the text ended.
    """

    parents: tuple[int, ...]
    tokens: tuple[int, ...]
    target: tuple[float, ...]
    draft: tuple[float | None, ...]
    path: tuple[int, ...]
    extra: int
    kind: Kind
    extra_target: float
    extra_draft: float | None
    kept: int


def watched(draft: Draft, b: int, step: Step, rows: Tensor, kept: int) -> Watched:
    """Sequence b's part of a step; rows are its target rows [N+1, V]."""
    tree = draft.trees[b]
    tokens = draft.tokens[b, : len(tree)].tolist()
    places = [parent + 1 for parent in tree.parents]
    last = step.path[-1] if step.path else -1
    drawn: list[float | None] = [None] * len(tree)
    extra_draft = None
    if draft.rows is not None:
        drawn = draft.rows[b, places, tokens].tolist()
        if draft.drawn == "top_and_one":
            drawn = [p if tree.children(tree.parents[i])[-1] == i else None for i, p in enumerate(drawn)]
        if tree.children(last):
            extra_draft = float(draft.rows[b, last + 1, step.token])
    return Watched(
        parents=tree.parents,
        tokens=tuple(tokens),
        target=tuple(rows[places, tokens].tolist()),
        draft=tuple(drawn),
        path=step.path,
        extra=step.token,
        kind="plain" if not len(tree) else "correction" if tree.children(last) else "bonus",
        extra_target=float(rows[last + 1, step.token]),
        extra_draft=extra_draft,
        kept=kept,
    )
