"""Lenient rejection, lossy: the draft is judged as if it had been less likely than it was."""

from dataclasses import replace

from torch import Tensor

from specproof.rules.parameters import SHARE
from specproof.rules.rejection import rejection
from specproof.rules.rows import drawn_rows
from specproof.types import Draft, Law


def lenience(target: Tensor, draft: Draft, *, share: float = SHARE.default) -> Law:
    """Law of lenient rejection on chains; target is [B, N+1, V].

    Accepts with min(1, target / (share · draft)), else draws from (target - share · draft)⁺. Share 1 is plain
    rejection; below it the law is another one. What still holds, for each drafted place: no token comes out
    more than 1/share times as often as it should. There is no lower bound, so diversity can shrink.
    One-hot rows (temperature 0) leave nothing to be lenient about; the paper's greedy variant, which looks at
    probabilities before the argmax, is not this rule.

    Source: Leviathan et al. 2023 (2211.17192), A.5, where the share is called lenience.
    """
    SHARE.check(share)
    return rejection(target, replace(draft, rows=drawn_rows(target, draft) * share))
