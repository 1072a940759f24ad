"""A backend around another one, for faults between the loop and a model."""

from __future__ import annotations

from collections.abc import Sequence

from specproof.types import Backend, Batch, Draft, Output


class Around:
    """Does as the inner backend does; a fault overrides what it changes."""

    def __init__(self, inner: Backend) -> None:
        self.inner, self.vocabulary, self.context = inner, inner.vocabulary, inner.context

    def forward(self, batch: Batch, draft: Draft, start: Sequence[int] | None = None) -> Output:
        """See `Backend.forward`."""
        return self.inner.forward(batch, draft, start)

    def keep(self, batch: Batch, paths: Sequence[Sequence[int]]) -> None:
        """See `Backend.keep`."""
        self.inner.keep(batch, paths)

    def free(self, batch: Batch) -> None:
        """See `Backend.free`."""
        self.inner.free(batch)
