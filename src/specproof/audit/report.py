"""Results of an audit: frozen, with the same names everywhere; `str(result)` is the verdict."""

from dataclasses import dataclass

# Exact sums in float64 over a few thousand terms; a real fault is larger by ten orders of magnitude.
TOLERANCE = 1e-12
# A verifier of another package computes in float32, and its coins are multiples of 2**-24.
TOLERANCE_FLOAT32 = 1e-6


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


@dataclass(frozen=True)
class EdgeFailure:
    """One script of coins that a verifier failed on.

    Attributes:
        instance: where in the panel.
        draft: the drafted tokens.
        coins: one a drafted token, then the one that decides the extra token.
        reason: what happened.
    """

    instance: str
    draft: tuple[int, ...]
    coins: tuple[float, ...]
    reason: str

    def __str__(self) -> str:
        return f"on {self.instance!r} with draft {list(self.draft)} and coins {list(self.coins)}: {self.reason}"


@dataclass(frozen=True)
class SampledResult:
    """Audit of a verifier from outside: its output counted, its coins scripted.

    Attributes:
        verifier: name and version.
        instances: size of the panel.
        samples: calls of the verifier, over the whole panel.
        pvalue: smallest of the panel, times its size (Bonferroni); 0 if an outcome of probability 0 was seen.
        false_alarm: a correct verifier has a p-value below `level` at most this often.
        level: what the p-value is compared with.
        tv: estimated total variation on the instance with the smallest p-value.
        noise: what that estimate would be on average for a correct verifier.
        worst: that instance.
        power: the total variation that is caught with 95 % power on any one instance, in any direction.
        exact_tv: largest total variation found by integrating the coins; None where they cannot be.
        edge_scripts: how many scripts of edge coins were run.
        edge_failures: those that let a token of probability 0 through, or raised.
        replay: a command that runs it again.
    """

    verifier: str
    instances: int
    samples: int
    pvalue: float
    false_alarm: float
    level: float
    tv: float
    noise: float
    worst: str
    power: float
    exact_tv: float | None
    edge_scripts: int
    edge_failures: tuple[EdgeFailure, ...]
    replay: str

    @property
    def lossless(self) -> bool:
        """Nothing speaks against the law, by samples or by integration; edge coins aside."""
        exact = self.exact_tv is None or self.exact_tv <= TOLERANCE_FLOAT32
        return self.pvalue >= self.level and exact

    @property
    def ok(self) -> bool:
        """The law holds, and so it does at every edge coin."""
        return self.lossless and not self.edge_failures

    def __str__(self) -> str:
        verdict = (
            "NOT LOSSLESS" if not self.lossless else "EDGE COINS FAIL" if self.edge_failures else "NO FAULT FOUND"
        )
        exact = (
            "coins not integrable" if self.exact_tv is None else f"TV {self.exact_tv:.1e} by integrating the coins"
        )
        lines = [
            f"{verdict}: {self.verifier}: {exact}; sampled p-value {self.pvalue:.2g}, TV {self.tv:.4f} "
            f"(noise {self.noise:.4f}) on {self.worst!r}; {self.samples} calls on {self.instances} instances, "
            f"false alarms <= {self.false_alarm:.0e}, TV {self.power:.3f} caught with 95 % power; "
            f"{len(self.edge_failures)} of {self.edge_scripts} edge scripts fail"
        ]
        # One example of each kind: a token let through, an exception raised.
        kinds = {failure.reason.split()[0]: failure for failure in reversed(self.edge_failures)}
        return "\n  ".join(lines + [str(failure) for failure in kinds.values()])
