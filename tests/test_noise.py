"""Edges of the coin, independence of the batch, and the law of what is drawn."""

import pytest
import torch
from scipy.stats import chisquare

from specproof.noise import CounterNoise, inverse_cdf, uniform
from specproof.types import EXTRA, PROPOSE, STOP, Key

BELOW_ONE = 1 - 2.0**-53


def coins(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_b9_edges_of_the_unit_interval_never_give_a_zero_mass_token():
    """Field case B9: coin 0, a coin on an interior edge, and the largest coin below 1."""
    row = torch.tensor([[0.0, 0.5, 0.5, 0.0]])
    assert inverse_cdf(row, coins(0.0)).item() == 1
    assert inverse_cdf(row, coins(0.5)).item() == 2
    assert inverse_cdf(row, coins(BELOW_ONE)).item() == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_b9_a_wide_row_that_sums_below_one_ends_at_its_last_token_with_mass(dtype):
    row = torch.rand(1, 50_000, generator=torch.Generator().manual_seed(0)).to(dtype)
    row[0, -3:] = 0
    row *= 0.999 / row.sum()
    assert inverse_cdf(row, coins(BELOW_ONE)).item() == 49_996
    assert inverse_cdf(row, coins(0.0)).item() == 0


def test_a_batch_that_is_searched_in_pieces_gives_what_its_rows_give():
    rows = torch.rand(7, 30_000, generator=torch.Generator().manual_seed(4))
    points = torch.rand(7, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    sums = rows.double().cumsum(-1)
    plain = (sums <= points[:, None] * sums[:, -1:]).sum(-1)
    assert torch.equal(inverse_cdf(rows, points), plain)


def test_every_edge_of_a_row_falls_on_the_right_side():
    row = torch.tensor([[0.25, 0.0, 0.25, 0.5, 0.0]], dtype=torch.float64)
    just_below = [edge - 2.0**-54 for edge in (0.25, 0.5)]
    found = [inverse_cdf(row, coins(c)).item() for c in (0.0, just_below[0], 0.25, just_below[1], 0.5, BELOW_ONE)]
    assert found == [0, 0, 2, 2, 3, 3]


def test_a_key_gives_one_number_and_every_part_of_it_counts():
    key = Key(7, 3, STOP, 0)
    others = [
        Key(8, 3, STOP, 0),
        Key(7, 4, STOP, 0),
        Key(7, 3, EXTRA, 0),
        Key(7, 3, PROPOSE, 0),
        Key(7, 3, STOP, 1),
    ]
    assert uniform(key) == uniform(Key(7, 3, STOP, 0))
    assert len({uniform(k) for k in [key, *others]}) == 6


def test_numbers_are_the_same_after_a_restart():
    """Pinned: a text must be reproducible by later versions too."""
    assert uniform(Key(1, 2, PROPOSE, 3)) == pytest.approx(0.48626655311391076, abs=0)


def test_the_choice_does_not_depend_on_batch_mates():
    rows = torch.rand(5, 11, generator=torch.Generator().manual_seed(1))
    rows /= rows.sum(-1, keepdim=True)
    keys = [Key(9, root, EXTRA) for root in range(5)]
    noise = CounterNoise()
    together = noise.choose(rows, keys)
    alone = torch.cat([noise.choose(rows[i : i + 1], keys[i : i + 1]) for i in range(5)])
    assert torch.equal(together, alone)


def test_draws_follow_the_row():
    """Chi-square over 20 000 keys, false alarm 1e-6; the mutant that squares the row is caught."""
    row = torch.tensor([[0.5, 0.0, 0.3, 0.2]], dtype=torch.float64)

    def pvalue(used):
        noise = CounterNoise()
        drawn = noise.choose(used.expand(20_000, -1), [Key(3, i, EXTRA) for i in range(20_000)])
        counts = torch.bincount(drawn, minlength=4)
        assert counts[1] == 0
        return chisquare(counts[[0, 2, 3]].numpy(), row[0, [0, 2, 3]].numpy() * 20_000).pvalue

    assert pvalue(row) > 1e-6
    assert pvalue(row.square() / row.square().sum()) < 1e-6
