"""DropMatch as a test over given rows."""

from fractions import Fraction as F
from functools import partial
from math import log, sqrt

import pytest
import torch
from exact_rule import CHAINS, P, Q, disagreement, one_step

from specproof.errors import SpecproofError
from specproof.rules import RULES
from specproof.rules.dropmatch import dropmatch, jensen_shannon, matches
from specproof.rules.spec.dropmatch import dropmatch as spec
from specproof.rules.spec.numbers import EXACT
from specproof.tree import Tree
from specproof.types import Draft


def passes(drawn, token, masked):
    rows = torch.tensor(masked, dtype=torch.float64)
    return bool(matches(torch.tensor(drawn, dtype=torch.float64), torch.tensor(token), rows))


def test_divergence_in_nats():
    one, other = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    assert float(jensen_shannon(one, other)) == pytest.approx(log(2))
    assert float(jensen_shannon(one, one)) == 0
    middle = torch.tensor([0.5, 0.5])
    # (KL(one || (3/4, 1/4)) + KL(middle || (3/4, 1/4))) / 2
    by_hand = (log(4 / 3) + (log(2 / 3) + log(2)) / 2) / 2
    assert float(jensen_shannon(one, middle)) == pytest.approx(by_hand)


def test_a_draft_within_the_spread_passes_whatever_its_token():
    masked = [[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]]
    side = sqrt(0.08) / (2 * sqrt(0.08) + 0.1)  # geometric means, normalised
    centre = [side, 1 - 2 * side, side]
    assert all(passes(centre, token, masked) for token in range(3))
    assert all(passes([0.8, 0.1, 0.1], token, masked) for token in range(3))  # as far as the farthest
    assert not passes([0.02, 0.96, 0.02], 1, masked)


def test_beyond_the_spread_the_vote_decides():
    masked = [[0.5, 0.3, 0.2], [0.3, 0.5, 0.2], [0.3, 0.5, 0.2]]
    far = [0.0, 0.0, 1.0]
    assert [passes(far, token, masked) for token in range(3)] == [False, True, False]
    tie = masked[:2]
    assert [passes(far, token, tie) for token in range(3)] == [True, False, False]  # the lowest of equal counts


def test_rows_with_no_token_in_common_leave_the_vote():
    masked = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]
    assert [passes([0.0, 0.0, 1.0], token, masked) for token in range(3)] == [True] * 3  # as far as they are
    assert passes([0.0, 1.0, 0.0], 1, masked)


@pytest.mark.parametrize("drawn", ["iid", "point"])
def test_without_masks_torch_rule_is_its_specification(drawn):
    assert disagreement(dropmatch, spec, CHAINS, drawn) < 1e-13


def test_with_masks_torch_rule_is_its_specification():
    generator = torch.Generator().manual_seed(4)
    count = {True: 0, False: 0}
    for _ in range(50):
        rows = torch.rand(1, 3, 7, 4, generator=generator, dtype=torch.float64)
        rows = rows / rows.sum(-1, keepdim=True)
        target, drawn, masked = rows[:, :, 0], rows[:, :, 1], rows[:, :, 2:]
        tokens = torch.randint(4, (1, 2), generator=generator)
        draft = Draft((Tree.chain(2),), tokens, drawn, "iid")
        law = partial(dropmatch, masked=masked)(target, draft)
        exact = spec(
            EXACT,
            target[0].tolist(),
            drawn[0].tolist(),
            Tree.chain(2),
            tokens[0].tolist(),
            masked=masked[0].tolist(),
        )
        assert law.stop[0].tolist() == exact.stop
        count[exact.stop[0] == 1] += 1
        for node in range(3):
            assert law.next(torch.tensor([node]))[0].tolist() == exact.next[node]
    assert min(count.values()) > 5


def test_without_dropout_its_law_is_far_from_the_target():
    # Drafted token 0, the argmax, is kept; the others are redrawn: 1/6 + 5/6 · P.
    assert one_step(spec, P, Q) == [F(7, 12), F(5, 18), F(5, 36)]
    assert not RULES["dropmatch"].usable


def test_masked_rows_of_another_shape_are_refused():
    target = torch.full((1, 2, 3), 1 / 3)
    draft = Draft((Tree.chain(1),), torch.tensor([[0]]), target, "iid")
    with pytest.raises(SpecproofError, match=r"masked rows are \(1, 2, 3\); give \[1, 2, K, 3\]"):
        dropmatch(target, draft, masked=target)
