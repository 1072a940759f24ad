"""transformers' assisted generation under every setting: the rows it decides by, against plain `generate`'s.

Both run as they are. In the assisted run every processed row is written down with the text before it; then plain
`generate` is led along each of these texts, by forcing its choice once its own row was written down. The same text
must have the same row.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import LogitsProcessorList

from specproof.audit.parameters.compared import Compared, Tally
from specproof.audit.parameters.lattice import covering, shown
from specproof.errors import SpecproofError

# Both arms make rows in float32.
TOLERANCE = 1e-5
LENGTH = 6
Text = tuple[int, ...]
Rows = dict[Text, list[Tensor]]


def values_for(tokens: Sequence[int], *, wide: bool = True) -> dict[str, tuple[Any, ...]]:
    """Values of every parameter of `generate` that shapes the law, in its own words, for common tokens."""
    first, second, third = tokens[:3]
    return {
        "do_sample": (False,),
        "guidance_scale": (1.5,),
        "sequence_bias": ([[[first], 1.5], [[second, third], -2.0]],),
        "repetition_penalty": (1.4, 0.7),
        "no_repeat_ngram_size": (2,),
        "bad_words_ids": ([[second, third], [first, first]],),
        "min_new_tokens": (3,),
        "exponential_decay_length_penalty": ((1, 1.5),),
        "suppress_tokens": ([third],),
        "begin_suppress_tokens": ([first],),
        "temperature": (0.6, 1.7),
        "top_k": (40, 5) if wide else (2, 3),
        "top_p": (0.8,),
        "min_p": (0.05,) if wide else (0.2,),
        "typical_p": (0.7,),
        "epsilon_cutoff": (0.001,) if wide else (0.1,),
        "eta_cutoff": (0.001,) if wide else (0.1,),
    }


def settings_for(tokens: Sequence[int], *, wide: bool = True) -> list[dict[str, Any]]:
    """Every parameter alone, so that a fault has one name, and settings with every pair of values."""
    values = values_for(tokens, wide=wide)
    alone = [{name: value} for name, each in values.items() for value in each]
    return [{}, *alone, *covering(values)]


class Recording(LogitsProcessorList):
    """A list of processors that writes down what it made; in a led run it then forces the next token.

    Args:
        processors: the real ones.
        rows: text to its rows.
        lead: a text to be walked along; None leaves the choice free.
    """

    def __init__(self, processors: Sequence[Any], rows: Rows, lead: Text | None) -> None:
        # An empty list is not called at all.
        super().__init__([*processors, _as_it_is])
        self.rows, self.lead = rows, lead

    def __call__(self, input_ids: Tensor, scores: Tensor, **kwargs: Any) -> Tensor:
        """As the list does, with a note."""
        made: Tensor = super().__call__(input_ids, scores, **kwargs)
        text = tuple(input_ids[0].tolist())
        self.rows.setdefault(text, []).append(made[0].double().softmax(-1).clone())
        if self.lead is None or len(text) >= len(self.lead):
            return made
        return torch.full_like(made, -torch.inf).index_fill_(1, torch.tensor([self.lead[len(text)]]), 0.0)


def _as_it_is(input_ids: Tensor, scores: Tensor) -> Tensor:
    return scores


@contextmanager
def recorded(model: Any, rows: Rows, lead: Text | None = None) -> Iterator[set[Text]]:
    """Every row that `model.generate` decides by is written down as long as this lasts; gives what was drafted."""
    drafts: set[Text] = set()
    made, drafting = model._get_logits_processor, model._get_candidate_generator

    def wrapped(*args: Any, **kwargs: Any) -> Recording:
        return Recording(made(*args, **kwargs), rows, lead)

    def candidates(*args: Any, **kwargs: Any) -> Any:
        # Drafters process rows of their own with the same processors: those are not the target's.
        own = LogitsProcessorList(kwargs.get("logits_processor") or [])
        drafter = drafting(*args, **kwargs | {"logits_processor": own})
        propose = drafter.get_candidates

        def proposed(input_ids: Tensor, *rest: Any, **options: Any) -> Any:
            found = propose(input_ids, *rest, **options)
            text = tuple(found[0][0].tolist())
            drafts.update(text[:length] for length in range(input_ids.shape[1] + 1, len(text) + 1))
            return found

        drafter.get_candidates = proposed
        return drafter

    model._get_logits_processor, model._get_candidate_generator = wrapped, candidates
    try:
        yield drafts
    finally:
        del model._get_logits_processor, model._get_candidate_generator


def compare_generate(
    model: Any,
    prompts: Sequence[Sequence[int]],
    settings: Sequence[Mapping[str, Any]],
    assistance: Mapping[str, Any],
    name: str,
) -> Iterator[Compared]:
    """Compare the two ways under every setting.

    Args:
        model: a transformers model.
        prompts: tokens of each.
        settings: arguments of `generate` by name.
        assistance: further arguments that turn speculation on: `assistant_model`, `prompt_lookup_num_tokens`, …
        name: of the assistance, for the report.
    """
    for values in settings:
        tally, note = Tally(), ""
        for number, prompt in enumerate(prompts):
            try:
                _compare_one(tally, model, prompt, (dict(values), dict(assistance)), number)
            except (ValueError, TypeError, NotImplementedError, RuntimeError) as error:
                note = f"refused: {str(error).splitlines()[0][:160]}"
        yield tally.compared(shown(values), f"generate with {name}", TOLERANCE, note)


def _compare_one(
    tally: Tally, model: Any, prompt: Sequence[int], given: tuple[dict[str, Any], dict[str, Any]], seed: int
) -> None:
    """One prompt: an assisted run, then plain runs along every text that it asked for a row after."""
    values, assistance = given
    assisted: Rows = {}
    with recorded(model, assisted) as drafts:
        output = _generate(model, prompt, values | assistance, seed)
    plain: Rows = {}
    for lead in _longest([*assisted, tuple(output)]):
        if any(text not in plain for text in assisted if text == lead[: len(text)]):
            with recorded(model, plain, lead):
                _generate(model, prompt, values, seed)
    for text, rows in assisted.items():
        if text not in plain:
            continue  # past the end of a text, where nothing is decided
        place = f"after {len(text) - len(prompt)} tokens"
        for row in rows:
            if bool(row.isfinite().all()) and bool(plain[text][0].isfinite().all()):
                tally.add(row, plain[text][0], text in drafts, place)
        for again in plain[text][1:]:
            if bool(again.isfinite().all()) and float((again - plain[text][0]).abs().sum()) / 2 > TOLERANCE:
                raise SpecproofError(f"plain generate has two rows for one text ({place}), under {values}")


def _longest(texts: Sequence[Text]) -> list[Text]:
    """Those that are no beginning of another one."""
    every = sorted(set(texts))
    return [text for text, after in zip(every, [*every[1:], ()], strict=True) if after[: len(text)] != text]


def _generate(model: Any, prompt: Sequence[int], arguments: dict[str, Any], seed: int) -> list[int]:
    ids = torch.tensor([list(prompt)], device=model.device)
    torch.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice on unused parameters, in every run
        made = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            **{"do_sample": True, "top_k": 0, "max_new_tokens": LENGTH} | arguments,
        )
    return list(made[0].tolist())
