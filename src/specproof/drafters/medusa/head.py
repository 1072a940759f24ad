"""The Medusa heads: small residual blocks on the target's last hidden state, each for one further token.

The last hidden state of the token before the root says the root to the target's own head; head k says the token
k + 1 places behind the root, whatever stands between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from specproof.drafters.reduced import DraftVocabulary


@dataclass(frozen=True)
class MedusaConfig:
    """What the heads are made of.

    Attributes:
        width: of the target's hidden states.
        vocabulary: number of the target's tokens.
        draft_vocabulary: number of tokens that the heads can draft.
        taps: the target's number of layers, alone: the heads read its last hidden state, after the last norm.
        heads: how many tokens they say.
        layers: residual blocks of each head.
        bias: whether a block's layer has one.
        target, architectures: name of the model they draft for, and of its classes.
        provenance: how they were made.
    """

    width: int
    vocabulary: int
    draft_vocabulary: int
    taps: tuple[int, ...]
    heads: int = 4
    layers: int = 1
    bias: bool = True
    target: str | None = None
    architectures: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)


class MedusaHead(DraftVocabulary):
    """All heads as one module, with the names of vLLM's and the speculators format.

    Args:
        config: sizes.

    Source: Cai et al. 2024 (2401.10774), section 3.1; blocks and output rows as in its public implementation.
    """

    def __init__(self, config: MedusaConfig) -> None:
        super().__init__(config.draft_vocabulary, config.vocabulary, config.taps)
        self.config = config
        self.positions = config.heads
        self.blocks = nn.ModuleList(_Block(config) for _ in range(config.heads))
        self.lm_heads = nn.ModuleList(
            nn.Linear(config.width, config.draft_vocabulary, bias=False) for _ in range(config.heads)
        )

    def logits(self, states: Tensor, head: int) -> Tensor:
        """Over the draft vocabulary [..., D], from last hidden states [..., width]."""
        result: Tensor = self.lm_heads[head](self.blocks[head](states))
        return result

    def forward(self, states: Tensor) -> Tensor:
        """Of all heads over the target's vocabulary: [..., width] to [..., heads, V]."""
        return self.spread(torch.stack([self.logits(states, head) for head in range(self.config.heads)], -2))


class _Block(nn.Module):
    def __init__(self, config: MedusaConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(config.width, config.width, bias=config.bias) for _ in range(config.layers)
        )

    def forward(self, states: Tensor) -> Tensor:
        for layer in self.layers:
            states = states + silu(layer(states))
        return states
