"""New weights for a module that runs: checked whole, then written in place, or nothing is changed.

In place, since parts share storage on purpose: an early exit is the target's own layers, a head reads the target's
embedding, a tied output is the embedding. Whatever is written once is then new for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from specproof.errors import SpecproofError

Weights = Mapping[str, Tensor] | nn.Module
Place = tuple[torch.device, int, tuple[int, ...]]


def module_of(part: Any) -> nn.Module | None:
    """The module inside a backend or drafter: what it calls `model` or `head`, or what is in the part below it."""
    while part is not None:
        for name in ("model", "head"):
            if isinstance(module := getattr(part, name, None), nn.Module):
                return module
        below = (getattr(part, name, None) for name in ("other", "backend", "positions"))
        part = next((found for found in below if found is not None), None)
    return None


def shared(module: nn.Module, other: nn.Module) -> list[str]:
    """Names of a module's weights that are also the other's."""
    theirs = set(map(place, own_state(other).values()))
    return [name for name, value in own_state(module).items() if place(value) in theirs]


def load(module: nn.Module, weights: Weights, kind: str, *, leave: nn.Module | None = None) -> None:
    """Write weights into a module in its own dtype and on its device.

    Args:
        module: whose weights are written, in place.
        weights: a state dict, or a module of the same make. Of tied weights one name is enough.
        kind: "target" or "drafter", for messages.
        leave: a module whose weights are not to be touched, though they may be this one's too.

    Raises:
        SpecproofError: a name is missing or has no place, a shape differs, something is no tensor, or the module
            is in training mode. Nothing was written then.
    """
    if module.training:
        raise SpecproofError(
            f"the {kind} is in training mode, with its dropout; call its eval() before it runs again"
        )
    if weights is module:
        return  # a trainer's own module: it has written them already
    own = own_state(module)
    if isinstance(weights, nn.Module):
        _check_constants(module, weights, kind)
        weights = own_state(weights)
    left = set() if leave is None else {place(value) for value in own_state(leave).values()}
    _check(own, weights, left, kind)
    with torch.no_grad():
        for name, value in weights.items():
            if place(own[name]) not in left:
                own[name].copy_(value)


def own_state(module: nn.Module) -> dict[str, Tensor]:
    """Every parameter and persistent buffer, not copied."""
    return {name: value.detach() for name, value in module.state_dict().items() if isinstance(value, Tensor)}


def place(value: Tensor) -> Place:
    """Where a tensor lies: equal for two names of one tied weight."""
    return value.device, value.data_ptr(), tuple(value.shape)


def _check(own: Mapping[str, Tensor], given: Mapping[str, Tensor], left: set[Place], kind: str) -> None:
    if unplaced := sorted(set(given) - set(own)):
        raise SpecproofError(
            f"weight {unplaced[0]!r} has no place in the {kind} ({len(unplaced)} such); give its own names, "
            f"like {next(iter(own))!r}, with adapters merged"
        )
    first: dict[Place, str] = {}
    for name, value in given.items():
        _check_form(name, value, own[name], kind)
        twin = first.setdefault(place(own[name]), name)
        if twin != name and not _same(given[twin], value):
            raise SpecproofError(f"weights {twin!r} and {name!r} are one in the {kind} and differ; give one")
        if place(own[name]) in left and not _same(own[name], value):
            raise SpecproofError(
                f"weight {name!r} is the target's own in this {kind} and differs from it; leave it out, and "
                "give the target's with update_target"
            )
    missing = [name for name, value in own.items() if place(value) not in left and place(value) not in first]
    if missing:
        raise SpecproofError(f"weight {missing[0]!r} of the {kind} is missing ({len(missing)} such); give all")


def _check_form(name: str, value: object, own: Tensor, kind: str) -> None:
    if not isinstance(value, Tensor) or value.is_meta or value.layout != torch.strided:
        raise SpecproofError(f"weight {name!r} is no plain tensor in memory; gather and materialise it first")
    if value.shape != own.shape:
        found, wanted = tuple(value.shape), tuple(own.shape)
        raise SpecproofError(f"weight {name!r} is {found} and the {kind}'s is {wanted}; give one of its make")
    if value.is_floating_point() != own.is_floating_point():
        raise SpecproofError(
            f"weight {name!r} is {value.dtype} and the {kind}'s is {own.dtype}; give weights without quantisation"
        )


def _same(own: Tensor, given: Tensor) -> bool:
    return torch.equal(own, given.to(own.device, own.dtype))


def _check_constants(module: nn.Module, other: nn.Module, kind: str) -> None:
    """Tables that no state dict has, such as rotary frequencies, come from the configuration and must agree."""
    saved = own_state(module)
    theirs = dict(other.named_buffers())
    for name, value in module.named_buffers():
        if name in saved:
            continue
        if name not in theirs or theirs[name].shape != value.shape or not _same(value, theirs[name]):
            raise SpecproofError(
                f"table {name!r} differs from the {kind}'s, so its configuration does: give a {kind} of its make"
            )
