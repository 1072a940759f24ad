"""What every rule owes: its law equals its specification, padding and precision change nothing, edges hold."""

from fractions import Fraction

import pytest
import torch

from specproof.audit.exact import enumerate_drafts
from specproof.audit.rules import random_instances, spec_difference
from specproof.errors import SpecproofError
from specproof.noise import CounterNoise
from specproof.rules import RULES, choose_rule
from specproof.rules.draw import draw
from specproof.rules.spec.numbers import EXACT
from specproof.testing.conformance import check_rule
from specproof.tree import Tree
from specproof.types import Draft, SamplingParams, TokenSequence

NAMES = sorted(name for name, rule in RULES.items() if rule.lossless)
CHAIN_RULES = ["rejection", "block"]


def rows(values):
    return torch.tensor(values, dtype=torch.float64)


def chain(tokens, drawn):
    """One drafted chain; the row after its last node is filled with nonsense that no rule may read."""
    junk = torch.full_like(drawn[:1], 0.5)
    return Draft((Tree.chain(len(tokens)),), torch.tensor([tokens]), torch.cat([drawn, junk])[None], "iid")


def full_law(law):
    """Probability of (stop, token), [N+1, V], for a batch of one."""
    return torch.stack([law.stop[0, i] * law.next(torch.tensor([i]))[0] for i in range(law.stop.shape[1])])


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_keeps_the_law_and_equals_its_specification(name):
    check_rule(RULES[name], instances=60)


@pytest.mark.parametrize("name", NAMES)
def test_padding_and_batch_mates_change_nothing(name):
    instances = list(zip(random_instances(RULES[name], 3), range(25), strict=False))
    for instance, _ in instances:
        shorter = Tree(instance.tree.parents[:-1])
        if instance.drawn == "top_and_one" or not RULES[name].fits(instance.drawn, shorter):
            continue  # without its last node this would be another kind of draft
        drafts = enumerate_drafts(instance, 1)
        whole = RULES[name](drafts.target, drafts.draft)
        trees = tuple(instance.tree if b % 2 else shorter for b in range(len(drafts.probability)))
        mixed = Draft(trees, drafts.draft.tokens, drafts.draft.rows, instance.drawn)
        law = RULES[name](drafts.target, mixed)
        assert torch.allclose(law.stop.sum(-1), torch.ones(len(trees)).double())
        assert torch.equal(law.stop[1::2], whole.stop[1::2])
        assert (law.stop[::2, -1] == 0).all(), "padding was reached"
        cut = drafts.draft.tokens[::2, :-1]
        part = None if drafts.draft.rows is None else drafts.draft.rows[::2, :-1]
        alone = RULES[name](drafts.target[::2, :-1], Draft((shorter,) * len(cut), cut, part, instance.drawn))
        assert torch.allclose(law.stop[::2, :-1], alone.stop, atol=1e-15)


@pytest.mark.parametrize("name", NAMES)
def test_single_precision_stays_close(name):
    for instance, _ in zip(random_instances(RULES[name], 5), range(10), strict=False):
        drafts = enumerate_drafts(instance, 0)
        part = None if drafts.draft.rows is None else drafts.draft.rows.float()
        draft = Draft(drafts.draft.trees, drafts.draft.tokens, part, instance.drawn)
        single = RULES[name](drafts.target.float(), draft)
        assert single.stop.dtype == torch.float32
        double = RULES[name](drafts.target, drafts.draft)
        drawable = drafts.probability > 0
        assert torch.allclose(single.stop[drawable].double(), double.stop[drawable], atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_draft_gives_the_target(name):
    target = rows([[[0.2, 0.8, 0.0]]])
    drawn = RULES[name].draws[0]
    drawn_rows = None if drawn == "point" else torch.rand(1, 1, 3).double()
    draft = Draft((Tree.chain(0),), torch.zeros(1, 0, dtype=torch.long), drawn_rows, drawn)
    for law in (RULES[name](target, draft), RULES[name].law(target, draft)):
        assert law.stop.tolist() == [[1.0]]
        assert torch.equal(law.next(torch.tensor([0])), target[:, 0])


@pytest.mark.parametrize("name", CHAIN_RULES)
def test_equal_rows_accept_everything_and_the_bonus_is_the_target(name):
    row = rows([0.2, 0.5, 0.3])
    target = row.expand(3, -1)[None]
    law = RULES[name](target, chain([1, 2], row.expand(2, -1)))
    assert law.stop.tolist() == [[0, 0, 1]]
    assert torch.allclose(law.next(torch.tensor([2])), row[None], atol=1e-15)


@pytest.mark.parametrize("name", CHAIN_RULES)
def test_disjoint_support_rejects_at_once_and_draws_from_the_target(name):
    target = rows([0.0, 0.6, 0.4]).expand(3, -1)[None]
    law = RULES[name](target, chain([0, 0], rows([1.0, 0.0, 0.0]).expand(2, -1)))
    assert law.stop.tolist() == [[1, 0, 0]]
    assert torch.equal(law.next(torch.tensor([0])), target[:, 0])


@pytest.mark.parametrize("name", CHAIN_RULES)
def test_one_hot_rows_match_or_not(name):
    target = rows([[0, 1, 0], [1, 0, 0], [0, 0, 1]])[None]
    one_hot = rows([[0, 1, 0], [0, 1, 0]])
    law = RULES[name](target, chain([1, 1], one_hot))
    assert law.stop.tolist() == [[0, 1, 0]]
    assert law.next(torch.tensor([1])).tolist() == [[1, 0, 0]]


@pytest.mark.parametrize("name", CHAIN_RULES)
def test_zero_mass_tokens_are_never_emitted(name):
    target = rows([[0.5, 0.5, 0.0], [0.0, 0.3, 0.7]])[None]
    law = full_law(RULES[name](target, chain([2], rows([0.3, 0.3, 0.4])[None])))
    assert law[0, 2] == 0
    assert law[1].sum() == 0


def test_the_tutorial_pair():
    """Accepts 0.8, rejects 0.2, redraws cat only."""
    target, draft = rows([0.6, 0.3, 0.1]), rows([0.4, 0.5, 0.1])
    accepted = torch.zeros(3).double()
    for token in range(3):
        law = RULES["rejection"](target.expand(1, 2, -1), chain([token], draft[None]))
        accepted[token] = draft[token] * law.stop[0, 1]
    assert torch.allclose(accepted, rows([0.4, 0.3, 0.1]))
    assert torch.allclose(law.next(torch.tensor([0])), rows([[1.0, 0.0, 0.0]]))


@pytest.mark.parametrize("accepted", [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)])
def test_b3_acceptance_ends_at_the_first_rejection(accepted):
    """Field case B3: every pattern of certain acceptances and rejections of three tokens."""
    target = torch.stack([rows([1.0, 0.0]) if keep else rows([0.0, 1.0]) for keep in (*accepted, 1)])[None]
    law = RULES["rejection"](target, chain([0, 0, 0], rows([1.0, 0.0]).expand(3, -1)))
    assert law.stop.argmax().item() == next((i for i, keep in enumerate(accepted) if not keep), 3)


def test_b56_the_bonus_comes_from_the_last_nodes_own_row():
    """Field case B56: after full acceptance of token 0 or 1 only 2 or 3 can follow."""
    target = rows([[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]])[None]
    for name in CHAIN_RULES:
        law = RULES[name](target, chain([0], rows([1.0, 0, 0, 0])[None]))
        assert law.next(torch.tensor([1])).tolist() == [[0, 0, 0.5, 0.5]]


def test_b57_walk_gives_equal_siblings_one_chance():
    """Field case B57 (M10): rows a, a, a, e with target one half each; a keeps one half."""
    target = rows([0.5, 0.5]).expand(1, 5, -1)
    draft = Draft((Tree((-1, -1, -1, -1)),), torch.tensor([[0, 0, 0, 1]]), None, "point")
    law = RULES["walk"](target, draft)
    assert law.stop.tolist() == [[0, 0.5, 0, 0, 0.5]]


def test_walk_never_looks_at_what_tokens_were_drawn_from():
    """Controls C1 and C3: any drafter is fine; soft rows change nothing."""
    target = torch.rand(1, 3, 4, generator=torch.Generator().manual_seed(0)).double()
    target /= target.sum(-1, keepdim=True)
    tokens = torch.tensor([[2, 1]])
    soft = Draft((Tree.chain(2),), tokens, torch.rand(1, 3, 4).double(), "iid")
    point = Draft((Tree.chain(2),), tokens, None, "point")
    assert torch.equal(full_law(RULES["walk"](target, soft)), full_law(RULES["walk"](target, point)))


def test_on_point_drafts_all_rules_have_the_law_of_the_walk():
    for instance, _ in zip(random_instances(RULES["rejection"], 9), range(40), strict=False):
        if instance.drawn == "point":
            drafts = enumerate_drafts(instance, 0)
            laws = [full_law(RULES[name](drafts.target, drafts.draft)) for name in ("rejection", "block", "walk")]
            assert torch.allclose(laws[0], laws[2], atol=1e-15)
            assert torch.allclose(laws[1], laws[2], atol=1e-15)


def test_b1_a_soft_row_for_an_argmax_token_is_seen_by_the_specification():
    """Field case B1 (M1): the token is always 0, the row claims (.8, .2); the law becomes (.75, .25)."""
    target = [[Fraction(3, 5), Fraction(2, 5)]] * 2
    honest, soft = [[Fraction(1), Fraction(0)]] * 2, [[Fraction(4, 5), Fraction(1, 5)]] * 2
    for drawn, expected in ((honest, Fraction(3, 5)), (soft, Fraction(3, 4))):
        law = RULES["rejection"].spec(EXACT, target, drawn, Tree.chain(1), [0])
        assert law.stop[1] + law.stop[0] * law.next[0][0] == expected


def test_the_comparison_with_the_specification_sees_a_difference():
    instance = next(random_instances(RULES["block"], 1))
    drafts = enumerate_drafts(instance, 0)
    assert spec_difference(RULES["block"], drafts) < 1e-14
    other = drafts._replace(target=drafts.target.roll(1, -1))
    mixed = RULES["block"].law
    wrong = type(RULES["block"])("block", True, ("iid",), False, "")
    wrong.__dict__["law"] = lambda target, draft: mixed(drafts.target, draft)
    assert spec_difference(wrong, other) > 0.01


def test_rules_refuse_what_they_are_not_lossless_for():
    tree = Draft((Tree((-1, -1)),), torch.tensor([[0, 1]]), torch.ones(1, 3, 2) / 2, "iid")
    with pytest.raises(SpecproofError, match=r"'rejection' does not take iid trees; rules that do: .*walk"):
        RULES["rejection"](torch.ones(1, 3, 2) / 2, tree)


def test_an_unknown_rule_lists_the_known_ones():
    with pytest.raises(SpecproofError, match=r"unknown rule 'magic'; choose one of: auto, .*block"):
        choose_rule("magic", None)


def test_draw_follows_the_law_under_each_sequences_own_key():
    """A step is stop node, path and extra token; 4 000 keys, exact counts within 5 standard deviations (1e-6)."""
    target = rows([0.6, 0.3, 0.1]).expand(4000, 2, -1)
    draft = Draft(
        (Tree.chain(1),) * 4000, torch.ones(4000, 1).long(), rows([0.4, 0.5, 0.1]).expand(4000, 2, -1), "iid"
    )
    batch = [TokenSequence([0], 1, SamplingParams(), seed) for seed in range(4000)]
    steps = draw(RULES["rejection"](target, draft), batch, draft, CounterNoise())
    kept = [step for step in steps if step.path == (0,)]
    assert abs(len(kept) - 2400) < 5 * (4000 * 0.6 * 0.4) ** 0.5
    assert all(step.token == 0 for step in steps if step.path == ())
    assert abs(sum(step.token == 0 for step in kept) - 0.6 * len(kept)) < 5 * (len(kept) * 0.24) ** 0.5
