"""K-SEQ: golden values, exact laws, and the shapes that it takes."""

from fractions import Fraction as F

import pytest
import torch
from exact_laws import (
    P,
    Q,
    accepted,
    audit,
    batch_equals_singles,
    best_of_subsets,
    multi_step_acceptance,
    one_round,
    own_law,
    star,
)

from specproof.backends.table import TableModel
from specproof.errors import SpecproofError
from specproof.rules import RULES
from specproof.rules.kseq import smallest_excess
from specproof.rules.spec.kseq import excess_slack, kseq, smallest_slack
from specproof.rules.spec.numbers import EXACT
from specproof.tree import Tree
from specproof.types import Draft

TREES = [Tree(parents) for parents in ((-1,), (-1, -1), (-1, -1, -1), (-1, -1, 0, 1), (-1, 0, -1, 2), (-1, -1, 1))]
# Khisti et al. 2024, figure 2: draft uniform on three tokens, two drafts.
KHISTI = [
    ((F(1, 3), second, F(2, 3) - second), value)
    for second, value in (
        (F(0), 0.81142),
        (F(1, 10), 0.88144),
        (F(1, 5), 0.94491),
        (F(1, 3), 1),
        (F(1, 2), 0.92476),
        (F(3, 5), 0.85865),
    )
] + [
    ((F(1, 6), second, F(5, 6) - second), value)
    for second, value in ((F(0), 0.68661), (F(1, 5), 0.83528), (F(5, 12), 0.96248))
]


def constant(row):
    return lambda context: row


def test_two_drafts_have_slack_three_halves_and_acceptance_three_quarters():
    assert smallest_slack(P, Q, 2) == F(3, 2)
    law, found = one_round(kseq, constant(P), constant(Q), star(2))
    assert found == F(3, 4)
    assert law == own_law(constant(P), 2)
    assert accepted("kseq", P, Q, star(2)) == pytest.approx(0.75, abs=1e-12)


def test_three_drafts():
    assert float(smallest_slack(P, Q, 3)) == pytest.approx(1.893276, abs=5e-7)
    law, found = one_round(kseq, constant(P), constant(Q), star(3))
    assert float(found) == pytest.approx(0.815546, abs=5e-7)
    assert law == own_law(constant(P), 2)
    assert accepted("kseq", P, Q, star(3)) == pytest.approx(float(found), abs=1e-12)


@pytest.mark.parametrize(("target", "value"), KHISTI)
def test_the_curve_of_khisti(target, value):
    uniform = (F(1, 3),) * 3
    assert float(one_round(kseq, constant(target), constant(uniform), star(2))[1]) == pytest.approx(
        value, abs=6e-6
    )
    assert accepted("kseq", target, uniform, star(2)) == pytest.approx(value, abs=6e-6)


def test_the_slack_is_valid_and_a_smaller_one_is_not():
    for count in (2, 3, 5):
        slack = smallest_slack(P, Q, count)
        assert excess_slack(EXACT, P, Q, count, slack) >= 0
        assert excess_slack(EXACT, P, Q, count, slack - F(1, 10**9)) < 0
        rows = torch.tensor([[float(x) for x in row] for row in (P, Q)], dtype=torch.float64)
        found = 1 + smallest_excess(rows[:1], rows[1:], torch.tensor([count]))
        assert float(found) == pytest.approx(float(slack), abs=1e-14)


def test_any_larger_slack_is_lossless_and_accepts_less():
    def loose(number, target, drawn, tree, tokens):
        return kseq(number, target, drawn, tree, tokens, slack=lambda p, q, count: F(count))

    law, found = one_round(loose, constant(P), constant(Q), Tree((-1, -1, 0, 1)))
    assert law == own_law(constant(P), 3)
    assert found < one_round(kseq, constant(P), constant(Q), Tree((-1, -1, 0, 1)))[1]


def test_too_little_slack_gives_a_token_more_than_its_mass():
    def tight(number, target, drawn, tree, tokens):
        return kseq(number, target, drawn, tree, tokens, slack=lambda p, q, count: F(1))

    with pytest.raises(AssertionError):  # a negative residual
        one_round(tight, constant(P), constant(Q), star(2))


@pytest.mark.parametrize("length", [1, 2, 3])
def test_one_chain_is_rejection(length):
    generator = torch.Generator().manual_seed(length)
    target, rows = (torch.rand(50, length + 1, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    target, rows = target / target.sum(-1, keepdim=True), rows / rows.sum(-1, keepdim=True)
    tokens = torch.randint(5, (50, length), generator=generator)
    draft = Draft((Tree.chain(length),) * 50, tokens, rows, "iid")
    several, single = RULES["kseq"](target, draft), RULES["rejection"](target, draft)
    torch.testing.assert_close(several.stop, single.stop, rtol=0, atol=1e-14)
    for row in range(length + 1):
        at = torch.full((50,), row)
        torch.testing.assert_close(several.next(at), single.next(at), rtol=0, atol=1e-12)


def test_random_instances():
    distance, difference = audit("kseq", "iid", TREES, 36)
    assert distance <= 1e-12
    assert difference <= 1e-12


@pytest.mark.slow
def test_many_random_instances():
    distance, difference = audit("kseq", "iid", [*TREES, Tree((-1, -1, -1, 0, 1))], 350, seed=1)
    assert distance <= 1e-12
    assert difference <= 1e-12


def test_it_lies_between_recursive_rejection_and_the_optimum():
    generator = torch.Generator().manual_seed(3)
    strict = 0
    for _ in range(40):
        size, count = (int(torch.randint(2, high, (), generator=generator)) for high in (5, 4))
        p, q = (TableModel.random(size, 0, generator, zeros=0.2).levels[0][0].tolist() for _ in range(2))
        p, q = ([F(x) / sum(map(F, row)) for x in row] for row in (p, q))
        found = accepted("kseq", p, q, star(count))
        assert float(multi_step_acceptance(p, q, count)) - 1e-12 <= found
        assert found <= float(best_of_subsets(p, q, "iid", count)) + 1e-12
        strict += float(multi_step_acceptance(p, q, count)) < found - 1e-9
    assert strict > 10


def test_batches_of_different_shapes():
    generator = torch.Generator().manual_seed(4)
    trees = [Tree((-1, -1, 0, 1, 2)), Tree(), Tree((-1,)), Tree((-1, 0, -1, -1, 3, 4)), Tree((-1, -1, -1))]
    assert batch_equals_singles("kseq", "iid", trees, generator) <= 1e-14
    assert batch_equals_singles("kseq", "iid", trees, generator, dtype=torch.float32) <= 1e-5


def test_chains_with_the_same_text_go_on_together():
    # Both chains agree on token 1 and on nothing else: after it two drafts are left, after the root too.
    uniform = torch.full((1, 5, 3), 1 / 3, dtype=torch.float64)
    draft = Draft((Tree((-1, 0, -1, 2)),), torch.tensor([[1, 0, 1, 2]]), uniform, "iid")
    law = RULES["kseq"](uniform, draft)
    # Equal rows: the first draft is accepted each time, under the first node with its text.
    torch.testing.assert_close(law.stop, torch.tensor([[0, 0, 1, 0, 0]], dtype=torch.float64), rtol=0, atol=1e-14)


def test_other_trees_are_refused_with_the_rules_that_take_them():
    rows = torch.full((1, 4, 3), 1 / 3)
    draft = Draft((Tree((-1, 0, 0)),), torch.zeros(1, 3, dtype=torch.long), rows, "iid")
    with pytest.raises(
        SpecproofError, match=r"'kseq' takes trees that branch at the root only.*\(-1, 0, 0\).*walk"
    ):
        RULES["kseq"](rows, draft)
    with pytest.raises(SpecproofError, match="without_replacement"):
        RULES["kseq"].check("without_replacement", chain=False)


def test_a_large_vocabulary_in_single_precision():
    generator = torch.Generator().manual_seed(5)
    rows = (torch.randn(2, 1, 50_000, generator=generator) * 2).softmax(-1)
    tokens = torch.multinomial(rows[1, 0], 4, replacement=True, generator=generator)[None]
    law = RULES["kseq"](
        rows[0][:, None].repeat(1, 5, 1), Draft((star(4),), tokens, rows[1].expand(1, 5, -1), "iid")
    )
    assert float(law.stop.sum()) == pytest.approx(1, abs=1e-6)
    assert float(law.next(torch.tensor([0])).sum()) == pytest.approx(1, abs=1e-4)
