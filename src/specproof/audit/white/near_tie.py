"""Temperature 0, teacher-forced: is each token the reference's own choice, a near-tie, or wrong?

Free runs part for good at the first near-tie, so they are not compared here. Each emitted token is judged after
the text that really stands before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from specproof.audit.white.emission import Floats

# A tie closer than this is flipped by rounding with a chance of more than one in a million.
FLIP = 1e-6


@dataclass(frozen=True)
class NearTies:
    """How far each token was from the likeliest.

    Attributes:
        tokens: how many there were.
        ties: those that were not the likeliest, but within the margin.
        fails: those further away.
        worst: largest gap, in logits.
        margin: what counts as a near-tie.
        expected: how many ties would flip by rounding of the measured size.
        pvalue: of at least as many ties, if each flips by rounding alone.
    """

    tokens: int
    ties: int
    fails: int
    worst: float
    margin: float
    expected: float
    pvalue: float

    @property
    def ok(self) -> bool:
        """No token is further away than rounding explains."""
        return self.fails == 0

    def __str__(self) -> str:
        verdict = "FAIL" if self.fails else "NEAR-TIE" if self.ties else "PASS"
        return (
            f"{verdict}: {self.tokens} tokens at temperature 0, {self.fails} wrong, {self.ties} near-ties "
            f"({self.expected:.2g} expected, p {self.pvalue:.2g}); largest gap {self.worst:.2g}, "
            f"margin {self.margin:.2g}"
        )


def margin_for(spread: float) -> float:
    """The gap that rounding with this standard deviation per logit flips once in a million times."""
    return float(-norm.ppf(FLIP) * spread * np.sqrt(2))


def near_ties(gaps: Floats, runners_up: Floats, spread: float) -> NearTies:
    """Judge tokens by their gaps.

    Args:
        gaps: [n] largest logit minus the emitted token's, under the reference.
        runners_up: [n] largest logit minus the second largest: how close each decision was.
        spread: standard deviation of a logit between forwards of different width, from a control.
    """
    margin = margin_for(spread)
    off = gaps > 0
    ties = int((off & (gaps <= margin)).sum())
    chances = norm.sf(runners_up / (spread * np.sqrt(2))) if spread > 0 else np.where(runners_up > 0, 0.0, 0.5)
    return NearTies(
        tokens=len(gaps),
        ties=ties,
        fails=int((gaps > margin).sum()),
        worst=float(gaps.max(initial=0.0)),
        margin=margin,
        expected=float(chances.sum()),
        pvalue=poisson_binomial_tail(chances, ties),
    )


def poisson_binomial_tail(chances: Floats, least: int) -> float:
    """Probability of at least `least` successes of independent tries with these chances."""
    if least == 0:
        return 1.0
    # Probabilities of 0 to least - 1 successes; more are not needed.
    law = np.zeros(least)
    law[0] = 1.0
    for chance in chances[chances > 0]:
        law[1:] = law[1:] * (1 - chance) + law[:-1] * chance
        law[0] *= 1 - chance
    return float(max(0.0, 1 - law.sum()))
