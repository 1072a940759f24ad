"""The target's first layers as its draft model: shared weights, and the target itself when all layers are used."""

import pytest
import torch
from primed import Primed
from torch import nn

from specproof.backends.hf import HFBackend
from specproof.backends.table import TableBackend, TableModel
from specproof.drafters import choose_drafter
from specproof.drafters.early_exit import EarlyExitDrafter, first_layers
from specproof.drafters.model import ModelDrafter
from specproof.drafters.none import empty_draft
from specproof.drafters.shapes.expand import Dynamic
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.noise import CounterNoise
from specproof.testing.conformance import check_drafter
from specproof.testing.tiny import ARCHITECTURES, recomputed_logits, tiny_model
from specproof.tree import Tree
from specproof.types import SamplingParams, Step, TokenSequence

SLOW = [
    pytest.param(architecture, layers, marks=pytest.mark.slow)
    for architecture in ARCHITECTURES
    for layers in (1, 2)
    if (architecture, layers) not in (("llama", 1), ("gpt2", 2))
]


@pytest.mark.parametrize(("architecture", "layers"), [("llama", 1), ("gpt2", 2), *SLOW])
def test_early_exit_conforms(architecture, layers):
    model = tiny_model(architecture, 5)
    check_drafter(lambda: Primed(EarlyExitDrafter(HFBackend(model), layers, 3)), HFBackend(model))


@pytest.mark.parametrize(
    ("tree", "drawn"),
    [
        (Dynamic(3, 2, 5), "point"),
        pytest.param(Tree((-1, -1, 0, 0, 1)), "without_replacement", marks=pytest.mark.slow),
    ],
)
def test_trees_conform(tree, drawn):
    model = tiny_model("llama", 5)
    check_drafter(lambda: Primed(EarlyExitDrafter(HFBackend(model), 1, tree, drawn)), HFBackend(model), budget=5)


class Untidy(EarlyExitDrafter):
    """A planted fault: what was drafted counts as kept, though the later layers have never seen it."""

    def draft(self, batch, budget, noise):
        store, rewind = self.target.store, self.target.store.rewind
        store.rewind = lambda batch: store.keep(batch, [()] * len(batch))
        try:
            return super().draft(batch, budget, noise)
        finally:
            store.rewind = rewind


def check_rows(kind, rounds):
    """Scripted rejections, one store for both: the target's rows are recomputed ones, whatever was drafted."""
    model = tiny_model("llama", 7)
    target = HFBackend(model)
    drafter = kind(target, 1, Tree((-1, -1, 0, 0, 1)), "without_replacement")
    batch = [TokenSequence(tokens, len(tokens), SamplingParams(), 0) for tokens in ([1, 2], [3, 4, 5, 6, 0], [1])]
    drafted = 0
    for turn in range(rounds):
        for b, text in enumerate(batch):
            if len(text.tokens) > 50:
                for each in (target, drafter):
                    each.free([text])
                batch[b] = TokenSequence([turn % 7], 1, SamplingParams(), 0)
        draft = drafter.draft(batch, [5 * ((turn + b) % 4 != 0) for b in range(3)], CounterNoise())
        output = target.forward(batch, draft)
        paths = []
        for b, (text, tree) in enumerate(zip(batch, draft.trees, strict=True)):
            drafted += len(tree)
            for node in range(-1, len(tree)):
                path = [int(draft.tokens[b, n]) for n in tree.path(node)]
                expected = recomputed_logits(model, text.tokens + path)
                assert torch.allclose(output.logits[b, node + 1], expected, atol=1e-10), (turn, b, node)
            paths.append(tree.path(min(len(tree), (turn + b) % 6) - 1))
            text.tokens += [*(int(draft.tokens[b, n]) for n in paths[b]), (turn + 3 * b) % 7]
        target.keep(batch, paths)
        drafter.observe(batch, [Step(path, 0) for path in paths], output)
    assert drafted > 5 * rounds


@pytest.mark.parametrize("rounds", [25, pytest.param(200, marks=pytest.mark.slow)])
def test_the_targets_rows_are_as_without_a_draft(rounds):
    check_rows(EarlyExitDrafter, rounds)


def test_entries_of_the_draft_that_count_as_kept_are_seen():
    with pytest.raises((AssertionError, IndexError)):
        check_rows(Untidy, 5)


def test_the_draft_keeps_nothing_of_its_own_and_frees_nothing_of_the_targets():
    """No keys but the target's; a drafter that fails costs its request the speculation, not the text."""
    target = HFBackend(tiny_model("llama", 7, context=120))
    drafter = EarlyExitDrafter(target, 1, 3)
    assert drafter.backend._short.store is target.store
    text = TokenSequence([1, 2, 3], 3, SamplingParams(), 0)
    target.forward([text], empty_draft(1))
    target.keep([text], [()])
    drafter.free([text])
    assert target.store.missing(text) == 0
    other = Engine(HFBackend(target.model), EarlyExitDrafter(target, 1, 3))
    result = other.generate([[1, 2]], SamplingParams(max_tokens=5))[0]
    assert len(result.tokens) == 5
    assert "reads the keys of another backend than the one that runs" in result.warnings[0]


@pytest.mark.parametrize("chunk", [3, 512])
def test_long_prompts_and_many_requests_are_what_plain_decoding_gives(chunk):
    model = tiny_model("llama", 7)
    params = SamplingParams(temperature=0, max_tokens=25)
    prompts = [[1], [i % 7 for i in range(23)], [2, 3, 4], [5, 6]]
    target = HFBackend(model, chunk=chunk)
    engine = Engine(target, EarlyExitDrafter(target, 1, 4), max_batch=3, adaptive=False)
    plain = Engine(HFBackend(model)).generate(prompts, params)
    for result, expected in zip(engine.generate(prompts, params), plain, strict=True):
        assert result.tokens == expected.tokens
        assert result.stats.drafted >= 20
        assert not result.warnings
    assert target.store.rows == []


@pytest.mark.parametrize("length", range(1, 6))
@pytest.mark.parametrize("architecture", ["llama", "gpt2", "qwen3"])
def test_b23_with_all_layers_acceptance_is_exactly_one(architecture, length):
    """Field case B23: draft = target at temperature 0; a stale draft cache shows nowhere else."""
    target = HFBackend(tiny_model(architecture, 7, context=120))
    engine = Engine(target, EarlyExitDrafter(target, 2, length), adaptive=False)
    stats = engine.generate([[1, 2, 3]], SamplingParams(temperature=0, max_tokens=100))[0].stats
    assert stats.drafted == stats.accepted >= 49  # the first step is not drafted for
    assert stats.acceptance == 1


@pytest.mark.slow
def test_with_all_layers_two_hundred_rounds_are_accepted():
    target = HFBackend(tiny_model("llama", 7, context=900))
    engine = Engine(target, EarlyExitDrafter(target, 2, 3), adaptive=False)
    stats = engine.generate([[1, 2, 3]], SamplingParams(temperature=0, max_tokens=800))[0].stats
    assert stats.steps >= 200
    assert stats.drafted == stats.accepted >= 590


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_with_all_layers_a_sample_is_accepted_too(rule):
    """Both rows are the same up to rounding, so one false alarm in 10^13 tokens."""
    target = HFBackend(tiny_model("llama", 7, context=120))
    engine = Engine(target, EarlyExitDrafter(target, 2, 3), rule)
    stats = engine.generate([[1, 2, 3]], SamplingParams(temperature=0.8, max_tokens=100, seed=3))[0].stats
    assert stats.acceptance == 1


def test_an_exit_without_the_final_norm_is_seen_by_acceptance():
    model = tiny_model("llama", 7, context=120)
    short = first_layers(model, 2)
    short.model.norm = nn.Identity()
    engine = Engine(HFBackend(model), ModelDrafter(HFBackend(short), 3))
    stats = engine.generate([[1, 2, 3]], SamplingParams(temperature=0.8, max_tokens=100, seed=3))[0].stats
    assert stats.acceptance < 0.95


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_weights_are_shared_and_the_target_is_left_alone(architecture):
    model = tiny_model(architecture, 5)
    before = recomputed_logits(model, [1, 2, 3])
    short = first_layers(model, 1)
    own = {parameter.data_ptr() for parameter in model.parameters()}
    assert {parameter.data_ptr() for parameter in short.parameters()} < own
    assert model.config.num_hidden_layers == 2
    assert short.config.num_hidden_layers == 1
    early = recomputed_logits(short, [1, 2, 3])
    assert early.equal(recomputed_logits(first_layers(model), [1, 2, 3]))  # half of two
    assert recomputed_logits(model, [1, 2, 3]).equal(before)
    assert not early.allclose(before)


def test_it_is_found_by_name():
    target = HFBackend(tiny_model("llama", 5))
    drafter = choose_drafter("early_exit", target)
    assert drafter.drawn == "iid"
    assert choose_drafter("early_exit", target, coupled=True).drawn == "point"
    with pytest.raises(SpecproofError, match="'early_exit' takes no draft model"):
        choose_drafter("early_exit", target, target)


def test_other_targets_are_refused():
    with pytest.raises(SpecproofError, match="needs a transformers target, not a TableBackend"):
        EarlyExitDrafter(TableBackend(TableModel.constant([0.5, 0.5])))
    model = tiny_model("llama", 5)
    for layers in (0, 3):
        with pytest.raises(SpecproofError, match=f"layers={layers} is not allowed: this model has 2, give 1 to 2"):
            first_layers(model, layers)
    model.config.model_type = "opt"
    with pytest.raises(
        SpecproofError, match="no early exit from 'opt' models; give a target of one of: gpt2, llama"
    ):
        first_layers(model, 1)
