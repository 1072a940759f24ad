"""A run: prompts in shards, each drawn by one engine from nothing but the settings and its number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

import torch

from specproof.engine.engine import Engine
from specproof.engine.loading import load_engine
from specproof.engine.versions import versions
from specproof.engine.weights import module_of, own_state
from specproof.noise import CounterNoise
from specproof.rollout.files import to_parquet
from specproof.rollout.trajectory import params_dict
from specproof.rollout.worker import RolloutWorker, Task
from specproof.types import SamplingParams


@dataclass(frozen=True)
class Job:
    """What to draw, and with what.

    Attributes:
        prompts: tokens of each.
        params: how each token is drawn; with a seed.
        samples: of each prompt.
        size: prompts in a shard.
        model: options of `load_engine` that the trajectories depend on.
        pace: further ones, that only the speed depends on.
    """

    prompts: Sequence[Sequence[int]]
    params: SamplingParams
    samples: int
    size: int
    model: Mapping[str, Any]
    pace: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shards(self) -> int:
        """How many there are."""
        return -(-len(self.prompts) // self.size)

    def tasks(self, shard: int) -> list[Task]:
        """All samples of the prompts of a shard."""
        numbers = range(shard * self.size, min(len(self.prompts), (shard + 1) * self.size))
        return [Task(number, sample, self.prompts[number]) for number in numbers for sample in range(self.samples)]

    def settings(self) -> dict[str, Any]:
        """All that the trajectories depend on but the weights themselves, for JSON."""
        digest = blake2b(repr([list(prompt) for prompt in self.prompts]).encode(), digest_size=16).hexdigest()
        drawn = {"prompts": digest, "count": len(self.prompts), "samples": self.samples, "shard": self.size}
        return drawn | dict(self.model) | {"params": params_dict(self.params)}


class Shard(NamedTuple):
    """A shard that was drawn.

    Attributes:
        number: which.
        content: its Parquet file.
        weights: fingerprint of what it was drawn from.
        trajectories, tokens, forwards, drafted, accepted, failed: counts; failed ended with an error.
        error: of the first that failed.
        alarm: see `Engine.alarm`.
    """

    number: int
    content: bytes
    weights: str
    trajectories: int
    tokens: int
    forwards: int
    drafted: int
    accepted: int
    failed: int
    error: str | None
    alarm: str | None


class Drawer:
    """Draws shards of a job with an engine of its own."""

    def __init__(self, job: Job, engine: Engine | None = None) -> None:
        self.job = job
        # With noise of its own no draft length hangs on the clock: a shard drawn again is the same to the bit.
        self.worker = RolloutWorker(engine or load_engine(**job.model, **job.pace, noise=CounterNoise()))
        self.weights = fingerprint(self.worker.engine)

    def draw(self, number: int) -> Shard:
        """One shard. The engine is empty before and after, so what comes out hangs on no other shard."""
        drawn = self.worker.run(self.job.tasks(number), self.job.params)
        found = sorted(drawn, key=lambda one: (one.prompt, one.sample))
        errors = [one.error for one in found if one.error is not None]
        about = versions() | {"weights": self.weights, "shard": str(number)}
        return Shard(
            number=number,
            content=to_parquet(found, about),
            weights=self.weights,
            trajectories=len(found),
            tokens=sum(len(one.completion_ids) for one in found),
            forwards=sum(one.forwards for one in found),
            drafted=sum(one.drafted for one in found),
            accepted=sum(one.accepted for one in found),
            failed=len(errors),
            error=errors[0] if errors else None,
            alarm=self.worker.alarm,
        )


def drawn_here(job: Job, numbers: Sequence[int]) -> Iterator[Shard]:
    """Shards one after the other, in this process."""
    drawer = Drawer(job)
    yield from map(drawer.draw, numbers)


def fingerprint(engine: Engine) -> str:
    """Tells weights of target and drafter from those of another checkpoint, equally on every machine."""
    digest = blake2b(digest_size=8)
    for module in (module_of(engine.target), module_of(engine.drafter)):
        state = {} if module is None else own_state(module)
        for name, value in sorted(state.items()):
            # A sum of bytes, which is exact, so that the number of threads does not matter.
            total = int(value.reshape(-1).view(torch.uint8).sum(dtype=torch.int64))
            digest.update(f"{name} {value.dtype} {tuple(value.shape)} {total}\n".encode())
    return digest.hexdigest()
