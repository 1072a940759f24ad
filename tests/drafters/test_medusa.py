"""The Medusa drafter: rows against recomputation, its draws, the engine's exact law, and checkpoints."""

import json

import pytest
import torch
from primed import Primed
from safetensors.torch import save_file

from specproof.audit.engine_exact import audit_engine
from specproof.audit.enumerate import EnumeratingNoise
from specproof.backends.hf import HFBackend
from specproof.drafters.medusa.checkpoint import load_medusa, save_medusa
from specproof.drafters.medusa.drafter import MedusaDrafter
from specproof.drafters.shapes.best_first import BestFirst
from specproof.drafters.shapes.expand import Dynamic
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.noise import CounterNoise
from specproof.testing.conformance import check_backend, check_drafter
from specproof.testing.tiny import ARCHITECTURES, recomputed_logits, tiny_medusa, tiny_model
from specproof.tree import Tree
from specproof.types import Draft, SamplingParams, Step, TokenSequence

DRAFTED = [0, 2, 3, 5]  # of seven tokens


def pair(architecture="llama", vocabulary=7, drafted=DRAFTED, **options):
    model = tiny_model(architecture, vocabulary)
    head = tiny_medusa(model, drafted, seed=1, **({"heads": 3} | options))
    return model, head, HFBackend(model, taps=head.taps)


def sequence(tokens, **params):
    return TokenSequence(list(tokens), len(tokens), SamplingParams(**params), 0)


@torch.no_grad()
def recomputed(model, head, tokens):
    """Logits [heads, V] from a fresh pass over the text: what the target's own head reads, before the root."""
    states = model(input_ids=torch.tensor([tokens]), output_hidden_states=True, use_cache=False).hidden_states
    return head(states[-1][0, len(tokens) - 2])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_last_tap_is_what_the_models_head_reads(architecture):
    model, _, target = pair(architecture)
    check_backend(target)
    text = sequence([1, 2, 3, 4])
    logits = target.forward([text], Draft((Tree(),), torch.zeros(1, 0).long(), None, "point")).logits[0, 0]
    target.keep([text], [()])
    with torch.no_grad():
        assert torch.allclose(model.get_output_embeddings()(target.features(text)[-1].clone()), logits, atol=1e-12)


@pytest.mark.parametrize("architecture", ["llama", pytest.param("gpt2", marks=pytest.mark.slow)])
def test_two_hundred_rounds_of_rows_equal_recomputation(architecture):
    """Scripted rejections at every depth, zero-draft and fully accepted rounds, ragged batch, texts that end."""
    model, head, target = pair(architecture)
    drafter = MedusaDrafter(head, target)
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
            for node in range(len(tree)):
                said = recomputed(model, head, text.tokens)[tree.depths[node] - 1].softmax(-1)
                assert torch.allclose(draft.rows[b, node], said, atol=1e-10), (turn, b, node)
            accepted = min(len(tree), (turn + b) % 5)
            seen.add((accepted, len(tree)))
            paths.append(tuple(range(accepted)))
            text.tokens += [*draft.tokens[b, :accepted].tolist(), (turn + 3 * b) % 7]
        target.keep(batch, paths)
        drafter.observe(batch, [Step(path, 0) for path in paths], output)
    assert {(0, 0), (0, 3), (2, 3), (3, 3), (1, 1)} <= seen


def primed(tree, drawn):
    _, head, target = pair(vocabulary=5, drafted=[0, 2, 3])
    return Primed(MedusaDrafter(head, target, tree, drawn))


@pytest.mark.parametrize(
    ("tree", "drawn"),
    [
        (3, "iid"),
        (Tree.levels((2, 1)), "without_replacement"),
        (Tree((-1, -1, 0, 0, 1)), "top_and_one"),
        (Tree((-1, -1, 0, 0, 1)), "point"),
        (Dynamic(3, 2, 5), "point"),
        (BestFirst(5), "point"),
    ],
)
def test_the_drafter_conforms(tree, drawn):
    check_drafter(lambda: primed(tree, drawn), HFBackend(tiny_model("llama", 5)), budget=5)


TREE = Tree((-1, -1, 0, 1))
SETTINGS = (
    SamplingParams(temperature=1.0, max_tokens=4),
    SamplingParams(temperature=0.7, top_k=3, top_p=0.9, max_tokens=4, logit_bias={1: 0.5}, presence_penalty=0.6),
)


@pytest.mark.parametrize("params", SETTINGS, ids=["plain", "filtered"])
@pytest.mark.parametrize(
    ("rule", "tree", "drawn"),
    [
        ("rejection", 2, "iid"),
        ("block", 2, "iid"),
        ("traversal", TREE, "without_replacement"),
        ("siblings", TREE, "iid"),
        ("walk", BestFirst(3), "point"),
        pytest.param("hu", TREE, "top_and_one", marks=pytest.mark.slow),
        pytest.param("walk", 2, "point", marks=pytest.mark.slow),
        pytest.param("walk", Dynamic(2, 2, 3), "point", marks=pytest.mark.slow),
    ],
)
def test_the_engines_law_is_the_targets(rule, tree, drawn, params):
    """Exact, over all paths; two of four tokens are outside the draft vocabulary, one of them the end."""
    model, head, target = pair(vocabulary=4, drafted=[1, 3], heads=2)
    engine = Engine(
        target, MedusaDrafter(head, target, tree, drawn), rule, eos=(0,), max_batch=256, noise=EnumeratingNoise()
    )
    result = audit_engine(engine, lambda tokens: recomputed_logits(model, tokens), [1, 0, 1], params)
    assert result.ok, str(result)
    assert result.rounds >= 2, str(result)


def test_rows_of_another_depth_break_the_law():
    """A planted fault: the rows of two positions are exchanged after the draw."""
    model, head, target = pair(vocabulary=4, drafted=[1, 3], heads=2)
    drafter = MedusaDrafter(head, target, 2)
    honest = drafter.draft

    def faulty(batch, budget, noise):
        draft = honest(batch, budget, noise)
        if draft.rows is not None and draft.rows.shape[1] > 2:
            draft.rows[:, :2] = draft.rows[:, :2].flip(1)
        return draft

    drafter.draft = faulty
    engine = Engine(target, drafter, "rejection", eos=(0,), max_batch=256, noise=EnumeratingNoise())
    result = audit_engine(engine, lambda tokens: recomputed_logits(model, tokens), [1, 0, 1], SETTINGS[0])
    assert not result.ok


def cycle(step=3, vocabulary=7):
    """A target that looks at the last token alone, and heads that know where it is after k + 2 tokens."""
    model = tiny_model("llama", vocabulary, context=1100)
    head = tiny_medusa(model, range(vocabulary), heads=4)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        states = model.model.norm(model.get_input_embeddings().weight)
        tells = 9 * torch.linalg.pinv(states).T  # [V, width]: row t is large for the state of t, 0 for others
        model.get_output_embeddings().weight.copy_(tells.roll(step, 0))
        for k, (block, rows) in enumerate(zip(head.blocks, head.lm_heads, strict=True)):
            block.layers[0].weight.zero_()
            block.layers[0].bias.zero_()
            rows.weight.copy_(tells.roll((k + 2) * step, 0))
    return model, head


@pytest.mark.parametrize("tree", [1, 4, Tree.levels((2, 1, 1))])
def test_heads_that_know_the_text_are_always_right(tree):
    """At temperature 0 acceptance of the best path is exactly 1, over 200 rounds."""
    model, head = cycle()
    target = HFBackend(model, taps=head.taps)
    drawn = "iid" if isinstance(tree, int) else "point"
    engine = Engine(target, MedusaDrafter(head, target, tree, drawn), adaptive=False)
    depth = tree if isinstance(tree, int) else 3
    result = engine.generate([[1, 2]], SamplingParams(temperature=0, max_tokens=200 * (depth + 1)))[0]
    assert list(result.tokens[:4]) == [5, 1, 4, 0]  # the cycle itself
    stats = result.stats
    assert stats.steps >= 200
    assert (
        stats.histogram[depth] == stats.drafted_at[depth] >= 199
    )  # but for the first step, which has no features
    assert all(stats.accepted_at[d] == stats.drafted_at[d] for d in range(1, depth + 1))


def test_best_first_takes_the_most_probable_prefixes_of_each_context():
    """Under a penalty on what was drafted, a node's row is its own: the tree is that of recomputed rows."""
    _model, head, target = pair(heads=3)
    params = {"presence_penalty": 1.5, "logit_bias": {2: 0.7}, "temperature": 0.8}
    drafter = Primed(MedusaDrafter(head, target, BestFirst(9), "point"))
    for given in ({}, params):
        engine = Engine(target, drafter.drafter)
        text = engine.requests([1, 2, 3], SamplingParams(**given))[0]
        text.read(3)
        draft = drafter.draft([text.sequence], [9], CounterNoise())
        found = [draft.trees[0].path(node) for node in range(9)]
        tokens = [[int(draft.tokens[0, node]) for node in path] for path in found]
        logits = drafter.drafter.positions.score([text.sequence])[0]

        def value(path, logits=logits, given=given):
            share = 1.0
            for depth, token in enumerate(path):
                row = logits[depth].clone()
                for other, bias in given.get("logit_bias", {}).items():
                    row[other] += bias
                row[list(set(path[:depth]))] -= given.get("presence_penalty", 0.0)
                share *= float((row / given.get("temperature", 1.0)).softmax(-1)[token])
            return share

        every = [[a] for a in DRAFTED] + [[a, b] for a in DRAFTED for b in DRAFTED]
        every += [[a, b, c] for a, b in every[len(DRAFTED) :] for c in DRAFTED]
        best = sorted(map(value, every), reverse=True)[:9]
        assert [value(path) for path in tokens] == pytest.approx(best)
        drafter.free([text.sequence])


def test_what_a_drafter_cannot_do_is_refused():
    model, head, target = pair()
    with pytest.raises(SpecproofError, match="draft of depth 4 is not allowed: Medusa says 3 positions"):
        MedusaDrafter(head, target, 4)
    with pytest.raises(SpecproofError, match="best-first tree drops nodes by their value, which biases iid draws"):
        MedusaDrafter(head, target, BestFirst(4))
    with pytest.raises(SpecproofError, match="best-first tree of 0 nodes"):
        BestFirst(0)
    with pytest.raises(SpecproofError, match="vocabulary of 7 tokens and the target has 5"):
        MedusaDrafter(head, HFBackend(tiny_model("llama", 5), taps=(2,)))
    with pytest.raises(SpecproofError, match=r"read layer \(2,\) and the target keeps \(\)"):
        MedusaDrafter(head, HFBackend(model))
    engine = Engine(HFBackend(model, taps=head.taps), MedusaDrafter(head, target))
    result = engine.generate([[1, 2]], SamplingParams(max_tokens=5))[0]
    assert "the Medusa drafter reads the features of another backend" in result.warnings[0]


def test_heads_whose_logits_are_no_law_cost_the_speculation_only():
    for tree, drawn in ((3, "iid"), (BestFirst(4), "point")):
        _model, head, target = pair()
        with torch.no_grad():
            head.lm_heads[1].weight[1] = float("nan")
        result = Engine(target, MedusaDrafter(head, target, tree, drawn)).generate(
            [[1, 2]], SamplingParams(max_tokens=9)
        )[0]
        assert len(result.tokens) == 9
        assert "draft model's logits hold NaN" in result.warnings[0]


def published(folder, head, prefix=""):
    """The layout of FasterDecoding/Medusa: weights by place, no biases left out, no draft vocabulary."""
    weights = {}
    for k, (block, rows) in enumerate(zip(head.blocks, head.lm_heads, strict=True)):
        for j, layer in enumerate(block.layers):
            weights[f"{prefix}{k}.{j}.linear.weight"] = layer.weight.clone()
            weights[f"{prefix}{k}.{j}.linear.bias"] = layer.bias.clone()
        weights[f"{prefix}{k}.{len(block.layers)}.weight"] = rows.weight.clone()
    save_file({n: w.detach() for n, w in weights.items()}, folder / "medusa_lm_head.safetensors")
    values = {"medusa_num_heads": len(head.blocks), "medusa_num_layers": head.config.layers}
    (folder / "config.json").write_text(json.dumps(values | {"base_model_name_or_path": "some/target"}))


def rows(head):
    states = torch.linspace(-1, 1, head.config.width).double()
    with torch.no_grad():
        return head(states)


class TestCheckpoints:
    OUTPUT = tiny_model("llama", 7).get_output_embeddings().weight

    @pytest.mark.parametrize("options", [{}, {"heads": 1, "bias": False}, {"layers": 2, "drafted": range(7)}])
    def test_what_is_saved_is_loaded(self, options, tmp_path):
        _, saved, _ = pair(**options, target="some/target", provenance={"seed": 5})
        save_medusa(saved, tmp_path, torch.float64)
        loaded = load_medusa(tmp_path, 2, self.OUTPUT)
        assert loaded.config == saved.config
        for name, value in saved.state_dict().items():
            assert torch.equal(loaded.state_dict()[name], value), name
        config = json.loads((tmp_path / "config.json").read_text())
        assert config["speculators_model_type"] == "medusa"
        assert config["speculators_config"]["proposal_methods"][0]["speculative_tokens"] == len(saved.blocks)

    @pytest.mark.parametrize("prefix", ["", "medusa_head."])
    @pytest.mark.parametrize("layers", [1, 2])
    def test_the_published_layout_is_read(self, layers, prefix, tmp_path):
        _, head, _ = pair(drafted=range(7), layers=layers)
        published(tmp_path, head, prefix)
        loaded = load_medusa(tmp_path, 2, self.OUTPUT)
        assert loaded.config.target == "some/target"
        assert torch.equal(rows(loaded), rows(head))

    def test_vllms_layout_with_a_list_of_tokens_in_any_order_is_read(self, tmp_path):
        _, head, _ = pair()
        order = [2, 0, 3, 1]
        weights = {f"medusa_heads.{n}": w.clone() for n, w in head.named_parameters() if n.startswith("blocks")}
        weights |= {f"lm_heads.{k}.weight": each.weight[order].clone() for k, each in enumerate(head.lm_heads)}
        weights["token_map"] = head.drafted[order]
        save_file({n: w.detach() for n, w in weights.items()}, tmp_path / "model.safetensors")
        (tmp_path / "config.json").write_text(json.dumps({"num_heads": 3, "num_hidden_layers": 1}))
        assert torch.equal(rows(load_medusa(tmp_path, 2, self.OUTPUT)), rows(head))

    @pytest.mark.parametrize("own", [False, True])
    def test_heads_may_share_output_rows(self, own, tmp_path):
        _, head, _ = pair(drafted=range(7))
        shared = head.lm_heads[0].weight if own else self.OUTPUT
        weights = {n: w.detach().clone() for n, w in head.named_parameters() if n.startswith("blocks")}
        if own:
            weights["lm_head.weight"] = shared.detach().clone()
        save_file(weights, tmp_path / "model.safetensors")
        (tmp_path / "config.json").write_text(json.dumps({"num_heads": 3, "original_lm_head": True}))
        loaded = load_medusa(tmp_path, 2, self.OUTPUT)
        assert all(torch.equal(each.weight, shared) for each in loaded.lm_heads)

    def test_what_cannot_be_loaded_is_refused(self, tmp_path):
        with pytest.raises(SpecproofError, match=r"cannot read .*config.json.* of a Medusa checkpoint"):
            load_medusa(tmp_path, 2, self.OUTPUT)
        _, head, _ = pair(drafted=range(7))
        published(tmp_path, head)
        with pytest.raises(SpecproofError, match="width 16 and the target's have 8"):
            load_medusa(tmp_path, 2, self.OUTPUT[:, :8])
        with pytest.raises(
            SpecproofError, match=r"lm_heads.0.weight is \(7, 16\) and its config.json asks for \(9"
        ):
            load_medusa(tmp_path, 2, torch.zeros(9, 16))
        (tmp_path / "medusa_lm_head.safetensors").rename(tmp_path / "medusa_lm_head.pt")
        with pytest.raises(SpecproofError, match=r"only medusa_lm_head\.pt, a pickle"):
            load_medusa(tmp_path, 2, self.OUTPUT)
        for values, message in (
            ({"speculators_model_type": "eagle3"}, "speculator of type 'eagle3'"),
            ({"hidden_size": 16}, "is not of Medusa heads"),
            ({"medusa_num_heads": 0}, "0 heads of 1 blocks are none"),
        ):
            (tmp_path / "config.json").write_text(json.dumps(values))
            with pytest.raises(SpecproofError, match=message):
                load_medusa(tmp_path, 2, self.OUTPUT)

    def test_a_list_that_contradicts_the_offsets_is_refused(self, tmp_path):
        _, head, _ = pair()
        save_medusa(head, tmp_path)
        weights = {**head.state_dict(), "token_map": torch.tensor([0, 2, 3, 6])}
        save_file(weights, tmp_path / "model.safetensors")
        with pytest.raises(SpecproofError, match="token_map and d2t do not name the same tokens"):
            load_medusa(tmp_path, 2, self.OUTPUT)
