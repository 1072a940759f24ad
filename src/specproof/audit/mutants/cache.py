"""Faults of caches, masks and positions, planted between the loop and a transformer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import torch
from torch import Tensor

from specproof.audit.mutants.around import Around
from specproof.audit.mutants.case import Plant, exchanged
from specproof.backends.hf import HFBackend
from specproof.backends.kv import KVStore
from specproof.drafters.model import ModelDrafter
from specproof.engine.engine import Engine
from specproof.types import Batch

Inputs = dict[str, Any]  # what a backend hands to its model


class StaleBackend(Around):
    """A backend that after a rejection leaves the rejected token's entry where the last kept one belongs."""

    def __init__(self, inner: HFBackend) -> None:
        super().__init__(inner)
        self.store = inner.store

    @torch.inference_mode()
    def keep(self, batch: Batch, paths: Sequence[Sequence[int]]) -> None:
        """As the backend does, and then the fault."""
        store = self.store
        indices = [store.row(sequence) for sequence in batch]
        rejected = [
            (row, store.rows[row].kept + store.rows[row].pending + len(path))
            for row, path in zip(indices, paths, strict=True)
            if len(path) < len(store.rows[row].tokens or ())
        ]
        super().keep(batch, paths)
        store.move([(row, slot, slot - 1) for row, slot in rejected])


def stale_cache(engine: Engine) -> Engine:
    """After a rejection the rejected token's cache entry stays, where the last kept one belongs."""
    assert isinstance(engine.target, HFBackend)
    return exchanged(engine, target=StaleBackend(engine.target))


def stale_draft_cache(engine: Engine) -> Engine:
    """The same in the draft model's cache: drafts get worse, the law stays."""
    drafter = engine.drafter
    assert isinstance(drafter, ModelDrafter)
    assert isinstance(drafter.backend, HFBackend)
    return exchanged(engine, drafter=ModelDrafter(StaleBackend(drafter.backend), drafter.tree))


class UnmovedStore(KVStore):
    """Accepted nodes of a tree stay where they were scored; what is read in their places are other nodes."""

    def move(self, moves: Sequence[tuple[int, int, int]]) -> None:
        """Nothing."""


class ForgetfulStore(KVStore):
    """When the last node of a draft is accepted, its entry is lost."""

    def keep(self, batch: Batch, paths: Sequence[Sequence[int]]) -> None:
        """As the store does, and then the fault."""
        indices = [self.row(sequence) for sequence in batch]
        whole = [
            row
            for row, path in zip(indices, paths, strict=True)
            if path and path[-1] == len(self.rows[row].tokens or ()) - 1
        ]
        super().keep(batch, paths)
        for row in whole:
            for store in (*self._keys, *self._values):
                store[row, :, self.rows[row].kept - 1] = 0


class UnfilledStore(KVStore):
    """The row that fills the gap a finished sequence leaves comes without its entries."""

    def free(self, batch: Batch) -> None:
        """As the store does, and then the fault."""
        before = {id(row.sequence): index for index, row in enumerate(self.rows)}
        super().free(batch)
        for index, row in enumerate(self.rows):
            if before[id(row.sequence)] != index:
                for store in (*self._keys, *self._values):
                    store[index] = 0


def stored_in(backend: HFBackend, kind: type[KVStore]) -> HFBackend:
    """The backend with another, empty store."""
    other = copy(backend)
    other.store = kind(backend.store.device)
    return other


def storing(kind: type[KVStore]) -> Plant:
    """The target with another store."""

    def plant(engine: Engine) -> Engine:
        assert isinstance(engine.target, HFBackend)
        return exchanged(engine, target=stored_in(engine.target, kind))

    return plant


class _Altered:
    """A model that gets other inputs than its caller gave."""

    def __init__(self, model: Any, alter: Callable[[Inputs], Inputs]) -> None:
        self.model, self.alter = model, alter

    def __call__(self, **inputs: Any) -> Any:
        return self.model(**(inputs | self.alter(inputs)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)


def fed(backend: HFBackend, alter: Callable[[Inputs], Inputs]) -> HFBackend:
    """The backend with its model's inputs altered, now that it was probed with the right ones."""
    other = copy(backend)
    other.model = _Altered(backend.model, alter)
    return other


def feeding(alter: Callable[[Inputs], Inputs]) -> Plant:
    """The target with its model's inputs altered."""

    def plant(engine: Engine) -> Engine:
        assert isinstance(engine.target, HFBackend)
        return exchanged(engine, target=fed(engine.target, alter))

    return plant


def slots_as_positions(inputs: Inputs) -> Inputs:
    """Nodes of a tree are numbered one after the other, where their depths should count."""
    positions = inputs["position_ids"].clone()
    for column in range(1, positions.shape[1]):
        following = positions[:, column - 1] + 1
        inside = positions[:, column] > 0  # padding has position 0
        positions[:, column] = torch.where(inside, positions[:, column].maximum(following), 0)
    return {"position_ids": positions}


def pads_counted(inputs: Inputs) -> Inputs:
    """Positions count the padding on the left."""
    positions = inputs["position_ids"]
    pads = (positions.cumsum(-1) == 0).sum(-1, keepdim=True)
    return {"position_ids": positions + pads}


def siblings_seen(inputs: Inputs) -> Inputs:
    """Nodes of a tree see all that were drafted before them, siblings too."""
    mask = inputs["attention_mask"]
    return {"attention_mask": _hiding(mask, _entries(mask) > _own(mask))}


def history_hidden(inputs: Inputs) -> Inputs:
    """In a pass over several tokens each sees as many as it is wide: the mask forgets what the cache holds."""
    mask = inputs["attention_mask"]
    width = mask.shape[-2]
    if width == 1:
        return {}
    return {"attention_mask": _hiding(mask, (mask != 0) | (_entries(mask) <= _own(mask) - width))}


def _entries(mask: Tensor) -> Tensor:
    return torch.arange(mask.shape[-1])


def _own(mask: Tensor) -> Tensor:
    """The last entry that each column sees: its own."""
    return torch.where(mask == 0, _entries(mask), 0).amax(-1, keepdim=True)


def _hiding(mask: Tensor, hidden: Tensor) -> Tensor:
    return torch.zeros_like(mask).masked_fill_(hidden, torch.finfo(mask.dtype).min)
