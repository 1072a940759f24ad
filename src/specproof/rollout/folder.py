"""The folder of a run: its settings, and a Parquet file for every so many prompts, each whole or not there.

A run that was stopped, however hard, goes on with the files that are missing. What a file holds hangs on the
settings and its number alone, so nothing is lost and nothing is there twice.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from specproof.errors import SpecproofError
from specproof.rollout.files import about_parquet

_SETTINGS, _LOCK = "run.json", ".lock"


class RunFolder:
    """The folder of a run, to be used inside `opened`.

    Attributes:
        shards: how many files there will be.
    """

    def __init__(self, path: Path, shards: int) -> None:
        self.path = path
        self.shards = shards
        self._weights: str | None = None

    def missing(self) -> list[int]:
        """Numbers of the files that are not there yet."""
        return [number for number in range(self.shards) if not self._file(number).exists()]

    def add(self, number: int, content: bytes, weights: str) -> None:
        """Write a file, whole or not at all.

        Raises:
            SpecproofError: it was drawn from other weights than the files that are there.
        """
        if self._weights is None:
            others = (self._file(other) for other in range(self.shards))
            first = next((file for file in others if file.exists()), None)
            self._weights = weights if first is None else about_parquet(first).get("weights")
        if weights != self._weights:
            raise SpecproofError(
                f"{self.path} holds trajectories of other weights ({self._weights} and now {weights}), though the "
                "model's name is the same; give another --out"
            )
        write_whole(self._file(number), content)

    def _file(self, number: int) -> Path:
        return self.path / f"part-{number:05d}.parquet"


@contextmanager
def opened(path: Path, settings: Mapping[str, Any], shards: int) -> Iterator[RunFolder]:
    """The folder of a run with these settings, made if it is not there, for this process alone.

    Raises:
        SpecproofError: it holds another run, something else, or a run that is under way.
    """
    settings = json.loads(json.dumps(settings))  # as it will be read again
    with _lock_file(path) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a killed process leaves none
        except OSError as error:
            raise SpecproofError(
                f"another process writes to {path}; wait for it, or give another --out"
            ) from error
        strangers = [one.name for one in path.iterdir() if one.name != _LOCK and not one.name.startswith(".part-")]
        before = read_settings(path)
        if before is None and strangers:
            raise SpecproofError(f"{path} holds other files ({strangers[0]}); give an empty folder as --out")
        for scratch in path.glob(".part-*"):
            scratch.unlink()
        if before is None or not any(path.glob("part-*")):  # settings of nothing bind nobody
            write_whole(path / _SETTINGS, (json.dumps(settings, indent=2, ensure_ascii=False) + "\n").encode())
        elif changed := sorted(n for n in {*before, *settings} if before.get(n) != settings.get(n)):
            old, new = before.get(changed[0]), settings.get(changed[0])
            raise SpecproofError(
                f"{path} holds a run with another {changed[0]} ({old!r} there, {new!r} now); give another --out"
            )
        yield RunFolder(path, shards)


def _lock_file(path: Path) -> Any:
    try:
        path.mkdir(parents=True, exist_ok=True)
        return (path / _LOCK).open("w")
    except OSError as error:
        raise SpecproofError(f"cannot write to --out {path}: {error.strerror}; give another folder") from error


def read_settings(path: Path) -> dict[str, Any] | None:
    """Settings of the run in a folder; None if there is none."""
    try:
        found: dict[str, Any] = json.loads((path / _SETTINGS).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise SpecproofError(f"cannot read {path / _SETTINGS}: {error}; give another --out") from error
    return found


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all, whenever the process or the machine stops."""
    scratch = path.with_name(f".part-{path.name}.{os.getpid()}")
    with scratch.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    scratch.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
