"""What the table and the picture of an audit show: one row a rule, in sections by the kind of draft."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specproof.audit.compare import Comparison
    from specproof.audit.own import OwnRows
    from specproof.audit.report import RuleResult

HEADS = ("rule", "lossless?", "TV", "tokens per round", "gap", "instances")


@dataclass(frozen=True)
class Row:
    """A rule in a section.

    Attributes:
        rule, verdict, ok: as in the results of audits.
        lossless: whether its law was the target's.
        tv: largest total variation of all its instances.
        tokens, gap: see `audit.compare`.
        instances: of the exact audit of its law.
    """

    rule: str
    verdict: str
    ok: bool
    lossless: bool
    tv: float
    tokens: float
    gap: float
    instances: int

    @property
    def cells(self) -> tuple[str, ...]:
        """In the order of HEADS."""
        answer = "yes" if self.verdict == "EXACT" else self.verdict
        return (self.rule, answer, tv_text(self.tv), f"{self.tokens:.4f}", gap_text(self.gap), str(self.instances))


@dataclass(frozen=True)
class Section:
    """Rules on the same drafts, best first; `comparison` says which, and what gaps are measured against."""

    comparison: Comparison
    rows: tuple[Row, ...]

    @property
    def title(self) -> str:
        """The kind of draft, as a heading."""
        return self.comparison.group[0].upper() + self.comparison.group[1:]

    @property
    def note(self) -> str:
        """What the gap is measured against."""
        count = self.comparison.instances
        of = "" if count == 1 else f", mean of {count} pairs of rows"
        return f"Gap to {self.comparison.best:.4f} tokens per round{of}. {_sentence(self.comparison.source)}."


def audit_sections(results: Iterable[RuleResult], comparisons: Sequence[Comparison]) -> tuple[Section, ...]:
    """Sections of `audit rule`: laws from random instances, tokens from the comparisons."""
    by_rule = {result.rule: result for result in results}
    sections = []
    for comparison in comparisons:
        rows = []
        for s in comparison.standings:
            r = by_rule[s.rule]
            rows.append(Row(s.rule, r.verdict, r.ok, r.lossless, r.tv, s.tokens, s.gap, r.instances))
        sections.append(Section(comparison, tuple(rows)))
    return tuple(sections)


def own_section(own: OwnRows) -> Section:
    """The section of the user's rows; TV is that of texts of several rounds."""
    rows = (
        Row(r.rule, r.verdict, r.ok, r.lossless, max(r.tv, r.text_tv), r.tokens, r.gap, 1) for r in own.results
    )
    return Section(own.comparison, tuple(rows))


def tv_text(tv: float) -> str:
    """Four places, or the size of what is rounding."""
    return f"{tv:.4f}" if tv == 0 or tv >= 1e-4 else f"{tv:.0e}"


def gap_text(gap: float) -> str:
    """A percentage; rounding below zero is zero."""
    percent = round(100 * gap, 2) + 0.0
    return f"{percent:.2f} %".replace("-", "−")


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
