"""Shapes by name, and the static tree from measured acceptance."""

import pytest

from specproof.backends.hf import HFBackend
from specproof.drafters import choose_drafter
from specproof.drafters.model import ModelDrafter
from specproof.drafters.shapes.best_first import BestFirst
from specproof.drafters.shapes.expand import Dynamic, Mixed
from specproof.drafters.shapes.named import Shape, named_shape
from specproof.drafters.shapes.sequoia import optimal_tree
from specproof.engine.engine import Engine
from specproof.engine.loading import load_engine
from specproof.engine.shape import acceptance, measured_shape
from specproof.engine.stats import Statistics, StepRecord, places
from specproof.errors import SpecproofError
from specproof.testing.tiny import tiny_model
from specproof.tree import Tree
from specproof.types import SamplingParams


def test_names():
    assert named_shape("chain:5", 16) == Shape(5, "iid")
    assert named_shape("dynamic", 9, 2) == Shape(Dynamic(2, 4, 9), "point")
    assert named_shape("dynamic:3", 9) == Shape(Dynamic(5, 4, 3), "point")
    assert named_shape("best_first:20", 9) == Shape(BestFirst(9), "point")
    assert named_shape("best_first", 9) == Shape(BestFirst(9), "point")
    assert named_shape("sequoia:0.6,0.2,0.1", 15, 3) == Shape(
        optimal_tree((0.6, 0.2, 0.1), 15, 3), "without_replacement"
    )
    assert named_shape("mixed", 16).tree.fixed == optimal_tree((0.38, 0.1, 0.05, 0.03), 8, 2)
    assert named_shape("mixed:9", 16, 3) == Shape(
        Mixed(optimal_tree((0.38, 0.1, 0.05, 0.03), 4, 2), Dynamic(3, 4, 9)), "without_replacement"
    )
    assert named_shape("sequoia:0", 15).tree == Tree.chain(1)
    for name in ("bush", "chain", "chain:x", "sequoia:0.5,x", "dynamic:", "best_first:2.5", "mixed:x"):
        with pytest.raises(SpecproofError, match=f"unknown shape '{name}'; choose one of: chain:N, dynamic"):
            named_shape(name, 16)
    with pytest.raises(SpecproofError, match="0 nodes is not allowed"):
        named_shape("dynamic:0", 16)
    with pytest.raises(SpecproofError, match=r"acceptance \[0.7, 0.6\] is no law"):
        named_shape("sequoia:0.7,0.6", 16)


def test_acceptance_is_always_a_law():
    stats = Statistics()
    assert acceptance(stats) == [0.0]
    for tree, path in ((Tree((-1,)), (0,)), (Tree((-1, -1)), (1,)), (Tree((-1, -1, -1)), (1,))):
        record = StepRecord(tree.depths, 1, 2, 9, None, (0, 0, 0), places=places(tree, path))
        stats.add(record)
    # One of three first children was accepted, and both second ones: 1/3 + 1 + 0, scaled down.
    assert acceptance(stats) == [0.25, 0.75, 0.0]
    optimal_tree(acceptance(stats), 8)


def test_a_draft_model_that_is_the_target_gets_a_chain(word_tokenizer):
    """The first of its children is always accepted, whatever the sample: the best tree is as deep as it can be."""
    target = HFBackend(tiny_model("llama", 8, context=120))
    draft = HFBackend(tiny_model("llama", 8, context=120))

    def make(shape):
        return ModelDrafter(draft, *shape)

    name = measured_shape(target, make, word_tokenizer)
    assert name == "sequoia:1.000,0.000,0.000,0.000"
    assert named_shape(name, 6).tree == Tree.chain(6)
    assert target.store.rows == draft.store.rows == []


@pytest.mark.parametrize(("drafter", "nodes"), [("early_exit", 12), ("model", 7)])
def test_an_engine_drafts_in_the_shape_that_was_measured(drafter, nodes, model_folder, draft_folder):
    """Its name repeats it, and what it drafts is the best tree for the numbers in it."""
    options = {"drafter": drafter, "draft_model": draft_folder if drafter == "model" else None}
    options |= {"dtype": "float64", "budget": nodes}
    engine = load_engine(model_folder, shape="sequoia", **options)
    numbers = [float(number) for number in engine.shape.removeprefix("sequoia:").split(",")]
    assert len(numbers) == 4
    assert 0 < sum(numbers) <= 1
    assert engine.drafter.tree == optimal_tree(numbers, nodes)
    assert engine.drafter.drawn == "without_replacement"
    assert engine.rule_name == "traversal"
    assert engine.stats.steps == 0
    again = load_engine(model_folder, shape=engine.shape, **options)
    assert again.drafter.tree == engine.drafter.tree
    result = again.generate(["a b"], SamplingParams(max_tokens=20, seed=1, ignore_eos=True))[0]
    assert result.stats.offered_by_rank[2] > 0
    assert not result.warnings


def test_who_takes_no_shape_says_so():
    target = HFBackend(tiny_model("llama", 5))
    with pytest.raises(SpecproofError, match="drafter 'ngram' takes no shape"):
        choose_drafter("ngram", target, shape=named_shape("chain:2", 16))
    engine = Engine(target, choose_drafter("early_exit", target, shape=named_shape("chain:2", 16)))
    assert engine.drafter.tree == Tree.chain(2)
