"""Numbers that configure a rule: what each may be, and its default, written once for rule and specification.

No torch here, so that a wrong `name:value` is refused before any model is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from specproof.errors import SpecproofError


@dataclass(frozen=True)
class Parameter:
    """A number that configures a rule, under one keyword in the torch rule and in its specification.

    Attributes:
        name: the keyword.
        exact: the default, as the specification takes it.
        low, high: least and most value; no most where `high` is None.
        above: whether `low` itself is not allowed.
    """

    name: str
    exact: Fraction
    low: int
    high: int | None = None
    above: bool = False

    @property
    def default(self) -> float:
        """The default, as the torch rule takes it."""
        return float(self.exact)

    @property
    def allowed(self) -> str:
        """The interval, in words for an error."""
        least = f"{'above' if self.above else 'at least'} {self.low}"
        return least if self.high is None else f"{least} and at most {self.high}"

    def check(self, value: float | Fraction) -> None:
        """Raise unless the value is allowed; NaN and infinity never are."""
        enough = value > self.low if self.above else value >= self.low
        if not (enough and value < float("inf") and (self.high is None or value <= self.high)):
            raise SpecproofError(f"{self.name}={value} is not allowed: give a number {self.allowed}")


# Leviathan et al. 2023, A.5, names no default: a half, so that a token may come out twice as often.
SHARE = Parameter("share", Fraction(1, 2), 0, 1, above=True)
# Cai et al. 2024 (Medusa), 2.3.1: delta is the root of epsilon.
EPSILON = Parameter("epsilon", Fraction(9, 100), 0, 1, above=True)
DELTA = Parameter("delta", Fraction(3, 10), 0, above=True)
# MARS (2601.15498); the peak logit belongs to the model, so its default is only an example.
THETA = Parameter("theta", Fraction(9, 10), 0, 1)
PEAK = Parameter("peak", Fraction(10), 0, above=True)
# SPEC-RL (2509.23232): 1 is the mildest setting of the paper.
FACTOR = Parameter("factor", Fraction(1), 1)
# SGLang ships both as 1, which is the lossless target walk; .3 is what makes this the lossy rule.
SINGLE = Parameter("single", Fraction(3, 10), 0, 1)
ACCUMULATED = Parameter("accumulated", Fraction(1), 0, 1, above=True)
