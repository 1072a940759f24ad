"""Rollouts for TRL's GRPOTrainer: its log-probabilities, the weights of the very step, and the same texts."""

from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import GenerationConfig

from specproof.backends.hf import HFBackend
from specproof.drafters.none import empty_draft
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.testing.tiny import tiny_head, tiny_model
from specproof.types import SamplingParams, TokenSequence

pytest.importorskip("trl")

from specproof.rollout.online import OnlineDrafter, OnlineSettings
from specproof.rollout.trl import Rollouts, evaluating, numbered, rollout_func
from specproof.rollout.trl_settings import check_config, check_trainer, sampling_params

from .grpo import SETTINGS, count_a, grpo

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"
)

STEPS = SETTINGS["max_steps"]
_KERNEL = 2e-6  # the trainer's own log-probabilities are float32
_EXACT = 1e-11


def policy():
    return tiny_model("llama", 8, 0, context=32)


def test_logprobs_are_the_trainers_own_at_every_step(word_tokenizer, tmp_path):
    """So the importance ratio is 1 on the first use of every text, whatever filters it was drawn under."""
    rollouts = Rollouts("eagle3", "rejection", head=tiny_head(policy(), range(8), length=3), adaptive=False)
    log = grpo(
        policy(), word_tokenizer, rollouts, tmp_path, temperature=0.7, top_k=6, top_p=0.9, repetition_penalty=1.2
    )
    assert len(log.off) == len(log.texts) == STEPS
    assert max(log.off) < _KERNEL
    assert max(log.off_exact) < _EXACT
    assert log.accepted > 0
    assert [{target for target, _ in each} for each in log.versions] == [{step + 1} for step in range(STEPS)]
    for before, after in zip(log.weights, log.weights[1:], strict=False):
        assert all(not torch.equal(before[name], after[name]) for name in before)
    # The law they were drawn from says something else: in its place the trainer would see drift that is not there.
    assert min(log.filters) > 0.01


def test_weights_that_are_not_synced_show(word_tokenizer, tmp_path, monkeypatch):
    """A planted fault for the test above: an engine with a copy of the weights that nobody updates."""
    monkeypatch.setattr(Engine, "update_target", lambda self, weights, version: version)
    own = Engine(HFBackend(policy()), "none")
    log = grpo(policy(), word_tokenizer, Rollouts(engine=own), tmp_path, max_steps=3)
    assert log.off[0] < _KERNEL
    assert min(log.off[1:]) > 1e-2


def test_an_engine_of_its_own_gets_copies(word_tokenizer, tmp_path):
    """It starts with other weights, and writes what the engine on the trainer's module writes."""
    own = Engine(HFBackend(tiny_model("llama", 8, 5, context=32)), "ngram", "coupling")
    copied = grpo(policy(), word_tokenizer, Rollouts(engine=own), tmp_path, max_steps=4)
    shared = grpo(policy(), word_tokenizer, Rollouts("ngram", "coupling"), tmp_path, max_steps=4)
    assert max(copied.off_exact) < _EXACT
    assert copied.texts == shared.texts


def test_under_coupling_drafts_change_no_token_of_a_whole_run(word_tokenizer, tmp_path):
    """Plain sampling, prompt lookup, and a head that learns meanwhile: the same texts, and so the same weights."""
    plain = grpo(policy(), word_tokenizer, Rollouts("none", "coupling"), tmp_path)
    lookup = grpo(policy(), word_tokenizer, Rollouts("ngram", "coupling", adaptive=False), tmp_path, max_steps=5)
    model = policy()
    online = OnlineDrafter(tiny_head(model, range(8), length=3), OnlineSettings(learning_rate=1e-2))
    rollouts = Rollouts("eagle3", "coupling", head=online.head, online=online, adaptive=False)
    learned = grpo(model, word_tokenizer, rollouts, tmp_path, reward=online.rewarded(count_a))
    for other, steps in ((lookup, 5), (learned, STEPS)):
        assert other.accepted > steps
        assert other.texts == plain.texts[:steps]
        before = plain.weights[steps - 1].items()
        assert all(torch.equal(other.weights[-1][name], value) for name, value in before)
    # Between two steps the drafter has new weights twice: with the target's embedding, and by its own updates.
    assert [drafter for each in learned.versions for _, drafter in each] == [2 * step + 1 for step in range(STEPS)]
    assert len({texts for step in plain.texts for texts in step}) > STEPS


def test_settings_reach_the_law(word_tokenizer, tmp_path):
    rollouts = Rollouts("ngram")
    settings = {
        "temperature": 0.9,
        "top_k": 5,
        "top_p": 0.8,
        "repetition_penalty": 1.1,
        "max_completion_length": 5,
    }
    model = policy()
    model.generation_config.min_p = 0.05  # which the trainer leaves open
    log = grpo(
        model, word_tokenizer, rollouts, tmp_path, max_steps=2, generation_kwargs={"min_new_tokens": 2}, **settings
    )
    wanted = {"temperature": 0.9, "top_k": 5, "top_p": 0.8, "min_p": 0.05, "repetition_penalty": 1.1}
    wanted |= {"min_tokens": 2, "max_tokens": 5, "stop_token_ids": [word_tokenizer.eos_token_id]}
    assert all(wanted.items() <= params.items() for step in log.params for params in step)
    assert {len(text) for step in log.texts for text in step} <= set(range(2, 6))
    assert all(0 not in text[:-1] for step in log.texts for text in step)


def test_texts_of_a_group_differ_and_a_run_repeats(word_tokenizer, tmp_path):
    first, again = (grpo(policy(), word_tokenizer, rollout_func, tmp_path, max_steps=3) for _ in range(2))
    other = grpo(policy(), word_tokenizer, rollout_func, tmp_path, max_steps=3, seed=7, data_seed=42)
    assert first.texts == again.texts != other.texts
    # Several generations between two updates draw anew.
    several = grpo(
        policy(), word_tokenizer, Rollouts(), tmp_path, max_steps=1, gradient_accumulation_steps=2,
        steps_per_generation=1, prompts=["a b c"] * 4,
    )  # fmt: skip
    assert len(several.texts) == 2
    assert several.texts[0] != several.texts[1]
    assert len(set(several.texts[0])) > 4


def test_conversations_go_through_the_trainers_template(word_tokenizer, tmp_path):
    from copy import deepcopy

    tokenizer = deepcopy(word_tokenizer)
    tokenizer.chat_template = "{% for m in messages %}g {{ m['content'] }} f {% endfor %}"
    seen = []

    def reward(completions, trajectory, **_):
        seen.extend(trajectory)
        return [float(len(completion[0]["content"])) for completion in completions]

    prompts = [[{"role": "user", "content": "a b"}], [{"role": "user", "content": "c"}]]
    grpo(policy(), tokenizer, Rollouts(), tmp_path, reward, prompts, max_steps=1)
    assert {one.prompt_ids for one in seen} == {(7, 1, 2, 6), (7, 3, 6)}


def test_a_model_goes_back_to_the_mode_of_each_part():
    model = policy().train()
    model.lm_head.eval()
    before = [module.training for module in model.modules()]
    during = []
    with pytest.raises(ZeroDivisionError), evaluating(model):
        during.extend(module.training for module in model.modules()) or 1 / 0
    assert not any(during)
    assert [module.training for module in model.modules()] == before
    assert True in before
    assert False in before


class Casts(TorchDispatchMode):
    """Counts casts of a model's weights to bfloat16."""

    def __init__(self, model):
        super().__init__()
        self.places, self.count = {weight.data_ptr() for weight in model.parameters()}, 0

    def __torch_dispatch__(self, function, types, given=(), named=None):
        if function is torch.ops.aten._to_copy.default:
            self.count += given[0].data_ptr() in self.places
        return function(*given, **(named or {}))


def test_weights_are_cast_once_in_mixed_precision_and_anew_afterwards():
    """In each forward would cost more than the forward. Casts that stayed would be of old weights."""
    model = policy().float()
    backend = HFBackend(model, mixed=True)
    sequence = TokenSequence([1, 2], 2, SamplingParams(), 0)
    with evaluating(model), Casts(model) as casts:
        counts = []
        for _ in range(3):
            with torch.autocast("cpu", torch.bfloat16):  # as around each forward of a trainer's model
                assert backend.forward([sequence], empty_draft(1)).logits.any()
            backend.keep([sequence], [()])
            sequence.tokens.append(3)
            counts.append(casts.count)
    assert counts[0] > 10
    assert counts == counts[:1] * 3
    with torch.no_grad():
        model.lm_head.weight.zero_()
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(input_ids=torch.tensor([[1, 2, 3]])).logits
        assert not logits.any()
        logits.sum().backward()
        assert model.lm_head.weight.grad.any()
        with torch.no_grad():
            model.lm_head.weight.fill_(1)
        backend.clear()
        with evaluating(model):
            assert backend.forward([sequence], empty_draft(1)).logits.any()


def test_equal_prompts_are_samples_of_one():
    tasks = numbered([[1, 2], [1, 2], [3], [1, 2], [3]])
    assert [(task.prompt, task.sample) for task in tasks] == [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1)]


def config(**values):
    return GenerationConfig(**{"do_sample": True, "temperature": 1.0, "max_new_tokens": 4} | values)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"temperature": 0.5}, "temperature=0.5"),
        ({"do_sample": False}, "do_sample=False"),
        ({"num_beams": 2}, "num_beams=2"),
        ({"no_repeat_ngram_size": 2}, "no_repeat_ngram_size=2"),
        ({"suppress_tokens": [3]}, r"suppress_tokens=\[3\]"),
        ({"typical_p": 0.5}, "typical_p=0.5"),
        ({"cache_implementation": "quantized"}, "cache_implementation='quantized'"),
        ({"stop_strings": ["a"]}, "stop_strings"),
        ({"min_length": 3}, "min_length=3"),
    ],
)
def test_what_cannot_be_honoured_is_refused(values, named):
    check_config(config(), 1.0)
    with pytest.raises(SpecproofError, match=named) as caught:
        check_config(config(**values), 1.0)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "changed",
    [
        {"use_vllm": True},
        {"use_transformers_continuous_batching": True},
        {"tools": [print]},
        {"environment_factories": {None: print}},
        {"_is_vlm": True},
        {"is_fsdp_enabled": True},
        {"is_deepspeed_enabled": True},
        {"model": SimpleNamespace(peft_config={})},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_other_generators_and_sharded_models_are_refused(changed):
    names = (
        "use_vllm",
        "use_transformers_continuous_batching",
        "_is_vlm",
        "is_fsdp_enabled",
        "is_deepspeed_enabled",
    )
    values = dict.fromkeys(names, False) | {"tools": [], "environment_factories": None, "model": SimpleNamespace()}
    values["accelerator"] = SimpleNamespace(unwrap_model=lambda model: model)
    check_trainer(SimpleNamespace(**values))
    with pytest.raises(SpecproofError, match="cannot honour"):
        check_trainer(SimpleNamespace(**values | changed))


def test_a_trainer_without_a_limit_writes_as_far_as_the_model_goes():
    assert sampling_params(config(max_new_tokens=None), 32, 5).max_tokens == 32
    assert sampling_params(config(eos_token_id=[3, 4]), 32, 5).stop_token_ids == (3, 4)


def test_a_prompt_that_fills_the_context_is_an_error(word_tokenizer, tmp_path):
    with pytest.raises(SpecproofError, match="32 tokens"):
        grpo(policy(), word_tokenizer, Rollouts(), tmp_path, prompts=["a " * 32] * 2, max_steps=1)


@pytest.mark.parametrize("architecture", ["gpt2", "qwen3"])
def test_positions_that_padding_moves_are_told(word_tokenizer, tmp_path, recwarn, architecture):
    """With learned positions the trainer's pass over padded prompts is another law; rollouts are the model's."""
    model = tiny_model(architecture, 8, 0, context=32)
    log = grpo(model, word_tokenizer, Rollouts("ngram"), tmp_path, max_steps=2, disable_dropout=True)
    assert max(log.off_exact) < _EXACT
    told = [each for each in recwarn if "padded on the left" in str(each.message)]
    assert len(told) == (architecture == "gpt2")
    assert (max(log.off) > 0.1) == (architecture == "gpt2")


def test_mixed_precision_is_the_trainers(word_tokenizer, tmp_path):
    """Under bfloat16 autocast both passes round alike where prompts need no padding."""
    log = grpo(
        policy().float(),
        word_tokenizer,
        Rollouts("ngram"),
        tmp_path,
        max_steps=3,
        bf16=True,
        prompts=["a b", "c d"],
    )
    assert max(log.off) < 0.05
