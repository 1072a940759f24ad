"""The greedy construction of Hu et al.: all children but the last are chosen, the last is drawn from the rest."""

import torch
from torch import Tensor

from specproof.rules.rows import normalised, ratio
from specproof.rules.topdown import Offers, Verdict, top_down
from specproof.types import Draft, Law


def hu(target: Tensor, draft: Draft) -> Law:
    """Law for top_and_one drafts on trees; target is [B, N+1, V].

    At each node the last child is accepted with min(1, target/draft), where the draft row is without the other
    children. Otherwise the residual, which has the other children's whole target mass, is followed into them.
    No lossless rule accepts more of such a draft on one level.

    Source: Hu et al. 2025 (2502.18779), greedy draft sampling.
    """
    return top_down(target, draft, _judge)


def _judge(offers: Offers) -> Verdict:
    target, drawn, tokens, present = offers
    place = torch.arange(tokens.shape[1], device=tokens.device)
    last = place == present.sum(-1, keepdim=True) - 1  # [M, K]
    chosen = present & ~last
    # Counts, not flags: padding repeats tokens.
    fixed = torch.zeros_like(target).scatter_add_(1, tokens, chosen.to(target.dtype)) > 0
    rest = drawn.masked_fill(fixed, 0)
    rest = normalised(rest, rest)
    accept = ratio(target.gather(1, tokens), rest.gather(1, tokens)).clamp(max=1)
    refused = 1 - (accept * last).sum(-1, keepdim=True)
    residual = normalised((target - rest).clamp(min=0), target)
    taken = torch.where(last, accept, refused * residual.gather(1, tokens)) * present
    given = torch.where(fixed, target, rest)
    return Verdict(taken, refused[:, 0] * residual.masked_fill(fixed, 0).sum(-1), given)
