"""Engines of other packages as `custom_generate` functions, for `specproof audit transformers`.

    PYTHONPATH=benchmarks/engines specproof audit transformers --custom-generate in_process:economize \
        --options '{"draft": "FOLDER"}'

Both draft with the model in the folder, or look the draft up where none is given, and say what they drafted and
accepted. The target is the audited model itself; nothing of the packages is changed.
"""

import logging
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

NODES = 4


@dataclass
class Statistics:
    """Of one text."""

    drafted: int
    accepted: int


@dataclass
class Output:
    """What the audit reads."""

    sequences: Tensor
    statistics: tuple[Statistics, ...]


@lru_cache(maxsize=1)
def _economize(model: Any, draft: str | None) -> Any:
    import economize as package
    from economize.techniques.draft_model import DraftModelConfig
    from economize.techniques.lookup import LookupConfig

    config = LookupConfig() if draft is None else DraftModelConfig(model=draft, dtype="float32")
    return package.apply(model, config)


def economize(
    model: Any,
    input_ids: Tensor,
    logits_processor: Any,
    stopping_criteria: Any,
    generation_config: Any,
    draft: str | None = None,
    **_: Any,
) -> Output:
    """The loop of economize: drafts judged by its "rejection" verifier above temperature 0, else by "greedy"."""
    import economize as package

    sampled = generation_config.do_sample
    selector = (
        package.TopPSampler(generation_config.temperature, generation_config.top_p or 1.0, torch.initial_seed())
        if sampled
        else None
    )
    ends = generation_config.eos_token_id
    made = _economize(model, draft).decode(
        input_ids,
        generation_config.max_length - input_ids.shape[1],
        decoding=package.DecodeConfig(cycle_length=NODES + 1, verifier="rejection" if sampled else "greedy"),
        selector=selector,
        stop=ends if isinstance(ends, int) or ends is None else list(ends),
    )
    drafted, accepted = (sum(pair[at] for pair in made.acceptance) for at in (0, 1))
    return Output(torch.cat([input_ids, made.tokens[None]], 1), (Statistics(drafted, accepted),))


@lru_cache(maxsize=1)
def _flashspec(model: Any, draft: str | None, temperature: float) -> tuple[list[Any], Any]:
    from flashspec.engine.hf_drafter import HuggingFaceDrafter
    from flashspec.engine.ngram import NgramDrafter
    from flashspec.engine.verifier import TargetModel

    logging.getLogger("flashspec").setLevel(logging.ERROR)
    target = TargetModel("the audited model", torch.device("cpu"), torch.float32, model)
    if draft is None:
        return [NgramDrafter()], target
    return [HuggingFaceDrafter(draft, "cpu", torch.float32, temperature)], target


def flashspec(
    model: Any,
    input_ids: Tensor,
    logits_processor: Any,
    stopping_criteria: Any,
    generation_config: Any,
    draft: str | None = None,
    **_: Any,
) -> Output:
    """The loop of flashspec, with its drafter alone ("bandit" of one arm)."""
    from flashspec.engine.speculative import SpeculativeEngine
    from flashspec.utils.config import BanditConfig, FlashSpecConfig, SamplingConfig

    temperature = float(generation_config.temperature) if generation_config.do_sample else 0.0
    drafters, target = _flashspec(model, draft, temperature)
    sampling = SamplingConfig(
        gamma=NODES, temperature=temperature, top_p=generation_config.top_p or 1.0, seed=torch.initial_seed()
    )
    config = FlashSpecConfig(
        drafter_name="draft",
        target_name="target",
        device="cpu",
        dtype="float32",
        drafter_strategy="bandit",
        bandit=BanditConfig(n_arms=1),
        sampling=sampling,
    )
    ends = generation_config.eos_token_id
    made = SpeculativeEngine(config, drafters, target).generate(
        input_ids,
        generation_config.max_length - input_ids.shape[1],
        [ends] if isinstance(ends, int) else ends or [],
    )
    tokens = made.output_ids[made.output_ids >= 0][None]
    drafted, accepted = (sum(getattr(s, name) for s in made.arm_steps) for name in ("proposed", "accepted"))
    return Output(torch.cat([input_ids, tokens], 1), (Statistics(drafted, accepted),))
