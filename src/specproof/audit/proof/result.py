"""What a proof says: frozen, and `str(result)` is the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from specproof.audit.proof.refute import Counterexample
from specproof.types import Drawn

Status = Literal["PROVED", "COUNTEREXAMPLE", "UNKNOWN"]


@dataclass(frozen=True)
class Outcome:
    """How a proof ended.

    Attributes:
        status: proved for all rows, refuted, or neither in the time given.
        cases: that had to be told apart.
        counterexample: rows for which the rule is not lossless, if any were found.
        reason: why nothing is known, if nothing is.
    """

    status: Status
    cases: int = 0
    counterexample: Counterexample | None = None
    reason: str = ""


@dataclass(frozen=True)
class ProofResult:
    """What is known of a rule on one vocabulary, shape and way of drawing.

    Attributes:
        rule: its name.
        vocabulary: number of tokens.
        shape: as on the command line.
        drawn: how the draft was drawn.
        outcome: of the proof.
        seconds: spent.
        replay: a command that runs it again.
    """

    rule: str
    vocabulary: int
    shape: str
    drawn: Drawn
    outcome: Outcome
    seconds: float
    replay: str

    @property
    def ok(self) -> bool:
        """Proved lossless."""
        return self.outcome.status == "PROVED"

    def __str__(self) -> str:
        what = f"{self.rule}, {self.vocabulary} tokens, shape {self.shape}, {self.drawn}"
        found, seconds = self.outcome, f"{self.seconds:.1f} s"
        if found.counterexample is not None:
            return f"COUNTEREXAMPLE: {what} ({seconds})\n{found.counterexample}"
        if self.ok:
            return f"PROVED: {what}: lossless for all rows ({seconds}, {found.cases} cases)"
        return f"UNKNOWN: {what}: {found.reason} ({seconds})"

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        found = self.outcome.counterexample
        return {
            "rule": self.rule,
            "vocabulary": self.vocabulary,
            "shape": self.shape,
            "drawn": self.drawn,
            "status": self.outcome.status,
            "ok": self.ok,
            "seconds": round(self.seconds, 2),
            "cases": self.outcome.cases,
            "reason": self.outcome.reason,
            "counterexample": None if found is None else found.as_dict(),
            "replay": self.replay,
        }
