"""EAGLE-3 checkpoints: round trips, the published layout, and what is refused."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from specproof.backends.hf import HFBackend
from specproof.drafters.eagle.checkpoint import load_head, save_head
from specproof.drafters.eagle3 import Eagle3Drafter
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.testing.tiny import tiny_head, tiny_model
from specproof.types import SamplingParams

DRAFTED = [0, 2, 3, 5]
MODEL = tiny_model("llama", 7)
EMBEDDING = MODEL.get_input_embeddings().weight


def head(**options):
    return tiny_head(MODEL, DRAFTED, seed=1, target="some/target", architectures=("LlamaForCausalLM",), **options)


def change(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def rewrite(folder, change):
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors")


def text(made):
    """What the engine writes with a head, and how much of it the head drafted right: the head shows in it."""
    target = HFBackend(MODEL, taps=made.config.taps)
    engine = Engine(target, Eagle3Drafter(made, target), adaptive=False)
    result = engine.generate([[1, 2]], SamplingParams(max_tokens=40, seed=3))[0]
    assert not result.warnings
    return result.tokens, result.stats.accepted


@pytest.mark.parametrize("options", [{}, {"norm_before_residual": True, "norm_before_fc": True, "length": 6}])
def test_what_is_saved_is_loaded(options, tmp_path):
    saved = head(provenance={"seed": 5}, **options)
    save_head(saved, tmp_path, torch.float64)
    loaded = load_head(tmp_path, 2, EMBEDDING)
    assert loaded.state_dict().keys() == saved.state_dict().keys()
    for name, value in saved.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value), name
    for field in ("draft_vocabulary", "target_width", "taps", "norm_before_residual", "norm_before_fc", "length",
                  "target", "architectures", "provenance"):  # fmt: skip
        assert getattr(loaded.config, field) == getattr(saved.config, field), field
    assert loaded.config.layer.rope_parameters == saved.config.layer.rope_parameters
    assert loaded.embed_tokens.weight.data_ptr() == EMBEDDING.data_ptr()
    assert text(loaded) == text(saved)


def test_the_saved_config_is_what_vllm_reads(tmp_path):
    """The fields that vLLM's reader of speculators checkpoints asks for, by its own names."""
    save_head(head(length=5), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["speculators_model_type"] == "eagle3"
    assert config["speculators_config"]["proposal_methods"][0]["speculative_tokens"] == 5
    assert config["speculators_config"]["verifier"]["name_or_path"] == "some/target"
    assert config["draft_vocab_size"] == 4
    assert config["eagle_aux_hidden_state_layer_ids"] == [1, 1, 0]
    assert config["norm_before_residual"] is False
    assert config["transformer_layer_config"]["rope_theta"] == 10000.0
    names = set(load_file(tmp_path / "model.safetensors"))
    layer = {"input_layernorm", "hidden_norm", "post_attention_layernorm"}
    layer |= {f"self_attn.{kind}_proj" for kind in "qkvo"} | {
        f"mlp.{kind}_proj" for kind in ("gate", "up", "down")
    }
    rest = {"fc.weight", "norm.weight", "lm_head.weight", "d2t", "t2d"}
    assert names == {f"layers.0.{name}.weight" for name in layer} | rest
    assert load_file(tmp_path / "model.safetensors")["d2t"].tolist() == [0, 1, 1, 2]


def published(folder, made, **values):
    """The layout of SafeAILab and SpecForge, written by hand."""
    layer = made.config.layer
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": layer.hidden_size,
        "intermediate_size": layer.intermediate_size,
        "num_attention_heads": layer.num_attention_heads,
        "num_key_value_heads": layer.num_key_value_heads,
        "num_hidden_layers": 1,
        "max_position_embeddings": 64,
        "rms_norm_eps": layer.rms_norm_eps,
        "vocab_size": 7,
        "draft_vocab_size": 4,
        "bos_token_id": 1,
        "pad_token_id": 0,
        "torch_dtype": "float16",
    }
    (folder / "config.json").write_text(json.dumps(config | values))
    weights = {
        name.replace("layers.0.", "midlayer."): value.clone()
        for name, value in made.state_dict().items()
        if name != "embed_tokens.weight"
    }
    save_file(weights, folder / "model.safetensors")


def test_a_published_checkpoint_loads(tmp_path):
    made = head()
    published(tmp_path, made)
    loaded = load_head(tmp_path, 2, EMBEDDING)
    assert loaded.config.taps == (1, 1, 0)
    assert text(loaded) == text(made)


def test_a_published_checkpoint_may_have_its_own_layers_and_embedding(tmp_path):
    published(tmp_path, head(), eagle_config={"eagle_aux_hidden_state_layer_ids": [0, 1, 1]})
    own = torch.randn(7, 16, generator=torch.Generator().manual_seed(0)).double()
    rewrite(tmp_path, lambda weights: weights.update({"embed_tokens.weight": own}))
    loaded = load_head(tmp_path, 2, EMBEDDING)
    assert loaded.config.taps == (0, 1, 1)
    assert torch.equal(loaded.embed_tokens.weight, own)


def test_a_whole_vocabulary_needs_no_map(tmp_path):
    save_head(tiny_head(MODEL, range(7)), tmp_path)
    rewrite(tmp_path, lambda weights: [weights.pop(name) for name in ("d2t", "t2d")])
    assert load_head(tmp_path, 2, EMBEDDING).drafted.tolist() == list(range(7))


def wrong_mask(weights):
    weights["t2d"][1] = True


def ids_for_offsets(weights):
    weights["d2t"] = torch.tensor(DRAFTED)


DAMAGES = {
    "weight fc.weight is missing": lambda weights: weights.pop("fc.weight"),
    "weight layers.1.x has no place": lambda weights: weights.update({"layers.1.x": torch.zeros(1)}),
    r"norm.weight is \(3,\) and its config.json asks for \(16,\)": lambda w: w.update(
        {"norm.weight": torch.ones(3)}
    ),
    "t2d and d2t do not name the same": wrong_mask,
    "d2t does not give 4 different tokens of 0 to 6": ids_for_offsets,
    "no d2t for a draft vocabulary of 4 of 7": lambda weights: weights.pop("d2t"),
}


@pytest.mark.parametrize("message", DAMAGES)
def test_damaged_weights_are_refused(message, tmp_path):
    save_head(head(), tmp_path)
    rewrite(tmp_path, DAMAGES[message])
    with pytest.raises(SpecproofError, match=message):
        load_head(tmp_path, 2, EMBEDDING)


def test_pickles_and_other_folders_are_refused(tmp_path):
    with pytest.raises(SpecproofError, match=r"cannot read .*config.json"):
        load_head(tmp_path, 2, EMBEDDING)
    published(tmp_path, head())
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(SpecproofError, match=r"only pytorch_model.bin, a pickle.* convert the head"):
        load_head(tmp_path, 2, EMBEDDING)
    (tmp_path / "pytorch_model.bin").rename(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").write_bytes(b"12345678901234567890")
    with pytest.raises(SpecproofError, match=r"cannot read .*model.safetensors"):
        load_head(tmp_path, 2, EMBEDDING)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"speculators_model_type": "dflash"}, "type 'dflash'; only 'eagle3'"),
        (
            {"speculators_model_type": None, "transformer_layer_config": None, "draft_vocab_size": 4},
            "needs an embedding",
        ),
        ({"eagle_aux_hidden_state_layer_ids": [1, 2]}, r"reads layers \(1, 2\); it has to be 3"),
        ({"transformer_layer_config": {"model_type": "qwen3"}}, "a head of 1 qwen3 layers cannot be run"),
        ({"transformer_layer_config": {"num_hidden_layers": 2}}, "a head of 2 llama layers cannot be run"),
    ],
)
def test_heads_that_cannot_be_run_are_refused(values, message, tmp_path):
    save_head(head(), tmp_path)
    change(tmp_path, **values)
    with pytest.raises(SpecproofError, match=message):
        load_head(tmp_path, 2, EMBEDDING)
