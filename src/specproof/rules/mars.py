"""MARS, lossy: a drafted token passes if it is the target's first choice, or a close second one."""

import torch
from torch import Tensor

from specproof.rules.longest import longest_path
from specproof.rules.parameters import PEAK, THETA
from specproof.rules.rows import parent_rows, pick
from specproof.types import Draft, Law


def mars(
    target: Tensor, draft: Draft, *, theta: float = THETA.default, peak: float | Tensor = PEAK.default
) -> Law:
    """Law of margin-aware verification on trees; target is [B, N+1, V].

    Published: the target's most likely token passes, and so does the second one if its logit is more than
    theta times the first one's; otherwise, and after full acceptance, the most likely token comes out. So the
    sampling temperature hardly matters, and there is no guarantee on the law. The longest path that passes
    is taken, of equally long ones the first; of equal probabilities the lowest token counts as larger.

    A ratio of logits is no property of a distribution: adding a constant to all logits changes it and leaves
    the softmax alone. Rows have lost that constant, so the rule has to be given one number more: `peak`, the
    largest logit of each row [B, N+1] (divided by the temperature, as the rows were) or one for all rows.
    With it the test is second > first · exp(-(1 - theta) · peak): the larger the logits happen to be, the
    less likely a token it takes for a close second. A row with a peak <= 0 lets only its first choice pass.

    Source: MARS 2026 (2601.15498).
    """
    THETA.check(theta)
    if not isinstance(peak, Tensor):
        PEAK.check(peak)
    peaks = torch.as_tensor(peak, dtype=target.dtype, device=target.device).expand(target.shape[:2])
    first, best = target.max(-1)  # [B, N+1]; the first of equal maxima
    second, next_best = target.scatter(-1, best[..., None], -1).max(-1)
    close = (peaks > 0) & (second > 0) & (second > first * torch.exp(-(1 - theta) * peaks))
    batch, parents = torch.arange(len(target), device=target.device)[:, None], parent_rows(draft)
    passes = (draft.tokens == best[batch, parents]) | (
        (draft.tokens == next_best[batch, parents]) & close[batch, parents]
    )

    def extra(at: Tensor) -> Tensor:
        return torch.zeros_like(target[:, 0]).scatter_(-1, pick(best, at)[:, None], 1)

    return Law(longest_path(draft, passes).to(target.dtype), extra)
