"""What speculation is worth: the speed-up that a cost ratio and an acceptance promise, and the best length.

The model of the paper: every drafted token is accepted with the same probability, independently. `pace` does the
same with what it measures, depth by depth.
"""

from __future__ import annotations

from typing import NamedTuple

from specproof.errors import SpecproofError


class Advice(NamedTuple):
    """How far to draft, and what it gives.

    Attributes:
        length: tokens to draft in each step; 0 says that speculation is better off.
        speedup: predicted speed over plain decoding; 1 where speculation is off.
    """

    length: int
    speedup: float

    def __str__(self) -> str:
        if self.length == 0:
            return "off: no draft length is faster than plain decoding"
        return f"draft {self.length} tokens a step: {self.speedup:.2f}x"


def expected_tokens(acceptance: float, length: int) -> float:
    """Committed tokens of a step that drafts `length` tokens, the extra token included.

    Source: Leviathan et al. 2023, equation 1.
    """
    return float(length + 1) if acceptance == 1 else (1 - acceptance ** (length + 1)) / (1 - acceptance)


def predicted_speedup(cost: float, acceptance: float, length: int) -> float:
    """Speed over plain decoding where a wide target forward costs what a narrow one does.

    Args:
        cost: seconds of one draft token / seconds of one target forward.
        acceptance: probability in [0, 1] that a drafted token is accepted.
        length: drafted tokens a step.

    Source: Leviathan et al. 2023, theorem 3.8.
    """
    if not 0 <= acceptance <= 1:
        raise SpecproofError(f"acceptance={acceptance!r} is not allowed: give a probability, 0 to 1")
    if not cost >= 0:
        raise SpecproofError(f"cost={cost!r} is not allowed: give draft time / target time, a number >= 0")
    if length < 0:
        raise SpecproofError(f"length={length!r} is not allowed: give a whole number >= 0")
    return expected_tokens(acceptance, length) / (1 + length * cost)


def advise(cost: float, acceptance: float, longest: int = 64) -> Advice:
    """The draft length up to `longest` that promises most; arguments as for `predicted_speedup`."""
    speedups = [predicted_speedup(cost, acceptance, length) for length in range(longest + 1)]
    best = max(range(len(speedups)), key=speedups.__getitem__)
    return Advice(best, speedups[best])
