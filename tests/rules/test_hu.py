"""The greedy construction: golden values, exact laws, and that it can beat draws without replacement."""

from fractions import Fraction as F

import pytest
import torch
from exact_laws import P, Q, accepted, audit, batch_equals_singles, one_round, own_law, star

from specproof.errors import SpecproofError
from specproof.rules import RULES
from specproof.rules.spec.hu import hu
from specproof.rules.spec.walk import walk
from specproof.tree import Tree

PAIR = (F(2, 15), F(1, 15), F(4, 5)), (F(6, 25), F(9, 25), F(2, 5))
TREES = [Tree(parents) for parents in ((-1,), (-1, -1), (-1, -1, -1), (-1, -1, 0), (-1, 0, 0, -1), (-1, -1, 1, 1))]


def constant(row):
    return lambda context: row


def formula(p, q, count):
    """Mass of the chosen tokens, plus the overlap of the rest with the renormalised draft."""
    chosen = sorted(range(len(q)), key=lambda x: -q[x])[: count - 1]
    rest = 1 - sum(q[x] for x in chosen)
    return sum(p[x] if x in chosen else min(p[x], q[x] / rest) for x in range(len(p)))


@pytest.mark.parametrize(
    ("target", "draft", "count", "value"),
    [(P, Q, 2, F(5, 6)), (*PAIR, 2, F(1)), (P, Q, 1, F(2, 3)), (P, Q, 3, F(1))],
)
def test_golden_values(target, draft, count, value):
    law, found = one_round(hu, constant(target), constant(draft), star(count), "top_and_one")
    assert found == value == formula(target, draft, count)
    assert law == own_law(constant(target), 2)
    assert accepted("hu", target, draft, star(count), "top_and_one") == pytest.approx(float(value), abs=1e-12)


def test_it_can_beat_the_optimum_without_replacement_and_lose_to_it():
    def best(target, draft):
        return accepted("transport", target, draft, star(2), "without_replacement")

    assert accepted("hu", *PAIR, star(2), "top_and_one") > best(*PAIR) + 0.01
    assert accepted("hu", P, Q, star(2), "top_and_one") < best(P, Q) - 0.01


def test_it_accepts_more_than_walking():
    row = one_round(walk, constant(P), constant(Q), star(2), "top_and_one")
    assert row[0] == own_law(constant(P), 2)
    assert row[1] < F(5, 6)


def test_random_instances():
    distance, difference = audit("hu", "top_and_one", TREES, 36)
    assert distance <= 1e-12
    assert difference <= 1e-12


@pytest.mark.slow
def test_many_random_instances():
    for size in (3, 4):
        distance, difference = audit("hu", "top_and_one", TREES, 180, size=size, seed=1)
        assert distance <= 1e-12
        assert difference <= 1e-12


def test_other_rules_would_be_biased_on_such_drafts():
    with pytest.raises(SpecproofError, match="does not take iid trees"):
        RULES["hu"].check("iid", chain=False)
    with pytest.raises(SpecproofError, match="rules that do: walk, hu"):
        RULES["transport"].check("top_and_one", chain=False)


def test_batches_of_different_shapes():
    generator = torch.Generator().manual_seed(4)
    trees = [Tree((-1, -1, 0, 0, 2)), Tree(), Tree((-1,)), star(3)]
    assert batch_equals_singles("hu", "top_and_one", trees, generator) <= 1e-14
    assert batch_equals_singles("hu", "top_and_one", trees, generator, dtype=torch.float32) <= 1e-5
