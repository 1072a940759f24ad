"""Public reports of engines that lost the law under sampling parameters, each as a table with a known answer."""

import math
from itertools import product

import pytest
import torch

from specproof.audit.engine_exact import engine_law
from specproof.audit.enumerate import EnumeratingNoise
from specproof.backends.hf import HFBackend
from specproof.backends.table import TableBackend, TableModel
from specproof.drafters.model import ModelDrafter
from specproof.drafters.ngram import NgramDrafter
from specproof.engine.engine import Engine
from specproof.noise import CounterNoise
from specproof.testing.tiny import tiny_model
from specproof.tree import Tree
from specproof.types import PROPOSE, Draft, SamplingParams

from .scripted import ScriptedDrafter

TENTHS = (0.6, 0.3, 0.1)


class Always:
    """Proposes the same chain in every step."""

    drawn = "point"
    chains = True

    def __init__(self, *tokens):
        self.tokens = tokens

    def draft(self, batch, budget, noise):
        sizes = [min(most, len(self.tokens)) for most in budget]
        tokens = torch.tensor([self.tokens[: max(sizes)]] * len(batch), dtype=torch.long)
        return Draft(tuple(map(Tree.chain, sizes)), tokens.reshape(len(batch), max(sizes)), None, "point")

    def observe(self, batch, steps, output):
        pass

    def free(self, batch):
        pass


def table(*row):
    return TableModel.constant([float(mass) for mass in row])


def softmaxed(*logits):
    return table(*torch.tensor(logits).double().softmax(-1).tolist())


def greedy(model, drafter, prompt=(0,), eos=(), **params):
    engine = Engine(TableBackend(model), drafter, eos=eos)
    return engine.generate([list(prompt)], SamplingParams(temperature=0, **params))[0]


def law(model, drafter, params, rule="auto", prompt=(0,)):
    engine = Engine(TableBackend(model), drafter, rule, noise=EnumeratingNoise(), max_batch=256)
    return engine_law(engine, list(prompt), params)[0]


class Noting:
    """The noise in use, which keeps the rows that proposals were drawn from."""

    def __init__(self):
        self.noise, self.rows = CounterNoise(), {}

    def choose(self, rows, keys):
        self.rows |= {(key.root, key.part): row for row, key in zip(rows, keys, strict=True) if key.use == PROPOSE}
        return self.noise.choose(rows, keys)


@pytest.mark.parametrize("tree", [Tree.chain(3), Tree((-1, -1, 0, 1, 3))])
@pytest.mark.parametrize(
    "values", [{"top_k": 2}, {"temperature": 0.5}, {"top_p": 0.6}, {"bad_words": ((1,),)}, {"presence_penalty": 1}]
)
def test_b2_rows_of_a_draft_are_those_its_tokens_were_drawn_from(tree, values):
    """Field case B2: after every filter and penalty that touched the draw, to the last bit."""
    params, noise = SamplingParams(seed=4, **values), Noting()
    backend = HFBackend(tiny_model("llama", 5))
    (request,) = Engine(backend).requests([1, 2, 3], params)
    request.read(3)
    draft = ModelDrafter(HFBackend(tiny_model("llama", 5, 1)), tree).draft([request.sequence], [9], noise)
    used = [noise.rows[key] for key in sorted(noise.rows)]
    assert len(used) == len(draft.trees[0]) == len(tree)
    for node, (parent, row) in enumerate(zip(draft.trees[0].parents, used, strict=True)):
        assert torch.equal(draft.rows[0, parent + 1], row)
        assert row[draft.tokens[0, node]] > 0


def test_b11_temperature_reaches_every_place_of_a_block():
    """Field case B11: (.6, .3, .1) at temperature .5 is (.7826, .1957, .0217), whatever the drafter's law."""
    found = law(table(*TENTHS), ModelDrafter(TableBackend(table(0.2, 0.3, 0.5)), 2),
                SamplingParams(temperature=0.5, max_tokens=3))  # fmt: skip
    row = [0.36 / 0.46, 0.09 / 0.46, 0.01 / 0.46]
    for text in product(range(3), repeat=3):
        assert found[text] == pytest.approx(math.prod(row[token] for token in text), abs=1e-13)


@pytest.mark.parametrize("values", [{"min_p": 0.4}, {"logit_bias": {2: -99.0}}, {"bad_words": ((2,),)}])
def test_b12_no_place_of_a_block_has_another_law(values):
    """Field case B12: a perfect drafter of three; token 2 never appears at places 1 to 4, nor 0 too often."""
    model = table(*TENTHS)
    found = law(model, ModelDrafter(TableBackend(model), 3), SamplingParams(max_tokens=4, **values))
    for place in range(4):
        tally = [sum(mass for text, mass in found.items() if text[place] == token) for token in range(3)]
        assert tally == pytest.approx([2 / 3, 1 / 3, 0], abs=1e-12)


def test_b14_the_frequency_penalty_counts_every_drafted_token():
    """Field case B14: logits 3.5 and 1, drafts a, a, a are all right, then it is b's turn."""
    result = greedy(softmaxed(3.5, 1), Always(0, 0, 0), (1,), frequency_penalty=1.0, max_tokens=4)
    assert result.tokens == (0, 0, 0, 1)
    assert result.stats.steps == 1


@pytest.mark.parametrize("nodes", [0, 1, 3, 4])
def test_b14_min_tokens_counts_tokens_not_steps(nodes):
    """Field case B14: with a least of 4 the end is allowed from the 5th token on, not from the 5th step."""
    for drafted in (1, 2):  # the end itself, and the best other token
        drafter = Always(*[drafted] * nodes)
        result = greedy(softmaxed(1, 5, 3), drafter, (0,), eos=(1,), min_tokens=4, max_tokens=12)
        assert (result.tokens, result.finish_reason) == ((2, 2, 2, 2, 1), "stop")


@pytest.mark.parametrize(
    ("values", "row"),
    [
        ({}, TENTHS),
        ({"top_k": 1}, (1, 0, 0)),
        ({"temperature": 5.0}, [p**0.2 / sum(q**0.2 for q in TENTHS) for p in TENTHS]),
        ({"temperature": 0}, (1, 0, 0)),
    ],
)
def test_b16_the_temperature_is_honoured(values, row):
    """Field case B16: not greedy at temperature 1, certain with top-k 1, spread at temperature 5."""
    found = law(
        table(*TENTHS), ModelDrafter(TableBackend(table(*TENTHS)), 2), SamplingParams(max_tokens=2, **values)
    )
    for text in product(range(3), repeat=2):
        assert found.get(text, 0) == pytest.approx(row[text[0]] * row[text[1]], abs=1e-12)


@pytest.mark.parametrize("drafter", [Always(1), Always(1, 1), NgramDrafter(shortest=1)])
def test_b17_the_first_drafted_token_is_judged(drafter):
    """Field case B17: 1 to 2 to 3 to 1, and drafts that begin with 1 after the prompt 1, 1, 1."""
    after = torch.zeros(4, 4).double()
    after[[0, 1, 2, 3], [1, 2, 3, 1]] = 1
    model = TableModel((torch.tensor([[0.25] * 4]).double(), after))
    assert greedy(model, drafter, (1, 1, 1), max_tokens=6).tokens == (2, 3, 1, 2, 3, 1)


def test_b18_of_equal_logits_the_first_wins_also_over_a_draft():
    """Field case B18: logits 1, 2, 2, 0 give token 1; a drafter's token 2 is refused."""
    for drafter in ("none", Always(2, 2, 2), Always(1, 2, 1)):
        assert greedy(softmaxed(1, 2, 2, 0), drafter, max_tokens=6).tokens == (1,) * 6


@pytest.mark.parametrize("drafter", [Always(0, 0), Always(1, 3), "greedy", "random"])
def test_b20_keeping_drafts_that_agree_with_the_targets_own_sample_is_lossless(drafter):
    """Field case B20, a control: greedy, random and adversarial drafts cost acceptance and not the law."""
    row = (0.1, 0.4, 0.3, 0.2)
    if isinstance(drafter, str):
        drawn = "point" if drafter == "greedy" else "iid"
        drafter = ModelDrafter(TableBackend(table(0.5, 0.3, 0.1, 0.1)), 2, drawn)
    found = law(table(*row), drafter, SamplingParams(max_tokens=2), "walk")
    for text in product(range(4), repeat=2):
        assert found[text] == pytest.approx(row[text[0]] * row[text[1]], abs=1e-13)


def test_b32_two_ends_in_one_block_and_nothing_streamed_after_the_first():
    """Field case B32: two end tokens, the drafter is right about what would follow them."""
    after = torch.eye(6).roll(1, 1).double()  # 0 to 1 to 2 and so on
    model = TableModel((torch.tensor([[1 / 6] * 6]).double(), after))
    for ends, output in (((3, 5), (1, 2, 3)), ((5, 4), (1, 2, 3, 4))):
        engine = Engine(TableBackend(model), Always(1, 2, 3, 4, 5), eos=ends)
        results = list(engine.stream([0], SamplingParams(temperature=0, max_tokens=9)))
        assert (results[-1].tokens, results[-1].finish_reason) == (output, "stop")
        assert len(results) == 1
        assert results[-1].stats.tokens == len(output)


def test_b50_and_b62_a_result_has_its_own_figures():
    """Field cases B50 and B62: ten steps of three drafted tokens, accepted counts 5 x 0, 2 x 1, 3 x 3."""
    model = table(*TENTHS)
    script = [(3, 0)] * 5 + [(3, 1)] * 2 + [(3, 3)] * 3
    drafter = ScriptedDrafter({(1,): (0,) * 40, (2,): (0,) * 40}, script, 3)
    engine = Engine(TableBackend(model), drafter, adaptive=False)
    params = [SamplingParams(temperature=0, max_tokens=21), SamplingParams(temperature=0, max_tokens=5)]
    first, second = engine.generate([[1], [2]], params)
    stats = first.stats
    assert (stats.steps, stats.drafted, stats.accepted, stats.tokens) == (10, 30, 11, 21)
    assert stats.histogram == {0: 5, 1: 2, 3: 3}
    assert stats.acceptance_by_depth == {1: 0.5, 2: 0.3, 3: 0.3}
    assert stats.tokens_per_forward == 2.1
    assert second.stats.tokens == 5
    assert engine.stats.tokens == 26
    assert first.as_dict()["stats"]["histogram"] == {0: 5, 1: 2, 3: 3}


def test_functions_of_the_user_are_called_where_batch_mates_draft_deeper():
    """A request that is nearly done drafts less than its mates; both still speculate."""
    target, draft = (HFBackend(tiny_model("llama", 8, seed)) for seed in (0, 1))
    engine = Engine(target, ModelDrafter(draft, 4))
    own = [SamplingParams(max_tokens=n, seed=1, processors=[lambda _, logits: logits + 1]) for n in (12, 4)]
    plain = [SamplingParams(max_tokens=n, seed=1) for n in (12, 4)]
    found, expected = (engine.generate([[1, 2], [3]], params) for params in (own, plain))
    for one, other in zip(found, expected, strict=True):
        assert (one.tokens, one.warnings) == (other.tokens, ())
        assert one.stats.drafted == other.stats.drafted > 0
