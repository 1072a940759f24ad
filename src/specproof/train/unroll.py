"""Training-time test: the head reads its own words as it will when it drafts, several steps deep.

Column i of every step belongs to the draft that begins after token i + 1. In step s it has read the true tokens up
to i + 1 + s, the target's features of the text up to token i, and its own words since; it sees the text's entries
up to i and its own draft's. Source: EAGLE-3 (2503.01840), section 3.2, and its public implementations.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from specproof.drafters.eagle.head import EagleHead
from specproof.drafters.medusa.head import MedusaHead


class _Entries:
    """Keys and values of all steps so far, one behind the other."""

    def __init__(self) -> None:
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def update(self, keys: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """Add a step's; the layer is the head's only one."""
        self.keys.append(keys)
        self.values.append(values)
        return torch.cat(self.keys, 2), torch.cat(self.values, 2)


def unroll(head: EagleHead | MedusaHead, tokens: Tensor, features: Tensor, depth: int) -> Iterator[Tensor]:
    """Logits over the draft vocabulary [B, T - 1 - s, D] of each step s.

    Args:
        head: to be trained.
        tokens: [B, T] long, padded on the right.
        features: [B, T, taps x width] of the target.
        depth: number of steps; fewer where the texts are shorter.

    Yields:
        of step s: column i is the law of token i + 2 + s, which is the target's row i + 1 + s.
    """
    columns = tokens.shape[1] - 1
    if isinstance(head, MedusaHead):  # its heads read no words, neither the text's nor their own
        for step in range(min(depth, columns)):
            yield head.logits(features[:, : columns - step], step)
        return
    states = head.fuse(features[:, :-1])
    own = torch.eye(columns, dtype=torch.bool, device=tokens.device)
    seen = own.new_ones(columns, columns).tril()
    positions = torch.arange(columns, device=tokens.device).expand(len(tokens), -1)
    entries = _Entries()
    for step in range(min(depth, columns)):
        read = tokens.new_zeros(len(tokens), columns)
        read[:, : columns - step] = tokens[:, 1 + step :]
        states = head(read, states, positions + step, seen[None, None], entries)
        yield head.logits(states[:, : columns - step])
        seen = torch.cat([seen, own], -1)
