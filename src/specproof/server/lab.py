"""`/specproof/law`: the law of one verification on given rows, right or with a mistake, summed or sampled."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal

from fastapi import FastAPI
from pydantic import Field

from specproof.audit.first_token import MISTAKES, Setting, first_token, sample_first, sound
from specproof.audit.given import Row, parse_row
from specproof.audit.own import check_children
from specproof.audit.report import TOLERANCE
from specproof.audit.worked import worked_example
from specproof.errors import SpecproofError
from specproof.rules import RULES, Rule, find_rule
from specproof.server.schema import Strict
from specproof.tree import Tree
from specproof.types import Drawn

TOKENS, DRAFTS, SAMPLES = 8, 3, 5000
Shape = Literal["children", "chain"]
Json = dict[str, Any]


class LawRequest(Strict):
    """Body of `/specproof/law`; a row's entries are numbers or texts like "1/3", and sum to exactly 1.

    `drafts` tokens are drafted as children of the root or as a chain. A mistake is made with one draft and the
    rule `rejection`.
    """

    target: list[str | float]
    draft: list[str | float]
    names: list[str] | None = None
    rule: str = "rejection"
    drawn: Drawn = "iid"
    shape: Shape = "children"
    drafts: int = 1
    mistake: Literal["resample_target", "absolute_difference", "temperature", "soft_row", "lenience"] | None = None

    def rows(self) -> tuple[Row, Row]:
        """Both rows as fractions; whether they are laws is checked where they are worked through."""
        for which, row in (("target", self.target), ("draft", self.draft)):
            if not 2 <= len(row) <= TOKENS:
                raise SpecproofError(f"the {which} row has {len(row)} entries: give 2 to {TOKENS}")
        return tuple(parse_row(",".join(map(str, row)), which) for row, which in self._named())  # type: ignore[return-value]

    def _named(self) -> tuple[tuple[list[str | float], str], ...]:
        return (self.target, "target"), (self.draft, "draft")


class SampleRequest(LawRequest):
    """Body of `/specproof/law/sample`."""

    samples: Annotated[int, Field(ge=1, le=SAMPLES)] = 500
    seed: Annotated[int, Field(ge=0, lt=2**40)] = 0


def setting_of(body: LawRequest) -> Setting:
    """What was asked for, checked.

    Raises:
        SpecproofError: too large, or a rule that does not take such drafts.
    """
    if not 1 <= body.drafts <= DRAFTS:
        raise SpecproofError(f"drafts={body.drafts} is not allowed: give 1 to {DRAFTS}")
    target, draft = body.rows()
    if body.mistake is not None:
        if (body.rule, body.drafts, body.drawn) != ("rejection", 1, "iid"):
            raise SpecproofError(
                f"mistake {body.mistake!r} is made with rule 'rejection' and one iid draft, not with "
                f"{body.rule!r} and {body.drafts} drawn {body.drawn}: drop one or the other"
            )
        return MISTAKES[body.mistake](target, draft)
    rule = find_rule(body.rule)
    if not rule.usable:
        raise SpecproofError(f"rule {rule.name!r} is for audits only; choose one of: {', '.join(_usable())}")
    tree = _tree(body.shape, body.drafts)
    rule.check_tree(body.drawn, tree)
    check_children(draft, tree, body.drawn)
    return sound(rule, target, draft, tree, body.drawn)


def law(body: LawRequest) -> Json:
    """The answer of `/specproof/law`."""
    target, draft = body.rows()
    example = worked_example(target, draft, body.names)
    setting = setting_of(body)
    found = first_token(setting)
    lossless = found.tv <= TOLERANCE
    return {
        "names": example.names,
        "target": _row(target),
        "draft": _row(draft),
        "source": _row(setting.source),
        "minimum": _row(example.minimum),
        "excess": _row(example.excess),
        "residual": None if example.residual is None else _row(example.residual),
        "z": _number(example.z),
        "distance": _number(example.tv),
        "kept": found.kept,
        "redrawn": found.redrawn,
        "law": found.law,
        "tv": found.tv,
        "exact_tv": None if found.exact_tv is None else str(found.exact_tv),
        "accepted": found.accepted,
        "lossless": lossless,
        "claim": None if body.mistake is not None else find_rule(body.rule).claim,
    }


def sample(body: SampleRequest) -> Json:
    """The answer of `/specproof/law/sample`."""
    worked_example(*body.rows())  # the rows are laws
    return {"counts": sample_first(setting_of(body), body.samples, body.seed), "samples": body.samples}


def rules_about() -> list[Json]:
    """The rules that can be asked for, with the drafts that each takes."""
    return [
        {
            "name": rule.name,
            "claim": rule.claim,
            "paper": rule.paper,
            "coupled": rule.coupled,
            "parameters": [{"name": p.name, "default": p.default, "allowed": p.allowed} for p in rule.parameters],
            "takes": _takes(rule),
        }
        for rule in (RULES[name] for name in _usable())
    ]


def add_lab(app: FastAPI) -> None:
    """The routes; what is not async runs in a thread, and the event loop stays free."""

    @app.post("/specproof/law")
    def read_law(body: LawRequest) -> Json:
        return law(body)

    @app.post("/specproof/law/sample")
    def read_sample(body: SampleRequest) -> Json:
        return sample(body)


def _tree(shape: Shape, drafts: int) -> Tree:
    return Tree.chain(drafts) if shape == "chain" else Tree.levels((drafts,))


def _usable() -> list[str]:
    return [rule.name for rule in RULES.values() if rule.usable]


def _takes(rule: Rule) -> list[Json]:
    shapes: tuple[Shape, ...] = ("children", "chain")
    counts = range(1, DRAFTS + 1)
    return [
        {"drawn": drawn, "shape": shape, "drafts": [n for n in counts if rule.fits(drawn, _tree(shape, n))]}
        for drawn in rule.draws
        for shape in shapes
    ]


def _number(value: Fraction) -> Json:
    return {"exact": str(value), "float": float(value)}


def _row(row: Sequence[Fraction]) -> Json:
    return {"exact": [str(mass) for mass in row], "float": [float(mass) for mass in row]}
