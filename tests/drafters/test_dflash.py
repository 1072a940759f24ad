"""The DFlash drafter: rows against recomputation, its draws, the engine's exact law, and checkpoints."""

import json

import pytest
import torch
from primed import Primed
from safetensors.torch import load_file, save_file

from specproof.audit.engine_exact import audit_engine
from specproof.audit.enumerate import EnumeratingNoise
from specproof.backends.hf import HFBackend
from specproof.drafters.dflash.checkpoint import load_dflash, save_dflash
from specproof.drafters.dflash.drafter import DFlashDrafter
from specproof.drafters.shapes.best_first import BestFirst, most_probable_prefixes
from specproof.engine.baseline import decode
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.noise import CounterNoise
from specproof.testing.conformance import check_drafter
from specproof.testing.tiny import recomputed_logits, tiny_dflash, tiny_model
from specproof.tree import Tree
from specproof.types import SamplingParams, Step, TokenSequence

DRAFTED = [0, 2, 3, 5]  # of seven tokens


def pair(architecture="llama", vocabulary=7, drafted=DRAFTED, chunk=512, **options):
    model = tiny_model(architecture, vocabulary)
    head = tiny_dflash(model, drafted, seed=1, **options)
    return model, head, HFBackend(model, chunk=chunk, taps=head.taps)


def sequence(tokens, **params):
    return TokenSequence(list(tokens), len(tokens), SamplingParams(**params), 0)


class Piled:
    """No cache: what a layer says now is all there is."""

    def update(self, keys, values, layer):
        return keys, values


@torch.no_grad()
def recomputed(model, head, tokens):
    """Logits [block - 1, V] from a fresh pass over the text and one over all its features, root left out."""
    states = model(input_ids=torch.tensor([tokens]), output_hidden_states=True, use_cache=False).hidden_states
    features = torch.cat([states[tap] for tap in head.taps], -1)[:, :-1]
    block = torch.tensor([[tokens[-1]] + [head.config.mask] * (head.config.block - 1)])
    total = features.shape[1] + block.shape[1]
    everything = torch.ones(1, 1, block.shape[1], total).bool()
    return head(block, features, torch.arange(total)[None], everything, Piled())[0, 1:]


@pytest.mark.parametrize(
    ("architecture", "drafted"),
    [("qwen3", DRAFTED), pytest.param("gpt2", range(7), marks=pytest.mark.slow)],
)
def test_two_hundred_rounds_of_rows_equal_recomputation(architecture, drafted):
    """Scripted rejections at every depth, zero-draft and fully accepted rounds, ragged batch, texts that end."""
    model, head, target = pair(architecture, drafted=drafted)
    drafter = DFlashDrafter(head, target)
    generator = torch.Generator().manual_seed(0)
    batch, seen = [sequence([1, 2]), sequence([3, 4, 5, 6, 0]), sequence([1])], set()
    for turn in range(200):
        for b, text in enumerate(batch):
            if len(text.tokens) > 50:
                for each in (target, drafter):
                    each.free([text])
                batch[b] = sequence(torch.randint(7, (1 + turn % 4,), generator=generator).tolist())
        budget = [(turn + b) % 4 for b in range(3)]
        draft = drafter.draft(batch, budget, CounterNoise())
        output = target.forward(batch, draft)
        paths = []
        for b, (text, tree) in enumerate(zip(batch, draft.trees, strict=True)):
            expected = recomputed(model, head, text.tokens).softmax(-1) if len(tree) else None
            for node in range(len(tree)):
                assert torch.allclose(draft.rows[b, node], expected[node], atol=1e-10), (turn, b, node)
            accepted = min(len(tree), (turn + b) % 5)
            seen.add((accepted, len(tree)))
            paths.append(tuple(range(accepted)))
            text.tokens += [*draft.tokens[b, :accepted].tolist(), (turn + 3 * b) % 7]
        target.keep(batch, paths)
        drafter.observe(batch, [Step(path, 0) for path in paths], output)
    assert {(0, 0), (0, 3), (2, 3), (3, 3), (1, 1)} <= seen


def test_prompts_in_pieces_few_rows_and_several_completions():
    """At temperature 0 every text is the plain one; the head takes long prompts in by pieces of five."""
    model, head, target = pair(drafted=range(7), chunk=5)
    params = SamplingParams(temperature=0, max_tokens=30, n=2)
    prompts = [[1], [i % 7 for i in range(23)], [2, 3, 4], [5, 6]]
    engine = Engine(target, DFlashDrafter(head, target), prefill=50, max_batch=3, adaptive=False)
    results = engine.generate(prompts, params)
    for prompt, result in zip([p for p in prompts for _ in range(2)], results, strict=True):
        plain = decode(
            lambda tokens: recomputed_logits(model, tokens), sequence(prompt, temperature=0, max_tokens=30),
            CounterNoise(), 64,
        )  # fmt: skip
        assert list(result.tokens) == plain
        assert not result.warnings
        assert result.stats.drafted >= 40
    assert engine.drafter.blocks.store.rows == target.store.rows == []
    assert len(engine.drafter.blocks.shadows) == 0


class Stale(DFlashDrafter):
    """A planted fault: the entries of a block's accepted tokens are taken for those of features."""

    def observe(self, batch, steps, output):
        blocks = self.blocks
        for text, step in zip(batch, steps, strict=True):
            if text in blocks.shadows._of:
                shadow, row = blocks.shadows.of(text), blocks.store.rows[blocks.store.row(blocks.shadows.of(text))]
                if row.tokens:  # the root was in the block, and so is one token for each accepted node
                    row.tokens[1 : 1 + len(step.path)] = shadow.tokens[row.committed + 1 :]
                    blocks.store.keep([shadow], [tuple(range(1 + len(step.path)))])
        super().observe(batch, steps, output)


def primed(tree=3, drawn="iid", kind=DFlashDrafter):
    _, head, target = pair(vocabulary=5, drafted=[0, 2, 3])
    return Primed(kind(head, target, tree, drawn))


@pytest.mark.parametrize(
    ("tree", "drawn"),
    [
        (3, "iid"),
        (Tree.levels((2, 1)), "without_replacement"),
        (Tree((-1, -1, 0, 0, 1)), "point"),
        (BestFirst(5), "point"),
    ],
)
def test_the_drafter_conforms(tree, drawn):
    check_drafter(lambda: primed(tree, drawn), HFBackend(tiny_model("llama", 5)), budget=5)


def test_accepted_tokens_get_features_of_their_own():
    with pytest.raises(AssertionError, match="differ"):
        check_drafter(lambda: primed(kind=Stale), HFBackend(tiny_model("llama", 5)), budget=5)


TREE = Tree((-1, -1, 0, 1))
SETTINGS = (
    SamplingParams(temperature=1.0, max_tokens=4),
    SamplingParams(temperature=0.7, top_k=3, top_p=0.9, max_tokens=4, logit_bias={1: 0.5}, presence_penalty=0.6),
)


@pytest.mark.parametrize("params", SETTINGS, ids=["plain", "filtered"])
@pytest.mark.parametrize(
    ("rule", "tree", "drawn"),
    [
        ("block", 2, "iid"),
        ("traversal", TREE, "without_replacement"),
        ("walk", BestFirst(3), "point"),
        pytest.param("rejection", 2, "iid", marks=pytest.mark.slow),
        pytest.param("siblings", TREE, "iid", marks=pytest.mark.slow),
        pytest.param("walk", 2, "point", marks=pytest.mark.slow),
    ],
)
def test_the_engines_law_is_the_targets(rule, tree, drawn, params):
    """Exact, over all paths; two of four tokens are outside the draft vocabulary, one of them the end."""
    model, head, target = pair(vocabulary=4, drafted=[1, 3], block=3)
    engine = Engine(
        target, DFlashDrafter(head, target, tree, drawn), rule, eos=(0,), max_batch=256, noise=EnumeratingNoise()
    )
    result = audit_engine(engine, lambda tokens: recomputed_logits(model, tokens), [1, 0, 1], params)
    assert result.ok, str(result)
    assert result.rounds >= 2, str(result)


def test_the_best_first_tree_is_the_one_of_the_marginals():
    model, head, target = pair(drafted=range(7))
    drafter = Primed(DFlashDrafter(head, target, BestFirst(9), "point"))
    text = sequence([1, 2, 3, 0])
    draft = drafter.draft([text], [9], CounterNoise())
    marginals = recomputed(model, head, text.tokens).softmax(-1).tolist()
    expected = most_probable_prefixes(marginals, 9)
    assert draft.trees[0].parents == tuple(node.parent for node in expected)
    assert draft.tokens[0].tolist() == [node.item[-1] for node in expected]


def test_other_targets_are_refused():
    model, head, _ = pair()
    with pytest.raises(SpecproofError, match="vocabulary of 7 tokens and the target has 5"):
        DFlashDrafter(head, HFBackend(tiny_model("llama", 5), taps=(1, 2)))
    with pytest.raises(SpecproofError, match=r"reads layers \(1, 2\) and the target keeps \(1,\)"):
        DFlashDrafter(head, HFBackend(model, taps=(1,)))


def published(folder, head):
    """The layout of z-lab: a flat configuration, layers counted by the one before, no target's weights."""
    layer = head.config.layer.to_dict()
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
             "head_dim", "vocab_size", "max_position_embeddings", "rms_norm_eps")  # fmt: skip
    values = {name: layer[name] for name in names} | {"architectures": ["DFlashDraftModel"], "model_type": "qwen3"}
    values |= {"block_size": head.config.block, "rope_theta": 10000.0, "num_target_layers": 2}
    values["dflash_config"] = {"mask_token_id": head.config.mask, "target_layer_ids": [t - 1 for t in head.taps]}
    (folder / "config.json").write_text(json.dumps(values))
    left_out = ("embed_tokens.weight", "lm_head.weight", "d2t", "t2d")
    save_file({n: w for n, w in head.state_dict().items() if n not in left_out}, folder / "model.safetensors")


class TestCheckpoints:
    MODEL = tiny_model("llama", 7)
    EMBEDDING, OUTPUT = MODEL.get_input_embeddings().weight, MODEL.get_output_embeddings().weight

    def load(self, folder):
        return load_dflash(folder, self.EMBEDDING, self.OUTPUT)

    @pytest.mark.parametrize("drafted", [DRAFTED, range(7)])
    def test_what_is_saved_is_loaded(self, drafted, tmp_path):
        model, saved, _ = pair(drafted=drafted, target="some/target", provenance={"seed": 5})
        save_dflash(saved, tmp_path, torch.float64)
        stored = load_file(tmp_path / "model.safetensors")
        assert "embed_tokens.weight" not in stored
        assert ("lm_head.weight" in stored) == (len(drafted) < 7)
        loaded = self.load(tmp_path)
        for name, value in saved.state_dict().items():
            assert torch.equal(loaded.state_dict()[name], value), name
        for field in ("draft_vocabulary", "target_width", "taps", "block", "mask", "target", "provenance"):
            assert getattr(loaded.config, field) == getattr(saved.config, field), field
        assert torch.equal(recomputed(model, loaded, [1, 2, 3]), recomputed(model, saved, [1, 2, 3]))
        config = json.loads((tmp_path / "config.json").read_text())
        assert config["aux_hidden_state_layer_ids"] == [1, 2]
        assert config["speculators_config"]["proposal_methods"][0]["speculative_tokens"] == 3

    def test_the_published_layout_is_read(self, tmp_path):
        model, head, _ = pair(drafted=range(7))
        published(tmp_path, head)
        loaded = self.load(tmp_path)
        assert loaded.taps == (1, 2)
        assert loaded.lm_head.weight.data_ptr() == self.OUTPUT.data_ptr()
        assert torch.equal(recomputed(model, loaded, [1, 2, 3]), recomputed(model, head, [1, 2, 3]))

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"speculators_model_type": "eagle3"}, "speculator of type 'eagle3'"),
            ({"dflash_config": {"mask_token_id": 6}}, "no layers of the target"),
            ({"dflash_config": {"target_layer_ids": [0, 1]}}, "no mask_token_id"),
            ({"block_size": 1}, "a block of 1 tokens with mask token 6 is not allowed"),
            ({"layer_types": ["full_attention", "sliding_attention"]}, "with sliding_attention cannot be run"),
            ({"output_multiplier": 0.5}, "output_multiplier=0.5 cannot be run"),
            ({"vocab_size": 9}, r"embed_tokens.weight to have 9 tokens and width 16, it is \(7, 16\)"),
            ({"num_hidden_layers": 3}, "weight layers.2.* is missing"),
            ({"num_hidden_layers": 1}, "weight layers.1.* has no place in a DFlash head"),
        ],
    )
    def test_heads_that_cannot_be_run_are_refused(self, values, message, tmp_path):
        _, head, _ = pair(drafted=range(7))
        published(tmp_path, head)
        path = tmp_path / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))
        with pytest.raises(SpecproofError, match=message):
            self.load(tmp_path)

    def test_pickles_are_refused(self, tmp_path):
        _, head, _ = pair(drafted=range(7))
        published(tmp_path, head)
        (tmp_path / "model.safetensors").rename(tmp_path / "model.bin")
        with pytest.raises(SpecproofError, match=r"only model\.bin, a pickle"):
            self.load(tmp_path)
