"""The plan for distinct children: probabilities of sets, and plans that stay within both sides."""

from fractions import Fraction as F

import pytest
from exact_laws import P, Q, all_in, draws

from specproof.errors import SpecproofError
from specproof.rules.flow import MOST_SETS, best_plan, set_law


@pytest.mark.parametrize("count", [1, 2, 3])
def test_sets_have_the_probability_of_all_their_orders(count):
    row = [F(1, 2), F(1, 4), F(0), F(1, 8), F(1, 8)]
    law = set_law(row, count)
    assert sum(law.values()) == 1
    for tokens, probability in law.items():
        assert probability == all_in(tokens, row, "without_replacement", count)
    assert set(law) == {tuple(sorted(t)) for t, _ in draws(row, "without_replacement", count)}


def test_a_plan_gives_no_token_more_than_its_mass_and_no_set_more_than_all():
    plan = best_plan(P, Q, 2)
    assert sum(plan.given) == F(11, 12)
    assert all(0 <= given <= mass for given, mass in zip(plan.given, P, strict=True))
    law = set_law(Q, 2)
    for tokens, shares in plan.taken.items():
        assert set(shares) == set(tokens)
        assert min(shares.values()) >= 0
        assert sum(shares.values()) <= 1
    for token, given in enumerate(plan.given):
        assert given == sum(law[t] * shares.get(token, 0) for t, shares in plan.taken.items())


def test_the_largest_problem_is_solved_and_the_next_one_refused():
    size = 23  # 253 pairs
    target = [F(2 * (i + 1), size * (size + 1)) for i in range(size)]
    assert sum(best_plan(target, target[::-1], 2).given) <= 1
    with pytest.raises(SpecproofError, match=f"at most {MOST_SETS}"):
        best_plan([F(1, 24)] * 24, [F(1, 24)] * 24, 2)
