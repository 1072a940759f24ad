"""Decode every prompt every way, taking turns, so that a busy moment of the machine hits all of them alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from specproof.bench.ways import Way
from specproof.engine.engine import Engine
from specproof.engine.stats import StepRecord
from specproof.errors import SpecproofError
from specproof.noise import completion_seed
from specproof.types import SamplingParams

# Seconds of a clock that only goes forward.
Clock = Callable[[], float]


@dataclass(frozen=True)
class BenchSettings:
    """How a bench is run.

    Attributes:
        temperatures: each is measured by itself.
        max_tokens: of every answer; it ends earlier where the model ends it.
        repeats: times that each prompt is decoded each way.
        adaptive: draft as far as it pays; false drafts at full length in every step.
        seed: of the texts at temperatures above 0; every way has the same one for the same prompt and turn.
    """

    temperatures: tuple[float, ...] = (0.0, 1.0)
    max_tokens: int = 64
    repeats: int = 3
    adaptive: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.repeats < 1:
            raise SpecproofError(f"repeats={self.repeats} is not allowed: give a whole number >= 1")
        if self.max_tokens < 2:
            raise SpecproofError(f"max_tokens={self.max_tokens} is not allowed: speed needs 2 tokens or more")
        if not self.temperatures or len(set(self.temperatures)) < len(self.temperatures):
            raise SpecproofError(f"temperatures={self.temperatures} are not allowed: give at least one, each once")
        for temperature in self.temperatures:
            SamplingParams(temperature=temperature)


# Turn of runs that count for no speed: with drafts of full length, to know what is accepted where it does not pay.
PROBE = -1


class Place(NamedTuple):
    """What was decoded: temperature, way, number of the prompt, number of the turn or PROBE."""

    temperature: float
    way: str
    prompt: int
    turn: int


@dataclass(frozen=True)
class Run:
    """One text.

    Attributes:
        place: what was decoded.
        tokens: the text.
        begun: tokens of it that the first step committed, the one that reads the prompt.
        prompt_seconds: to the end of that step.
        seconds: from there to the end of the text.
        trace: every step, the first included.
        rule: that verified it.
        warnings: what it had to do without.
    """

    place: Place
    tokens: tuple[int, ...]
    begun: int
    prompt_seconds: float
    seconds: float
    trace: tuple[StepRecord, ...]
    rule: str
    warnings: tuple[str, ...] = ()

    @property
    def decoded(self) -> int:
        """Tokens after the first step: those that `seconds` were spent on."""
        return len(self.tokens) - self.begun


def decode(
    engine: Engine, prompt: Sequence[int], params: SamplingParams, seed: int, place: Place, clock: Clock
) -> Run:
    """Decode one prompt; the clock is read before, after the first step, and after the last.

    The seed is set behind the back of the parameters: draft lengths of requests that ask for one do not follow the
    clock, since it is to repeat the text, and it is the lengths that follow the clock that are measured here.

    Raises:
        SpecproofError: the request could not be finished.
    """
    (request,) = engine.requests(prompt, params)
    request.sequence.seed = seed
    start, first, begun = clock(), None, 0
    for _ in engine.run([request]):
        if first is None and request.sequence.output:
            first, begun = clock(), len(request.sequence.output)
    end = clock()
    result = engine.result(request)
    if result.error is not None or first is None:
        raise SpecproofError(
            f"prompt {place.prompt + 1} by {place.way} at temperature {place.temperature:g} gave no text to "
            f"measure: {result.error or 'it has no room behind the prompt'}"
        )
    trace = tuple(request.stats.trace or ())
    return Run(place, result.tokens, begun, first - start, end - first, trace, result.rule, result.warnings)


def measure(
    ways: Sequence[Way],
    prompts: Sequence[Sequence[int]],
    probed: Sequence[int],
    settings: BenchSettings,
    clock: Clock,
) -> Iterator[Run]:
    """All runs: by temperature, prompt and turn, and within a turn by way, each turn beginning with another one.

    Args:
        ways: of decoding.
        prompts: tokens.
        probed: numbers of the prompts that are decoded first with drafts of full length (PROBE). It warms up, too.
        settings, clock: how.
    """
    for temperature in settings.temperatures:
        params = SamplingParams(temperature=temperature, max_tokens=settings.max_tokens)
        full = [(way.label, way.make(False)) for way in ways]
        paced = [(way.label, way.make(settings.adaptive)) for way in ways]
        turns = [(number, PROBE, full) for number in probed]
        turns += [(number, turn, paced) for number in range(len(prompts)) for turn in range(settings.repeats)]
        for number, turn, engines in turns:
            shift = (number + turn) % len(engines)
            seed = completion_seed(completion_seed(settings.seed, number + 1), turn + 2)
            for label, engine in engines[shift:] + engines[:shift]:
                place = Place(temperature, label, number, turn)
                yield decode(engine, prompts[number], params, seed, place, clock)


def run_count(ways: int, prompts: int, probed: int, settings: BenchSettings) -> int:
    """How many runs `measure` makes."""
    return len(settings.temperatures) * ways * (prompts * settings.repeats + probed)
