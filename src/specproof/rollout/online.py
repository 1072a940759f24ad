"""A drafter that learns while the policy does: reward-weighted distillation on fresh rollouts.

A policy that is trained leaves a frozen drafter behind. Texts stay right, since verification does not depend on
the drafter, but fewer tokens are accepted. So the head is distilled after every update of the policy, on the
latest rollouts, those with more reward counting more. Source: ReSpec (2510.26475), online drafter distillation.

Features and rows come from a pass of the new policy over the texts, not from the verification that wrote them:
what verification saw belongs to the policy before the update, while the head will draft for the one after it, and
the store forgets a text once it is done. One pass over whole texts is cheap next to writing them token by token.
It runs between two rollouts, in the trainer's thread: nothing drafts meanwhile, so nothing is locked or copied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.utils import clip_grad_norm_
from torch.optim import AdamW

from specproof.backends.hf import HFBackend
from specproof.drafters.eagle.head import EagleHead
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.rollout.trajectory import Trajectory
from specproof.train.data import Sample
from specproof.train.settings import TrainSettings
from specproof.train.teacher import Teacher
from specproof.train.trainer import loss_of


@dataclass(frozen=True)
class OnlineSettings:
    """How a head follows its target.

    Attributes:
        updates: of the head after each update of the policy.
        batch: texts in each.
        memory: latest texts that they are chosen from.
        floor: weight of the texts with least reward; those with most have 1.
        learning_rate, clip: of AdamW.
        loss, eta: see `train.losses`.
        depth, decay: unrolled steps and the weight of each further one; the head's own length if not given.
        seed: of the choice of texts.
    """

    updates: int = 2
    batch: int = 8
    memory: int = 32
    floor: float = 0.2
    learning_rate: float = 3e-4
    clip: float = 0.5
    loss: str = "kl"
    eta: float = 3.0
    depth: int | None = None
    decay: float = 0.8
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("updates", "batch", "memory"):
            if getattr(self, name) < 1:
                raise SpecproofError(f"{name}={getattr(self, name)!r} is not allowed: give a whole number >= 1")
        if not 0 < self.floor <= 1:
            raise SpecproofError(f"floor={self.floor!r} is not allowed: give a number in (0, 1], 1 for none less")

    def of(self, head: EagleHead) -> TrainSettings:
        """The settings that training shares; checks them too."""
        return TrainSettings(
            depth=self.depth or head.config.length,
            loss=self.loss,
            eta=self.eta,
            decay=self.decay,
            batch=self.batch,
            learning_rate=self.learning_rate,
            clip=self.clip,
            seed=self.seed,
        )


class OnlineDrafter:
    """Keeps an EAGLE-3 head near a target that is being trained.

    Args:
        head: the one that the engine drafts with; trained in place, its embedding left to the target.
        settings: how.

    Attributes:
        head: as given.
        losses: of every update so far.
    """

    def __init__(self, head: EagleHead, settings: OnlineSettings | None = None) -> None:
        self.head = head
        self.settings = settings or OnlineSettings()
        self._train = self.settings.of(head)
        self.losses: list[float] = []
        self._memory: deque[tuple[Sample, float]] = deque(maxlen=self.settings.memory)
        # The target's embedding, in storage that the target's optimiser writes to, but no parameter to train here.
        shared = head.embed_tokens.weight.detach()
        head.requires_grad_(True)
        head.embed_tokens.weight = torch.nn.Parameter(shared, requires_grad=False)
        self._parameters = [p for p in head.parameters() if p.requires_grad]
        self._optimizer = AdamW(self._parameters, self._train.learning_rate, (0.9, 0.95), weight_decay=0.0)

    def add(self, trajectories: Sequence[Trajectory], rewards: Sequence[float | None]) -> None:
        """Record texts and what they earned; a text without a reward counts like the worst."""
        weights = weigh(rewards, self.settings.floor)
        for one, weight in zip(trajectories, weights, strict=True):
            tokens = (*one.prompt_ids, *one.completion_ids)
            self._memory.append((Sample(tokens, len(one.prompt_ids), one.seed), weight))

    def rewarded(self, reward_func: Callable[..., list[float | None]]) -> Callable[..., list[float | None]]:
        """A reward function for TRL that records what the given one says of the texts of `trl.Rollouts`."""

        def recorded(*, trajectory: Sequence[Trajectory], **values: Any) -> list[float | None]:
            rewards = reward_func(**values)
            self.add(trajectory, rewards)
            return rewards

        recorded.__name__ = getattr(reward_func, "__name__", type(reward_func).__name__)
        return recorded

    def update(self, engine: Engine) -> float | None:
        """Distil the target as it is now on recorded texts; returns the mean loss, None without texts.

        The engine's drafter gets a new version.
        """
        if not self._memory:
            return None
        assert isinstance(engine.target, HFBackend)
        teacher = Teacher(engine.target.model, self.head.taps, self.head.drafted)
        losses = [self._step(teacher) for _ in range(self.settings.updates)]
        engine.update_drafter(self.head)
        self.losses += losses
        return sum(losses) / len(losses)

    def _step(self, teacher: Teacher) -> float:
        generator = torch.Generator().manual_seed(self.settings.seed + len(self.losses))
        places = torch.randperm(len(self._memory), generator=generator)[: self.settings.batch].tolist()
        chosen = [self._memory[place] for place in places]
        with torch.enable_grad():
            lesson = teacher.teach([sample for sample, _ in chosen])
            weights = torch.tensor([weight for _, weight in chosen], dtype=lesson.rows.dtype)
            loss = loss_of(self.head, lesson, self._train, weights.to(lesson.rows.device))
            self._optimizer.zero_grad()
            loss.backward()
        clip_grad_norm_(self._parameters, self._train.clip)
        self._optimizer.step()
        return float(loss.detach())


def weigh(rewards: Sequence[float | None], floor: float) -> list[float]:
    """Weights in [floor, 1], linear in the reward; all 1 where all rewards are equal."""
    known = [reward for reward in rewards if reward is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    if high == low:
        return [1.0] * len(rewards)
    return [floor + (1 - floor) * ((low if r is None else r) - low) / (high - low) for r in rewards]
