"""Figures of runs whose seconds were made up."""

from dataclasses import fields
from pathlib import Path

import pytest

from specproof.bench.figures import MEAN, Figures
from specproof.bench.rl import StepPlan
from specproof.bench.run import add_up

from .made import PROBE, run, step

GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"
FORWARDS = {1: 1.0, 2: 1.0, 3: 1.0}
CHAINS = {"none": True, "quick": True}


def figures(runs, kinds):
    found = add_up(runs, kinds, FORWARDS, CHAINS)
    return {(one.way, one.kind): one for one in found}


def test_speed_is_tokens_after_the_first_step_by_medians_of_turns():
    """Eight tokens after the first: plainly in 8, 8 and 80 s, by the other way in 4, 2 and 4 s."""
    fast = [step(1, 1)] * 4
    runs = [run(turn=turn, seconds=seconds) for turn, seconds in enumerate((8, 8, 80))]
    runs += [run("quick", turn=turn, seconds=seconds, steps=fast) for turn, seconds in enumerate((4, 2, 4))]
    found = figures(runs, ["chat"])
    plain, quick = found["none", "chat"], found["quick", "chat"]
    assert (plain.tokens_per_second, quick.tokens_per_second) == (1, 2)
    assert (plain.speedup, quick.speedup) == (1, 2)
    assert (quick.speedup_low, quick.speedup_high) == (2, 20)
    # The prompt took 2 s of either and gave the first of nine tokens.
    assert quick.request_tokens_per_second == 9 / 6
    assert quick.request_speedup == pytest.approx(10 / 6)
    assert (quick.tokens_per_forward, quick.acceptance, quick.drafting) == (9 / 5, 1, 4 / 5)
    assert (quick.texts, quick.tokens) == (3, 27)
    assert quick.predicted_speedup == 2


def test_every_prompt_of_a_kind_and_every_kind_weighs_the_same():
    runs = [run(prompt=0, seconds=8), run(prompt=1, seconds=8), run(prompt=2, seconds=8)]
    runs += [run("quick", prompt=p, seconds=s) for p, s in enumerate((2, 6, 8))]
    found = figures(runs, ["chat", "chat", "code"])
    assert found["quick", "chat"].speedup == 2
    assert found["quick", "code"].speedup == 1
    assert found["quick", MEAN].speedup == 1.5
    assert found["quick", MEAN].tokens_per_second == 1.5
    assert found["quick", MEAN].texts == 3


def test_probes_count_for_acceptance_and_not_for_speed():
    runs = [run(), run("quick"), run(turn=PROBE, seconds=0.1)]
    runs.append(run("quick", turn=PROBE, seconds=1000.0, steps=[step(2, 2)] * 9 + [step(2, 0)] * 3))
    quick = figures(runs, ["chat"])["quick", "chat"]
    assert (quick.speedup, quick.tokens_per_forward, quick.drafting) == (1, 1, 0)
    assert quick.acceptance_by_depth == {1: 0.75, 2: 0.75}
    assert quick.conditional_by_depth == {1: 0.75, 2: 1}
    assert quick.drafted_at == {1: 12, 2: 12}
    assert quick.best.length == 2


def test_texts_that_end_in_their_first_step_have_no_speed():
    ended = {"steps": [], "seconds": 0.0}
    found = figures([run(**ended), run("quick", **ended)], ["chat"])
    assert found["quick", "chat"].speedup is None
    assert found["quick", MEAN].speedup is None
    assert found["quick", "chat"].request_speedup == 1


def test_a_prompt_without_speed_on_one_side_is_left_out_on_both():
    runs = [run(prompt=0), run(prompt=1), run("quick", prompt=0, seconds=4), run("quick", prompt=1, steps=[])]
    assert figures(runs, ["chat", "chat"])["quick", "chat"].speedup == 2


def test_plain_decoding_has_no_break_even_and_no_best_length():
    plain = figures([run(), run("quick")], ["chat"])["none", MEAN]
    assert (plain.break_even, plain.best, plain.predicted_speedup) == (None, None, 1)


def test_every_figure_is_in_the_glossary():
    text = GLOSSARY.read_text()
    names = [field.name for field in fields(Figures)] + list(StepPlan(0.5, 2.0).as_dict())
    missing = [name for name in names if f"`{name}`" not in text]
    assert not missing, f"not in docs/glossary.md: {missing}"
