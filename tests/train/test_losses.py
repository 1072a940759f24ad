"""Losses and their gradients against the published formulas, in float64."""

import pytest
import torch

from specproof.train.losses import LOSSES, acceptance, kl, lk_alpha, lk_lambda, tv
from specproof.train.settings import LOSS_NAMES

LOGITS = torch.tensor([[0.2, -0.1, 0.5, 0.0]], dtype=torch.float64)
TARGET = torch.tensor([[0.5, 0.3, 0.15, 0.05]], dtype=torch.float64)


def gradient(loss, logits, target):
    logits = logits.clone().requires_grad_()
    loss(logits, target).sum().backward()
    return logits.grad


def random_pair(seed, kept=6):
    """Rows of six tokens; with `kept` < 6 the target has mass that the head cannot draft."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(5, 6, generator=generator, dtype=torch.float64)
    full = torch.randn(5, 12 - kept, generator=generator, dtype=torch.float64).softmax(-1)
    return logits, full[:, :6] if kept < 6 else full


def test_there_is_a_loss_for_every_name():
    assert tuple(LOSSES) == LOSS_NAMES


def test_the_published_example():
    """LK losses, golden values for z = (.2, -.1, .5, 0) and p = (.5, .3, .15, .05), six digits."""
    assert acceptance(LOGITS, TARGET).item() == pytest.approx(0.645289, abs=5e-7)
    expected = torch.tensor([[-0.141891, -0.105116, 0.153752, 0.093255]]).double()
    assert torch.allclose(gradient(tv, LOGITS, TARGET), expected, atol=5e-7)
    expected = torch.tensor([[-0.219888, -0.162897, 0.238268, 0.144517]]).double()
    assert torch.allclose(gradient(lk_alpha, LOGITS, TARGET), expected, atol=5e-7)


@pytest.mark.parametrize("kept", [6, 3])
@pytest.mark.parametrize("seed", range(5))
def test_gradients_are_the_closed_forms(seed, kept):
    """KL: q - p; TV: q (s - E_q s) / 2 with s = sign(q - p); LK alpha: the TV gradient over alpha."""
    logits, target = random_pair(seed, kept)
    q = logits.softmax(-1)
    assert torch.allclose(gradient(kl, logits, target), q - target / target.sum(-1, keepdim=True), atol=1e-12)
    sign = (q - target).sign()
    by_hand = q * (sign - (q * sign).sum(-1, keepdim=True)) / 2
    assert torch.allclose(gradient(tv, logits, target), by_hand, atol=1e-12)
    alpha = acceptance(logits, target)[:, None]
    assert torch.allclose(gradient(lk_alpha, logits, target), by_hand / alpha, atol=1e-12)
    weight = torch.exp(-3 * alpha.mean())
    mixed = weight * gradient(kl, logits, target) + (1 - weight) * by_hand
    assert torch.allclose(gradient(lk_lambda, logits, target), mixed, atol=1e-12)


@pytest.mark.parametrize(("alpha", "weight"), [(0.2, 0.5488), (0.5, 0.2231), (0.8, 0.0907)])
def test_the_weight_of_kl_falls_with_the_mean_acceptance(alpha, weight):
    """Uniform q over two tokens, p with `alpha` of its mass under it and the rest outside the draft vocabulary."""
    target = torch.tensor([[alpha / 2, alpha / 2]]).double()
    logits = torch.zeros(1, 2).double()
    # KL is 0 here, so the loss is (1 - weight) x TV.
    assert lk_lambda(logits, target).item() == pytest.approx((1 - weight) * (1 - alpha), abs=5e-5)


def test_a_point_mass_makes_alpha_the_log_likelihood():
    logits, _ = random_pair(0)
    target = torch.eye(6, dtype=torch.float64)[:5]
    assert torch.allclose(lk_alpha(logits, target), -logits.log_softmax(-1).diagonal()[:5])


def test_gradient_norms_of_a_diffuse_head():
    """Uniform q over 10^4 tokens, p uniform on 4 of them: .49990, 2.0e-4, .49990."""
    logits, target = torch.zeros(1, 10_000).double(), torch.zeros(1, 10_000).double()
    target[0, :4] = 0.25
    norms = [gradient(loss, logits, target).norm().item() for loss in (kl, tv, lk_alpha)]
    assert norms == pytest.approx([0.49990, 2.0e-4, 0.49990], rel=3e-4)


def test_acceptance_is_one_minus_the_distance_to_the_whole_target():
    logits, kept = random_pair(1, 3)
    whole = torch.cat([kept, 1 - kept.sum(-1, keepdim=True)], -1)  # what cannot be drafted, as one more token
    q = torch.cat([logits.softmax(-1), torch.zeros(5, 1).double()], -1)
    assert torch.allclose(tv(logits, kept), (whole - q).abs().sum(-1) / 2)


@pytest.mark.parametrize("name", LOSS_NAMES)
def test_a_position_without_any_draftable_mass_is_finite(name):
    logits = LOGITS.clone().requires_grad_()
    loss = LOSSES[name](logits, torch.zeros(1, 4).double(), 3.0)
    loss.sum().backward()
    assert torch.isfinite(loss).all()
    assert torch.isfinite(logits.grad).all()
