"""Rollouts of any engine, from JSON, JSON lines or Parquet; the names are those of specproof's own trajectories.

Needed are `prompt_ids` and `completion_ids`. What else a file has is used, what it lacks is not guessed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from specproof.errors import SpecproofError

# Reasons to end, as engines call them.
STOPPED = ("stop", "eos", "eos_token", "end_of_text")
CUT = ("length", "max_tokens", "max_length")
BROKEN = ("error", "cancelled", "abort", "aborted")


@dataclass(frozen=True)
class Rollout:
    """One text.

    Attributes:
        prompt, sample: which prompt, and which of its texts; they fix the order in which texts are bet on.
        prompt_ids, completion_ids: tokens; the completion ends with its end token, if one ended it.
        finish_reason: one of STOPPED, CUT or BROKEN; None if the file does not say.
        logprobs, raw_logprobs: as the engine reports them, one a token; the latter before filters and penalties.
        target_version: of the policy that wrote it.
        params: sampling parameters as given.
        rule, drafter: by name; drafted, accepted: tokens; lossless: the rule. As far as the file says.
        updates: where the policy got new weights on the way: tokens before them, and their version.
    """

    prompt: int
    sample: int
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    finish_reason: str | None = None
    logprobs: tuple[float, ...] | None = None
    raw_logprobs: tuple[float, ...] | None = None
    target_version: int | None = None
    params: Mapping[str, Any] | None = None
    rule: str | None = None
    drafter: str | None = None
    drafted: int | None = None
    accepted: int | None = None
    lossless: bool | None = None
    updates: tuple[tuple[int, int], ...] = ()


NAMES = tuple(field.name for field in fields(Rollout))
# Of specproof's own files; nothing in them bears on the law.
_KNOWN = (*NAMES, "seed", "drafter_version", "forwards", "error")


@dataclass(frozen=True)
class Rollouts:
    """A file of them.

    Attributes:
        texts: by prompt and sample.
        unread: columns that the audit does not know.
    """

    texts: tuple[Rollout, ...]
    unread: tuple[str, ...] = ()


def read_rollouts(path: str | Path) -> Rollouts:
    """All texts of a file, or of all Parquet files of a folder, as `specproof rollout` writes it.

    Raises:
        SpecproofError: it cannot be read, or a text lacks tokens or has a field that is none.
    """
    place = Path(path)
    files = sorted(place.glob("[!.]*.parquet")) if place.is_dir() else [place]
    try:
        rows = [row for file in files for row in (_parquet(file) if file.suffix == ".parquet" else _json(file))]
    except OSError as error:
        raise SpecproofError(f"cannot read {path}: {error.strerror or error}; name a file of rollouts") from None
    return rollouts_of(rows, str(path))


def rollouts_of(rows: Iterable[Mapping[str, Any]], name: str = "rollouts") -> Rollouts:
    """Texts from dictionaries; see `read_rollouts`."""
    texts: list[Rollout] = []
    unread: dict[str, None] = {}
    for number, row in enumerate(rows):
        where = f"{name}, text {number + 1}"
        if not isinstance(row, Mapping):
            raise SpecproofError(f"{where} is no object with named fields; write one a line")
        unread |= dict.fromkeys(key for key in row if key not in _KNOWN)
        texts.append(_text(row, number, where))
    if not texts:
        raise SpecproofError(f"{name} holds no rollouts; give a file with at least one")
    return Rollouts(tuple(sorted(texts, key=lambda text: (text.prompt, text.sample))), tuple(unread))


def _json(path: Path) -> list[Any]:
    text = path.read_text(encoding="utf-8")
    try:
        if text.lstrip().startswith("["):
            return list(json.loads(text))
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except ValueError as error:
        raise SpecproofError(f"{path} is no JSON ({error}); give one object a line, a list, or .parquet") from None


def _parquet(path: Path) -> list[Any]:
    if find_spec("pyarrow") is None:
        raise SpecproofError("pyarrow not installed: pip install 'specproof[rollout]'")
    import pyarrow
    from pyarrow import parquet

    try:
        return list(parquet.read_table(path).to_pylist())
    except pyarrow.ArrowInvalid as error:
        raise SpecproofError(f"{path} is no Parquet file ({str(error).splitlines()[0]}); give one") from None


def _text(row: Mapping[str, Any], number: int, where: str) -> Rollout:
    given = {key: row[key] for key in NAMES if row.get(key) is not None}
    for key in ("prompt_ids", "completion_ids"):
        if key not in given:
            raise SpecproofError(f"{where} has no {key}; give the tokens of prompt and completion as numbers")
        given[key] = _numbers(given[key], int, f"{where}: {key}")
    for key in ("logprobs", "raw_logprobs"):
        if key in given:
            given[key] = _numbers(given[key], float, f"{where}: {key}")
            if len(given[key]) != len(given["completion_ids"]):
                raise SpecproofError(
                    f"{where}: {len(given[key])} {key} for {len(given['completion_ids'])} tokens; give one a token"
                )
    given["updates"] = tuple((int(place), int(version)) for place, version in given.get("updates", ()))
    if isinstance(given.get("params"), str):
        given["params"] = _params(given["params"], where)
    reason = given.get("finish_reason")
    if reason is not None and reason not in (*STOPPED, *CUT, *BROKEN):
        raise SpecproofError(
            f"{where}: finish_reason {reason!r} is not known; give stop (an end token or a stop string), length, "
            "or error"
        )
    return Rollout(**{"prompt": number, "sample": 0} | given)


def _params(text: str, where: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise SpecproofError(f"{where}: params {text[:40]!r} is no JSON object, as in '{{\"temperature\": 0.7}}'")
    return found


def _numbers(values: Any, kind: type, what: str) -> tuple[Any, ...]:
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise SpecproofError(f"{what} is {type(values).__name__}; give a list of numbers")
    for value in values:
        sound = isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)
        if not sound or (kind is int and value != int(value)):
            raise SpecproofError(f"{what} holds {value!r}; give a list of {'whole ' * (kind is int)}numbers")
    return tuple(kind(value) for value in values)
