"""A head before its first update: it begins as the target's last layer, where the two have the same parts."""

from dataclasses import replace

import pytest
import torch

from specproof.testing.tiny import tiny_model
from specproof.train.data import Sample
from specproof.train.settings import TrainSettings
from specproof.train.start import new_head
from specproof.train.teacher import Teacher
from specproof.train.trainer import Trainer
from specproof.train.unroll import unroll

DRAFTED = [0, 2, 3, 5]
SETTINGS = TrainSettings(draft_vocabulary=len(DRAFTED))


@torch.no_grad()
def test_a_new_head_does_to_its_highest_tap_what_the_targets_last_layer_would():
    """Once the half that reads embeddings, which is random, is silenced."""
    model = tiny_model("llama", 7)
    head = new_head(model, "some", DRAFTED, SETTINGS)
    attention = head.layers[0].self_attn
    for part in (attention.q_proj, attention.k_proj, attention.v_proj):
        assert part.weight[:, : part.weight.shape[1] // 2].any()
        part.weight[:, : part.weight.shape[1] // 2] = 0
    tokens = torch.tensor([[1, 2, 0, 3, 5, 2, 6]])
    states = model(input_ids=tokens[:, :-1], output_hidden_states=True).hidden_states[head.taps[-1]]
    positions = torch.arange(tokens.shape[1] - 1)[None]
    last, seen = model.model.layers[-1], torch.ones(6, 6, dtype=torch.bool).tril()[None, None]
    said = last(states, attention_mask=seen, position_embeddings=model.model.rotary_emb(states, positions))
    expected = model.lm_head(model.model.norm(said))[..., DRAFTED]
    lesson = Teacher(model, head.taps, head.drafted).teach([Sample(tuple(tokens[0].tolist()), 2, 0)])
    got = next(unroll(head, lesson.tokens, lesson.features, 1))
    assert torch.allclose(got, expected, atol=1e-10)


def test_a_target_without_such_parts_begins_at_random():
    head = new_head(tiny_model("gpt2", 7), "some", DRAFTED, SETTINGS)
    assert head.fc.weight.all()


@torch.no_grad()
def test_a_teacher_is_asked_once_as_far_as_memory_goes():
    model = tiny_model("llama", 7)
    asked = []
    model.register_forward_hook(lambda *_: asked.append(1))
    samples = [Sample((1, 2, 0, 3, 5), 2, 0), Sample((4, 6, 1, 2, 2), 1, 0)]
    free = Teacher(model, (1, 1, 0), torch.tensor(DRAFTED))
    fresh = [free.teach(samples) for _ in range(2)]
    assert len(asked) == 4
    size = sum(part.nbytes for part in free._read(samples[0], 1.0))
    asked.clear()
    kept = Teacher(model, (1, 1, 0), torch.tensor(DRAFTED), memory=size)  # room for the first alone
    again = [kept.teach(samples) for _ in range(3)]
    assert len(asked) == 4
    for lesson in [*fresh, *again]:
        for name in ("tokens", "features", "rows", "said", "spoken"):
            assert torch.equal(getattr(lesson, name), getattr(fresh[0], name))
    kept.teach(samples[:1], temperature=0.5)
    assert len(asked) == 5  # another temperature is another lesson


def test_products_in_bfloat16_change_the_loss_by_their_rounding_only():
    model = tiny_model("llama", 7).float()
    samples = [Sample((1, 2, 0, 3, 5, 2, 6), 3, 0)]
    losses = []
    for precision in ("float32", "bfloat16"):
        settings = replace(SETTINGS, precision=precision, batch=1)
        head = new_head(model, "some", DRAFTED, settings)
        trainer = Trainer(head, Teacher(model, head.taps, head.drafted), samples, settings)
        losses.append(trainer.step())
        assert all(part.grad.dtype == torch.float32 for part in trainer.parameters)
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.02)
