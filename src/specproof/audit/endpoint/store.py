"""Every answer on disk as it arrives: an audit that was stopped goes on, one that ended can be judged again."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specproof.audit.endpoint.wire import Answer
from specproof.errors import SpecproofError

_TABLES = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS answers (
    arm TEXT NOT NULL, number INTEGER NOT NULL, prompt INTEGER NOT NULL, seed INTEGER, answer TEXT NOT NULL,
    PRIMARY KEY (arm, number));
CREATE TABLE IF NOT EXISTS counters (arm TEXT NOT NULL, drafted INTEGER NOT NULL, accepted INTEGER NOT NULL);
"""


class Store:
    """A file of SQLite with the plan, the answers, and what the server's counters said.

    Args:
        path: of the file; made if it is not there.

    Attributes:
        size: answers that are kept.

    Raises:
        SpecproofError: it cannot be opened, or is something else.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = sqlite3.connect(path)
            # Every answer is committed by itself; written to the journal, it outlives this process.
            # And no second audit may write between.
            self._file.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute("PRAGMA synchronous=NORMAL")
            self._file.executescript(_TABLES)
            self.size: int = self._file.execute("SELECT count(*) FROM answers").fetchone()[0]
        except sqlite3.Error as error:
            raise SpecproofError(
                f"--samples {path}: {error}; name a file in an existing folder that no other audit writes to"
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def recall(self, name: str) -> Any:
        """What was noted under a name; None if nothing was."""
        found = self._file.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return None if found is None else json.loads(found[0])

    def note(self, name: str, value: Any) -> None:
        """Note something under a name, once and for all.

        Raises:
            SpecproofError: something else was noted there.
        """
        known = self.recall(name)
        text = json.dumps(value, sort_keys=True, default=str)
        if known is None:
            with self._file:
                self._file.execute("INSERT INTO about VALUES (?, ?)", (name, text))
        elif json.dumps(known, sort_keys=True) != text:
            raise SpecproofError(
                f"{self.path} holds another audit ({name} {json.dumps(known)[:60]}, here {text[:60]}): "
                "give its flags again, or another --samples"
            )

    def add(self, arm: str, number: int, prompt: int, seed: int | None, answer: Answer) -> None:
        """Keep an answer; a number is taken once."""
        with self._file:
            self._file.execute(
                "INSERT INTO answers VALUES (?, ?, ?, ?, ?)", (arm, number, prompt, seed, answer.dumped())
            )
        self.size += 1

    def has(self, arm: str) -> set[int]:
        """Numbers that an arm has."""
        return {number for (number,) in self._file.execute("SELECT number FROM answers WHERE arm = ?", (arm,))}

    def answers(self, arm: str, first: int, after: int) -> Iterator[tuple[int, Answer]]:
        """Prompt and answer of the numbers from `first` up to `after`, in order."""
        rows = self._file.execute(
            "SELECT prompt, answer FROM answers WHERE arm = ? AND number >= ? AND number < ? ORDER BY number",
            (arm, first, after),
        )
        for prompt, text in rows:
            yield prompt, Answer.loaded(text)

    def count(self, arm: str, drafted: int, accepted: int) -> None:
        """Note by how much the server's counters rose while an arm was asked for."""
        with self._file:
            self._file.execute("INSERT INTO counters VALUES (?, ?, ?)", (arm, drafted, accepted))

    def counted(self, arm: str) -> tuple[int, int] | None:
        """By how much they rose in all; None if they were never seen."""
        query = "SELECT count(*), sum(drafted), sum(accepted) FROM counters WHERE arm = ?"
        number, drafted, accepted = self._file.execute(query, (arm,)).fetchone()
        return (drafted, accepted) if number else None
