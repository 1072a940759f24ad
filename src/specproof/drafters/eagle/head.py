"""The EAGLE-3 head: one Llama layer that reads token embeddings and hidden states of the target.

Column i stands for the token t[i+1]: it reads that token's embedding beside the target's features of t[i] (or,
for drafted tokens, beside what the head itself said one column before) and predicts t[i+2]. The same module
drafts with a cache and is trained over unrolled steps; only mask and cache differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import (
    LlamaMLP,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
    apply_rotary_pos_emb,
)

from specproof.drafters.reduced import DraftVocabulary

TAPS = 3  # hidden states of the target that are fused


class Cache(Protocol):
    """Where a layer's keys and values [B, heads, T, width] go; returns all that the mask speaks of."""

    def update(self, keys: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """Add these entries."""


@dataclass(frozen=True)
class HeadConfig:
    """What a head is made of.

    Attributes:
        layer: of its decoder layer; `vocab_size` is the target's.
        draft_vocabulary: number of tokens that it can draft.
        target_width: width of each of the target's hidden states.
        taps: numbers of the target's layers whose inputs it reads.
        norm_before_residual, norm_before_fc: variants of published heads.
        length: tokens that it was trained to draft in a row.
        target, architectures: name of the model it drafts for, and of its classes.
        provenance: how it was made.
    """

    layer: LlamaConfig
    draft_vocabulary: int
    target_width: int
    taps: tuple[int, ...]
    norm_before_residual: bool = False
    norm_before_fc: bool = False
    length: int = 4
    target: str | None = None
    architectures: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)


def default_taps(layers: int) -> tuple[int, int, int]:
    """Low, middle and high layers of a target with that many (EAGLE-3, as published and as in vLLM)."""
    return min(2, layers - 1), layers // 2, max(layers - 3, 0)


class EagleHead(DraftVocabulary):
    """The module, with the names of the speculators format.

    Args:
        config: sizes and variants.

    The embedding is the target's unless a checkpoint has its own; see `checkpoint.load_head`. Source: Li et al.
    2025, EAGLE-3 (2503.01840), section 3.
    """

    def __init__(self, config: HeadConfig) -> None:
        layer = config.layer
        super().__init__(config.draft_vocabulary, layer.vocab_size, config.taps)
        self.config = config
        width = layer.hidden_size
        self.embed_tokens = nn.Embedding(layer.vocab_size, width)
        fused = TAPS * config.target_width
        self.input_norm = LlamaRMSNorm(fused, layer.rms_norm_eps) if config.norm_before_fc else None
        self.fc = nn.Linear(fused, width, bias=False)
        self.layers = nn.ModuleList([_Layer(layer, config.norm_before_residual)])
        self.norm = LlamaRMSNorm(width, layer.rms_norm_eps)
        self.lm_head = nn.Linear(width, config.draft_vocabulary, bias=False)
        # Hidden from the module, whose conversion to bfloat16 would round its frequencies; it follows its input's
        # device by itself.
        with torch.device("cpu"):
            self._rotary = (LlamaRotaryEmbedding(layer),)

    def fuse(self, features: Tensor) -> Tensor:
        """The target's features [..., 3 x target width] as states of the head's own width."""
        if self.input_norm is not None:
            features = self.input_norm(features)
        fused: Tensor = self.fc(features)
        return fused

    def forward(self, tokens: Tensor, states: Tensor, positions: Tensor, mask: Tensor, cache: Cache) -> Tensor:
        """States after the layer, [B, T, width].

        Args:
            tokens: [B, T] long, of the target's vocabulary.
            states: [B, T, width], what stands one column before: `fuse`d features, or what this returned.
            positions: [B, T] long.
            mask: [B, 1, T, S] or broadcastable, bool; true where a column may look.
            cache: takes this layer's entries and gives all S.
        """
        embedded = self.embed_tokens(tokens)
        rotation = self._rotary[0](embedded, positions)
        result: Tensor = self.layers[0](embedded, states, rotation, mask, cache)
        return result

    def logits(self, states: Tensor) -> Tensor:
        """Over the draft vocabulary, [..., D]."""
        result: Tensor = self.lm_head(self.norm(states))
        return result

    def target_logits(self, states: Tensor) -> Tensor:
        """Over the target's vocabulary, [..., V]: minus infinity for what this head cannot draft."""
        return self.spread(self.logits(states))


class _Layer(nn.Module):
    """A Llama layer whose attention reads twice the width: embedding and state, each normalised."""

    def __init__(self, config: LlamaConfig, norm_before_residual: bool) -> None:
        super().__init__()
        self.norm_before_residual = norm_before_residual
        self.input_layernorm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.hidden_norm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = _Attention(config)
        self.post_attention_layernorm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = LlamaMLP(config)

    def forward(
        self, embedded: Tensor, states: Tensor, rotation: tuple[Tensor, Tensor], mask: Tensor, cache: Cache
    ) -> Tensor:
        normed = self.hidden_norm(states)
        residual = normed if self.norm_before_residual else states
        both = torch.cat([self.input_layernorm(embedded), normed], -1)
        states = residual + self.self_attn(both, rotation, mask, cache)
        result: Tensor = states + self.mlp(self.post_attention_layernorm(states))
        return result


class _Attention(nn.Module):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.width = int(config.head_dim)
        width, bias = 2 * config.hidden_size, config.attention_bias
        self.q_proj = nn.Linear(width, config.num_attention_heads * self.width, bias=bias)
        self.k_proj = nn.Linear(width, config.num_key_value_heads * self.width, bias=bias)
        self.v_proj = nn.Linear(width, config.num_key_value_heads * self.width, bias=bias)
        self.o_proj = nn.Linear(config.num_attention_heads * self.width, config.hidden_size, bias=bias)

    def forward(self, both: Tensor, rotation: tuple[Tensor, Tensor], mask: Tensor, cache: Cache) -> Tensor:
        heads = (*both.shape[:2], -1, self.width)
        queries, keys, values = (
            project(both).view(heads).transpose(1, 2) for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        queries, keys = apply_rotary_pos_emb(queries, keys, *rotation)
        keys, values = cache.update(keys, values, 0)
        seen = scaled_dot_product_attention(queries, keys, values, attn_mask=mask, enable_gqa=True)
        result: Tensor = self.o_proj(seen.transpose(1, 2).flatten(2))
        return result
