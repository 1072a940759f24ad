"""What a bench writes about: six kinds of prompts that were written for this project, or a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from specproof.errors import SpecproofError

KINDS = ("chat", "summarise", "extract", "code", "story", "reasoning")
# Kind of a prompt that comes without one.
PLAIN = "prompts"


class Prompt(NamedTuple):
    """A user message, and what kind of answer it asks for."""

    kind: str
    text: str


def built_in_prompts() -> list[Prompt]:
    """Some of each of KINDS, in this order."""
    text = files("specproof.bench").joinpath("prompts.jsonl").read_text(encoding="utf-8")
    return parse_prompts(text, "the built-in prompts")


def read_prompts(path: Path) -> list[Prompt]:
    """Prompts of a file: JSON lines {"kind": …, "prompt": …}, or plain lines, which are all of one kind.

    Raises:
        SpecproofError: no such file, or a line that is neither.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecproofError(f"cannot read --prompts {path} ({error}); name a text file") from error
    return parse_prompts(text, str(path))


def parse_prompts(text: str, source: str) -> list[Prompt]:
    """Prompts of a text, one a line; empty lines are left out. `source` is named in errors."""
    found = [
        _prompt(line, f"{source}, line {number}")
        for number, line in enumerate(text.split("\n"), start=1)
        if line.strip()
    ]
    if not found:
        raise SpecproofError(f"{source} has no prompts; give at least one line")
    return found


def first_of_each(prompts: Sequence[Prompt], most: int) -> list[Prompt]:
    """The first `most` prompts of every kind."""
    kept: list[Prompt] = []
    for prompt in prompts:
        if sum(other.kind == prompt.kind for other in kept) < most:
            kept.append(prompt)
    return kept


def _prompt(line: str, place: str) -> Prompt:
    if not line.lstrip().startswith("{"):
        return Prompt(PLAIN, line.strip())
    try:
        values: Any = json.loads(line)
    except ValueError as error:
        raise SpecproofError(f"{place} is no JSON ({error}); {_SHAPE}") from error
    if "prompt" not in values or not set(values) <= {"kind", "prompt"}:
        raise SpecproofError(f"{place} has the keys {sorted(values)}; {_SHAPE}")
    kind, text = values.get("kind", PLAIN), values["prompt"]
    if not isinstance(kind, str) or not isinstance(text, str) or not kind.strip() or not text.strip():
        raise SpecproofError(f"{place} has an empty value or one that is no text; {_SHAPE}")
    return Prompt(kind, text)


_SHAPE = 'give {"kind": "chat", "prompt": "…"} or plain text on each line'
