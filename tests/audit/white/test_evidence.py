"""False alarms under peeking, per arm and together; portions, strata, tokens without mass."""

from collections import defaultdict

import numpy as np
import pytest
from scipy.special import logsumexp
from worlds import emitted, too_many, world

from specproof.audit.white.arms import Serial, repeated
from specproof.audit.white.emission import STRATA, Emissions
from specproof.audit.white.evidence import WITH_DRAFT, WITHOUT_DRAFT, Evidence, Mixture
from specproof.audit.white.faults import FAULTS
from specproof.audit.white.tolerant import tolerant_arms
from specproof.errors import SpecproofError

RATES = (0.01, 0.1)
MIXTURES = {
    "as audits play": Mixture(),
    "without draft rows": Mixture.plain(WITHOUT_DRAFT),
    "tolerant": Mixture.plain(tolerant_arms(1e-4)),
}
TESTS = 30  # more than there are processes and rates


def alarms(mixture, runs, tokens, seed):
    """How many of a correct engine's runs reach each rate's capital at any look, together and by arm."""
    target, draft = world(contexts=32, vocabulary=20)
    rng = np.random.default_rng(seed)
    found = defaultdict(int)
    for _ in range(runs):
        evidence = Evidence(mixture)
        highest = evidence.play(emitted(target, draft, tokens, rng)).max()
        for name, capital in {"together": highest, **evidence.by_arm()}.items():
            for rate in (1e-3, *RATES):
                found[name, rate] += bool(capital >= -np.log(rate))
    return found


@pytest.mark.parametrize("name", MIXTURES)
def test_false_alarms_at_any_look(name):
    """200 runs of 100 looks; by Ville an alarm has at most the stated rate. False alarms of the test: 1e-4."""
    for (process, rate), count in alarms(MIXTURES[name], 200, 100, 4).items():
        assert count < too_many(200, rate, TESTS), process


@pytest.mark.slow
@pytest.mark.parametrize("name", MIXTURES)
def test_false_alarms_at_any_look_of_many_runs(name):
    """2,500 runs of 300 looks."""
    for (process, rate), count in alarms(MIXTURES[name], 2_500, 300, 5).items():
        assert count < too_many(2_500, rate, TESTS), process


def test_a_repeated_look_at_a_fixed_test_would_alarm():
    """The fault that the tests above would show: the z of the first shape, looked at after every token."""
    target, draft = world(contexts=32, vocabulary=20)
    rng, found = np.random.default_rng(6), 0
    for _ in range(200):
        shape = Serial().by.positions(emitted(target, draft, 100, rng)) * 2 - 1
        score = np.abs(np.sqrt(3) * shape.cumsum() / np.sqrt(np.arange(1, 101)))[4:]
        found += score.max() > 1.645
    assert found >= too_many(200, 0.1, TESTS)


def test_portions_make_no_difference():
    """Except for A7, which does not bet across a border."""
    target, draft = world()
    whole = emitted(target, draft, 200, np.random.default_rng(7), FAULTS[0])
    mixture = Mixture(WITH_DRAFT, 0.8, 0.2, 0.0, 0.0)
    one, many = Evidence(mixture), Evidence(mixture)
    path = one.play(whole)
    parts = [many.play(whole.some(slice(first, first + 17))) for first in range(0, 200, 17)]
    assert np.concatenate(parts) == pytest.approx(path, abs=1e-9)
    assert many.highest == pytest.approx(one.highest)
    for arm in WITH_DRAFT:
        assert many.by_arm()[arm.name] == pytest.approx(one.by_arm()[arm.name])
    assert many.tokens == 200


def test_the_capital_is_the_weighted_mean_of_all():
    target, draft = world()
    emissions = emitted(target, draft, 50, np.random.default_rng(8))
    path = Evidence(Mixture()).play(emissions)
    parts, weights = [], []
    for arm in WITH_DRAFT:
        steps = arm.log_e(emissions)
        for part, weight in [(steps, 0.75 / 6)] + [
            (np.where((emissions.strata == number)[:, None], steps, 0), 0.2 / 6 / 6)
            for number in range(len(STRATA))
        ]:
            parts.append(logsumexp(part.cumsum(0), axis=1) - np.log(steps.shape[1]))
            weights.append(weight)
    parts.append(logsumexp(Serial().log_e(emissions).cumsum(0), axis=1) - np.log(6))
    parts.append(np.zeros(50))
    expected = logsumexp(np.stack(parts), b=np.array([*weights, 0.025, 0.025])[:, None], axis=0)
    assert path == pytest.approx(expected, abs=1e-12)


def test_a_fault_in_one_stratum_shows_there():
    """Twice the tokens that it needs on its own; half of all emissions dilute it elsewhere."""
    target, draft = world()
    rng = np.random.default_rng(9)
    biased, right = (emitted(target, draft, 600, rng, fault) for fault in (FAULTS[1], None))
    parts = [biased, right]
    for part, number in zip(parts, (1, 2), strict=True):
        part.strata[:] = number
    evidence = Evidence()
    evidence.play(Emissions.join(parts))
    strata = evidence.by_stratum()
    assert strata["second node"] > np.log(1000)
    assert strata["third node"] < np.log(1000)
    assert strata["bonus"] == 0


def test_a_token_without_mass_settles_it():
    row = np.array([0.7, 0.3, 0.0])
    evidence = Evidence()
    path = evidence.play(Emissions.of([0, 2, 0], np.tile(row, (3, 1))))
    assert path[0] < 1
    assert path[1] == path[2] == np.inf
    assert evidence.forbidden == 1
    assert evidence.pvalue == 0
    assert evidence.play(Emissions.of([1], row[None]))[0] == np.inf


def test_duplicates_convict_through_the_mixture():
    evidence = Evidence()
    evidence.play(emitted(*world(), 64, np.random.default_rng(10)))
    text = tuple(range(64))
    evidence.play_repeat(repeated(text, [(text, -900.0)]))
    assert 800 < evidence.highest < 900
    assert evidence.pvalue < 1e-300


def test_weights_that_do_not_sum_to_one_are_refused():
    with pytest.raises(SpecproofError, match="sum to 1"):
        Mixture(everywhere=0.9)
    with pytest.raises(SpecproofError, match="give arms"):
        Mixture.plain([])
