"""Every draft there is: the noise is enumerated, and each draft has the probability that its rows give it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from specproof.audit.drafter.draws import Context, begun, ended, nodes
from specproof.audit.enumerate import EnumeratingNoise
from specproof.types import Backend, Draft, Drafter, may_draw

# More drafts than this are sampled instead.
MOST_DRAFTS = 4096


class Enumerated(NamedTuple):
    """All drafts after one context.

    Attributes:
        context: where.
        drafts: how many there are.
        drafted: nodes of the largest.
        tv: total variation between the law of drafts and what the rows say.
        moved: largest total variation between rows returned for one path; 0 if they do not hang on what is drawn.
        fault: what else is wrong, in words.
        open: whether the drafter drew without asking the noise, so that nothing was enumerated.
    """

    context: Context
    drafts: int
    drafted: int
    tv: float
    moved: float
    fault: str = ""
    open: bool = False

    def wrong(self, tolerance: float) -> str:
        """Why this is no draft from its rows; empty where it is one."""
        if self.fault or self.open:
            return self.fault
        if self.moved > tolerance:
            return f"the rows after one text change with what was drawn, by TV {self.moved:.2g}"
        if self.tv > tolerance:
            return f"drafts do not have the probabilities that their rows give them: TV {self.tv:.2g}"
        return ""


def enumerate_drafts(target: Backend, drafter: Drafter, context: Context, budget: int) -> Enumerated:
    """Enumerate the drafter's choices after a context.

    Args:
        target: the model it drafts for.
        drafter: as the engine would call it.
        context: a text of two tokens or more.
        budget: most nodes asked for.
    """
    law: list[tuple[float, float]] = []
    rows: dict[tuple[int, ...], Tensor] = {}
    moved, largest = 0.0, 0
    try:
        for draft, probability, asked in every_draft(target, drafter, context, budget):
            if fault := _fault(draft, drafter, context, budget, probability):
                return Enumerated(context, len(law), largest, 1.0, moved, fault)
            largest = max(largest, len(draft.trees[0]))
            if draft.rows is None:
                return Enumerated(context, 1, largest, 0.0, 0.0)
            if not asked and len(draft.trees[0]) and not _sure(draft):
                return Enumerated(context, 0, largest, 0.0, 0.0, open=True)
            expected = 1.0
            for node in nodes(draft):
                expected *= float(node.row[node.token])
                known = rows.setdefault(node.path, node.returned)
                moved = max(moved, float((known - node.returned).abs().sum()) / 2)
            law.append((probability, expected))
            if len(law) > MOST_DRAFTS:
                return Enumerated(context, len(law), largest, 0.0, moved, open=True)
    except AssertionError as error:
        return Enumerated(context, len(law), largest, 1.0, moved, str(error))
    missing = max(0.0, 1 - sum(expected for _, expected in law))
    tv = (sum(abs(found - expected) for found, expected in law) + missing) / 2
    return Enumerated(context, len(law), largest, tv, moved)


def every_draft(
    target: Backend, drafter: Drafter, context: Context, budget: int
) -> Iterator[tuple[Draft, float, bool]]:
    """Each draft with its probability, and whether the noise was asked for it."""
    noise, seed = EnumeratingNoise(), 0
    while noise.open:
        seed += 1
        noise.start(seed)
        batch = begun(target, drafter, context, [seed])
        draft = drafter.draft(batch, [budget], noise)
        ended(target, drafter, batch)
        asked = bool(noise.keys[seed])
        yield draft, noise.finish(seed).probability, asked


def _fault(draft: Draft, drafter: Drafter, context: Context, budget: int, probability: float) -> str:
    """A breach of the contract that shows in one draft."""
    tree = draft.trees[0]
    if draft.drawn not in may_draw(drafter, [context.params]):
        return f"declares {drafter.drawn} draws, returned {draft.drawn}"
    if len(tree) > budget:
        return f"{len(tree)} nodes for a budget of {budget}"
    if drafter.chains and not tree.is_chain:
        return f"declares chains, returned the tree {tree.parents}"
    if draft.rows is None and draft.drawn != "point":
        return f"{draft.drawn} draft without rows"
    if draft.rows is None and probability < 1:
        return "a point draft that depends on chance"
    return ""


def _sure(draft: Draft) -> bool:
    """Whether every node was certain, so that no noise was needed."""
    return all(float(node.row.max()) > 1 - 1e-12 and bool(torch.isfinite(node.row).all()) for node in nodes(draft))
