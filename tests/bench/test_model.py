"""The cost model against what can be worked out by hand, and against the formula of the paper."""

import pytest

from specproof.bench.model import StepCosts, added, best_fixed, expected_tokens, predicted_speedup
from specproof.engine.advice import Advice, advise
from specproof.engine.advice import predicted_speedup as of_the_paper
from specproof.engine.stats import Statistics

from .made import step

WIDE = dict.fromkeys((1, 2, 3, 5, 9, 17), 1.0)  # forwards that cost the same however wide


def geometric(length, count=1000, cost=0.1):
    """Steps of a drafter whose every token is accepted in half of the cases, as often as that is expected."""
    steps, left = [], count
    for accepted in range(length):
        steps += [step(length, accepted, (cost * length, 1.0, 0.0))] * (left := left // 2)
    return steps + [step(length, length, (cost * length, 1.0, 0.0))] * left


def test_costs_are_put_together_from_their_parts():
    steps = [step(4, 1, (0.4, 9.0, 0.3)), step(0, 0, (0.02, 9.0, 0.1))]
    costs = StepCosts({1: 2.0, 5: 3.0}, steps, [step(0, 0, (0.01, 9.0, 0.1))])
    assert costs.plain == pytest.approx(0.01 + 2.0 + 0.1)
    assert costs.step(4) == pytest.approx(0.4 + 3.0 + 0.3)
    assert costs.step(0) == pytest.approx(0.02 + 2.0 + 0.1)
    # In the middle between what was measured.
    assert costs.step(2) == pytest.approx((0.02 + 0.4) / 2 + 2.5 + 0.2)
    assert costs.break_even == pytest.approx((costs.step(1) - costs.plain) / costs.plain)


def test_a_price_that_was_never_measured_is_not_known():
    assert StepCosts(WIDE, [step()], [step()]).break_even is None


@pytest.mark.parametrize("length", [1, 2, 3])
def test_the_formula_of_the_paper(length):
    """Equal acceptance at every depth, wide forwards at no cost: Leviathan et al. 2023, theorem 3.8."""
    steps = geometric(length, 1024)
    costs = StepCosts(WIDE, [*steps, step()], [step()])
    assert predicted_speedup(steps, added(steps), costs) == pytest.approx(of_the_paper(0.1, 0.5, length))


def test_a_prediction_adds_up_steps_of_all_lengths():
    steps = [step(2, 2), step(2, 0), step(1, 1), step()]
    costs = StepCosts({1: 1.0, 2: 1.5, 3: 2.0}, [], [step()])
    # Accepted: at depth 1 in 2 of 3 steps, at depth 2 in the one that came there.
    tokens = 2 * (1 + 2 / 3 + 2 / 3) + (1 + 2 / 3) + 1
    assert predicted_speedup(steps, added(steps), costs) == pytest.approx(tokens / (2 + 2 + 1.5 + 1))
    assert predicted_speedup([], Statistics(), costs) is None


def test_the_best_length_is_that_of_the_paper_up_to_the_longest_tried():
    steps = geometric(6, 4096, cost=0.05)
    costs = StepCosts(WIDE, [*steps, step(1, 1, (0.05, 1.0, 0.0)), step(3, 1, (0.15, 1.0, 0.0)), step()], [step()])
    best = best_fixed(steps, added(steps), costs)
    assert (best.length, round(best.speedup, 3)) == (3, round(advise(0.05, 0.5).speedup, 3))


def test_no_length_pays_where_drafts_cost_more_than_they_gain():
    steps = geometric(3, 800, cost=0.9)
    assert best_fixed(steps, added(steps), StepCosts(WIDE, [*steps, step()], [step()])) == Advice(0, 1.0)
    assert best_fixed([], Statistics(), StepCosts(WIDE, [], [step()])) == Advice(0, 1.0)


def test_steps_without_a_draft_count_as_they_are():
    """A drafter that finds something in one step of ten, and is then right, gains a tenth."""
    steps = [step(1, 1, (0.0, 1.0, 0.0))] * 10 + [step()] * 90
    best = best_fixed(steps, added(steps), StepCosts(WIDE, steps, [step()]))
    assert best == Advice(1, pytest.approx(1.1))


def test_expected_tokens():
    assert expected_tokens({1: 0.5, 2: 0.5}, 2) == 1.75
    assert expected_tokens({}, 0) == 1
    assert expected_tokens({1: 1.0}, 2) == 2
