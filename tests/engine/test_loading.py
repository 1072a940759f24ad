"""Loading from folders, and what is refused."""

from pathlib import Path

import pytest
import torch

from specproof import Engine, SamplingParams, SpecproofError
from specproof.drafters.eagle3 import Eagle3Drafter
from specproof.drafters.hybrid import HybridDrafter
from specproof.engine import default_model
from specproof.engine.heads import default_drafter
from specproof.engine.loading import chat_tokens, load_engine, load_model
from specproof.testing.tiny import tiny_model


def test_an_engine_from_a_folder_completes_text(model_folder):
    engine = Engine.from_pretrained(model_folder, dtype="float64")
    result = engine.generate(["a b c"], SamplingParams(max_tokens=8, seed=1))[0]
    assert result.text == engine.tokenizer.decode(result.tokens, skip_special_tokens=True)
    assert engine.eos == {0}


def test_text_ends_before_the_end_token(model_folder):
    engine = Engine.from_pretrained(model_folder, drafter="none")
    for seed in range(20):
        result = engine.generate(["a"], SamplingParams(max_tokens=30, seed=seed))[0]
        if result.finish_reason == "stop":
            assert result.tokens[-1] == 0
            assert "<end>" not in result.text
            return
    raise AssertionError("no text of 20 ended by itself")


def test_b38_the_same_size_with_other_strings_is_refused_by_the_first_difference(
    model_folder, draft_folder, tmp_path
):
    """Field case B38: identity of tokens, not of sizes."""
    import json
    import shutil

    other = tmp_path / "swapped"
    shutil.copytree(draft_folder, other)
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    words = tokenizer["model"]["vocab"]
    words["b"], words["e"] = words["e"], words["b"]
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(SpecproofError, match="token 2 'b' is 5 there"):
        load_engine(model_folder, drafter="model", draft_model=str(other))


def test_pickled_weights_are_refused(model_folder, tmp_path):
    import shutil

    folder = tmp_path / "pickled"
    shutil.copytree(model_folder, folder)
    (folder / "model.safetensors").unlink()
    torch.save(tiny_model("llama", 8).state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(SpecproofError, match="cannot load the model"):
        load_model(str(folder))


def test_a_message_without_a_chat_format_is_plain_text(word_tokenizer):
    assert chat_tokens(word_tokenizer, "a b") == [1, 2]


def test_the_default_model_comes_from_the_hub_where_no_package_carries_it(monkeypatch):
    monkeypatch.setattr(default_model, "find_spec", lambda name: None)
    assert default_model.default_model() == "HuggingFaceTB/SmolLM2-135M-Instruct"


def test_the_cache_folder_can_be_chosen(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECPROOF_CACHE", str(tmp_path))
    assert default_model.cache_folder() == tmp_path
    monkeypatch.delenv("SPECPROOF_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_model.cache_folder() == tmp_path / "specproof"


def test_an_eagle3_head_from_a_folder_drafts(model_folder, head_folder):
    engine = load_engine(model_folder, drafter="eagle3", draft_model=head_folder, dtype="float64", adaptive=False)
    result = engine.generate(["a b c"], SamplingParams(max_tokens=20, ignore_eos=True, seed=1))[0]
    assert not result.warnings
    assert result.stats.drafted >= 12
    assert result.rule == "block"


@pytest.mark.parametrize("shape", [None, "chain:2", "best_first", "sequoia:0.5,0.3", "sequoia", "mixed:6"])
@pytest.mark.parametrize("drafter", ["medusa", "dflash"])
def test_medusa_and_dflash_heads_from_a_folder_draft(drafter, shape, model_folder, medusa_folder, dflash_folder):
    folder = medusa_folder if drafter == "medusa" else dflash_folder
    options = {"draft_model": folder, "dtype": "float64", "adaptive": False}
    engine = load_engine(model_folder, drafter=drafter, shape=shape, **options)
    result = engine.generate(["a b c"], SamplingParams(max_tokens=20, ignore_eos=True, seed=1))[0]
    assert not result.warnings
    assert result.stats.drafted >= 12
    assert max(result.stats.drafted_at) <= 3
    kinds = {None: "block", "chain:2": "block", "best_first": "walk"}
    assert result.rule == kinds.get(shape, "traversal")


def test_a_mixed_shape_asks_for_a_rule_that_takes_both_of_its_trees(model_folder):
    options = {"drafter": "early_exit", "shape": "mixed:5", "dtype": "float64"}
    assert load_engine(model_folder, rule="walk", **options).rule_name == "walk"
    with pytest.raises(
        SpecproofError, match="rule 'siblings' does not take point trees; rules that do: walk, trav"
    ):
        load_engine(model_folder, rule="siblings", **options)


def test_heads_that_do_not_come_with_the_package_are_asked_for(model_folder, head_folder):
    with pytest.raises(SpecproofError, match=r"no medusa head comes with the package for .*, or train one"):
        load_engine(model_folder, drafter="medusa")
    with pytest.raises(
        SpecproofError, match=r"no dflash head comes with the package for .*--draft-model FOLDER\)$"
    ):
        load_engine(model_folder, drafter="dflash")
    with pytest.raises(SpecproofError, match="speculator of type 'eagle3'; drafter 'medusa' loads 'medusa'"):
        load_engine(model_folder, drafter="medusa", draft_model=head_folder)


def test_a_head_that_comes_with_the_package_is_the_default(model_folder, head_folder, monkeypatch):
    assert default_drafter(model_folder) == "ngram"
    with pytest.raises(SpecproofError, match=r"no EAGLE-3 head comes with the package for .*: give one"):
        load_engine(model_folder, drafter="eagle3")
    monkeypatch.setattr("specproof.engine.heads.shipped_head", lambda model: Path(head_folder))
    assert default_drafter(model_folder) == "hybrid"
    engine = load_engine(model_folder, dtype="float64")
    assert isinstance(engine.drafter, HybridDrafter)
    assert isinstance(engine.drafter.other, Eagle3Drafter)
    result = engine.generate([[1, 2, 3]], SamplingParams(max_tokens=4, ignore_eos=True))[0]
    assert (result.warnings, result.rule, engine.shape) == ((), "traversal", "mixed:16")
    chains = load_engine(model_folder, dtype="float64", rule="block")
    assert (chains.drafter.other.chains, chains.shape) == (True, None)


def test_a_head_is_not_translated(model_folder, head_folder):
    with pytest.raises(SpecproofError, match="vocabulary 'intersection' needs a draft model"):
        load_engine(model_folder, drafter="eagle3", draft_model=head_folder, vocabulary="intersection")


@pytest.mark.parametrize("name", ["./nowhere", "/no/where", "nowhere"])
def test_a_head_that_is_not_there_is_named(name, model_folder):
    with pytest.raises(SpecproofError, match=f"no folder at '{name}'"):
        load_engine(model_folder, drafter="eagle3", draft_model=name)
