"""The unrolled head says what the cached one says when it drafts; the evaluation is the exact expectation."""

from itertools import product

import pytest
import torch

from specproof.backends.hf import HFBackend
from specproof.drafters.eagle.backend import EagleBackend
from specproof.drafters.medusa.drafter import MedusaDrafter
from specproof.drafters.none import empty_draft
from specproof.testing.tiny import recomputed_logits, tiny_head, tiny_medusa, tiny_model
from specproof.train.data import Sample
from specproof.train.evaluate import agreement, drafts, evaluate
from specproof.train.settings import TrainSettings
from specproof.train.teacher import Teacher
from specproof.train.trainer import Trainer
from specproof.train.unroll import unroll
from specproof.tree import Tree
from specproof.types import Draft, SamplingParams, TokenSequence

DRAFTED = [0, 2, 3, 5]


def setting(architecture="llama", vocabulary=7, drafted=DRAFTED):
    model = tiny_model(architecture, vocabulary)
    head = tiny_head(model, drafted, seed=1)
    return model, head, Teacher(model, head.config.taps, head.drafted)


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
@torch.no_grad()
def test_every_step_of_every_column_is_what_the_drafter_would_say(architecture):
    model, head, teacher = setting(architecture)
    texts = [[1, 2, 0, 3, 5, 2, 6], [4, 0, 3, 2]]
    lesson = teacher.teach([Sample(tuple(text), 2, 0) for text in texts])
    steps = list(unroll(head, lesson.tokens, lesson.features, depth=3))
    target = HFBackend(model, taps=head.config.taps)
    backend = EagleBackend(head, target)
    compared = 0
    for b, text in enumerate(texts):
        for length in range(2, len(text)):  # the draft hangs below token length - 1
            one = TokenSequence(text[:length], length, SamplingParams(), 0)
            target.forward([one], empty_draft(1))
            target.keep([one], [()])
            for step in range(min(3, len(text) - length + 1)):
                read = torch.tensor([text[length : length + step]]).reshape(1, -1)
                scored = Draft((Tree.chain(step),), read, None, "iid")
                said = backend.forward([one], scored, [step]).logits[0, -1]
                assert torch.allclose(steps[step][b, length - 2], said[head.drafted], atol=1e-10), (
                    b,
                    length,
                    step,
                )
                compared += 1
            for each in (target, backend):
                each.free([one])
    assert compared == 19


@torch.no_grad()
def test_every_column_of_medusa_heads_is_what_the_drafter_would_say():
    model = tiny_model("llama", 7)
    head = tiny_medusa(model, DRAFTED, seed=1, heads=3)
    teacher = Teacher(model, head.taps, head.drafted)
    text = [1, 2, 0, 3, 5, 2, 6]
    lesson = teacher.teach([Sample(tuple(text), 2, 0)])
    steps = list(unroll(head, lesson.tokens, lesson.features, depth=3))
    target = HFBackend(model, taps=head.taps)
    positions = MedusaDrafter(head, target).positions
    for length in range(2, len(text)):
        one = TokenSequence(text[:length], length, SamplingParams(), 0)
        target.forward([one], empty_draft(1))
        target.keep([one], [()])
        said = positions.score([one])[0]
        for step in range(min(3, len(text) - length + 1)):
            assert torch.allclose(steps[step][0, length - 2], said[step, head.drafted], atol=1e-10)
        target.free([one])
    assert [len(step[0]) for step in steps] == [6, 5, 4]


def test_rows_are_the_targets_probabilities_of_the_draft_vocabulary():
    model, _, teacher = setting()
    lesson = teacher.teach([Sample((1, 2, 0, 3, 5), 2, 0), Sample((4, 6, 1), 1, 0)], temperature=0.7)
    for b, text in enumerate(([1, 2, 0, 3, 5], [4, 6, 1])):
        for place in range(len(text)):
            row = (recomputed_logits(model, text[: place + 1]) / 0.7).softmax(-1)
            assert torch.allclose(lesson.rows[b, place], row[DRAFTED], atol=1e-12)
            follows = row[text[place + 1]] if place + 1 < len(text) else 0.0
            assert lesson.said[b, place].item() == pytest.approx(float(follows), abs=1e-12)
    assert lesson.spoken.tolist() == [[False, True, True, True, False], [True, True, False, False, False]]


@pytest.mark.parametrize("name", ["kl", "lk_alpha"])
@torch.no_grad()
def test_the_loss_is_of_the_targets_rows_at_every_depth(name):
    """By hand: each column's draft along the text, against recomputed rows of the completion, padding left out."""
    model, head, teacher = setting()
    samples = [Sample((1, 2, 0, 3, 5, 2, 6), 3, 0), Sample((4, 0, 3, 2), 2, 0)]
    settings = TrainSettings(loss=name, depth=3, decay=0.5, batch=2)
    lesson = teacher.teach(samples)
    steps = list(unroll(head, lesson.tokens, lesson.features, 3))
    expected = 0.0
    for step in range(3):
        each = []
        for b, sample in enumerate(samples):
            for row in range(sample.prompt_tokens - 1, len(sample.tokens) - 1):
                column = row - 1 - step
                if column >= 0:
                    p = recomputed_logits(model, list(sample.tokens[: row + 1])).softmax(-1)[DRAFTED]
                    q = steps[step][b, column].softmax(-1)
                    share = p / p.sum()
                    kl = float((share * (share / q).log()).sum())
                    each.append(kl if name == "kl" else -float(torch.minimum(p, q).sum().log()))
        expected += 0.5**step * sum(each) / len(each)
    trainer = Trainer(head, teacher, samples, settings)
    assert float(trainer.loss(lesson)) == pytest.approx(expected / 1.75, abs=1e-12)


@torch.no_grad()
def test_the_evaluation_is_the_expected_length_of_rejection_sampling():
    """Summed over all texts of three tokens after a prompt, against all drafts of a chain of three."""
    model, head, teacher = setting(vocabulary=4, drafted=[0, 1, 3])
    prompt, temperature = [2, 1], 0.8
    place = torch.tensor([0, 1, -1, 2])

    def rows(text):
        return (recomputed_logits(model, text) / temperature).softmax(-1)

    def head_row(text, drafted):
        lesson = teacher.teach([Sample((*text, *drafted, 0), len(text), 0)])
        logits = list(unroll(head, lesson.tokens, lesson.features, len(drafted) + 1))[-1]
        q = torch.zeros(4).double()
        q[head.drafted] = (logits[0, len(text) - 2] / temperature).softmax(-1)
        return q

    def further(drafted, depth):
        """Expected accepted tokens behind some that were."""
        accepted = torch.minimum(rows([*prompt, *drafted]), head_row(prompt, drafted))
        if depth == 1:
            return float(accepted.sum())
        return sum(float(a) * (1 + further([*drafted, token], depth - 1)) for token, a in enumerate(accepted) if a)

    expected = further([], 3)
    found, total = 0.0, 0.0
    for text in product(range(4), repeat=3):
        sample = Sample((*prompt, *text), 2, 0)
        weight = 1.0
        for n in range(3):
            weight *= float(rows([*prompt, *text[:n]])[text[n]])
        accepted, reached = drafts(head, teacher.teach([sample], temperature), place, 3, temperature)
        found += weight * float((accepted * reached)[:, 0].sum())  # the draft right after the prompt
        total += weight
    assert total == pytest.approx(1)
    assert found == pytest.approx(expected, abs=1e-12)


def test_a_head_that_is_always_right_is_always_accepted():
    """The head's rows in the target's place: acceptance 1 at every depth, depth + 1 tokens a forward."""
    _, head, teacher = setting(drafted=range(7))

    class Echo:
        def teach(self, samples, temperature):
            lesson = teacher.teach(samples, temperature)
            steps = list(unroll(head, lesson.tokens, lesson.features, 1))
            rows = lesson.rows.clone()
            rows[:, 1:] = (steps[0] / temperature).softmax(-1)
            said = lesson.said.clone()
            said[0, 1:-1] = rows[0, 1:-1].gather(1, lesson.tokens[0, 2:, None])[:, 0]
            return type(lesson)(lesson.tokens, lesson.features, rows, said, lesson.spoken)

    result = evaluate(head, Echo(), [Sample((1, 2, 0, 3, 5, 6), 2, 0)], 1, 0.9)
    assert result.by_depth == pytest.approx((1.0,))
    assert result.tokens_per_forward == pytest.approx(2.0)
    assert result.positions == 4


@torch.no_grad()
def test_agreement_is_the_share_of_positions_with_the_same_likeliest_token():
    """Against the likeliest token of the target's whole row, which the head may not be able to draft."""
    model, head, teacher = setting()
    samples = [Sample((1, 2, 0, 3, 5, 2, 6, 1), 2, 0), Sample((4, 0, 3, 2, 2, 6), 1, 0), Sample((1, 2, 3), 2, 0)]
    equal, total = [0, 0], 0
    for sample in samples:
        lesson = teacher.teach([sample])
        steps = [head.drafted[logits[0].argmax(-1)] for logits in unroll(head, lesson.tokens, lesson.features, 2)]
        for column in range(sample.prompt_tokens - 2, len(sample.tokens) - 3):
            if column >= 0:
                total += 1
                for step in range(2):
                    said = recomputed_logits(model, list(sample.tokens[: column + 2 + step])).argmax()
                    equal[step] += int(steps[step][column] == said)
    found = agreement(head, teacher, samples, 2)
    assert found == pytest.approx([share / total for share in equal])
    assert 0 < sum(found) < 2
