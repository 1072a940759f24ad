"""Tokens to text as they come: characters split over tokens and possible stop strings are held back."""

from __future__ import annotations

from typing import Any

from specproof.types import SamplingParams, TokenSequence

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
        text = self.pending()
        if not text or text.endswith(_UNFINISHED):
            return ""
        self._start, self._given = self._given, len(self._tokens)
        return text

    def finish(self) -> str:
        """Whatever is left at the end, unfinished characters included."""
        text = self.pending()
        self._start = self._given = len(self._tokens)
        return text

    def pending(self) -> str:
        """Text of the tokens that are not settled."""
        before = self._decode(self._tokens[self._start : self._given])
        return self._decode(self._tokens[self._start :])[len(before) :]

    def _decode(self, tokens: list[int]) -> str:
        text: str = self.tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text


class StoppedText:
    """The text of one output: given out piece by piece, and cut before the stop string that ends it.

    A stop string counts where the token that completes it is number `min_tokens` or later; of several that one
    token completes, the one that begins first.

    Args:
        tokenizer: a transformers tokenizer.
        params: its stop strings and min_tokens.
    """

    def __init__(self, tokenizer: Any, params: SamplingParams) -> None:
        self._detokenizer = Detokenizer(tokenizer)
        self._params = params
        self._read = 0  # output tokens taken in
        self._searched = 0  # characters that were searched for stop strings
        self._text = ""
        self._end: int | None = None  # where a stop string begins
        self.given = ""

    def stopped(self, sequence: TokenSequence) -> bool:
        """Whether the last token completed a stop string; to be asked after every token."""
        self._take_in(sequence)
        text = self._text + self._detokenizer.pending().rstrip(_UNFINISHED)
        searched, self._searched = self._searched, max(len(text), self._searched)
        if self._read < self._params.min_tokens:
            return False
        places = [text.find(stop, max(0, searched - len(stop) + 1)) for stop in self._params.stop]
        found = [place for place in places if place >= 0]
        if found:
            self._end = min(found)
        return bool(found)

    def take(self, sequence: TokenSequence) -> str:
        """Text that is new and decided; at the end of the sequence all that is left."""
        self._take_in(sequence)
        text = self._text
        if sequence.finish_reason is not None:
            text += self._detokenizer.finish()
            self._text = text
            text = text[: self._end]
        else:
            text = text[: len(text) - self._undecided(text)]
        delta = text[len(self.given) :]
        self.given += delta
        return delta

    def _take_in(self, sequence: TokenSequence) -> None:
        new = sequence.tokens[sequence.prompt_length + self._read :]
        self._read += len(new)
        self._text += self._detokenizer.push(new)

    def _undecided(self, text: str) -> int:
        """Length of the longest ending of the text that a stop string begins with."""
        longest = max(map(len, self._params.stop), default=1) - 1
        for length in range(min(longest, len(text)), 0, -1):
            if any(stop.startswith(text[-length:]) for stop in self._params.stop):
                return length
        return 0
