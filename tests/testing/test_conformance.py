"""The conformance call for rules sees a rule that is not lossless; those for others are tested beside them."""

import pytest
import torch

from specproof.rules import RULES, Rule
from specproof.rules.rows import drawn_rows, pick
from specproof.testing.conformance import check_rule
from specproof.testing.tiny import recomputed_logits, tiny_model
from specproof.types import Law


def with_law(law):
    rule = Rule("rejection", True, ("iid",), False, "a faulty copy")
    rule.__dict__["law"] = law
    return rule


def test_absolute_difference_as_residual_is_seen():
    def law(target, draft):
        right = RULES["rejection"](target, draft)
        gap = (target - drawn_rows(target, draft)).abs()
        return Law(right.stop, lambda at: pick(gap / gap.sum(-1, keepdim=True).clamp(min=1e-30), at))

    with pytest.raises(AssertionError, match="NOT LOSSLESS"):
        check_rule(with_law(law))


def test_a_lossless_rule_that_accepts_less_than_it_should_is_seen():
    """Never accepting anything keeps the law; the specification and the known lengths tell."""

    def law(target, draft):
        stop = torch.zeros_like(target[..., 0])
        stop[:, 0] = 1
        return Law(stop, lambda at: pick(target, at))

    with pytest.raises(AssertionError, match=r"TV [0-9.]+e-1[0-9].*0 of 3 golden values"):
        check_rule(with_law(law))


def test_tiny_models_depend_on_their_seed_and_leave_the_generator_alone():
    before = torch.random.get_rng_state()
    first, again, other = tiny_model("llama", 5, 0), tiny_model("llama", 5, 0), tiny_model("llama", 5, 1)
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(recomputed_logits(first, [1, 2]), recomputed_logits(again, [1, 2]))
    assert not torch.allclose(recomputed_logits(first, [1, 2]), recomputed_logits(other, [1, 2]))
