"""The EAGLE-3 drafter: its cache against recomputation, its draws, and the engine's exact law."""

import pytest
import torch
from primed import Primed

from specproof.audit.engine_exact import audit_engine
from specproof.audit.enumerate import EnumeratingNoise
from specproof.backends.hf import HFBackend
from specproof.drafters.eagle.backend import EagleBackend
from specproof.drafters.eagle3 import Eagle3Drafter
from specproof.drafters.shapes.expand import Dynamic
from specproof.engine.baseline import decode
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.noise import CounterNoise
from specproof.testing.conformance import check_backend, check_drafter
from specproof.testing.tiny import ARCHITECTURES, recomputed_logits, tiny_head, tiny_model
from specproof.tree import Tree
from specproof.types import Draft, SamplingParams, TokenSequence

DRAFTED = [0, 2, 3, 5]  # of seven tokens: what the target may say and the head may not is in every test


def pair(architecture="llama", vocabulary=7, drafted=DRAFTED, **options):
    model = tiny_model(architecture, vocabulary)
    head = tiny_head(model, drafted, seed=1, **options)
    return model, head, HFBackend(model, taps=head.config.taps)


def sequence(tokens, **params):
    return TokenSequence(list(tokens), len(tokens), SamplingParams(**params), 0)


class Growing:
    """All entries of an unrolled text, with no cache behind them: keys simply pile up."""

    def __init__(self):
        self.keys = self.values = None

    def update(self, keys, values, layer):
        self.keys = keys if self.keys is None else torch.cat([self.keys, keys], 2)
        self.values = values if self.values is None else torch.cat([self.values, values], 2)
        return self.keys, self.values


@torch.no_grad()
def recomputed(model, head, tokens, drafted=()):
    """Head logits [V] after a text and some drafted tokens: features from a fresh pass, then token by token."""
    states = model(input_ids=torch.tensor([tokens]), output_hidden_states=True, use_cache=False).hidden_states
    features = torch.cat([states[tap] for tap in head.config.taps], -1)[:, :-1]
    entries, count = Growing(), len(tokens) - 1
    causal = torch.ones(count, count).tril().bool()[None, None]
    text = torch.tensor([tokens[1:]])
    said = head(text, head.fuse(features), torch.arange(count)[None], causal, entries)[:, -1:]
    for depth, token in enumerate(drafted):
        seen = torch.ones(1, 1, 1, count + depth + 1).bool()
        said = head(torch.tensor([[token]]), said, torch.tensor([[count + depth]]), seen, entries)
    return head.target_logits(said[0, -1])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_features_are_the_hidden_states_of_the_committed_text(architecture):
    model, head, target = pair(architecture)
    check_backend(target)  # and keeping them changes no logits
    text = sequence([1, 2, 3, 4])
    target.forward([text], Draft((Tree((-1, -1, 1)),), torch.tensor([[5, 6, 0]]), None, "point"))
    text.tokens += [6, 0, 1]
    target.keep([text], [(1, 2)])
    states = model(input_ids=torch.tensor([text.tokens]), output_hidden_states=True).hidden_states
    expected = torch.cat([states[tap] for tap in head.config.taps], -1)[0, :-1]
    assert torch.allclose(target.features(text), expected, atol=1e-12)
    target.free([text])
    assert target.features(text).shape[0] == 0


@pytest.mark.parametrize(
    ("architecture", "options"),
    [
        pytest.param("llama", {}, id="llama"),
        pytest.param(
            "gpt2", {"norm_before_residual": True, "norm_before_fc": True}, id="gpt2", marks=pytest.mark.slow
        ),
    ],
)
def test_two_hundred_rounds_of_drafts_equal_recomputation(architecture, options):
    """Scripted rejections at every depth, zero-draft and fully accepted rounds, ragged batch, texts that end."""
    model, head, target = pair(architecture, **options)
    backend = EagleBackend(head, target)
    generator = torch.Generator().manual_seed(0)

    def fresh(length):
        return sequence(torch.randint(7, (length,), generator=generator).tolist())

    batch = [fresh(2), fresh(5), fresh(1)]
    accepted_counts = set()
    for turn in range(200):
        for b, text in enumerate(batch):
            if len(text.tokens) > 55:
                target.free([text])
                backend.free([text])
                batch[b] = fresh(1 + turn % 4)
        ready = [b for b, text in enumerate(batch) if backend.ready(text) and (turn + b) % 7]
        chains = [[] for _ in batch]
        for depth in range(1 + turn % 4 if ready else 0):
            own = [chains[b] for b in ready]
            scored = Draft(
                (Tree.chain(depth),) * len(ready), torch.tensor(own).reshape(len(ready), -1), None, "iid"
            )
            logits = backend.forward([batch[b] for b in ready], scored, [depth] * len(ready))
            for row, b in enumerate(ready):
                expected = recomputed(model, head, batch[b].tokens, chains[b])
                assert torch.allclose(logits.logits[row, -1], expected, atol=1e-10), (turn, b, depth)
                drawn = torch.randint(len(DRAFTED), (1,), generator=generator)
                chains[b].append(DRAFTED[int(drawn)])
        width = max(map(len, chains))
        tokens = torch.tensor([c + [0] * (width - len(c)) for c in chains]).reshape(len(batch), width)
        target.forward(batch, Draft(tuple(Tree.chain(len(c)) for c in chains), tokens.long(), None, "point"))
        paths = []
        for b, (text, chain) in enumerate(zip(batch, chains, strict=True)):
            accepted = min(len(chain), (turn + b) % 5)
            accepted_counts.add((accepted, len(chain)))
            paths.append(tuple(range(accepted)))
            text.tokens += [*chain[:accepted], (turn + 3 * b) % 7]
        target.keep(batch, paths)
        backend.keep(batch, paths)
    assert {(0, 0), (0, 4), (2, 4), (4, 4), (1, 1)} <= accepted_counts


def primed(tree=3, drawn="iid", kind=Primed):
    _, head, target = pair(vocabulary=5, drafted=[0, 2, 3])
    return kind(Eagle3Drafter(head, target, tree, drawn))


class Forgetful(Primed):
    """A planted fault: accepted nodes keep the entries that were made from the head's own words."""

    def observe(self, batch, steps, output):
        backend = self.drafter.backend
        known = [(s, step.path) for s, step in zip(batch, steps, strict=True) if s in backend._shadows._of]
        backend.store.keep([backend._shadows.of(s) for s, _ in known], [path for _, path in known])


@pytest.mark.parametrize("drawn", ["iid", "without_replacement", "point"])
@pytest.mark.parametrize("tree", [3, Tree.levels((2, 1)), Tree((-1, -1, 0, 0, 1))])
def test_the_drafter_conforms(tree, drawn):
    check_drafter(lambda: primed(tree, drawn), HFBackend(tiny_model("llama", 5)), budget=5)


def test_entries_of_accepted_nodes_are_made_anew():
    with pytest.raises(AssertionError, match="differ"):
        check_drafter(lambda: primed(kind=Forgetful), HFBackend(tiny_model("llama", 5)), budget=5)


TREE = Tree((-1, -1, 0, 1))
SETTINGS = (
    SamplingParams(temperature=1.0, max_tokens=4),
    SamplingParams(temperature=0.7, top_k=3, top_p=0.9, max_tokens=4, logit_bias={1: 0.5}),
)


@pytest.mark.parametrize("params", SETTINGS, ids=["plain", "filtered"])
@pytest.mark.parametrize(
    ("rule", "tree", "drawn"),
    [
        ("rejection", 2, "iid"),
        ("block", 2, "iid"),
        ("traversal", 2, "iid"),
        ("traversal", TREE, "without_replacement"),
        ("walk", 2, "point"),
        ("walk", TREE, "iid"),
        ("siblings", TREE, "iid"),
    ],
)
def test_the_engines_law_is_the_targets(rule, tree, drawn, params):
    """Exact, over all paths; two of four tokens are outside the draft vocabulary, one of them the end."""
    model, head, target = pair(vocabulary=4, drafted=[1, 3])
    drafter = Eagle3Drafter(head, target, tree, drawn)
    engine = Engine(target, drafter, rule, eos=(0,), max_batch=256, noise=EnumeratingNoise())
    result = audit_engine(engine, lambda tokens: recomputed_logits(model, tokens), [1, 0, 1], params)
    assert result.ok, str(result)
    assert result.rounds >= 2, str(result)


@pytest.mark.parametrize("prefill", [3, 50])
def test_prompts_in_pieces_few_rows_and_several_completions(prefill):
    """At temperature 0 every text is the plain one; pieces by the engine, or by target and head themselves."""
    model, head, _ = pair(drafted=range(7))
    target = HFBackend(model, chunk=5, taps=head.config.taps)
    params = SamplingParams(temperature=0, max_tokens=40, n=2)
    prompts = [[1], [i % 7 for i in range(23)], [2, 3, 4], [5, 6]]
    engine = Engine(target, Eagle3Drafter(head, target, 4), prefill=prefill, max_batch=3, adaptive=False)
    results = engine.generate(prompts, params)
    for prompt, result in zip([p for p in prompts for _ in range(2)], results, strict=True):
        plain = decode(
            lambda tokens: recomputed_logits(model, tokens), sequence(prompt, temperature=0, max_tokens=40),
            CounterNoise(), 64,
        )  # fmt: skip
        assert list(result.tokens) == plain
        assert not result.warnings
        assert result.stats.drafted >= 40
    assert engine.stats.accepted > 0
    assert target.store.rows == engine.drafter.backend.store.rows == []
    assert len(engine.drafter.backend._shadows) == 0


def test_a_dynamic_tree_grows_where_the_head_is_confident():
    _model, head, target = pair()
    params = SamplingParams(temperature=0.9, max_tokens=30, seed=2)
    engine = Engine(
        target, Eagle3Drafter(head, target, Dynamic(width=3, depth=3, nodes=6), "point"), adaptive=False
    )
    result = engine.generate([[1, 2, 3]], params)[0]
    assert not result.warnings
    assert engine.rule_name == "walk"
    assert result.stats.drafted >= 40
    assert result.stats.accepted > 0


def test_a_sequence_that_has_to_wait_for_memory_is_drafted_for_again(monkeypatch):
    """The store fails once in the middle: its requests are read again, and so are their features."""
    model, head, target = pair()
    engine = Engine(target, Eagle3Drafter(head, target, 3), adaptive=False)
    forward, calls = target.forward, []

    def failing(*args):
        calls.append(args)
        if len(calls) == 6:
            raise MemoryError("out of memory")
        return forward(*args)

    monkeypatch.setattr(target, "forward", failing)
    params = SamplingParams(temperature=0, max_tokens=30)
    for prompt, result in zip(([1, 2], [3, 4, 5]), engine.generate([[1, 2], [3, 4, 5]], params), strict=True):
        reference = Engine(HFBackend(model)).generate([prompt], params)[0]
        assert result.tokens == reference.tokens
        assert result.stats.drafted >= 60
        assert not result.warnings


def test_nothing_is_drafted_where_nothing_that_can_be_is_allowed():
    """Of the draft vocabulary 0, 2, 3, 5 all is banned at every second token: no failure, chains of one node."""
    _model, head, target = pair()

    def alternate(context, logits):
        if len(context) % 2:
            logits[DRAFTED] = -torch.inf
        return logits

    params = SamplingParams(processors=(alternate,), max_tokens=30, seed=1)
    engine = Engine(target, Eagle3Drafter(head, target, 4), adaptive=False)
    result = engine.generate([[1, 2, 3]], params)[0]
    assert not result.warnings
    assert result.stats.drafted > 5
    assert set(result.stats.acceptance_by_depth) == {1}


def test_a_head_whose_logits_are_no_law_costs_the_speculation_only():
    _model, head, target = pair()
    with torch.no_grad():
        head.lm_head.weight[1] = float("nan")
    result = Engine(target, Eagle3Drafter(head, target)).generate([[1, 2]], SamplingParams(max_tokens=9))[0]
    assert len(result.tokens) == 9
    assert "draft model's logits hold NaN" in result.warnings[0]


def test_a_drafter_on_another_backend_says_so_instead_of_drafting_nothing():
    model, head, target = pair()
    engine = Engine(HFBackend(model, taps=head.config.taps), Eagle3Drafter(head, target))
    result = engine.generate([[1, 2]], SamplingParams(max_tokens=5))[0]
    assert len(result.tokens) == 5
    assert "features of another backend than the one that runs" in result.warnings[0]


def test_heads_for_other_targets_are_refused():
    model, head, target = pair()
    with pytest.raises(SpecproofError, match="vocabulary of 7 tokens and the target has 5"):
        Eagle3Drafter(head, HFBackend(tiny_model("llama", 5), taps=head.config.taps))
    with pytest.raises(SpecproofError, match=r"reads layers \(1, 1, 0\) and the target keeps \(\)"):
        Eagle3Drafter(head, HFBackend(model))
    with pytest.raises(SpecproofError, match="tap 3 is not allowed: give 0 to 2, its number of layers"):
        HFBackend(model, taps=(0, 1, 3))
    with pytest.raises(SpecproofError, match="draft of 0 nodes"):
        Eagle3Drafter(head, target, Tree())


def test_a_users_function_may_allow_what_the_head_cannot_draft():
    """Draws look at the draft vocabulary alone, except where a function may have moved the mass elsewhere."""
    _model, head, target = pair()
    assert 1 not in DRAFTED

    def ones(tokens, logits):
        return torch.full_like(logits, -torch.inf).index_fill(0, torch.tensor([1]), 0.0)

    engine = Engine(target, Eagle3Drafter(head, target, 3), adaptive=False)
    result = engine.generate([[1, 2]], SamplingParams(processors=(ones,), max_tokens=20, ignore_eos=True))[0]
    assert (set(result.tokens), result.warnings) == ({1}, ())
    assert result.stats.accepted == result.stats.drafted > 8
