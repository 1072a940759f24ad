"""How far the laws that a server reports for one text differ, with speculation and without."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specproof.audit.endpoint.wire import Row
from specproof.audit.white.ledger import Ledger

# Pasts that are remembered, so that memory is bounded.
_MOST = 20_000


class Drift:
    """Rows by what stood before them; each is compared with the first that was seen there."""

    def __init__(self) -> None:
        self._first: dict[tuple[int, tuple[str, ...]], Row] = {}
        self._away: list[float] = []
        self._spread: list[float] = []

    def learn(self, prompt: int, tokens: Sequence[str], rows: Sequence[Row]) -> None:
        """Rows of a text without speculation; those whose past is known are compared."""
        self.compare(prompt, tokens, rows)
        for at, row in enumerate(rows):
            if len(self._first) < _MOST:
                self._first.setdefault((prompt, tuple(tokens[:at])), row)

    def compare(
        self, prompt: int, tokens: Sequence[str], rows: Sequence[Row], with_those_of: Drift | None = None
    ) -> None:
        """Compare rows of a text with those that were seen, here or there."""
        first = (with_those_of or self)._first
        for at, row in enumerate(rows):
            known = first.get((prompt, tuple(tokens[:at])))
            if known is None:
                continue
            one, other = dict(known.top), dict(row.top)
            both = [key for key in one if key in other]
            if len(both) < 2:
                self._away.append(1.0)
                continue
            logs = np.array([[law[key] for key in both] for law in (one, other)])
            self._away.append(float(np.abs(np.exp(logs[0]) - np.exp(logs[1])).sum() / 2))
            # Tokens that hardly ever come say little, and their logarithms move most.
            likely = np.exp(logs[0]) > 1e-3
            moved = logs[1][likely] - logs[0][likely]
            self._spread.append(
                float(np.sqrt(np.square(moved - moved.mean()).mean())) if likely.sum() > 1 else 0.0
            )

    @property
    def ledger(self) -> Ledger:
        """What was found; empty if no past came twice."""
        if not self._away:
            return Ledger.empty()
        away = np.array(self._away)
        return Ledger(
            positions=len(away),
            mean=float(away.mean()),
            median=float(np.median(away)),
            p99=float(np.quantile(away, 0.99)),
            largest=float(away.max()),
            spread=max(self._spread, default=0.0),
        )

    def row(self, prompt: int, tokens: Sequence[str]) -> Row | None:
        """The row without speculation after a past, if it was seen."""
        return self._first.get((prompt, tuple(tokens)))
