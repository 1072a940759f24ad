"""The policy of draft lengths: simulated clocks for what it decides, exact sums for the law, seeds for texts."""

from itertools import count

import pytest

from specproof.audit.engine_exact import audit_engine
from specproof.audit.enumerate import EnumeratingNoise
from specproof.backends.hf import HFBackend
from specproof.drafters.model import ModelDrafter
from specproof.drafters.ngram import NgramDrafter
from specproof.engine import engine as engine_module
from specproof.engine.advice import expected_tokens
from specproof.engine.costs import Costs, bucket
from specproof.engine.engine import Engine
from specproof.engine.history import Habits, History, lengths_to
from specproof.engine.pace import Pace
from specproof.engine.requests import Request
from specproof.engine.stats import FAILED, LOSES, MEASURING, NO_DRAFT, NO_ROOM, WAITING
from specproof.testing.tiny import recomputed_logits, tiny_model
from specproof.tree import Tree
from specproof.types import SamplingParams, TokenSequence

VOCABULARY = 4


class Simulation:
    """Requests whose drafts are accepted as told, on a machine whose forwards take what they are told."""

    def __init__(self, rows, column=0.08, coupled=True, **options):
        self.pace = Pace(NgramDrafter(), coupled, **options)
        self.column = column
        self.requests = [Request(TokenSequence([1], 1, SamplingParams(), b), None) for b in range(rows)]
        self.seconds = self.tokens = 0.0

    def step(self, accepted, drafts=True):
        """One step; every request accepts that many nodes, or its own number of a list."""
        rows = len(self.requests)
        each = accepted if isinstance(accepted, list) else [accepted] * rows
        choices = self.pace.choose(self.requests, [15] * rows)
        trees = [Tree.chain(choice.nodes if drafts else 0) for choice in choices]
        outcomes = [(min(a, len(t)), min(a, len(t)) + 1) for a, t in zip(each, trees, strict=True)]
        widest = max(map(len, trees))
        seconds = (0.0, 1 + self.column * (rows * (widest + 1) - 1), 0.0)
        records = self.pace.record(self.requests, choices, trees, outcomes, seconds, False)
        for request, record in zip(self.requests, records, strict=True):
            request.stats.add(record)
        self.seconds += seconds[1] / (1 + self.column * (rows - 1))
        self.tokens += outcomes[0][1]
        return choices


@pytest.mark.parametrize("column", [0.005, 0.08, 0.3])
def test_hopeless_drafts_cost_less_than_one_percent(column):
    simulation = Simulation(1, column)
    for _ in range(1000):
        simulation.step(0)
    assert simulation.seconds < 1.01 * simulation.tokens
    reasons = simulation.requests[0].stats.unspeculated
    assert reasons[WAITING] > 900
    assert 3 <= simulation.requests[0].stats.steps - reasons.total() < 50, "it has to go on probing"


def test_steps_where_nothing_matches_say_nothing():
    simulation = Simulation(1)
    for _ in range(100):
        simulation.step(0, drafts=False)
    assert simulation.requests[0].stats.unspeculated == {NO_DRAFT: 100}
    assert simulation.step(15)[0].nodes >= 4


def test_drafts_that_are_accepted_are_as_long_as_they_may_be():
    simulation = Simulation(1)
    for _ in range(30):
        simulation.step(15)
    stats = simulation.requests[0].stats
    assert stats.chosen[15] >= 25
    assert stats.unspeculated[MEASURING] == 1, "a plain step is measured once"
    assert stats.measured_speedup == pytest.approx(16 / (1 + 15 * 0.08), rel=0.1)
    assert stats.predicted_speedup == pytest.approx(stats.measured_speedup, rel=0.2)


def test_speculation_comes_back_when_it_pays_again():
    simulation = Simulation(1)
    for _ in range(400):
        simulation.step(0)
    steps = next(n for n in count() if simulation.step(15)[0].nodes > 8)
    assert steps < Habits().longest_wait + 20


def test_what_pays_alone_does_not_in_a_batch_that_is_bound_by_arithmetic():
    """One of sixteen copies: every column of all sixteen is paid for, and one row gains."""
    alone, together = Simulation(1, 0.5), Simulation(16, 0.5)
    for _ in range(200):
        alone.step(15)
        together.step([15] + [0] * 15)
    assert alone.requests[0].stats.chosen[0] <= 2
    stats = together.requests[0].stats
    assert stats.chosen[0] > 180
    assert {LOSES, WAITING} <= set(stats.unspeculated)
    assert together.seconds < 1.05 * 200


def test_hopeless_requests_get_nothing_while_others_draft():
    simulation = Simulation(4, 0.02)
    for _ in range(100):
        simulation.step([15, 15, 15, 0])
    assert simulation.requests[0].stats.chosen[0] <= 2
    assert simulation.requests[3].stats.chosen[0] > 80


def test_the_full_budget_if_not_adaptive():
    simulation = Simulation(2, adaptive=False)
    for _ in range(50):
        assert [choice.nodes for choice in simulation.step(0)] == [15, 15]


def test_reasons_that_are_not_the_policys():
    simulation = Simulation(2)
    simulation.requests[0].speculates = False
    choices = simulation.pace.choose(simulation.requests, [15, 0])
    assert choices == [(0, FAILED), (0, NO_ROOM)]


def test_an_empty_history_expects_what_the_paper_does():
    for length, tokens in enumerate(History().expected(10, 0.7, 2.0)):
        assert tokens == pytest.approx(expected_tokens(0.7, length))
    seen = History()
    for accepted in [0] * 5 + [1] * 2 + [3] * 3:
        seen.learn(3, accepted, memory=1.0)
    # The known histogram of the statistics: without a prior the conditional rates are .5, .6 and 1.
    assert seen.expected(3, 0.5, 0.0) == pytest.approx([1, 1.5, 1.8, 2.1])


def test_lengths_worth_comparing():
    assert lengths_to(15) == (1, 2, 3, 4, 6, 8, 12, 15)
    assert all(lengths_to(n)[-1] == n and list(lengths_to(n)) == sorted(set(lengths_to(n))) for n in range(1, 100))


def test_costs_between_and_beyond_what_was_measured():
    costs = Costs(lambda rows, width: 1 + 0.1 * (rows * width - 1))
    assert costs.at(1, 1) is None
    for seconds in (5.0, 1.0, 1.0):
        costs.measure(1, 1, seconds)
    assert costs.at(1, 1) == costs.known(1, 1) == 1.0, "a median, whatever the first step took"
    assert costs.at(1, 6) == pytest.approx(1.5)
    costs.measure(1, 11, 4.0)
    assert costs.at(1, 6) == pytest.approx(2.5)
    assert costs.at(1, 21) == pytest.approx(4.0 * 3 / 2)
    assert costs.at(3, 1) == pytest.approx(1.2)
    assert costs.known(3, 1) is None
    assert [bucket(n) for n in (1, 8, 9, 15, 16, 17, 33)] == [1, 8, 9, 15, 16, 18, 36]


HASTY = Habits(prior=0.45, weight=1.0, first_wait=1, longest_wait=2, column=0.15, node=0.0, memory=0.5)


@pytest.mark.parametrize("drafter", ["ngram", "model"])
@pytest.mark.parametrize(
    "rule", ["block", "coupling", *(pytest.param(rule, marks=pytest.mark.slow) for rule in ("rejection", "walk"))]
)
def test_the_law_is_exact_though_speculation_stops_and_comes_back(rule, drafter):
    model = tiny_model("llama", VOCABULARY, seed=0)
    made = (
        NgramDrafter(shortest=1) if drafter == "ngram" else ModelDrafter(HFBackend(tiny_model("llama", 4, 1)), 3)
    )
    engine = Engine(HFBackend(model), made, rule, eos=(0,), max_batch=256, noise=EnumeratingNoise(), trace=True)
    engine.pace = Pace(engine.drafter, engine.coupled, timed=False, habits=HASTY)
    traces = []
    requests = engine.requests

    def keep(prompt, params):
        made = requests(prompt, params)
        traces.extend(request.stats.trace for request in made)
        return made

    engine.requests = keep
    params = SamplingParams(temperature=0.8, top_k=2, max_tokens=5)
    result = audit_engine(engine, lambda tokens: recomputed_logits(model, tokens), [1, 0, 1], params)
    assert result.ok, str(result)
    stories = [[step.reason for step in trace if step.reason != NO_DRAFT] for trace in traces]
    assert any(
        LOSES in story and WAITING in story and None in story[story.index(WAITING) :] for story in stories
    ), "no path stopped, waited and drafted again"
    assert {step.budget for trace in traces for step in trace} >= {0, 1, 2}


@pytest.mark.parametrize("rule", ["walk", "block", "coupling"])
def test_a_seed_gives_one_text_whatever_the_clock_and_the_batch(rule, monkeypatch):
    """Under other rules than the coupling the lengths decide the text, so they may not depend on times."""
    model = tiny_model("llama", VOCABULARY)
    params = [SamplingParams(seed=seed, max_tokens=50) for seed in (1, 2, 3)]
    prompts = [[1, 2, 1], [3], [2, 2, 2, 2]]
    texts = set()
    for step, rows in ((1.0, 3), (0.001, 3), (1.0, 1)):
        # Every third reading comes late, so that forwards seem to take very different times.
        late = (tick * step + 5 * (tick % 3 == 0) for tick in count())
        monkeypatch.setattr(engine_module, "perf_counter", late.__next__)
        made = NgramDrafter(shortest=1)
        engine = Engine(HFBackend(model), made, rule, max_batch=rows)
        texts.add(tuple(result.tokens for result in engine.generate(prompts, params)))
    assert len(texts) == 1


def test_with_the_coupling_lengths_do_not_decide_the_text():
    model = tiny_model("llama", VOCABULARY)
    params = SamplingParams(seed=5, max_tokens=50)
    adaptive = Engine(HFBackend(model), NgramDrafter(shortest=1)).generate([[1, 2, 1]], params)[0]
    full = Engine(HFBackend(model), NgramDrafter(shortest=1), adaptive=False).generate([[1, 2, 1]], params)[0]
    assert adaptive.tokens == full.tokens
    assert adaptive.stats.chosen != full.stats.chosen


class Grove:
    """Drafts trees, as far as a policy asks."""

    drawn, chains = "without_replacement", False


BUSH = Tree((-1, -1, -1, 0, 0, 1, 3))


def paced(accepted, steps=60, lookups=False, seed=None):
    """Which steps of a request drafted, whose trees are accepted as told and cost 0.35 forwards more."""
    pace = Pace(Grove(), coupled=False)
    request = Request(TokenSequence([1], 1, SamplingParams(seed=seed), 0), None)
    drafted = []
    for step in range(steps):
        (choice,) = pace.choose([request], [15])
        looked = lookups and step % 2 == 1
        tree = (Tree.chain(15) if looked else BUSH) if choice.nodes else Tree()
        taken = 0 if looked else accepted[step % len(accepted)]
        outcome = (taken, taken + 1) if len(tree) else (0, 1)
        seconds = (0.25, 1.1, 0.0) if len(tree) else (0.0, 1.0, 0.0)
        pace.record([request], [choice], [tree], [outcome], seconds, False)
        drafted.append(bool(choice.nodes))
    return drafted


@pytest.mark.parametrize("seed", [None, 7])
def test_trees_that_pay_are_drafted_although_some_steps_gain_nothing(seed):
    """0.75 of a node a step, for 0.35 forwards: four empty steps in a row are no reason to stop."""
    assert sum(paced([0, 1, 0, 2, 0, 0, 0, 3], seed=seed)) >= 55
    assert sum(paced([0], seed=seed)) <= 20


def test_a_lookup_that_fails_does_not_count_against_the_trees():
    assert sum(paced([1, 0, 1, 2], lookups=True)) >= 55
