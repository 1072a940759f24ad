"""Random decisions, keyed by what they decide. No global generator, no state between calls.

The same key always gives the same number, so a text depends on its seed and on the model alone, not on its
batch mates. `audit.engine_exact` puts an enumerator in the place of this noise.
"""

from collections.abc import Sequence
from hashlib import blake2b
from struct import pack

import numpy as np
import torch
from torch import Tensor

from specproof.types import GUMBEL, Key


def uniform(key: Key) -> float:
    """The number in [0, 1) that belongs to a key: 53 bits of a keyed hash."""
    message = pack("<QQQQ", key.seed, key.root, key.use.number, key.part)
    return (int.from_bytes(blake2b(message, digest_size=8).digest(), "little") >> 11) * 2.0**-53


def completion_seed(seed: int, index: int) -> int:
    """Seed of completion number `index` of a request: the request's own, then seeds derived from it."""
    if index == 0:
        return seed
    digest = blake2b(pack("<QQ", seed, index), digest_size=8, person=b"completion").digest()
    return int.from_bytes(digest, "little")


def inverse_cdf(rows: Tensor, coins: Tensor) -> Tensor:
    """The first index whose running sum exceeds the coin's share of the total.

    Half-open: a coin in [0, 1) on an interior edge goes to the next token with mass, and one that rounding
    pushes past the end goes to the last token with mass. A zero-mass token is never returned.

    Args:
        rows: [M, V], nonnegative, each with some mass; need not sum to 1 exactly.
        coins: [M] float64 in [0, 1).
    """
    # Some rows at a time: in double precision all of them would not stay in the cache.
    several = max(1, 2**16 // rows.shape[1]) if rows.device.type == "cpu" else len(rows)
    if len(rows) > several:
        parts = zip(rows.split(several), coins.split(several), strict=True)
        return torch.cat([inverse_cdf(*part) for part in parts])
    cumulative = rows.double().cumsum(-1)
    total = cumulative[:, -1:].contiguous()
    chosen = torch.searchsorted(cumulative, coins[:, None] * total, right=True)
    # The first index at which the running sum reaches its total carries the last mass.
    last = torch.searchsorted(cumulative, total)
    return torch.minimum(chosen, last)[:, 0]


def exponentials(key: Key, size: int) -> Tensor:
    """Independent standard exponential numbers > 0 for tokens 0 to size - 1 under one key; [size] float64.

    The raw stream of a counter-based generator (Philox), so every machine has the same bits; token v's number
    does not depend on `size`.
    """
    # Arrays of their own type: numpy would take a list with a large seed for floating point.
    own = np.array([key.seed, key.root], dtype=np.uint64)
    block = np.array([0, 0, key.part, key.use.number], dtype=np.uint64)
    raw = np.asarray(np.random.Philox(key=own, counter=block).random_raw(size))
    raw >>= np.uint64(12)
    # 52 bits and a half: neither 0 nor 1 can come out. In place, since this is done for every position.
    numbers = raw.astype(np.float64)
    numbers += 0.5
    numbers *= 2.0**-52
    np.log(numbers, out=numbers)
    return torch.from_numpy(np.negative(numbers, out=numbers))


def race(rows: Tensor, keys: Sequence[Key]) -> Tensor:
    """The token that comes first in each row [M, V], [M] long: token v arrives at exponential / probability.

    Each winner has its row's law, and rows that resemble each other have the same winner under the same key
    more often than not. It is the argmax of log probability + Gumbel noise. A zero-mass token never arrives;
    of equal arrivals the lowest token counts.
    """
    places: dict[Key, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    winners = torch.zeros(len(rows), dtype=torch.long, device=rows.device)
    for key, mine in places.items():
        # Key by key: all arrivals at once would be as large as the rows, in double precision.
        ours = rows[mine[0]][None] if len(mine) == 1 else rows[mine]
        winners[mine] = (
            ours.max(-1).indices if _is_certain(ours) else _first(exponentials(key, rows.shape[1]), ours)
        )
    return winners


def _is_certain(rows: Tensor) -> bool:
    """Whether each row has one token only, as every greedy row does: then no noise is needed."""
    # Most rows that are not certain are found out by their largest entry, which is quicker than to count.
    return bool((rows.amax(-1) >= 1).all()) and int(torch.count_nonzero(rows)) == len(rows)


def _first(noise: Tensor, rows: Tensor) -> Tensor:
    arrival = noise.to(rows.device) / rows  # in double precision, as the noise is
    # numpy's search is ten times as quick, and finds the first of equals just so.
    return torch.from_numpy(arrival.numpy().argmin(-1)) if rows.device.type == "cpu" else arrival.argmin(-1)


class CounterNoise:
    """The noise of production: a counter-based hash of the key, then the inverse CDF of the row.

    Keys for the use `GUMBEL` are raced instead, so that equal keys make different rows agree.
    """

    def choose(self, rows: Tensor, keys: Sequence[Key]) -> Tensor:
        """Draw one index from each row [M, V] under its key; [M] long. One call is for one use."""
        if keys and keys[0].use == GUMBEL:
            return race(rows, keys)
        if _is_certain(rows):
            return rows.max(-1).indices
        coins = torch.tensor([uniform(key) for key in keys], dtype=torch.float64, device=rows.device)
        return inverse_cdf(rows, coins)
