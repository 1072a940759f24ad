"""Losses between a head's logits and the target's rows, each one number a position.

Both are restricted to the draft vocabulary: `target` is the target's probability of each of its tokens, not
renormalised, since what the head cannot draft it cannot have accepted. Source: LK losses (2602.23881); q is the
softmax of the logits and p the target.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import kl_div

Loss = Callable[[Tensor, Tensor, float], Tensor]


def acceptance(logits: Tensor, target: Tensor) -> Tensor:
    """Probability that a token drawn from the head is accepted: sum of min(p, q); [M, D] twice to [M]."""
    return torch.minimum(logits.softmax(-1), target).sum(-1)


def kl(logits: Tensor, target: Tensor, _: float = 0.0) -> Tensor:
    """KL(p‖q), with p renormalised on the draft vocabulary; 0 where the target has no mass there."""
    mass = target.sum(-1, keepdim=True)
    renormalised = target / mass.clamp_min(torch.finfo(target.dtype).tiny)
    return kl_div(logits.log_softmax(-1), renormalised, reduction="none").sum(-1)


def tv(logits: Tensor, target: Tensor, _: float = 0.0) -> Tensor:
    """Total variation distance: 1 - acceptance."""
    return 1 - acceptance(logits, target)


def lk_alpha(logits: Tensor, target: Tensor, _: float = 0.0) -> Tensor:
    """Minus the logarithm of the acceptance; 0 where nothing can be accepted whatever the head says."""
    accepted = acceptance(logits, target)
    possible = accepted > 0
    return -torch.where(possible, torch.where(possible, accepted, 1).log(), 0)


def lk_lambda(logits: Tensor, target: Tensor, eta: float = 3.0) -> Tensor:
    """Weight x KL + (1 - weight) x TV; the weight is exp(-eta x mean acceptance), without gradient.

    Far from the target KL has the better gradient, near it TV has the better aim.
    """
    accepted = acceptance(logits, target)
    weight = torch.exp(-eta * accepted.detach().mean())
    return weight * kl(logits, target) + (1 - weight) * (1 - accepted)


LOSSES: dict[str, Loss] = {"kl": kl, "tv": tv, "lk_alpha": lk_alpha, "lk_lambda": lk_lambda}
