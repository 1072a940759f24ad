"""SPEC-RL, lossy as published: last epoch's response is the draft, and a rejection draws from the target."""

from torch import Tensor

from specproof.rules.lenience import lenience
from specproof.rules.parameters import FACTOR
from specproof.rules.rows import pick
from specproof.types import Draft, Law


def spec_rl(target: Tensor, draft: Draft, *, factor: float = FACTOR.default) -> Law:
    """Law of the published rule on chains; target [B, N+1, V] is the current policy, the draft the previous one.

    Accepts with min(1, factor · current / previous); the first rejected token and all after it come from the
    current policy, not from a residual. Not lossless even at factor 1: what both policies like comes out
    too often. `spec_rl_exact` has the residual.

    Source: SPEC-RL 2025 (2509.23232).
    """
    FACTOR.check(factor)
    return Law(lenience(target, draft, share=1 / factor).stop, lambda at: pick(target, at))
