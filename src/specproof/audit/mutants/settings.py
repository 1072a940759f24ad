"""The rows and shapes on which the catalogue states its exact distances."""

from fractions import Fraction as F

import torch

from specproof.backends.table import TableModel
from specproof.tree import Tree

TWO, THREE = Tree((-1, -1)), Tree((-1, -1, -1))

Rows = tuple[tuple[F, ...], tuple[F, ...]]  # target, draft


def _rows(unit: int, target: tuple[int, ...], draft: tuple[int, ...]) -> Rows:
    """Both rows in parts of a unit."""
    return tuple(F(part, unit) for part in target), tuple(F(part, unit) for part in draft)


EVEN = _rows(2, (1, 1), (1, 1))
TOY = _rows(3, (1, 2), (2, 1))
REVERSED = _rows(6, (3, 2, 1), (1, 2, 3))
LEANING = _rows(20, (8, 7, 5), (4, 4, 12))
FAR = _rows(10, (6, 3, 1), (2, 3, 5))
CROSSED = _rows(10, (3, 2, 5), (5, 3, 2))
FOUR = _rows(10, (1, 4, 3, 2), (5, 3, 1, 1))
HEAVY = _rows(20, (4, 6, 6, 4), (11, 5, 2, 2))
SOFT = _rows(10, (6, 4), (8, 2))
UNEVEN = _rows(4, (2, 2), (3, 1))
SURE = _rows(2, (1, 1), (2, 0))
FILTERED = _rows(14, (7, 7, 0, 0), (8, 6, 0, 0))
SECOND = _rows(20, (9, 6, 5), (5, 10, 5))
# What FILTERED was drawn from, before top-2.
RAW = (F(4, 10), F(3, 10), F(2, 10), F(1, 10))

# Tokens 0 and 1 are followed by 2 or 3, and these by 0 or 1.
SWITCHING = TableModel(
    (
        torch.tensor([[0.5, 0.5, 0.0, 0.0]]).double(),
        torch.tensor([[0.0, 0.0, 0.5, 0.5]] * 2 + [[0.5, 0.5, 0.0, 0.0]] * 2).double(),
    )
)
HALVES = TableModel.constant([0.5, 0.5])
TENTHS = TableModel.constant([0.6, 0.3, 0.1])
OTHERS = TableModel.constant([0.2, 0.3, 0.5])
# Greedy text is the first token until a frequency penalty of one was taken from it three times.
STEEP = TableModel.constant(torch.tensor([3.5, 1.0]).double().softmax(-1).tolist())
ENDING = TableModel.constant([0.3, 0.6, 0.1])
LEFT, RIGHT = TableModel.constant([0.5, 0.5, 0.0, 0.0]), TableModel.constant([0.0, 0.0, 0.5, 0.5])
