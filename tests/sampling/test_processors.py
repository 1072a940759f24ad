"""Rows against transformers' own processors: every parameter, every pair, on the text and along drafted paths."""

import random
from importlib import import_module

import pytest
import torch
from sampling_settings import CHOICES, END, VALUES, covering, pairs, params_of, shown

from specproof.audit.parameters.plain import plain_row
from specproof.errors import SpecproofError
from specproof.sampling import ends_for, processors_for, warp_batch, warp_next
from specproof.sampling.bans import BadWords, MinTokens
from specproof.sampling.penalties import OutputPenalty
from specproof.tree import Tree
from specproof.types import Contexts, Draft, SamplingParams, TokenSequence

folding = import_module("specproof.sampling.fold")  # the package exports a function of this name
VOCABULARY = 6
TREES = (Tree.chain(0), Tree.chain(4), Tree((-1, -1, 0, 0, 1, 2, 5)), Tree((-1, -1, -1)))
ALL = dict(CHOICES)  # one value of every parameter, the last ones


def sequence(params, prompt_length, text):
    processors = processors_for(params, VOCABULARY)
    return TokenSequence(list(text), prompt_length, params, 0, ends_for(params, {END}), processors)


def texts(count, seed=0):
    """Prompts of 1 to 4 tokens with outputs of 0 to 5, over few tokens, so that they repeat."""
    generator = random.Random(seed)
    for _ in range(count):
        prompt, output = generator.randint(1, 4), generator.randint(0, 5)
        yield prompt, generator.choices(range(VOCABULARY - 1), k=prompt + output)


def logits_of(seed, *shape):
    return torch.randn(*shape, VOCABULARY, generator=torch.Generator().manual_seed(seed)).double() * 2


def draft_of(trees, seed):
    generator = random.Random(seed)
    width = max(map(len, trees))
    tokens = [generator.choices(range(VOCABULARY - 1), k=width) for _ in trees]
    return Draft(trees, torch.tensor(tokens, dtype=torch.long).reshape(len(trees), width), None, "point")


def worst_of_draft(values, seed=0):
    """Largest difference between rows of a batch of drafts and the rows of the texts with their paths appended."""
    params = params_of(values, max_tokens=9)
    batch = [sequence(params, *text) for text in texts(len(TREES), seed)]
    draft, worst = draft_of(TREES, seed), 0.0
    for start in ([0, 0, 0, 0], [1, 2, 3, 4]):
        width = max(len(tree) + 1 - first for tree, first in zip(TREES, start, strict=True))
        logits = logits_of(seed, len(TREES), width)
        rows, _ = warp_batch(logits, batch, draft, start if any(start) else None)
        for b, (text, tree) in enumerate(zip(batch, TREES, strict=True)):
            for row in range(start[b], len(tree) + 1):
                path = [int(draft.tokens[b, node]) for node in tree.path(row - 1)]
                place = (b, row - start[b])
                expected = plain_row(logits[place], text.tokens + path, text.prompt_length, params, text.ends)
                if expected.isfinite().all():  # else nothing is left, which `broken` says
                    worst = max(worst, float((rows[place] - expected).abs().max()))
    return worst


@pytest.mark.parametrize("values", [{name: value} for name, value in CHOICES] + pairs() + [ALL], ids=shown)
def test_every_parameter_and_every_pair_gives_the_row_of_transformers(values):
    params = params_of(values, max_tokens=9)
    for seed, (prompt, text) in enumerate(texts(6)):
        logits = logits_of(seed)
        row = warp_next(logits, sequence(params, prompt, text))
        assert torch.allclose(row, plain_row(logits, text, prompt, params, {END}), rtol=0, atol=1e-12)


@pytest.mark.parametrize("values", [{name: value} for name, value in CHOICES], ids=shown)
def test_b13_no_parameter_is_ignored(values):
    """Field cases B11 and B13: with it the law differs from the law without it."""
    params = params_of(values, max_tokens=9)
    changes = []
    for seed, (prompt, text) in enumerate(texts(20)):
        row = warp_next(logits_of(seed), sequence(params, prompt, text))
        changes.append(float((row - logits_of(seed).softmax(-1)).abs().max()))
    assert max(changes) > 0.05


@pytest.mark.parametrize("values", [{n: v} for n, v in CHOICES] + covering() + [ALL], ids=shown)
def test_b12_rows_after_a_drafted_path_are_those_of_the_text_with_the_path(values):
    """Field cases B11, B12 and B14: all rows of chains and trees, the bonus row too, also when a tree grows."""
    for seed in range(3):
        assert worst_of_draft(values, seed) <= 1e-12


def test_every_pair_of_values_occurs_in_the_covering_settings():
    made = [{(name, str(value)) for name, value in setting.items()} for setting in covering()]
    for pair in pairs():
        assert any({(name, str(value)) for name, value in pair.items()} <= setting for setting in made), pair


def test_every_parameter_that_shapes_the_law_is_in_the_table():
    fields = set(SamplingParams.__dataclass_fields__)
    others = {"max_tokens", "stop", "stop_token_ids", "ignore_eos", "seed", "n", "logprobs", "prompt_logprobs"}
    structure = {"json_schema", "regex", "grammar"}  # the shape of the whole text, which has tests of its own
    assert set(VALUES) == fields - others - structure


def last_drafted_token(contexts, row, real=Contexts.path):
    return real(contexts, row)[-1:]


def only_the_draft(contexts, row, real=Contexts.path):
    return real(contexts, row) or contexts.sequence.tokens


def unprocessed_leaves(logits, batch, draft, start=None, real=folding.fold):
    """The faulty fold that skips rows after nodes without children, where the extra token is drawn."""
    scores = real(logits, batch, draft, start).clone()
    for b, tree in enumerate(draft.trees):
        first = start[b] if start else 0
        for node in range(max(0, first - 1), len(tree)):
            if not tree.children(node):
                scores[b, node + 1 - first] = logits[b, node + 1 - first]
    return scores


class TestPlantedFaults:
    """Each fault that a release somewhere had is seen by `worst_of_draft`, which says nothing without it."""

    def seen(self, values):
        return max(worst_of_draft(values, seed) for seed in range(5)) > 1e-3

    def test_b14_penalties_count_one_token_of_a_block(self, monkeypatch):
        for name in ("presence_penalty", "frequency_penalty", "repetition_penalty"):
            assert not self.seen({name: VALUES[name][0]})
        monkeypatch.setattr(Contexts, "path", last_drafted_token)
        for name in ("presence_penalty", "frequency_penalty", "repetition_penalty"):
            assert self.seen({name: VALUES[name][0]}), name

    def test_b14_min_tokens_counts_steps(self, monkeypatch):
        def root_only(self, logits, contexts):
            if len(contexts.sequence.output) < self.least:
                logits[:, list(contexts.sequence.ends)] = -torch.inf
            return logits

        assert not self.seen({"min_tokens": 3})
        monkeypatch.setattr(MinTokens, "__call__", root_only)
        assert self.seen({"min_tokens": 3})

    def test_b12_the_bonus_row_is_not_processed(self, monkeypatch):
        monkeypatch.setattr(folding, "fold", unprocessed_leaves)
        for name in ("presence_penalty", "logit_bias", "bad_words", "processors"):
            assert self.seen({name: VALUES[name][0]}), name

    def test_a_bad_word_that_begins_in_the_text_and_ends_in_the_draft(self, monkeypatch):
        words = tuple((first, second, 1) for first in range(VOCABULARY) for second in (2, 3, 4))
        assert not self.seen({"bad_words": words})
        monkeypatch.setattr(Contexts, "tokens", only_the_draft)
        assert self.seen({"bad_words": words})

    def test_the_prompt_counts_as_output(self, monkeypatch):
        def everything(self, logits, contexts):
            return real(self, logits, Contexts(whole(contexts.sequence), contexts.tree, contexts.drafted))

        def whole(text):
            return TokenSequence(text.tokens, 0, text.params, 0, text.ends)

        real = OutputPenalty.__call__
        monkeypatch.setattr(OutputPenalty, "__call__", everything)
        assert self.seen({"presence_penalty": 0.8})


def test_b14_the_table_case_of_the_frequency_penalty():
    """Field case B14: logits 3.5 and 1, penalty 1; after a, a, a it is b's turn, also where they are drafted."""
    params = SamplingParams(temperature=0, frequency_penalty=1.0)
    text = TokenSequence([1], 1, params, 0, frozenset(), processors_for(params, 2))
    draft = Draft((Tree.chain(3),), torch.tensor([[0, 0, 0]]), None, "point")
    rows, _ = warp_batch(torch.tensor([3.5, 1.0]).expand(1, 4, 2), [text], draft)
    assert rows[0].argmax(-1).tolist() == [0, 0, 0, 1]


def test_an_end_that_is_a_bad_word_is_forbidden_too():
    """transformers lets it pass without a word; whoever forbids a token does not get it."""
    params = SamplingParams(bad_words=((END,),))
    assert warp_next(logits_of(0), sequence(params, 1, [1]))[END] == 0


def test_a_draft_model_with_fewer_tokens_takes_what_concerns_its_own():
    params = params_of(ALL | {"bad_words": ((5,), (4, 1)), "logit_bias": {5: 3.0, 1: 1.0}}, max_tokens=9)
    text = TokenSequence([5, 4, 1, 5], 2, params, 0, frozenset({0, 5}), processors_for(params, VOCABULARY))
    row = warp_next(logits_of(3)[:5], text)
    assert row.sum() == pytest.approx(1)
    assert BadWords(((5,),))(torch.zeros(1, 5), Contexts(text, Tree(()), ())).isfinite().all()


def test_custom_functions_see_text_and_path_and_their_mistakes_are_named():
    seen = []
    params = SamplingParams(processors=[lambda context, logits: seen.append(context) or logits])
    text = TokenSequence([1, 2], 1, params, 0, frozenset(), processors_for(params, VOCABULARY))
    draft = Draft((Tree((-1, -1, 1)),), torch.tensor([[3, 4, 5]]), None, "point")
    warp_batch(torch.zeros(1, 4, VOCABULARY), [text], draft)
    assert seen == [[1, 2], [1, 2, 3], [1, 2, 4], [1, 2, 4, 5]]
    wrong = SamplingParams(processors=[lambda context, logits: logits[:1]])
    bad = TokenSequence([1], 1, wrong, 0, frozenset(), processors_for(wrong, VOCABULARY))
    with pytest.raises(SpecproofError, match=r"returned \[1\]; return logits \[6\]"):
        warp_next(torch.zeros(VOCABULARY), bad)
