import json
from dataclasses import fields
from pathlib import Path

import pytest

from specproof.backends.hf import HFBackend
from specproof.drafters.ngram import NgramDrafter
from specproof.engine import stats as stats_module
from specproof.engine.engine import Engine
from specproof.engine.stats import Price, Statistics, StepRecord, places
from specproof.testing.tiny import tiny_model
from specproof.tree import Tree
from specproof.types import SamplingParams

GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"
KNOWN = [0] * 5 + [1] * 2 + [3] * 3


def test_b50_figures_of_a_known_histogram():
    """Field case B50: ten steps of three drafted tokens, accepted counts 5 x 0, 2 x 1, 0 x 2, 3 x 3."""
    stats = Statistics()
    for accepted in KNOWN:
        stats.count((1, 2, 3), accepted, accepted + 1)
    assert (stats.steps, stats.drafted, stats.accepted) == (10, 30, 11)
    assert round(stats.acceptance, 4) == 0.3667
    assert stats.tokens_per_forward == 2.1
    assert stats.acceptance_by_depth == {1: 0.5, 2: 0.3, 3: 0.3}
    assert stats.conditional_by_depth == {1: 0.5, 2: 0.6, 3: 1.0}
    assert stats.histogram == {0: 5, 1: 2, 3: 3}


def test_nodes_cut_by_an_end_were_never_asked_for():
    stats = Statistics()
    stats.count((1, 2, 3, 4), accepted=4, kept=2)
    assert (stats.tokens, stats.drafted, stats.accepted) == (2, 2, 2)
    assert stats.acceptance_by_depth == {1: 1.0, 2: 1.0}


def test_siblings_count_once_a_depth():
    stats = Statistics()
    stats.count((1, 1, 2, 2), accepted=1, kept=2)
    assert (stats.drafted, stats.accepted) == (4, 1)
    assert stats.acceptance_by_depth == {1: 1.0, 2: 0.0}


def test_ranks_of_the_accepted_among_their_siblings():
    """Three steps on one tree: two nodes accepted, none, and two of which only the first token was committed."""
    tree, stats = Tree((-1, -1, 1, 1, 1, 3)), Statistics()
    for path, kept in (((1, 3), 3), ((), 1), ((1, 3)[:1], 1), ((), 0)):
        stats.add(StepRecord((), len(path), kept, 0, None, (0, 0, 0), places=places(tree, path)))
    assert stats.offered_by_rank == {1: 3 + 1 + 1, 2: 3 + 1, 3: 1}
    assert stats.accepted_by_rank == {2: 2 + 1}
    assert stats.acceptance_by_rank == {1: 0.0, 2: 3 / 4, 3: 0.0}


def test_nothing_drafted_divides_by_nothing():
    stats = Statistics()
    assert (stats.tokens_per_forward, stats.acceptance, stats.acceptance_by_depth) == (0.0, 0.0, {})
    stats.count((), 0, 1)
    assert stats.as_dict()["tokens_per_forward"] == 1.0


def test_drafts_of_different_lengths_count_where_they_have_a_node():
    stats = Statistics()
    for length, accepted in ((1, 1), (3, 1), (3, 3), (2, 0)):
        stats.count(range(1, length + 1), accepted, accepted + 1)
    assert stats.acceptance_by_depth == {1: 3 / 4, 2: 1 / 3, 3: 1 / 2}
    assert stats.conditional_by_depth == {1: 3 / 4, 2: 1 / 2, 3: 1.0}


def test_speedups_measured_and_predicted():
    stats = Statistics()
    assert (stats.measured_speedup, stats.predicted_speedup) == (None, None)
    # A plain step takes 2 s; this one took 4 s for 3 tokens, where 3.5 s for 2.8 tokens were expected.
    stats.add(StepRecord((1, 2), 2, 3, 2, None, (0.5, 3.0, 0.5), Price(2.0, 2.8, 3.5)))
    assert stats.measured_speedup == 1.5
    assert stats.predicted_speedup == pytest.approx(1.6)
    stats.add(StepRecord((), 0, 1, 0, "no room", (0.0, 9.0, 0.0)))
    assert stats.measured_speedup == 1.5, "steps without a known cost do not count"
    assert stats.seconds == 13.0


def test_why_steps_were_without_speculation():
    stats = Statistics()
    for budget, depths, reason in ((4, (), "no draft"), (0, (), "loses"), (3, (1, 2, 3), None), (0, (), "loses")):
        stats.add(StepRecord(depths, 0, 1, budget, reason, (0.0, 0.0, 0.0)))
    assert stats.chosen == {0: 2, 3: 1, 4: 1}
    assert stats.unspeculated == {"no draft": 1, "loses": 2}


def test_b62_a_trace_replays_to_the_same_totals_and_is_absent_when_off():
    """Field case B62: per request, every step; nothing is kept where it was not asked for."""
    target = HFBackend(tiny_model("llama", 5))
    params = [SamplingParams(max_tokens=20, seed=3), SamplingParams(max_tokens=12, seed=4, temperature=0)]
    engine = Engine(target, NgramDrafter(shortest=1), trace=True)
    for result in engine.generate([[1, 2, 1], [3, 3]], params):
        again = Statistics(trace=[])
        for step in result.stats.trace:
            again.add(step)
        assert again == result.stats
        assert len(json.loads(json.dumps(result.stats.as_dict()))["trace"]) == result.stats.steps
    assert engine.stats.trace is None
    quiet = Engine(target, NgramDrafter(shortest=1)).generate([[1, 2, 1]], params[0])[0].stats
    assert quiet.trace is None
    assert "trace" not in quiet.as_dict()


def test_an_engines_own_statistics_add_up_its_requests():
    engine = Engine(HFBackend(tiny_model("llama", 5)), NgramDrafter(shortest=1))
    results = engine.generate([[1, 2, 1], [3, 3], [4]], SamplingParams(max_tokens=20, temperature=0))
    for name in ("steps", "tokens", "drafted", "accepted", "chosen", "unspeculated", "histogram"):
        each = [getattr(result.stats, name) for result in results]
        assert getattr(engine.stats, name) == sum(each[1:], each[0])
    # Each step counts once, and the request that ran longest took part in all of them.
    assert engine.stats.seconds == pytest.approx(max(result.stats.seconds for result in results))


def figures():
    names = [field.name for field in fields(Statistics)]
    return names + [name for name, value in vars(Statistics).items() if isinstance(value, property)]


def test_every_figure_is_in_the_glossary_and_in_the_dictionary():
    text = GLOSSARY.read_text()
    missing = [name for name in figures() if f"`{name}`" not in text]
    assert not missing, f"not in docs/glossary.md: {missing}"
    assert set(Statistics(trace=[]).as_dict()) == set(figures())


def test_every_reason_is_in_the_glossary():
    reasons = [value for name, value in vars(stats_module).items() if name.isupper() and isinstance(value, str)]
    assert len(reasons) == 6
    assert all(f"*{reason}*" in GLOSSARY.read_text() for reason in reasons)
