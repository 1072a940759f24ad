"""Predicted speed-ups: golden values of the paper and of the field."""

import pytest

from specproof.engine.advice import Advice, advise, expected_tokens, predicted_speedup
from specproof.errors import SpecproofError

# Rows: acceptance; columns: cost. Best length and speed-up of Leviathan et al. 2023, theorem 3.8.
BEST = {
    0.5: [(5, 1.875), (4, 1.794), (3, 1.630), (2, 1.458)],
    0.6: [(7, 2.297), (6, 2.170), (4, 1.921), (3, 1.674)],
    0.7: [(9, 2.972), (8, 2.758), (6, 2.353), (4, 1.981)],
    0.8: [(14, 4.232), (11, 3.817), (8, 3.092), (6, 2.470)],
    0.9: [(24, 7.486), (19, 6.365), (13, 4.674), (10, 3.431)],
}


@pytest.mark.parametrize("acceptance", BEST)
def test_the_best_lengths_of_the_paper(acceptance):
    for cost, (length, speedup) in zip((0.01, 0.02, 0.05, 0.1), BEST[acceptance], strict=True):
        advice = advise(cost, acceptance)
        assert (advice.length, round(advice.speedup, 3)) == (length, speedup)


@pytest.mark.parametrize(
    ("acceptance", "length", "speedup"),
    [(0.6, 2, 1.96), (0.7, 3, 2.53), (0.8, 2, 2.44), (0.8, 5, 3.69), (0.9, 2, 2.71), (0.9, 10, 6.86)],
)
def test_speedups_of_a_free_draft(acceptance, length, speedup):
    """Leviathan et al. 2023, table 1."""
    assert round(predicted_speedup(0, acceptance, length), 2) == speedup
    assert expected_tokens(acceptance, length) == predicted_speedup(0, acceptance, length)


def test_b51_a_costly_draft_model():
    """Field case B51: too long a draft loses even at high acceptance, and some pairs should not speculate."""
    speedups = {k: round(predicted_speedup(0.5, 0.8, k), 2) for k in (1, 2, 3, 5, 10)}
    assert speedups == {1: 1.2, 2: 1.22, 3: 1.18, 5: 1.05, 10: 0.76}
    assert advise(0.5, 0.8).length == 2
    assert round(predicted_speedup(0.8, 0.5, 1), 2) == 0.83
    assert advise(0.8, 0.5) == Advice(0, 1.0)
    assert str(advise(0.8, 0.5)).startswith("off")


def test_the_ends_of_the_range():
    assert advise(0.0, 1.0, longest=7) == Advice(7, 8.0)
    assert advise(0.1, 0.0) == Advice(0, 1.0)
    assert expected_tokens(1.0, 4) == 5


@pytest.mark.parametrize(
    ("cost", "acceptance", "length"), [(0.1, 1.1, 1), (0.1, -0.1, 1), (-1, 0.5, 1), (0.1, 0.5, -1)]
)
def test_what_makes_no_sense_is_refused(cost, acceptance, length):
    with pytest.raises(SpecproofError, match="is not allowed"):
        predicted_speedup(cost, acceptance, length)
