"""The auditor audited: every seeded fault must be caught at its level, every control must pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specproof.audit.mutants import CONTROLS, MUTANTS, Case
from specproof.audit.mutants.case import EngineAudit, Finding, Kind, Level
from specproof.audit.report import EngineResult

# A distance worked out beforehand has to be met to rounding.
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class SelfTestRow:
    """One entry of the catalogue, audited.

    Attributes:
        id, name, kind, level, description: of the entry.
        control: whether it is to pass; otherwise it is to be caught.
        caught: whether the audit found something wrong.
        tv: the total variation found; None where the level answers without one.
        expected: the exact total variation, where it is known.
        says: what the audit said.
        as_expected: whether distance or words are those that the catalogue expects, if it expects any.
        samples: drawn for the answer; all levels are exact so far, so none were.
        false_alarm: probability that a correct part is called faulty; 0 for exact answers.
    """

    id: str
    name: str
    kind: Kind
    level: Level
    description: str
    control: bool
    caught: bool
    tv: float | None
    expected: float | None
    says: str
    as_expected: bool
    samples: int = 0
    false_alarm: float = 0.0

    @property
    def ok(self) -> bool:
        """Caught or passed as it should be, and for the right reason."""
        return self.caught != self.control and self.as_expected

    @property
    def verdict(self) -> str:
        """In a word."""
        if self.control:
            return "false alarm" if self.caught else "passed"
        return "missed" if not self.caught else "caught" if self.as_expected else "wrong TV"

    def __str__(self) -> str:
        return f"{self.verdict}: {self.id} {self.name}: {self.says}"


@dataclass(frozen=True)
class SelfTestResult:
    """All entries, audited."""

    rows: tuple[SelfTestRow, ...]

    @property
    def ok(self) -> bool:
        """Every fault caught and every control passed."""
        return all(row.ok for row in self.rows)

    def __str__(self) -> str:
        faults = [row for row in self.rows if not row.control]
        controls = [row for row in self.rows if row.control]
        return (
            f"{'SOUND' if self.ok else 'NOT SOUND'}: {sum(row.ok for row in faults)} of {len(faults)} seeded "
            f"faults caught, {sum(row.ok for row in controls)} of {len(controls)} controls passed; "
            f"exact answers: {sum(row.samples for row in self.rows)} samples, "
            f"false-alarm rate {max((row.false_alarm for row in self.rows), default=0.0):g}"
        )


def self_test(mutants: Sequence[Case] = MUTANTS, controls: Sequence[Case] = CONTROLS) -> SelfTestResult:
    """Run the catalogue, or the entries given."""
    return SelfTestResult((*(_row(case, False) for case in mutants), *(_row(case, True) for case in controls)))


def audit_mutants(architecture: str = "llama") -> Iterator[tuple[str, EngineResult]]:
    """The exact audit of transformer engines with a seeded fault; every result should be NOT LOSSLESS."""
    for case in MUTANTS:
        if isinstance(case.audit, EngineAudit):
            yield case.description, case.audit.result(architecture)


def _row(case: Case, control: bool) -> SelfTestRow:
    finding = case.audit.run()
    known = None if isinstance(case.expected, str) or case.expected is None else float(case.expected)
    return SelfTestRow(
        case.id,
        case.name,
        case.kind,
        case.level,
        case.description,
        control,
        not finding.ok,
        finding.tv,
        0.0 if control and finding.tv is not None else known,
        finding.report,
        _as_expected(case, finding),
    )


def _as_expected(case: Case, finding: Finding) -> bool:
    if isinstance(case.expected, str):
        return case.expected in finding.report
    if case.expected is None:
        return True
    return finding.tv is not None and abs(finding.tv - float(case.expected)) <= _TOLERANCE
