"""Tokens to text as they come: a character split over tokens is held back until it is whole."""

from __future__ import annotations

from typing import Any

# What a tokenizer decodes an unfinished UTF-8 sequence to.
_UNFINISHED = "\ufffd"


class Detokenizer:
    """Turns the growing output of one sequence into pieces of text whose concatenation is the whole.

    Knows nothing of stop strings; end-of-text and other special tokens decode to nothing.

    Args:
        tokenizer: a transformers tokenizer.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._tokens: list[int] = []
        self._start = 0  # decoding starts here: a few tokens back, so that leading spaces come out right
        self._given = 0  # tokens whose text was given out

    def push(self, tokens: list[int]) -> str:
        """Text that is settled by these further tokens; empty while a character is unfinished."""
        self._tokens += tokens
        text = self._pending()
        if not text or text.endswith(_UNFINISHED):
            return ""
        self._start, self._given = self._given, len(self._tokens)
        return text

    def finish(self) -> str:
        """Whatever is left at the end, unfinished characters included."""
        text = self._pending()
        self._start = self._given = len(self._tokens)
        return text

    def _pending(self) -> str:
        before = self._decode(self._tokens[self._start : self._given])
        return self._decode(self._tokens[self._start :])[len(before) :]

    def _decode(self, tokens: list[int]) -> str:
        text: str = self.tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text
