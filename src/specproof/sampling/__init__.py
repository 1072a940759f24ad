"""From logits to rows: the one place that knows what sampling parameters mean.

Target, drafter, reference and auditor all come through `warp_batch` (many rows of many sequences) or `warp_next`
(one row): processors that look at the text first, then temperature and the filters.
"""

from specproof.sampling.compile import ends_for, processors_for
from specproof.sampling.filters import precise, warp
from specproof.sampling.fold import Rows, fold, no_law, warp_batch, warp_next

__all__ = ["Rows", "ends_for", "fold", "no_law", "precise", "processors_for", "warp", "warp_batch", "warp_next"]
