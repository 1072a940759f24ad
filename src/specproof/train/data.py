"""Texts that the target wrote itself, on disk: shards that appear whole, and a run that goes on where it stopped.

Sample n has prompt n (over and over), and a seed of its own, so that what a shard holds does not depend on the
shards before it nor on how often the run was stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from specproof.engine.engine import Engine
from specproof.engine.loading import chat_tokens
from specproof.errors import SpecproofError
from specproof.noise import completion_seed
from specproof.train.settings import TrainSettings
from specproof.types import SamplingParams

SHARD = 64  # samples in a file
_TOGETHER = 4  # shards that are written together: while few texts of one are unfinished, others fill the batch


@dataclass(frozen=True)
class Sample:
    """One text: its tokens, how many of them are the prompt, and the seed that repeats it."""

    tokens: tuple[int, ...]
    prompt_tokens: int
    seed: int


class Data:
    """A folder of samples.

    Args:
        folder: where the shards are, made if it is not there.
        prompts: texts of the prompts.
        settings: how many samples, and how they are drawn.
        target: name of the model.

    Raises:
        SpecproofError: the folder holds samples that were made otherwise.
    """

    def __init__(self, folder: Path, prompts: Sequence[str], settings: TrainSettings, target: str) -> None:
        self.folder = folder
        self.prompts = list(prompts)
        self.settings = settings
        names = ("max_tokens", "temperature", "seed")
        made = {"target": target} | {name: getattr(settings, name) for name in names}
        made["prompts"] = hashlib.sha256("\n".join(self.prompts).encode()).hexdigest()
        folder.mkdir(parents=True, exist_ok=True)
        _same_making(folder / "making.json", made)

    def generate(self, engine: Engine, advance: Callable[[int], None] = lambda _: None) -> None:
        """Write the shards that are missing; `advance` is told of every sample that is there."""
        total = self.settings.samples
        shards = [range(first, min(first + SHARD, total)) for first in range(0, total, SHARD)]
        missing = []
        for shard in shards:
            path = self._path(shard.start)
            if path.exists() and len(_read(path)) >= len(shard):
                advance(len(shard))
            else:
                missing.append(shard)
        for start in range(0, len(missing), _TOGETHER):
            group = missing[start : start + _TOGETHER]
            samples = self._complete(engine, [number for shard in group for number in shard])
            for shard in group:
                lines = [json.dumps(asdict(sample)) + "\n" for sample in islice(samples, len(shard))]
                _write(self._path(shard.start), "".join(lines))
                advance(len(shard))

    def samples(self) -> list[Sample]:
        """All samples, in order."""
        shards = [_read(self._path(first)) for first in range(0, self.settings.samples, SHARD)]
        return [sample for shard in shards for sample in shard][: self.settings.samples]

    def _path(self, first: int) -> Path:
        return self.folder / f"samples-{first // SHARD:05d}.jsonl"

    def _complete(self, engine: Engine, wanted: Sequence[int]) -> Iterator[Sample]:
        settings = self.settings
        params = [
            SamplingParams(
                temperature=settings.temperature,
                max_tokens=settings.max_tokens,
                seed=completion_seed(settings.seed, number + 1),
            )
            for number in wanted
        ]
        prompts = [self._prompt(engine, number) for number in wanted]
        for prompt, result in zip(prompts, engine.generate(prompts, params), strict=True):
            if result.error is not None:
                raise SpecproofError(f"the target could not complete a prompt: {result.error}")
            yield Sample((*prompt, *result.tokens), len(prompt), result.seed)

    def _prompt(self, engine: Engine, number: int) -> list[int]:
        text = self.prompts[number % len(self.prompts)]
        return chat_tokens(engine.tokenizer, text)


def data_hash(samples: Sequence[Sample]) -> str:
    """A hash of the texts, independent of how they are stored."""
    digest = hashlib.sha256()
    for sample in samples:
        digest.update(json.dumps(asdict(sample)).encode())
    return digest.hexdigest()


def split(samples: Sequence[Sample], share: float, prompts: int) -> tuple[list[Sample], list[Sample]]:
    """Samples to train on, and those held out: all texts of the last of the prompts, so that no prompt is in both.

    Where all samples have one prompt, the last samples.
    """
    kinds = min(prompts, len(samples)) if prompts > 1 else len(samples)
    first = kinds - min(max(1, round(share * kinds)), kinds - 1)
    learned = [sample for number, sample in enumerate(samples) if number % kinds < first]
    return learned, [sample for number, sample in enumerate(samples) if number % kinds >= first]


def _same_making(path: Path, made: dict[str, Any]) -> None:
    if not path.exists():
        _write(path, json.dumps(made, indent=2) + "\n")
        return
    before = json.loads(path.read_text(encoding="utf-8"))
    for name, value in made.items():
        if before.get(name) != value:
            raise SpecproofError(
                f"{path.parent} holds samples made with {name} {before.get(name)!r}, and this run asks for "
                f"{value!r}: give another folder, or the same settings"
            )


def _read(path: Path) -> list[Sample]:
    samples = []
    for line in path.read_text(encoding="utf-8").splitlines():
        values = json.loads(line)
        samples.append(Sample(tuple(values["tokens"]), values["prompt_tokens"], values["seed"]))
    return samples


def _write(path: Path, text: str) -> None:
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.write_text(text, encoding="utf-8")
    scratch.replace(path)
