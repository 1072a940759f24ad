"""Faults of sampling parameters: rows that are not the target's law under the request's settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from specproof.audit.mutants.around import Around
from specproof.audit.mutants.case import Plant, exchanged
from specproof.engine.engine import Engine
from specproof.rules.rows import nodes
from specproof.sampling import warp
from specproof.types import Batch, Draft, Law, Output, SamplingParams

Warp = Callable[[Tensor, SamplingParams], Tensor]  # as `sampling.warp`


class _Watched(Around):
    """The target, with the logits and the batch of its last forward at hand."""

    batch: Batch = ()
    logits = torch.empty(0)

    def forward(self, batch: Batch, draft: Draft, start: Sequence[int] | None = None) -> Output:
        output = super().forward(batch, draft, start)
        self.batch, self.logits = batch, output.logits
        return output


def warped(warp: Warp, *, drafted_only: bool = False) -> Plant:
    """The target's rows warped otherwise: all of them, or only those that judge a node."""

    def plant(engine: Engine) -> Engine:
        target, rule = _Watched(engine.target), engine.rule

        def faulty(rows: Tensor, draft: Draft) -> Law:
            each = zip(target.logits, target.batch, strict=True)
            other = torch.stack([warp(logits, sequence.params) for logits, sequence in each])
            if drafted_only:
                judging = torch.cat([nodes(draft), nodes(draft).new_zeros(len(rows), 1)], 1)
                other = torch.where(judging[..., None], other, rows)
            return rule(other, draft)

        return exchanged(engine, target=target, rule=faulty)

    return plant


def without_temperature(logits: Tensor, params: SamplingParams) -> Tensor:
    """Temperature 1 whatever was asked."""
    return warp(logits, replace(params, temperature=1.0))


def without_top_k(logits: Tensor, params: SamplingParams) -> Tensor:
    """All tokens whatever was asked."""
    return warp(logits, replace(params, top_k=0))


def without_min_p(logits: Tensor, params: SamplingParams) -> Tensor:
    """Unlikely tokens stay whatever was asked."""
    return warp(logits, replace(params, min_p=0.0))


def greedy(logits: Tensor, params: SamplingParams) -> Tensor:
    """The likeliest token at every temperature."""
    return warp(logits, replace(params, temperature=0.0))


def top_p_first(logits: Tensor, params: SamplingParams) -> Tensor:
    """Top-p before temperature."""
    kept = warp(logits, replace(params, temperature=1.0)) > 0
    return warp(logits.masked_fill(~kept, -torch.inf), replace(params, top_p=1.0))
