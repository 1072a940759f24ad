"""The exact law of a verifier by integrating its coins, where they can be scripted.

For verifiers that toss one coin per drafted token and then draw the extra token from one row: the decision on
a token is a step in its coin, so the step is found by bisection on the grid of float32 coins, and the row is
what the verifier hands to `multinomial`. Random coins check that this is how it behaves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from specproof.audit.adaptors.coins import GRID, LARGEST, ScriptedCoins
from specproof.audit.exact import Instance
from specproof.audit.panel import Law, Proposal, Verify, commit, completed, proposals

PROBES = 16


class Outcome(NamedTuple):
    """Accepted tokens, and the row [V] that the extra one is drawn from."""

    accepted: tuple[int, ...]
    row: Tensor


class NotIntegrable(Exception):
    """The verifier asks for other coins than one a token and one row, or does not decide by steps."""


def integrated_law(verify: Verify, instance: Instance, seed: int = 0) -> Law:
    """Law [V**length] of the completed text, exact up to the verifier's own float32 arithmetic.

    Raises:
        NotIntegrable: the verifier is not of the form above.
    """
    probes = torch.Generator().manual_seed(seed)
    law = np.zeros(instance.target.vocabulary**instance.length)
    for proposal in proposals(instance):
        for probability, outcome in _outcomes(verify, proposal, probes):
            row = outcome.row / outcome.row.sum()
            for token in row.nonzero()[:, 0].tolist():
                weight = proposal.probability * probability * float(row[token])
                law += weight * completed(instance, (*outcome.accepted, token))
    return law


def _outcomes(verify: Verify, proposal: Proposal, probes: torch.Generator) -> list[tuple[float, Outcome]]:
    """Where verification stops (at each token, then after the last), with probabilities."""
    nodes = len(proposal.tokens)

    def ask(coins: list[float]) -> Outcome:
        script = ScriptedCoins(coins + [LARGEST] * (nodes - len(coins)), extra=0.5)
        committed = commit(verify, proposal, script)
        if script.asked != nodes or len(script.rows) != 1:
            raise NotIntegrable
        return Outcome(committed[:-1], script.rows[0].double().flatten())

    steps: list[int] = []  # how many grid coins accept each token once it is reached
    stops: list[Outcome] = []
    while len(steps) < nodes and (not steps or steps[-1] > 0):
        before = [0.0] * len(steps)
        here = len(steps)
        ratio = float(proposal.target[here, proposal.tokens[here]] / proposal.drawn[here, proposal.tokens[here]])
        steps.append(_step(lambda coin, at=before: len(ask([*at, coin / GRID]).accepted) > len(at), ratio))  # type: ignore[misc]
        stops.append(ask([*before, min(steps[-1] / GRID, LARGEST)]))
    stops.append(ask([0.0] * nodes))
    for coins in torch.randint(GRID, (PROBES, nodes), generator=probes).tolist():
        stop = next((i for i, step in enumerate(steps) if coins[i] >= step), len(steps))
        found = ask([coin / GRID for coin in coins])
        if found.accepted != stops[stop].accepted or not found.row.equal(stops[stop].row):
            raise NotIntegrable
    reached = np.cumprod([1.0, *(step / GRID for step in steps)])
    left = [*(1 - step / GRID for step in steps), 1.0]
    return [(float(p) * q, stop) for p, q, stop in zip(reached, left, stops, strict=True)]


def _step(accepts: Callable[[int], bool], guess: float) -> int:
    """The first grid coin that is not accepted, if all before it are and none after it is.

    The guess, a share of the grid, only saves calls: it is kept to if the step is close to it.
    """
    low, high = 0, GRID
    near = min(GRID, round(guess * GRID))
    if near < 8 or accepts(near - 8):
        low = max(0, near - 7)
    if near < GRID - 8 and not accepts(near + 8):
        high = near + 8
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if accepts(middle) else (low, middle)
    return low
