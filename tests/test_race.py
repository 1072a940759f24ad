"""The shared noise: its bits, its law, and how often different rows agree under it.

Statistical tests have fixed seeds and state the probability with which a right implementation would fail.
"""

from math import log

import numpy as np
import pytest
import torch

from specproof.noise import CounterNoise, exponentials, race
from specproof.rules.coupling import match_probability, shared_key
from specproof.types import EXTRA, GUMBEL, Key

SAMPLES = 5_000
# What chi-square with so many degrees of freedom, and a normal number's size, exceed with probability 1e-4.
CHI_SQUARE = {3: 21.11, 8: 31.83}
NORMAL = 3.891


def winners(row, keys):
    return race(torch.tensor(row, dtype=torch.float64).expand(len(keys), -1), keys)


def philox(counter, key):
    """One block of Philox 4x64-10 (Salmon et al. 2011), written from its definition."""
    for turn in range(10):
        if turn:
            key = [(key[0] + 0x9E3779B97F4A7C15) % 2**64, (key[1] + 0xBB67AE8584CAA73B) % 2**64]
        low, high = 0xD2E7470EE14C6C93 * counter[0], 0xCA5A826395121157 * counter[2]
        counter = [
            (high >> 64) ^ counter[1] ^ key[0],
            high % 2**64,
            (low >> 64) ^ counter[3] ^ key[1],
            low % 2**64,
        ]
    return counter


@pytest.mark.parametrize("seed", [0, 7, 2**53 + 1, 2**64 - 1])
def test_noise_is_the_same_on_every_machine(seed):
    raw = philox([1, 0, 0, 3], [seed, 12345]) + philox([2, 0, 0, 3], [seed, 12345])
    expected = [-log(((number >> 12) + 0.5) * 2.0**-52) for number in raw]
    assert exponentials(Key(seed, 12345, GUMBEL), 8).tolist() == pytest.approx(expected, rel=1e-14)


def test_a_tokens_noise_does_not_depend_on_the_vocabulary():
    key = Key(1, 2, GUMBEL)
    assert exponentials(key, 10).tolist() == exponentials(key, 1000)[:10].tolist()


def test_keys_have_noise_of_their_own():
    keys = [Key(0, 0, GUMBEL), Key(1, 0, GUMBEL), Key(0, 1, GUMBEL), Key(0, 0, GUMBEL, 1), Key(0, 0, EXTRA)]
    streams = {tuple(exponentials(key, 4).tolist()) for key in keys}
    assert len(streams) == len(keys)
    # Streams do not overlap either: no number occurs in two of them.
    numbers = [x for key in keys for x in exponentials(key, 2000).tolist()]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("vary", ["seed", "position"])
def test_the_winner_has_the_rows_law(vary):
    """Chi-square; false alarm 1e-4."""
    row = [0.5, 0.3, 0.15, 0.05, 0.0]
    keys = [Key(*((n, 17) if vary == "seed" else (17, n)), GUMBEL) for n in range(SAMPLES)]
    counts = np.bincount(winners(row, keys).numpy(), minlength=5)
    assert counts[4] == 0
    expected = np.array(row[:4]) * SAMPLES
    assert ((counts[:4] - expected) ** 2 / expected).sum() < CHI_SQUARE[3]


def test_neighbouring_positions_are_independent():
    """Chi-square of pairs; false alarm 1e-4."""
    row = np.array([0.5, 0.3, 0.2])
    first = winners(row.tolist(), [Key(n, 4, GUMBEL) for n in range(SAMPLES)]).numpy()
    second = winners(row.tolist(), [Key(n, 5, GUMBEL) for n in range(SAMPLES)]).numpy()
    counts = np.bincount(first * 3 + second, minlength=9)
    expected = np.outer(row, row).flatten() * SAMPLES
    assert ((counts - expected) ** 2 / expected).sum() < CHI_SQUARE[8]


@pytest.mark.parametrize(
    ("target", "draft"), [([1 / 3, 2 / 3], [2 / 3, 1 / 3]), ([1 / 2, 1 / 3, 1 / 6], [1 / 6, 1 / 3, 1 / 2])]
)
def test_rows_agree_as_often_as_they_should(target, draft):
    """Binomial in its normal approximation; false alarm 1e-4."""
    keys = [Key(n, 3, GUMBEL) for n in range(SAMPLES)]
    matches = int((winners(target, keys) == winners(draft, keys)).sum())
    known = float(match_probability(torch.tensor(target).double(), torch.tensor(draft).double()))
    assert abs(matches - SAMPLES * known) < NORMAL * (SAMPLES * known * (1 - known)) ** 0.5


def test_certain_rows_and_zero_mass():
    keys = [Key(n, 0, GUMBEL) for n in range(200)]
    assert winners([0.0, 0.0, 1.0, 0.0], keys).eq(2).all()
    assert set(winners([0.0, 0.5, 0.0, 0.5], keys).tolist()) == {1, 3}
    assert all((exponentials(key, 1000) > 0).all() for key in keys)  # 0 / 0 would be no time


def test_equal_arrivals_go_to_the_lowest_token(monkeypatch):
    row = [0.0, 0.25, 0.25, 0.5]
    noise = torch.tensor([1.0, 0.25, 0.25, 0.5], dtype=torch.float64)  # all with mass arrive at 1
    monkeypatch.setattr("specproof.noise.exponentials", lambda key, size: noise)
    assert winners(row, [Key(0, 0, GUMBEL)]).tolist() == [1]


def test_equal_keys_in_one_call_share_their_noise():
    rows = torch.tensor([[0.2, 0.8], [0.5, 0.5], [0.2, 0.8]], dtype=torch.float64)
    keys = [Key(5, 1, GUMBEL), Key(6, 1, GUMBEL), Key(5, 1, GUMBEL)]
    together = race(rows, keys).tolist()
    assert together[0] == together[2]
    assert together == [int(race(rows[i : i + 1], keys[i : i + 1])) for i in range(3)]


def test_counter_noise_races_for_this_use_only():
    rows = torch.tensor([[0.3, 0.3, 0.4]] * 64, dtype=torch.float64)
    shared = [shared_key(seed, 9) for seed in range(64)]
    assert CounterNoise().choose(rows, shared).tolist() == race(rows, shared).tolist()
    own = [Key(seed, 8, EXTRA) for seed in range(64)]
    assert CounterNoise().choose(rows, own).tolist() != race(rows, shared).tolist()
    assert CounterNoise().choose(rows[:0], []).tolist() == []


def test_single_precision_rows_decide_like_double_ones():
    keys = [Key(n, 0, GUMBEL) for n in range(500)]
    row = torch.tensor([0.5, 0.25, 0.125, 0.125])
    assert race(row.expand(500, -1), keys).tolist() == race(row.double().expand(500, -1), keys).tolist()
