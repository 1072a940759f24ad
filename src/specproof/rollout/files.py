"""Trajectories in files: JSONL and Parquet, read alike."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from io import BytesIO
from pathlib import Path
from typing import Any

from specproof.errors import SpecproofError
from specproof.rollout.trajectory import Trajectory


def to_parquet(trajectories: Sequence[Trajectory], about: Mapping[str, str]) -> bytes:
    """A Parquet file with a column a field, `params` as JSON text, and facts about the run as its metadata."""
    arrow = _arrow()
    schema = arrow.schema(_columns(arrow)).with_metadata(
        {f"specproof.{name}": text for name, text in about.items()}
    )
    rows = [one.as_dict() | {"params": json.dumps(one.params, ensure_ascii=False)} for one in trajectories]
    from pyarrow import parquet

    stream = BytesIO()
    parquet.write_table(arrow.Table.from_pylist(rows, schema=schema), stream, compression="zstd")
    return stream.getvalue()


def about_parquet(path: Path) -> dict[str, str]:
    """What `to_parquet` was told about the run."""
    _arrow()
    from pyarrow import parquet

    found = parquet.read_schema(path).metadata or {}
    texts = {name.decode(): text.decode() for name, text in found.items()}
    return {name.removeprefix("specproof."): text for name, text in texts.items() if name.startswith("specproof.")}


def to_jsonl(trajectories: Sequence[Trajectory]) -> str:
    """One line a trajectory."""
    return "".join(json.dumps(one.as_dict(), ensure_ascii=False) + "\n" for one in trajectories)


def read_trajectories(path: Path) -> Iterator[Trajectory]:
    """Trajectories of a JSONL or Parquet file, or of all Parquet files of a folder, in order.

    Raises:
        SpecproofError: it cannot be read, or holds something else.
    """
    if path.is_dir():
        if not (shards := sorted(path.glob("[!.]*.parquet"))):
            raise SpecproofError(f"no Parquet files in {path}; give the folder of a rollout, or a file")
        for shard in shards:
            yield from read_trajectories(shard)
        return
    try:
        if path.suffix == ".parquet":
            _arrow()
            from pyarrow import parquet

            rows = parquet.read_table(path).to_pylist()
        else:
            rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        for row in rows:
            yield Trajectory.from_dict(row)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise SpecproofError(f"cannot read trajectories of {path}: {reason}; give JSONL or Parquet") from error


def _columns(arrow: Any) -> list[tuple[str, Any]]:
    """A type for each field of `Trajectory`."""
    whole, tokens, numbers = arrow.int64(), arrow.list_(arrow.int64()), arrow.list_(arrow.float64())
    other = {
        "prompt_ids": tokens,
        "completion_ids": tokens,
        "logprobs": numbers,
        "raw_logprobs": numbers,
        "updates": arrow.list_(tokens),
        "seed": arrow.uint64(),
        "lossless": arrow.bool_(),
    }
    texts = ("finish_reason", "params", "rule", "drafter", "error")
    types = other | dict.fromkeys(texts, arrow.string())
    return [(field.name, types.get(field.name, whole)) for field in fields(Trajectory)]


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise SpecproofError("pyarrow is not installed: pip install 'specproof[rollout]'") from error
    return pyarrow
