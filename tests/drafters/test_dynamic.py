"""Trees that grow where the draft model is confident: the paper's example, caches, and only for point drafts."""

from dataclasses import replace

import pytest
import torch

from specproof.audit.engine_exact import engine_law
from specproof.audit.enumerate import EnumeratingNoise
from specproof.backends.hf import HFBackend
from specproof.backends.table import TableBackend, TableModel
from specproof.drafters.model import ModelDrafter
from specproof.drafters.shapes.expand import Dynamic, Mixed
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.noise import CounterNoise
from specproof.rules import RULES
from specproof.testing.conformance import check_drafter
from specproof.testing.tiny import ARCHITECTURES, tiny_model
from specproof.tree import Tree
from specproof.types import SamplingParams, TokenSequence


def sequence(tokens, **params):
    return TokenSequence(list(tokens), len(tokens), SamplingParams(**params), 0)


def figure_seven():
    """The example of EAGLE-2 as a model that looks at one token; what it leaves open is spread evenly."""
    it, is_, has, a, the, to, good, be, nice, do = range(10)
    known = {
        it: {is_: 0.6, has: 0.2},
        is_: {a: 0.8, the: 0.1},
        has: {to: 0.7, a: 0.1},
        a: {good: 0.7, nice: 0.1},
        to: {be: 0.6, do: 0.2},
    }
    rows = torch.full((10, 10), 0.1).double()
    for token, following in known.items():
        rows[token] = (1 - sum(following.values())) / 8
        for child, confidence in following.items():
            rows[token, child] = confidence
    return TableModel((torch.full((1, 10), 0.1).double(), rows)), (is_, has, a, the, to, good, be)


def test_the_known_tree_comes_out_of_a_model():
    model, expected = figure_seven()
    drafter = ModelDrafter(TableBackend(model), Dynamic(depth=3, width=2, nodes=7), "point")
    draft = drafter.draft([sequence([0])], [16], CounterNoise())
    assert tuple(draft.tokens[0].tolist()) == expected
    assert draft.trees[0].parents == (-1, -1, 0, 0, 1, 2, 4)
    assert draft.rows is None


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_dynamic_tree_conforms(architecture):
    model, target = tiny_model(architecture, 5, seed=1), HFBackend(tiny_model("llama", 5))
    check_drafter(lambda: ModelDrafter(HFBackend(model), Dynamic(3, 2, 5), "point"), target, budget=5)


def test_a_cache_that_is_kept_by_the_wrong_numbers_is_seen():
    """Nodes of the draft and nodes that were scored have different numbers."""

    class Untranslated(ModelDrafter):
        def observe(self, batch, steps, output):
            self._scored.clear()
            super().observe(batch, steps, output)

    model, target = tiny_model("llama", 5, seed=1), HFBackend(tiny_model("llama", 5))
    with pytest.raises(AssertionError, match=r"kept entries are not the committed tokens|differ"):
        check_drafter(lambda: Untranslated(HFBackend(model), Dynamic(3, 2, 5), "point"), target, budget=5)


def test_a_model_that_drafts_for_itself_accepts_the_sum_of_the_values():
    """Values are probabilities of prefixes then, and no fixed tree of that size accepts more."""
    model = TableModel.random(4, 2, torch.Generator().manual_seed(5))
    backend, one = TableBackend(model), sequence([1, 2])

    def accepted(drafter):
        draft = drafter.draft([one], [6], CounterNoise())
        law = RULES["walk"](backend.forward([one], draft).logits.softmax(-1), draft)
        depths = torch.tensor([0, *draft.trees[0].depths]).double()
        return float((law.stop[0] * depths).sum()), draft

    found, draft = accepted(ModelDrafter(backend, Dynamic(3, 4, 6), "point"))
    values = []
    for node in range(6):
        path = draft.tokens[0, list(draft.trees[0].path(node))].tolist()
        rows = [model.row([1, 2, *path[:depth]])[token] for depth, token in enumerate(path)]
        values.append(torch.stack(rows).prod())
    assert found == pytest.approx(float(sum(values)), abs=1e-12)
    for shape in (Tree.chain(6), Tree.levels((2, 2)), Tree((-1, -1, -1, 0, 0, 1)), Tree((-1, -1, 0, 1, 2, 3))):
        assert accepted(ModelDrafter(backend, shape, "point"))[0] <= found + 1e-12


def test_a_greedy_request_has_second_choices_too():
    """At temperature 0 the warped row has one token; the confidences are those of temperature 1."""
    drafter = ModelDrafter(HFBackend(tiny_model("llama", 5)), Dynamic(2, 3, 6), "point")
    tree = drafter.draft([sequence([1, 2], temperature=0)], [6], CounterNoise()).trees[0]
    assert len(tree.children(-1)) >= 2


def test_a_mixed_tree_grows_where_all_texts_are_greedy_and_is_fixed_elsewhere():
    fixed, grown = Tree((-1, -1, 0)), Dynamic(2, 3, 6)
    drafter = ModelDrafter(HFBackend(tiny_model("llama", 5)), Mixed(fixed, grown), "without_replacement")
    alone = ModelDrafter(HFBackend(tiny_model("llama", 5)), grown, "point")
    cold, warm = sequence([1, 2], temperature=0), sequence([1, 2])
    assert not drafter.chains
    draft, expected = (each.draft([cold], [6], CounterNoise()) for each in (drafter, alone))
    assert (draft.trees, draft.tokens.tolist(), draft.drawn) == (expected.trees, expected.tokens.tolist(), "point")
    drafter.free([cold])
    draft = drafter.draft([cold, warm], [6, 6], CounterNoise())
    # At temperature 0 a row has one token, so a node has one child.
    assert (draft.trees, draft.drawn) == ((Tree((-1, 0)), fixed), "without_replacement")


def test_a_mixed_tree_conforms():
    target = HFBackend(tiny_model("llama", 5))
    shape = Mixed(Tree((-1, -1, 0)), Dynamic(2, 2, 4))
    model = tiny_model("llama", 5, seed=1)
    check_drafter(lambda: ModelDrafter(HFBackend(model), shape, "without_replacement"), target, budget=5)


def test_only_a_greedy_text_may_get_points_for_draws():
    class Points(ModelDrafter):
        def draft(self, batch, budget, noise):
            return self._expand(batch, budget, Dynamic(2, 2, 4))

    shape = Mixed(Tree((-1, -1, 0)), Dynamic(2, 2, 4))
    target, draft = HFBackend(tiny_model("llama", 5)), HFBackend(tiny_model("llama", 5, seed=1))
    engine = Engine(target, Points(draft, shape, "without_replacement"), adaptive=False)
    warm, cold = (
        engine.generate([[1, 2]], SamplingParams(temperature=temperature, max_tokens=9, ignore_eos=True))[0]
        for temperature in (1, 0)
    )
    assert "drafted 'point' where 'without_replacement' drafts were promised" in warm.warnings[0]
    assert (cold.warnings, cold.rule) == ((), "traversal")
    assert cold.stats.drafted


def test_budget_and_context_cut_the_tree():
    drafter = ModelDrafter(HFBackend(tiny_model("gpt2", 5, context=12)), Dynamic(4, 2, 9), "point")
    batch = [sequence([1] * length) for length in (1, 3, 2, 11, 12, 13)]
    trees = drafter.draft(batch, [9, 0, 2, 9, 9, 9], CounterNoise()).trees
    assert [len(tree) for tree in trees] == [9, 0, 2, 6, 2, 0]
    assert [max(tree.depths, default=0) for tree in trees[3:]] == [2, 1, 0]


def test_numbers_of_nodes_are_forgotten_with_their_sequence():
    drafter = ModelDrafter(HFBackend(tiny_model("llama", 5)), "dynamic", "point")
    one = sequence([1, 2])
    drafter.draft([one], [9], CounterNoise())
    drafter.free([one])
    assert not drafter._scored


class Dropping(ModelDrafter):
    """Draws a token, then keeps it only if it is token 0: a pruned sample."""

    def draft(self, batch, budget, noise):
        draft = super().draft(batch, budget, noise)
        if draft.rows is None:
            return draft
        trees = [tree if 0 in draft.tokens[b, : len(tree)] else Tree() for b, tree in enumerate(draft.trees)]
        width = max(map(len, trees))
        return replace(draft, trees=tuple(trees), tokens=draft.tokens[:, :width], rows=draft.rows[:, : width + 1])


@pytest.mark.parametrize(
    ("kind", "expected"), [(ModelDrafter, (1 / 2, 1 / 2)), (Dropping, (3 / 4, 1 / 4))], ids=["kept", "dropped"]
)
def test_dropping_a_sampled_node_by_its_value_biases_the_text(kind, expected):
    """Target and draft are both (1/2, 1/2); a dropped second token makes the first one 3/4."""
    model = TableBackend(TableModel.constant([0.5, 0.5]))
    engine = Engine(model, kind(model, 1), "rejection", noise=EnumeratingNoise())
    law, _, _ = engine_law(engine, [0], SamplingParams(max_tokens=2))
    first = [sum(mass for text, mass in law.items() if text[0] == token) for token in (0, 1)]
    assert first == pytest.approx(expected, abs=1e-15)


def test_so_a_dynamic_tree_of_sampled_nodes_is_refused():
    backend = HFBackend(tiny_model("llama", 5))
    for drawn in ("iid", "without_replacement", "top_and_one"):
        with pytest.raises(SpecproofError, match=f"which biases {drawn} draws: give drawn='point'"):
            ModelDrafter(backend, "dynamic", drawn)
    with pytest.raises(SpecproofError, match="biases coupled draws"):
        ModelDrafter(backend, "dynamic", "point", coupled=True)
    with pytest.raises(SpecproofError, match="unknown tree 'bushy'"):
        ModelDrafter(backend, "bushy", "point")
