"""An engine takes a lossy rule only where it was asked to, says so, and never takes an unsound one."""

from functools import partial

import pytest

from specproof.audit.engine_exact import audit_engine
from specproof.audit.enumerate import EnumeratingNoise
from specproof.backends.hf import HFBackend
from specproof.drafters.model import ModelDrafter
from specproof.drafters.ngram import NgramDrafter
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.rules import RULES, find_rule
from specproof.testing.tiny import recomputed_logits, tiny_model
from specproof.types import SamplingParams

LOSSY = [name for name, rule in RULES.items() if not rule.lossless and rule.usable]


@pytest.fixture(scope="module")
def models():
    return tiny_model("llama", 3, seed=0), tiny_model("llama", 3, seed=1)


def drafter(rule, models):
    return ModelDrafter(HFBackend(models[1]), 2) if "iid" in rule.draws else NgramDrafter(shortest=1)


@pytest.mark.parametrize("name", LOSSY)
def test_b61_a_lossy_rule_has_to_be_asked_for(name, models):
    target = HFBackend(models[0])
    for rule in (name, RULES[name]):
        with pytest.raises(SpecproofError, match=f"rule '{name}' is lossy"):
            Engine(target, drafter(RULES[name], models), rule)
    engine = Engine(target, drafter(RULES[name], models), name, allow_lossy=True)
    (result,) = engine.generate([[0, 1, 0, 1]], SamplingParams(max_tokens=8, seed=1))
    assert result.lossless is False
    assert result.rule == name
    assert len(result.tokens) == 8


def test_b61_the_result_says_how_lossy(models):
    engine = Engine(HFBackend(models[0]), drafter(RULES["lenience"], models), "lenience:0.3", allow_lossy=True)
    (result,) = engine.generate([[0]], SamplingParams(max_tokens=2, seed=1))
    assert result.rule == "lenience:0.3"
    assert result.as_dict()["lossless"] is False


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if not rule.usable])
def test_a_rule_for_audits_is_always_refused(name, models):
    for rule in (name, RULES[name]):
        with pytest.raises(SpecproofError, match="for audits only"):
            Engine(HFBackend(models[0]), drafter(RULES[name], models), rule, allow_lossy=True)


def test_allowing_lossy_rules_changes_nothing_else(models):
    engine = Engine(HFBackend(models[0]), drafter(RULES["block"], models), allow_lossy=True)
    assert engine.rule_name == "block"
    assert engine.lossless is True


@pytest.mark.parametrize("name", ["lenience:0.3", "typical:0.3,0.9", "mars:0.5,1", "spec_rl", "threshold:0.2"])
def test_the_exact_audit_of_the_engine_sees_the_loss(name, models):
    engine = Engine(
        HFBackend(models[0]), drafter(find_rule(name), models), name, allow_lossy=True, noise=EnumeratingNoise()
    )
    # The prompt repeats itself, so that prompt lookup drafts.
    result = audit_engine(
        engine, partial(recomputed_logits, models[0]), [0, 1, 0, 1], SamplingParams(max_tokens=3)
    )
    assert not result.ok
    assert result.tv > 0.001
    assert abs(result.mass - 1) < 1e-12
