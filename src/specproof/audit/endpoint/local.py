"""The rows that a server's texts should have been drawn from, by a copy of its model here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from torch import Tensor
from torch.nn.functional import one_hot

from specproof.audit.endpoint.wire import Answer
from specproof.audit.white.emission import UNDRAFTED, Emissions, Floats, Integers
from specproof.audit.white.forcing import Conditions, Reference, Scored, reference_for, rows_along, score
from specproof.audit.white.ledger import Ledger, measure
from specproof.audit.white.record import Places
from specproof.backends.hf import HFBackend
from specproof.drafters.ngram import NgramDrafter
from specproof.engine.engine import Engine
from specproof.engine.loading import chat_tokens, end_tokens, load_model, load_tokenizer
from specproof.errors import SpecproofError
from specproof.noise import CounterNoise
from specproof.types import SamplingParams, TokenSequence


class Local:
    """A target in this process, and perhaps a draft model.

    Args:
        model: folder or name of the target.
        draft: folder or name of a draft model with the target's tokens: bets get its rows. It need not be the
            server's own draft; the nearer it is, the more they see.
        dtype: of both.
        chat: whether prompts are messages.
        lookup: in a draft model's place what followed the text's last tokens (1 to 4) before.
    """

    def __init__(
        self,
        model: str,
        draft: str | None = None,
        dtype: str = "float32",
        *,
        chat: bool = False,
        lookup: bool = False,
    ) -> None:
        # What the bets are made of is part of the plan.
        self.described = {"model": model, "drafts": "lookup" if lookup else draft, "dtype": dtype}
        loaded = load_model(model, dtype)
        self.tokenizer = load_tokenizer(model)
        self.chat = chat
        self.ends = tuple(sorted(end_tokens(loaded, self.tokenizer)))
        self._backend = HFBackend(loaded)
        self._engine = Engine(self._backend, "none", tokenizer=self.tokenizer, eos=self.ends)
        self._reference = reference_for(self._engine.target)
        self._draft = None if draft is None else reference_for(HFBackend(load_model(draft, dtype)))
        self._lookup = NgramDrafter(longest=4, shortest=1, length=1) if lookup else None

    @property
    def drafts(self) -> bool:
        """Whether there are rows of drafts."""
        return self._draft is not None or self._lookup is not None

    def prompt(self, text: str) -> list[int]:
        """Tokens of a prompt."""
        return chat_tokens(self.tokenizer, text) if self.chat else list(self.tokenizer(text)["input_ids"])

    def start(self, prompt: Sequence[int], params: SamplingParams) -> TokenSequence:
        """A sequence before its first token."""
        request = self._engine.requests(list(prompt), params)[0]
        request.read(len(request.unread))
        return request.sequence

    def output(self, answer: Answer, params: SamplingParams) -> list[int]:
        """Tokens of an answer as numbers.

        Spellings that several tokens have end the text there: what comes after is not certain any more.

        Raises:
            SpecproofError: the server tells no tokens, or one that the model does not have.
        """
        if not answer.ids and not answer.tokens and answer.text:
            raise SpecproofError(
                "the server tells no tokens (neither logprobs nor token_ids), so --model cannot score its texts; "
                "leave --model out"
            )
        if answer.ids:
            found, certain = list(answer.ids), True
        else:
            found, certain = self._spelled(answer.tokens)
        if not all(0 <= token < self._engine.target.vocabulary for token in found):
            raise SpecproofError(f"the server's tokens {found[:8]} are not all in the vocabulary of --model")
        ended = answer.finish == "stop" and self.ends and not params.stop
        if ended and certain and not (found and found[-1] in self.ends):
            found.append(self.ends[0])
        return found

    def meant(self, token: str) -> list[int]:
        """The tokens that a text or a name can mean; none if it is not in the vocabulary."""
        return self._spelling.get(_whole(token)) or self._names.get(token) or []

    def _spelled(self, tokens: Sequence[str]) -> tuple[list[int], bool]:
        found: list[int] = []
        for token in tokens:
            meant = self.meant(token)
            if not meant:
                raise SpecproofError(
                    f"the server's token {token!r} is none of --model's; give the model that is served"
                )
            found.append(meant[0])
            if len(meant) > 1:
                return found, False
        return found, True

    @cached_property
    def _spelling(self) -> dict[str, list[int]]:
        """The tokens that a text can be."""
        found: dict[str, list[int]] = defaultdict(list)
        for token in range(self._engine.target.vocabulary):
            found[_whole(self.tokenizer.decode([token]))].append(token)
        return dict(found)

    @cached_property
    def _names(self) -> dict[str, list[int]]:
        """The tokens by their names in the tokenizer, which some servers tell instead."""
        found: dict[str, list[int]] = defaultdict(list)
        for token in range(self._engine.target.vocabulary):
            found[str(self.tokenizer.convert_ids_to_tokens(token))].append(token)
        return dict(found)

    def scored(
        self, start: TokenSequence, output: list[int], noise: Floats, margin: float, *, merged: bool
    ) -> list[Scored]:
        """An output against the model.

        Args:
            start: the sequence before its first token.
            output: its tokens.
            noise: [n] uniform numbers.
            margin: how far rounding moves a logit.
            merged: tokens of one spelling, which the server does not tell apart, count as one.
        """
        if not output:
            return []
        logits = self._reference(start.tokens + output, len(start.tokens))
        rows = {} if self._draft is None else self._draft_rows(self._draft, start, output)
        if self._lookup is not None:
            rows = self._looked_up(self._lookup, start, output)
        places = Places(np.full(len(output), UNDRAFTED), rows, len(rows))
        portions = score(start, output, logits, Conditions(places, noise, margin))
        if not merged:
            return portions
        return [portion._replace(emissions=self._merged(portion.emissions)) for portion in portions]

    def rounding(self, texts: Sequence[tuple[TokenSequence, list[int]]]) -> Ledger:
        """How far rounding moves this copy's own rows, on texts: a sequence before its first token, and output."""
        return measure(HFBackend(self._backend.model), self._reference, texts)

    def raw(self, start: TokenSequence, output: list[int]) -> Floats:
        """[n, V] the model's own law, without sampling parameters, where each token of an output stands."""
        logits = self._reference(start.tokens + output, len(start.tokens)).double()
        found: Floats = logits.softmax(-1).numpy()
        return found

    def _draft_rows(self, draft: Reference, start: TokenSequence, output: list[int]) -> dict[int, Tensor]:
        logits = draft(start.tokens + output, len(start.tokens))
        if logits.shape[1] != self._engine.target.vocabulary:
            raise SpecproofError(
                f"the draft model has {logits.shape[1]} tokens and the target {self._engine.target.vocabulary}; "
                "give one with the same tokens"
            )
        return dict(enumerate(rows_along(start, output, logits)))

    def _looked_up(self, lookup: NgramDrafter, start: TokenSequence, output: list[int]) -> dict[int, Tensor]:
        """Certain rows of what would be proposed before each token; none where nothing is."""
        found = {}
        for at in range(len(output)):
            sequence = replace(start, tokens=start.tokens + output[:at])
            tokens = lookup.draft([sequence], [1], CounterNoise()).tokens
            if tokens.shape[1]:
                found[at] = one_hot(tokens[0, 0], self._engine.target.vocabulary).double()
        return found

    @cached_property
    def _owner(self) -> Integers:
        """[V] the first token with the same spelling; ends are one."""
        owner = np.arange(self._engine.target.vocabulary)
        for same in (*self._spelling.values(), list(self.ends)):
            owner[same] = min(same, default=0)
        return owner

    def _merged(self, emissions: Emissions) -> Emissions:
        owner = self._owner
        twice = np.flatnonzero(owner != np.arange(len(owner)))
        target, draft = emissions.target.copy(), emissions.draft.copy()
        for rows in (target, draft):
            moved = rows[:, twice].copy()
            rows[:, twice] = 0
            np.add.at(rows.T, owner[twice], moved.T)
        return replace(emissions, tokens=owner[emissions.tokens], target=target, draft=draft)


def _whole(text: str) -> str:
    """A token's text; servers give bytes that make no character alone as nothing, or as this many signs of it."""
    return text.replace("\ufffd", "") if set(text) == {"\ufffd"} else text
