"""Every bet is fair: its mean under the target's row is 1, summed exactly over tokens and noise."""

import numpy as np
import pytest

from specproof.audit.white.arms import DraftTilt, Library, Position, Serial, Temperature, repeated
from specproof.audit.white.emission import Emissions
from specproof.audit.white.evidence import WITH_DRAFT
from specproof.audit.white.tolerant import tolerant_arms

# Five nodes integrate polynomials up to degree 9: positions are linear in the noise, shapes have degree 4.
NODES, WEIGHTS = np.polynomial.legendre.leggauss(5)
NODES, WEIGHTS = (NODES + 1) / 2, WEIGHTS / 2

ROWS = {
    "plain": ([0.5, 0.3, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4]),
    "ties": ([0.25, 0.25, 0.25, 0.25], [0.4, 0.4, 0.1, 0.1]),
    "zeros": ([0.7, 0.0, 0.3, 0.0], [0.2, 0.5, 0.3, 0.0]),
    "disjoint": ([0.7, 0.3, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]),
    "equal": ([0.4, 0.3, 0.2, 0.1], [0.4, 0.3, 0.2, 0.1]),
    "certain draft": ([0.4, 0.3, 0.2, 0.1], [0.0, 0.0, 1.0, 0.0]),
    "certain target": ([0.0, 1.0, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4]),
    "no draft": ([0.4, 0.3, 0.2, 0.1], [0.0, 0.0, 0.0, 0.0]),
    "tiny": ([1 - 3e-200, 1e-200, 1e-200, 1e-200], [0.25, 0.25, 0.25, 0.25]),
    "tiny draft": ([0.25, 0.25, 0.25, 0.25], [1 - 3e-300, 1e-300, 1e-300, 1e-300]),
}


def every_token(target, draft):
    """All tokens with target mass at all nodes of the noise, and the weight of each."""
    size = len(target)
    tokens = np.repeat(np.arange(size), len(NODES))
    rows = np.tile(np.array(target, dtype=float), (len(tokens), 1))
    drafts = np.tile(np.array(draft, dtype=float), (len(tokens), 1))
    emissions = Emissions.of(tokens, rows, drafts, np.tile(NODES, size))
    return emissions, np.repeat(np.array(target, dtype=float), len(NODES)) * np.tile(WEIGHTS, size)


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("arm", WITH_DRAFT, ids=lambda arm: arm.name)
def test_the_mean_of_every_bet_is_one(arm, name):
    """At most one where a fault's law has mass that the target lacks: there it convicts instead."""
    emissions, weights = every_token(*ROWS[name])
    logs = arm.log_e(emissions)
    assert logs.shape == (len(emissions), len(arm.bets))
    assert not np.isnan(logs).any()
    assert not np.isposinf(logs).any()
    live = weights > 0
    means = (weights[live, None] * np.exp(logs[live])).sum(0)
    if isinstance(arm, Library) and name in ("zeros", "disjoint", "certain target"):
        assert (means <= 1 + 1e-12).all()
        assert (means >= 1e-3).any()
    else:
        assert means == pytest.approx(np.ones(len(arm.bets)), abs=1e-12)


def test_a_bet_that_is_not_normalised_would_show():
    """The planted fault of the test above: a tilt without its divisor."""
    emissions, weights = every_token(*ROWS["plain"])
    tilted = np.exp(0.2 * np.log(emissions.at_token(emissions.ratio)))
    assert abs((weights * tilted).sum() - 1) > 1e-3


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("by", ["probability", "token", "ratio"])
def test_positions_tile_the_unit_interval(by, name):
    """Each token fills a step of its own mass, so with uniform noise the position is uniform."""
    target, draft = (np.array(row) for row in ROWS[name])
    live = np.flatnonzero(target > 0)
    rows = [np.tile(row, (len(live), 1)) for row in (target, draft)]
    low, high = (Position("A", by).positions(Emissions.of(live, *rows, np.full(len(live), v))) for v in (0.0, 1.0))
    order = np.argsort(low)
    assert low[order[0]] == pytest.approx(0, abs=1e-15)
    assert low[order[1:]] == pytest.approx(high[order[:-1]], abs=1e-15)
    assert high[order[-1]] == pytest.approx(1, abs=1e-15)


def test_the_orders_are_the_ones_they_are_named_after():
    rows = [np.tile(row, (4, 1)) for row in ROWS["plain"]]
    emissions = Emissions.of(np.arange(4), *rows, np.zeros(4))
    assert Position("A2", "probability").positions(emissions) == pytest.approx([0, 0.5, 0.8, 0.95])
    assert Position("A4", "ratio").positions(emissions) == pytest.approx([0.5, 0.2, 0.05, 0])
    shuffled = Emissions.of(np.arange(3), np.tile([0.2, 0.5, 0.3], (3, 1)), None, np.zeros(3))
    assert Position("A2", "probability").positions(shuffled) == pytest.approx([0.8, 0, 0.5])
    assert Position("A3", "token").positions(shuffled) == pytest.approx([0, 0.2, 0.7])


def test_neighbours_are_fair_given_the_first():
    """For each first token, the mean over the second is one; without a neighbour nothing is bet."""
    second, weights = every_token(*ROWS["plain"])
    first = Emissions.of([1], [ROWS["plain"][0]], None, [0.9])
    for at in range(len(second)):
        pair = Emissions.join([first, second.some(slice(at, at + 1))])
        assert Serial().log_e(pair)[1] == pytest.approx(0)  # the second does not follow the first here
    means = np.zeros(len(Serial().bets))
    for at, weight in enumerate(weights):
        token, noise = second.tokens[at], second.noise[at]
        pair = Emissions.of([1, token], [ROWS["plain"][0]] * 2, None, [0.9, noise])
        logs = Serial().log_e(pair)
        assert logs[0] == pytest.approx(0)
        assert np.abs(logs[1]).max() > 1e-6
        means += weight * np.exp(logs[1])
    assert means == pytest.approx(np.ones(len(means)), abs=1e-12)


def test_repeated_texts_are_fair_and_duplicates_convict():
    law = {(1,): 0.5, (2,): 0.3, (3,): 0.2}
    before = [(text, float(np.log(law[text]))) for text in ((1,), (3,), (1,))]
    assert sum(p * np.exp(repeated(text, before)) for text, p in law.items()) == pytest.approx(1, abs=1e-12)
    long = tuple(range(64))
    assert repeated(long, [(long, -150.0)]) > 100
    assert repeated(long, []) == 0


@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.02])
@pytest.mark.parametrize("name", ["plain", "ties", "zeros", "certain draft", "tiny"])
def test_tolerant_bets_are_fair_for_the_worst_law_within_delta(name, delta):
    """The law that gains most: delta of mass moved from the tokens that pay least to the one that pays most."""
    target, draft = ROWS[name]
    emissions, _ = every_token(target, draft)
    for arm in tolerant_arms(delta):
        pays = np.exp(arm.log_e(emissions))
        # Over the noise first: a law has no say in it.
        by_token = (pays * np.tile(WEIGHTS, len(target))[:, None]).reshape(len(target), len(NODES), -1).sum(1)
        for column in by_token.T:
            law = np.array(target, dtype=float)
            left = delta
            for token in np.argsort(column):
                moved = min(left, law[token])
                law[token] -= moved
                left -= moved
            law[np.where(np.array(target) > 0, column, -1).argmax()] += delta - left
            assert law @ column <= 1 + 1e-12


def test_tolerance_is_needed_for_that():
    """The planted fault: bets at tolerance 0 gain from a law at distance 0.02."""
    emissions, _ = every_token(*ROWS["plain"])
    arm = tolerant_arms(0.0)[2]
    assert np.exp(arm.log_e(emissions)).max() * 0.02 > 0.02


def test_a_draft_that_says_nothing_costs_nothing():
    emissions, _ = every_token(*ROWS["no draft"])
    assert (DraftTilt().log_e(emissions) == 0).all()
    assert (Position("A4", "ratio").log_e(emissions) == 0).all()


def test_a_cold_engine_pays_the_cold_bet():
    """Mean growth under the tempered law is its divergence from the target, the most that any bet can grow."""
    target = np.array([0.5, 0.3, 0.15, 0.05])
    cold = target**1.43 / (target**1.43).sum()
    emissions = Emissions.of(np.arange(4), np.tile(target, (4, 1)))
    growth = cold @ Temperature().log_e(emissions)
    divergence = (cold * np.log(cold / target)).sum()
    assert growth.max() == pytest.approx(divergence, abs=1e-12)
    assert Temperature().bets[int(growth.argmax())] == "temperature times 0.70"
