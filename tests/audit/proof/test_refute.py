"""Counterexamples: exact, small, and readable."""

from fractions import Fraction as F
from time import monotonic

import pytest
import unsound_specs as unsound

from specproof.audit.proof.refute import check, confirm, search
from specproof.audit.proof.setting import Setting
from specproof.rules.spec.numbers import SpecLaw
from specproof.rules.spec.rejection import rejection
from specproof.rules.spec.walk import walk
from specproof.tree import Tree

CHAIN, PAIR = Tree.chain(1), Tree.levels((2,))
HALVES = (F(1, 2), F(1, 2))


def everywhere(setting, target, draft):
    def rows(row, depth):
        return {context: row for length in range(depth) for context in setting.texts(length)}

    return rows(target, setting.depth + 1), rows(draft, setting.depth)


@pytest.mark.parametrize(
    ("spec", "tree", "drawn", "target", "draft", "tv"),
    [
        # Values of the literature and of exact enumeration, see the negative tests of the rules.
        (unsound.resampling, CHAIN, "iid", (F(3, 5), F(3, 10), F(1, 10)), (F(2, 5), F(1, 2), F(1, 10)), F(2, 25)),
        (unsound.dropped_by_its_value, CHAIN, "iid", HALVES, HALVES, F(1, 4)),
        (unsound.argmax_with_soft_row, CHAIN, "point", HALVES, HALVES, F(1, 2)),
        (unsound.longest_of_two, PAIR, "iid", HALVES, (F(3, 4), F(1, 4)), F(1, 8)),
        (unsound.uncapped_at_the_end, Tree.chain(2), "iid", (F(1, 3), F(2, 3)), (F(2, 3), F(1, 3)), F(1, 9)),
    ],
)
def test_known_distances(spec, tree, drawn, target, draft, tv):
    setting = Setting(spec, len(target), tree, drawn)
    assert check(setting, *everywhere(setting, target, draft)).tv == tv


def test_a_lossless_rule_has_none():
    for tree, drawn, spec in ((CHAIN, "iid", rejection), (PAIR, "point", walk), (PAIR, "top_and_one", walk)):
        setting = Setting(spec, 3, tree, drawn)
        assert (
            check(setting, *everywhere(setting, (F(1, 2), F(1, 3), F(1, 6)), (F(1, 6), F(1, 3), F(1, 2)))) is None
        )


def test_the_search_finds_the_smallest_denominators():
    found = search(Setting(unsound.resampling, 2, CHAIN, "iid"), monotonic() + 60)
    assert max(mass.denominator for row in (*found.target.values(), *found.draft.values()) for mass in row) == 2


def test_the_search_tries_rows_that_depend_on_the_context():
    # Right on rows that are the same everywhere: the bonus token is drawn from the root's row.
    def spec(number, target, drawn, tree, tokens):
        law = rejection(number, target, drawn, tree, tokens)
        return SpecLaw(law.stop, [*law.next[:-1], target[0]])

    found = search(Setting(spec, 2, CHAIN, "iid"), monotonic() + 60)
    assert len(set(found.target.values())) > 1


def test_a_point_is_rounded_as_far_as_it_still_shows_the_fault():
    setting = Setting(unsound.resampling, 2, CHAIN, "iid")
    target, draft = everywhere(setting, (F(3511, 10007), F(6496, 10007)), (F(7919, 10007), F(2088, 10007)))
    found = confirm(setting, target, draft)
    assert found.target[()][0].denominator <= 2
    assert found.tv > 0
    assert confirm(Setting(rejection, 2, CHAIN, "iid"), target, draft) is None


def test_it_reads_as_a_worked_example():
    setting = Setting(unsound.dropped_by_its_value, 2, CHAIN, "iid")
    found = check(setting, *everywhere(setting, HALVES, HALVES))
    assert str(found).splitlines() == [
        "target 1/2 1/2 after every context",
        "draft  1/2 1/2",
        "the text does not come out as the target gives it",
        "text          comes out       target",
        "0                   3/4          1/2",
        "1                   1/4          1/2",
        "total variation 1/4",
    ]
    assert found.as_dict()["laws"][0] == {"text": [0], "law": "3/4", "target": "1/2"}
    assert found.as_dict()["tv"] == "1/4"


def test_rows_by_context_and_the_draft_are_listed():
    setting = Setting(unsound.argmax_with_soft_row, 2, CHAIN, "point")
    target = {(): HALVES, (0,): HALVES, (1,): (F(1), F(0))}
    lines = str(check(setting, target, {(): HALVES})).splitlines()
    assert lines[:3] == ["target 1/2 1/2 at the root", "target 1/2 1/2 after 0", "target 1 0 after 1"]
    assert lines[3].startswith("drafted tokens")
    assert not any(line.startswith("draft ") for line in lines)


def test_rows_that_cannot_give_all_siblings_are_left_out():
    setting = Setting(unsound.unrenormalised_siblings, 3, PAIR, "without_replacement")
    found = search(setting, monotonic() + 60)
    assert all(sum(mass > 0 for mass in row) >= 2 for row in found.draft.values())
