"""A drafter that learns between rollouts: what is learned, on which weights, and what must stay as it was."""

import pytest
import torch

from specproof.backends.hf import HFBackend
from specproof.drafters.eagle3 import Eagle3Drafter
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.rollout.online import OnlineDrafter, OnlineSettings, weigh
from specproof.rollout.worker import RolloutWorker
from specproof.testing.tiny import tiny_head, tiny_model
from specproof.train.data import Sample
from specproof.train.evaluate import evaluate
from specproof.train.settings import TrainSettings
from specproof.train.teacher import Teacher
from specproof.train.trainer import loss_of
from specproof.types import SamplingParams

PROMPTS = [[1, 2, 3], [4, 5], [6]]
PARAMS = SamplingParams(max_tokens=16, seed=3, ignore_eos=True)


def build(settings=None):
    model = tiny_model("llama", 8, 0, context=32)
    head = tiny_head(model, range(8), length=3)
    target = HFBackend(model, taps=head.taps)
    return model, Engine(target, Eagle3Drafter(head, target), "rejection"), OnlineDrafter(head, settings)


def test_it_follows_a_target_that_moves():
    """Exact acceptance on the new target's own texts: of a frozen head, and of one that learned on rollouts."""
    model, engine, online = build(OnlineSettings(learning_rate=1e-2, updates=4))
    worker = RolloutWorker(engine)
    frozen = tiny_head(model, range(8), length=3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(6):
        with torch.no_grad():
            for value in model.parameters():
                value.add_(0.03 * torch.randn(value.shape, generator=generator, dtype=value.dtype))
        engine.update_target(model)
        rolled = worker.rollout(PROMPTS, PARAMS, samples=4)
        online.add(rolled, [1.0] * len(rolled))
        online.update(engine)
    texts = [
        Sample(one.prompt_ids + one.completion_ids, len(one.prompt_ids), 0)
        for one in worker.rollout(PROMPTS, SamplingParams(max_tokens=16, seed=4), samples=4)
    ]
    stale, fresh = (
        evaluate(head, Teacher(model, head.taps, head.drafted), texts, 3, 1.0) for head in (frozen, online.head)
    )
    assert fresh.tokens_per_forward > stale.tokens_per_forward + 0.5
    assert engine.drafter_version == 2 * 6  # the embedding it shares with the target counts as well


def test_learning_touches_no_weight_of_the_targets():
    model, engine, online = build()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    online.add(RolloutWorker(engine).rollout(PROMPTS, PARAMS), [0.0, 1.0, None])
    assert online.update(engine) > 0
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(value.requires_grad and value.grad is None for value in model.parameters())
    # What the target's optimiser writes into its embedding, the head reads.
    with torch.no_grad():
        model.get_input_embeddings().weight.add_(1)
    assert torch.equal(online.head.embed_tokens.weight, model.get_input_embeddings().weight)


def test_the_same_rollouts_give_the_same_head():
    heads = []
    for _ in range(2):
        _, engine, online = build()
        online.add(RolloutWorker(engine).rollout(PROMPTS, PARAMS), [0.0, 1.0, 2.0])
        online.update(engine)
        heads.append(online.head.state_dict())
    assert all(torch.equal(heads[0][name], value) for name, value in heads[1].items())


@torch.no_grad()
def test_texts_with_more_reward_count_more():
    """The weighted loss of two texts is theirs, weighed by their rows; equal weights give the unweighted one."""
    model, _, online = build()
    teacher = Teacher(model, online.head.taps, online.head.drafted)
    settings = TrainSettings(depth=1, loss="kl")
    texts = [Sample((1, 2, 3, 4, 5, 6), 2, 0), Sample((3, 1, 1, 7), 2, 0)]
    alone = [loss_of(online.head, teacher.teach([text]), settings) for text in texts]
    both = teacher.teach(texts)
    weighed = loss_of(online.head, both, settings, torch.tensor([1.0, 0.25], dtype=torch.float64))
    rows = [int(teacher.teach([text]).spoken[:, 1:].sum()) for text in texts]
    expected = (rows[0] * alone[0] + 0.25 * rows[1] * alone[1]) / (rows[0] + 0.25 * rows[1])
    assert float(weighed) == pytest.approx(float(expected), abs=1e-12)
    even = loss_of(online.head, both, settings, torch.full((2,), 0.5, dtype=torch.float64))
    assert float(even) == pytest.approx(float(loss_of(online.head, both, settings)), abs=1e-12)
    assert float(alone[0]) != pytest.approx(float(alone[1]), abs=1e-3)


def test_weights_are_linear_in_the_reward():
    assert weigh([0.0, 1.0, 0.5, None], 0.2) == pytest.approx([0.2, 1.0, 0.6, 0.2])
    assert weigh([2.0, 2.0], 0.2) == [1.0, 1.0]
    assert weigh([-3.0, -1.0], 0.5) == [0.5, 1.0]
    assert weigh([], 0.5) == []


def test_nothing_is_learned_from_nothing():
    _, engine, online = build()
    assert online.update(engine) is None
    assert engine.drafter_version == 0


@pytest.mark.parametrize("values", [{"updates": 0}, {"batch": 0}, {"memory": 0}, {"floor": 0.0}, {"loss": "l2"}])
def test_settings_that_make_no_sense_are_refused(values):
    head = tiny_head(tiny_model("llama", 8, 0, context=32), range(8), length=3)
    with pytest.raises(SpecproofError):
        OnlineDrafter(head, OnlineSettings(**values))
