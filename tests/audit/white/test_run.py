"""Whole audits of engines over tables: correct ones pass, faulty ones are convicted, and neither by luck."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from worlds import scores, table_engine, tables, too_many

from specproof.audit.answer import Verdict
from specproof.audit.mutants import commit, draw, processor, rows
from specproof.audit.mutants.around import Around
from specproof.audit.mutants.case import exchanged, untouched
from specproof.audit.white.forcing import reference_for
from specproof.audit.white.ledger import measure
from specproof.audit.white.plan import Plan
from specproof.audit.white.run import audit_white
from specproof.backends.hf import HFBackend
from specproof.backends.table import TableBackend
from specproof.drafters.model import ModelDrafter
from specproof.drafters.ngram import NgramDrafter
from specproof.drafters.none import NoDrafter
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.noise import CounterNoise
from specproof.rules.coupling import decided
from specproof.testing.tiny import tiny_model
from specproof.tree import Tree
from specproof.types import Output, SamplingParams

PROMPTS = ((1, 2), (3,), (4, 5, 6))
PLAIN = SamplingParams()
PLAN = Plan(tokens=1000, at_once=16, length=32, detect=0.15, prefixes=4, draws=32, depth=3)


def audit(engine, params=PLAIN, plan=PLAN, **options):
    return audit_white(engine, PROMPTS, params, plan, **{"reference": scores(tables()[0])} | options)


CONTROLS = {
    "rejection": lambda: table_engine(),
    "block": lambda: table_engine(rule="block"),
    "other temperature, said so": lambda: draw.honest_drafter(table_engine()),
    "noise shared with the draft": lambda: other_engine("coupling", 3, coupled=True),
    "looked up, noise shared": lambda: Engine(
        TableBackend(tables()[0]), NgramDrafter(shortest=1), "coupling", max_batch=64, adaptive=False
    ),
    "trees": lambda: other_engine("siblings", Tree((-1, -1, 0, 1))),
}


def other_engine(rule, tree, **options):
    target, draft = map(TableBackend, tables())
    return Engine(target, ModelDrafter(draft, tree, **options), rule, max_batch=64, adaptive=False)


@pytest.mark.parametrize("name", CONTROLS)
def test_correct_engines_pass(name):
    """False alarms: alpha is 1e-5 here, twice (with speculation and without).

    Drafts made of the noise that decides the token have no row to bet with, and simulated p-values of a panel
    cannot be as small as that alpha asks: no answer is right then.
    """
    blind = name == "noise shared with the draft"
    result = audit(CONTROLS[name](), plan=replace(PLAN, alpha=1e-5))
    assert result.verdict is (Verdict.INCONCLUSIVE if blind else Verdict.LOSSLESS), result
    assert result.exit_code == (3 if blind else 0)
    assert blind or 0.05 < result.power <= 0.15
    assert result.tv is None
    assert 0.05 < result.findings.acceptance < 0.9


FAULTS = {
    "redrawn": (rows.resample_from_target, PLAIN, "correction drawn from the target's row"),
    "row off by one": (rows.row_off_by_one, PLAIN, ""),
    "first unverified": (rows.first_unverified, PLAIN, ""),
    "early bonus": (rows.early_bonus, PLAIN, ", at the bonus"),
    "colder drafter": (draw.colder_drafter, PLAIN, ""),
    "temperature ignored": (processor.warped(processor.without_temperature), SamplingParams(temperature=0.6), ""),
    "greedy": (processor.warped(processor.greedy), PLAIN, ""),
    "top-k ignored": (processor.warped(processor.without_top_k), SamplingParams(top_k=4), "probability 0"),
    "end inside a block": (commit.last_token_stop, PLAIN, "do not end where"),
    "limit overshot": (commit.uncut, PLAIN, "do not end where"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faulty_engines_are_convicted(name):
    plant, params, words = FAULTS[name]
    engine = table_engine()
    if name == "end inside a block":
        engine.eos = frozenset({0})
    result = audit(plant(engine), params)
    assert result.verdict is Verdict.BIASED, result
    assert result.exit_code == 1
    assert words in result.reason
    assert result.samples < PLAN.tokens, "it stops when it is decided"


def test_a_fault_is_measured():
    """The estimate is the distance of the law that fits, at the rows that were seen."""
    result = audit(rows.resample_from_target(table_engine()))
    predicted = next(p for p in result.findings.predictions if p.fault in result.findings.fault)
    assert result.tv == pytest.approx(predicted.tv, rel=1e-9)
    assert 0.05 < result.tv < 0.2
    assert result.pvalue <= 1e-3


def test_nothing_drafted_or_nothing_refused_is_no_exercise():
    target, _ = tables()
    small = Plan(tokens=200, at_once=8)
    none = audit(Engine(TableBackend(target), NoDrafter()), plan=small)
    sure = audit(Engine(TableBackend(target), ModelDrafter(TableBackend(target), 2)), plan=small)
    assert [r.verdict for r in (none, sure)] == [Verdict.NOT_EXERCISED] * 2
    assert none.exit_code == 3


def test_another_model_is_no_baseline():
    result = audit(table_engine(), reference=scores(tables()[1]))
    assert result.verdict is Verdict.NO_BASELINE


def test_few_tokens_answer_nothing():
    result = audit(table_engine(), plan=Plan(tokens=100, at_once=2))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.power > 0.1


class Failing(NoDrafter):
    def draft(self, batch, budget, noise):
        raise RuntimeError("broken cable")


def test_a_drafter_that_fails_is_told():
    target, _ = tables()
    result = audit(Engine(TableBackend(target), Failing()), plan=Plan(tokens=100))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "broken cable" in result.reason


def test_shared_seeds_are_caught_by_repeats():
    """All texts of a prompt are drawn with one seed: each has the right law, all together do not."""

    class OneSeed(CounterNoise):
        def choose(self, rows, keys):
            return super().choose(rows, [key._replace(seed=1) for key in keys])

    result = audit(exchanged(table_engine(), noise=OneSeed()))
    assert result.verdict is Verdict.BIASED
    arms = result.findings.bets.by_arm
    assert max(arms, key=arms.get) == "A8 repeated texts"


def test_temperature_0_is_judged_token_by_token():
    greedy = SamplingParams(temperature=0.0)
    small = Plan(tokens=300, at_once=2)
    said = []
    right = audit(table_engine(), greedy, small, announce=said.append)
    assert right.verdict is Verdict.EXACT
    assert any(line.endswith(" tokens") for line in said)
    assert not any("capital" in line for line in said), "at temperature 0 nothing is bet"
    assert (right.samples, right.pvalue) == (right.findings.greedy.tokens, 1.0)

    def warm(logits, params):
        return torch.softmax(logits, -1)

    wrong = audit(processor.warped(warm)(table_engine()), greedy, small)
    assert wrong.verdict is Verdict.BIASED
    assert wrong.pvalue == 0


def test_a_tiny_transformer_is_lossless_and_its_ledger_empty_to_rounding():
    target, draft = tiny_model("llama", 11, context=128), tiny_model("llama", 11, seed=1, context=128)
    engine = Engine(HFBackend(target), ModelDrafter(HFBackend(draft), 3), eos=(0,), max_batch=16, adaptive=False)
    said = []
    result = audit_white(engine, PROMPTS, PLAIN, Plan(tokens=300, at_once=16, detect=0.5), announce=said.append)
    assert result.verdict is Verdict.LOSSLESS, result
    assert 0 <= result.findings.ledger.largest < 1e-9
    assert said[0] == f"plan {result.digest}: up to 300 tokens, alpha 0.001"


def test_rounding_is_measured_and_tolerated():
    """The engine's target is rounded to few digits; the ledger says by how much, and that much is no fault."""
    model, draft = (tiny_model("llama", 11, seed=seed, context=128) for seed in (0, 1))

    class Rounded(Around):
        def forward(self, batch, draft, start=None):
            return Output((super().forward(batch, draft, start).logits * 16).round() / 16)

    plain = HFBackend(model)
    engine = Engine(Rounded(plain), ModelDrafter(HFBackend(draft), 3), max_batch=16, adaptive=False)
    parts = {"reference": reference_for(plain), "fresh": Rounded(HFBackend(model))}
    result = audit_white(engine, PROMPTS, PLAIN, Plan(tokens=300, at_once=16, detect=0.5), **parts)
    assert 1e-3 < result.findings.ledger.largest < 0.05
    assert result.findings.ledger.spread == pytest.approx(1 / 16 / np.sqrt(12), rel=1.0)
    assert result.ok, result
    assert result.findings.bets.tolerant is not None


def test_a_target_that_depends_on_how_it_is_run_is_no_baseline():
    model = tiny_model("llama", 11, context=128)

    class Wide(Around):
        def forward(self, batch, draft, start=None):
            logits = super().forward(batch, draft, start).logits
            return Output(logits * (0.5 if logits.shape[1] > 1 else 1.0))

    engine = Engine(HFBackend(model), ModelDrafter(HFBackend(tiny_model("llama", 11, seed=1, context=128)), 3))
    parts = {"reference": reference_for(engine.target), "fresh": Wide(HFBackend(model))}
    result = audit_white(engine, PROMPTS, PLAIN, Plan(tokens=100), **parts)
    assert result.verdict is Verdict.NO_BASELINE
    assert "two ways of running it" in result.reason


def test_the_ledger_of_equal_rows_is_zero():
    target, _ = tables()
    engine = table_engine()
    request = engine.requests([1], SamplingParams(seed=3, max_tokens=12))[0]
    start = engine.requests([1], SamplingParams(seed=3, max_tokens=12))[0]
    start.read(1)
    for _ in engine.run([request]):
        pass
    ledger = measure(TableBackend(target), scores(target), [(start.sequence, request.sequence.output)])
    assert (ledger.positions, ledger.largest, ledger.spread) == (12, 0.0, 0.0)


@pytest.mark.parametrize(
    ("prompts", "params", "words"),
    [
        ((), PLAIN, "no prompts"),
        (PROMPTS, SamplingParams(n=2), "n=2"),
        (PROMPTS, SamplingParams(logprobs=1), "logp"),
    ],
)
def test_what_does_nothing_is_refused(prompts, params, words):
    with pytest.raises(SpecproofError, match=words):
        audit_white(table_engine(), prompts, params, PLAN)


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [1, 3])
def test_the_redrawing_engine_is_convicted_when_the_planner_says(nodes):
    """60 audits of 1.25 x n95 tokens; 95 % power or more leaves fewer than 49 with probability below 1e-4."""
    wide = audit(table_engine(nodes), plan=Plan(tokens=4000, at_once=32))
    prediction = next(p for p in wide.findings.predictions if p.fault == "correction drawn from the target's row")
    tokens = int(1.25 * prediction.n95) + 1
    plans = [Plan(tokens=tokens, at_once=32, seed=seed) for seed in range(60)]
    found = [audit(rows.resample_from_target(table_engine(nodes)), plan=plan).verdict for plan in plans]
    assert found.count(Verdict.BIASED) >= 49


@pytest.mark.slow
def test_false_alarms_of_whole_audits():
    """300 audits of a correct engine at alpha 0.02; false-alarm rate of this test 1e-4."""
    plans = [Plan(alpha=0.02, tokens=300, at_once=8, seed=seed, detect=0.9) for seed in range(300)]
    found = [audit(untouched(table_engine()), plan=plan).verdict for plan in plans]
    assert found.count(Verdict.BIASED) < too_many(300, 0.02)


def test_coupled_drafts_would_be_an_unfair_bet():
    """Why they are not recorded: known beforehand, they convict a correct engine."""
    engine = other_engine("coupling", 3, coupled=True)
    engine.coupled, rule = False, engine.rule

    # The engine's own way to make the rows, out of the recorder's sight.
    def decides(target_rows, drafted):
        return rule(decided(target_rows, decides.batch, drafted, engine.noise), drafted)

    def draft(batch, budget, noise, inner=engine.drafting.drafter.draft):
        decides.batch = batch
        return inner(batch, budget, noise)

    engine.rule, engine.drafting.drafter.draft = decides, draft
    assert audit(engine).verdict is Verdict.BIASED
