"""The target's first layers as its draft model: shared weights, and the target itself when all layers are used."""

import pytest
from torch import nn

from specproof.backends.hf import HFBackend
from specproof.backends.table import TableBackend, TableModel
from specproof.drafters import choose_drafter
from specproof.drafters.early_exit import EarlyExitDrafter, first_layers
from specproof.drafters.model import ModelDrafter
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.testing.conformance import check_drafter
from specproof.testing.tiny import ARCHITECTURES, recomputed_logits, tiny_model
from specproof.types import SamplingParams


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_early_exit_conforms(architecture, layers):
    target = HFBackend(tiny_model(architecture, 5))
    check_drafter(lambda: EarlyExitDrafter(target, layers, 3), target)


@pytest.mark.parametrize("length", range(1, 6))
@pytest.mark.parametrize("architecture", ["llama", "gpt2", "qwen3"])
def test_b23_with_all_layers_acceptance_is_exactly_one(architecture, length):
    """Field case B23: draft = target at temperature 0; a stale draft cache shows nowhere else."""
    target = HFBackend(tiny_model(architecture, 7, context=120))
    engine = Engine(target, EarlyExitDrafter(target, 2, length), adaptive=False)
    stats = engine.generate([[1, 2, 3]], SamplingParams(temperature=0, max_tokens=100))[0].stats
    assert stats.drafted == stats.accepted >= 50
    assert stats.acceptance == 1


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_with_all_layers_a_sample_is_accepted_too(rule):
    """Both rows are the same up to rounding, so one false alarm in 10^13 tokens."""
    target = HFBackend(tiny_model("llama", 7, context=120))
    engine = Engine(target, EarlyExitDrafter(target, 2, 3), rule)
    stats = engine.generate([[1, 2, 3]], SamplingParams(temperature=0.8, max_tokens=100, seed=3))[0].stats
    assert stats.acceptance == 1


def test_an_exit_without_the_final_norm_is_seen_by_acceptance():
    model = tiny_model("llama", 7, context=120)
    short = first_layers(model, 2)
    short.model.norm = nn.Identity()
    engine = Engine(HFBackend(model), ModelDrafter(HFBackend(short), 3))
    stats = engine.generate([[1, 2, 3]], SamplingParams(temperature=0.8, max_tokens=100, seed=3))[0].stats
    assert stats.acceptance < 0.95


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_weights_are_shared_and_the_target_is_left_alone(architecture):
    model = tiny_model(architecture, 5)
    before = recomputed_logits(model, [1, 2, 3])
    short = first_layers(model, 1)
    own = {parameter.data_ptr() for parameter in model.parameters()}
    assert {parameter.data_ptr() for parameter in short.parameters()} < own
    assert model.config.num_hidden_layers == 2
    assert short.config.num_hidden_layers == 1
    early = recomputed_logits(short, [1, 2, 3])
    assert early.equal(recomputed_logits(first_layers(model), [1, 2, 3]))  # half of two
    assert recomputed_logits(model, [1, 2, 3]).equal(before)
    assert not early.allclose(before)


def test_it_is_found_by_name():
    target = HFBackend(tiny_model("llama", 5))
    drafter = choose_drafter("early_exit", target)
    assert drafter.drawn == "iid"
    assert choose_drafter("early_exit", target, coupled=True).drawn == "point"
    with pytest.raises(SpecproofError, match="'early_exit' takes no draft model"):
        choose_drafter("early_exit", target, target)


def test_other_targets_are_refused():
    with pytest.raises(SpecproofError, match="needs a transformers target, not a TableBackend"):
        EarlyExitDrafter(TableBackend(TableModel.constant([0.5, 0.5])))
    model = tiny_model("llama", 5)
    for layers in (0, 3):
        with pytest.raises(SpecproofError, match=f"layers={layers} is not allowed: this model has 2, give 1 to 2"):
            first_layers(model, layers)
    model.config.model_type = "opt"
    with pytest.raises(
        SpecproofError, match="no early exit from 'opt' models; give a target of one of: gpt2, llama"
    ):
        first_layers(model, 1)
