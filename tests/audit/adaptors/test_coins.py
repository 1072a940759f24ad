from types import ModuleType

import pytest
import torch

from specproof.audit.adaptors.coins import GRID, LARGEST, ScriptedCoins, SeededCoins, coins_in
from specproof.errors import SpecproofError


@pytest.fixture
def module():
    module = ModuleType("foreign")
    module.torch = torch
    return module


def test_largest_is_the_last_float32_below_one_and_torchs_uniforms_lie_on_the_grid():
    assert torch.tensor(LARGEST).item() == torch.nextafter(torch.tensor(1.0), torch.tensor(0.0)).item()
    drawn = SeededCoins(0).uniform([4096]).double() * GRID
    assert drawn.equal(drawn.round())


def test_scripted_coins_come_in_order_then_the_extra_one(module):
    coins = ScriptedCoins([0.25, 0.5], extra=0.75)
    with coins_in(module, coins):
        assert module.torch.rand(1, 1, generator=None).tolist() == [[0.25]]
        assert module.torch.rand_like(torch.ones(2)).tolist() == [0.5, 0.75]
        assert module.torch.rand((1,), dtype=torch.float64).dtype == torch.float64
    assert coins.asked == 4


def test_scripted_multinomial_keeps_its_row_and_never_returns_zero_mass(module):
    for extra, token in ((0.0, 1), (0.4999, 1), (0.5, 3), (LARGEST, 3)):
        coins = ScriptedCoins([], extra)
        with coins_in(module, coins):
            found = module.torch.multinomial(torch.tensor([[0, 0.5, 0, 0.5, 0]]), num_samples=1, generator=None)
        assert found.tolist() == [[token]]
        assert coins.rows[0].tolist() == [[0, 0.5, 0, 0.5, 0]]


@pytest.mark.parametrize("row", [[0.0, 0.0], [float("nan"), 1.0], [-1.0, 2.0], [float("inf"), 1.0]])
def test_rows_that_torch_refuses_are_refused(row):
    with pytest.raises(RuntimeError):
        torch.multinomial(torch.tensor(row), 1)
    with pytest.raises(RuntimeError, match="asked to draw from"):
        ScriptedCoins([], 0.5).multinomial(torch.tensor(row))


def test_only_that_module_and_only_inside(module):
    state = torch.random.get_rng_state()
    with coins_in(module, SeededCoins(1)):
        inside = module.torch.rand(3)
        module.torch.multinomial(torch.ones(1, 4), 1)
        assert module.torch is not torch
        assert module.torch.float32 is torch.float32
    assert module.torch is torch
    assert torch.random.get_rng_state().equal(state)
    assert inside.equal(torch.rand(3, generator=torch.Generator().manual_seed(1)))


def test_torch_is_put_back_when_the_verifier_raises(module):
    with pytest.raises(ZeroDivisionError), coins_in(module, SeededCoins(1)):
        raise ZeroDivisionError
    assert module.torch is torch


def test_randomness_that_is_not_scripted_is_refused(module):
    with coins_in(module, SeededCoins(1)):
        with pytest.raises(SpecproofError, match=r"torch\.bernoulli"):
            module.torch.bernoulli(torch.ones(1))
        with pytest.raises(SpecproofError, match="draws 2 tokens"):
            module.torch.multinomial(torch.ones(4), 2)


def test_module_without_torch_is_refused():
    with pytest.raises(SpecproofError, match="cannot be scripted"), coins_in(ModuleType("bare"), SeededCoins(0)):
        pass
