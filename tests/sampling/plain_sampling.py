"""The reference: transformers' own processors, composed in its order, one row of one text at a time.

Nothing here is shared with `specproof.sampling`. Presence and frequency penalty have no twin in transformers;
they are vLLM's formula, token by token.
"""

import torch
import transformers as hf


def plain_row(logits, text, prompt_length, params, ends=()):
    """The next token's law [V] after a text, from its logits [V] in float64."""
    ids, scores = torch.tensor([text]), logits[None].double().clone()
    for processor in _processors(params, prompt_length, ends):
        scores = processor(ids, scores)
    if params.temperature == 0:
        return torch.nn.functional.one_hot(scores[0].argmax(), len(logits)).double()
    for warper in _warpers(params):
        scores = warper(ids, scores)
    return scores.softmax(-1)[0]


def _processors(params, prompt_length, ends):
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


def _output_penalties(output, scores, params):
    scores = scores.clone()
    for token in range(scores.shape[1]):
        count = output.count(token)
        scores[0, token] -= params.frequency_penalty * count
        scores[0, token] -= params.presence_penalty if count else 0
    return scores


def _warpers(params):
    if params.temperature != 1:
        yield hf.TemperatureLogitsWarper(params.temperature)
    if params.top_k:
        yield hf.TopKLogitsWarper(params.top_k)
    if params.top_p < 1:
        yield hf.TopPLogitsWarper(params.top_p)
    if params.min_p:
        yield hf.MinPLogitsWarper(params.min_p)
