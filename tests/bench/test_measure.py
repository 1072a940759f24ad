"""Who decodes what, in which order; the clock is made up."""

import pytest

from specproof.backends.hf import HFBackend
from specproof.bench.forwards import forward_costs
from specproof.bench.measure import PROBE, BenchSettings, Place, decode, measure, run_count
from specproof.bench.ways import Way
from specproof.drafters.ngram import NgramDrafter
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.testing.tiny import tiny_model
from specproof.types import SamplingParams

from .made import ticking

TARGET = HFBackend(tiny_model("llama", 5))
PROMPTS = [[1, 2, 1, 2], [3]]
SETTINGS = BenchSettings(temperatures=(0.0, 1.0), max_tokens=12, repeats=2)


def ways():
    def lookup(adaptive):
        return Engine(TARGET, NgramDrafter(shortest=1), adaptive=adaptive, trace=True)

    return [Way("none", lambda adaptive: Engine(TARGET, "none", trace=True)), Way("ngram", lookup)]


def all_runs(settings=SETTINGS):
    return list(measure(ways(), PROMPTS, [0], settings, ticking()))


def test_ways_take_turns_and_none_always_begins():
    runs = all_runs()
    assert len(runs) == run_count(2, 2, 1, SETTINGS) == 2 * 2 * (2 * 2 + 1)
    assert [run.place.temperature for run in runs] == [0.0] * 10 + [1.0] * 10
    turns = [(run.place.prompt, run.place.turn) for run in runs[::2]]
    assert turns == [(0, PROBE), (0, 0), (0, 1), (1, 0), (1, 1)] * 2
    # Both ways in every turn, next to each other.
    pairs = zip(runs[::2], runs[1::2], strict=True)
    assert all({one.place.way, two.place.way} == {"none", "ngram"} for one, two in pairs)
    assert [run.place.way for run in runs[::2]] == ["ngram", "none", "ngram", "ngram", "none"] * 2


def test_the_same_seed_for_all_ways_and_another_for_every_turn():
    """Rule coupling, which both ways have, makes the text a function of the seed."""
    texts = {run.place: run.tokens for run in all_runs()}
    for place, tokens in texts.items():
        assert tokens == texts[place._replace(way="none")]
    warm = [tokens for place, tokens in texts.items() if place.temperature == 1 and place.way == "none"]
    assert len(set(warm)) == len(warm)
    cold = {tokens for place, tokens in texts.items() if place.temperature == 0 and place.prompt == 0}
    assert len(cold) == 1
    again = {run.place: run.tokens for run in all_runs()}
    assert again == texts
    other = {run.place: run.tokens for run in all_runs(BenchSettings((1.0,), 12, 2, seed=1))}
    assert other[Place(1.0, "none", 0, 0)] != texts[Place(1.0, "none", 0, 0)]


def test_probes_draft_at_full_length():
    """The policy would give this drafter up: at temperature 3 next to nothing is accepted."""
    settings = BenchSettings(temperatures=(3.0,), max_tokens=40, repeats=1)
    runs = list(measure(ways(), [[1, 2, 3, 4] * 3], [0], settings, ticking()))
    (probe,) = [run for run in runs if run.place[1:] == ("ngram", 0, PROBE)]
    assert {step.reason for step in probe.trace} <= {None, "no draft", "no room"}


def test_the_clock_is_read_before_the_first_step_after_it_and_at_the_end():
    times = iter([10.0, 13.0, 20.0])
    engine = Engine(TARGET, "none", trace=True)
    run = decode(
        engine, [1, 2], SamplingParams(temperature=0, max_tokens=5), 0, Place(0, "none", 0, 0), times.__next__
    )
    assert (run.prompt_seconds, run.seconds) == (3, 7)
    assert (len(run.tokens), run.begun, run.decoded, len(run.trace)) == (5, 1, 4, 5)


def test_a_text_that_cannot_be_finished_is_an_error():
    engine = Engine(HFBackend(tiny_model("llama", 5, context=4)), "none", trace=True)
    with pytest.raises(SpecproofError, match="prompt 1 by none at temperature 0 gave no text"):
        decode(engine, [1, 2, 3, 4], SamplingParams(temperature=0), 0, Place(0, "none", 0, 0), ticking())


@pytest.mark.parametrize(
    "wrong", [{"repeats": 0}, {"max_tokens": 1}, {"temperatures": ()}, {"temperatures": (1.0, 1.0)}]
)
def test_settings_that_measure_nothing_are_refused(wrong):
    with pytest.raises(SpecproofError, match="not allowed"):
        BenchSettings(**wrong)


def test_a_temperature_below_zero_is_refused():
    with pytest.raises(SpecproofError, match="temperature"):
        BenchSettings(temperatures=(-1.0,))


def test_forwards_of_all_widths_take_turns_and_the_first_turn_does_not_count():
    times = iter([0.0, 100.0, 0.0, 100.0] + [0.0, 1.0, 0.0, 2.0] * 3)
    assert forward_costs(TARGET, times.__next__, repeats=3, widths=(1, 4)) == {1: 1.0, 4: 2.0}
    assert TARGET.store.rows == []


def test_a_context_too_short_for_forwards():
    with pytest.raises(SpecproofError, match="too short"):
        forward_costs(HFBackend(tiny_model("llama", 5, context=8)), ticking())
