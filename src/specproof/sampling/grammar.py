"""Structured output: the text is one of a regular expression, a JSON schema or a grammar.

What may follow a text is llguidance's knowledge; here it is asked for every row of a tree. A row's mask is that
of the grammar's state after the output and the drafted path before the row, whatever became of other drafts.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specproof.errors import SpecproofError
from specproof.params import Structure
from specproof.types import Contexts

Mask = NDArray[np.bool_]

# A matcher that stopped for one of these has seen a whole text; any other reason is a limit or a fault of its own.
_COMPLETE = ("NoExtension", "NoExtensionBias", "EndOfSentence")


class Grammar:
    """Forbids every token after which the output could not become a text of the grammar any more.

    End tokens are no text: they are allowed where the output is a text of the grammar, and nowhere else. Other
    special tokens are never allowed. Rows that no output can reach, since a token before them is forbidden,
    are left as they are. A row after which nothing can come is forbidden altogether, and `fault` says why.
    """

    def __init__(self, kind: Structure, start: Any, text: Mask, ends: Collection[int]) -> None:
        self.kind = kind
        self.fault = ""
        self._start = start  # never moved, so that the matcher can be made anew
        self._text = text
        self._ends = sorted(ends)
        self._matcher = start.deep_copy()
        # What the matcher has consumed. It is a memory, no more: masks depend on the rows' texts alone.
        self._output: list[int] = []
        self._path: list[int] = []

    def __call__(self, logits: Tensor, contexts: Contexts) -> Tensor:
        """See `types.Processor`."""
        rows, vocabulary = logits.shape
        self.fault = ""
        if self._follow(contexts.sequence.output):
            allowed = np.ones((rows, vocabulary), dtype=np.bool_)
            paths = [contexts.path(row) for row in range(rows)]
            # In the order of their texts the rows are met depth first.
            for row in sorted(range(rows), key=paths.__getitem__):
                if self._walk(paths[row]):
                    allowed[row] = self._allowed(vocabulary)
            self._walk([])
        else:
            self.fault = f"the output is no beginning of a text of the {self.kind}"
            allowed = np.zeros((rows, vocabulary), dtype=np.bool_)
        return logits.masked_fill_(torch.from_numpy(~allowed).to(logits.device), -torch.inf)

    def _follow(self, output: list[int]) -> bool:
        """Bring the matcher to the committed output; False if the grammar has no such text."""
        if output[: len(self._output)] != self._output:
            self._output = []
            self._renew()
        self._output += self._consume(output[len(self._output) :])
        return len(self._output) == len(output)

    def _walk(self, path: list[int]) -> bool:
        """Bring the matcher to this path below the output; False where a token of it is forbidden."""
        common = 0
        while common < min(len(path), len(self._path)) and path[common] == self._path[common]:
            common += 1
        if common < len(self._path):
            self._matcher.rollback(len(self._path) - common)
            del self._path[common:]
        self._path += self._consume(path[common:])
        return len(self._path) == len(path)

    def _consume(self, tokens: list[int]) -> list[int]:
        """Consume tokens up to the first that is forbidden; returns those consumed."""
        for number, token in enumerate(tokens):
            # The matcher takes no end token, so it is never asked what comes after one.
            known = 0 <= token < len(self._text) and self._text[token]
            if not known or not self._matcher.try_consume_tokens([token]):
                return tokens[:number]
        return tokens

    def _allowed(self, vocabulary: int) -> Mask:
        """The mask [V] of the matcher's state."""
        allowed = np.zeros(vocabulary, dtype=np.bool_)
        matcher = self._matcher
        complete = bool(matcher.is_stopped())
        if not complete:
            bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
            text = np.unpackbits(bits, bitorder="little")[: len(self._text)].astype(np.bool_) & self._text
            shared = min(vocabulary, len(text))
            allowed[:shared] = text[:shared]
        if matcher.is_error() or (complete and matcher.stop_reason() not in _COMPLETE):
            # It met a limit, or a place where no token fits, and will not leave it again.
            self.fault = f"{self.kind}: {_one_line(matcher.get_error()) or matcher.stop_reason()}"
            self._renew()
            return np.zeros(vocabulary, dtype=np.bool_)
        if matcher.is_accepting():
            allowed[[end for end in self._ends if end < vocabulary]] = True
        if not allowed.any():
            self.fault = f"no token continues a text of the {self.kind}"
        return allowed

    def _renew(self) -> None:
        self._matcher = self._start.deep_copy()
        self._matcher.consume_tokens(self._output + self._path)


def compile_grammar(
    kind: Structure, definition: str | Mapping[str, Any], tokenizer: Any, ends: Collection[int]
) -> Grammar:
    """The processor of one sequence.

    Args:
        kind: what `definition` is: a JSON schema (as text or as a mapping), a regular expression that the
            whole output matches, or a grammar in Lark's notation.
        definition: its text.
        tokenizer: a fast tokenizer of transformers.
        ends: tokens that end the text.

    Raises:
        SpecproofError: a definition that llguidance does not take, no end token, or no (fast) tokenizer.
    """
    if not ends:
        raise SpecproofError(
            f"{kind} needs a token that ends the text: leave out ignore_eos, or give stop_token_ids"
        )
    if tokenizer is None:
        raise SpecproofError(f"{kind} needs a tokenizer; give the engine one")
    known, special = _tokens(tokenizer)
    text = np.ones(known.vocab_size, dtype=np.bool_)
    text[[token for token in (*special, *ends) if token < len(text)]] = False
    if not isinstance(definition, str):
        definition = json.dumps(definition)
    return Grammar(kind, _matcher(kind, definition, tokenizer), text, ends)


@lru_cache(maxsize=4)
def _tokens(tokenizer: Any) -> tuple[Any, tuple[int, ...]]:
    """The tokenizer in llguidance's form, which takes a second to make, and its special tokens."""
    try:
        from llguidance.hf import from_tokenizer
    except ImportError as error:
        raise SpecproofError(
            "json_schema, regex and grammar need llguidance: pip install 'specproof[grammar]'"
        ) from error
    if tokenizer.eos_token_id is None:
        # llguidance would take token 0 for the end of text.
        raise SpecproofError("json_schema, regex and grammar need a tokenizer with an eos_token; set one")
    try:
        known = from_tokenizer(tokenizer)
    except ValueError as error:
        raise SpecproofError(f"llguidance does not take this tokenizer: {_one_line(str(error))}") from error
    return known, tuple(token for token in range(known.vocab_size) if known.is_special_token(token))


@lru_cache(maxsize=32)
def _matcher(kind: Structure, definition: str, tokenizer: Any) -> Any:
    """A matcher at the start of the text; copied for each sequence."""
    from llguidance import LLMatcher

    known, _ = _tokens(tokenizer)
    fault = ""
    try:
        matcher = LLMatcher(known, _lark(kind, definition), log_level=0)
        fault = matcher.get_error()
    except ValueError as error:
        fault = str(error)
    if fault:
        shown = definition if len(definition) <= 60 else definition[:57] + "..."
        raise SpecproofError(f"{kind}={shown!r} is not allowed: {_one_line(fault)}")
    return matcher


def _lark(kind: Structure, definition: str) -> str:
    """The definition in Lark's notation, which can say that a text may be spelled with any tokens.

    Without that, where only one text can follow, llguidance allows its usual spelling alone.
    """
    if kind == "json_schema":
        definition = "start: %json " + json.dumps(json.loads(definition))
    elif kind == "regex":
        from llguidance import regex_to_lark

        definition = f"start: /{regex_to_lark(definition)}/"
    return definition + '\n%llguidance {"no_forcing": true}\n'


def _one_line(message: str) -> str:
    """The message of llguidance without its drawing of the place and its dump of the state."""
    lines = message.split("<state>")[0].splitlines()
    said = [line.strip() for line in lines if line.strip(" ^") and "|" not in line[:8]]
    return " ".join(dict.fromkeys(said))
