"""Threshold acceptance: with both thresholds 1 the target walk, below that something else."""

from fractions import Fraction as F
from functools import partial

import pytest
import torch
from exact_rule import TREES, disagreement

from specproof.audit.exact import Instance, target_law, text_law, tv
from specproof.audit.lossy import audit_lossy
from specproof.backends.table import TableModel
from specproof.errors import SpecproofError
from specproof.rules import RULES
from specproof.rules.spec.numbers import EXACT
from specproof.rules.spec.threshold import threshold as spec
from specproof.rules.spec.walk import walk
from specproof.rules.threshold import threshold
from specproof.tree import Tree
from specproof.types import Draft

M14 = [F("0.45"), F("0.3"), F("0.25")]


def law_of_the_first_token(row, tree, tokens, **settings):
    """Exact law of the first token, and its float64 twin."""
    outcome = spec(EXACT, [row] * (len(tree) + 1), [], tree, tokens, **settings)
    target = torch.tensor([[[float(x) for x in row]] * (len(tree) + 1)], dtype=torch.float64)
    floats = threshold(
        target, Draft((tree,), torch.tensor([tokens]), None, "point"), **{k: float(v) for k, v in settings.items()}
    )
    exact, found = [F(0)] * len(row), [0.0] * len(row)
    for node, (stop, following) in enumerate(zip(outcome.stop, outcome.next, strict=True)):
        path = tree.path(node - 1)
        nexts = floats.next(torch.tensor([node]))[0].tolist()
        for token, mass in enumerate(following):
            first = tokens[path[0]] if path else token
            exact[first] += stop * mass
            found[first] += float(floats.stop[0, node]) * nexts[token]
    assert found == pytest.approx([float(x) for x in exact], abs=1e-15)
    return exact


def test_golden_value_of_a_single_threshold_of_three_tenths():
    assert law_of_the_first_token(M14, Tree.chain(1), [1], single=F("0.3")) == [0, 1, 0]
    result = audit_lossy(threshold, [0.45, 0.3, 0.25], [0.0, 1.0, 0.0], "point")
    assert result.tv == pytest.approx(0.7, abs=1e-15)
    assert result.rejected == 0


def test_an_accumulated_threshold_stretches_the_coin():
    # Children 2 and 1: 1/4 and 3/10 of the coin, stretched by 1/.8; the rest is token 0.
    law = law_of_the_first_token(M14, Tree((-1, -1)), [2, 1], single=F(1), accumulated=F("0.8"))
    assert law == [F(5, 16), F(3, 8), F(5, 16)]
    # Below the accumulated mass of the two the second child takes what the first one left.
    law = law_of_the_first_token(M14, Tree((-1, -1)), [2, 1], single=F(1), accumulated=F(1, 2))
    assert law == [0, F(1, 2), F(1, 2)]


def test_a_single_threshold_favours_the_child_that_is_asked_first():
    both = F("0.25")
    assert law_of_the_first_token(M14, Tree((-1, -1)), [1, 2], single=both) == [0, 1, 0]
    assert law_of_the_first_token(M14, Tree((-1, -1)), [2, 1], single=both) == [0, 0, 1]
    # The first one is below it: it keeps its own coin.
    assert law_of_the_first_token(M14, Tree((-1, -1)), [2, 1], single=F("0.3")) == [0, F(3, 4), F(1, 4)]


def test_torch_rule_is_its_specification():
    assert disagreement(threshold, spec, TREES, "point") < 1e-13
    assert disagreement(threshold, spec, TREES, "point", dtype=torch.float32) < 1e-5
    for single, accumulated in ((F(1), F(1, 2)), (F(2, 5), F(2, 3)), (F(0), F(1))):
        exact = partial(spec, single=single, accumulated=accumulated)
        rule = partial(threshold, single=float(single), accumulated=float(accumulated))
        assert disagreement(rule, exact, TREES, "point", seed=1) < 1e-13


def test_thresholds_of_one_are_the_target_walk():
    assert disagreement(partial(threshold, single=1, accumulated=1), walk, TREES, "point") < 1e-13
    generator = torch.Generator().manual_seed(3)
    target, draft = (TableModel.random(3, 2, generator, zeros=0.2) for _ in range(2))
    for tree in (Tree.chain(2), Tree((-1, -1, 0))):
        instance = Instance(target, draft, tree, "point", 3)
        assert tv(text_law(partial(threshold, single=1), instance).law, target_law(instance)) < 1e-12
        assert tv(text_law(RULES["threshold"], instance).law, target_law(instance)) > 0.05


@pytest.mark.parametrize("settings", [{"single": 1.1}, {"single": -0.1}, {"accumulated": 0}, {"accumulated": 2}])
def test_settings_outside_their_range_are_refused(settings):
    with pytest.raises(SpecproofError, match="is not allowed: give a number"):
        audit_lossy(partial(threshold, **settings), [0.5, 0.5], [0.5, 0.5], "point")
