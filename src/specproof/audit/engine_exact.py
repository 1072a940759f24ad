"""The exact law of the whole engine's output on a tiny model, against the law of the model itself.

Drafter, masks, cache, positions, sampling parameters, rule, draw, commit and stopping all run as they do in
production; only the noise is replaced. The other side is written naively: the whole context recomputed for
every token, probabilities multiplied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

from torch import Tensor

from specproof.audit.enumerate import EnumeratingNoise
from specproof.audit.report import EngineResult
from specproof.engine.engine import Engine
from specproof.engine.requests import Request
from specproof.sampling import warp_next
from specproof.stopping import commit, room
from specproof.types import SamplingParams, TokenSequence

Text = tuple[int, ...]
TextLaw = dict[Text, float]


def model_law(
    logits: Callable[[list[int]], Tensor],
    start: TokenSequence,
    context: int,
    stopped: Callable[[TokenSequence], bool] | None = None,
) -> TextLaw:
    """Law of the completions that plain decoding gives: text to probability, summed over all texts.

    Args:
        logits: from tokens to the next token's logits [V], float64, with no cache behind it.
        start: the prompt, with its parameters, ends and processors.
        context, stopped: as in `stopping.commit`; here asked about texts in any order.
    """
    law: TextLaw = {}
    todo = [(replace(start, tokens=list(start.tokens)), 1.0)]
    while todo:
        sequence, probability = todo.pop()
        if room(sequence, context) == 0 or sequence.finish_reason is not None:
            law[tuple(sequence.output)] = probability
            continue
        for token, mass in enumerate(warp_next(logits(sequence.tokens), sequence).tolist()):
            if mass > 0:
                longer = replace(sequence, tokens=list(sequence.tokens))
                commit(longer, [token], context, stopped)
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
        requests = [_path(engine, noise, next(seeds), prompt, params) for _ in range(len(noise.open))]
        for _ in engine.run(requests):
            pass
        for request in requests:
            # In production a failure costs one request its speculation or its end; in an audit it is a finding.
            assert not request.warnings, request.warnings
            assert request.error is None, request.error
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
    stopped: Callable[[TokenSequence], bool] | None = None,
    names: tuple[str, str] | None = None,
    replay: str = "",
) -> EngineResult:
    """Compare the engine's exact output law with the model's.

    Args:
        engine: built with an `EnumeratingNoise`, on float64 models; a fresh one for each audit.
        logits: of the target model, recomputed without cache.
        prompt, params: the request; keep max_tokens small, paths grow exponentially.
        stopped: whether a text has just come to one of the stop strings of `params`.
        names: rule and drafter for the report.
        replay: command for the report.
    """
    start = engine.requests(prompt, params)[0]
    start.read(len(prompt))
    expected = model_law(logits, start.sequence, engine.target.context, stopped)
    found, paths, rounds = engine_law(engine, prompt, params)
    distance = sum(abs(found.get(text, 0.0) - expected.get(text, 0.0)) for text in {*found, *expected}) / 2
    rule, drafter = names or (engine.rule_name, type(engine.drafter).__name__)
    return EngineResult(rule, drafter, distance, sum(found.values()), paths, rounds, replay)


def _path(
    engine: Engine, noise: EnumeratingNoise, seed: int, prompt: list[int], params: SamplingParams
) -> Request:
    noise.start(seed)
    return engine.requests(prompt, replace(params, seed=seed))[0]
