"""The hybrid drafter: one chain or the other, each with the rows it was drawn from, and the law exact."""

from functools import partial

import pytest
import torch

from specproof.audit.engine_suite import audit_engines
from specproof.backends.hf import HFBackend
from specproof.drafters.eagle3 import Eagle3Drafter
from specproof.drafters.hybrid import HybridDrafter
from specproof.drafters.model import ModelDrafter
from specproof.drafters.ngram import NgramDrafter
from specproof.drafters.shapes.expand import Dynamic, Mixed
from specproof.drafters.suffix import SuffixDrafter
from specproof.engine.baseline import decode
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.noise import CounterNoise
from specproof.testing.conformance import check_drafter
from specproof.testing.tiny import recomputed_logits, tiny_head, tiny_model
from specproof.tree import Tree
from specproof.types import SamplingParams, TokenSequence

VOCABULARY = 7


def other(coupled=False, length=3, drawn="iid"):
    return ModelDrafter(HFBackend(tiny_model("llama", VOCABULARY, 1)), length, drawn, coupled=coupled)


def hybrid(coupled=False, least=3):
    return HybridDrafter(NgramDrafter(), other(coupled), VOCABULARY, least)


def growing(least=3):
    return HybridDrafter(NgramDrafter(), other(length=Dynamic(2, 2, 4), drawn="point"), VOCABULARY, least)


def mixed(least=3):
    shape = Mixed(Tree((-1, -1, 0)), Dynamic(2, 2, 4))
    return HybridDrafter(NgramDrafter(), other(length=shape, drawn="without_replacement"), VOCABULARY, least)


def sequence(tokens, **params):
    return TokenSequence(list(tokens), len(tokens), SamplingParams(**params), 0)


def test_it_conforms():
    for make in (hybrid, growing, mixed):
        check_drafter(lambda make=make: make(least=1), HFBackend(tiny_model("llama", VOCABULARY)))


def test_a_long_match_is_looked_up_and_the_rest_is_drawn():
    batch = [sequence([1, 2, 3, 4, 5, 1, 2, 3]), sequence([1, 2, 3, 4, 5, 6]), sequence([1, 2, 1, 2])]
    draft = hybrid().draft(batch, [5, 5, 1], CounterNoise())
    alone = other().draft(batch[1:2], [5], CounterNoise())
    assert draft.drawn == "iid"
    assert [len(tree) for tree in draft.trees] == [5, 3, 1]
    assert draft.tokens[0].tolist() == [4, 5, 1, 2, 3]
    assert torch.equal(draft.rows[0, range(5), draft.tokens[0]], torch.ones(5).double())
    assert torch.equal(draft.rows[0].sum(-1), torch.tensor([1, 1, 1, 1, 1, 0]).double())
    assert draft.tokens[1, :3].tolist() == alone.tokens[0].tolist()
    assert torch.equal(draft.rows[1, :3], alone.rows[0, :3])
    assert draft.tokens[2, 0] == 1, "what the budget cut counts as long"


def test_beside_a_looked_up_chain_stands_a_tree_of_points():
    batch = [sequence([1, 2, 3, 4, 5, 1, 2, 3]), sequence([1, 2, 3, 4, 5, 6])]
    draft = growing().draft(batch, [5, 5], CounterNoise())
    alone = other(length=Dynamic(2, 2, 4), drawn="point").draft(batch[1:], [5], CounterNoise())
    assert (draft.drawn, draft.rows) == ("point", None)
    assert draft.trees == (Tree.chain(5), alone.trees[0])
    assert draft.tokens[0].tolist() == [4, 5, 1, 2, 3]
    assert draft.tokens[1, :4].tolist() == alone.tokens[0].tolist()
    assert not growing().chains


def test_beside_a_looked_up_chain_stands_a_tree_of_distinct_tokens():
    batch = [sequence([1, 2, 3, 4, 5, 1, 2, 3]), sequence([1, 2, 3, 4, 5, 6])]
    draft = mixed().draft(batch, [5, 5], CounterNoise())
    alone = other(length=Tree((-1, -1, 0)), drawn="without_replacement").draft(batch[1:], [5], CounterNoise())
    assert (draft.drawn, draft.trees) == ("without_replacement", (Tree.chain(5), Tree((-1, -1, 0))))
    assert torch.equal(draft.rows[0, range(5), draft.tokens[0]], torch.ones(5).double())
    assert torch.equal(draft.rows[1, :2], alone.rows[0, :2])
    greedy = mixed().draft([sequence([1, 2, 3, 4, 5, 6], temperature=0)], [5], CounterNoise())
    assert (greedy.drawn, greedy.rows, len(greedy.trees[0])) == ("point", None, 4)


@pytest.mark.parametrize("params", ["filters", "text"])
@pytest.mark.parametrize("drafter", ["hybrid", "hybrid-dynamic", "hybrid-mixed"])
def test_the_engine_keeps_the_law_exactly(drafter, params):
    results = [result for _, result in audit_engines(drafters=[drafter], params=params)]
    assert len({result.rule for result in results}) >= (4 if drafter == "hybrid" else 2)
    assert all(result.tv <= 1e-12 for result in results)
    assert all(result.rounds for result in results)


@pytest.mark.parametrize("rule", ["block", "coupling", "walk"])
def test_texts_are_those_of_plain_decoding_at_temperature_0(rule):
    """Both kinds of draft occur, with an EAGLE head that has to catch up on what was looked up."""
    model = tiny_model("llama", VOCABULARY)
    head = tiny_head(model, [0, 2, 3, 5], seed=1)
    target = HFBackend(model, taps=head.config.taps)
    lookup = SuffixDrafter(branching=False)
    shape = (Dynamic(3, 2, 5), "point") if rule == "walk" else (3, "iid")
    drafter = HybridDrafter(lookup, Eagle3Drafter(head, target, *shape, coupled=rule == "coupling"), VOCABULARY)
    settings = {"temperature": 0, "max_tokens": 50}
    prompts = [[1, 2, 3], [4, 4, 1, 6], [5]]
    results = Engine(target, drafter, rule, adaptive=False).generate(prompts, SamplingParams(**settings))
    plain = [decode(partial(recomputed_logits, model), sequence(p, **settings), CounterNoise()) for p in prompts]
    assert [list(result.tokens) for result in results] == plain
    assert not any(result.warnings for result in results)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HybridDrafter(SuffixDrafter(), other(), VOCABULARY), "give 'ngram'"),
        (lambda: HybridDrafter(other(), other(), VOCABULARY), "give 'ngram'"),
        (lambda: HybridDrafter(NgramDrafter(), other(length=Tree((-1, -1))), VOCABULARY), "a chain's length"),
        (lambda: hybrid(least=0), "least=0"),
    ],
)
def test_what_does_not_go_together_is_refused(make, message):
    with pytest.raises(SpecproofError, match=message):
        make()
