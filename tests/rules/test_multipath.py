"""Greedy multi-path block verification: golden values, exact laws, and its limits."""

from fractions import Fraction as F

import pytest
import torch
from exact_laws import P, Q, accepted, audit, batch_equals_singles, one_round, own_law, star

from specproof.errors import SpecproofError
from specproof.rules import RULES
from specproof.rules.spec.multipath import multipath
from specproof.tree import Tree
from specproof.types import Draft

TOY = (F(1, 3), F(2, 3)), (F(2, 3), F(1, 3))
TREES = [Tree(parents) for parents in ((-1,), (-1, 0), (-1, -1), (-1, -1, 0, 1), (-1, 0, -1, 2), (-1, -1, -1))]


def constant(row):
    return lambda context: row


def chains(count, length):
    return Tree(tuple(node - count if node >= count else -1 for node in range(count * length)))


@pytest.mark.parametrize(
    ("count", "value"), [(1, F(11, 9)), (2, F(131, 81)), (3, F(1289, 729)), (4, F(3571, 2187))]
)
def test_golden_values(count, value):
    law, found = one_round(multipath, *map(constant, TOY), chains(count, 2))
    assert found == value
    assert law == own_law(constant(TOY[0]), 3)
    assert accepted("multipath", *TOY, chains(count, 2)) == pytest.approx(float(value), abs=1e-12)


def test_it_does_not_dominate_block_verification():
    half = (F(1, 2), F(1, 2))
    law, found = one_round(multipath, constant(half), constant(half), star(2))
    assert found == F(3, 4)
    assert law == own_law(constant(half), 2)
    assert accepted("multipath", half, half, star(2)) == pytest.approx(0.75, abs=1e-12)
    assert accepted("block", half, half, star(1)) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_one_chain_is_block_verification(length):
    generator = torch.Generator().manual_seed(length)
    target, rows = (torch.rand(50, length + 1, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    target, rows = target / target.sum(-1, keepdim=True), rows / rows.sum(-1, keepdim=True)
    draft = Draft((Tree.chain(length),) * 50, torch.randint(5, (50, length), generator=generator), rows, "iid")
    several, single = RULES["multipath"](target, draft), RULES["block"](target, draft)
    torch.testing.assert_close(several.stop, single.stop, rtol=0, atol=1e-14)
    for row in range(length + 1):
        at = torch.full((50,), row)
        torch.testing.assert_close(several.next(at), single.next(at), rtol=0, atol=1e-12)


def test_random_instances():
    distance, difference = audit("multipath", "iid", TREES, 36)
    assert distance <= 1e-12
    assert difference <= 1e-12


@pytest.mark.slow
def test_many_random_instances():
    distance, difference = audit("multipath", "iid", TREES, 340, seed=1)
    assert distance <= 1e-12
    assert difference <= 1e-12
    distance, difference = audit("multipath", "iid", [chains(3, 2), chains(2, 3)], 24, size=2, seed=2)
    assert distance <= 1e-12
    assert difference <= 1e-12


def test_ties_go_to_the_larger_token():
    # Tokens 0 and 1 have ratio 2, token 2 has 0: of the pair (0, 1), 1 is kept, and then surely accepted.
    target = torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64).repeat(1, 3, 1)
    rows = torch.tensor([0.25, 0.25, 0.5], dtype=torch.float64).repeat(1, 3, 1)
    for tokens, row in (([0, 1], 2), ([1, 0], 1), ([2, 0], 2), ([1, 1], 1)):
        law = RULES["multipath"](target, Draft((star(2),), torch.tensor([tokens]), rows, "iid"))
        assert law.stop[0].nonzero().flatten().tolist() == [row]


def test_the_mass_of_a_text_stands_at_its_first_node():
    # Kept is the second chain, (1, 1); the first one, (1, 0), has the same first token.
    target = torch.tensor([[0.4, 0.6, 0.0]] + [[0.2, 0.25, 0.55]] * 4, dtype=torch.float64)[None]
    rows = torch.tensor([[0.5, 0.5, 0.0]] + [[1 / 3] * 3] * 4, dtype=torch.float64)[None]
    law = RULES["multipath"](target, Draft((chains(2, 2),), torch.tensor([[1, 1, 0, 1]]), rows, "iid"))
    # The kept chain came from rows (1/4, 3/4, 0) and (7/27, 9/27, 11/27), so its weights are 4/5 and 3/5, and
    # after one token 4/5 · 11/20 - 11/27 is left.
    left = F(11, 25) - F(11, 27)
    passes = left / (left + F(1, 5))
    expected = [F(2, 5) * (1 - passes), F(2, 5) * passes, 0, 0, F(3, 5)]
    torch.testing.assert_close(law.stop[0], torch.tensor([float(x) for x in expected], dtype=torch.float64))
    torch.testing.assert_close(law.next(torch.tensor([1]))[0], torch.tensor([0, 0, 1], dtype=torch.float64))


def test_many_long_chains_in_single_precision():
    generator = torch.Generator().manual_seed(6)
    tree = chains(8, 6)
    target, rows = (torch.randn(1, len(tree) + 1, 5_000, generator=generator).softmax(-1) for _ in range(2))
    rows[:, 1:] = rows[:, :1]
    tokens = torch.multinomial(rows[0, 0], len(tree), replacement=True, generator=generator)[None]
    law = RULES["multipath"](target, Draft((tree,), tokens, rows, "iid"))
    assert float(law.stop.sum()) == pytest.approx(1, abs=1e-5)
    assert float(law.next(law.stop.argmax(-1)).sum()) == pytest.approx(1, abs=1e-4)


def test_batches_of_different_shapes():
    generator = torch.Generator().manual_seed(4)
    trees = [chains(2, 3), Tree(), Tree((-1,)), star(3), Tree((-1, 0, -1, 2))]
    assert batch_equals_singles("multipath", "iid", trees, generator) <= 1e-14
    assert batch_equals_singles("multipath", "iid", trees, generator, dtype=torch.float32) <= 1e-5


def test_chains_of_different_lengths_are_refused():
    rows = torch.full((1, 4, 3), 1 / 3)
    draft = Draft((Tree((-1, -1, 1)),), torch.zeros(1, 3, dtype=torch.long), rows, "iid")
    with pytest.raises(SpecproofError, match=r"equally long chains.*rules that take it: walk, .*kseq"):
        RULES["multipath"](rows, draft)


def test_context_dependent_rows():
    def turning(row):
        return lambda context: row[sum(context) % 3 :] + row[: sum(context) % 3]

    law, _ = one_round(multipath, turning(P), turning(Q), chains(2, 2))
    assert law == own_law(turning(P), 3)
