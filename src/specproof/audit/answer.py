"""The answer of a statistical audit, whatever was audited: a verdict, its error rates, and what was fixed before.

Audits keep results of their own; `Answer` is the common form in which all of them are printed, written as JSON
(`document`) and drawn as a page (`cli.answer_page`). It holds plain numbers and texts only.
"""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass, field
from enum import Enum
from importlib import metadata
from typing import Any, NamedTuple

from specproof.errors import SpecproofError


class Verdict(Enum):
    """What may be said of an engine."""

    EXACT = "EXACT"
    LOSSLESS = "LOSSLESS"
    WITHIN_NUMERICS = "LOSSLESS WITHIN NUMERICS"
    BIASED = "BIASED"
    NO_BASELINE = "BASELINE NOT REPRODUCIBLE"
    NOT_EXERCISED = "NOT EXERCISED"
    INCONCLUSIVE = "INCONCLUSIVE"

    @property
    def exit_code(self) -> int:
        """0 lossless, 1 biased, 3 no answer; 2 is wrong use of the command."""
        if self in (Verdict.EXACT, Verdict.LOSSLESS, Verdict.WITHIN_NUMERICS):
            return 0
        return 1 if self is Verdict.BIASED else 3


class Judged:
    """What has a verdict, in a word and as the exit code of a command."""

    verdict: Verdict

    @property
    def ok(self) -> bool:
        """Exact, lossless, or lossless within numerics."""
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        """0 lossless, 1 biased, 3 no answer."""
        return self.verdict.exit_code


class Track(NamedTuple):
    """Capital of some bets as tokens came in.

    Attributes:
        name: of the arm, or "all".
        at: numbers of tokens, increasing.
        log_e: natural logarithm of the capital after so many; infinite once a token had probability 0.
    """

    name: str
    at: tuple[int, ...]
    log_e: tuple[float, ...]


class Bars(NamedTuple):
    """What came out after one prefix that was repeated, against the law that it should have.

    Attributes:
        title: the prefix, or its number.
        names: of tokens or of cells, likeliest first.
        target, observed: probabilities and shares, in this order.
        samples: draws.
    """

    title: str
    names: tuple[str, ...]
    target: tuple[float, ...]
    observed: tuple[float, ...]
    samples: int


class Check(NamedTuple):
    """One test of those that share the rate of false alarms.

    Attributes:
        name: of the test.
        pvalue: of this test alone.
        level: it convicts at this p-value or below; levels of all tests sum to alpha at most.
        samples: what it looked at.
    """

    name: str
    pvalue: float
    level: float
    samples: int


class Family(NamedTuple):
    """A known fault, and how small a one of its kind would have been caught.

    Attributes:
        fault: in words.
        tv: mean total variation a token, at full size, where this audit looked.
        needed: tokens after which it is caught with 95 % power; infinite if no test sees it.
        detectable: mean total variation of the smallest one that this audit would have caught with 95 % power.
        by: the test that sees it first.
    """

    fault: str
    tv: float
    needed: float
    detectable: float
    by: str


class Table(NamedTuple):
    """Further numbers for the page: a title, a sentence, heads, rows of texts."""

    title: str
    note: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Answer(Judged):
    """See the module.

    Attributes:
        kind: of audit, as the command names it: "engine", "endpoint", …
        subject: what was audited, in words.
        verdict, reason: the answer.
        alpha: a correct engine is called biased at most this often.
        plan, digest: what was fixed before the first sample, and its hash.
        pvalue: valid whenever one looks; None where nothing was tested.
        samples, draws: tokens of running text, and draws after repeated prefixes.
        tv: estimated total variation a token of the law that fits best; None where nothing speaks against 0.
        power: total variation that would have been caught with 95 % power, for each family of known faults.
        acceptance: accepted / drafted tokens; None where it cannot be known.
        tests, tracks, panel, families: the evidence, see there.
        barrier: logarithm of the capital that convicts, for `tracks`; 0 if there are none.
        ledger: what rounding does, by name.
        tables: further numbers.
        notes: sentences for the reader.
        replay: a command that runs it again.
        versions: of what took part, by name.
    """

    kind: str
    subject: str
    verdict: Verdict
    reason: str
    alpha: float
    plan: dict[str, Any]
    digest: str
    pvalue: float | None = None
    samples: int = 0
    draws: int = 0
    tv: float | None = None
    power: float = float("inf")
    acceptance: float | None = None
    tests: tuple[Check, ...] = ()
    tracks: tuple[Track, ...] = ()
    barrier: float = 0.0
    panel: tuple[Bars, ...] = ()
    families: tuple[Family, ...] = ()
    ledger: dict[str, float] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    replay: str = ""
    versions: dict[str, str] = field(default_factory=lambda: versions())

    def __str__(self) -> str:
        lines = [f"{self.verdict.value}: {self.subject}: {self.reason}"]
        if self.pvalue is not None:
            lines.append(
                f"p-value {self.pvalue:.2g}, false alarms <= {self.alpha:g}; {self.samples} tokens, "
                f"{self.draws} draws after repeated prefixes"
            )
        lines += [f"note: {note}" for note in self.notes]
        lines.append(f"plan {self.digest}" + (f"; again: {self.replay}" if self.replay else ""))
        return "\n  ".join(lines)

    def document(self) -> dict[str, Any]:
        """For JSON: every field, `ok` and `exit_code`; numbers without limit are null."""
        named = {name: [each._asdict() for each in getattr(self, name)] for name in _LISTS}
        whole = asdict(self) | named | {"verdict": self.verdict.value, "ok": self.ok, "exit_code": self.exit_code}
        return finite(whole)


_LISTS = ("tests", "tracks", "panel", "families", "tables")


def finite(document: dict[str, Any]) -> dict[str, Any]:
    """A document whose numbers are all finite: infinite ones and those that are none become null."""
    found: dict[str, Any] = json.loads(json.dumps(document), parse_constant=lambda _: None)
    return found


def versions(*packages: str) -> dict[str, str]:
    """Versions of Python, of specproof and its main dependencies, and of further packages."""
    found = {"python": platform.python_version()}
    for name in ("specproof", "torch", "transformers", "numpy", "scipy", *packages):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def split_alpha(alpha: float, shares: dict[str, float]) -> dict[str, float]:
    """Levels of tests that share a rate of false alarms (by the union bound they keep it together).

    Raises:
        SpecproofError: shares that are negative or sum to more than 1.
    """
    if min(shares.values(), default=0) < 0 or sum(shares.values()) > 1 + 1e-12:
        raise SpecproofError(f"shares {shares} of alpha: give numbers >= 0 that sum to 1 at most")
    return {name: share * alpha for name, share in shares.items()}
