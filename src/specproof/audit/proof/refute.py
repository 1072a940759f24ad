"""Counterexamples: searched among small fractions, and always checked in exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, islice, product
from math import gcd
from random import Random
from time import monotonic

from specproof.audit.proof.claims import (
    Arithmetic,
    DividesByZeroError,
    Drafted,
    Models,
    TextLaw,
    drafted,
    text_laws,
)
from specproof.audit.proof.setting import Setting, Text
from specproof.errors import SpecproofError
from specproof.rules.spec.numbers import EXACT

Row = tuple[Fraction, ...]
Rows = Mapping[Text, Row]

# Textbook mistakes show within a few dozen rows; what this leaves out is for the proof to find.
_SAME_EVERYWHERE, _BY_CONTEXT, _SECONDS = 400, 200, 3.0
_ROUNDINGS = (2, 3, 4, 5, 6, 8, 10, 12, 20, 30, 60, 100, 1000, 10**6)

_EXACT = Arithmetic(
    EXACT,
    lambda a: a == 0,
    lambda a, b: list(a) == list(b),
    lambda draft, stop, mass: draft.probability * stop * mass,
)


@dataclass(frozen=True)
class Counterexample:
    """Rows for which a rule is not lossless.

    Attributes:
        problem: what is wrong.
        target, draft: rows by context; `draft` is empty for point drafts.
        tokens: the draft that shows it, where a single one does.
        laws: each text with its probability as the rule commits it, and as the target gives it; empty where
            the fault is in the law of a single draft.
    """

    problem: str
    target: Rows
    draft: Rows
    tokens: Text | None = None
    laws: tuple[TextLaw, ...] = ()

    @property
    def tv(self) -> Fraction:
        """Total variation between the law of the text and the target's."""
        return sum((abs(law - wanted) for _, law, wanted in self.laws), Fraction(0)) / 2

    def __str__(self) -> str:
        lines = [*_listed("target", self.target), *_listed("draft", self.draft)]
        if self.tokens is not None:
            lines.append(f"drafted tokens {_words(self.tokens)}")
        lines.append(self.problem)
        if self.laws:
            lines.append(f"{'text':<10} {'comes out':>12} {'target':>12}")
            lines += [f"{_words(text):<10} {law!s:>12} {wanted!s:>12}" for text, law, wanted in self.laws]
            lines.append(f"total variation {self.tv}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, object]:
        """For JSON: fractions as strings."""

        def rows(model: Rows) -> list[dict[str, object]]:
            return [
                {"context": list(context), "row": [str(mass) for mass in row]} for context, row in model.items()
            ]

        laws = [{"text": list(text), "law": str(law), "target": str(wanted)} for text, law, wanted in self.laws]
        return {
            "problem": self.problem,
            "target": rows(self.target),
            "draft": rows(self.draft),
            "tokens": None if self.tokens is None else list(self.tokens),
            "laws": laws,
            "tv": str(self.tv),
        }


def check(setting: Setting, target: Rows, draft: Rows) -> Counterexample | None:
    """Whether the rule is lossless for these rows, in exact arithmetic; None if it is."""
    models = Models(target, draft)
    shown = {} if setting.drawn == "point" else draft
    try:
        for drafts in drafted(setting, models, _EXACT):
            if found := _text_fault(setting, models, drafts):
                chosen = drafts[0].tokens if setting.drawn == "point" else None
                return Counterexample(
                    "the text does not come out as the target gives it", target, shown, chosen, found
                )
            for draft_ in drafts:
                if problem := _law_fault(draft_):
                    return Counterexample(problem, target, shown, draft_.tokens)
    except DividesByZeroError as error:
        return Counterexample("the specification divides by zero", target, shown, error.tokens)
    return None


def _text_fault(setting: Setting, models: Models, drafts: list[Drafted]) -> tuple[TextLaw, ...]:
    laws = [TextLaw(t, Fraction(law), Fraction(w)) for t, law, w in text_laws(setting, models, drafts, _EXACT)]
    return tuple(laws) if any(law != wanted for _, law, wanted in laws) else ()


def search(setting: Setting, deadline: float) -> Counterexample | None:
    """A counterexample among small fractions, the smallest denominators first; None if none is found."""
    deadline = min(deadline, monotonic() + _SECONDS)
    random = Random(0)
    everywhere = islice(_pairs(setting.vocabulary), _SAME_EVERYWHERE)
    candidates = chain(
        (_everywhere(setting, target, draft) for target, draft in everywhere),
        (_by_context(setting, random) for _ in range(_BY_CONTEXT)),
    )
    for target, draft in candidates:
        if monotonic() > deadline:
            return None
        if _can_be_drawn(setting, draft) and (found := check(setting, target, draft)):
            return found
    return None


def confirm(setting: Setting, target: Rows, draft: Rows) -> Counterexample | None:
    """The counterexample near these rows that has the smallest denominators; None if there is none at all."""
    for denominator in (*_ROUNDINGS, None):
        rounded = [{c: _rounded(row, denominator) for c, row in model.items()} for model in (target, draft)]
        if _can_be_drawn(setting, rounded[1]) and (found := check(setting, *rounded)):
            return found
    return None


def _law_fault(draft: Drafted) -> str | None:
    """What is wrong with the law of a draft, if it is none."""
    law = draft.law
    for number in (*law.stop, *(mass for row in law.next for mass in row)):
        if isinstance(number, float):
            raise SpecproofError(f"the specification computes with the float {number!r}: write it as a Fraction")
    if min(law.stop) < 0 or sum(law.stop) != 1:
        return f"stopping has no law: {_words(law.stop)}"
    for stop, row in zip(law.stop, law.next, strict=True):
        if stop > 0 and (min(row) < 0 or sum(row) != 1):
            return f"the extra token has no law: {_words(row)}"
    return None


def _can_be_drawn(setting: Setting, draft: Rows) -> bool:
    """Whether rows have mass on enough tokens for all siblings, where these differ."""
    return not setting.siblings_differ or all(
        sum(mass > 0 for mass in row) >= setting.siblings(len(context)) for context, row in draft.items()
    )


def _pairs(size: int) -> Iterator[tuple[Row, Row]]:
    """Pairs of rows by the larger of their denominators; full rows before those with zeros."""
    rows: list[Row] = []
    for denominator in range(1, 13):
        new = [
            tuple(Fraction(part, denominator) for part in parts)
            for parts in product(range(denominator + 1), repeat=size)
            if sum(parts) == denominator and gcd(*parts) == 1
        ]
        new.sort(key=lambda row: row.count(Fraction(0)))
        yield from product(new, rows)
        yield from product(rows, new)
        yield from product(new, new)
        rows = new + rows


def _everywhere(setting: Setting, target: Row, draft: Row) -> tuple[Rows, Rows]:
    return _contexts(setting, setting.depth + 1, lambda: target), _contexts(setting, setting.depth, lambda: draft)


def _by_context(setting: Setting, random: Random) -> tuple[Rows, Rows]:
    def row() -> Row:
        parts = [random.choice((0, 1, 1, 2, 3)) for _ in range(setting.vocabulary)]
        parts[random.randrange(setting.vocabulary)] += 1
        return tuple(Fraction(part, sum(parts)) for part in parts)

    return _contexts(setting, setting.depth + 1, row), _contexts(setting, setting.depth, row)


def _contexts(setting: Setting, depth: int, row: Callable[[], Row]) -> dict[Text, Row]:
    return {context: row() for length in range(depth) for context in setting.texts(length)}


def _rounded(row: Row, denominator: int | None) -> Row:
    """The row in multiples of 1/denominator, the largest remainders rounded up; only normalised for None."""
    total = sum(row)
    if denominator is None:
        return tuple(mass / total for mass in row)
    scaled = [mass / total * denominator for mass in row]
    parts = [int(mass) for mass in scaled]
    for token in sorted(range(len(row)), key=lambda x: parts[x] - scaled[x])[: denominator - sum(parts)]:
        parts[token] += 1
    return tuple(Fraction(part, denominator) for part in parts)


def _listed(name: str, rows: Rows) -> list[str]:
    if len(set(rows.values())) == 1:
        return [
            f"{name:<6} {_words(next(iter(rows.values())))}" + (" after every context" if len(rows) > 1 else "")
        ]
    return [
        f"{name:<6} {_words(row)}" + (f" after {_words(context)}" if context else " at the root")
        for context, row in rows.items()
    ]


def _words(numbers: Iterable[object]) -> str:
    return " ".join(str(number) for number in numbers)
