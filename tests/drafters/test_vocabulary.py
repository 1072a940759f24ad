"""A draft model of another vocabulary: the law is the target's, the cache is right, a good map loses nothing."""

from functools import partial

import pytest
import torch

from specproof.audit.engine_exact import audit_engine, engine_law
from specproof.audit.enumerate import EnumeratingNoise
from specproof.backends.hf import HFBackend
from specproof.backends.table import TableBackend, TableModel
from specproof.drafters.model import ModelDrafter
from specproof.drafters.none import empty_draft
from specproof.drafters.vocabulary import SharedVocabulary
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.testing.conformance import check_backend, check_drafter
from specproof.testing.tiny import recomputed_logits, tiny_model
from specproof.tree import Tree
from specproof.types import Draft, SamplingParams, TokenSequence

TARGET = 8
PARAMS = SamplingParams(temperature=0.9, top_k=3, max_tokens=3)
TREE = Tree((-1, -1, 0, 1))
# Target tokens 0, 2, 3, 6 are draft tokens 3, 0, 5, 1; the others are spelled with two or with none.
SHARED = {0: 3, 2: 0, 3: 5, 6: 1}


def spell(token):
    return () if token == 7 else (2, token % 6)


@pytest.fixture(scope="module")
def target():
    return tiny_model("llama", TARGET, seed=0)


def padded(size, seed=1):
    return SharedVocabulary(HFBackend(tiny_model("llama", size, seed)), TARGET)


def intersection(size=6, seed=1, **options):
    return SharedVocabulary(HFBackend(tiny_model("llama", size, seed, **options)), TARGET, SHARED, spell, 4)


def engine(target, drafter, rule="block"):
    return Engine(HFBackend(target), drafter, rule, noise=EnumeratingNoise(), max_batch=256, eos=(5,))


def audit(target, drafter, rule="block", params=PARAMS):
    return audit_engine(engine(target, drafter, rule), partial(recomputed_logits, target), [1, 6], params)


class Seen:
    """A target that notes every drafted token."""

    def __init__(self, backend):
        self.backend, self.vocabulary, self.context = backend, backend.vocabulary, backend.context
        self.tokens = set()
        self.keep, self.free = backend.keep, backend.free

    def forward(self, batch, draft, start=None):
        for tree, tokens in zip(draft.trees, draft.tokens.tolist(), strict=True):
            self.tokens |= set(tokens[: len(tree)])
        return self.backend.forward(batch, draft, start)


MAKE = {"smaller": partial(padded, 6), "larger": partial(padded, 10), "intersection": intersection}


@pytest.mark.parametrize("rule", ["block", "rejection", "walk", "traversal"])
@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_b38_any_vocabulary_keeps_the_targets_law(make, rule, target):
    """Field case B38: sizes 6 and 10 against 8, and four shared tokens of other numbers."""
    result = audit(target, ModelDrafter(make(), 2), rule)
    assert result.ok, str(result)
    assert result.rounds >= 2


@pytest.mark.parametrize("drawn", ["iid", "without_replacement", "top_and_one", "point"])
@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_trees_keep_the_targets_law(make, drawn, target):
    rule = {"iid": "traversal", "without_replacement": "traversal"}.get(drawn, "auto")
    params = SamplingParams(temperature=0.8, top_k=2, max_tokens=3)
    result = audit(target, ModelDrafter(make(), TREE, drawn), rule, params)
    assert result.ok, str(result)


@pytest.mark.parametrize(("size", "unknown"), [(6, {6, 7}), (10, {8, 9})])
def test_b38_missing_tokens_come_from_the_residual_only(size, unknown, target):
    """Field case B38: a smaller draft never drafts 6 or 7, yet they come out; a larger one never drafts 8 or 9."""
    seen = Seen(HFBackend(target))
    made = Engine(seen, ModelDrafter(padded(size), 2), "block", noise=EnumeratingNoise(), max_batch=256)
    law, _, _ = engine_law(made, [1, 6], SamplingParams(max_tokens=2))
    assert not seen.tokens & unknown
    assert seen.tokens == set(range(min(size, TARGET)))
    assert {token for text in law for token in text} == set(range(TARGET))


class NotRenormalised(ModelDrafter):
    """Planted fault: rows as they were before the restriction, with some mass outside the intersection."""

    def draft(self, batch, budget, noise):
        made = super().draft(batch, budget, noise)
        return made if made.rows is None else Draft(made.trees, made.tokens, 0.7 * made.rows, made.drawn)


class ShiftedByOne(ModelDrafter):
    """Planted fault: tokens leave with another number than their rows say."""

    def draft(self, batch, budget, noise):
        made = super().draft(batch, budget, noise)
        return Draft(made.trees, (made.tokens + 1) % TARGET, made.rows, made.drawn)

    def observe(self, batch, steps, output):
        self.backend.free(batch)


def test_the_audit_sees_rows_that_are_not_what_was_drawn(target):
    result = audit(target, ShiftedByOne(intersection(), 2), "rejection")
    assert not result.ok
    assert result.tv > 1e-3


def test_rows_that_are_not_renormalised_are_a_finding(target):
    with pytest.raises(AssertionError, match="the drafter failed"):
        audit(target, NotRenormalised(intersection(), 2), "rejection")


@pytest.mark.parametrize("size", [6, 8, 10])
def test_padded_models_conform(size, target):
    check_backend(padded(size))
    check_drafter(lambda: ModelDrafter(padded(size), 3), HFBackend(target))


def test_an_intersection_conforms_as_a_drafter(target):
    check_drafter(lambda: ModelDrafter(intersection(), 3), HFBackend(target))
    check_drafter(lambda: ModelDrafter(intersection(), TREE, "without_replacement"), HFBackend(target))


class Erring(ModelDrafter):
    """Errs in some rounds at a scripted place; knows how many of its tokens are right."""

    rounds = right = 0
    script = (9, 0, 9, 2, 1, 9, 9, 3)

    def draft(self, batch, budget, noise):
        made = super().draft(batch, budget, noise)
        at, size = self.script[self.rounds % len(self.script)], len(made.trees[0])
        self.rounds += 1
        self.right += min(at, size)
        if at < size:
            made.tokens[0, at] = (made.tokens[0, at] + 1) % TARGET
        return made


@pytest.mark.parametrize("permuted", [False, True])
def test_a_target_that_drafts_for_itself_is_always_right(permuted):
    """Acceptance is exactly what the script allows over 200 rounds: a wrong map or a stale cache costs some."""
    model = tiny_model("llama", TARGET, context=900)
    wrapped = SharedVocabulary(HFBackend(model), TARGET)
    if permuted:
        order = [3, 0, 7, 1, 6, 2, 5, 4]
        other = tiny_model("llama", TARGET, context=900)
        with torch.no_grad():
            for layer in (other.get_input_embeddings(), other.get_output_embeddings()):
                layer.weight[order] = layer.weight.clone()
        wrapped = SharedVocabulary(HFBackend(other), TARGET, dict(enumerate(order)))
    drafter = Erring(wrapped, 4, "point")
    result = Engine(HFBackend(model), drafter).generate([[1, 2]], SamplingParams(temperature=0, max_tokens=750))[0]
    assert drafter.rounds >= 200
    assert result.stats.accepted == drafter.right


def test_rows_equal_recomputation_after_rejections_and_tokens_of_several():
    """Chains and trees of shared tokens; what is committed behind them may be two tokens there, or none."""
    model = tiny_model("llama", 6, 1, context=200)
    wrapped = SharedVocabulary(HFBackend(model), TARGET, SHARED, spell, 4)
    generator, known = torch.Generator().manual_seed(5), torch.tensor(list(SHARED))
    batch = [TokenSequence(text, len(text), SamplingParams(), 0) for text in ([1, 7, 2], [5])]
    shapes = (Tree.chain(3), Tree((-1, -1, 0, 1, 1)), Tree.chain(0))
    for turn in range(12):
        trees = [shapes[(turn + b) % 3] for b in range(2)]
        tokens = known[torch.randint(4, (2, max(map(len, trees))), generator=generator)]
        logits = wrapped.forward(batch, Draft(tuple(trees), tokens, None, "point")).logits
        paths = []
        for b, (sequence, tree) in enumerate(zip(batch, trees, strict=True)):
            for node in range(-1, len(tree)):
                text = sequence.tokens + [int(tokens[b, n]) for n in tree.path(node)]
                own = recomputed_logits(model, [n for token in text for n in wrapped.spelling(token)])
                found = logits[b, node + 1]
                assert torch.allclose(found[list(SHARED)], own[list(SHARED.values())], atol=1e-10)
                assert bool((found[[1, 4, 5, 7]] == -torch.inf).all())
            paths.append(tree.path(min(turn % 4, len(tree)) - 1))
            sequence.tokens += [int(tokens[b, n]) for n in paths[-1]] + [(turn + b) % TARGET]
        wrapped.keep(batch, paths)


def test_a_text_too_long_for_the_draft_model_is_one_clear_error_and_the_text_can_come_back():
    wrapped = intersection(context=12)
    one = TokenSequence([1, 1, 1, 1, 1, 1, 1], 7, SamplingParams(), 0)
    with pytest.raises(
        SpecproofError, match="sequence 0 has 14 of the draft model's tokens and its context is 12"
    ):
        wrapped.forward([one], empty_draft(1))
    one.tokens = [1, 1, 1]
    assert wrapped.forward([one], empty_draft(1)).logits.shape == (1, 1, TARGET)


def test_nothing_in_common_is_refused():
    backend = TableBackend(TableModel.random(3, 1, torch.Generator().manual_seed(0)))
    with pytest.raises(SpecproofError, match="no token is shared"):
        SharedVocabulary(backend, 3, {0: 7})
    with pytest.raises(SpecproofError, match="fallback=3 is not allowed"):
        SharedVocabulary(backend, 3, fallback=3)
