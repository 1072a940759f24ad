"""Drafters return what they drew, within budget, and roll their caches back."""

import pytest
import torch

from specproof.audit.mutants.cache import StaleBackend
from specproof.audit.mutants.draw import ColderDrafter, EagerDrafter
from specproof.backends.hf import HFBackend
from specproof.backends.table import TableBackend, TableModel
from specproof.drafters import choose_drafter
from specproof.drafters.model import ModelDrafter
from specproof.drafters.ngram import NgramDrafter
from specproof.drafters.none import NoDrafter
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.noise import CounterNoise
from specproof.testing.conformance import check_drafter
from specproof.testing.tiny import ARCHITECTURES, tiny_model
from specproof.tree import Tree
from specproof.types import SamplingParams, TokenSequence


def sequence(tokens):
    return TokenSequence(list(tokens), len(tokens), SamplingParams(), 0)


def propose(drafter, tokens, budget=15):
    draft = drafter.draft([sequence(tokens)], [budget], CounterNoise())
    return draft.tokens[0, : len(draft.trees[0])].tolist()


@pytest.fixture(scope="module")
def target():
    return HFBackend(tiny_model("llama", 5))


def test_no_drafter_conforms(target):
    check_drafter(NoDrafter, target)


def test_ngram_conforms(target):
    check_drafter(lambda: NgramDrafter(shortest=1), target)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_transformer_as_drafter_conforms(architecture, target):
    model = tiny_model(architecture, 5, seed=1)
    check_drafter(lambda: ModelDrafter(HFBackend(model), 3), target)


def test_a_table_as_drafter_conforms(target):
    table = TableModel.random(5, 2, torch.Generator().manual_seed(0))
    check_drafter(lambda: ModelDrafter(TableBackend(table), 3), target)


@pytest.mark.parametrize("drawn", ["iid", "without_replacement", "top_and_one", "point"])
@pytest.mark.parametrize("tree", [Tree.levels((2, 1)), Tree.levels((1, 2)), Tree((-1, -1, -1, 0, 0, 2))])
def test_trees_conform(tree, drawn, target):
    model = tiny_model("llama", 5, seed=1)
    check_drafter(lambda: ModelDrafter(HFBackend(model), tree, drawn), target, budget=5)


def test_a_row_with_fewer_tokens_than_children_has_fewer_children(target):
    """Top-k 3 leaves three different tokens; the fourth child and its subtree are not there."""
    drafter = ModelDrafter(HFBackend(tiny_model("llama", 5, 1)), Tree.levels((4, 1)), "without_replacement")
    one = TokenSequence([1, 2], 2, SamplingParams(top_k=3), 0)
    tree = drafter.draft([one], [8], CounterNoise()).trees[0]
    assert tree.parents == (-1, -1, -1, 0, 1, 2)


def test_a_budget_cuts_the_tree_by_whole_levels(target):
    """Or to some children of the root: paths of one length keep one length, which `multipath` needs."""
    drafter = ModelDrafter(HFBackend(tiny_model("llama", 5, 1)), Tree.levels((2, 2)))
    trees = drafter.draft([sequence([n]) for n in range(5)], [5, 0, 9, 1, 6], CounterNoise()).trees
    whole = (-1, -1, 0, 1, 0, 1)
    assert [tree.parents for tree in trees] == [(-1, -1), (), whole, (-1,), whole]


@pytest.mark.parametrize(
    ("faulty", "message"),
    [
        (lambda backend: ModelDrafter(StaleBackend(backend), 3), "differ"),
        (lambda backend: ColderDrafter(backend, 3), "rows give"),
        (lambda backend: EagerDrafter(backend, 4), "for a budget of"),
    ],
    ids=["a stale cache", "rows of another temperature", "too many nodes"],
)
def test_the_conformance_call_sees_faulty_drafters(faulty, message, target):
    model = tiny_model("llama", 5, seed=1)
    with pytest.raises(AssertionError, match=message):
        check_drafter(lambda: faulty(HFBackend(model)), target)


def test_ngram_prefers_the_longest_suffix_then_the_latest():
    drafter = NgramDrafter(longest=3, shortest=1, length=3)
    #            1 2 3 -> 7   ..2 3 -> 8       ..2 3
    assert propose(drafter, [1, 2, 3, 7, 9, 5, 2, 3, 8, 1, 2, 3]) == [7, 9, 5]
    assert propose(drafter, [1, 2, 7, 1, 2, 8, 1, 2]) == [8, 1, 2]


def test_ngram_reads_the_output_too_and_runs_into_its_own_repetition():
    assert propose(NgramDrafter(shortest=1, length=4), [4, 4, 4]) == [4]
    assert propose(NgramDrafter(shortest=2), [1, 2, 1, 2, 1, 2]) == [1, 2]


def test_ngram_proposes_no_more_than_twice_the_match():
    assert propose(NgramDrafter(shortest=1), [1, 5, 6, 7, 8, 9, 1]) == [5, 6]


@pytest.mark.parametrize("tokens", [[1], [1, 2], [1, 2, 3, 4]])
def test_ngram_proposes_nothing_without_a_match(tokens):
    assert propose(NgramDrafter(), tokens) == []


def test_ngram_respects_its_budget():
    text = [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4]
    assert propose(NgramDrafter(), text, budget=2) == [5, 6]
    assert propose(NgramDrafter(), text, budget=0) == []


def test_b37_a_draft_model_stops_at_its_own_context():
    """Field case B37: no position at or above the drafter's limit is scored (GPT-2 would raise)."""
    drafter = ModelDrafter(HFBackend(tiny_model("gpt2", 5, context=12)), 5)
    sizes = {
        n: len(drafter.draft([sequence([1] * n)], [9], CounterNoise()).trees[0]) for n in (1, 8, 10, 12, 13, 15)
    }
    assert sizes == {1: 5, 8: 5, 10: 3, 12: 1, 13: 0, 15: 0}


@pytest.mark.parametrize("length", range(1, 6))
@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_b23_a_target_that_drafts_for_itself_is_always_right(architecture, length):
    """Field case B23: at temperature 0 acceptance is exactly 1; a stale draft cache shows nowhere else."""
    target = tiny_model(architecture, 7, context=220)
    engine = Engine(HFBackend(target), ModelDrafter(HFBackend(target), length), adaptive=False)
    result = engine.generate([[1, 2, 3]], SamplingParams(temperature=0, max_tokens=200))[0]
    assert result.stats.drafted == result.stats.accepted >= 100
    assert result.stats.acceptance == 1


def test_choosing_a_drafter(target):
    assert choose_drafter("ngram", target).drawn == "point"
    assert choose_drafter("model", target, HFBackend(tiny_model("llama", 5, 1))).drawn == "iid"
    with pytest.raises(
        SpecproofError,
        match="drafter 'magic'; choose one of: dflash, eagle3, early_exit, hybrid, medusa, model, ngram, none",
    ):
        choose_drafter("magic", target)
    with pytest.raises(SpecproofError, match="needs a draft model"):
        choose_drafter("model", target)
    with pytest.raises(SpecproofError, match="'ngram' takes no draft model"):
        choose_drafter("ngram", target, HFBackend(tiny_model("llama", 5, 1)))
    with pytest.raises(SpecproofError, match="vocabulary of 6 tokens and the target one of 5"):
        choose_drafter("model", target, HFBackend(tiny_model("llama", 6, 1)))


def test_impossible_settings_are_refused(target):
    with pytest.raises(SpecproofError, match="ngram lengths 3 to 2"):
        NgramDrafter(longest=2, shortest=3)
    with pytest.raises(SpecproofError, match="draft of 0 nodes"):
        ModelDrafter(target, 0)
    with pytest.raises(SpecproofError, match="not level by level"):
        ModelDrafter(target, Tree((-1, 0, -1)))
