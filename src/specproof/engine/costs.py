"""What steps take: measured seconds by rows and width, and guesses between them.

Outliers are slow: a library prepares itself for a new shape, another process takes the processor. One taken at
its word could end speculation for long, since what is not done is not measured again. So what counts is the lower
third of the last steps, not the median.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable

# Steps that are looked at: few enough to follow a growing context, enough for outliers not to count.
_LAST = 15
# Up to here every number has a bucket of its own.
_FINE = 8


def bucket(number: int) -> int:
    """The bucket of a number of rows or columns: its own up to 8, then the next multiple of an eighth part."""
    if number <= _FINE:
        return number
    part = 1 << (number.bit_length() - 4)
    return -(-number // part) * part


class Costs:
    """Seconds by rows and width.

    Args:
        nominal: from rows and width to a cost in any unit: the shape of what was never measured.
    """

    def __init__(self, nominal: Callable[[int, int], float]) -> None:
        self.nominal = nominal
        self._last: dict[tuple[int, int], deque[float]] = {}
        self._seconds: dict[int, dict[int, float]] = {}  # by rows, then by width
        self._widths: dict[int, list[int]] = {}  # measured ones, sorted

    def measure(self, rows: int, width: int, seconds: float) -> None:
        """Take in one step."""
        rows, width = bucket(rows), bucket(width)
        last = self._last.get((rows, width))
        if last is None:
            last = self._last[rows, width] = deque(maxlen=_LAST)
            insort(self._widths.setdefault(rows, []), width)
        last.append(seconds)
        self._seconds.setdefault(rows, {})[width] = sorted(last)[(len(last) - 1) // 3]

    def known(self, rows: int, width: int) -> float | None:
        """What was measured just there; None if nothing was."""
        return self._seconds.get(bucket(rows), {}).get(bucket(width))

    def at(self, rows: int, width: int) -> float | None:
        """Seconds at a width: measured, between two that were, or one that was in the nominal proportion.

        None while nothing at all was measured.
        """
        near = bucket(rows)
        if near not in self._widths:
            if not self._widths:
                return None
            near = min(self._widths, key=lambda other: abs(other - rows))
        seconds, widths = self._seconds[near], self._widths[near]
        found = seconds.get(bucket(width))
        if found is None:
            place = bisect_left(widths, width)
            if 0 < place < len(widths):
                low, high = widths[place - 1], widths[place]
                found = seconds[low] + (seconds[high] - seconds[low]) * (width - low) / (high - low)
            else:
                end = widths[min(place, len(widths) - 1)]
                found = seconds[end] * self.nominal(near, width) / self.nominal(near, end)
        return found if near == bucket(rows) else found * self.nominal(rows, width) / self.nominal(near, width)
