"""The figures of docs/replay.md on a policy of three tokens; all are exact sums."""

from fractions import Fraction as F
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "replay_bias.py"


@pytest.fixture(scope="module")
def bias():
    spec = spec_from_file_location("replay_bias", PATH)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_one_token(bias):
    """The published rule moves 1/6 of the answers, and with them rewards and what advantages are measured from."""
    own = bias.policy_law(bias.NEW)
    law = bias.replayed(bias.published(), bias.NEW, bias.OLD)
    assert [law[(token,)] for token in range(3)] == [F(1, 3), F(4, 9), F(2, 9)]
    assert bias.distance(law, own) == F(1, 6)
    assert bias.mean_reward(law) == F(1, 3)
    assert bias.mean_reward(own) == F(1, 2)
    shorter = [a / b for a, b in zip(bias.gradient(law, bias.NEW), bias.gradient(own, bias.NEW), strict=True)]
    assert shorter == [F(8, 9)] * 3


@pytest.mark.parametrize(("factor", "tv"), [(F(3, 2), F(5, 24)), (F(2), F(1, 4))])
def test_lenience_moves_more(bias, factor, tv):
    law = bias.replayed(bias.published(factor), bias.NEW, bias.OLD)
    assert bias.distance(law, bias.policy_law(bias.NEW)) == tv


@pytest.mark.parametrize("name", ["rejection with rows", "point"])
@pytest.mark.parametrize("length", [1, 3])
def test_ours_move_nothing(bias, name, length):
    assert bias.replayed(bias.RULES[name], bias.NEW, bias.OLD, length) == bias.policy_law(bias.NEW, length)


def test_old_tokens_that_are_kept(bias):
    shares = [bias.kept_share(rule, bias.NEW, bias.OLD) for rule in bias.RULES.values()]
    assert shares == [F(2, 3), F(3, 4), F(5, 6), F(2, 3), F(5, 18)]


def test_longer_answers(bias):
    own, law = bias.policy_law(bias.NEW, 3), bias.replayed(bias.published(), bias.NEW, bias.OLD, 3)
    assert float(bias.distance(law, own)) == pytest.approx(0.1806, abs=5e-5)
    assert float(bias.mean_reward(law) - bias.mean_reward(own)) == pytest.approx(-0.1173, abs=5e-5)


def test_training(bias):
    fresh, lossy, exact = (bias.trained(rule, 4) for rule in (None, bias.published(2.0), bias.rejection))
    assert exact[4] == pytest.approx(fresh[4], abs=1e-12)
    assert lossy[2][0] == pytest.approx(0.6548, abs=5e-5)
    assert lossy[4][0] == pytest.approx(0.8878, abs=5e-5)
    assert fresh[4][0] == pytest.approx(0.8658, abs=5e-5)


def test_a_draft_that_was_trained_on_is_biased_even_with_the_right_rule(bias):
    """The right rule's proof needs a draft that is independent of the weights; with one it holds."""
    assert bias.trained_on_its_draft(4, 2.0, own=False) == pytest.approx((0, 0), abs=1e-12)
    away, shift = bias.trained_on_its_draft(4, 2.0)
    assert away > 0.1
    assert abs(shift) > 1e-3
