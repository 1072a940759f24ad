"""What an audit of a drafter found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from specproof.audit.answer import Answer, Table, Verdict
from specproof.audit.drafter.exact import Enumerated
from specproof.audit.drafter.sampled import Sampled
from specproof.audit.white.plan import digest


@dataclass(frozen=True)
class Place:
    """A drafter on one target.

    Attributes:
        name: of the target, in words.
        exact: contexts whose drafts were enumerated.
        sampled: draws; None for drafts that are a function of the context.
        tolerance: total variation that is rounding.
    """

    name: str
    exact: tuple[Enumerated, ...]
    sampled: Sampled | None
    tolerance: float

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong, in words."""
        found = [f"{wrong} (after {each.context})" for each in self.exact if (wrong := each.wrong(self.tolerance))]
        if self.sampled is not None:
            if self.sampled.forbidden:
                found.append(f"{self.sampled.forbidden} drafted tokens have no mass in their row")
            if self.sampled.moved > max(self.tolerance, 1e-3):
                found.append(f"rows after one text change from draw to draw, by TV {self.sampled.moved:.2g}")
            found += [
                f"tokens do not follow their rows: {check.name}, p {check.pvalue:.2g} (level {check.level:.2g})"
                for check in self.sampled.convicts
            ]
        return tuple(f"{self.name}: {fault}" for fault in found)


@dataclass(frozen=True)
class DrafterResult:
    """Audit of a drafter's contract.

    Attributes:
        name: of the drafter.
        places: what it was run on.
        alpha: rate of false alarms of the sampled part.
        plan: what was fixed before.
        replay: a command that runs it again.
    """

    name: str
    places: tuple[Place, ...]
    alpha: float
    plan: dict[str, Any]
    replay: str = ""

    @property
    def faults(self) -> tuple[str, ...]:
        """Everything wrong, in words."""
        return tuple(fault for place in self.places for fault in place.faults)

    @property
    def tv(self) -> float:
        """Largest total variation between drafts and rows, of those that were enumerated."""
        return max((each.tv for place in self.places for each in place.exact if not each.open), default=0.0)

    @property
    def idle(self) -> tuple[Place, ...]:
        """Where nothing was drafted: what another place showed says nothing of it."""
        return tuple(place for place in self.places if not any(each.drafted for each in place.exact))

    @property
    def verdict(self) -> Verdict:
        """BIASED, NOT EXERCISED, EXACT, or LOSSLESS where draws could only be sampled."""
        if self.faults:
            return Verdict.BIASED
        if self.idle:
            return Verdict.NOT_EXERCISED
        every = [each for place in self.places for each in place.exact]
        # Enumerated with every token on tiny models; on a real one with a filter, and without it by sampling.
        return Verdict.LOSSLESS if any(each.open for each in every) else Verdict.EXACT

    @property
    def ok(self) -> bool:
        """Drafts are drawn from their rows."""
        return self.verdict.exit_code == 0

    @property
    def reason(self) -> str:
        """In words."""
        if self.faults:
            more = f" (and {len(self.faults) - 1} more)" if len(self.faults) > 1 else ""
            return f"not drawn from the rows that come with it: {self.faults[0]}{more}"
        every = [each for place in self.places for each in place.exact]
        drafts = sum(each.drafts for each in every)
        if self.verdict is Verdict.NOT_EXERCISED:
            where = ", ".join(f"{place.name} ({len(place.exact)} contexts)" for place in self.idle)
            return f"nothing was drafted on {where}"
        draws = sum(place.sampled.draws for place in self.places if place.sampled is not None)
        by_chance = f"; {draws} sampled drafts follow their rows too" if draws else ""
        if self.verdict is Verdict.LOSSLESS:
            return f"its draws do not come from the engine's noise; {draws} sampled drafts follow their rows"
        return (
            f"every draft has the probability that its rows give it: {drafts} drafts after {len(every)} contexts, "
            f"largest TV {self.tv:.1e}{by_chance}"
        )

    @property
    def answer(self) -> Answer:
        """The common form."""
        sampled = [place.sampled for place in self.places if place.sampled is not None]
        checks = tuple(check for each in sampled for check in each.checks)
        notes = list(self.faults)
        if not all(each.repeated for each in sampled):
            notes.append("equal seeds gave other drafts: texts cannot be repeated by their seed")
        return Answer(
            kind="drafter",
            subject=f"drafter {self.name}",
            verdict=self.verdict,
            reason=self.reason,
            alpha=self.alpha,
            plan=self.plan,
            digest=digest(self.plan),
            pvalue=min((min(1.0, check.pvalue * len(checks)) for check in checks), default=None),
            samples=sum(each.nodes for each in sampled),
            draws=sum(each.draws for each in sampled),
            tv=self.tv,
            power=max((each.power for each in sampled), default=float("inf")),
            tests=checks,
            tables=(self._table(),),
            notes=tuple(notes),
            replay=self.replay,
        )

    def _table(self) -> Table:
        rows = tuple(
            (
                place.name,
                str(each.context),
                str(each.drafts),
                str(each.drafted),
                "not enumerable" if each.open else f"{each.tv:.1e}",
                each.wrong(place.tolerance) or "as its rows say",
            )
            for place in self.places
            for each in place.exact
        )
        heads = ("target", "context", "drafts", "nodes", "TV", "drawn")
        return Table("Enumerated drafts", "Each draft's probability against what its rows say.", heads, rows)
