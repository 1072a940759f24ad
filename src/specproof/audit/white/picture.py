"""What a run leaves for a picture: capital over tokens, and draws after prefixes against their rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from specproof.audit.answer import Bars, Track
from specproof.audit.white.contexts import Place
from specproof.audit.white.draws import Draws
from specproof.audit.white.evidence import Evidence

# Points of a track, and bars of a prefix; the rest of a row is one bar.
POINTS, SHOWN = 200, 10


def tracks(evidence: Evidence) -> tuple[Track, ...]:
    """The capital of all bets together, then of each arm on all emissions."""
    history = evidence.history[:: max(1, -(-len(evidence.history) // POINTS))]
    if evidence.history and history[-1] is not evidence.history[-1]:
        history.append(evidence.history[-1])
    at = (0, *(tokens for tokens, _, _ in history))
    whole = Track("all bets", at, (0.0, *(log_e for _, log_e, _ in history)))
    arms = (
        Track(arm.name, at, (0.0, *(logs[number] for _, _, logs in history)))
        for number, arm in enumerate(evidence.mixture.arms)
    )
    return (whole, *arms) if history else ()


def bars(draws: Draws, tokenizer: Any = None) -> tuple[Bars, ...]:
    """Of each prefix, its likeliest tokens and the rest."""
    found = []
    for prefix, start in enumerate(draws.prefixes.starts):
        row = draws.prefixes.contexts[Place(prefix, ())].row
        first = Counter(text[0] for text in draws.texts[prefix] if text)
        samples = sum(first.values())
        shown = [int(token) for token in np.argsort(-row, kind="stable")[:SHOWN] if row[token] > 0]
        observed = [first[token] / max(1, samples) for token in shown]
        target = [float(row[token]) for token in shown]
        found.append(
            Bars(
                title=_text(start.tokens[-12:], tokenizer),
                names=(*(_text([token], tokenizer) for token in shown), "all others"),
                target=(*target, max(0.0, 1 - sum(target))),
                observed=(*observed, max(0.0, 1 - sum(observed)) if samples else 0.0),
                samples=samples,
            )
        )
    return tuple(found)


def _text(tokens: list[int], tokenizer: Any) -> str:
    """Tokens as a reader knows them: text, or numbers where there is none."""
    return " ".join(map(str, tokens)) if tokenizer is None else repr(tokenizer.decode(tokens))[1:-1]
