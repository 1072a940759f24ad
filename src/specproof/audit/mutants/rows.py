"""Faults of alignment: the wrong row judges a node, or gives the extra token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from specproof.audit.mutants.around import Around
from specproof.audit.mutants.case import exchanged
from specproof.engine.engine import Engine
from specproof.rules.rows import pick
from specproof.types import Batch, Draft, Law, Output


def resample_from_target(engine: Engine) -> Engine:
    """After a rejection the extra token is drawn from the target's row instead of the residual."""
    rule = engine.rule

    def faulty(target: Tensor, draft: Draft) -> Law:
        return replace(rule(target, draft), next=lambda at: pick(target, at))

    return exchanged(engine, rule=faulty)


def row_off_by_one(engine: Engine) -> Engine:
    """Each node is judged by the row after it instead of the row before it."""
    rule = engine.rule

    def faulty(target: Tensor, draft: Draft) -> Law:
        return rule(torch.cat([target[:, 1:], target[:, -1:]], 1), draft)

    return exchanged(engine, rule=faulty)


def first_unverified(engine: Engine) -> Engine:
    """The first node is kept unseen; verification begins with the second."""
    rule = engine.rule

    def faulty(target: Tensor, draft: Draft) -> Law:
        trusted = target.clone()
        drafted = torch.tensor([len(tree) > 0 for tree in draft.trees])
        if draft.rows is not None:
            trusted[drafted, 0] = draft.rows[drafted, 0]
        return rule(trusted, draft)

    return exchanged(engine, rule=faulty)


def early_bonus(engine: Engine) -> Engine:
    """After full acceptance the extra token comes from the row that had judged the last node."""
    rule = engine.rule

    def faulty(target: Tensor, draft: Draft) -> Law:
        law = rule(target, draft)
        last = torch.tensor([len(tree) for tree in draft.trees])
        early = pick(target, (last - 1).clamp(min=0))
        return replace(law, next=lambda at: torch.where((at == last)[:, None], early, law.next(at)))

    return exchanged(engine, rule=faulty)


class NeighboursBackend(Around):
    """Each sequence of a batch gets the rows of the one before it."""

    def forward(self, batch: Batch, draft: Draft, start: Sequence[int] | None = None) -> Output:
        """As the backend does, and then the fault."""
        return Output(super().forward(batch, draft, start).logits.roll(1, 0))
