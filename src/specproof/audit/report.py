"""Results of an audit: frozen, with the same names everywhere; `str(result)` is the verdict."""

from dataclasses import dataclass

# Exact sums in float64 over a few thousand terms; a real fault is larger by ten orders of magnitude.
TOLERANCE = 1e-12


@dataclass(frozen=True)
class RuleResult:
    """Exact audit of a rule over many instances.

    Attributes:
        rule: its name.
        instances: pairs of table models and draft shapes that were enumerated.
        tv: largest total variation between output law and target law over all of them.
        disagreement: largest difference between the torch rule and its specification in exact fractions.
        golden: known expected accepted lengths against the ones found, as (case, known, found).
        replay: a command that runs it again.
        claim: what may be said of the rule, see `Rule.claim`.
        slack: of a lossy rule, the least P(reject) + TV - TV(target, draft) over single drafts; see `audit.lossy`.
    """

    rule: str
    instances: int
    tv: float
    disagreement: float
    golden: tuple[tuple[str, float, float], ...]
    replay: str
    claim: str = "EXACT"
    slack: float | None = None

    @property
    def lossless(self) -> bool:
        """Whether the law that came out is the target's, to rounding."""
        return self.tv <= TOLERANCE

    @property
    def ok(self) -> bool:
        """What it claims holds: its specification, all known values, and TV 0 or the bound of lossy rules."""
        known = all(abs(known - found) <= TOLERANCE for _, known, found in self.golden)
        right = self.lossless if self.slack is None else self.slack >= -TOLERANCE
        return right and known and self.disagreement <= TOLERANCE

    @property
    def verdict(self) -> str:
        """The claim where it holds; "NOT LOSSLESS" or "WRONG" where it does not."""
        if self.ok:
            return self.claim
        return "NOT LOSSLESS" if self.slack is None else "WRONG"

    def __str__(self) -> str:
        known = sum(abs(known - found) <= TOLERANCE for _, known, found in self.golden)
        distance = f"{self.tv:.1e}" if self.slack is None else f"up to {self.tv:.4f}"
        bound = "" if self.slack is None else f", P(reject) + TV >= TV(target, draft) {_held(self.slack)}"
        return (
            f"{self.verdict}: {self.rule}: TV {distance} over {self.instances} instances, "
            f"specification differs by {self.disagreement:.1e}, {known} of {len(self.golden)} golden values{bound}"
        )


def _held(slack: float) -> str:
    return "held" if slack >= -TOLERANCE else f"broken by {-slack:.1e}"


@dataclass(frozen=True)
class EngineResult:
    """Exact audit of the whole engine: the law of its output against the model's.

    Attributes:
        rule, drafter: what ran.
        tv: total variation between the two laws of texts.
        mass: total probability of all enumerated paths; differs from 1 only by rounding.
        paths: number of distinct runs of the engine that were summed.
        rounds: most verification rounds with a draft in one path.
        replay: a command that runs it again, if there is one.
    """

    rule: str
    drafter: str
    tv: float
    mass: float
    paths: int
    rounds: int
    replay: str

    @property
    def ok(self) -> bool:
        """The two laws are equal to rounding, and nothing was left out of the sum."""
        return self.tv <= TOLERANCE and abs(self.mass - 1) <= TOLERANCE

    def __str__(self) -> str:
        verdict = "EXACT" if self.ok else "NOT LOSSLESS"
        return (
            f"{verdict}: engine with drafter {self.drafter}, rule {self.rule}: "
            f"TV {self.tv:.1e}, {self.paths} paths, up to {self.rounds} drafted rounds"
        )
