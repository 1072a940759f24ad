"""Keys and values rounded as they are written: what a cache of fewer bits does to the rows.

Attention itself runs in the model's dtype, as it does in engines that keep a cache of fewer bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from specproof.backends.hf import HFBackend
from specproof.backends.kv import KVStore
from specproof.errors import unknown


def _int8(entries: Tensor) -> Tensor:
    """Whole numbers from -127 to 127, with one scale for each token and head."""
    scale = entries.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(entries.dtype).tiny) / 127
    return (entries / scale).round() * scale


def _through(dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    return lambda entries: entries.to(dtype).to(entries.dtype)


# Names that --kv takes, and what each does to keys and values.
KV: dict[str, Callable[[Tensor], Tensor]] = {
    "model": lambda entries: entries,
    "float32": _through(torch.float32),
    "bfloat16": _through(torch.bfloat16),
    "float16": _through(torch.float16),
    "float8": _through(torch.float8_e4m3fn),
    "int8": _int8,
}


class RoundedStore(KVStore):
    """A store whose entries pass through a rounding first."""

    def __init__(self, device: torch.device, rounding: Callable[[Tensor], Tensor]) -> None:
        super().__init__(device)
        self.rounding = rounding

    def update(self, keys: Tensor, values: Tensor, layer: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """See `KVStore.update`."""
        return super().update(self.rounding(keys), self.rounding(values), layer)


def backend_with(model: Any, kv: str = "model") -> HFBackend:
    """A fresh backend whose keys and values are kept as `kv` says, a name from KV."""
    if kv not in KV:
        raise unknown("kv", kv, KV)
    backend = HFBackend(model)
    if kv != "model":
        backend.store = RoundedStore(backend.store.device, KV[kv])
    return backend
