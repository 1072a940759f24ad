"""What becomes of the settings of TRL's GRPO trainer: honoured, left to the trainer, or refused.

TRL's own generation draws under its GenerationConfig, in which whatever the trainer leaves open comes from the
model's. The same configuration is read here, so that rollouts have the law that TRL's own would have.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig

from specproof.errors import SpecproofError
from specproof.hf.fields import HONOURED, check_fields
from specproof.params import SamplingParams

# Fields of a GenerationConfig that act here; every other one that changes a text has to be left open.
_ACT = frozenset(
    {"temperature", "top_k", "top_p", "min_p", "repetition_penalty", "max_new_tokens", "min_new_tokens"}
    | {"do_sample", "eos_token_id"}
)
# Fields of which every value says the same here.
_IDLE = frozenset({"bos_token_id", "pad_token_id", "max_length", "renormalize_logits"})


def effective_config(trainer: Any, model: Any) -> GenerationConfig:
    """What TRL's own generation would draw under."""
    config: GenerationConfig = deepcopy(trainer.generation_config)
    config.update(**model.generation_config.to_dict(), defaults_only=True)
    return config


def sampling_params(config: GenerationConfig, room: int, seed: int) -> SamplingParams:
    """How a completion is drawn.

    Args:
        config: which `check_config` let pass.
        room: most tokens there can be, where the configuration sets no limit.
        seed: of the completion.
    """
    ends = config.eos_token_id
    return SamplingParams(
        temperature=config.temperature,
        top_k=_or(config.top_k, 0),
        top_p=_or(config.top_p, 1.0),
        min_p=_or(config.min_p, 0.0),
        repetition_penalty=_or(config.repetition_penalty, 1.0),
        min_tokens=_or(config.min_new_tokens, 0),
        max_tokens=_or(config.max_new_tokens, room),
        stop_token_ids=tuple(ends) if isinstance(ends, (list, tuple)) else () if ends is None else (ends,),
        ignore_eos=True,  # the ends above are all there are
        seed=seed,
    )


def check_config(config: GenerationConfig, temperature: float) -> None:
    """Raise on the first field that cannot be honoured.

    Args:
        config: see `effective_config`.
        temperature: that the trainer's loss divides logits by.
    """
    check_fields(config)
    if not config.do_sample:
        raise SpecproofError(
            "do_sample=False is greedy and GRPO compares samples: take it out of generation_kwargs"
        )
    if config.temperature != temperature or not temperature > 0:
        raise SpecproofError(
            f"temperature={config.temperature!r} in generation_kwargs is not what the loss divides logits by, "
            f"{temperature!r}: give one number > 0 as GRPOConfig(temperature=...)"
        )
    defaults = GenerationConfig()
    for name in sorted(HONOURED - _ACT - _IDLE):
        value = getattr(config, name, None)
        if value not in (None, getattr(defaults, name), *_NEUTRAL.get(name, ())):
            raise SpecproofError(
                f"{name}={value!r} cannot be honoured in rollouts: take it out of generation_kwargs and of the "
                "model's generation_config"
            )


_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "no_repeat_ngram_size": (0,),
    "num_return_sequences": (1,),
    "min_length": (0,),
    "return_dict_in_generate": (False,),
}


def check_trainer(trainer: Any) -> None:
    """Raise on the first setting of a GRPOTrainer, outside its GenerationConfig, that cannot be honoured."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    refused = (
        (trainer.use_vllm, "use_vllm=True writes the rollouts with vLLM", "leave it out"),
        (
            trainer.use_transformers_continuous_batching,
            "use_transformers_continuous_batching=True writes the rollouts with transformers",
            "leave it out: this engine batches continuously anyway",
        ),
        (
            bool(trainer.tools) or trainer.environment_factories is not None,
            "tools and environments have the trainer go on with its own generation after a call",
            "leave them out",
        ),
        (trainer._is_vlm, "a model of images reads more than tokens", "give a tokenizer as processing_class"),
        (
            trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled,
            "FSDP and DeepSpeed may keep parts of the weights elsewhere",
            "train with a whole copy of the model in each process",
        ),
        (hasattr(model, "peft_config"), "adapters (PEFT) are not merged here", "train the model itself"),
    )
    for refuse, what, instead in refused:
        if refuse:
            raise SpecproofError(f"{what}, which rollouts by specproof cannot honour: {instead}")


@torch.no_grad()
def padding_error(model: Any) -> float:
    """How much a text's logits move when it is padded on the left as the trainer pads it, in standard deviations.

    The trainer's own pass gives a mask and no positions. A model of rotations sees the same distances; one that
    learned a vector for each position is asked about other places.
    """
    text = torch.arange(4, device=model.device)[None] % int(model.get_output_embeddings().weight.shape[0])
    padding = torch.zeros_like(text)
    both, mask = torch.cat([padding, text], 1), torch.cat([padding, torch.ones_like(text)], 1)
    alone: Tensor = model(input_ids=text, use_cache=False).logits[0].double()
    padded: Tensor = model(input_ids=both, attention_mask=mask, use_cache=False).logits[0, 4:]
    return float((padded.double() - alone).abs().max() / alone.std())


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value
