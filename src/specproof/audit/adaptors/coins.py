"""The coins of a foreign verifier, and how they get there when it takes none as arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Protocol

import torch
from torch import Tensor

from specproof.errors import SpecproofError
from specproof.noise import inverse_cdf

# torch's float32 uniforms are the multiples of 2**-24 in [0, 1); the last is also the largest float32 below 1.
GRID = 1 << 24
LARGEST = 1 - 1 / GRID

# Sources of randomness that no adaptor has met yet; reaching them unscripted would go unnoticed.
_UNSCRIPTED = ("bernoulli", "normal", "poisson", "randint", "randint_like", "randn", "randn_like")


class Coins(Protocol):
    """Randomness that a verifier asks for."""

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """Float32 numbers in [0, 1)."""

    def multinomial(self, rows: Tensor) -> Tensor:
        """One index from each row [.., V], drawn in proportion to its entries: [.., 1] long."""


class SeededCoins:
    """torch's own kernels on a generator of our own; the global one is left alone."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """See `Coins.uniform`."""
        return torch.rand(tuple(shape), generator=self.generator)

    def multinomial(self, rows: Tensor) -> Tensor:
        """See `Coins.multinomial`."""
        return torch.multinomial(rows, 1, generator=self.generator)


@dataclass
class ScriptedCoins:
    """Coins given in advance.

    Attributes:
        nodes: handed out first, in order: one for each drafted token.
        extra: every coin after those; it also decides what `multinomial` returns, by the inverse CDF.
        asked: uniform numbers handed out so far.
        rows: what `multinomial` was asked to draw from.
    """

    nodes: Sequence[float]
    extra: float
    asked: int = 0
    rows: list[Tensor] = field(default_factory=list)

    def uniform(self, shape: Sequence[int]) -> Tensor:
        """See `Coins.uniform`."""
        coins = torch.full(tuple(shape), self.extra)
        given = torch.tensor(self.nodes[self.asked : self.asked + coins.numel()])
        coins.view(-1)[: len(given)] = given
        self.asked += coins.numel()
        return coins

    def multinomial(self, rows: Tensor) -> Tensor:
        """See `Coins.multinomial`; refuses what torch's own refuses."""
        if not bool(torch.isfinite(rows).all() & (rows >= 0).all() & (rows.sum(-1) > 0).all()):
            raise RuntimeError(f"multinomial was asked to draw from {rows.tolist()}")
        self.rows.append(rows.clone())
        flat = rows.reshape(-1, rows.shape[-1])
        coins = torch.full((len(flat),), self.extra, dtype=torch.float64)
        return inverse_cdf(flat, coins).reshape(*rows.shape[:-1], 1)


class _Torch:
    """torch as one module sees it: its coins are ours, everything else is torch's."""

    def __init__(self, coins: Coins) -> None:
        self._coins = coins

    def __getattr__(self, name: str) -> Any:
        if name in _UNSCRIPTED:
            raise SpecproofError(f"the verifier draws with torch.{name}, which its adaptor does not script")
        return getattr(torch, name)

    def rand(self, *shape: Any, dtype: torch.dtype = torch.float32, **_: Any) -> Tensor:
        sizes = shape[0] if shape and not isinstance(shape[0], int) else shape
        return self._coins.uniform(sizes).to(dtype)

    def rand_like(self, like: Tensor, **_: Any) -> Tensor:
        return self._coins.uniform(like.shape).to(like.dtype)

    def multinomial(self, rows: Tensor, num_samples: int, *_: Any, **__: Any) -> Tensor:
        if num_samples != 1:
            raise SpecproofError(f"the verifier draws {num_samples} tokens at once; its adaptor scripts one")
        return self._coins.multinomial(rows)


@contextmanager
def coins_in(module: ModuleType, coins: Coins) -> Iterator[None]:
    """Let the code of one module draw from `coins` where it calls `torch.rand`, `rand_like`, `multinomial`.

    Only the name `torch` in that module is replaced, and only inside the `with`; nothing else in the process
    sees it, but two threads must not audit the same package at once.
    """
    if getattr(module, "torch", None) is not torch:
        raise SpecproofError(f"{module.__name__} does not import torch by name, so its coins cannot be scripted")
    module.torch = _Torch(coins)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        module.torch = torch  # type: ignore[attr-defined]
