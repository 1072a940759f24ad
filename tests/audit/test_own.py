"""Rules on given rows: golden values in fractions, labels, and what cannot be asked."""

from fractions import Fraction as F

import pytest

from specproof.audit.own import audit_own
from specproof.errors import SpecproofError
from specproof.rules import RULES, find_rule
from specproof.tree import Tree

P, Q = (F(1, 2), F(1, 3), F(1, 6)), (F(1, 6), F(1, 3), F(1, 2))


def own(name, tree=None, drawn="iid", rows=(P, Q)):
    (result,) = audit_own([find_rule(name)], *rows, tree or Tree.chain(1), drawn).results
    return result


@pytest.mark.parametrize(
    ("name", "tokens", "distance", "verdict"),
    [
        ("rejection", F(5, 3), F(0), "EXACT"),
        ("lenience:1/2", F(11, 6), F(3, 14), "LOSSY"),
        ("spec_rl", F(5, 3), F(1, 6), "LOSSY"),
        ("hsd_published", F(5, 3), F(0), "UNSOUND, EXACT HERE"),
    ],
)
def test_one_drafted_token(name, tokens, distance, verdict):
    result = own(name)
    if name == "hsd_published":  # one token does not show its fault, nor do texts of such rounds
        assert result.text_tv < 1e-12
    assert (result.exact_tokens, result.exact_tv, result.verdict) == (tokens, distance, verdict)
    assert result.tokens == pytest.approx(float(tokens), abs=1e-12)
    assert result.tv == pytest.approx(float(distance), abs=1e-12)
    assert result.ok


@pytest.mark.parametrize(
    ("name", "levels", "drawn", "accepted"),
    [
        ("rejection", (1, 1), "iid", F(10, 9)),
        ("block", (1, 1), "iid", F(7, 6)),
        ("block", (1, 1, 1), "iid", F(14, 9)),
        ("siblings", (2, 1), "without_replacement", F(35, 27)),
        ("traversal", (2, 1), "without_replacement", F(73, 54)),
        ("transport", (2,), "iid", F(29, 36)),
    ],
)
def test_golden_tokens(name, levels, drawn, accepted):
    result = own(name, Tree.levels(levels), drawn)
    assert result.exact_tokens == 1 + accepted
    assert result.tokens == pytest.approx(1 + float(accepted), abs=1e-12)
    assert result.length == len(levels) + 2
    assert result.verdict == "EXACT"


def test_unsound_rule_shows_over_rounds_of_two():
    result = own("hsd_published", Tree.chain(2))
    assert result.verdict == "UNSOUND"
    assert result.tv < 1e-12
    assert result.text_tv > 0.05


def test_law_is_that_of_the_first_token():
    assert own("lenience:1/2").law == pytest.approx((2 / 7, 8 / 21, 1 / 3), abs=1e-12)
    assert own("block", Tree.chain(2)).law == pytest.approx([float(mass) for mass in P], abs=1e-12)


def test_top_and_one_has_no_fractions_but_the_law():
    result = own("hu", Tree((-1, -1)), "top_and_one")
    assert (result.exact_tokens, result.exact_tv, result.verdict) == (None, None, "EXACT")


def test_a_rule_that_is_not_what_it_claims_fails():
    from dataclasses import replace

    wrong = replace(RULES["spec_rl"], lossless=True)
    (result,) = audit_own([wrong], P, Q, Tree.chain(1), "iid").results
    assert not result.ok
    assert str(result).startswith("NOT LOSSLESS: spec_rl: 5/3 = 1.666667 tokens a round; TV of a token 1/6")


def test_many_tokens_take_shorter_texts():
    row = (F(1, 16),) * 16
    result = own("block", Tree.chain(2), rows=(row, row))
    assert result.length == 3
    assert result.tokens == pytest.approx(3, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "tree", "drawn", "rows", "message"),
    [
        ("block", Tree((-1, -1)), "iid", (P, Q), "rule 'block' does not take iid trees; rules that do:"),
        ("kseq", Tree((-1, 0, 0)), "iid", (P, Q), "takes trees that branch at the root only"),
        ("block", Tree.chain(1), "iid", (P, (F(1, 2),) * 3), "the draft row sums to 3/2, not exactly 1"),
        ("walk", Tree((-1,) * 4), "point", (P, Q), "3 tokens with mass and the tree 4 children"),
        ("siblings", Tree((-1,) * 2), "without_replacement", (P, (1, 0, 0)), "1 tokens with mass"),
        ("walk", Tree.chain(15), "iid", (P, Q), "too many to sum over every draft"),
    ],
)
def test_what_cannot_be_asked(name, tree, drawn, rows, message):
    with pytest.raises(SpecproofError, match=message):
        own(name, tree, drawn, tuple(tuple(map(F, row)) for row in rows))
