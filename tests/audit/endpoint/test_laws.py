"""The statistics: exact sums where there are some, known values elsewhere."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, chi2_contingency

from specproof.audit.endpoint import coarse
from specproof.audit.endpoint.ask import Granted
from specproof.audit.endpoint.evidence import Gathered
from specproof.audit.endpoint.families import ANY, named, predictions
from specproof.audit.endpoint.known import Rows
from specproof.audit.endpoint.permuted import Prompt, permutation_test
from specproof.audit.endpoint.plan import EndpointPlan
from specproof.audit.endpoint.units import units
from specproof.audit.endpoint.verdict import convicted
from specproof.audit.endpoint.wager import Wager
from specproof.audit.endpoint.wire import Answer, Row
from specproof.params import SamplingParams

FALSE_ALARM = 1e-4


def too_many(runs, rate):
    return int(binom.isf(FALSE_ALARM, runs, rate)) + 1


def markov(first, second):
    """Texts of two units and their probabilities."""
    return {
        (x, y): a * b
        for x, a in zip("ab", (first, 1 - first), strict=True)
        for y, b in zip("ab", (second[x], 1 - second[x]), strict=True)
    }


EVEN, ODD = markov(0.5, {"a": 0.5, "b": 0.5}), markov(0.9, {"a": 0.2, "b": 0.7})


@pytest.mark.parametrize(("law", "sizes"), [(EVEN, (1, 1)), (ODD, (1, 1)), (ODD, (2, 1))])
def test_capital_of_two_arms_with_one_law_has_mean_1_at_most(law, sizes):
    """Summed over every outcome of two rounds; a bet that could look at its own round would have more."""
    texts = list(law)
    total, moved = 0.0, False
    for outcome in product(texts, repeat=2 * sum(sizes)):
        wager = Wager()
        for round_ in (outcome[: sum(sizes)], outcome[sum(sizes) :]):
            wager.play(0, round_[: sizes[0]], round_[sizes[0] :])
            wager.settle()
        total += np.prod([law[text] for text in outcome]) * np.exp(wager.log_e)
        moved |= abs(wager.log_e) > 1e-3
    assert moved
    assert total <= 1 + 1e-12


def test_capital_grows_where_laws_differ():
    rng = np.random.default_rng(0)
    wager = Wager()
    for _ in range(20):
        on, off = ([(str(x),) for x in rng.choice(3, 16, p=law)] for law in ((0.6, 0.3, 0.1), (0.2, 0.3, 0.5)))
        wager.play(0, on, off)
        wager.settle()
    assert wager.highest > np.log(1e6)


END = "\x00end length"


def sample(rng, law, count):
    return [(str(x), str(y), END) for x, y in zip(rng.choice(4, count, p=law), rng.choice(2, count), strict=True)]


def test_g_is_that_of_the_table():
    rng = np.random.default_rng(1)
    on, off = ([(unit, END) for unit in rng.choice(list("abc"), 100, p=(0.5, 0.3, 0.2))] for _ in range(2))
    prompt = Prompt.of(on, off)
    counts = [[sum(text == (unit, END) for text in arm) for unit in "abc"] for arm in (on, off)]
    expected = chi2_contingency(counts, correction=False, lambda_="log-likelihood")
    assert prompt.statistics(prompt.labels[None])[0][0] == pytest.approx(expected.statistic)
    assert prompt.freedom == expected.dof
    tv = np.abs(np.subtract(*counts)).sum() / 200
    assert prompt.statistics(prompt.labels[None])[0][1] == pytest.approx(200 * tv)


def test_pvalues_of_equal_laws_are_no_smaller_than_they_say():
    """60 nulls; a p-value below 0.1 in more than `too_many` of them comes by chance in 1 of 10,000 batteries."""
    rng = np.random.default_rng(2)
    law = (0.4, 0.3, 0.2, 0.1)
    low = 0
    for seed in range(60):
        prompts = [Prompt.of(sample(rng, law, 60), sample(rng, law, 60)) for _ in range(2)]
        low += permutation_test(prompts, 0.5, seed).pvalue <= 0.1
    assert low < too_many(60, 0.1)


def test_a_difference_is_found_measured_and_foreseen():
    rng = np.random.default_rng(5)
    law = np.array((0.4, 0.3, 0.2, 0.1))
    cold = law**2 / (law**2).sum()
    arms = sample(rng, cold, 400), sample(rng, law, 400)
    prompts = [Prompt.of(*arms)]
    test = permutation_test(prompts, 1e-3, 0)
    assert test.pvalue <= 1e-3
    # Half of the places are those of the second unit, which has one law in both arms.
    assert test.tv == pytest.approx(np.abs(cold - law).sum() / 4, abs=0.03)
    fault, tv = named(prompts)
    assert fault.startswith("temperature times")
    assert tv == pytest.approx(test.tv, abs=0.05)
    any_, *known = predictions(prompts, 1e-3, 400)
    assert any_.fault == ANY
    assert 0.05 < any_.detectable < 0.3
    colder = next(p for p in known if p.fault == "temperature times 0.50")
    assert colder.n95 < 400


def answer_of(token, law, told):
    """What a server tells of one token; the token is added to the likeliest where it is none of them."""
    names = [chr(ord("a") + at) for at in range(len(law))]
    order = sorted(range(len(law)), key=lambda at: -law[at])
    listed = order[:told] + ([token] if token not in order[:told] else [])
    top = tuple((names[at], float(np.log(law[at]))) for at in listed)
    return Answer(names[token], "length", (names[token],), (), (Row(float(np.log(law[token])), top),))


@pytest.mark.parametrize("told", [2, 3, 6])
def test_bets_on_what_is_told_have_mean_1(told):
    """Summed over all tokens of the law; positions inside cells are drawn, so they are left to their own tests."""
    law = np.array((0.4, 0.3, 0.15, 0.08, 0.05, 0.02))
    for arm in coarse.MIXTURE.arms:
        if arm.name == "A2 rank":
            continue
        rng = np.random.default_rng(0)
        each = [arm.log_e(coarse.emissions(answer_of(x, law, told), told, rng))[0] for x in range(len(law))]
        mean = law @ np.exp(np.array(each))
        # The floor under the rest, for servers that round, costs a little where there is no rest.
        assert (mean <= 1 + 2e-5).all()
        assert (mean >= (0.998 if told == len(law) else 1 - 2e-5)).all()


def test_cells_do_not_depend_on_the_token():
    law = np.array((0.4, 0.3, 0.15, 0.08, 0.05, 0.02))
    rows = [coarse.emissions(answer_of(x, law, 3), 3, np.random.default_rng(0)).target for x in range(len(law))]
    assert all((row == rows[0]).all() for row in rows)


def test_units_are_tokens_where_they_are_told_and_words_elsewhere():
    answer = Answer("Hello, you", "length", ("Hel", "lo", ",", " you"))
    assert units(answer, True)[:-1] == ("Hel", "lo", ",", " you")
    assert units(answer, False)[:-1] == ("Hello", ",", " you")
    assert units(Answer("x", "length"), False) != units(Answer("x", "stop"), False)


def test_levels_of_all_looks_sum_to_alpha():
    for draws in (2, 3, 40, 1024):
        plan = EndpointPlan(draws=draws)
        assert sum(plan.looks.values()) + plan.bets.alpha + np.exp(-plan.wager) == pytest.approx(plan.alpha)
        assert plan.rounds in plan.looks
        seeds = plan.seeds("on", draws) + plan.seeds("off", draws)
        assert len(set(plan.seeds("on", draws))) == draws
        assert all(0 <= seed < 2**31 for seed in seeds)


@pytest.mark.slow
def test_false_alarms_of_all_tests_together_with_a_look_after_every_round():
    """200 nulls at alpha 0.2: bets on reported laws, bets on both arms and permutations raise it no more often."""
    rng = np.random.default_rng(4)
    law = np.array((0.5, 0.3, 0.15, 0.05))
    plan = EndpointPlan(alpha=0.2, draws=24, round=6, length=1)
    alarms = 0
    for seed in range(200):
        rows = Rows(Granted(told=3), SamplingParams(max_tokens=1), None, ["a"])
        gathered = Gathered(replace(plan, seed=seed), Granted(told=3), rows, 1)
        alarmed = False
        for number in range(plan.rounds):
            arms = [[(0, answer_of(x, law, 3)) for x in rng.choice(4, plan.round, p=law)] for _ in range(2)]
            gathered.round(*arms, number + 1)
            alarmed |= convicted(gathered.seen(True), plan)
        alarms += alarmed
    assert alarms < too_many(200, plan.alpha)
