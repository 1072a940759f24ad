"""The reference: transformers' own processors, composed in its order, one row of one text at a time.

Nothing here is shared with `specproof.sampling`. Presence and frequency penalty have no twin in transformers;
they are vLLM's formula, token by token. Ends are written out as a person would: append a token, look at the whole
text, go on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch
import transformers as hf
from torch import Tensor

from specproof.types import SamplingParams

Law = dict[tuple[int, ...], float]


def plain_row(
    logits: Tensor, text: Sequence[int], prompt_length: int, params: SamplingParams, ends: Collection[int] = ()
) -> Tensor:
    """The next token's law [V] after a text, from its logits [V] in float64."""
    ids, scores = torch.tensor([list(text)]), logits[None].double().clone()
    for processor in _processors(params, prompt_length, ends):
        scores = processor(ids, scores)
    if params.temperature == 0:
        return torch.nn.functional.one_hot(scores[0].argmax(), len(logits)).double()
    for warper in _warpers(params):
        scores = warper(ids, scores)
    return Tensor.softmax(scores, -1)[0]


def plain_law(
    logits: Callable[[list[int]], Tensor],
    prompt: Sequence[int],
    params: SamplingParams,
    ends: Collection[int] = (),
    stopped: Callable[[tuple[int, ...]], bool] | None = None,
) -> Law:
    """Law of the completions of plain decoding: output to probability.

    Args:
        logits: from tokens to the next token's logits [V].
        prompt, params: the request.
        ends: tokens that end a text.
        stopped: from output to whether its whole text holds a stop string, asked from `min_tokens` tokens on.
    """
    law: Law = {}
    todo: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
    while todo:
        output, probability = todo.pop()
        ended = bool(output) and (output[-1] in ends or (stopped is not None and stopped(output)))
        if ended or len(output) == params.max_tokens:
            law[output] = law.get(output, 0.0) + probability
            continue
        row = plain_row(logits([*prompt, *output]), [*prompt, *output], len(prompt), params, ends)
        todo += [((*output, token), probability * mass) for token, mass in enumerate(row.tolist()) if mass > 0]
    return law


def distance(law: Law, other: Law) -> float:
    """Total variation between two laws of texts."""
    return sum(abs(law.get(text, 0.0) - other.get(text, 0.0)) for text in {*law, *other}) / 2


def remembered(logits: Callable[[list[int]], Tensor]) -> Callable[[list[int]], Tensor]:
    """The same function, asked only once for each text."""
    known: dict[tuple[int, ...], Tensor] = {}

    def ask(tokens: list[int]) -> Tensor:
        key = tuple(tokens)
        if key not in known:
            known[key] = logits(list(tokens))
        return known[key]

    return ask


def _processors(params: SamplingParams, prompt_length: int, ends: Collection[int]) -> Iterator[Any]:
    if params.logit_bias:
        yield hf.SequenceBiasLogitsProcessor([[[token], bias] for token, bias in params.logit_bias.items()])
    if params.repetition_penalty != 1:
        yield hf.RepetitionPenaltyLogitsProcessor(float(params.repetition_penalty))
    yield lambda ids, scores: _output_penalties(ids[0, prompt_length:].tolist(), scores, params)
    if params.bad_words:
        yield hf.NoBadWordsLogitsProcessor([list(word) for word in params.bad_words])
    if params.min_tokens and ends:
        yield hf.MinNewTokensLengthLogitsProcessor(prompt_length, params.min_tokens, list(ends))
    for function in params.processors:
        yield lambda ids, scores, function=function: function(ids[0].tolist(), scores[0])[None]


def _output_penalties(output: list[int], scores: Tensor, params: SamplingParams) -> Tensor:
    scores = scores.clone()
    for token in set(output):
        scores[0, token] -= params.frequency_penalty * output.count(token)
        scores[0, token] -= params.presence_penalty
    return scores


def _warpers(params: SamplingParams) -> Iterator[Any]:
    if params.temperature != 1:
        yield hf.TemperatureLogitsWarper(params.temperature)
    if params.top_k:
        yield hf.TopKLogitsWarper(params.top_k)
    if params.top_p < 1:
        yield hf.TopPLogitsWarper(params.top_p)
    if params.min_p:
        yield hf.MinPLogitsWarper(params.min_p)
