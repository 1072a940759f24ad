"""The exact law of the whole engine's output on a tiny model, against the law of the model itself.

Drafter, masks, cache, positions, sampling parameters, rule, draw, commit and stopping all run as they do in
production; only the noise is replaced. The other side is written naively: the whole context recomputed for
every token, probabilities multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count

from torch import Tensor

from specproof.audit.enumerate import EnumeratingNoise
from specproof.audit.report import EngineResult
from specproof.engine.engine import Engine
from specproof.engine.requests import Request
from specproof.sampling import warp
from specproof.stopping import commit, room
from specproof.types import SamplingParams, TokenSequence

Text = tuple[int, ...]
TextLaw = dict[Text, float]


def model_law(
    logits: Callable[[list[int]], Tensor],
    prompt: list[int],
    params: SamplingParams,
    eos: Iterable[int],
    context: int,
) -> TextLaw:
    """Law of the completions that plain decoding gives: text to probability, summed over all texts.

    Args:
        logits: from tokens to the next token's logits [V], float64, with no cache behind it.
        prompt, params: as for the engine.
        eos, context: as in `stopping.commit`.
    """
    ends = frozenset(eos)
    law: TextLaw = {}
    todo = [(TokenSequence(list(prompt), len(prompt), params, 0), 1.0)]
    while todo:
        sequence, probability = todo.pop()
        if room(sequence, context) == 0 or sequence.finish_reason is not None:
            law[tuple(sequence.output)] = probability
            continue
        for token, mass in enumerate(warp(logits(sequence.tokens), params).tolist()):
            if mass > 0:
                longer = replace(sequence, tokens=list(sequence.tokens))
                commit(longer, [token], ends, context)
                todo.append((longer, probability * mass))
    return law


def engine_law(engine: Engine, prompt: list[int], params: SamplingParams) -> tuple[TextLaw, int, int]:
    """Law of the engine's completions, the number of paths summed, and the most drafted rounds in one.

    The engine's noise is an `EnumeratingNoise`; its batch is filled with paths.
    """
    noise = engine.noise
    assert isinstance(noise, EnumeratingNoise)
    law: TextLaw = {}
    paths = rounds = 0
    seeds = count()
    while noise.open:
        # As many runs as there are open scripts: they leave more behind, for the next turn.
        requests = [_path(noise, next(seeds), prompt, params) for _ in range(len(noise.open))]
        for _ in engine.run(requests):
            pass
        for request in requests:
            path = noise.finish(request.sequence.seed)
            text = tuple(request.sequence.output)
            law[text] = law.get(text, 0.0) + path.probability
            rounds = max(rounds, path.rounds)
        paths += len(requests)
    return law, paths, rounds


def audit_engine(
    engine: Engine,
    logits: Callable[[list[int]], Tensor],
    prompt: list[int],
    params: SamplingParams,
    *,
    names: tuple[str, str] | None = None,
    replay: str = "",
) -> EngineResult:
    """Compare the engine's exact output law with the model's.

    Args:
        engine: built with an `EnumeratingNoise`, on float64 models; a fresh one for each audit.
        logits: of the target model, recomputed without cache.
        prompt, params: the request; keep max_tokens small, paths grow exponentially.
        names: rule and drafter for the report.
        replay: command for the report.
    """
    expected = model_law(logits, prompt, params, engine.eos, engine.target.context)
    found, paths, rounds = engine_law(engine, prompt, params)
    distance = sum(abs(found.get(text, 0.0) - expected.get(text, 0.0)) for text in {*found, *expected}) / 2
    rule, drafter = names or (engine.rule_name, type(engine.drafter).__name__)
    return EngineResult(rule, drafter, distance, sum(found.values()), paths, rounds, replay)


def _path(noise: EnumeratingNoise, seed: int, prompt: list[int], params: SamplingParams) -> Request:
    noise.start(seed)
    return Request(TokenSequence(list(prompt), len(prompt), params, seed), None)
