"""SPEC-RL repaired: the same reuse of an old response, with the residual that the published rule leaves out."""

from torch import Tensor

from specproof.rules.rejection import rejection
from specproof.types import Draft, Law


def spec_rl_exact(target: Tensor, draft: Draft) -> Law:
    """Law of the repaired rule on chains; target [B, N+1, V] is the current policy, the draft the previous one.

    It is rejection: factor 1, and a rejected token is replaced by a draw from (current - previous)⁺. That
    takes whole rows of the previous policy; its probability of the one drafted token is not enough.

    Lossless in law, for a draft drawn from the previous policy independently of the current one. Between
    training epochs that does not hold: the current policy was trained on the very response that is now the
    draft, so given the current policy that response no longer follows the previous one's law, and no rule
    that only sees both rows can repair that. Where on-policy samples must be exact, draft afresh.

    Source: SPEC-RL 2025 (2509.23232), with the residual of Leviathan et al. 2023 (2211.17192), 2.3.
    """
    return rejection(target, draft)
