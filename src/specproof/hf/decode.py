"""The decoding loop that `generate` calls in place of its own."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig
from transformers.generation.utils import GenerateDecoderOnlyOutput

from specproof.backends.hf import refuse_state
from specproof.drafters import choose_drafter
from specproof.engine.engine import Engine
from specproof.engine.stats import Statistics
from specproof.errors import SpecproofError
from specproof.hf.fields import check_fields
from specproof.hf.inputs import kept_back
from specproof.hf.lent import lend
from specproof.hf.rows import Prepared, Row
from specproof.types import Backend, Drafter


@dataclass
class Generated(GenerateDecoderOnlyOutput):
    """What `return_dict_in_generate` returns: `sequences`, and how they came about.

    Attributes:
        rule: the verification rule in use.
        lossless: whether it keeps the target's law.
        statistics: of each row.
    """

    rule: str | None = None
    lossless: bool | None = None
    statistics: tuple[Statistics, ...] | None = None


def generate(
    model: Any,
    input_ids: Tensor,
    logits_processor: list[Any],
    stopping_criteria: Any,
    generation_config: GenerationConfig,
    *,
    drafter: str | Drafter = "ngram",
    draft_model: Any = None,
    rule: str = "auto",
    budget: int = 16,
    allow_lossy: bool = False,
    seed: int | None = None,
    streamer: Any = None,
    **model_kwargs: Any,
) -> Tensor | Generated:
    """Speculative decoding for `model.generate(inputs, ..., custom_generate=specproof.hf.generate)`.

    The first five arguments and `model_kwargs` come from transformers; the others are keyword arguments of
    the `generate` call.

    Args:
        model: a decoder-only model with full attention, in evaluation mode.
        input_ids: [B, L], padded on the left; rows are already repeated for `num_return_sequences`.
        logits_processor, stopping_criteria, generation_config: as prepared by `generate`.
        drafter: a name from DRAFTERS, or a drafter.
        draft_model: a transformers model with the target's tokenizer; for drafter "model".
        rule: a name from RULES, or "auto".
        budget: most nodes drafted for a row in one step.
        allow_lossy: take a rule that changes the target's law.
        seed: same seed, same texts; without one, torch's default generator is asked, so that
            `torch.manual_seed` repeats them. Not asked under do_sample=False.
        streamer: gets each token of a single row.

    Returns:
        Prompts and continuations [B, longest], padded on the right; `Generated` under return_dict_in_generate.

    Raises:
        SpecproofError: something is set that cannot be honoured, or that does not fit the model.
    """
    refuse_state(model)
    check_fields(generation_config)
    if kept_back("assistant_model") is not None:
        raise SpecproofError("assistant_model is transformers' own: use drafter='model', draft_model=... instead")
    streamer = streamer if streamer is not None else kept_back("streamer")
    if streamer is not None and len(input_ids) > 1:
        raise SpecproofError(f"a streamer takes one row, and there are {len(input_ids)}: generate one by one")
    target = lend(model)
    chosen = _drafter(drafter, draft_model, target, rule)
    engine = Engine(target, chosen, rule, budget=budget, max_batch=len(input_ids), allow_lossy=allow_lossy)
    prepared = Prepared(input_ids, logits_processor, stopping_criteria, generation_config, model_kwargs)
    rows = prepared.rows(target, seed)
    _run(engine, rows, streamer)
    sequences = prepared.together(rows)
    if not generation_config.return_dict_in_generate:
        return sequences
    statistics = tuple(row.stats for row in rows)
    return Generated(sequences, rule=engine.rule_name, lossless=engine.lossless, statistics=statistics)


def _drafter(drafter: str | Drafter, draft_model: Any, target: Backend, rule: str) -> Drafter:
    if draft_model is not None and not isinstance(draft_model, torch.nn.Module):
        raise SpecproofError(
            f"draft_model={draft_model!r} is no model: load it (AutoModelForCausalLM.from_pretrained)"
        )
    if drafter == "model" and draft_model is None:
        raise SpecproofError("drafter='model' needs a smaller transformers model: give draft_model=")
    if isinstance(drafter, str):
        lent = lend(draft_model) if draft_model is not None else None
        return choose_drafter(drafter, target, lent, coupled=rule == "coupling")
    if draft_model is not None:
        raise SpecproofError("draft_model goes with drafter='model': leave it out beside a drafter of your own")
    return drafter


def _run(engine: Engine, rows: list[Row], streamer: Any) -> None:
    """Complete all rows; a fault of one is an error here, since a tensor has no place to tell it."""
    given = 0
    for _ in engine.run(rows):
        if streamer is not None:
            output = rows[0].sequence.output
            for token in output[given:]:
                streamer.put(torch.tensor([token]))
            given = len(output)
    for number, row in enumerate(rows):
        if row.error is not None:
            raise SpecproofError(f"row {number}: {row.error}")
        for warning in row.warnings:
            warnings.warn(f"row {number}: {warning}", stacklevel=2)
    if streamer is not None:
        streamer.end()
