"""Numbers that a specification may choose: a proof takes any that keep the promise made of them.

Some rules compute a number that no polynomial gives, such as K-SEQ's slack, the root of an equation. They are
lossless for every number with a certain property; so the number enters as one more unknown, with that property.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from specproof.audit.proof.rewriting import Rewriting
from specproof.audit.proof.solver import Fact, Facts
from specproof.audit.proof.space import Context, Free, Mass, Space
from specproof.audit.proof.symbolic import Symbol, SymbolicNumbers
from specproof.rules.spec.numbers import Number, Row

Freedom = Callable[["Unknowns"], Mapping[str, Any]]


class Unknowns:
    """Makes unknown numbers, and collects what is promised of them.

    Attributes:
        number: what a specification computes with.
        promises: so far, as facts.
    """

    def __init__(self, space: Space) -> None:
        self.number = SymbolicNumbers(space)
        self.promises: Facts = frozenset()
        self._space = space

    def unknown(self, near: Row, *name: str | int) -> Symbol:
        """A number >= 0; the same for the same name and target row."""
        return Symbol(self._space, self._space.variable(Free(name, self._context(near))))

    def promise(self, number: Number, positive: bool = False) -> None:
        """The number is >= 0, or > 0; its denominators must have been promised to be positive before."""
        goal, _ = Rewriting(self._space, self.promises).goal(self.number.lift(number).value)
        self.promises |= {Fact(goal, above=True) if positive else Fact(-goal, above=False)}

    def _context(self, row: Row) -> Context:
        masses = [self._space.generators[g] for mass in row for g in self.number.lift(mass).value.generators]
        return next(mass.context for mass in masses if isinstance(mass, Mass))


def _slack(unknowns: Unknowns) -> Mapping[str, Any]:
    """K-SEQ with any valid slack (see `rules.spec.kseq`)."""
    excess_slack = import_module("specproof.rules.spec.kseq").excess_slack

    def slack(target: Row, drawn: Row, count: int) -> Symbol:
        value = unknowns.unknown(target, "slack", count)
        unknowns.promise(value, positive=True)
        unknowns.promise(value - 1)
        unknowns.promise(excess_slack(unknowns.number, target, drawn, count, value))
        return value

    return {"slack": slack}


def _selector(unknowns: Unknowns) -> Mapping[str, Any]:
    """Optimal transport's rule with any selection among the drafts (see `rules.spec.transport`)."""

    def selector(target: Row, drawn: Row, count: int) -> Callable[[tuple[int, ...]], list[Symbol]]:
        def selection(tokens: tuple[int, ...]) -> list[Symbol]:
            chances = [unknowns.unknown(target, "chance", *tokens, -1, place) for place in range(len(tokens))]
            unknowns.promise(1 - sum(chances))
            return chances

        return selection

    return {"selector": selector}


# By the name in RULES.
FREEDOM: Mapping[str, Freedom] = {"kseq": _slack, "transport": _selector}
