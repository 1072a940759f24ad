"""Rollouts of table models, as an engine would write them to a file; with whatever fault the law has."""

import math
from functools import lru_cache

import numpy as np
import torch

from specproof.audit.rollouts.policy import Policy
from specproof.backends.table import TableBackend, TableModel
from specproof.sampling import ends_for, warp_next
from specproof.types import SamplingParams, TokenSequence

VOCABULARY, END = 12, 0
PARAMS = {"temperature": 0.7, "top_k": 8, "max_tokens": 24}


@lru_cache(maxsize=8)
def table(apart=0.0, seed=0):
    """A model with a context of one token; `apart` moves every row by log-normal factors."""
    generator = torch.Generator().manual_seed(0)
    levels = TableModel.random(VOCABULARY, 1, generator).levels
    moved = []
    noise = torch.Generator().manual_seed(seed + 1)
    for level in levels:
        other = level * (apart * torch.randn(level.shape, generator=noise, dtype=torch.float64)).exp()
        moved.append(other / other.sum(-1, keepdim=True))
    return TableModel(tuple(moved))


def policy(model):
    return Policy(TableBackend(model), eos=(END,))


@lru_cache(maxsize=10_000)
def row(model, last, values, eos=(END,)):
    """[V] what the token after `last` is drawn from."""
    params = SamplingParams.from_dict(dict(values))
    sequence = TokenSequence([last], 1, params, 0, ends_for(params, eos))
    return warp_next(model.row([last]).log(), sequence).numpy()


def write(model, count, *, stated=PARAMS, drawn=None, draft=None, law=None, seed=0, told=None, keep_end=True):
    """Texts in the form of a file.

    Args:
        model: that writes, and tells log-probabilities.
        count: of texts, four to a prompt.
        stated: parameters in the file; `drawn` are those that tokens are really drawn under.
        draft, law: another model, and a function of both rows to the row that comes out.
        told: from raw row, folded row and token to a log-probability; none are told without it.
        keep_end: whether the end token is written down.
    """
    rng = np.random.default_rng(seed)
    used = tuple((stated if drawn is None else drawn).items())
    for number in range(count):
        prompt = [1 + number // 4 % (VOCABULARY - 1)]
        text, logprobs = [], []
        while len(text) < stated["max_tokens"] and (not text or text[-1] != END):
            last = (prompt + text)[-1]
            own = row(model, last, used)
            out = own if law is None else law(own[None], row(draft, last, used)[None])[0]
            token = int(rng.choice(VOCABULARY, p=out / out.sum()))
            if told is not None:
                logprobs.append(float(told(model.row([last]).numpy(), own, token)))
            text.append(token)
        ended = text[-1] == END
        if ended and not keep_end:
            text, logprobs = text[:-1], logprobs[:-1]
        yield {
            "prompt": number // 4,
            "sample": number % 4,
            "prompt_ids": prompt,
            "completion_ids": text,
            "finish_reason": "stop" if ended else "length",
            "params": dict(stated),
            "drafter": "none" if draft is None else "model",
        } | ({"logprobs": logprobs} if told is not None else {})


def folded(raw, own, token):
    return math.log(own[token])


def plainly(raw, own, token):
    return math.log(raw[token])


def tempered(raw, own, token):
    powers = raw ** (1 / PARAMS["temperature"])
    return math.log(powers[token] / powers.sum())


def scaled(raw, own, token):
    return math.log(raw[token]) / PARAMS["temperature"]
