"""Token-by-token rejection: accept with min(1, target/draft), else draw from the residual."""

import torch
from torch import Tensor

from specproof.rules.rows import chain_ratios, nodes, residual
from specproof.types import Draft, Law


def rejection(target: Tensor, draft: Draft) -> Law:
    """Law of speculative sampling on chains; target is [B, N+1, V].

    Source: Leviathan et al. 2023 (2211.17192), section 2.3; Chen et al. 2023 (2302.01318), algorithm 2.
    """
    accept = chain_ratios(target, draft, nodes(draft)).clamp_(max=1)  # [B, N]; padding is never accepted
    edge = accept.new_ones(len(accept), 1)
    reached = torch.cat([edge, accept.cumprod(1)], 1)  # [B, N+1]
    rejected = torch.cat([1 - accept, edge], 1)
    return Law(reached * rejected, lambda at: residual(target, draft, at))
