"""The exact law of plain decoding, from nothing of specproof's: transformers' processors and a rule for ending.

Ends are written out here as a person would: append a token, look at the whole text, go on.
"""

from plain_sampling import plain_row

from specproof.testing.tiny import recomputed_logits


def plain_law(logits, prompt, params, ends=(), stopped=None):
    """Law of the completions: output to probability.

    logits: from tokens to the next token's logits [V]. ends: tokens that end a text. stopped: from output to
    whether its whole text holds a stop string, asked from `min_tokens` tokens on.
    """
    law, todo = {}, [((), 1.0)]
    while todo:
        output, probability = todo.pop()
        ended = bool(output) and (output[-1] in ends or (stopped is not None and stopped(output)))
        if ended or len(output) == params.max_tokens:
            law[output] = law.get(output, 0.0) + probability
            continue
        row = plain_row(logits([*prompt, *output]), [*prompt, *output], len(prompt), params, ends)
        todo += [((*output, token), probability * mass) for token, mass in enumerate(row.tolist()) if mass > 0]
    return law


def distance(law, other):
    """Total variation between two laws of texts."""
    return sum(abs(law.get(text, 0.0) - other.get(text, 0.0)) for text in {*law, *other}) / 2


def remembered(model):
    """Recomputed logits of a model, each text only once."""
    known = {}

    def logits(tokens):
        key = tuple(tokens)
        if key not in known:
            known[key] = recomputed_logits(model, list(tokens))
        return known[key]

    return logits
