"""Recursive rejection: try the children of a node in turn, each against what its elders left of the target.

Below a node with one child this is token-by-token rejection.
"""

import torch
from torch import Tensor

from specproof.rules.family import families
from specproof.rules.refusal import after_refusals, child_table, without
from specproof.rules.rows import normalised, parent_rows, pick, ratio
from specproof.types import Draft, Law


def siblings(target: Tensor, draft: Draft) -> Law:
    """Law of recursive rejection on trees; target is [B, N+1, V].

    Child by child in drawing order: accept with min(1, owed/drawn), else owe the residual (owed - drawn)⁺.
    Of independent children each was drawn from the whole row, so equal ones count as often as they come.
    Without replacement each was drawn from what its elders left of the row.

    Source: Miao et al. 2023 (2305.09781), algorithm 2, multi-step sampling (independent children); Li et al.
    2024 (2401.15077), A.2, and Jeon et al. 2024 (2402.14160), recursive rejection (without replacement).
    """
    assert draft.rows is not None
    drawn = draft.rows.to(target.dtype)
    table = child_table([families(tree) for tree in draft.trees], draft.tokens.shape[1]).to(target.device)
    accept = _accept(target, drawn, draft, table)
    batch, parents = torch.arange(len(target), device=target.device), parent_rows(draft)
    reached = target.new_zeros(target.shape[:2])
    reached[:, 0] = 1
    refused = torch.ones_like(reached)  # probability that no child tried so far was accepted
    for node, (parent, chance) in enumerate(zip(parents.unbind(1), accept.unbind(1), strict=True)):
        reached[:, node + 1] = reached[batch, parent] * refused[batch, parent] * chance
        refused[batch, parent] *= 1 - chance

    def extra(at: Tensor) -> Tensor:
        return after_refusals(
            pick(target, at), pick(drawn, at), draft.tokens, pick(table, at), None, draft.drawn == "iid"
        )

    return Law(reached * refused, extra)


def _accept(target: Tensor, drawn: Tensor, draft: Draft, table: Tensor) -> Tensor:
    """Chance of each node [B, N] once its parent was accepted and its elders were refused; 0 for padding.

    All nodes of one rank among their siblings are done at once: a chain takes one round.
    """
    accept = torch.zeros_like(draft.tokens, dtype=target.dtype)
    rest, source = target.flatten(0, 1), drawn.flatten(0, 1)
    present = table < draft.tokens.shape[1]  # [B, N+1, K]
    batch, row = present.any(-1).nonzero(as_tuple=True)
    place = batch * target.shape[1] + row  # where in `rest` and `source` the rows of these parents are
    for rank in range(table.shape[-1]):
        node = table[batch, row, rank]
        token = draft.tokens[batch, node]
        accept[batch, node] = ratio(rest[place, token], source[place, token]).clamp(max=1)
        if rank + 1 == table.shape[-1]:
            break
        # Where one more child comes, both rows move on by what this one leaves of them.
        more = present[batch, row, rank + 1]
        batch, row, place, token = batch[more], row[more], place[more], token[more]
        owed, chosen = rest[place], source[place]
        rest = normalised((owed - chosen).clamp_(min=0), owed)
        source = chosen if draft.drawn == "iid" else without(chosen, token)
        place = torch.arange(len(batch), device=place.device)
    return accept
