"""The DFlash head: a few layers that fill a block of masked tokens in one pass, looking both ways in it.

The block is the root and masks behind it. In every layer it looks at itself and at the target's features of the
text, which are projected to keys and values as if they were the layer's own states; they never ask anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import (
    Qwen3MLP,
    Qwen3RMSNorm,
    Qwen3RotaryEmbedding,
    apply_rotary_pos_emb,
)

from specproof.drafters.reduced import DraftVocabulary

Rotation = tuple[Tensor, Tensor]


class Cache(Protocol):
    """Where the layers' keys and values [B, heads, T, width] go; returns all that the mask speaks of."""

    def update(self, keys: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """Add these entries."""


@dataclass(frozen=True)
class DFlashConfig:
    """What a head is made of.

    Attributes:
        layer: of its decoder layers, with their number; `vocab_size` is the target's.
        draft_vocabulary: number of tokens that it can draft.
        target_width: width of each of the target's hidden states.
        taps: numbers of the target's layers whose inputs it reads.
        block: tokens of a block, the root included.
        mask: the token that stands for what is to be said.
        target, architectures: name of the model it drafts for, and of its classes.
        provenance: how it was made.
    """

    layer: Qwen3Config
    draft_vocabulary: int
    target_width: int
    taps: tuple[int, ...]
    block: int
    mask: int
    target: str | None = None
    architectures: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)


class DFlashHead(DraftVocabulary):
    """The module, with the names of the published checkpoints.

    Args:
        config: sizes.

    Embedding and output rows are the target's, unless a draft vocabulary has rows of its own. Source: DFlash
    (2602.06036), and its public implementation.
    """

    def __init__(self, config: DFlashConfig) -> None:
        layer = config.layer
        super().__init__(config.draft_vocabulary, layer.vocab_size, config.taps)
        self.config = config
        self.positions = config.block - 1
        width = layer.hidden_size
        self.embed_tokens = nn.Embedding(layer.vocab_size, width)
        self.fc = nn.Linear(len(config.taps) * config.target_width, width, bias=False)
        self.hidden_norm = Qwen3RMSNorm(width, layer.rms_norm_eps)
        self.layers = nn.ModuleList(_Layer(layer, number) for number in range(layer.num_hidden_layers))
        self.norm = Qwen3RMSNorm(width, layer.rms_norm_eps)
        self.lm_head = nn.Linear(width, config.draft_vocabulary, bias=False)
        # Hidden from the module, whose conversion to bfloat16 would round its frequencies.
        with torch.device("cpu"):
            self._rotary = (Qwen3RotaryEmbedding(layer),)

    def forward(self, tokens: Tensor, features: Tensor, positions: Tensor, mask: Tensor, cache: Cache) -> Tensor:
        """Logits over the target's vocabulary [B, N, V] at every token of the block.

        Args:
            tokens: [B, N] long, the block; with N = 0 the features are only taken in.
            features: [B, C, taps x target width], new ones of the text.
            positions: [B, C + N] long, of features and block.
            mask: [B, 1, N, S] bool; true where a token of the block may look.
            cache: takes each layer's C + N entries and gives all S.
        """
        states = self.embed_tokens(tokens)
        context = self.hidden_norm(self.fc(features))
        rotation = self._rotary[0](states, positions)
        for layer in self.layers:
            states = layer(states, context, rotation, mask, cache)
        return self.spread(self.lm_head(self.norm(states)))


class _Layer(nn.Module):
    def __init__(self, config: Qwen3Config, number: int) -> None:
        super().__init__()
        self.input_layernorm = Qwen3RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = _Attention(config, number)
        self.post_attention_layernorm = Qwen3RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = Qwen3MLP(config)

    def forward(self, states: Tensor, context: Tensor, rotation: Rotation, mask: Tensor, cache: Cache) -> Tensor:
        states = states + self.self_attn(self.input_layernorm(states), context, rotation, mask, cache)
        result: Tensor = states + self.mlp(self.post_attention_layernorm(states))
        return result


class _Attention(nn.Module):
    def __init__(self, config: Qwen3Config, number: int) -> None:
        super().__init__()
        self.number = number
        self.width = int(config.head_dim)
        inner, bias = config.hidden_size, config.attention_bias
        self.q_proj = nn.Linear(inner, config.num_attention_heads * self.width, bias=bias)
        self.k_proj = nn.Linear(inner, config.num_key_value_heads * self.width, bias=bias)
        self.v_proj = nn.Linear(inner, config.num_key_value_heads * self.width, bias=bias)
        self.o_proj = nn.Linear(config.num_attention_heads * self.width, inner, bias=bias)
        self.q_norm = Qwen3RMSNorm(self.width, config.rms_norm_eps)
        self.k_norm = Qwen3RMSNorm(self.width, config.rms_norm_eps)

    def forward(self, states: Tensor, context: Tensor, rotation: Rotation, mask: Tensor, cache: Cache) -> Tensor:
        read = torch.cat([context, states], 1)
        first = context.shape[1]
        queries = self.q_norm(self._split(self.q_proj(states))).transpose(1, 2)
        keys = self.k_norm(self._split(self.k_proj(read))).transpose(1, 2)
        values = self._split(self.v_proj(read)).transpose(1, 2)
        cosine, sine = rotation
        keys, _ = apply_rotary_pos_emb(keys, keys, cosine, sine)
        queries, _ = apply_rotary_pos_emb(queries, queries, cosine[:, first:], sine[:, first:])
        keys, values = cache.update(keys, values, self.number)
        seen = scaled_dot_product_attention(queries, keys, values, attn_mask=mask, enable_gqa=True)
        result: Tensor = self.o_proj(seen.transpose(1, 2).flatten(2))
        return result

    def _split(self, projected: Tensor) -> Tensor:
        heads: Tensor = projected.unflatten(-1, (-1, self.width))
        return heads
