import random
from collections.abc import Iterator

import pytest

from specproof.engine.scheduler import _FORWARD, alike


def partitions(places: list[int]) -> Iterator[list[list[int]]]:
    """All ways to put places into groups."""
    if not places:
        yield []
        return
    first, *rest = places
    for groups in partitions(rest):
        yield [[first], *groups]
        for at in range(len(groups)):
            yield [*groups[:at], [first, *groups[at]], *groups[at + 1 :]]


def cost(groups: list[list[int]], widths: list[int]) -> int:
    return sum(_FORWARD + len(group) * max(widths[place] for place in group) for group in groups)


@pytest.mark.parametrize("seed", range(30))
def test_prompts_of_like_length_share_a_forward_at_the_least_cost(seed):
    draws = random.Random(seed)
    widths = [draws.choice((1, 20, 40, 70, 200, 400)) + draws.randrange(9) for _ in range(draws.randrange(1, 8))]
    groups = alike(widths)
    assert sorted(place for group in groups for place in group) == list(range(len(widths)))
    assert cost(groups, widths) == min(cost(each, widths) for each in partitions(list(range(len(widths)))))


def test_no_prompt_is_no_forward_and_equal_ones_share_one():
    assert alike([]) == []
    assert alike([50] * 16) == [list(range(16))]
    assert alike([1, 500]) == [[0], [1]]
