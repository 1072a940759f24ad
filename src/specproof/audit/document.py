"""Audits of rules as one JSON document: what `specproof audit rule --json` writes and the page draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from specproof.audit.compare import Comparison, Standing
from specproof.audit.report import RuleResult


def rules_document(results: Sequence[RuleResult], comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """An entry a rule: the result, its verdict, and where the rule stands in each group of drafts."""
    return [
        asdict(result)
        | {"ok": result.ok, "verdict": result.verdict, "lossless": result.lossless}
        | {"rounds": [_round(c, s) for c in comparisons for s in c.standings if s.rule == result.rule]}
        for result in results
    ]


def _round(comparison: Comparison, standing: Standing) -> dict[str, Any]:
    return {
        "group": comparison.group,
        "tokens": standing.tokens,
        "gap": standing.gap,
        "best": comparison.best,
        "source": comparison.source,
        "optimum": comparison.optimum,
        "pairs": comparison.instances,
    }
