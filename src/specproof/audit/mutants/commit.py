"""Faults of committing and stopping: texts that end too late or too early."""

from __future__ import annotations

from dataclasses import replace

from specproof.audit.mutants.case import exchanged
from specproof.audit.mutants.draw import eager_drafter, unchecked
from specproof.engine.engine import Engine
from specproof.engine.requests import Request
from specproof.stopping import commit, room


class _LastTokenStop(Engine):
    def _commit(self, request: Request, block: list[int]) -> int:
        sequence = request.sequence
        endless = replace(sequence, ends=frozenset())  # shares the tokens
        kept = commit(endless, block, self.target.context)
        sequence.finish_reason = endless.finish_reason
        if block and sequence.tokens[-1] in sequence.ends:
            sequence.finish_reason = "stop"
        return kept


def last_token_stop(engine: Engine) -> Engine:
    """Only the last token of a block is looked at for the end of the text."""
    return exchanged(engine, _LastTokenStop)


class _Uncut(Engine):
    def _commit(self, request: Request, block: list[int]) -> int:
        sequence = request.sequence
        sequence.tokens += block
        if room(sequence, self.target.context) == 0:
            sequence.finish_reason = "length"
        return len(block)


def uncut(engine: Engine) -> Engine:
    """The limit is looked at once a round, before drafting one node too many, and the block is committed whole."""
    return unchecked(exchanged(eager_drafter(engine), _Uncut))


class _Charged(Engine):
    def _commit(self, request: Request, block: list[int]) -> int:
        sequence = request.sequence
        kept = commit(sequence, block, self.target.context)
        if sequence.finish_reason is None and room(sequence, self.target.context) <= 1:
            sequence.finish_reason = "length"
        return kept


def charged_early(engine: Engine) -> Engine:
    """A text ends as soon as only the extra token of a round would fit."""
    return exchanged(engine, _Charged)
