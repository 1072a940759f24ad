"""Log-probabilities of committed and of prompt tokens: of the law they were drawn from, and of the raw model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, tensor

from specproof.sampling import precise
from specproof.tree import Tree
from specproof.types import Backend, Draft, SamplingParams, TokenSequence

_CHUNK = 128  # prompt tokens scored at once: their logits are the largest tensor there is
Likely = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class TokenLogprobs:
    """One token's natural log-probabilities.

    Attributes:
        token: which.
        logprob: under the law it was drawn from: the target's after penalties, bans, temperature and filters,
            normalised. Never the draft's, never the residual's. None in a prompt, which nothing was drawn for.
        raw: under the model alone, at temperature 1.
        scaled: under the model at the request's temperature and nothing else, the convention of policy gradients;
            at temperature 0 equal to `raw`. None in a prompt.
        top, raw_top: the likeliest tokens of both laws with theirs, as many as asked, likeliest first.
    """

    token: int
    logprob: float | None
    raw: float
    top: Likely
    raw_top: Likely
    scaled: float | None = None


def of_block(
    rows: Tensor, logits: Tensor, path: Sequence[int], block: Sequence[int], params: SamplingParams
) -> list[TokenLogprobs]:
    """Of a committed block.

    Args:
        rows, logits: [N+1, V] of one sequence: the target's folded rows, and its raw logits.
        path: accepted nodes; token i of the block was decided by the row before it.
        block: committed tokens.
        params: temperature, and how many likely tokens to report.
    """
    places = [0, *(node + 1 for node in path)][: len(block)]
    count, temperature = params.logprobs or 0, params.temperature or 1.0
    folded, raw = rows[places].log(), precise(logits[places]).log_softmax(-1)
    # Once normalised, no temperature makes the largest overflow.
    scaled = raw if temperature == 1 else (raw / temperature).log_softmax(-1)
    entries = zip(block, folded, raw, scaled[range(len(block)), block].tolist(), strict=True)
    return [
        TokenLogprobs(token, float(own[token]), float(model[token]), _top(own, count), _top(model, count), at)
        for token, own, model, at in entries
    ]


def of_prompt(target: Backend, tokens: list[int], count: int) -> list[TokenLogprobs | None]:
    """Of every token of a prompt; None for the first, which nothing stands before."""
    found: list[TokenLogprobs | None] = [None]
    sequence = TokenSequence(tokens[:1], 1, SamplingParams(), 0)
    try:
        while len(sequence.tokens) < len(tokens):
            # The prompt is its own draft: one forward gives the row before each of these tokens.
            new = tokens[len(sequence.tokens) : len(sequence.tokens) + _CHUNK]
            found += [
                TokenLogprobs(token, None, float(row[token]), (), _top(row, count))
                for token, row in zip(new, _rows(target, sequence, new[:-1]), strict=True)
            ]
            sequence.tokens += new
            target.keep([sequence], [range(len(new) - 1)])
    finally:
        target.free([sequence])
    return found


def _rows(target: Backend, sequence: TokenSequence, drafted: list[int]) -> Tensor:
    draft = Draft((Tree.chain(len(drafted)),), tensor([drafted]).long(), None, "point")
    return precise(target.forward([sequence], draft).logits[0]).log_softmax(-1)


def _top(logprobs: Tensor, count: int) -> Likely:
    """The `count` likeliest tokens of a law [V] that have any mass."""
    values, tokens = logprobs.topk(min(count, len(logprobs)))
    pairs = zip(tokens.tolist(), values.tolist(), strict=True)
    return tuple((token, value) for token, value in pairs if value > -float("inf"))
