"""The shared pieces against their plain formulas, on batches and vocabularies that are cut into pieces."""

import pytest
import torch

from specproof.rules.rows import drawn_rows, excess_mass, normalised, pick, residual
from specproof.tree import Tree
from specproof.types import Draft


def random_rows(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (3 * torch.randn(*shape, generator=generator, dtype=torch.float64)).softmax(-1)


@pytest.mark.parametrize(
    ("batch", "count", "vocabulary"),
    [(3, 0, 7), (1, 1, 1), (5, 3, 11), (3, 4, 50_000), (2, 2, 200_000), (7, 1, 40_000)],
)
def test_excess_mass_is_the_sum_of_what_is_positive(batch, count, vocabulary):
    target, drawn = random_rows(batch, count, vocabulary), random_rows(batch, count, vocabulary, seed=1)
    weight = torch.rand(batch, count, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    plain = (weight[..., None] * target - drawn).clamp(min=0).sum(-1)
    found = excess_mass(target, drawn, weight)
    assert found.shape == plain.shape
    assert torch.allclose(found, plain, rtol=1e-12, atol=0)


def test_equal_rows_leave_exactly_nothing():
    rows = random_rows(2, 3, 30_000).float()
    assert (excess_mass(rows, rows, torch.ones(2, 3)) == 0).all()


@pytest.mark.parametrize("point", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_residual_has_its_formula_at_every_row(point, weighted):
    """Chains of 3, 1 and 0 nodes; at a leaf and at padding the residual is the whole row."""
    target, drawn = random_rows(3, 4, 9), random_rows(3, 4, 9, seed=1)
    trees = (Tree.chain(3), Tree.chain(1), Tree.chain(0))
    tokens = torch.tensor([[1, 2, 3], [4, 0, 0], [0, 0, 0]])
    draft = Draft(trees, tokens, None if point else drawn, "point" if point else "iid")
    weight = random_rows(3, 4, seed=3) if weighted else None
    kept = target.clone(), drawn.clone()
    for row in range(4):
        at = torch.full((3,), row)
        scale = 1 if weight is None else weight[:, row, None]
        gap = (scale * target[:, row] - drawn_rows(target, draft)[:, row]).clamp(min=0)
        plain = torch.where(gap.sum(-1, keepdim=True) > 0, gap / gap.sum(-1, keepdim=True), target[:, row])
        assert torch.allclose(residual(target, draft, at, weight), plain, rtol=1e-12, atol=0)
    assert torch.equal(target, kept[0])
    assert torch.equal(drawn, kept[1])


def test_where_nothing_is_left_the_fallback_stands_in():
    rows = torch.tensor([[0.0, 0.0], [1.0, 3.0]])
    assert normalised(rows, torch.tensor([[0.5, 0.5], [0.0, 1.0]])).tolist() == [[0.5, 0.5], [0.25, 0.75]]


def test_pick_takes_each_sequence_its_own_row_and_copies_it():
    rows = torch.arange(24.0).reshape(2, 3, 4).transpose(1, 2)  # [2, 4, 3], not contiguous
    picked = pick(rows, torch.tensor([3, 1]))
    assert torch.equal(picked, torch.stack([rows[0, 3], rows[1, 1]]))
    picked.zero_()
    assert rows.sum() == 276
