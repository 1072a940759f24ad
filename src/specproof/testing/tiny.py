"""Tiny random transformers, float64, built in code: real attention, masks and caches at the size of a toy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from transformers import LlamaConfig, Qwen3Config

from specproof.drafters.dflash.head import DFlashConfig, DFlashHead
from specproof.drafters.eagle.head import EagleHead, HeadConfig, default_taps
from specproof.drafters.medusa.head import MedusaConfig, MedusaHead
from specproof.drafters.reduced import DraftVocabulary
from specproof.errors import unknown

# Rows far from uniform, so that a wrong row shows, and far from certain, so that every path weighs.
_LOGIT_SCALE = 0.9

Head = TypeVar("Head", bound=DraftVocabulary)

ARCHITECTURES = ("gpt2", "llama", "qwen2", "qwen3")


def tiny_model(
    architecture: str = "llama",
    vocabulary: int = 4,
    seed: int = 0,
    *,
    context: int = 64,
    attention: str = "sdpa",
) -> Any:
    """A random decoder-only model of two layers in float64, in evaluation mode.

    Args:
        architecture: one of ARCHITECTURES.
        vocabulary: number of tokens.
        seed: of the weights.
        context: most positions.
        attention: transformers' attention implementation.
    """
    import transformers as hf

    if architecture not in ARCHITECTURES:
        raise unknown("architecture", architecture, ARCHITECTURES)
    common = {"vocab_size": vocabulary, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    if architecture == "gpt2":
        sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": context}
        config: Any = hf.GPT2Config(**common, **sizes)
    else:
        sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
        sizes |= {"num_key_value_heads": 2, "head_dim": 4, "max_position_embeddings": context}
        kind = {"llama": hf.LlamaConfig, "qwen2": hf.Qwen2Config, "qwen3": hf.Qwen3Config}[architecture]
        config = kind(**common, **sizes, tie_word_embeddings=False)
    state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    try:
        model = hf.AutoModelForCausalLM.from_config(config, attn_implementation=attention).double().eval()
        # Fresh weights are so small that positions and history hardly matter.
        for parameter in model.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
        with torch.no_grad():
            model.get_output_embeddings().weight.mul_(_LOGIT_SCALE)
    finally:
        torch.random.set_rng_state(state)
    return model


def tiny_head(model: Any, drafted: Sequence[int], seed: int = 0, **options: Any) -> EagleHead:
    """A random EAGLE-3 head in float64 for a tiny model.

    Args:
        model: the target.
        drafted: its draft vocabulary, ascending.
        seed: of the weights.
        options: further fields of `HeadConfig`.
    """
    width = int(model.get_input_embeddings().weight.shape[1])
    layer = LlamaConfig(
        vocab_size=int(model.get_output_embeddings().weight.shape[0]),
        hidden_size=width,
        intermediate_size=24,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=model.config.max_position_embeddings,
    )
    taps = default_taps(model.config.num_hidden_layers)
    head = _random(lambda: EagleHead(HeadConfig(layer, len(drafted), width, taps, **options)), drafted, seed)
    head.embed_tokens.weight = model.get_input_embeddings().weight
    return head


def tiny_medusa(model: Any, drafted: Sequence[int], seed: int = 0, **options: Any) -> MedusaHead:
    """Random Medusa heads in float64 for a tiny model; arguments as for `tiny_head`."""
    vocabulary, width = model.get_output_embeddings().weight.shape
    taps = (int(model.config.num_hidden_layers),)
    return _random(
        lambda: MedusaHead(MedusaConfig(width, vocabulary, len(drafted), taps, **options)), drafted, seed
    )


def tiny_dflash(model: Any, drafted: Sequence[int], seed: int = 0, **options: Any) -> DFlashHead:
    """A random DFlash head of two layers in float64 for a tiny model; arguments as for `tiny_head`."""
    vocabulary, width = model.get_input_embeddings().weight.shape
    layer = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=4,
        max_position_embeddings=model.config.max_position_embeddings,
    )
    settings = {"taps": (1, int(model.config.num_hidden_layers)), "block": 4, "mask": vocabulary - 1} | options
    head = _random(lambda: DFlashHead(DFlashConfig(layer, len(drafted), width, **settings)), drafted, seed)
    head.embed_tokens.weight = model.get_input_embeddings().weight
    if len(drafted) == vocabulary:
        head.lm_head.weight = model.get_output_embeddings().weight
    return head


def _random(make: Callable[[], Head], drafted: Sequence[int], seed: int) -> Head:
    """A head with fresh weights large enough to matter, which drafts these tokens."""
    state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    try:
        head = make().double().eval()
        for parameter in head.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
    finally:
        torch.random.set_rng_state(state)
    head.choose(torch.tensor(drafted))
    return head


@torch.no_grad()
def recomputed_logits(model: Any, tokens: list[int]) -> torch.Tensor:
    """Next-token logits [V] with no cache and no batch: the reference for everything cached."""
    logits: torch.Tensor = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1]
    return logits
