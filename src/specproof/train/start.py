"""A head before its first update: sizes and weights from the target, draft vocabulary from its texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from transformers import LlamaConfig

from specproof.drafters.eagle.head import EagleHead, HeadConfig, default_taps
from specproof.drafters.medusa.head import MedusaConfig, MedusaHead
from specproof.errors import SpecproofError
from specproof.train.data import Sample
from specproof.train.settings import TrainSettings

_HALF = (torch.float16, torch.bfloat16)


def frequent_tokens(samples: Sequence[Sample], count: int, vocabulary: int) -> list[int]:
    """The tokens that the target writes most often, ascending; prompts and then low numbers fill up the rest."""
    if count > vocabulary:
        raise SpecproofError(f"--draft-vocabulary {count} is not allowed: the model has {vocabulary} tokens")
    written = Counter(token for s in samples for token in s.tokens[s.prompt_tokens :])
    asked = Counter(token for s in samples for token in s.tokens[: s.prompt_tokens])
    order = sorted(range(vocabulary), key=lambda token: (-written[token], -asked[token], token))
    return sorted(order[:count])


def new_head(model: Any, name: str, drafted: Sequence[int], settings: TrainSettings) -> EagleHead:
    """A head for a target, in float32 or better; embedding, last norm and output rows are the target's."""
    head_dtype = torch.float32 if model.dtype in _HALF else model.dtype
    state = torch.random.get_rng_state()
    torch.manual_seed(settings.seed)
    try:
        head = EagleHead(_config(model, name, len(drafted), settings)).to(head_dtype)
    finally:
        torch.random.set_rng_state(state)
    with torch.no_grad():
        head.choose(torch.tensor(drafted))
        head.lm_head.weight.copy_(model.get_output_embeddings().weight[list(drafted)])
        norm = getattr(model.base_model, "norm", None)
        if norm is not None:
            head.norm.weight.copy_(norm.weight)
    head = head.to(model.device)
    embedding = model.get_input_embeddings().weight.detach()
    head.embed_tokens.weight = torch.nn.Parameter(embedding.to(head_dtype), requires_grad=False)
    return head


def new_medusa(model: Any, name: str, drafted: Sequence[int], settings: TrainSettings) -> MedusaHead:
    """Heads for a target, in float32 or better: blocks that change nothing, and the target's output rows."""
    output = model.get_output_embeddings().weight.detach()
    config = MedusaConfig(
        width=output.shape[1],
        vocabulary=output.shape[0],
        draft_vocabulary=len(drafted),
        taps=(int(model.config.num_hidden_layers),),
        heads=settings.depth,
        target=name,
        architectures=tuple(model.config.architectures or (type(model).__name__,)),
    )
    head = MedusaHead(config).to(torch.float32 if model.dtype in _HALF else model.dtype)
    head.choose(torch.tensor(drafted))
    with torch.no_grad():
        for parameter in head.blocks.parameters():
            parameter.zero_()
        for rows in head.lm_heads:
            rows.get_parameter("weight").copy_(output[list(drafted)])
    return head.to(model.device)


def _config(model: Any, name: str, drafted: int, settings: TrainSettings) -> HeadConfig:
    own = model.config
    vocabulary, width = model.get_input_embeddings().weight.shape
    heads = int(own.num_attention_heads)
    rotation = getattr(own, "rope_parameters", None) or {}
    layer = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=int(getattr(own, "intermediate_size", None) or 4 * width),
        num_hidden_layers=1,
        num_attention_heads=heads,
        num_key_value_heads=int(getattr(own, "num_key_value_heads", None) or heads),
        head_dim=int(getattr(own, "head_dim", None) or width // heads),
        max_position_embeddings=int(own.max_position_embeddings),
        rms_norm_eps=float(getattr(own, "rms_norm_eps", None) or 1e-5),
        rope_parameters={"rope_type": "default", "rope_theta": float(rotation.get("rope_theta") or 10000.0)},
    )
    return HeadConfig(
        layer=layer,
        draft_vocabulary=drafted,
        target_width=width,
        taps=default_taps(int(own.num_hidden_layers)),
        length=settings.depth,
        target=name,
        architectures=tuple(own.architectures or (type(model).__name__,)),
    )
