"""How much of a head's drafts the target accepts, on held-out text and without sampling error over drafts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from specproof.drafters.eagle.head import EagleHead
from specproof.drafters.medusa.head import MedusaHead
from specproof.train.data import Sample
from specproof.train.losses import acceptance
from specproof.train.teacher import Lesson, Teacher
from specproof.train.unroll import unroll

# Nearly one-hot rows, in which ties stay ties.
_COLD = 1e-3


@dataclass(frozen=True)
class Evaluation:
    """What rule "rejection" makes of chains of the head's depth.

    Attributes:
        by_depth: exact acceptance of each drafted token, sum of min(p, q) over the vocabulary, along the target's
            own text.
        tokens_per_forward: expected committed tokens of a step, the extra one included.
        positions: rows it was averaged over.
        temperature: of both models.
    """

    by_depth: tuple[float, ...]
    tokens_per_forward: float
    positions: int
    temperature: float

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "acceptance_by_depth": list(self.by_depth),
            "tokens_per_forward": self.tokens_per_forward,
            "positions": self.positions,
            "temperature": self.temperature,
        }

    def __str__(self) -> str:
        depths = "  ".join(f"{depth}: {share:.3f}" for depth, share in enumerate(self.by_depth, start=1))
        return f"{self.tokens_per_forward:.2f} expected tokens per forward, acceptance by depth  {depths}"


@torch.no_grad()
def evaluate(
    head: EagleHead | MedusaHead, teacher: Teacher, samples: Sequence[Sample], depth: int, temperature: float
) -> Evaluation:
    """Evaluate on texts that the target wrote at this temperature.

    Positions too near a text's end for a whole draft are left out; at least one text is long enough.
    """
    place = torch.full((len(head.t2d),), -1, device=head.d2t.device)
    place[head.drafted] = torch.arange(len(head.d2t), device=place.device)
    totals, counts = torch.zeros(depth + 1, dtype=torch.float64), 0
    for sample in samples:
        accepted, reached = drafts(head, teacher.teach([sample], temperature), place, depth, temperature)
        if accepted.numel():
            totals[:depth] += accepted.double().sum(1).cpu()
            totals[depth] += (accepted * reached).double().sum().cpu()
            counts += accepted.shape[1]
    means = (totals / max(1, counts)).tolist()
    return Evaluation(tuple(means[:depth]), 1 + means[depth], counts, temperature)


@torch.no_grad()
def agreement(
    head: EagleHead | MedusaHead, teacher: Teacher, samples: Sequence[Sample], depth: int
) -> tuple[float, ...]:
    """Acceptance at temperature 0 of each drafted token, along the same texts: how often both say the same."""
    totals, counts = torch.zeros(depth, dtype=torch.float64), 0
    for sample in samples:
        lesson = teacher.teach([sample], _COLD)
        last = lesson.tokens.shape[1] - 1 - depth
        if last > 0:
            spoken = lesson.spoken[0, 1 : 1 + last]
            for step, logits in enumerate(unroll(head, lesson.tokens, lesson.features, depth)):
                rows = lesson.rows[0, 1 + step : 1 + step + last]
                totals[step] += acceptance(logits[0, :last] / _COLD, rows)[spoken].double().sum().cpu()
            counts += int(spoken.sum())
    return tuple((totals / max(1, counts)).tolist())


def drafts(
    head: EagleHead | MedusaHead, lesson: Lesson, place: Tensor, depth: int, temperature: float
) -> tuple[Tensor, Tensor]:
    """Of every whole draft in one text: acceptance at each depth, and weight of coming so far; [depth, drafts].

    The text was drawn from the target and not from the head, so a token counts by min(1, q/p): over all texts that
    is the probability to draft it and to have it accepted.
    """
    last = lesson.tokens.shape[1] - 1 - depth  # columns with a whole draft before them
    accepted, reached = [], []
    weight = lesson.said.new_ones(max(0, last))
    if last > 0:
        for step, logits in enumerate(unroll(head, lesson.tokens, lesson.features, depth)):
            scaled, rows = logits[0, :last] / temperature, lesson.rows[0, 1 + step : 1 + step + last]
            accepted.append(acceptance(scaled, rows))
            reached.append(weight)
            where = place[lesson.tokens[0, 2 + step : 2 + step + last]]
            drawn = scaled.softmax(-1).gather(1, where.clamp_min(0)[:, None])[:, 0] * (where >= 0)
            weight = weight * (drawn / lesson.said[0, 1 + step : 1 + step + last]).clamp_max(1)
    if not accepted:
        return weight.new_zeros(depth, 0), weight.new_zeros(depth, 0)
    spoken = lesson.spoken[0, 1 : 1 + last]
    return torch.stack(accepted)[:, spoken], torch.stack(reached)[:, spoken]
