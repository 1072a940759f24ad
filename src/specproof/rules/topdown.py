"""Rules that go down the tree one token at a time: what they share, so that a rule is one judgement.

Equal siblings are told apart no more: a text that several nodes carry is judged once, with everything that was
drafted after any of them. How many drafts that are depends on earlier tokens only, so the judgement may.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from specproof.rules.rows import nodes, normalised, parent_rows, pick
from specproof.types import Draft, Law


class Prefixes(NamedTuple):
    """The distinct texts of a draft.

    Attributes:
        first: [B, N+1]; the first row that carries the same text as this one.
        home: [B, N]; for each node the first row with its parent's text.
        turn: [B, N]; how many nodes before it have the same home.
    """

    first: Tensor
    home: Tensor
    turn: Tensor


class Offers(NamedTuple):
    """One entry for each text after which something was drafted.

    Attributes:
        target, drawn: [M, V] rows after that text.
        tokens: [M, K] drafted after it, in the order they were drawn.
        present: [M, K]; false for padding.
    """

    target: Tensor
    drawn: Tensor
    tokens: Tensor
    present: Tensor


class Verdict(NamedTuple):
    """What a rule says to offers.

    Attributes:
        taken: [M, K] probability that verification moves on to this draft's token; 0 for padding.
        stay: [M] probability that it stops; with `taken` it sums to 1.
        given: [M, V] mass that moving on has given to each token, averaged over drafts; (target - given)⁺ is left
            to the extra token.
    """

    taken: Tensor
    stay: Tensor
    given: Tensor


def top_down(target: Tensor, draft: Draft, judge: Callable[[Offers], Verdict]) -> Law:
    """Law of applying `judge` at the root and after each token that was taken; target is [B, N+1, V].

    All stop mass of a text stands at the first node that carries it.
    """
    assert draft.rows is not None
    texts, real = prefixes(draft), nodes(draft)
    reached, stays = target.new_zeros(target.shape[:2]), target.new_ones(target.shape[:2])
    reached[:, 0] = 1
    count = torch.zeros_like(texts.first).scatter_add_(1, texts.home, real.long())
    batch, row = count.nonzero(as_tuple=True)
    if not len(batch):
        return Law(reached, lambda at: pick(target, at))
    # Nodes by text and turn, [B, N+1, K]; node 0 stands in where there is none.
    table = texts.first.new_full((*count.shape, int(count.max())), -1)
    b, node = real.nonzero(as_tuple=True)
    table[b, texts.home[b, node], texts.turn[b, node]] = node
    drafted = table[batch, row]
    present, drafted = drafted >= 0, drafted.clamp(min=0)
    tokens = draft.tokens[batch[:, None], drafted]
    rows = draft.rows[batch, row].to(target.dtype)
    verdict = judge(Offers(target[batch, row], rows, tokens, present))

    moved = torch.zeros_like(reached)  # into each text, from the text before it
    into = texts.first[batch[:, None], drafted + 1]
    moved.index_put_((batch[:, None].expand_as(into), into), verdict.taken, accumulate=True)
    for i, home in enumerate(texts.home.unbind(1), start=1):
        reached[:, i] = pick(reached[..., None], home)[:, 0] * moved[:, i]
    stays[batch, row] = verdict.stay
    offer = torch.full_like(count, -1).index_put_((batch, row), torch.arange(len(batch), device=row.device))

    def extra(at: Tensor) -> Tensor:
        spot, row = pick(offer[..., None], at), pick(target, at)
        given = torch.where(spot >= 0, verdict.given[spot[:, 0].clamp(min=0)], 0)
        return normalised((row - given).clamp_(min=0), row)

    return Law(reached * stays, extra)


def prefixes(draft: Draft) -> Prefixes:
    """Which nodes carry the same text."""
    parents, real = parent_rows(draft), nodes(draft)
    width = parents.shape[1]
    first = torch.arange(width + 1, device=parents.device).repeat(len(parents), 1)
    home, turn = torch.zeros_like(parents), torch.zeros_like(parents)
    for node in range(width):
        home[:, node] = pick(first[..., None], parents[:, node])[:, 0]
        kin = (home[:, :node] == home[:, node, None]) & real[:, :node]
        turn[:, node] = kin.sum(1)
        twins = kin & (draft.tokens[:, :node] == draft.tokens[:, node, None])
        if node:
            found = twins.max(1)  # of equal values the index of the first
            first[:, node + 1] = torch.where(found.values, found.indices + 1, node + 1)
    return Prefixes(first, home, turn)
