"""The audit from outside catches wrong verifiers, each in the way it can, and passes right ones."""

import pytest
import torch

from specproof.audit.adaptors.economize import Economize
from specproof.audit.adaptors.flashspec import Flashspec
from specproof.audit.adaptors.transformers import Transformers
from specproof.audit.panel import panel
from specproof.audit.sampled import FALSE_ALARM, audit_adaptor, audit_verifier
from specproof.errors import SpecproofError
from specproof.noise import inverse_cdf
from specproof.rules.rejection import rejection
from specproof.rules.rows import normalised
from specproof.tree import Tree
from specproof.types import Draft

SAMPLES = 1000
FEW = {name: panel()[name] for name in ("toy", "context", "disjoint")}


def residual(target, drawn):
    return normalised((target - drawn).clamp(min=0), target)


def verifier(accepts=lambda coin, ratio: coin < ratio, rest=residual, bonus=-1):
    """Token-by-token rejection whose test, correction and bonus row can be replaced."""

    def verify(target, drawn, tokens, coins):
        given = tokens.tolist()
        for i, (token, coin) in enumerate(zip(given, coins.uniform([len(given)]), strict=True)):
            if not accepts(coin, target[i, token] / drawn[i, token]):
                return [*given[:i], int(coins.multinomial(rest(target[i], drawn[i])))]
        return [*given, int(coins.multinomial(target[bonus]))]

    return verify


def by_own_law(target, drawn, tokens, coins):
    """The rule of this project, drawn by the inverse CDF: two coins, neither of them for a token."""
    rows = torch.cat([drawn, torch.zeros_like(drawn[:1])])[None]
    law = rejection(target[None], Draft((Tree.chain(len(tokens)),), tokens[None], rows, "iid"))
    at = inverse_cdf(law.stop, coins.uniform([1]).double())
    extra = inverse_cdf(law.next(at), coins.uniform([1]).double())
    return [*tokens[: int(at)].tolist(), int(extra)]


def test_right_verifier_passes_and_its_coins_integrate():
    result = audit_verifier(verifier(), "right", SAMPLES)
    assert result.ok
    assert result.exact_tv < 1e-6
    assert result.samples == SAMPLES * result.instances
    assert result.edge_scripts > 1000
    assert str(result).startswith("NO FAULT FOUND: right: ")


def test_the_projects_own_rule_passes_by_samples_alone():
    result = audit_verifier(by_own_law, "own", SAMPLES, instances=FEW | {"zeros": panel()["zeros"]})
    assert result.ok
    assert result.exact_tv is None
    assert "coins not integrable" in str(result)


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(verifier(rest=lambda target, _: target), id="resample from the target (M5)"),
        pytest.param(
            verifier(rest=lambda target, drawn: (target - drawn).clamp(min=0).softmax(-1)),
            id="softmax residual (M3)",
        ),
        pytest.param(verifier(accepts=lambda *_: True), id="accept everything (M4)"),
        pytest.param(verifier(rest=lambda target, drawn: (target - drawn).abs() + 1e-9), id="absolute difference"),
        pytest.param(verifier(bonus=-2), id="bonus from the row before"),
    ],
)
def test_wrong_law_is_caught_by_samples_and_by_integration(mutant):
    result = audit_verifier(mutant, "mutant", SAMPLES, instances=FEW)
    assert not result.ok
    assert not result.lossless
    assert result.pvalue < result.level
    assert result.exact_tv > 0.01
    assert str(result).startswith("NOT LOSSLESS: mutant: ")


def test_deviation_below_the_power_of_the_samples_is_seen_by_integration():
    lenient = verifier(accepts=lambda coin, ratio: coin < 1.1 * ratio)
    result = audit_verifier(lenient, "lenient", SAMPLES, instances=FEW)
    assert 0.01 < result.exact_tv < result.power
    assert result.pvalue > result.level
    assert not result.ok


def test_coin_used_twice_is_caught_by_samples_though_it_cannot_be_integrated():
    def mutant(target, drawn, tokens, coins):
        given = tokens.tolist()
        for i, (token, coin) in enumerate(zip(given, coins.uniform([len(given)]), strict=True)):
            if coin >= target[i, token] / drawn[i, token]:
                return [*given[:i], int(inverse_cdf(residual(target[i], drawn[i])[None], coin[None].double()))]
        return [*given, int(coins.multinomial(target[-1]))]

    result = audit_verifier(mutant, "mutant", 4000, instances={"wide": panel()["wide"]})
    assert result.exact_tv is None
    assert result.pvalue < result.level
    assert not result.ok


def test_zero_coin_that_lets_a_forbidden_token_through_is_caught_by_script_only():
    result = audit_verifier(verifier(accepts=lambda coin, ratio: coin <= ratio), "mutant", SAMPLES)
    assert result.lossless
    assert not result.ok
    assert str(result).startswith("EDGE COINS FAIL: mutant: ")
    assert all(0.0 in failure.coins and "has probability 0" in failure.reason for failure in result.edge_failures)


def test_transformers_keeps_the_law_but_its_edge_coins_fail():
    result = audit_adaptor("transformers", SAMPLES)
    assert result.lossless
    assert result.exact_tv < 1e-6
    # `rand <= ratio` accepts a token of probability 0 at a coin of exactly 0.
    assert any("has probability 0" in failure.reason for failure in result.edge_failures)


def test_lossy_mode_of_transformers_fails():
    lossy = Transformers(ensemble_weight=0.8)
    result = audit_verifier(lossy.verify, "transformers, ensemble", 2000, instances=FEW)
    assert result.pvalue < FALSE_ALARM
    assert result.exact_tv > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("name", ["economize", "flashspec"])
def test_peers_keep_the_law_and_pass_every_edge_coin(name):
    result = audit_adaptor(name, 4000)
    assert result.ok
    assert result.exact_tv < 1e-6


@pytest.mark.slow
def test_batched_path_of_flashspec_keeps_the_law():
    assert audit_verifier(Flashspec("rejection_sample").verify, "flashspec", 4000).ok


@pytest.mark.slow
@pytest.mark.parametrize(
    ("adaptor", "mode"), [(Economize, "typical"), (Economize, "accept_all"), (Flashspec, "typical_sample")]
)
def test_lossy_modes_of_peers_fail(adaptor, mode):
    few = FEW | {"flat target": panel()["flat target"]}  # on the others, flashspec's accepts next to nothing
    assert audit_verifier(adaptor(mode).verify, mode, 2000, instances=few).pvalue < FALSE_ALARM


def test_same_seed_same_result():
    first, second = (audit_verifier(verifier(), "right", SAMPLES, seed=3, instances=FEW) for _ in range(2))
    assert first == second


def test_too_few_samples_are_refused():
    with pytest.raises(SpecproofError, match="give 1000 or more"):
        audit_verifier(verifier(), "right", 999)
