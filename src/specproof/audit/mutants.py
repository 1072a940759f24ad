"""Planted faults: what an audit must catch, each a small change to one part of a correct engine.

They are kinds of fault that released engines had. An audit that does not see them proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from specproof.backends.hf import HFBackend
from specproof.drafters.model import ModelDrafter
from specproof.engine.engine import Engine
from specproof.rules import Rule
from specproof.rules.rows import pick
from specproof.types import Backend, Batch, Draft, Law, Noise, Output


@dataclass(frozen=True)
class Mutant:
    """A fault and how to plant it.

    Attributes:
        name: what the command line calls it.
        description: the fault in one line.
        plant: from a correct engine (model drafter, lossless rule) to a faulty one.
    """

    name: str
    description: str
    plant: Callable[[Engine], Engine]


def resample_from_target(engine: Engine) -> Engine:
    """After a rejection the extra token is drawn from the target's row instead of the residual."""
    rule = engine.rule

    def faulty(target: Tensor, draft: Draft) -> Law:
        return replace(rule(target, draft), next=lambda at: pick(target, at))

    return _with(engine, rule=faulty)


def row_off_by_one(engine: Engine) -> Engine:
    """Each node is judged by the row after it instead of the row before it."""
    rule = engine.rule

    def faulty(target: Tensor, draft: Draft) -> Law:
        return rule(torch.cat([target[:, 1:], target[:, -1:]], 1), draft)

    return _with(engine, rule=faulty)


class StaleBackend:
    """A backend that after a rejection leaves the rejected token's entry where the last kept one belongs."""

    def __init__(self, inner: HFBackend) -> None:
        self.inner, self.vocabulary, self.context = inner, inner.vocabulary, inner.context

    def forward(self, batch: Batch, draft: Draft, start: Sequence[int] | None = None) -> Output:
        """As the backend does."""
        return self.inner.forward(batch, draft, start)

    @torch.inference_mode()
    def keep(self, batch: Batch, paths: Sequence[Sequence[int]]) -> None:
        """As the backend does, and then the fault."""
        store = self.inner.store
        indices = [store.row(sequence) for sequence in batch]
        rejected = [
            (row, store.rows[row].kept + store.rows[row].pending + len(path))
            for row, path in zip(indices, paths, strict=True)
            if len(path) < len(store.rows[row].tokens or ())
        ]
        self.inner.keep(batch, paths)
        store.move([(row, slot, slot - 1) for row, slot in rejected])

    def free(self, batch: Batch) -> None:
        """As the backend does."""
        self.inner.free(batch)


def stale_cache(engine: Engine) -> Engine:
    """After a rejection the rejected token's cache entry stays, where the last kept one belongs."""
    assert isinstance(engine.target, HFBackend)
    return _with(engine, target=StaleBackend(engine.target))


class _ColderDrafter(ModelDrafter):
    """Draws at half the temperature of the rows that it returns."""

    def draft(self, batch: Batch, budget: Sequence[int], noise: Noise) -> Draft:
        return super().draft(batch, budget, _Colder(noise))


class _Colder:
    def __init__(self, noise: Noise) -> None:
        self.noise = noise

    def choose(self, rows: Tensor, keys: Sequence[Any]) -> Tensor:
        return self.noise.choose(rows.square() / rows.square().sum(-1, keepdim=True), keys)


def colder_drafter(engine: Engine) -> Engine:
    """The drafter draws at another temperature than its rows say."""
    assert isinstance(engine.drafter, ModelDrafter)
    return _with(engine, drafter=_ColderDrafter(engine.drafter.backend, engine.drafter.tree))


MUTANTS: dict[str, Mutant] = {
    function.__name__: Mutant(function.__name__, (function.__doc__ or "").rstrip("."), function)
    for function in (resample_from_target, row_off_by_one, stale_cache, colder_drafter)
}


def _with(engine: Engine, target: Backend | None = None, **parts: Any) -> Engine:
    """The same engine with some parts exchanged."""
    rule: Rule | Callable[[Tensor, Draft], Law] = parts.get("rule", engine.rule)
    return Engine(
        target or engine.target,
        parts.get("drafter", engine.drafter),
        rule,
        eos=engine.eos,
        budget=engine.budget,
        max_batch=engine.max_batch,
        noise=engine.noise,
    )
