"""What a training run is told. The command line derives its flags from these fields. No torch at import."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from specproof.errors import SpecproofError, unknown

# Which loss of `losses` a name stands for is said there.
LOSS_NAMES = ("kl", "tv", "lk_alpha", "lk_lambda")
METHODS = ("eagle3", "medusa")
PRECISIONS = ("float32", "bfloat16")


def _flag(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class TrainSettings:
    """All numbers of a run; the same settings give the same head, up to the arithmetic of the machine.

    Attributes:
        method: the drafter that the head is for.
        samples, max_tokens, temperature, seed: of the texts; see `data`.
        held_out: share of the prompts whose texts are only evaluated on, at least one.
        draft_vocabulary: tokens that the head can draft: the most frequent ones of the texts.
        depth: unrolled steps of the training-time test; of Medusa the number of heads.
        loss, eta: see `losses`.
        decay: weight of each further step, as a factor.
        steps, batch: optimiser updates, and texts in each.
        learning_rate, warmup, clip: of AdamW under a one-cycle schedule; warmup as a share of the steps.
        precision: of the head's matrix products in training; weights, losses and sums are float32 or better.
        save_every, evaluate_every: updates between two saved states, and between two evaluations.
    """

    method: str = _flag("eagle3", f"what is trained, one of {', '.join(METHODS)}")
    samples: int = _flag(512, "texts to generate with the target")
    max_tokens: int = _flag(256, "most tokens of each text after its prompt")
    temperature: float = _flag(1.0, "of the texts, and of the evaluation")
    seed: int = _flag(0, "of texts, order and initial weights")
    held_out: float = _flag(0.1, "share of the prompts whose texts are only evaluated on")
    draft_vocabulary: int = _flag(4096, "tokens that the head can draft")
    depth: int = _flag(4, "unrolled steps, and tokens the head drafts in a row by default")
    loss: str = _flag("lk_lambda", f"one of {', '.join(LOSS_NAMES)}")
    eta: float = _flag(3.0, "how fast lk_lambda turns from kl to tv as acceptance grows")
    decay: float = _flag(0.8, "weight of each further unrolled step")
    steps: int = _flag(1000, "optimiser updates")
    batch: int = _flag(4, "texts in each update")
    learning_rate: float = _flag(1e-3, "largest learning rate")
    warmup: float = _flag(0.05, "share of the updates in which the learning rate rises")
    clip: float = _flag(0.5, "largest norm of the gradient")
    precision: str = _flag("float32", f"of the products in training, one of {', '.join(PRECISIONS)}")
    save_every: int = _flag(50, "updates between saved states")
    evaluate_every: int = _flag(250, "updates between evaluations")

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise unknown("method", self.method, METHODS)
        if self.loss not in LOSS_NAMES:
            raise unknown("loss", self.loss, LOSS_NAMES)
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)
        for name in ("samples", "draft_vocabulary", "depth", "steps", "batch", "save_every", "evaluate_every"):
            self._need(name, getattr(self, name) >= 1, "a whole number >= 1")
        self._need("samples", self.samples >= 2, "at least 2, one of which is held out")
        self._need("max_tokens", self.max_tokens > self.depth, f"more than depth, here {self.depth}")
        self._need("temperature", 0 < self.temperature < math.inf, "a finite number > 0")
        self._need("seed", 0 <= self.seed < 2**63, "a whole number in [0, 2**63)")
        for name in ("held_out", "warmup"):
            self._need(name, 0 < getattr(self, name) < 1, "a number in (0, 1)")
        self._need("decay", 0 < self.decay <= 1, "a number in (0, 1]")
        for name in ("eta", "learning_rate", "clip"):
            self._need(name, 0 < getattr(self, name) < math.inf, "a finite number > 0")

    def _need(self, name: str, ok: bool, allowed: str) -> None:
        if not ok:
            flag = "--" + name.replace("_", "-")
            raise SpecproofError(f"{flag} {getattr(self, name)!r} is not allowed: give {allowed}")

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def flags(cls) -> list[tuple[str, str, Any, str]]:
        """Name, type, default and help of every field, for the command line."""
        return [(f.name, str(f.type), f.default, f.metadata["help"]) for f in fields(cls)]
