import numpy as np
import pytest

from specproof.audit.adaptors.coins import GRID
from specproof.audit.integrate import NotIntegrable, integrated_law
from specproof.audit.panel import chain, completed, panel
from specproof.backends.table import TableModel


def verifier(accepts, rest):
    def verify(target, drawn, tokens, coins):
        given = tokens.tolist()
        for i, (token, coin) in enumerate(zip(given, coins.uniform([len(given)]), strict=True)):
            if not accepts(coin, target[i, token] / drawn[i, token]):
                return [*given[:i], int(coins.multinomial(rest(target[i], drawn[i])))]
        return [*given, int(coins.multinomial(target[-1]))]

    return verify


def less(coin, ratio):
    return coin < ratio


def excess(target, drawn):
    return (target - drawn).clamp(min=0)


@pytest.mark.parametrize(
    ("mutant", "law"),
    [
        (verifier(less, excess), [0.6, 0.3, 0.1]),
        (verifier(less, lambda target, drawn: excess(target, drawn).softmax(-1)), [0.3709, 0.4146, 0.2146]),
        (verifier(lambda *_: True, excess), [0.2, 0.3, 0.5]),
        (verifier(less, lambda target, _: target), [0.44, 0.42, 0.14]),
    ],
    ids=["right", "M3", "M4", "M5"],
)
def test_golden_laws_of_the_first_token(mutant, law):
    toy = chain(panel()["toy"].target, panel()["toy"].draft, 1, length=1)
    np.testing.assert_allclose(integrated_law(mutant, toy), law, atol=6e-5)


@pytest.mark.parametrize("name", panel())
def test_right_verifier_integrates_to_the_law_of_the_text(name):
    instance = panel()[name]
    found = integrated_law(verifier(less, excess), instance)
    np.testing.assert_allclose(found, completed(instance, ()), atol=1e-6)


def test_zero_coin_that_accepts_shows_as_one_step_of_the_grid():
    instance = chain(TableModel.constant([0, 1]), TableModel.constant([0.5, 0.5]), 1, length=1)
    law = integrated_law(verifier(lambda coin, ratio: coin <= ratio, excess), instance)
    assert law[0] == 0.5 / GRID


def test_decision_that_is_no_step_is_refused():
    odd = verifier(lambda coin, ratio: 0.2 < coin < 0.7, excess)
    with pytest.raises(NotIntegrable):
        integrated_law(odd, panel()["toy"])


def test_correction_that_depends_on_the_coin_is_refused():
    def reuse(target, drawn, tokens, coins):
        coin = coins.uniform([1])
        if coin < target[0, tokens[0]] / drawn[0, tokens[0]]:
            return [int(tokens[0]), int(coins.multinomial(target[1]))]
        return [int(coins.multinomial(target[0] + coin))]

    with pytest.raises(NotIntegrable):
        integrated_law(reuse, panel()["toy"])


def test_another_number_of_coins_is_refused():
    def two(target, drawn, tokens, coins):
        coins.uniform([2])
        return [int(coins.multinomial(target[0]))]

    with pytest.raises(NotIntegrable):
        integrated_law(two, panel()["toy"])
