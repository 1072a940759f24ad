"""K-SEQ: of several independent chains, test those that agree with the accepted text, one token at a time."""

from math import ceil, log2

import torch
from torch import Tensor

from specproof.rules.powers import chord
from specproof.rules.rows import ratio
from specproof.rules.topdown import Offers, Verdict, top_down
from specproof.types import Draft, Law


def kseq(target: Tensor, draft: Draft) -> Law:
    """Law of K-SEQ on chains hanging from the root; target is [B, N+1, V].

    Each of the k drafts of a position is accepted with min(1, target / (slack · draft)), the same for all. With
    enough slack no token is given more than its target mass; the least slack for that is found by bisection and
    rounded up. One draft needs slack 1: then this is token-by-token rejection.

    Source: Sun et al. 2023 (2310.15141), algorithm 2 (K-SEQ), and its use on sequences.
    """
    return top_down(target, draft, _judge)


def _judge(offers: Offers) -> Verdict:
    target, drawn, tokens, present = offers
    count = present.sum(-1)
    slack = 1 + smallest_excess(target, drawn, count)[:, None]
    accept = ratio(target.gather(1, tokens), slack * drawn.gather(1, tokens)).clamp(max=1) * present
    refused = (1 - accept).cumprod(1)
    before = torch.cat([torch.ones_like(refused[:, :1]), refused[:, :-1]], 1)
    shared = torch.minimum(target / slack, drawn)  # what one draft would be accepted with
    missed = (1 - shared.sum(-1)).clamp(min=0)
    tested = chord(missed, torch.ones_like(missed), count)  # expected number of drafts that are tested
    return Verdict(before * accept, refused[:, -1], shared * tested[:, None])


def smallest_excess(target: Tensor, drawn: Tensor, count: Tensor) -> Tensor:
    """The least valid slack - 1 for `count` [M] drafts from rows [M, V], never below the root but for rounding."""
    excess = (count - 1).to(target.dtype)  # valid for all rows; for one draft the only choice
    (several,) = (count > 1).nonzero(as_tuple=True)
    target, drawn, count, high = target[several], drawn[several], count[several], excess[several]
    low, eps = torch.zeros_like(high), torch.finfo(target.dtype).eps
    gap = drawn - target
    for _ in range(2 - ceil(log2(eps))):
        middle = (low + high) / 2
        # Chance to refuse one draft, written so that nothing cancels where the rows are nearly equal.
        missed = torch.addcmul(gap, middle[:, None], drawn).clamp_(min=0).sum(-1) / (1 + middle)
        later = missed * chord(missed, torch.ones_like(missed), count - 1)  # drafts tested after the first
        # No token is given more than its mass if no more than `slack` drafts are tested. Equal rows meet this with
        # equality, so rounding must not decide; what it adds is cut from the residual.
        valid = later <= middle * (1 + 8 * eps)
        low, high = torch.where(valid, low, middle), torch.where(valid, middle, high)
    return excess.index_copy(0, several, high)
