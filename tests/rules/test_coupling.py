"""Gumbel coupling: how often rows agree, exactly, and what the noise makes of target rows."""

from fractions import Fraction as F

import pytest
import torch
from exact_rule import TREES, P, Q, disagreement, distance, random_row

from specproof.audit.exact import Instance, target_law, text_law, tv
from specproof.backends.table import TableModel
from specproof.noise import CounterNoise, race
from specproof.rules import RULES
from specproof.rules.coupling import coupling, decided, match_probability, shared_key
from specproof.rules.spec.coupling import coupling as spec
from specproof.rules.spec.coupling import match_probability as match_spec
from specproof.rules.spec.numbers import EXACT
from specproof.tree import Tree
from specproof.types import Draft, SamplingParams, TokenSequence

GOLDEN = [([F(1, 3), F(2, 3)], [F(2, 3), F(1, 3)], F(2, 3)), (P, Q, F(7, 12))]


def floats(row):
    return torch.tensor([float(x) for x in row], dtype=torch.float64)


@pytest.mark.parametrize(("target", "draft", "match"), GOLDEN)
def test_golden_match_probabilities(target, draft, match):
    assert match_spec(EXACT, target, draft) == match
    assert float(match_probability(floats(target), floats(draft))) == pytest.approx(float(match), abs=1e-15)


def test_two_tokens_attain_what_rejection_attains_and_three_do_not():
    (two, reverse, match), (_, _, less) = GOLDEN
    assert match == 1 - distance(two, reverse)
    assert less < 1 - distance(P, Q) == F(2, 3)


def test_match_probability_lies_within_its_bounds():
    generator = torch.Generator().manual_seed(7)
    for number in range(300):
        target, draft = (random_row(2 + number % 5, generator) for _ in range(2))
        match, apart = match_spec(EXACT, target, draft), distance(target, draft)
        assert (1 - apart) / (1 + apart) <= match <= 1 - apart
        assert float(match_probability(floats(target), floats(draft))) == pytest.approx(float(match), abs=1e-14)
        assert match_spec(EXACT, target, target) == 1


def test_match_probability_takes_batches_and_large_vocabularies():
    rows = torch.rand(2, 3, 20_000, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    rows = rows / rows.sum(-1, keepdim=True)
    match, apart = match_probability(rows[0], rows[1]), (rows[0] - rows[1]).abs().sum(-1) / 2
    assert ((1 - apart) / (1 + apart) <= match).all()
    assert (match <= 1 - apart).all()


@pytest.mark.parametrize("drawn", ["iid", "point"])
def test_torch_rule_is_its_specification(drawn):
    assert disagreement(coupling, spec, TREES, drawn) < 1e-13


def test_the_law_averaged_over_the_noise_is_the_targets():
    generator = torch.Generator().manual_seed(9)
    target, draft = (TableModel.random(3, 2, generator) for _ in range(2))
    for tree, drawn in (
        (Tree.chain(2), "iid"),
        (Tree((-1, -1)), "without_replacement"),
        (Tree((-1, -1, 0)), "point"),
    ):
        instance = Instance(target, draft, tree, drawn, 3)
        assert tv(text_law(RULES["coupling"], instance).law, target_law(instance)) < 1e-12


def one_hot(token, size):
    return [float(x == token) for x in range(size)]


def test_decisions_are_followed_from_the_root_and_end_with_the_first_that_was_not_drafted():
    rows = torch.rand(2, 5, 6, generator=torch.Generator().manual_seed(10), dtype=torch.float64)
    batch = [TokenSequence([1] * 5, 2, SamplingParams(), seed=3), TokenSequence([1], 1, SamplingParams(), seed=4)]
    # A text of 5 tokens: the root's row decides position 5, the rows of its children position 6, …
    first = int(race(rows[:1, 0], [shared_key(3, 5)]))
    tree = Tree((-1, -1, 1, -1))
    second = int(race(rows[:1, 2], [shared_key(3, 6)]))
    tokens = torch.tensor([[(first + 1) % 6, first, (second + 1) % 6, first], [0, 0, 0, 0]])
    alone = int(race(rows[1:, 0], [shared_key(4, 1)]))
    tokens[1] = (alone + 1) % 6
    draft = Draft((tree, Tree.chain(2)), tokens, None, "point")
    found = decided(rows, batch, draft, CounterNoise())
    assert found[0, 0].tolist() == one_hot(first, 6)
    assert found[0, 2].tolist() == one_hot(second, 6)  # of the equal children the first one
    assert found[1, 0].tolist() == one_hot(alone, 6)
    assert found.sum() == 3
    law = coupling(found, draft)
    assert law.stop.tolist() == [[0, 0, 1, 0, 0], [1, 0, 0, 0, 0]]
    assert law.next(torch.tensor([2, 0])).tolist() == [one_hot(second, 6), one_hot(alone, 6)]


def test_a_position_is_decided_alike_from_every_root():
    row = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
    text = [0] + [int(race(row[None], [shared_key(11, position)])) for position in range(1, 9)]
    winners = set()
    for length in range(1, 9):  # position 8 as the bonus of a long draft, of a short one, of none
        drafted = text[length:8]
        tree = Tree.chain(len(drafted))
        draft = Draft((tree,), torch.tensor([drafted], dtype=torch.long), None, "point")
        sequence = TokenSequence([0] * length, 1, SamplingParams(), seed=11)
        rows = row.expand(1, len(tree) + 1, -1)
        winners.add(int(decided(rows, [sequence], draft, CounterNoise())[0, -1].argmax()))
    assert winners == {text[8]}
