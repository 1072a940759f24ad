"""Texts of an engine for an audit: begun with the plan's seeds, finished, and counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from specproof.audit.white.forcing import ends_right
from specproof.audit.white.plan import Plan
from specproof.engine.engine import Engine
from specproof.engine.requests import Request
from specproof.errors import SpecproofError
from specproof.types import SamplingParams, TokenSequence

Prompts = Sequence[Sequence[int]]


class Begun(NamedTuple):
    """A text of an engine: number of its prompt, the sequence before its first token, the request."""

    prompt: int
    start: TokenSequence
    request: Request

    @property
    def output(self) -> list[int]:
        """Its tokens."""
        return self.request.sequence.output


@dataclass
class Counts:
    """What is counted while an engine speculates.

    Attributes:
        drafted, accepted: nodes.
        texts, misended: how many, and of these, that did not end where plain decoding ends them.
        rows, hidden: of running text, tokens whose draft row is known, and drafts of which none is.
        notes: warnings and errors, each once.
    """

    drafted: int = 0
    accepted: int = 0
    texts: int = 0
    misended: int = 0
    rows: int = 0
    hidden: int = 0
    notes: dict[str, None] = field(default_factory=dict)

    def add(self, text: Begun, context: int) -> None:
        """Count a text."""
        request = text.request
        self.texts += 1
        self.drafted += request.stats.drafted
        self.accepted += request.stats.accepted
        self.notes |= dict.fromkeys(request.warnings)
        if request.error:
            self.notes[request.error] = None
        else:
            self.misended += not ends_right(text.start, text.output, request.sequence.finish_reason, context)


def begun(engine: Engine, prompts: Prompts, number: int, params: SamplingParams) -> Begun:
    """A text that is yet to be run, after a prompt; the parameters hold its seed."""
    request, start = (engine.requests(prompts[number], params)[0] for _ in range(2))
    start.read(len(start.unread))
    return Begun(number, start.sequence, request)


def running(engine: Engine, prompts: Prompts, params: SamplingParams, plan: Plan, use: int) -> Iterator[Begun]:
    """Texts in turn of all prompts, `at_once` in the making at a time, until there are as many tokens as planned.

    Args:
        engine: runs them.
        prompts, params: of the texts.
        plan: sizes and seeds.
        use: 0 for the control, which needs fewer tokens, 1 with speculation.
    """
    tokens = plan.control if use == 0 else plan.tokens
    # Enough even if each turn of `at_once` texts should make one token only.
    seeds = plan.seeds(use, tokens * plan.at_once)
    number = made = 0
    while made < tokens:
        wave = []
        for _ in range(min(plan.at_once, -(-(tokens - made) // plan.length))):
            prompt = number % len(prompts)
            wave.append(begun(engine, prompts, prompt, replace(params, seed=seeds[number])))
            number += 1
        for _ in engine.run(text.request for text in wave):
            pass
        if not any(text.output for text in wave):
            raise SpecproofError(f"no tokens came out: {wave[0].request.error or 'prompts fill the context'}")
        for text in wave:
            if made < tokens:
                made += len(text.output)
                yield text


def repeated_texts(
    engine: Engine, prefixes: Prompts, params: SamplingParams, plan: Plan, use: int
) -> Iterator[Begun]:
    """Texts of the panel: every prefix `draws` times, each with a seed of its own.

    Args:
        engine: runs them.
        prefixes, params: of the texts; their length is the panel's depth.
        plan: sizes and seeds.
        use: 2 with speculation, 3 without.
    """
    seeds = iter(plan.seeds(use, len(prefixes) * plan.draws))
    for number in range(len(prefixes)):
        wave = [begun(engine, prefixes, number, replace(params, seed=next(seeds))) for _ in range(plan.draws)]
        for _ in engine.run(text.request for text in wave):
            pass
        yield from wave
