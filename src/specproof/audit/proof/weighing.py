"""The claims of `claims` for symbolic rows, written so that as much as possible cancels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from specproof.audit.proof.claims import Arithmetic, Drafted, Models
from specproof.audit.proof.polynomial import ZERO, Polynomial
from specproof.audit.proof.rewriting import Rewriting
from specproof.audit.proof.setting import Setting
from specproof.audit.proof.solver import Fact, Facts
from specproof.audit.proof.space import Inverse, Mass, Space
from specproof.audit.proof.symbolic import Symbol, SymbolicNumbers
from specproof.rules.spec.numbers import Number, Row


def symbolic_models(space: Space, setting: Setting) -> Models:
    """A row of its own for every context, target and draft."""

    def rows(model: str, depth: int) -> dict[tuple[int, ...], Row]:
        contexts = [context for length in range(depth) for context in setting.texts(length)]
        return {c: [Symbol(space, mass) for mass in space.row(model, c, setting.vocabulary)] for c in contexts}

    return Models(rows("target", setting.depth + 1), rows("draft", setting.depth))


def enough_tokens(space: Space, setting: Setting, models: Models) -> Facts:
    """Where siblings differ, no row is used up before the last of them is drawn."""
    facts, number, reduced = set(), SymbolicNumbers(space), Rewriting(space, frozenset())
    for context, row in models.draft.items() if setting.siblings_differ else ():
        # With one sibling there is nothing to say: a row is never empty.
        for left in combinations(row, setting.vocabulary - max(setting.siblings(len(context)), 1) + 1):
            if len(left) < len(row):
                facts.add(Fact(reduced.image(number.lift(sum(left)).value), above=True))
    return frozenset(facts)


def have_mass(space: Space, draft: Drafted) -> Facts:
    """The draft can be drawn: its tokens have mass."""
    reduced = Rewriting(space, frozenset())
    return frozenset(Fact(reduced.image(Polynomial.generator(g)), above=True) for g in _drawn_masses(space, draft))


def symbolic_arithmetic(space: Space) -> Arithmetic:
    """Numbers that are symbols of a space."""
    number = SymbolicNumbers(space)

    def is_zero(a: Number) -> bool:
        return not number.lift(a).value

    def same(row: Sequence[Number], other: Sequence[Number]) -> bool:
        return all(number.lift(a).value == number.lift(b).value for a, b in zip(row, other, strict=True))

    return Arithmetic(number, is_zero, same, Weighing(space))


class Weighing:
    """Multiplies a draft's probability with an outcome's as if every drafted token had mass.

    Where one has none, both the product and the draft's share of the law are 0; where it is not seen that the
    product is, it stands in a choice. This spares the proof a case for every token that may have no mass.
    """

    def __init__(self, space: Space) -> None:
        self._space = space
        self._number = SymbolicNumbers(space)
        self._draft: Drafted | None = None

    def __call__(self, draft: Drafted, stop: Number, mass: Number) -> Symbol:
        """Probability of the draft x stop x mass."""
        if draft is not self._draft:
            self._start(draft)
        outcome = self._assuming.image((self._number.lift(stop) * mass).value)
        result = self._cancelled(outcome * self._probability)
        for g, without in self._without.items():
            if without.image(result):
                result = self._space.choice(Polynomial.generator(g), result, ZERO)
        return Symbol(self._space, result)

    def _start(self, draft: Drafted) -> None:
        self._draft = draft
        masses = {g: Polynomial.generator(g) for g in _drawn_masses(self._space, draft)}
        facts = frozenset(Fact(mass, above=True) for mass in masses.values())
        self._assuming = Rewriting(self._space, facts, reduced=False)
        self._probability = self._assuming.image(self._number.lift(draft.probability).value)
        self._without = {
            g: Rewriting(self._space, frozenset({Fact(mass, above=False)}), reduced=False)
            for g, mass in masses.items()
        }

    def _cancelled(self, product: Polynomial) -> Polynomial:
        numerator, _, inverse = self._assuming.cleared(product)
        result = numerator * inverse
        for g in result.generators:
            what = self._space.generators[g]
            if isinstance(what, Inverse):
                for mass in self._without.keys() & what.inside.generators:
                    if what.inside == Polynomial.generator(mass):
                        result = result.cancel(mass, g)
        return result


def _drawn_masses(space: Space, draft: Drafted) -> list[int]:
    """Numbers of the masses that the drafted tokens were drawn with, which divide the draft's probability."""
    _, monomial = SymbolicNumbers(space).lift(draft.probability).value.content()
    return sorted({g for g in monomial if isinstance(space.generators[g], Mass)})
