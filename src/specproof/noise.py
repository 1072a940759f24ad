"""Random decisions, keyed by what they decide. No global generator, no state between calls.

The same key always gives the same number, so a text depends on its seed and on the model alone, not on its
batch mates. `audit.engine_exact` puts an enumerator in the place of this noise.
"""

from collections.abc import Sequence
from hashlib import blake2b
from struct import pack

import torch
from torch import Tensor

from specproof.types import Key


def uniform(key: Key) -> float:
    """The number in [0, 1) that belongs to a key: 53 bits of a keyed hash."""
    message = pack("<QQQQ", key.seed, key.root, key.use.number, key.part)
    return (int.from_bytes(blake2b(message, digest_size=8).digest(), "little") >> 11) * 2.0**-53


def inverse_cdf(rows: Tensor, coins: Tensor) -> Tensor:
    """The first index whose running sum exceeds the coin's share of the total.

    Half-open: a coin in [0, 1) on an interior edge goes to the next token with mass, and one that rounding
    pushes past the end goes to the last token with mass. A zero-mass token is never returned.

    Args:
        rows: [M, V], nonnegative, each with some mass; need not sum to 1 exactly.
        coins: [M] float64 in [0, 1).
    """
    cumulative = rows.double().cumsum(-1)
    chosen = torch.searchsorted(cumulative, coins[:, None] * cumulative[:, -1:], right=True)
    # The first index at which the running sum reaches its total carries the last mass.
    last = torch.searchsorted(cumulative, cumulative[:, -1:].contiguous())
    return torch.minimum(chosen, last)[:, 0]


class CounterNoise:
    """The noise of production: a counter-based hash of the key, then the inverse CDF of the row."""

    def choose(self, rows: Tensor, keys: Sequence[Key]) -> Tensor:
        """Draw one index from each row [M, V] under its key; [M] long."""
        coins = torch.tensor([uniform(key) for key in keys], dtype=torch.float64, device=rows.device)
        return inverse_cdf(rows, coins)
