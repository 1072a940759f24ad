"""Draws with the noise of production, or the drafter's own: counts at the first node, two PITs at all of them.

After one context the first node always has the same row, so that its tokens can be counted (G test). Deeper rows
change with the draft, but each is known before its token is drawn: u = F(x-) + v p(x) with v uniform is uniform,
and independent of what came before, in any fixed order of the tokens. Two are tested: by number, by probability.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from specproof.audit.answer import Check
from specproof.audit.drafter.draws import Context, Node, begun, ended, nodes
from specproof.audit.goodness import smallest_tv
from specproof.audit.white.panel import cells, repeated_test
from specproof.noise import CounterNoise
from specproof.types import Backend, Draft, Drafter

BINS = 20
AT_ONCE = 32
# Rows kept for comparison; of a large vocabulary each is as large.
REMEMBERED = 64
ORDERS = ("by number", "by probability")


class Sampled(NamedTuple):
    """Drafts drawn again and again after some contexts.

    Attributes:
        draws: how many drafts.
        nodes: drafted tokens, over all of them.
        checks: tests, each with its level.
        forbidden: tokens drafted without mass in their row.
        moved: largest total variation between rows returned for one path.
        repeated: whether equal seeds gave equal drafts.
        power: total variation at the first node that is caught with 95 % power, whatever its direction.
    """

    draws: int
    nodes: int
    checks: tuple[Check, ...]
    forbidden: int
    moved: float
    repeated: bool
    power: float

    @property
    def convicts(self) -> tuple[Check, ...]:
        """Tests below their level."""
        return tuple(check for check in self.checks if check.pvalue <= check.level)


def sample_drafts(
    target: Backend, drafter: Drafter, contexts: Sequence[Context], sizes: tuple[int, int], alpha: float
) -> Sampled:
    """Draw drafts and test them.

    Args:
        target, drafter: what is audited.
        contexts: where.
        sizes: draws after each context, and the budget of each.
        alpha: a drafter that keeps its contract fails some test at most this often.
    """
    draws, budget = sizes
    level = alpha / (len(contexts) + len(ORDERS))
    dice = np.random.default_rng(len(contexts))
    uniforms: tuple[list[float], list[float]] = ([], [])
    checks, forbidden, moved, seen, powers = [], 0, 0.0, 0, []
    repeated = True
    for number, context in enumerate(contexts):
        rows: dict[tuple[int, ...], Tensor] = {}
        firsts: Counter[int] = Counter()
        root: Node | None = None
        for draft, place in _drawn(target, drafter, context, draws, budget):
            for node in nodes(draft, place):
                seen += 1
                forbidden += float(node.row[node.token]) <= 0
                if node.path in rows or len(rows) < REMEMBERED:
                    known = rows.setdefault(node.path, node.returned)
                    moved = max(moved, float((known - node.returned).abs().sum()) / 2)
                if node.path == () and node.order == 0:
                    firsts[node.token] += 1
                    root = root or node
                for order, into in zip(_pits(node, float(dice.random())), uniforms, strict=True):
                    into.append(order)
        if root is not None:
            row = root.row.numpy()
            counts = np.zeros(len(row), dtype=np.int64)
            counts[list(firsts)] = list(firsts.values())
            test = repeated_test(counts, row, draws=max(9_999, int(20 / level)), seed=number)
            checks.append(Check(f"first node, {context}", test.g_pvalue, level, test.samples))
            powers.append(smallest_tv(test.samples, int(cells(row, test.samples).max()), level))
        repeated = repeated and _repeats(target, drafter, context, budget)
    for name, values in zip(ORDERS, uniforms, strict=True):
        if values:
            counts = np.histogram(values, BINS, (0, 1))[0].astype(np.int64)
            test = repeated_test(counts, np.full(BINS, 1 / BINS), draws=max(9_999, int(20 / level)), seed=99)
            checks.append(Check(f"all nodes, {name}", test.g_pvalue, level, test.samples))
    power = max(powers, default=float("inf"))
    return Sampled(draws * len(contexts), seen, tuple(checks), forbidden, moved, repeated, power)


def _drawn(
    target: Backend, drafter: Drafter, context: Context, draws: int, budget: int
) -> Iterator[tuple[Draft, int]]:
    """Drafts under seeds 0, 1, 2, …, many in a batch."""
    for first in range(0, draws, AT_ONCE):
        seeds = range(first, min(first + AT_ONCE, draws))
        batch = begun(target, drafter, context, seeds)
        draft = drafter.draft(batch, [budget] * len(batch), CounterNoise())
        ended(target, drafter, batch)
        if draft.rows is not None:
            yield from ((draft, place) for place in range(len(batch)))


def _repeats(target: Backend, drafter: Drafter, context: Context, budget: int) -> bool:
    """Whether one seed gives one draft."""
    found = []
    for _ in range(2):
        batch = begun(target, drafter, context, range(8))
        draft = drafter.draft(batch, [budget] * len(batch), CounterNoise())
        ended(target, drafter, batch)
        found.append([draft.tokens[b, : len(tree)].tolist() for b, tree in enumerate(draft.trees)])
    return found[0] == found[1]


def _pits(node: Node, inside: float) -> tuple[float, float]:
    """The token's place in its row, between 0 and 1, in two orders."""
    row, mass = node.row, float(node.row[node.token])
    before = float(row[: node.token].sum())
    likelier = float(row[row > mass].sum()) + float(row[: node.token][row[: node.token] == mass].sum())
    return before + inside * mass, likelier + inside * mass
