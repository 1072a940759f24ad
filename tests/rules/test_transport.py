"""Optimal transport: golden optima, three ways to compute the optimum, and exact laws."""

from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest
import torch
from exact_laws import (
    P,
    Q,
    accepted,
    audit,
    batch_equals_singles,
    best_of_prefixes,
    best_of_subsets,
    draws,
    fractions,
    multi_step_acceptance,
    one_round,
    own_law,
    star,
)
from scipy.optimize import linprog

from specproof.backends.table import TableModel
from specproof.errors import SpecproofError
from specproof.rules import RULES
from specproof.rules.spec.transport import transport, transport_without_replacement
from specproof.tree import Tree
from specproof.types import Draft

SPECS = {"iid": transport, "without_replacement": transport_without_replacement}
UNIFORM = (F(1, 3),) * 3
PAIR = (F(2, 15), F(1, 15), F(4, 5)), (F(6, 25), F(9, 25), F(2, 5))
TREES = [Tree(parents) for parents in ((-1,), (-1, -1), (-1, -1, -1), (-1, -1, 0, 1), (-1, 0, 0, -1))]


def constant(row):
    return lambda context: row


GOLDEN = [
    ("iid", P, Q, 2, F(29, 36)),
    ("iid", P, Q, 3, F(199, 216)),
    ("without_replacement", P, Q, 2, F(11, 12)),
    ("without_replacement", P, Q, 3, F(1)),
    ("without_replacement", *PAIR, 2, F(723, 760)),
    # Khisti et al. 2024, figure 2.
    *(
        ("iid", (F(1, 3), second, F(2, 3) - second), UNIFORM, 2, value)
        for second, value in (
            (F(0), F(8, 9)),
            (F(1, 10), F(89, 90)),
            (F(1, 5), F(1)),
            (F(1, 3), F(1)),
            (F(1, 2), F(1)),
            (F(3, 5), F(43, 45)),
        )
    ),
    *(
        ("iid", (F(1, 6), second, F(5, 6) - second), UNIFORM, 2, value)
        for second, value in ((F(0), F(13, 18)), (F(1, 5), F(83, 90)), (F(5, 12), F(1)))
    ),
]


@pytest.mark.parametrize(("drawn", "target", "draft", "count", "value"), GOLDEN)
def test_golden_optima(drawn, target, draft, count, value):
    law, found = one_round(SPECS[drawn], constant(target), constant(draft), star(count), drawn)
    assert found == value == best_of_subsets(target, draft, drawn, count)
    assert law == own_law(constant(target), 2)
    assert accepted("transport", target, draft, star(count), drawn) == pytest.approx(float(value), abs=1e-12)


def test_specinfer_column_of_khisti():
    targets = [(F(1, 3), second, F(2, 3) - second) for second in (F(0), F(1, 10), F(1, 5), F(1, 2), F(3, 5))]
    found = [multi_step_acceptance(target, UNIFORM, 2) for target in targets]
    assert found == [F(7, 9), F(38, 45), F(41, 45), F(8, 9), F(37, 45)]


def random_rows(generator, drawn):
    size = int(torch.randint(2, 5, (), generator=generator))
    count = int(torch.randint(1, min(size, 3) + 1, (), generator=generator))
    zeros = 0.25 if drawn == "iid" else 0.0
    rows = [TableModel.random(size, 0, generator, z).levels[0][0].tolist() for z in (0.25, zeros)]
    return *map(fractions, rows), count


def linear_program(p, q, drawn, count):
    """Largest probability to accept: mass from drawn tuples to tokens in them, at most the target's for each."""
    tuples = list(draws(q, drawn, count))
    size = len(p)
    columns = [(i, x) for i, x in product(range(len(tuples)), range(size)) if x in tuples[i][0]]
    bounded = np.zeros((len(tuples) + size, len(columns)))
    for column, (i, x) in enumerate(columns):
        bounded[i, column] = bounded[len(tuples) + x, column] = 1
    limits = [float(probability) for _, probability in tuples] + [float(mass) for mass in p]
    return -linprog(-np.ones(len(columns)), A_ub=bounded, b_ub=limits).fun


@pytest.mark.parametrize("drawn", SPECS)
def test_linear_program_subsets_prefixes_and_rule_agree(drawn):
    generator = torch.Generator().manual_seed(len(drawn))
    for _ in range(25):
        p, q, count = random_rows(generator, drawn)
        best = best_of_subsets(p, q, drawn, count)
        assert best_of_prefixes(p, q, drawn, count) == best
        assert linear_program(p, q, drawn, count) == pytest.approx(float(best), abs=1e-9)
        assert accepted("transport", p, q, star(count), drawn) == pytest.approx(float(best), abs=1e-12)
        assert one_round(SPECS[drawn], constant(p), constant(q), star(count), drawn)[1] == best


def test_more_children_than_the_linear_program_could_take():
    generator = torch.Generator().manual_seed(2)
    for count in (4, 5, 6):
        p, q = (fractions(TableModel.random(3, 0, generator, 0.1).levels[0][0].tolist()) for _ in range(2))
        best = best_of_subsets(p, q, "iid", count)
        assert accepted("transport", p, q, star(count)) == pytest.approx(float(best), abs=1e-12)


@pytest.mark.parametrize(("drawn", "count"), [("iid", 30), ("without_replacement", 8)])
def test_random_instances(drawn, count):
    trees = [Tree((-1,)), star(2), star(3), Tree((-1, -1, 0, 0))] if drawn != "iid" else TREES
    distance, difference = audit("transport", drawn, trees, count, spec=SPECS[drawn])
    assert distance <= 1e-12
    assert difference <= 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("drawn", SPECS)
def test_many_random_instances(drawn):
    for size, trees in ((3, [*TREES, Tree.levels((2, 2))]), (4, [star(2), star(3)])):
        distance, difference = audit("transport", drawn, trees, 180, size=size, seed=7, spec=SPECS[drawn])
        assert distance <= 1e-12
        assert difference <= 1e-12


def test_any_selector_is_lossless():
    def careless(target, drawn, count):
        """Prefers tokens for no reason, and sometimes chooses none."""
        return lambda tokens: [F(1 + (token * (place + 2)) % 3, 4 * count) for place, token in enumerate(tokens)]

    for drawn, spec in SPECS.items():

        def rule(number, target, rows, tree, tokens, spec=spec):
            return spec(number, target, rows, tree, tokens, selector=careless)

        law, found = one_round(rule, constant(P), constant(Q), Tree((-1, -1, 0)), drawn)
        assert law == own_law(constant(P), 3)
        assert found < one_round(spec, constant(P), constant(Q), Tree((-1, -1, 0)), drawn)[1]


def test_batches_of_different_shapes():
    generator = torch.Generator().manual_seed(4)
    trees = [Tree((-1, -1, 0, 0, 2)), Tree(), Tree((-1,)), star(3)]
    for drawn in SPECS:
        assert batch_equals_singles("transport", drawn, trees, generator) <= 1e-14
        assert batch_equals_singles("transport", drawn, trees, generator, dtype=torch.float32) <= 1e-5


def test_a_row_without_enough_tokens_gives_them_all():
    # Two of three children exist; the third place is filled with a token that was not drawn.
    target = torch.tensor([0.5, 0.3, 0.2, 0.0], dtype=torch.float64).repeat(1, 4, 1)
    drawn = torch.tensor([0.6, 0.0, 0.4, 0.0], dtype=torch.float64).repeat(1, 4, 1)
    draft = Draft((star(3),), torch.tensor([[2, 0, 1]]), drawn, "without_replacement")
    law = RULES["transport"](target, draft)
    torch.testing.assert_close(law.stop, torch.tensor([[0.3, 0.2, 0.5, 0.0]], dtype=torch.float64))
    torch.testing.assert_close(law.next(torch.tensor([0])), torch.tensor([[0, 1, 0, 0]], dtype=torch.float64))


def test_too_many_sets_are_refused():
    rows = torch.full((1, 3, 40), 1 / 40)
    draft = Draft((star(2),), torch.tensor([[1, 2]]), rows, "without_replacement")
    with pytest.raises(SpecproofError, match="at most 256; 2 of 40 tokens give 780"):
        RULES["transport"](rows, draft)
