"""Tree shapes and rows that a user gives; parsing of rows is also tested through the worked example."""

from fractions import Fraction as F

import pytest

from specproof.audit.given import pair, parse_row, parse_tree
from specproof.errors import SpecproofError


@pytest.mark.parametrize(
    ("text", "parents"),
    [
        ("chain:3", (-1, 0, 1)),
        ("2", (-1, -1)),
        ("2x1", (-1, -1, 0, 1)),
        ("1x2", (-1, 0, 0)),
        ("-1,-1,0", (-1, -1, 0)),
        ("parents:-1,-1,0", (-1, -1, 0)),
        ("-1", (-1,)),
    ],
)
def test_shapes(text, parents):
    assert parse_tree(text).parents == parents


@pytest.mark.parametrize(
    "text", ["", "chain", "chain:0", "chain:x", "chain:2,3", "0x2", "2x", "tree:2", "9x9", "chain:25", "2,x"]
)
def test_unknown_shapes_are_refused(text):
    with pytest.raises(SpecproofError, match="is not understood: give chain:3, children per level like 2x1"):
        parse_tree(text)


@pytest.mark.parametrize("text", ["0,-1", "-1,1", "-2", "parents:1"])
def test_parents_come_first(text):
    with pytest.raises(SpecproofError, match="parents come first"):
        parse_tree(text)


def test_a_pair_is_two_laws_of_the_same_tokens():
    assert pair(parse_row("1/2,0.5", "target"), parse_row("1,0", "draft")) == ((F(1, 2), F(1, 2)), (1, 0))
    with pytest.raises(SpecproofError, match="the draft row sums to 3/4, not exactly 1"):
        pair([F(1)], [F(3, 4)])
    with pytest.raises(SpecproofError, match="the target row has 1 entries and the draft row 2"):
        pair([F(1)], [F(1, 2), F(1, 2)])
