"""What is written down while an engine runs: places, draft rows, nothing that could not be known beforehand."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from worlds import scores, table_engine, tables

from specproof.audit.mutants import draw
from specproof.audit.white.emission import BONUS, UNDRAFTED
from specproof.audit.white.forcing import Conditions, ends_right, reference_for, score
from specproof.audit.white.record import recorded
from specproof.backends.hf import HFBackend
from specproof.backends.table import TableBackend
from specproof.drafters.hybrid import HybridDrafter
from specproof.drafters.model import ModelDrafter
from specproof.drafters.ngram import NgramDrafter
from specproof.drafters.replay import ReplayDrafter
from specproof.drafters.suffix import SuffixDrafter
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.sampling import warp_next
from specproof.testing.tiny import recomputed_logits, tiny_model
from specproof.tree import Tree
from specproof.types import SamplingParams


def run(engine, params=None, prompts=((1, 2), (3,))):
    params = params or SamplingParams(max_tokens=40, seed=5)
    with recorded(engine) as recorder:
        requests = [request for prompt in prompts for request in engine.requests(prompt, params)]
        for _ in engine.run(requests):
            pass
        return [(request, recorder.take(request.sequence)) for request in requests]


def test_rows_are_the_drafters_own_and_stand_where_it_drew():
    _, draft = tables()
    for request, places in run(table_engine()):
        sequence = request.sequence
        assert set(places.rows) == set(np.flatnonzero(places.strata < BONUS))
        for place, row in places.rows.items():
            expected = draft.row(sequence.tokens[: sequence.prompt_length + place])
            assert torch.allclose(row, expected, atol=1e-12)


def test_strata_count_from_the_start_of_each_block():
    (request, places), *_ = run(table_engine())
    strata = places.strata.tolist()
    assert strata[0] == 0
    for before, after in pairwise(strata):
        assert after == 0 or after == before + 1 or before < after == BONUS
    steps = strata.count(0)
    assert steps == request.stats.steps
    # Each accepted node is followed by one token more in its block.
    assert len(strata) - steps == request.stats.accepted
    assert BONUS in strata


def test_point_drafts_are_certain_rows():
    target, _ = tables()
    engine = Engine(TableBackend(target), NgramDrafter(shortest=1), "walk", max_batch=2)
    for request, places in run(engine, prompts=((1, 2, 1, 2, 1), (3, 4, 3))):
        assert UNDRAFTED in places.strata or places.rows
        for row in places.rows.values():
            assert sorted(set(row.tolist())) == [0.0, 1.0]
        assert request.stats.drafted >= len(places.rows) - 1


def test_of_a_tree_only_the_root_is_known_beforehand():
    target, draft = tables()
    drafter = ModelDrafter(TableBackend(draft), Tree((-1, -1, 0, 1)))
    (_, places), *_ = run(Engine(TableBackend(target), drafter, "siblings"))
    assert set(places.rows) == set(np.flatnonzero(places.strata == 0))
    assert BONUS not in places.strata


def test_coupled_drafts_are_never_known_beforehand():
    """They are made from the noise that decides the token: a bet on them would win against a correct engine."""
    target, draft = tables()
    drafter = ModelDrafter(TableBackend(draft), 3, coupled=True)
    (_, places), *_ = run(Engine(TableBackend(target), drafter, "coupling"))
    assert not places.rows
    assert places.drafted > 0


def test_lookups_are_known_beforehand_under_every_rule():
    """They are a function of the text: the default rule for them shares its noise with nobody."""
    target, _ = tables()
    for rule in ("walk", "coupling"):
        engine = Engine(TableBackend(target), NgramDrafter(shortest=1), rule, max_batch=2, adaptive=False)
        (_, places), *_ = run(engine, prompts=((1, 2, 1, 2, 1), (3, 4, 3)))
        assert places.rows, rule
        assert places.hidden == 0


@pytest.mark.parametrize("remember", [0, 400])
def test_drafts_from_other_texts_are_secret_under_a_rule_that_shares_its_noise(remember):
    """Texts of earlier requests with the same seed were decided by the noise that decides now."""
    target, _ = tables()
    drafter = SuffixDrafter(branching=False, remember=remember)
    engine = Engine(TableBackend(target), drafter, "coupling", max_batch=2, adaptive=False)
    for _ in range(2):
        (_, places), *_ = run(engine, prompts=((1, 2, 1, 2, 1), (3, 4, 3)))
    assert places.drafted > 0
    assert places.hidden == (places.drafted if remember else 0)
    assert bool(places.rows) is (remember == 0)


@pytest.mark.parametrize("kept", [False, True])
def test_what_only_holds_a_pure_drafter_is_not_one(kept):
    """A pair of drafters may take either one's draft; nothing of it is believed."""
    target, draft = tables()
    lookup = ReplayDrafter([], target.vocabulary, rows=False) if kept else NgramDrafter(shortest=1)
    other = ModelDrafter(TableBackend(draft), 3, coupled=True)
    pair = HybridDrafter(lookup, other, target.vocabulary)
    engine = Engine(TableBackend(target), pair, "coupling", adaptive=False)
    (_, places), *_ = run(engine, prompts=((1, 2, 1, 2, 1),))
    assert places.drafted > 0
    assert places.hidden == places.drafted
    assert not places.rows


def test_a_recorder_leaves_the_engine_and_its_text_alone():
    engine = table_engine()
    inner = engine.drafting.drafter
    found = [list(request.sequence.output) for request, _ in run(engine)]
    assert engine.drafting.drafter is inner
    plain = table_engine().generate([[1, 2], [3]], SamplingParams(max_tokens=40, seed=5))
    assert found == [list(result.tokens) for result in plain]


def test_a_failing_engine_is_left_alone_too():
    engine = table_engine()
    inner = engine.drafting.drafter
    with pytest.raises(RuntimeError), recorded(engine):
        raise RuntimeError
    assert engine.drafting.drafter is inner


SETTINGS = [
    SamplingParams(max_tokens=20, seed=1),
    SamplingParams(max_tokens=20, seed=1, temperature=0.7, top_k=5, top_p=0.9),
    SamplingParams(max_tokens=20, seed=1, repetition_penalty=1.3, presence_penalty=0.5, min_tokens=5),
]


@pytest.mark.parametrize("params", SETTINGS, ids=("plain", "filters", "penalties"))
def test_rows_of_a_text_are_those_of_token_by_token_recomputation(params):
    model = tiny_model("llama", 11)
    backend = HFBackend(model)
    engine = Engine(backend, ModelDrafter(HFBackend(tiny_model("llama", 11, seed=1)), 3), eos=(0,))
    ((request, places),) = run(engine, params, prompts=((1, 2, 3),))
    start = engine.requests((1, 2, 3), params)[0]
    start.read(3)
    output = request.sequence.output
    logits = reference_for(backend)([1, 2, 3, *output], 3)
    portions = score(start.sequence, output, logits, Conditions(places, np.full(len(output), 0.5), 0.0))
    rows = np.concatenate([portion.emissions.target for portion in portions])
    assert [int(t) for portion in portions for t in portion.emissions.tokens] == output
    for at, row in enumerate(rows):
        start.sequence.tokens = [1, 2, 3, *output[:at]]
        expected = warp_next(recomputed_logits(model, start.sequence.tokens), start.sequence)
        assert row == pytest.approx(expected.numpy(), abs=1e-9)


def test_a_token_at_the_edge_of_a_filter_is_told_from_a_forbidden_one():
    engine = table_engine()
    start = engine.requests([1], SamplingParams(top_k=2))[0]
    start.read(1)
    logits = torch.tensor([[2.0, 1.0, 0.999, 0.0, *[-1.0] * 8]])
    for token, edge, forbidden in ((1, 0, 0), (2, 1, 0), (3, 0, 1)):
        (portion,) = score(start.sequence, [token], logits, Conditions(None, np.zeros(1), 0.01))
        assert portion.edge == edge
        assert int((portion.emissions.mass == 0).sum()) == forbidden
        assert portion.gaps == pytest.approx(2.0 - logits[0, token].item())
        assert portion.runners_up == pytest.approx(1.0)


def test_where_texts_end():
    engine = table_engine()
    engine.eos = frozenset({7})
    start = engine.requests([1], SamplingParams(max_tokens=3))[0]
    start.read(1)
    cases = [([1, 2, 3], "length", True), ([1, 7], "stop", True), ([1, 7, 2], "length", False)]
    cases += [([1, 2, 3, 4], "length", False), ([1, 2], "length", False), ([1, 2, 7], "length", False)]
    for output, finish, right in cases:
        assert ends_right(start.sequence, output, finish, 1 << 20) == right


def test_a_backend_that_cannot_be_scored_is_refused():
    with pytest.raises(SpecproofError, match="give reference="):
        reference_for(object())
    target, _ = tables()
    tokens = [1, 2, 3, 4]
    assert torch.equal(reference_for(TableBackend(target))(tokens, 2), scores(target)(tokens, 2))


def test_a_drafter_that_lies_about_its_rows_is_recorded_as_it_lies():
    _, draft = tables()
    (request, places), *_ = run(draw.colder_drafter(table_engine()))
    place = next(iter(places.rows))
    row = draft.row(request.sequence.tokens[: request.sequence.prompt_length + place])
    assert torch.allclose(places.rows[place], row, atol=1e-12)
