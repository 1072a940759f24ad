"""Which trees a rule takes."""

import pytest

from specproof.rules import RULES
from specproof.tree import Tree


@pytest.mark.parametrize(
    ("parents", "parallel", "even"),
    [
        ((), True, True),
        ((-1,), True, True),
        ((-1, 0, 1), True, True),
        ((-1, -1, 0, 1), True, True),
        ((-1, 0, -1, 2), True, True),
        ((-1, -1, 1), True, False),
        ((-1, 0, 0), False, True),
        ((-1, -1, 0, 0, 2), False, False),
    ],
)
def test_shapes_of_chains_from_the_root(parents, parallel, even):
    tree = Tree(parents)
    assert (tree.is_parallel, tree.is_even) == (parallel, even)
    assert RULES["kseq"].fits("iid", tree) == parallel
    assert RULES["multipath"].fits("iid", tree) == (parallel and even)
    assert RULES["transport"].fits("iid", tree)
    assert RULES["rejection"].fits("iid", tree) == tree.is_chain


def test_draws_that_fit():
    tree = Tree((-1, -1))
    drawn = {"iid": "walk kseq transport multipath", "without_replacement": "walk transport"}
    drawn |= {"top_and_one": "walk hu", "point": "walk"}
    for way, names in drawn.items():
        assert set(names.split()) <= {rule.name for rule in RULES.values() if rule.fits(way, tree)}
    assert not RULES["hu"].fits("iid", tree)
    assert not RULES["multipath"].fits("without_replacement", tree)
