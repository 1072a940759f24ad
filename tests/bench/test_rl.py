"""What a training step gains: Amdahl's law, and the figures of NeMo-RL (2604.26779)."""

import json

import pytest

from specproof.bench.rl import StepPlan, plans_from, step_speedup
from specproof.errors import SpecproofError

# Seconds of generation and of the step without speculation, tokens per forward, speed-up that was realised.
RL_ZERO = (100 / 151.2, 3.32, 1.77)
RL_THINK = (133.6 / 185.3, 2.77, 1.54)


@pytest.mark.parametrize(("case", "bound", "expected"), [(RL_ZERO, 1.859, 1.404), (RL_THINK, 1.854, 1.338)])
def test_the_bounds_and_the_realised_gains_of_the_paper(case, bound, expected):
    share, tokens, speedup = case
    plan = StepPlan(share, tokens, speedup)
    assert round(plan.bound, 3) == bound
    assert round(plan.expected, 3) == expected
    assert f"{bound}x as fast at most" in str(plan)
    assert f"makes a step {expected}x as fast" in str(plan)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.7, 0.999, 1.0])
@pytest.mark.parametrize("speedup", [0.5, 1.0, 1.3, 4.0])
def test_seconds_add_up(share, speedup):
    """A step of 1 s: generation by the speed-up faster, the rest as it was."""
    assert 1 / step_speedup(share, speedup) == pytest.approx(share / speedup + (1 - share))
    assert min(1, speedup) <= step_speedup(share, speedup) * (1 + 1e-12)
    assert step_speedup(share, speedup) <= max(1, speedup) * (1 + 1e-12)


def test_nothing_gains_more_than_generation_in_no_time():
    plan = StepPlan(0.75, 1e12, seconds=200.0)
    assert plan.limit == 4
    assert plan.bound == pytest.approx(4)
    assert "4.000x as fast (200.0 s become 50.0 s)" in str(plan)


def test_a_step_that_is_all_generation():
    plan = StepPlan(1.0, speedup=2.0)
    assert (plan.expected, plan.limit) == (2.0, float("inf"))
    assert "gains all that generation gains" in str(plan)
    assert plan.as_dict()["step_limit"] is None


def test_advice_in_words():
    assert str(StepPlan(0.7, speedup=2.5)).endswith(
        "Speculate: 42 % of a step's time is saved; 52 % of what is left is not generation."
    )
    assert str(StepPlan(0.7, speedup=0.9)).endswith("Don't speculate here: a step gains nothing worth having.")
    assert not StepPlan(0.01, 5.0).worth
    assert "At most 42 % of a step's time can be saved" in str(StepPlan(0.7, 2.5))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"share": 1.2, "speedup": 2.0}, "give a part of the step, 0 to 1"),
        ({"share": 0.5, "speedup": 0.0}, "speed-up 0.0 is not allowed"),
        ({"share": 0.5, "tokens_per_forward": 0.5}, "at least 1"),
        ({"share": 0.5, "speedup": 2.0, "seconds": 0.0}, "a step of 0.0 seconds"),
        ({"share": 0.5}, "--speedup"),
        ({"share": float("nan"), "speedup": 2.0}, "generation share nan"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(SpecproofError, match=message):
        StepPlan(**arguments)


def test_plans_from_a_bench(tmp_path):
    path = tmp_path / "bench.json"
    one = {"way": "ngram", "temperature": 0.0, "kind": "mean", "tokens_per_forward": 2.0, "speedup": 1.5}
    path.write_text(json.dumps({"figures": [one, one | {"kind": "chat"}, one | {"way": "none"}]}))
    assert plans_from(path, 0.5, 10.0) == {"ngram at temperature 0:": StepPlan(0.5, 2.0, 1.5, 10.0)}
    path.write_text('{"figures": [{}]}')
    with pytest.raises(SpecproofError, match="give the --json FILE of a bench"):
        plans_from(path, 0.5)
