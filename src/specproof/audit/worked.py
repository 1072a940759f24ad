"""One verification of one drafted token, worked exactly for a pair of rows, and what classical mistakes give.

No formula of the rule is retyped: its specification runs on fractions, once for each token that can be
drafted. Every mistake is the same sum with a single ingredient exchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from specproof.audit.given import Row, pair, total_variation
from specproof.errors import SpecproofError
from specproof.rules.spec.numbers import EXACT, SpecLaw, excess, normalised
from specproof.rules.spec.rejection import rejection
from specproof.tree import Tree

Maybe = tuple[Fraction | None, ...]


@dataclass(frozen=True)
class Mistake:
    """The law that comes out when one ingredient is wrong and the rest is right.

    Attributes:
        name: "resample_target" (redraw from the whole target row), "absolute_difference" (redraw from
            |target - draft| normalised) or "temperature" (tokens drawn at 0.5, rule told the untempered row).
        reject: probability of a rejection.
        law: of the token that comes out.
        tv: total variation between that law and the target.
    """

    name: str
    reject: Fraction
    law: Row
    tv: Fraction

    @property
    def ok(self) -> bool:
        """Harmless for these rows, though not in general."""
        return self.tv == 0


@dataclass(frozen=True)
class WorkedExample:
    """Everything that happens to one drafted token, in exact fractions; a tuple has an entry a token.

    Attributes:
        names, target, draft: the input.
        ratio, accept: target / draft, and the chance that a drafted token is kept; None where the draft has
            no mass, so that the token is never drafted.
        minimum: min(target, draft).
        excess: (target - draft)⁺, not normalised; sums to `z`.
        residual: the row that a token is drawn from after a rejection; None if there never is one.
        accepted: probability that the token is drafted and accepted.
        redrawn: probability that whatever was drafted is rejected, and this token drawn instead.
        reject: probability of a rejection.
        mistakes: the classical ones.
    """

    names: tuple[str, ...]
    target: Row
    draft: Row
    ratio: Maybe
    accept: Maybe
    minimum: Row
    excess: Row
    residual: Row | None
    accepted: Row
    redrawn: Row
    reject: Fraction
    mistakes: tuple[Mistake, ...]

    @property
    def z(self) -> Fraction:
        """What the residual is divided by: the sum of `excess`."""
        return sum(self.excess, Fraction(0))

    @property
    def tv(self) -> Fraction:
        """Total variation between target and draft."""
        return total_variation(self.target, self.draft)

    @property
    def recovered(self) -> Row:
        """The law of the token that comes out."""
        return _plus(self.accepted, self.redrawn)

    @property
    def ok(self) -> bool:
        """The recovered law is the target, and the chance of a rejection is Z and the total variation."""
        return self.recovered == self.target and self.reject == self.z == self.tv

    def __str__(self) -> str:
        verdict = "EXACT" if self.ok else "NOT LOSSLESS"
        wrong = ", ".join(f"{mistake.name} {mistake.tv}" for mistake in self.mistakes)
        return (
            f"{verdict}: P(reject) {self.reject}, Z {self.z}, TV(target, draft) {self.tv}; TV of mistakes: {wrong}"
        )


def worked_example(
    target: Sequence[Fraction], draft: Sequence[Fraction], names: Sequence[str] | None = None
) -> WorkedExample:
    """Work the rows through; without `names` tokens are called by their number.

    Raises:
        SpecproofError: a row that is no distribution, rows of different lengths, or names that do not fit.
    """
    target, draft = pair(target, draft)
    # The row after an accepted token does not enter: the one-token law ends there.
    rows = [list(target), list(target)], [list(draft)]
    laws = [
        rejection(EXACT, *rows, Tree.chain(1), [token]) if mass > 0 else None for token, mass in enumerate(draft)
    ]
    accepted, redrawn = _outcome(draft, laws)
    reject = sum(redrawn, Fraction(0))
    after = next(law.next[0] for law in laws if law is not None)
    return WorkedExample(
        names=_names(names, len(target)),
        target=target,
        draft=draft,
        ratio=tuple(p / q if q > 0 else None for p, q in zip(target, draft, strict=True)),
        accept=tuple(None if law is None else Fraction(law.stop[1]) for law in laws),
        minimum=tuple(EXACT.minimum(p, q) for p, q in zip(target, draft, strict=True)),
        excess=tuple(Fraction(mass) for mass in excess(EXACT, list(target), list(draft))),
        residual=tuple(after) if reject > 0 else None,
        accepted=accepted,
        redrawn=redrawn,
        reject=reject,
        mistakes=_mistakes(target, draft, laws),
    )


def _outcome(drawn: Row, laws: Sequence[SpecLaw | None], redraw: Row | None = None) -> tuple[Row, Row]:
    """Joint probabilities of each token: drafted and accepted, rejected and redrawn.

    Tokens are drawn from `drawn`; `laws` is what the rule does with each of them, None for those never drawn.
    After a rejection the next token follows the law's own residual, or `redraw`.
    """
    zero = Fraction(0)
    accepted = tuple(zero if law is None else q * law.stop[1] for q, law in zip(drawn, laws, strict=True))
    redrawn = (zero,) * len(drawn)
    for q, law in zip(drawn, laws, strict=True):
        if law is not None:
            again = law.next[0] if redraw is None else redraw
            redrawn = _plus(redrawn, tuple(q * law.stop[0] * mass for mass in again))
    return accepted, redrawn


def _mistakes(target: Row, draft: Row, laws: Sequence[SpecLaw | None]) -> tuple[Mistake, ...]:
    """The sum of `_outcome` with the wrong row redrawn from, twice, and with tokens from a row nobody told."""

    def mistake(name: str, drawn: Row, redraw: Row | None) -> Mistake:
        accepted, redrawn = _outcome(drawn, laws, redraw)
        law = _plus(accepted, redrawn)
        return Mistake(name, sum(redrawn, Fraction(0)), law, total_variation(law, target))

    difference = [abs(p - q) for p, q in zip(target, draft, strict=True)]
    # Temperature 1/2 squares every probability, so the law stays rational.
    sharpened = normalised(EXACT, [q * q for q in draft], list(draft))
    return (
        mistake("resample_target", draft, target),
        mistake("absolute_difference", draft, tuple(normalised(EXACT, difference, list(target)))),
        mistake("temperature", tuple(sharpened), None),
    )


def _names(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"token {number}" for number in range(count))
    if len(names) != count:
        raise SpecproofError(f"{len(names)} names for {count} tokens: give {count}, with commas between")
    for name in names:
        if not name or not name.isprintable():
            raise SpecproofError(f"token name {name!r} cannot be shown: give printable characters")
        if names.count(name) > 1:
            raise SpecproofError(f"two tokens are named {name!r}: give each its own name")
    return tuple(names)


def _plus(row: Row, other: Row) -> Row:
    return tuple(a + b for a, b in zip(row, other, strict=True))
