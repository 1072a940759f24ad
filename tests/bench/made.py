"""Runs and steps with times that are made up, so that every figure can be worked out by hand."""

from itertools import count

from specproof.bench.measure import PROBE, Place, Run
from specproof.engine.stats import NO_DRAFT, StepRecord


def step(drafted=0, accepted=0, seconds=(0.0, 1.0, 0.0)):
    """A step that drafted a chain, accepted some of it and committed one more."""
    reason = None if drafted else NO_DRAFT
    return StepRecord(tuple(range(1, drafted + 1)), accepted, accepted + 1, drafted, reason, seconds)


def run(way="none", prompt=0, turn=0, seconds=8.0, steps=None, temperature=0.0, **options):
    """A text of one token in the first step and those of `steps` after it."""
    trace = (step(), *(steps if steps is not None else [step()] * 8))
    tokens = options.pop("tokens", tuple(range(sum(one.kept for one in trace))))
    place = Place(temperature, way, prompt, turn)
    return Run(place, tokens, 1, options.pop("prompt_seconds", 2.0), seconds, trace, "coupling", **options)


def ticking():
    """A clock that is one second later whenever it is looked at."""
    ticks = count()
    return lambda: float(next(ticks))


__all__ = ["PROBE", "run", "step", "ticking"]
