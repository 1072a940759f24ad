"""The repaired rule is lossless for drafts that are what they say, and only for those."""

import pytest
import torch
from exact_rule import CHAINS, P, Q, disagreement, one_step

from specproof.audit.exact import Instance, target_law, text_law, tv
from specproof.backends.table import TableModel
from specproof.rules import RULES
from specproof.rules.spec.spec_rl_exact import spec_rl_exact as spec
from specproof.rules.spec_rl_exact import spec_rl_exact
from specproof.tree import Tree
from specproof.types import Draft


def test_golden_value_is_the_target():
    assert one_step(spec, P, Q) == P


@pytest.mark.parametrize("drawn", ["iid", "point"])
def test_torch_rule_is_its_specification(drawn):
    assert disagreement(spec_rl_exact, spec, CHAINS, drawn) < 1e-13


def test_lossless_over_rounds():
    generator = torch.Generator().manual_seed(2)
    for _ in range(5):
        target, draft = (TableModel.random(3, 2, generator, zeros=0.2) for _ in range(2))
        instance = Instance(target, draft, Tree.chain(2), "iid", 3)
        assert tv(text_law(RULES["spec_rl_exact"], instance).law, target_law(instance)) < 1e-12


def test_a_target_that_learned_from_the_draft_is_not_followed():
    # The caveat of the docstring, in the smallest case. Before the response y the policy is (1/2, 1/2); it is
    # then trained until it gives y 3/4. y is the next draft, with the rows (1/2, 1/2) it was drawn from: each
    # step is exact for an independent draft, yet given the new policy the draft is y for certain.
    y, before = 0, torch.tensor([[[0.5, 0.5]] * 2], dtype=torch.float64)
    now = torch.tensor([[[0.75, 0.25]] * 2], dtype=torch.float64)
    law = spec_rl_exact(now, Draft((Tree.chain(1),), torch.tensor([[y]]), before, "iid"))
    kept, rejected = law.stop[0, 1], law.stop[0, 0] * law.next(torch.tensor([0]))[0, y]
    assert float(kept + rejected) == 1  # y comes out always, instead of in 3 of 4 cases
