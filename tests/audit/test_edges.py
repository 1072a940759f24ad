import pytest
import torch

from specproof.audit.adaptors.coins import LARGEST
from specproof.audit.edges import edge_failures
from specproof.audit.panel import edge_panel


def verifier(accepts, fallback=True):
    def verify(target, drawn, tokens, coins):
        given = tokens.tolist()
        for i, (token, coin) in enumerate(zip(given, coins.uniform([len(given)]), strict=True)):
            if not accepts(coin, target[i, token] / drawn[i, token]):
                rest = (target[i] - drawn[i]).clamp(min=0)
                return [*given[:i], int(coins.multinomial(target[i] if fallback and not rest.any() else rest))]
        return [*given, int(coins.multinomial(target[-1]))]

    return verify


def searched(side):
    """Ignores the draft and draws from the target by searching its running sum, from one side."""

    def verify(target, drawn, tokens, coins):
        coins.uniform([len(tokens)])
        sums = target[0].cumsum(0)
        return [min(int(torch.searchsorted(sums, coins.uniform([1]), right=side)), len(sums) - 1)]

    return verify


@pytest.mark.parametrize("name", edge_panel())
def test_half_open_coins_pass(name):
    tried, failures = edge_failures(verifier(lambda coin, ratio: coin < ratio), name, edge_panel()[name])
    assert tried > 40
    assert failures == []


@pytest.mark.parametrize("name", ["zeros", "first and last zero", "disjoint", "greedy"])
def test_closed_coins_let_forbidden_tokens_through_at_zero(name):
    _, failures = edge_failures(verifier(lambda coin, ratio: coin <= ratio), name, edge_panel()[name])
    assert failures
    assert all(0.0 in failure.coins for failure in failures)
    assert "and coins [" in str(failures[0])


def test_empty_residual_is_reported_with_its_coins():
    _, failures = edge_failures(
        verifier(lambda coin, ratio: coin < ratio, fallback=False), "nearly equal", edge_panel()["nearly equal"]
    )
    assert failures
    assert all(max(failure.coins[:-1]) > 1 - 1e-6 for failure in failures)
    assert all(failure.reason.startswith("raised RuntimeError") for failure in failures)


def test_running_sum_searched_from_the_left_draws_a_forbidden_token():
    instance = edge_panel()["first and last zero"]
    # At coin 0 the first index whose sum is >= 0 is token 0, which has no mass.
    assert edge_failures(searched(side=False), "left", instance)[1]


def test_running_sum_that_rounds_below_the_last_coin_falls_on_a_token_without_mass():
    instance = edge_panel()["first and last zero"]

    def shrunk(target, drawn, tokens, coins):
        return searched(side=True)(target * 0.999, drawn, tokens, coins)

    _, failures = edge_failures(shrunk, "right", instance)
    assert failures
    assert all(failure.coins[-1] == LARGEST for failure in failures)
