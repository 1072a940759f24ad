"""What an entry of the catalogue is, and the audits that an entry can name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from specproof.audit.engine_exact import audit_engine
from specproof.audit.engine_suite import PARAMS, audit_built, build_engine
from specproof.audit.enumerate import EnumeratingNoise
from specproof.audit.exact import Instance, RuleFunction, target_law, text_law, tv
from specproof.audit.fractions import Spec
from specproof.audit.report import TOLERANCE, EngineResult
from specproof.audit.rules import scalars
from specproof.backends.table import TableBackend, TableModel
from specproof.drafters.model import ModelDrafter
from specproof.engine.engine import Engine
from specproof.rules import RULES
from specproof.rules.rows import pick
from specproof.rules.spec.numbers import EXACT
from specproof.tree import Tree
from specproof.types import Draft, Drawn, Law, SamplingParams

Kind = Literal["rule", "draw", "noise", "processor", "rows", "cache", "commit"]
Level = Literal["rule", "engine", "drafter", "backend", "noise"]
Plant = Callable[[Engine], Engine]
Row = Sequence[Fraction]
_ONE_NODE, _TWO_TOKENS = Tree.chain(1), SamplingParams(max_tokens=2)


class Finding(NamedTuple):
    """What an audit said: whether it passed, the distance if it measured one, and its words."""

    ok: bool
    tv: float | None
    report: str


class Audit(Protocol):
    """An audit of one stated setting, the fault (if any) planted in it."""

    @property
    def level(self) -> Level:
        """Which part of the auditor this is."""

    def run(self) -> Finding:
        """Audit; builds everything afresh."""


@dataclass(frozen=True)
class Case:
    """An entry: a fault that an audit must catch, or a control that it must pass.

    Attributes:
        id: M and B as in public reports, N for known negative results, E for other seeded faults, C for controls.
        name: short, for a table.
        kind: the part of a speculative decoder that it sits in.
        description: one line.
        audit: the setting, and the level that must see it.
        expected: the exact total variation where it is known, or a part of what the audit must say.
    """

    id: str
    name: str
    kind: Kind
    description: str
    audit: Audit
    expected: Fraction | float | str | None = None

    @property
    def level(self) -> Level:
        """The level that must see it."""
        return self.audit.level


@dataclass(frozen=True)
class RuleAudit:
    """The exact law of a rule on rows without context.

    Attributes:
        rule: the rule that is audited.
        target, draft: the rows.
        tree, drawn, length: as in `Instance`.
    """

    rule: RuleFunction
    target: Row
    draft: Row
    tree: Tree = _ONE_NODE
    drawn: Drawn = "iid"
    length: int = 1
    level: ClassVar[Level] = "rule"

    @property
    def instance(self) -> Instance:
        """The setting as it is enumerated."""
        return Instance(constant(self.target), constant(self.draft), self.tree, self.drawn, self.length)

    def run(self) -> Finding:
        """See `Audit.run`."""
        distance = tv(text_law(self.rule, self.instance).law, target_law(self.instance))
        return Finding(distance <= TOLERANCE, distance, f"TV {distance:.3g} on one instance")


@dataclass(frozen=True)
class EngineAudit:
    """The exact law of a whole engine over tiny transformers.

    Attributes:
        plant: from a correct engine to the one that is audited.
        rule, drafter, params: of the correct engine, as in `engine_suite`.
    """

    plant: Plant
    rule: str = "rejection"
    drafter: str = "model"
    params: SamplingParams = PARAMS[0]
    level: ClassVar[Level] = "engine"

    def result(self, architecture: str = "llama") -> EngineResult:
        """The audit's own result."""
        engine = build_engine(self.drafter, self.rule, architecture)
        assert engine is not None, f"rule {self.rule} does not take what drafter {self.drafter} draws"
        return audit_built(self.plant(engine), (self.rule, self.drafter), self.params, architecture)

    def run(self) -> Finding:
        """See `Audit.run`."""
        return _finding(self.result)


@dataclass(frozen=True)
class TableAudit:
    """The exact law of a whole engine over tables, where a distance can be told beforehand.

    Attributes:
        plant: from a correct engine to the one that is audited.
        target, draft: the models.
        params, eos: of the request.
        nodes: length of the drafted chains.
    """

    plant: Plant
    target: TableModel
    draft: TableModel
    params: SamplingParams = _TWO_TOKENS
    eos: tuple[int, ...] = ()
    nodes: int = 1
    level: ClassVar[Level] = "engine"

    def result(self) -> EngineResult:
        """The audit's own result."""
        target, drafter = TableBackend(self.target), ModelDrafter(TableBackend(self.draft), self.nodes)
        engine = Engine(target, drafter, RULES["rejection"], eos=self.eos, noise=EnumeratingNoise())
        # The last token of a table's order counts: any prompt of one token will do.
        prompt = [self.target.vocabulary - 1]
        return audit_engine(self.plant(engine), lambda t: self.target.row(t).log(), prompt, self.params)

    def run(self) -> Finding:
        """See `Audit.run`."""
        return _finding(self.result)


@dataclass(frozen=True)
class Conformance:
    """A conformance call on a part of an engine.

    Attributes:
        level: whose contract it is.
        check: makes the part and calls.
    """

    level: Level
    check: Callable[[], None]

    def run(self) -> Finding:
        """See `Audit.run`."""
        try:
            self.check()
        except AssertionError as broken:
            return Finding(False, None, str(broken))
        return Finding(True, None, "conforms")


def specified(spec: Spec) -> RuleFunction:
    """A rule from its specification alone: as slow as scalars are, as readable as they are."""

    def rule(target: Tensor, draft: Draft) -> Law:
        laws = [spec(EXACT, *scalars(rows, draft, b)) for b, rows in enumerate(target)]
        stop = torch.tensor([[float(x) for x in law.stop] for law in laws], dtype=target.dtype)
        following = torch.tensor(
            [[[float(x) for x in row] for row in law.next] for law in laws], dtype=target.dtype
        )
        return Law(stop, lambda at: pick(following, at))

    return rule


def constant(row: Row) -> TableModel:
    """The model that gives this row after every context."""
    return TableModel.constant([float(mass) for mass in row])


def exchanged(engine: Engine, kind: type[Engine] = Engine, **parts: Any) -> Engine:
    """The same engine with some parts exchanged: target, drafter, rule or noise, or its class."""
    return kind(
        parts.get("target", engine.target),
        parts.get("drafter", engine.drafter),
        parts.get("rule", engine.rule),
        eos=engine.eos,
        budget=engine.budget,
        max_batch=engine.max_batch,
        noise=parts.get("noise", engine.noise),
    )


def untouched(engine: Engine) -> Engine:
    """The correct engine itself."""
    return engine


def _finding(audit: Callable[[], EngineResult]) -> Finding:
    # The enumerator and the cache check their callers by assertions: that is being caught as well.
    try:
        result = audit()
    except AssertionError as broken:
        return Finding(False, None, str(broken))
    return Finding(result.ok, result.tv, str(result))
