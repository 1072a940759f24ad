"""What both rules for sampled trees must satisfy: exact, equal to their specification, batched, robust."""

from dataclasses import replace

import pytest
import torch
from tree_cases import DRAWS, SHAPES, distance, random_draft, random_instance, specified

from specproof.errors import SpecproofError
from specproof.rules import RULES
from specproof.tree import Tree
from specproof.types import Draft

NAMES = ("siblings", "traversal")
MIXED = (*SHAPES, Tree(()), Tree((-1, 0, 0, 2, -1, 4)), Tree((-1, -1, 0, 1, 1, 2)))


@pytest.mark.parametrize("drawn", DRAWS)
@pytest.mark.parametrize("tree", SHAPES, ids=lambda tree: str(tree.parents))
def test_output_law_is_the_target(tree, drawn):
    for seed in (0, 1):
        instance = random_instance(tree, drawn, seed)
        assert max(distance(RULES[name], instance) for name in NAMES) <= 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("drawn", DRAWS)
def test_output_law_is_the_target_on_many_instances(drawn):
    instances = [random_instance(tree, drawn, seed) for tree in SHAPES for seed in range(2, 12)]
    instances += [
        random_instance(tree, drawn, seed, vocabulary=4)
        for tree in SHAPES
        if len(tree) <= 4
        for seed in range(2, 7)
    ]
    assert len(instances) >= 150
    for instance in instances:
        assert max(distance(RULES[name], instance) for name in NAMES) <= 1e-12


@pytest.mark.parametrize("drawn", DRAWS)
def test_a_text_of_many_rounds_has_the_law_of_the_target(drawn):
    instance = replace(random_instance(Tree((-1, -1, 0)), drawn, 3), length=5)
    assert max(distance(RULES[name], instance) for name in NAMES) <= 1e-12


@pytest.mark.parametrize("drawn", DRAWS)
@pytest.mark.parametrize("name", NAMES)
def test_equals_its_specification_in_a_batch_of_different_trees(name, drawn):
    for seed in range(8):
        target, draft = random_draft(MIXED, drawn, seed)
        law = RULES[name](target, draft)
        assert torch.allclose(law.stop.sum(-1), torch.ones(len(MIXED), dtype=torch.float64), atol=1e-14)
        for b, tree in enumerate(MIXED):
            exact = specified(RULES[name].specification(drawn), target, draft, b)
            assert law.stop[b, len(tree) + 1 :].eq(0).all()
            for row, (stop, following) in enumerate(zip(exact.stop, exact.next, strict=True)):
                assert abs(law.stop[b, row] - float(stop)) <= 1e-14
                if stop > 0:
                    found = law.next(torch.full((len(MIXED),), row))[b]
                    assert torch.allclose(found, torch.tensor([float(x) for x in following]).double(), atol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_nothing_was_drawn_from_are_not_read(name):
    target, draft = random_draft(MIXED, "iid", 1)
    spoiled = draft.rows.clone()
    for b, tree in enumerate(MIXED):
        for row in range(spoiled.shape[1]):
            if row > len(tree) or not tree.children(row - 1):
                spoiled[b, row] = torch.nan
    law, other = RULES[name](target, draft), RULES[name](target, replace(draft, rows=spoiled))
    assert torch.equal(law.stop, other.stop)
    for row in range(spoiled.shape[1]):
        at = torch.full((len(MIXED),), row)
        assert torch.equal(law.next(at), other.next(at))


@pytest.mark.parametrize("drawn", DRAWS)
@pytest.mark.parametrize("name", NAMES)
def test_equal_rows_accept_the_first_path(name, drawn):
    trees = (Tree((-1, 0, -1, 2)), Tree((-1, -1, 0, 0, 1)))
    _, draft = random_draft(trees, drawn, 4)
    law = RULES[name](draft.rows, draft)
    # Rounding apart, the first leaf on the way down from first child to first child is where it stops.
    assert torch.allclose(law.stop, torch.eye(6, dtype=torch.float64)[[2, 3]], atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_disjoint_support_refuses_all(name):
    target = torch.tensor([[[0.0, 0.0, 0.5, 0.5]] * 4]).double()
    rows = torch.tensor([[[0.5, 0.5, 0.0, 0.0]] * 4]).double()
    draft = Draft((Tree((-1, -1, 1)),), torch.tensor([[0, 1, 1]]), rows, "without_replacement")
    law = RULES[name](target, draft)
    assert law.stop.tolist() == [[1, 0, 0, 0]]
    assert law.next(torch.tensor([0])).tolist() == [[0, 0, 0.5, 0.5]]


@pytest.mark.parametrize("drawn", DRAWS)
@pytest.mark.parametrize("name", NAMES)
def test_temperature_zero_follows_the_argmax(name, drawn):
    one_hot = torch.eye(3, dtype=torch.float64)
    target = one_hot[[1, 2, 0, 2, 0]][None]
    rows = torch.full((1, 5, 3), 1 / 3, dtype=torch.float64)
    # The root's argmax 1 is the second child; below it 0 is drafted, and the argmax there is 0.
    draft = Draft((Tree((-1, -1, 0, 1)),), torch.tensor([[0, 1, 2, 0]]), rows, drawn)
    law = RULES[name](target, draft)
    assert law.stop.tolist() == [[0, 0, 0, 0, 1]]
    assert law.next(torch.tensor([4])).tolist() == [[1, 0, 0]]


@pytest.mark.parametrize("name", NAMES)
def test_tokens_that_fill_up_after_the_row_ran_out_change_nothing(name):
    target = torch.tensor([[[0.2, 0.3, 0.5]] * 4]).double()
    rows = torch.tensor([[[0.6, 0.4, 0.0]] * 4]).double()
    filled = Draft((Tree((-1, -1, -1)),), torch.tensor([[0, 1, 1]]), rows, "without_replacement")
    short = Draft((Tree((-1, -1)),), filled.tokens[:, :2], rows[:, :3], "without_replacement")
    law, other = RULES[name](target, filled), RULES[name](target[:, :3], short)
    assert torch.equal(law.stop, torch.nn.functional.pad(other.stop, (0, 1)))
    assert torch.equal(law.next(torch.tensor([0])), other.next(torch.tensor([0])))


@pytest.mark.parametrize("drawn", DRAWS)
@pytest.mark.parametrize("name", NAMES)
def test_float32_at_a_large_vocabulary(name, drawn):
    trees = (Tree((-1, -1, 0, 0, 1)), Tree((-1, 0, 1)))
    generator = torch.Generator().manual_seed(0)
    target, rows = (torch.randn(2, 2, 6, 50_000, generator=generator) * 4).softmax(-1)
    tokens = rows[:, 0].topk(5).indices
    law = RULES[name](target, Draft(trees, tokens, rows, drawn))
    exact = RULES[name](target.double(), Draft(trees, tokens, rows.double(), drawn))
    assert law.stop.dtype == torch.float32
    assert torch.allclose(law.stop, exact.stop.float(), atol=1e-5)
    at = law.stop.argmax(-1)
    assert torch.allclose(law.next(at).sum(-1), torch.ones(2), atol=1e-5)
    assert torch.allclose(law.next(at), exact.next(at).float(), atol=1e-5)


@pytest.mark.parametrize("name", [name for name in NAMES if "point" not in RULES[name].draws])
def test_point_drafts_are_refused(name):
    draft = Draft((Tree((-1, -1)),), torch.tensor([[0, 1]]), None, "point")
    with pytest.raises(SpecproofError, match="does not take point trees; rules that do: walk"):
        RULES[name](torch.full((1, 3, 2), 0.5), draft)


@pytest.mark.parametrize("name", NAMES)
def test_padding_alone_gives_plain_decoding(name):
    rows = torch.full((2, 3, 4), 0.25, dtype=torch.float64)
    law = RULES[name](rows, Draft((Tree(), Tree()), torch.zeros(2, 2, dtype=torch.long), rows, "iid"))
    assert law.stop.tolist() == [[1, 0, 0]] * 2
    assert torch.equal(law.next(torch.tensor([0, 0])), rows[:, 0])


@pytest.mark.parametrize("drawn", ["iid", "without_replacement"])
def test_traversal_judges_over_the_tokens_that_can_be_drafted(drawn):
    """Tokens that nobody draws, in one sum or one by one: the same law."""
    trees = (Tree((-1, -1, 0, 0, 1)), Tree((-1, 0, 1)))
    generator = torch.Generator().manual_seed(0)
    target = torch.rand(2, 6, 40, generator=generator, dtype=torch.float64).softmax(-1)
    rows = torch.zeros_like(target)
    rows[..., 3:22:2] = torch.rand(2, 6, 10, generator=generator, dtype=torch.float64).softmax(-1)
    tokens = rows[:, 0].topk(5).indices
    wide = torch.where(rows > 0, rows, 1e-300)  # every token can be drafted, by a hair
    law, expected = (RULES["traversal"](target, Draft(trees, tokens, each, drawn)) for each in (rows, wide))
    assert torch.allclose(law.stop, expected.stop, rtol=0, atol=1e-14)
    for at in range(4):
        places = torch.tensor([at, at])
        assert torch.allclose(law.next(places), expected.next(places), rtol=0, atol=1e-14)


def test_traversal_takes_points_as_the_walk_does():
    target = torch.rand(1, 4, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64).softmax(-1)
    draft = Draft((Tree((-1, -1, 0)),), torch.tensor([[1, 2, 3]]), None, "point")
    assert torch.equal(RULES["traversal"](target, draft).stop, RULES["walk"](target, draft).stop)
