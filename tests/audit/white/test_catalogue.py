"""The catalogue's engine-level entries on tiny transformers, sampled: faults are seen, controls pass."""

from dataclasses import replace

import pytest

from specproof.audit.answer import Verdict
from specproof.audit.engine_suite import build_engine
from specproof.audit.mutants import CONTROLS, MUTANTS
from specproof.audit.mutants.case import EngineAudit
from specproof.audit.white.forcing import reference_for
from specproof.audit.white.plan import Plan
from specproof.audit.white.run import audit_white
from specproof.backends.hf import HFBackend
from specproof.noise import CounterNoise
from specproof.testing.tiny import tiny_model

PROMPTS = ((1, 0, 1), (2,), (3, 3, 1, 2, 1))
QUICK = ("E7", "B25")
# Rotary positions depend on differences alone: counted padding moves this model's rows by less than 4,000 tokens
# show (a total variation of 0.04 or more). The exact audit sees it.
TOO_SMALL = ("B31",)
FAULTS = [
    pytest.param(case, id=case.id, marks=() if case.id in QUICK else pytest.mark.slow)
    for case in MUTANTS
    if isinstance(case.audit, EngineAudit) and case.id not in TOO_SMALL
]
RIGHT = [
    pytest.param(case, id=case.id, marks=pytest.mark.slow)
    for case in CONTROLS
    if isinstance(case.audit, EngineAudit)
]


def audited(case, plan):
    """The entry's engine with production's noise, against the model's own rows."""
    audit = case.audit
    engine = build_engine(audit.drafter, audit.rule)
    engine.noise = CounterNoise()
    engine = audit.plant(engine)
    reference = reference_for(HFBackend(tiny_model("llama", 4, seed=0)))
    return audit_white(engine, PROMPTS, replace(audit.params, ignore_eos=True), plan, reference=reference)


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_not_lossless(case):
    """Faults of the cache may show without speculation, too: then there is no baseline."""
    result = audited(case, Plan(tokens=4000, length=48, at_once=16))
    assert result.verdict in (Verdict.BIASED, Verdict.NO_BASELINE), result


@pytest.mark.parametrize("case", RIGHT)
def test_a_control_passes(case):
    """False alarms: alpha is 1e-5, twice in each of a few runs."""
    result = audited(case, Plan(alpha=1e-5, tokens=3000, length=48, at_once=16))
    assert result.verdict is Verdict.LOSSLESS, result
