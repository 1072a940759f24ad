"""Faults of sampling parameters: rows that are not the target's law under the request's settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from specproof.audit.mutants.around import Around
from specproof.audit.mutants.case import Plant, exchanged
from specproof.engine.engine import Engine
from specproof.rules.rows import nodes
from specproof.sampling import warp, warp_batch
from specproof.types import Batch, Contexts, Draft, Law, Output, Processor, SamplingParams

Change = Callable[[Processor, Tensor, Contexts], Tensor]  # what a processor does, done otherwise
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


def processed(change: Change) -> Plant:
    """The target's rows after processors that do their work otherwise; the drafter's are right."""

    def plant(engine: Engine) -> Engine:
        target, rule = _Watched(engine.target), engine.rule

        def faulty(rows: Tensor, draft: Draft) -> Law:
            batch = [
                replace(sequence, processors=tuple(partial(change, each) for each in sequence.processors))
                for sequence in target.batch
            ]
            return rule(warp_batch(target.logits, batch, draft).rows, draft)

        return exchanged(engine, target=target, rule=faulty)

    return plant


def ignored(processor: Processor, logits: Tensor, contexts: Contexts) -> Tensor:
    """Nothing is done."""
    return logits


class _LastOfPath(Contexts):
    def path(self, row: int) -> list[int]:
        return super().path(row)[-1:]


class _NoPath(Contexts):
    def path(self, row: int) -> list[int]:
        return []


class _PathAlone(Contexts):
    def tokens(self, row: int) -> list[int]:
        return self.path(row) or self.sequence.tokens


def block_counted_once(processor: Processor, logits: Tensor, contexts: Contexts) -> Tensor:
    """Of a drafted path only the last token counts."""
    return processor(logits, _LastOfPath(contexts.sequence, contexts.tree, contexts.drafted, contexts.first))


def border_unseen(processor: Processor, logits: Tensor, contexts: Contexts) -> Tensor:
    """Rows after a node see the drafted path, and not the text before it."""
    return processor(logits, _PathAlone(contexts.sequence, contexts.tree, contexts.drafted, contexts.first))


def bonus_unprocessed(processor: Processor, logits: Tensor, contexts: Contexts) -> Tensor:
    """The row after the last node stays as the model gave it."""
    made = processor(logits.clone(), contexts)
    if len(contexts.tree):
        made[-1] = logits[-1]
    return made


def steps_counted(engine: Engine) -> Engine:
    """The output is as long as there were steps."""
    lengths: dict[int, set[int]] = {}

    def change(processor: Processor, logits: Tensor, contexts: Contexts) -> Tensor:
        sequence = contexts.sequence
        seen = lengths.setdefault(sequence.seed, set())
        seen.add(len(sequence.tokens))
        shorter = replace(sequence, tokens=sequence.tokens[: sequence.prompt_length + len(seen) - 1])
        return processor(logits, _NoPath(shorter, contexts.tree, contexts.drafted, contexts.first))

    return processed(change)(engine)


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
