"""Backends for models that belong to somebody else: probed once a model, and nothing of it is kept alive."""

from __future__ import annotations

from copy import copy
from typing import Any
from weakref import WeakKeyDictionary

from specproof.backends.hf import HFBackend
from specproof.backends.kv import KVStore
from specproof.errors import SpecproofError

# For each model what was probed, and the backend without model and store. The backend would keep its model
# alive for ever, and the store would keep the memory of the largest call.
_PROBED: WeakKeyDictionary[Any, tuple[tuple[Any, ...], HFBackend]] = WeakKeyDictionary()


def lend(model: Any) -> HFBackend:
    """A backend with an empty store, for one call; calls from several threads do not meet.

    Raises:
        SpecproofError: the model is in training mode, or one that `HFBackend` refuses.
    """
    if model.training:
        raise SpecproofError(f"{type(model).__name__} is in training mode, where dropout acts: call model.eval()")
    how = (model.device, model.dtype, model.config._attn_implementation)
    if model not in _PROBED or _PROBED[model][0] != how:
        probed = HFBackend(model)
        del probed.model, probed.store
        _PROBED[model] = how, probed
    backend = copy(_PROBED[model][1])
    backend.model, backend.store = model, KVStore(model.device)
    return backend
