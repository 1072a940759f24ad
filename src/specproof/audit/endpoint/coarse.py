"""Tokens against the law that the server itself reports for them: the likeliest tokens, and one cell for the rest.

That law is coarser than the server's, and every bet stays fair on it. The rest is cut into equal parts no
likelier than the least token that was told, and a token from the rest falls into one of them at random: so bets
that look at how likely a token is need not take the rest for one very likely token.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specproof.audit.endpoint.wire import Answer, Malformed, Row
from specproof.audit.white.arms import Library, Position, Temperature
from specproof.audit.white.emission import UNDRAFTED, Emissions, Floats
from specproof.audit.white.evidence import Mixture
from specproof.audit.white.faults import FAULTS

PARTS = 48
# Of log-probabilities in float32, a law of 20 tokens sums to 1 within this.
_SLACK = 1e-3
_LEAST_REST = 1e-6
_UNKNOWN = "\ufffd"
_BETS = (
    Temperature(),
    Position("A2 rank", "probability"),
    Library(faults=tuple(fault for fault in FAULTS if not fault.needs_draft)),
)
# Every text has one stratum: from outside nobody sees where drafts begin.
MIXTURE = Mixture(_BETS, everywhere=0.95, by_stratum=0.0, serial=0.025, repeats=0.025)


def emissions(answer: Answer, told: int, rng: np.random.Generator) -> Emissions:
    """What came out against what was reported.

    Args:
        answer: with a row for each token.
        told: how many likeliest tokens were asked for.
        rng: of the places inside cells.

    Raises:
        Malformed: a row is no law.
    """
    rows = [_law(row, told) for row in answer.rows]
    target = np.zeros((len(rows), told + PARTS))
    cells = np.zeros(len(rows), dtype=np.int64)
    for at, (token, (keys, masses, parts)) in enumerate(zip(answer.tokens, rows, strict=True)):
        target[at, : len(masses)] = masses
        part = int(rng.integers(parts))
        cells[at] = keys.index(token) if token in keys else len(keys) + part
    strata = np.full(len(rows), UNDRAFTED)
    return Emissions(cells, target, np.zeros_like(target), rng.random(len(rows)), strata, np.arange(len(rows)) > 0)


def _law(row: Row, told: int) -> tuple[list[str], Floats, int]:
    """Tokens that were told, masses of them and of the parts of the rest, and how many parts there are.

    A token beside the likeliest, which some servers add because it came out, is not one of them: which cells
    there are must not depend on what came out. Tokens that are not whole characters cannot be told apart.
    """
    whole = [(key, np.exp(value)) for key, value in row.top[:told] if _UNKNOWN not in key]
    keys, masses = [key for key, _ in whole], [mass for _, mass in whole]
    total = float(sum(masses))
    if not whole or not np.isfinite(total) or total > 1 + _SLACK:
        raise Malformed(f"log-probabilities of {len(row.top)} tokens that sum to {total:.4g}")
    rest = max(1 - total, _LEAST_REST)
    parts = int(np.clip(np.ceil(rest / max(masses[-1], 1e-300)), 1, PARTS))
    law = np.array([*masses, *[rest / parts] * parts])
    return keys, law / law.sum(), parts


def chance(answer: Answer) -> float:
    """Logarithm of a text's probability by the report; infinite if it is not told."""
    own = [row.own for row in answer.rows]
    return float("-inf") if any(value is None for value in own) else float(sum(v for v in own if v is not None))


def gaps(rows: Sequence[Row]) -> tuple[Floats, Floats]:
    """[n] the likeliest token's logarithm less the own token's, and less the second likeliest's.

    Raises:
        Malformed: a row tells less than two tokens, or not the own.
    """
    if any(row.own is None or len(row.top) < 2 for row in rows):
        raise Malformed("log-probabilities of less than two tokens")
    top = np.array([row.top[0][1] for row in rows])
    own = np.array([row.own for row in rows], dtype=np.float64)
    return np.maximum(top - own, 0), top - np.array([row.top[1][1] for row in rows])
