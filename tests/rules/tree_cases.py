"""Settings that the tests of tree rules share."""

from fractions import Fraction as F

import torch

from specproof.audit.exact import Instance, target_law, text_law, tv
from specproof.backends.table import TableModel
from specproof.rules.spec.numbers import EXACT
from specproof.tree import Tree
from specproof.types import Draft

P = [F(1, 2), F(1, 3), F(1, 6)]
Q = P[::-1]
DRAWS = ("iid", "without_replacement")

# Nodes level by level, paths one after the other, leaves at different depths, a leaf before a deeper sibling.
SHAPES = (
    *(Tree.levels(levels) for levels in ((2,), (1, 1), (2, 1), (1, 2), (2, 2), (3, 1), (1, 1, 1))),
    Tree((-1, 0, -1, 2)),
    Tree((-1, -1, 1)),
    Tree((-1, 0, 0, 2)),
    Tree((-1, -1, -1, 2, 0)),
    Tree((-1, -1, 0, 0, 1)),
    Tree((-1, -1, 0, 1, 2, 3)),
)


def always(row):
    """The model that gives one row after every context."""
    return lambda context: row


def random_instance(tree, drawn, seed, vocabulary=3):
    """Context-dependent rows; half of them have tokens without mass, as far as the draws allow."""
    generator = torch.Generator().manual_seed(seed)
    zeros = 0.25 * (seed % 2)
    target = TableModel.random(vocabulary, 2, generator, zeros)
    draft = TableModel.random(vocabulary, 2, generator, zeros if drawn == "iid" else 0.0)
    return Instance(target, draft, tree, drawn, max(tree.depths) + 1)


def distance(rule, instance):
    """TV between the law of the rule's text and the target's."""
    return tv(text_law(rule, instance).law, target_law(instance))


def random_draft(trees, drawn, seed, vocabulary=4):
    """Target rows [B, N+1, V] and a draft that can happen, over small fractions of which many are zero."""
    generator = torch.Generator().manual_seed(seed)
    width = max(len(tree) for tree in trees)
    shape = (2, len(trees), width + 1, vocabulary)
    parts = torch.randint(0, 5, shape, generator=generator, dtype=torch.float64)
    if drawn == "without_replacement":
        parts[1] += 1
    parts[..., 0] += parts.sum(-1) == 0
    target, rows = parts / parts.sum(-1, keepdim=True)
    tokens = torch.zeros(len(trees), width, dtype=torch.long)
    for b, tree in enumerate(trees):
        twins: dict[tuple[int, ...], int] = {}
        for node, parent in enumerate(tree.parents):
            row = rows[b, parent + 1].clone()
            if drawn == "without_replacement":
                row[tokens[b, [n for n in tree.children(parent) if n < node]]] = 0
            tokens[b, node] = torch.multinomial(row, 1, generator=generator)
            # Nodes with the same text have the same rows.
            twin = twins.setdefault(tuple(tokens[b, list(tree.path(node))].tolist()), node)
            target[b, node + 1], rows[b, node + 1] = target[b, twin + 1], rows[b, twin + 1]
    return target, Draft(tuple(trees), tokens, rows, drawn)


def specified(spec, target, draft, b):
    """The specification's law for sequence b, in fractions."""
    tree = draft.trees[b]

    def exact(rows):
        found = [[F(x).limit_denominator(100) for x in row] for row in rows[b, : len(tree) + 1].tolist()]
        return [[x / sum(row) for x in row] for row in found]

    drawn = [row if tree.children(node) else [] for node, row in enumerate(exact(draft.rows), start=-1)]
    return spec(EXACT, exact(target), drawn, tree, draft.tokens[b, : len(tree)].tolist())
