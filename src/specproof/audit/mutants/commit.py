"""Faults of committing and stopping: texts that end too late or too early."""

from __future__ import annotations

from specproof.audit.mutants.case import exchanged
from specproof.audit.mutants.draw import eager_drafter
from specproof.engine.engine import Engine
from specproof.stopping import commit, room
from specproof.types import TokenSequence


class _LastTokenStop(Engine):
    def _commit(self, sequence: TokenSequence, block: list[int]) -> int:
        kept = commit(sequence, block, (), self.target.context)
        if block and sequence.tokens[-1] in self.eos:
            sequence.finish_reason = "stop"
        return kept


def last_token_stop(engine: Engine) -> Engine:
    """Only the last token of a block is looked at for the end of the text."""
    return exchanged(engine, _LastTokenStop)


class _Uncut(Engine):
    def _commit(self, sequence: TokenSequence, block: list[int]) -> int:
        sequence.tokens += block
        if room(sequence, self.target.context) == 0:
            sequence.finish_reason = "length"
        return len(block)


def uncut(engine: Engine) -> Engine:
    """The limit is looked at once a round, before drafting one node too many, and the block is committed whole."""
    return exchanged(eager_drafter(engine), _Uncut)


class _Charged(Engine):
    def _commit(self, sequence: TokenSequence, block: list[int]) -> int:
        kept = commit(sequence, block, self.eos, self.target.context)
        if sequence.finish_reason is None and room(sequence, self.target.context) <= 1:
            sequence.finish_reason = "length"
        return kept


def charged_early(engine: Engine) -> Engine:
    """A text ends as soon as only the extra token of a round would fit."""
    return exchanged(engine, _Charged)
