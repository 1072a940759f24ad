"""Laws of known faults against the catalogue's faulty rules, enumerated; power in closed form."""

import numpy as np
import pytest
from worlds import emitted, world

from specproof.audit.exact import text_law
from specproof.audit.mutants import MUTANTS
from specproof.audit.mutants import settings as on
from specproof.audit.mutants.case import RuleAudit
from specproof.audit.white import faults
from specproof.audit.white.emission import Emissions
from specproof.audit.white.evidence import WITH_DRAFT, Evidence, Mixture
from specproof.audit.white.faults import FAULTS, distance
from specproof.audit.white.planner import FAMILIES, Planner, n95
from specproof.rules import RULES, find_rule

SAME = {"M5": faults.redrawn, "N1": faults.absolute, "M4": faults.unverified}


def floats(rows):
    return tuple(np.array([[float(mass) for mass in row]]) for row in rows)


@pytest.mark.parametrize("setting", ["CROSSED", "REVERSED", "FOUR", "FAR"])
@pytest.mark.parametrize("fault", SAME)
def test_a_law_is_that_of_the_faulty_rule(fault, setting):
    rule = next(case for case in MUTANTS if case.id == fault).audit.rule
    rows = getattr(on, setting)
    expected = text_law(rule, RuleAudit(rule, *rows).instance).law
    assert SAME[fault](*floats(rows))[0] == pytest.approx(expected, abs=1e-12)


def test_lenience_is_that_of_the_lossy_rule():
    """The rule divides the draft's row by what the library multiplies the acceptance by."""
    rule = find_rule("lenience:1/2")
    expected = text_law(rule, RuleAudit(rule, *on.CROSSED).instance).law
    assert faults.lenient(*floats(on.CROSSED), lenience=2.0)[0] == pytest.approx(expected, abs=1e-12)


def test_lenience_of_one_is_rejection():
    rule = RULES["rejection"]
    expected = text_law(rule, RuleAudit(rule, *on.CROSSED).instance).law
    assert faults.lenient(*floats(on.CROSSED), lenience=1.0)[0] == pytest.approx(expected, abs=1e-12)


def test_filters_and_temperatures_by_hand():
    target = np.array([[0.5, 0.3, 0.15, 0.05]])
    assert faults.nucleus(target, target, 0.8)[0] == pytest.approx([0.625, 0.375, 0, 0])
    assert faults.nucleus(target, target, 0.81)[0] == pytest.approx(np.array([0.5, 0.3, 0.15, 0]) / 0.95)
    assert faults.top_k(target, target, 1)[0] == pytest.approx([1, 0, 0, 0])
    assert faults.top_k(target, target, 9)[0] == pytest.approx(target[0])
    assert faults.min_p(target, target, 0.3)[0] == pytest.approx(np.array([0.5, 0.3, 0.15, 0]) / 0.95)
    assert faults.tempered(target, target, 2.0)[0] == pytest.approx(target[0] ** 2 / (target[0] ** 2).sum())
    greedy = faults.likeliest(*floats(on.CROSSED))[0]
    assert greedy == pytest.approx(
        [0.6, 0.0, 0.4]
    )  # kept with 0.3 / 0.5; else the residual, all on the third token


@pytest.mark.parametrize("fault", FAMILIES, ids=lambda fault: fault.name)
def test_laws_are_laws_and_act_where_they_say(fault):
    target, draft = world(vocabulary=80)
    draft[::2] = 0
    out = fault.rows(target, draft)
    assert (out >= 0).all()
    assert out.sum(1) == pytest.approx(np.ones(len(out)), abs=1e-12)
    assert (distance(out, target)[::2].max() > 1e-3) != fault.needs_draft
    assert distance(out, target)[1::2].max() > 1e-3


def test_n95_solves_its_equation():
    growth, variance, barrier = 0.02, 0.05, 11.0
    found = n95(growth, variance, barrier)
    assert found * growth - 1.6448536 * np.sqrt(found * variance) == pytest.approx(barrier, rel=1e-6)
    assert n95(-1e-9, variance, barrier) == np.inf
    assert n95(growth, 0.0, barrier) == pytest.approx(barrier / growth)


def test_a_tenth_of_a_fault_costs_a_hundred_times_the_tokens():
    """Why the smallest detectable distance goes with the root."""
    target, draft = world()
    rows = Emissions.of(np.zeros(len(target)), target, draft)
    tenth = faults.Fault("a tenth", lambda p, q: 0.9 * p + 0.1 * faults.redrawn(p, q))
    library = type(WITH_DRAFT[5])(faults=(*FAULTS, tenth), shares=(1.0,))
    planner = Planner(1e-3, Mixture.plain([library]), (FAULTS[0], tenth))
    planner.add(rows)
    whole, part = planner.predictions(1000)
    assert part.tv == pytest.approx(whole.tv / 10)
    assert 80 < part.n95 / whole.n95 < 125
    assert part.detectable == pytest.approx(whole.detectable, rel=0.2)
    assert whole.detectable == pytest.approx(whole.tv * np.sqrt(whole.n95 / 1000))


def share_convicted(fault, tokens, runs, seed):
    target, draft = world()
    rng = np.random.default_rng(seed)
    mixture = Mixture.plain(WITH_DRAFT)
    paths = (Evidence(mixture).play(emitted(target, draft, tokens, rng, fault)) for _ in range(runs))
    return sum(path.max() >= np.log(1000) for path in paths) / runs


def predictions():
    target, draft = world()
    planner = Planner(1e-3, Mixture.plain(WITH_DRAFT))
    planner.add(Emissions.of(np.zeros(len(target)), target, draft))
    return {fault: p for p in planner.predictions(1000) for fault in FAMILIES if fault.name == p.fault}


def test_without_draft_rows_there_is_a_bet_on_every_fault_that_needs_none():
    """A plan that gives such a fault no bet would call it invisible at any length."""
    target, draft = world()
    planner = Planner(1e-3, Mixture.unplaced(drafts=False))
    planner.add(Emissions.of(np.zeros(len(target)), target, draft))
    needed = {each.fault: each.n95 for each in planner.predictions(1000)}
    plain = [fault.name for fault in FAULTS if not fault.needs_draft and fault.name in needed]
    assert len(plain) >= 4
    assert all(np.isfinite(needed[name]) for name in plain), needed


QUICK = [fault for fault in FAMILIES if fault.name in (FAULTS[0].name, FAULTS[3].name, "top-p 0.95 added")]


@pytest.mark.parametrize("fault", QUICK, ids=lambda fault: fault.name)
def test_faults_are_caught_when_the_planner_says(fault):
    """40 runs of 1.25 x n95 tokens; 95 % power or more leaves fewer than 31 with probability below 1e-4."""
    tokens = int(1.25 * predictions()[fault].n95) + 1
    assert share_convicted(fault, tokens, 40, 1) >= 31 / 40


# Of 50 tokens top-k 50 takes none away, and the faintest temperatures (TV 0.02) need 20,000 tokens a run.
LEFT_OUT = ("top-k 50 added", "temperature times 1.03", "temperature times 0.97")
SIMULATED = [fault for fault in FAMILIES if fault.name not in LEFT_OUT]


@pytest.mark.slow
@pytest.mark.parametrize("fault", SIMULATED, ids=lambda fault: fault.name)
def test_every_family_is_caught_when_the_planner_says(fault):
    """200 runs; 95 % power or more leaves fewer than 177 with probability below 1e-4."""
    tokens = int(1.25 * predictions()[fault].n95) + 1
    assert share_convicted(fault, tokens, 200, 2) >= 177 / 200
