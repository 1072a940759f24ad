"""Traversal verification: from the leaves up, so that a branch is judged by its whole path; block on trees."""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from specproof.rules.family import Families, adopted, families
from specproof.rules.refusal import after_refusals, child_table, without
from specproof.rules.rows import normalised, parent_rows, pick, ratio
from specproof.rules.turns import Turns, turns
from specproof.rules.walk import walk
from specproof.types import Draft, Law


def traversal(target: Tensor, draft: Draft) -> Law:
    """Law of traversal verification on trees; target is [B, N+1, V].

    Node by node, children before parents and elder siblings first: the path down to the node is accepted with
    the node's weight, else the node is given up. A weight starts as min(1, weight · owed/drawn) of the token
    at the parent. A parent that loses a child owes (weight · owed - drawn)⁺ from then on; the mass `left` of
    that makes its own weight left / (left + 1 - weight). Without replacement, the child's token also leaves the
    row that the children after it were drawn from.

    Equal siblings, which only independent draws have, stay as often as they were drawn, and the first of them
    has the children of all: a subtree is accepted with the weight of its top whatever shape it has, so the
    shape may depend on younger siblings. (To drop the others, as is done for merged paths, is lossless too and
    mostly accepts less.)

    For point drafts it is `walk`, which is optimal there: tokens that nobody drew have no rows to be weighed by.

    On chains this is `block`. On trees it accepts more than `siblings` as a rule, but not always: below
    (-1, 0, 0, 2) without replacement, (2/3, 1/3) against (1/3, 2/3) gives 38/27 nodes to 40/27. For independent
    draws where all leaves are equally deep no such case is known, and no proof either.

    Source: Weng et al. 2025 (2505.12398).
    """
    if draft.drawn == "point":
        return walk(target, draft)
    assert draft.rows is not None
    drawn = draft.rows.to(target.dtype)
    trees = _families(draft)
    table = child_table(trees, draft.tokens.shape[1]).to(target.device)
    # The row that the children of each row were drawn from: those of adopted ones, below a twin.
    sources = pad(parent_rows(draft), (0, 1)).gather(1, table[..., 0])  # [B, N+1]
    stop, spent = _give_up(*_narrowed(target, drawn, draft), trees, sources)

    def extra(at: Tensor) -> Tensor:
        source = pick(drawn, pick(sources, at))
        return after_refusals(pick(target, at), source, draft.tokens, pick(table, at), spent, draft.drawn == "iid")

    return Law(stop, extra)


def _narrowed(target: Tensor, drawn: Tensor, draft: Draft) -> tuple[Tensor, Tensor, Draft]:
    """The same over fewer tokens: those that can be drafted, and one that stands for all others together.

    What is owed of tokens that nobody draws keeps its proportions whatever is refused, so its sum is enough. A
    head's draft vocabulary is a tenth of its target's.
    """
    kept = drawn.flatten(0, 1).amax(0) > 0
    kept[draft.tokens] = True
    columns = kept.nonzero()[:, 0]
    if 2 * len(columns) >= len(kept):
        return target, drawn, draft
    others = (target @ (~kept).to(target.dtype))[..., None]
    target = torch.cat([target.index_select(-1, columns), others], -1)
    drawn = pad(drawn.index_select(-1, columns), (0, 1))
    return target, drawn, replace(draft, tokens=torch.searchsorted(columns, draft.tokens))


def _families(draft: Draft) -> list[Families]:
    if draft.drawn != "iid" or all(tree.is_chain for tree in draft.trees):
        return [families(tree) for tree in draft.trees]
    drafted = zip(draft.trees, draft.tokens.tolist(), strict=True)
    return [adopted(tree, tuple(tokens[: len(tree)])) for tree, tokens in drafted]


def _give_up(
    target: Tensor, drawn: Tensor, draft: Draft, trees: list[Families], sources: Tensor
) -> tuple[Tensor, Tensor]:
    """Stop probabilities [B, N+1], and the parent's weight when each node was given up, [B, N]."""
    batch, width = torch.arange(len(target), device=target.device), draft.tokens.shape[1]
    tokens, each, parents = pad(draft.tokens, (0, 1)), batch[:, None], parent_rows(draft)
    # Turns that a tree does not have read and write one more node and row, whose weight stays 0.
    ratios = pad(ratio(target[each, parents, draft.tokens], drawn[each, parents, draft.tokens]), (0, 1))
    weights = pad(torch.ones_like(target[:, :1, 0]), (0, width + 1))
    stop, spent = torch.zeros_like(weights), torch.ones_like(ratios)
    alive = torch.ones_like(target[:, 0, 0])  # nothing was accepted so far
    path = _Path(target, drawn, sources, max(max(tree.depths, default=1) for tree in draft.trees))
    for turn in turns(trees, width, target.device):
        for node, parent in turn.entered:
            weights[batch, node + 1] = (weights[batch, parent] * ratios[batch, node]).clamp(max=1)
        accept, weight = weights[batch, turn.node + 1], weights[batch, turn.parent]
        stop[batch, turn.node + 1], spent[batch, turn.node] = alive * accept, weight
        alive = alive * (1 - accept)
        owed, source = path.rows(turn)
        gap = (weight[:, None] * owed).sub_(source).clamp_(min=0)
        left, miss = gap.sum(-1), 1 - weight
        # left = miss = 0 only where the rows are equal: then no child is ever given up.
        weight = torch.where(left + miss > 0, left / (left + miss), 1)
        weights[batch, turn.parent] = weight * (turn.parent <= width)
        if not turn.last:
            owed = normalised(gap, owed)
            source = source if draft.drawn == "iid" else without(source, pick(tokens, turn.node))
            token = pick(tokens, turn.later)[:, None]
            ratios[batch, turn.later] = ratio(owed.gather(1, token), source.gather(1, token))[:, 0]
            path.keep(turn, owed, source)
    stop[:, 0] = alive
    return stop[:, :-1], spent[:, :-1]


class _Path:
    """Rows of the nodes on the way down to the current one: as drafted, or as their lost children left them.

    Only the latter are kept, [depths, B, V]: a node's slot is free again once the node is given up.
    """

    def __init__(self, target: Tensor, drawn: Tensor, sources: Tensor, depths: int) -> None:
        self.target, self.drawn, self.sources, self.depths = target, drawn, sources, depths
        self.batch = torch.arange(len(target), device=target.device)
        self.kept: tuple[Tensor, Tensor] | None = None

    def rows(self, turn: Turns) -> tuple[Tensor, Tensor]:
        """What is owed at the parent, and what this child was drawn from, [B, V] each."""
        row = turn.parent.clamp(max=self.target.shape[1] - 1)
        fresh = pick(self.target, row), pick(self.drawn, pick(self.sources, row))
        if self.kept is None or turn.elder is None:
            return fresh
        elder = turn.elder[:, None]
        owed, source = (rows[turn.depth, self.batch] for rows in self.kept)
        return torch.where(elder, owed, fresh[0]), torch.where(elder, source, fresh[1])

    def keep(self, turn: Turns, owed: Tensor, source: Tensor) -> None:
        """Keep what this child left for the one after it."""
        if self.kept is None:
            shape = (self.depths, *owed.shape)
            self.kept = owed.new_empty(shape), owed.new_empty(shape)
        for rows, row in zip(self.kept, (owed, source), strict=True):
            rows[turn.depth, self.batch] = row
