"""Trajectories: log-probabilities against teacher forcing, seeds against batch mates, versions against updates."""

import json
from dataclasses import replace

import pytest
import torch

from specproof.backends.hf import HFBackend
from specproof.drafters.model import ModelDrafter
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.noise import completion_seed
from specproof.rollout.trajectory import Trajectory
from specproof.rollout.worker import RolloutWorker, Task, sample_seed
from specproof.sampling import processors_for, warp_next
from specproof.testing.tiny import recomputed_logits, tiny_model
from specproof.types import SamplingParams, TokenSequence

VOCABULARY = 11
PROMPTS = [[1, 2, 3, 4, 1, 2, 3], [5], [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 9, 8], [3, 3]]
PARAMS = {
    "plain": SamplingParams(max_tokens=12, seed=5),
    "warm": SamplingParams(temperature=0.7, max_tokens=12, seed=5),
    "greedy": SamplingParams(temperature=0, max_tokens=12, seed=5),
    "filtered": SamplingParams(
        temperature=1.3,
        top_k=7,
        top_p=0.9,
        repetition_penalty=1.2,
        frequency_penalty=0.3,
        logit_bias={2: 0.5},
        max_tokens=12,
        seed=5,
    ),
}


def worker(max_batch=16, seed=0, drafter=None, eos=()):
    drafter = drafter or ModelDrafter(HFBackend(tiny_model("llama", VOCABULARY, 1)), 3)
    return RolloutWorker(
        Engine(HFBackend(tiny_model("llama", VOCABULARY, seed)), drafter, max_batch=max_batch, eos=eos)
    )


@pytest.mark.parametrize("name", PARAMS)
@pytest.mark.parametrize("drafter", ["none", "ngram", "model"])
def test_log_probabilities_are_those_of_teacher_forcing(name, drafter):
    params, model = PARAMS[name], tiny_model("llama", VOCABULARY)
    chosen = None if drafter == "model" else drafter
    for one in worker(drafter=chosen).rollout(PROMPTS, params):
        sequence = TokenSequence(
            list(one.prompt_ids),
            len(one.prompt_ids),
            params,
            0,
            processors=processors_for(params, VOCABULARY, None, frozenset()),
        )
        assert len(one.completion_ids) == 12
        for token, folded, raw in zip(one.completion_ids, one.logprobs, one.raw_logprobs, strict=True):
            logits = recomputed_logits(model, sequence.tokens)
            assert abs(float(warp_next(logits, sequence)[token].log()) - folded) < 1e-10
            assert abs(float((logits / (params.temperature or 1)).log_softmax(-1)[token]) - raw) < 1e-10
            sequence.tokens.append(token)


def test_samples_hang_on_their_numbers_alone():
    """Not on batch mates, order, or which worker draws them."""
    params = PARAMS["warm"]
    expected = worker().rollout(PROMPTS, params, samples=3)
    assert [(one.prompt, one.sample) for one in expected] == [(p, s) for p in range(4) for s in range(3)]
    assert len({one.seed for one in expected}) == 12
    tasks = [Task(one.prompt, one.sample, PROMPTS[one.prompt]) for one in expected]
    alone = worker(max_batch=1).run(tasks[::-1], params)
    several = [one for part in (tasks[::2], tasks[1::2]) for one in worker(max_batch=3).run(part, params)]
    for other in (list(alone), several):
        by_number = {(one.prompt, one.sample): one for one in other}
        assert [by_number[one.prompt, one.sample].completion_ids for one in expected] == [
            one.completion_ids for one in expected
        ]


def test_no_two_samples_share_a_seed():
    seeds = [sample_seed(7, prompt, sample) for prompt in range(40) for sample in range(40)]
    assert len({7, *seeds}) == 1601
    # The seeds of requests with n completions would collide: sample i of prompt 0, and sample 0 of prompt i.
    naive = [completion_seed(completion_seed(7, prompt), sample) for prompt in range(40) for sample in range(40)]
    assert len(set(naive)) < 1600


def test_what_a_trajectory_says_of_its_run():
    drawn = worker(eos=(4,)).rollout(PROMPTS, SamplingParams(max_tokens=20, n=2, seed=1))
    assert {one.finish_reason for one in drawn} == {"stop", "length"}
    for one in drawn:
        assert (one.completion_ids[-1] == 4) == (one.finish_reason == "stop")
        assert (one.rule, one.drafter, one.lossless) == ("block", "model", True)
        assert 0 <= one.accepted <= one.drafted
        # A step that ended in its accepted path had no extra token.
        assert one.accepted + one.forwards - len(one.completion_ids) in (0, one.finish_reason == "stop")
        assert one.sampling.max_tokens == 20


@pytest.mark.parametrize("as_text", [False, True])
def test_trajectories_survive_json(as_text):
    for one in worker().rollout(PROMPTS[:1], PARAMS["filtered"]):
        values = json.loads(json.dumps(one.as_dict()))
        if as_text:
            values["params"] = json.dumps(values["params"])
        assert Trajectory.from_dict(values) == one
        assert Trajectory.from_dict(values).sampling == PARAMS["filtered"]


def test_files_of_something_else_are_refused():
    values = worker().rollout(PROMPTS[:1], PARAMS["plain"])[0].as_dict()
    with pytest.raises(SpecproofError, match="unknown field 'reward'"):
        Trajectory.from_dict({**values, "reward": 1})
    with pytest.raises(SpecproofError, match="lacks 'seed'"):
        Trajectory.from_dict({name: value for name, value in values.items() if name != "seed"})
    with pytest.raises(SpecproofError, match="as many of each"):
        Trajectory.from_dict({**values, "logprobs": [0.0]})


@pytest.mark.parametrize(
    "params",
    [SamplingParams(processors=(lambda tokens, logits: logits,)), SamplingParams(logprobs=3)],
)
def test_what_no_trajectory_can_say_is_refused(params):
    with pytest.raises(SpecproofError, match=r"processors|logprobs=N"):
        worker().rollout(PROMPTS, params)


def test_versions_are_told_and_a_new_policy_has_its_own_log_probabilities():
    own, new = worker(max_batch=1), tiny_model("llama", VOCABULARY, 9)
    run = own.run([Task(p, 0, prompt) for p, prompt in enumerate(PROMPTS[:3])], PARAMS["plain"])
    first = next(run)
    own.update_target(new, version=10)
    second, third = run
    assert [one.target_version for one in (first, second, third)] == [0, 10, 10]
    assert first.updates == second.updates == ()
    alike = worker_with(new).rollout(PROMPTS[:2], PARAMS["plain"])[1]
    assert replace(second, target_version=0) == alike


def worker_with(model):
    return RolloutWorker(
        Engine(HFBackend(model), ModelDrafter(HFBackend(tiny_model("llama", VOCABULARY, 1)), 3), max_batch=1)
    )


def test_a_text_of_two_policies_says_where_the_second_began():
    own, new = worker(), tiny_model("llama", VOCABULARY, 9)
    tasks = [Task(0, 0, PROMPTS[0]), Task(1, 0, PROMPTS[1])]
    run = own.run(tasks, SamplingParams(max_tokens=30, seed=2, stop_token_ids=(4,)))
    first = next(run)
    own.update_target(new)
    second = next(run)
    assert first.updates == ()
    ((place, version),) = second.updates
    assert (version, second.target_version) == (1, 0)
    old = tiny_model("llama", VOCABULARY)
    text = list(second.prompt_ids)
    for number, (token, raw) in enumerate(zip(second.completion_ids, second.raw_logprobs, strict=True)):
        logits = recomputed_logits(old if number < place else new, text)
        assert abs(float(logits.log_softmax(-1)[token]) - raw) < 1e-10
        text.append(token)
    assert 0 < place < len(second.completion_ids)
    assert torch.tensor(second.raw_logprobs).isfinite().all()
