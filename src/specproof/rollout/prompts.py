"""Prompts of a JSONL file: texts, conversations or tokens, one a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from specproof.errors import SpecproofError

_FORMS = '"text", {"prompt": "text"}, {"prompt": [tokens]}, {"messages": […]} or {"prompt": [messages]}'


def read_prompts(path: Path, tokenizer: Any) -> list[list[int]]:
    """Tokens of each prompt; a text is taken as it is, a conversation in the model's chat format.

    Other fields of a line, such as answers to compare with, are left alone.

    Raises:
        SpecproofError: the file cannot be read, or a line is no prompt.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecproofError(f"cannot read --prompts {path}: {error}; name a JSONL file") from error
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append(_tokens(json.loads(line), tokenizer))
            except ValueError as error:  # of JSON too
                raise SpecproofError(f"{path}, line {number}: {error}") from error
    if not found:
        raise SpecproofError(f"{path} has no prompts; give one a line: {_FORMS}")
    return found


def _tokens(value: Any, tokenizer: Any) -> list[int]:
    from specproof.engine.loading import messages_tokens

    content = value
    if isinstance(value, dict):
        given = [name for name in ("prompt", "messages") if name in value]
        if len(given) != 1:
            raise SpecproofError(f"{len(given)} of the fields prompt and messages; give one: {_FORMS}")
        content = value[given[0]]
    if isinstance(content, str) and content:
        return list(tokenizer(content)["input_ids"])
    if isinstance(content, list) and content:
        if all(isinstance(one, int) and not isinstance(one, bool) for one in content):
            return content
        if all(isinstance(one, dict) and {"role", "content"} <= set(one) for one in content):
            return messages_tokens(tokenizer, content)
    raise SpecproofError(f"this is no prompt; give {_FORMS}")
