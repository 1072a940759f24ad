"""What becomes of each field of transformers' GenerationConfig. A field in none of the three tables is refused.

Honoured fields act through what `generate` builds from them: logits processors, stopping criteria, rows.
"""

from __future__ import annotations

from typing import Any

from transformers import GenerationConfig
from transformers.generation.configuration_utils import ALL_CACHE_IMPLEMENTATIONS

from specproof.errors import SpecproofError

HONOURED = frozenset(
    {
        "max_length", "max_new_tokens", "min_length", "min_new_tokens", "max_time", "stop_strings",
        "do_sample", "temperature", "top_k", "top_p", "min_p", "renormalize_logits",
        "repetition_penalty", "no_repeat_ngram_size", "bad_words_ids", "sequence_bias",
        "forced_bos_token_id", "forced_eos_token_id", "suppress_tokens", "begin_suppress_tokens",
        "exponential_decay_length_penalty",
        "num_return_sequences", "return_dict_in_generate", "bos_token_id", "eos_token_id", "pad_token_id",
    }
)  # fmt: skip

# Fields that cannot change the text, as long as no refused field is set.
NEUTRAL: dict[str, str] = {
    **dict.fromkeys(
        ("use_cache", "cache_config", "max_cache_len", "prefill_chunk_size"), "specproof keeps its own cache"
    ),
    **dict.fromkeys(("compile_config", "disable_compile", "continuous_batching_config"), "speed only"),
    **dict.fromkeys(("early_stopping", "length_penalty", "diversity_penalty"), "read by beam search only"),
    **dict.fromkeys(
        (
            "num_assistant_tokens",
            "num_assistant_tokens_schedule",
            "assistant_confidence_threshold",
            "assistant_lookbehind",
            "target_lookbehind",
            "max_matching_ngram_size",
        ),
        "read by transformers' own assisted decoding only",
    ),
    "low_memory": "read by contrastive search only",
    "decoder_start_token_id": "read by encoder-decoder models only",
    "transformers_version": "where the configuration came from",
    "_from_model_config": "where the configuration came from",
}

_SPECULATE = "is transformers' own speculative decoding: choose specproof's with drafter=, draft_model="
_BEAMS = "is beam search, whose text is no sample of the model's law: use num_beams=1"
_MODE = "is another way of decoding than sampling or greedy: leave it out"
_ROWS = "is not among the filters of the rows that specproof draws from: use temperature, top_k, top_p, min_p"
_STATE = "depends on more than the text so far: leave it out"
_EXTRA = "asks for what a speculative step does not keep for each token: leave it out"
_ENCODER = "is for models with an encoder: leave it out"
_HEALING = "rewrites the prompt: heal it first, and leave this out"
_INVALID = "hides NaN in the model's logits, which are an error here: leave it out"

# Fields that are refused unless they have one of these values, and what to do instead.
REFUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "num_beams": ((None, 1), _BEAMS),
    "num_beam_groups": ((None, 1), _BEAMS),
    "constraints": ((None,), _BEAMS),
    "force_words_ids": ((None,), _BEAMS),
    "penalty_alpha": ((None, 0), _MODE),
    "dola_layers": ((None,), _MODE),
    "prompt_lookup_num_tokens": ((None,), "is prompt lookup: use drafter='ngram' instead"),
    "assistant_early_exit": ((None,), _SPECULATE),
    "assistant_ensemble_weight": ((None,), _SPECULATE),
    "speculation_type": ((None,), _SPECULATE),
    "use_mtp": ((None, False), _SPECULATE),
    "is_assistant": ((None, False), _SPECULATE),
    "top_h": ((None,), _ROWS),
    "typical_p": ((None, 1), _ROWS),
    "epsilon_cutoff": ((None, 0), _ROWS),
    "eta_cutoff": ((None, 0), _ROWS),
    "guidance_scale": ((None, 1), _STATE),
    "watermarking_config": ((None,), _STATE),
    "encoder_repetition_penalty": ((None, 1), _ENCODER),
    "encoder_no_repeat_ngram_size": ((None, 0), _ENCODER),
    "token_healing": ((None, False), _HEALING),
    "remove_invalid_values": ((None, False), _INVALID),
    "output_scores": ((None, False), _EXTRA),
    "output_logits": ((None, False), _EXTRA),
    "output_attentions": ((None, False), _EXTRA),
    "output_hidden_states": ((None, False), _EXTRA),
    "cache_implementation": (
        (None, *(name for name in ALL_CACHE_IMPLEMENTATIONS if name != "quantized")),
        "is a cache that rounds what it holds: specproof keeps its own, exact one; leave it out",
    ),
}


def check_fields(config: GenerationConfig) -> None:
    """Raise on the first field of a generation configuration that cannot be honoured.

    Attributes that are no fields of GenerationConfig are passed over: `generate` does not read them either.
    """
    for name in sorted(vars(GenerationConfig())):
        value = getattr(config, name)
        if name in HONOURED or name in NEUTRAL:
            continue
        if name not in REFUSED:
            if value is not None:
                raise SpecproofError(
                    f"{name}={value!r}: specproof does not know this field of GenerationConfig; leave it out"
                )
            continue
        neutral, reason = REFUSED[name]
        if value not in neutral:
            raise SpecproofError(f"{name}={value!r} {reason}")
