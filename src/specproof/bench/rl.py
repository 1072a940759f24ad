"""What a training step of reinforcement learning gains when its rollouts are written faster.

Only generation gets faster; training, rewards and weight sync do not. Amdahl's law then says what is left of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from specproof.errors import SpecproofError

# A gain below this is not worth the trouble.
_WORTH = 1.02


def step_speedup(share: float, speedup: float) -> float:
    """Speed of a training step over the same step with plain generation.

    Args:
        share: seconds of generation / seconds of the step, both without speculation.
        speedup: of generation. Tokens per forward in its place give an upper bound: what drafts that cost nothing,
            in forwards that cost no more for being wide, would reach.

    Source: NeMo-RL with EAGLE-3 (2604.26779), the bound on a step's speed-up; Amdahl's law.
    """
    if not 0 <= share <= 1:
        raise SpecproofError(f"generation share {share!r} is not allowed: give a part of the step, 0 to 1")
    if not speedup > 0:
        raise SpecproofError(f"speed-up {speedup!r} is not allowed: give a number > 0")
    return 1 / (share / speedup + 1 - share)


@dataclass(frozen=True)
class StepPlan:
    """One training step, planned.

    Attributes:
        share: of the step that is generation, without speculation.
        tokens_per_forward: as measured, if known.
        speedup: of generation as measured, if known.
        seconds: of the step without speculation, if known.
    """

    share: float
    tokens_per_forward: float | None = None
    speedup: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.tokens_per_forward is None and self.speedup is None:
            raise SpecproofError(
                "a plan needs what speculation gives: a speed-up (--speedup), tokens per forward "
                "(--tokens-per-forward), or both"
            )
        if self.tokens_per_forward is not None and not self.tokens_per_forward >= 1:
            raise SpecproofError(
                f"tokens per forward {self.tokens_per_forward!r} are not allowed: a forward gives at least 1"
            )
        if self.seconds is not None and not self.seconds > 0:
            raise SpecproofError(f"a step of {self.seconds!r} seconds is not allowed: give a number > 0")
        step_speedup(self.share, 1.0 if self.speedup is None else self.speedup)

    @property
    def bound(self) -> float | None:
        """The most that this many tokens per forward can give: drafts for nothing, wide forwards at no cost."""
        return None if self.tokens_per_forward is None else step_speedup(self.share, self.tokens_per_forward)

    @property
    def expected(self) -> float | None:
        """What the measured speed-up of generation gives."""
        return None if self.speedup is None else step_speedup(self.share, self.speedup)

    @property
    def limit(self) -> float:
        """What generation in no time at all would give."""
        return float("inf") if self.share == 1 else 1 / (1 - self.share)

    @property
    def worth(self) -> bool:
        """Whether a step gains anything worth having, as far as is known."""
        known = self.expected if self.expected is not None else self.bound
        return known is not None and known >= _WORTH

    def as_dict(self) -> dict[str, float | bool | None]:
        """All figures, for JSON; a limit without bound is None."""
        return {
            "generation_share": self.share,
            "tokens_per_forward": self.tokens_per_forward,
            "speedup": self.speedup,
            "step_seconds": self.seconds,
            "step_speedup": self.expected,
            "step_bound": self.bound,
            "step_limit": None if self.limit == float("inf") else self.limit,
            "worth": self.worth,
        }

    def __str__(self) -> str:
        return "\n".join((f"Generation is {100 * self.share:.1f} % of a training step.", *self._sentences()))

    def _sentences(self) -> list[str]:
        said = []
        if self.expected is not None:
            said.append(f"Generation {self.speedup:.2f}x as fast makes a step {self._gain(self.expected)}.")
        if self.bound is not None:
            said.append(
                f"{self.tokens_per_forward:.2f} tokens per forward can make it {self._gain(self.bound)} at most: "
                "if drafts cost nothing and a wide forward no more than a narrow one."
            )
        if self.limit == float("inf"):
            said.append("There is nothing else in a step, so it gains all that generation gains.")
        else:
            said.append(f"Generation in no time at all would make it {self._gain(self.limit)}.")
        said.append(self._verdict())
        return said

    def _gain(self, speedup: float) -> str:
        if self.seconds is None:
            return f"{speedup:.3f}x as fast"
        return f"{speedup:.3f}x as fast ({self.seconds:.1f} s become {self.seconds / speedup:.1f} s)"

    def _verdict(self) -> str:
        if not self.worth:
            return "Don't speculate here: a step gains nothing worth having."
        known = self.expected if self.expected is not None else self.bound
        assert known is not None
        saved = 100 * (1 - 1 / known)
        if self.expected is None:
            return f"At most {saved:.0f} % of a step's time can be saved; measure the speed-up to know how much."
        rest = 100 * (1 - self.share) * known
        return (
            f"Speculate: {saved:.0f} % of a step's time is saved; {rest:.0f} % of what is left is not generation."
        )


def plans_from(path: Path, share: float, seconds: float | None = None) -> dict[str, StepPlan]:
    """A plan for each way and temperature of a bench, from the mean of its kinds.

    Args:
        path: what `specproof bench --json` wrote.
        share, seconds: of the step.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        found = [one for one in document["figures"] if one["kind"] == "mean" and one["way"] != "none"]
        return {
            f"{one['way']} at temperature {one['temperature']:g}:": StepPlan(
                share, one["tokens_per_forward"], one["speedup"], seconds
            )
            for one in found
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SpecproofError(
            f"cannot read --measured {path} ({error!r}); give the --json FILE of a bench"
        ) from error
