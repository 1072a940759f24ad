"""The proof of a rule: search for a counterexample, then prove every claim on symbolic rows."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from time import monotonic
from typing import Any

from specproof.audit.proof.cases import Prover, RefutedError, UndecidedError
from specproof.audit.proof.claims import Drafted, drafted, text_laws
from specproof.audit.proof.freedom import Unknowns
from specproof.audit.proof.polynomial import Polynomial
from specproof.audit.proof.refute import Counterexample, confirm, search
from specproof.audit.proof.result import Outcome
from specproof.audit.proof.setting import Setting, Specification, Text
from specproof.audit.proof.solver import Facts, Point
from specproof.audit.proof.space import Mass, Space
from specproof.audit.proof.symbolic import Symbol, SymbolicNumbers
from specproof.audit.proof.weighing import enough_tokens, have_mass, symbolic_arithmetic, symbolic_models
from specproof.rules.spec.numbers import Numbers, Row, SpecLaw
from specproof.tree import Tree


def prove(setting: Setting, seconds: float = 300, first_search: bool = True) -> Outcome:
    """Prove the rule lossless for all rows of the setting, or find rows for which it is not.

    Args:
        setting: specification, vocabulary, shape and way of drawing.
        seconds: after which it gives up.
        first_search: look among small fractions before anything is proved.

    Raises:
        SpecproofError: Z3 is missing, or the specification does with numbers what no proof can follow.
    """
    deadline = monotonic() + seconds
    if first_search and (found := search(setting, deadline)):
        return Outcome("COUNTEREXAMPLE", counterexample=found)
    space = Space()
    prover = Prover(space, deadline)
    try:
        _prove_claims(setting, space, prover)
    except RefutedError as refuted:
        found = _at(setting, space, refuted.point)
        if found is None:
            return Outcome("UNKNOWN", prover.cases, reason="a counterexample of Z3 did not hold in fractions")
        return Outcome("COUNTEREXAMPLE", prover.cases, found)
    except UndecidedError as error:
        return Outcome("UNKNOWN", prover.cases, reason=str(error))
    return Outcome("PROVED", prover.cases)


def _prove_claims(setting: Setting, space: Space, prover: Prover) -> None:
    unknowns = Unknowns(space)
    if setting.freedom is not None:
        setting = replace(setting, keywords=setting.freedom(unknowns))
    divisions: dict[Text, list[Polynomial]] = {}
    setting = replace(setting, spec=_noting(setting.spec, space, divisions))
    models = symbolic_models(space, setting)
    arithmetic = symbolic_arithmetic(space)
    assumed = enough_tokens(space, setting, models)
    number = SymbolicNumbers(space)
    laws: dict[Text, Drafted] = {}
    for drafts in drafted(setting, models, arithmetic):
        for _, law, wanted in text_laws(setting, models, drafts, arithmetic):
            prover.prove(number.lift(law - wanted).value, "zero", assumed | unknowns.promises)
        laws |= {draft.tokens: draft for draft in drafts}
    for draft in laws.values():
        facts = assumed | unknowns.promises | have_mass(space, draft)
        for wrong in divisions[draft.tokens]:
            prover.prove(wrong, "zero", facts)
        _prove_law(draft, prover, number, facts)


def _noting(spec: Specification, space: Space, divisions: dict[Text, list[Polynomial]]) -> Specification:
    """The specification, its divisions being noted by the drafted tokens."""

    def noting(
        number: Numbers, target: Row, drawn: Row, tree: Tree, tokens: list[int], **keywords: Any
    ) -> SpecLaw:
        space.take_divisions()  # those of the draft's probability, which is never asked for rows without mass
        law = spec(number, target, drawn, tree, tokens, **keywords)
        divisions[tuple(tokens)] = space.take_divisions()
        return law

    return noting


def _prove_law(draft: Drafted, prover: Prover, number: SymbolicNumbers, facts: Facts) -> None:
    """The specification gives a probability law for this draft: nothing negative, sums 1."""
    stops = [number.lift(stop) for stop in draft.law.stop]
    for stop in stops:
        _prove_nonnegative(stop, prover, facts)
    prover.prove((sum(stops) - number.lift(1)).value, "zero", facts)
    for stop, row in zip(stops, draft.law.next, strict=True):
        for mass in row:
            _prove_nonnegative(stop * mass, prover, facts)
        prover.prove((stop * (sum(row) - number.lift(1))).value, "zero", facts)


def _prove_nonnegative(symbol: Symbol, prover: Prover, facts: Facts) -> None:
    """Factor by factor where that succeeds, since factors are small."""
    if _plainly_nonnegative(symbol):
        return
    if symbol.is_product:
        try:
            for factor in symbol.parts:
                _prove_nonnegative(factor, prover, facts)
        except (RefutedError, UndecidedError):
            pass  # two negative factors have a product that is not: the whole is proved below, or refuted
        else:
            return
    prover.prove(symbol.value, "nonnegative", facts)


def _plainly_nonnegative(symbol: Symbol) -> bool:
    return symbol.space.nonnegative(symbol.value) or (
        bool(symbol.parts) and all(_plainly_nonnegative(part) for part in symbol.parts)
    )


def _at(setting: Setting, space: Space, point: Point) -> Counterexample | None:
    """The counterexample at or near a point; rows that do not matter there are uniform."""
    uniform = Fraction(1, setting.vocabulary)

    def row(model: str, context: Text) -> tuple[Fraction, ...]:
        numbers = (space.number(Mass(model, context, token)) for token in range(setting.vocabulary))
        return tuple(point.get(number, uniform) for number in numbers)

    rows = {
        model: {c: row(model, c) for length in range(depth) for c in setting.texts(length)}
        for model, depth in (("target", setting.depth + 1), ("draft", setting.depth))
    }
    return confirm(setting, rows["target"], rows["draft"])
