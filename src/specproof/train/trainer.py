"""The updates, and their state on disk: a run that was killed goes on as if it had not been."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn.utils import clip_grad_norm_
from torch.optim import AdamW
from torch.optim.lr_scheduler import OneCycleLR

from specproof.drafters.eagle.head import EagleHead
from specproof.drafters.medusa.head import MedusaHead
from specproof.errors import SpecproofError
from specproof.train.data import Sample
from specproof.train.losses import LOSSES
from specproof.train.settings import TrainSettings
from specproof.train.teacher import Lesson, Teacher
from specproof.train.unroll import unroll

_BETAS = (0.9, 0.95)


class Trainer:
    """Updates of a head.

    Args:
        head: trained in place; its embedding stays as it is.
        teacher: of the same target.
        samples: to train on.
        settings: of the run.

    Attributes:
        done: updates so far. Which texts are next depends on it and on the seed alone.
        plans: from which update on it was planned to make how many; more than one if that was changed on the way.
    """

    def __init__(
        self, head: EagleHead | MedusaHead, teacher: Teacher, samples: Sequence[Sample], settings: TrainSettings
    ) -> None:
        self.head = head
        self.teacher = teacher
        self.samples = samples
        self.settings = settings
        self.done = 0
        self.plans = [(0, settings.steps)]
        self.parameters = [p for p in head.parameters() if p.requires_grad]
        self.optimizer = AdamW(self.parameters, settings.learning_rate, _BETAS, weight_decay=0.0)
        total = settings.steps + 1  # it counts the state before the first update
        self.schedule = OneCycleLR(
            self.optimizer,
            settings.learning_rate,
            total_steps=total,
            pct_start=min(1.0, max(settings.warmup, 2 / total)),
            cycle_momentum=False,
        )

    def step(self) -> float:
        """One update; returns its loss."""
        loss = self.loss(self.teacher.teach(self._batch()))
        self.optimizer.zero_grad()
        loss.backward()
        clip_grad_norm_(self.parameters, self.settings.clip)
        self.optimizer.step()
        self.schedule.step()
        self.done += 1
        return float(loss.detach())

    def loss(self, lesson: Lesson) -> Tensor:
        """Of a batch, see `loss_of`."""
        return loss_of(self.head, lesson, self.settings)

    def _batch(self) -> list[Sample]:
        """The next texts: every epoch goes through all of them in an order of its own."""
        size, count = self.settings.batch, len(self.samples)
        places = []
        for place in range(self.done * size, (self.done + 1) * size):
            generator = torch.Generator().manual_seed(self.settings.seed + place // count)
            places.append(int(torch.randperm(count, generator=generator)[place % count]))
        return [self.samples[place] for place in places]

    def save(self, folder: Path, about: Mapping[str, Any]) -> None:
        """Write the state into a folder of its own, which appears whole; older ones are removed."""
        folder.mkdir(parents=True, exist_ok=True)
        scratch = folder / f".step-{os.getpid()}"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        optimizer = self.optimizer.state_dict()
        tensors = {f"optimizer.{i}.{k}": v for i, state in optimizer["state"].items() for k, v in state.items()}
        tensors |= {f"head.{name}": p for name, p in self._trained()}
        save_file(
            {name: value.detach().contiguous() for name, value in tensors.items()}, scratch / "state.safetensors"
        )
        values = {"done": self.done, "groups": optimizer["param_groups"], "schedule": self.schedule.state_dict()}
        values["plans"] = self.plans
        (scratch / "state.json").write_text(json.dumps(values | {"about": dict(about)}), encoding="utf-8")
        target = folder / f"step-{self.done:07d}"
        if target.exists():
            shutil.rmtree(scratch)
            return
        scratch.rename(target)
        for old in _states(folder)[:-1]:
            shutil.rmtree(old)

    def resume(self, folder: Path, about: Mapping[str, Any]) -> bool:
        """Go on from the latest state in a folder, if there is one.

        The number of updates may be another one than before: the learning rate goes on as if it had been from the
        beginning, and `plans` says when it changed.

        Raises:
            SpecproofError: it is of a run with other settings or data, or of more updates than are wanted now.
        """
        states = _states(folder)
        if not states:
            return False
        values = json.loads((states[-1] / "state.json").read_text(encoding="utf-8"))
        # A setting that is younger than the state had its default.
        before = TrainSettings().as_dict() | values["about"]
        for name, value in about.items():
            if name != "steps" and before.get(name) != value:
                raise SpecproofError(
                    f"{states[-1]} is of a run with {name} {before.get(name)!r}, not {value!r}: give "
                    "another folder, or the same settings"
                )
        tensors = load_file(states[-1] / "state.safetensors")
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            kind, _, rest = name.partition(".")
            if kind == "optimizer":
                number, _, part = rest.partition(".")
                moments.setdefault(int(number), {})[part] = value
        with torch.no_grad():
            for name, parameter in self._trained():
                parameter.copy_(tensors[f"head.{name}"])
        self.optimizer.load_state_dict({"state": moments, "param_groups": values["groups"]})
        self.done = values["done"]
        self.plans = [(start, steps) for start, steps in values.get("plans", [(0, before["steps"])])]
        if before["steps"] == self.settings.steps:
            self.schedule.load_state_dict(values["schedule"])
        elif self.done > self.settings.steps:
            raise SpecproofError(
                f"{states[-1]} has seen {self.done} updates and --steps is {self.settings.steps}: "
                f"give {self.done} or more"
            )
        else:
            self.schedule.last_epoch = self.done  # its learning rate is a function of this alone
            self.plans.append((self.done, self.settings.steps))
        return True

    def _trained(self) -> list[tuple[str, Tensor]]:
        return [(name, p) for name, p in self.head.named_parameters() if p.requires_grad]


def loss_of(
    head: EagleHead | MedusaHead, lesson: Lesson, settings: TrainSettings, weights: Tensor | None = None
) -> Tensor:
    """The mean over the completions' rows at every depth, later ones with less weight.

    Args:
        head: to be trained.
        lesson: a batch of texts.
        settings: depth, decay, loss and precision.
        weights: [B] of the texts, positive; all alike if not given.
    """
    found = LOSSES[settings.loss]
    total, weight, counted = lesson.rows.new_zeros(()), 1.0, 0.0
    with torch.autocast(lesson.tokens.device.type, torch.bfloat16, enabled=settings.precision == "bfloat16"):
        for step, logits in enumerate(unroll(head, lesson.tokens, lesson.features, settings.depth)):
            spoken = lesson.spoken[:, 1 + step :]
            if bool(spoken.any()):
                rows = lesson.rows[:, 1 + step :][spoken]
                of_rows = found(logits[spoken].to(rows.dtype), rows, settings.eta)
                if weights is None:
                    mean = of_rows.mean()
                else:
                    own = weights[:, None].expand_as(spoken)[spoken]
                    mean = (of_rows * own).sum() / own.sum()
                total = total + weight * mean
                counted += weight
            weight *= settings.decay
    return total / max(counted, torch.finfo(total.dtype).tiny)


def _states(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*"))
