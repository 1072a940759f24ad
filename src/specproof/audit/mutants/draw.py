"""Faults of drafters: tokens that were not drawn from the rows that come with them, and drafts too large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import torch
from torch import Tensor

from specproof.audit.exact import RuleFunction
from specproof.audit.mutants.case import exchanged
from specproof.drafters.model import ModelDrafter
from specproof.engine.drafting import Drafting
from specproof.engine.engine import Engine
from specproof.engine.requests import Request
from specproof.rules import RULES
from specproof.types import Batch, Draft, Drawn, Key, Law, Noise


class _Colder:
    """Noise that draws at half the temperature of the rows it is given."""

    def __init__(self, noise: Noise) -> None:
        self.noise = noise

    def choose(self, rows: Tensor, keys: Sequence[Key]) -> Tensor:
        return self.noise.choose(rows.square() / rows.square().sum(-1, keepdim=True), keys)


class ColderDrafter(ModelDrafter):
    """Draws at half the temperature of the rows that it returns."""

    def draft(self, batch: Batch, budget: Sequence[int], noise: Noise) -> Draft:
        """As the drafter does, with colder noise."""
        return super().draft(batch, budget, _Colder(noise))


class HonestColderDrafter(ColderDrafter):
    """Draws at half the temperature, and returns the rows of that temperature: no fault."""

    def draft(self, batch: Batch, budget: Sequence[int], noise: Noise) -> Draft:
        """As the drafter does, with colder noise and colder rows."""
        draft = super().draft(batch, budget, noise)
        if draft.rows is None:
            return draft
        squares = draft.rows.square()
        return replace(
            draft, rows=squares / squares.sum(-1, keepdim=True).clamp(min=torch.finfo(squares.dtype).tiny)
        )


class EagerDrafter(ModelDrafter):
    """Drafts one node more than it may."""

    def draft(self, batch: Batch, budget: Sequence[int], noise: Noise) -> Draft:
        """As the drafter does with a larger budget."""
        return super().draft(batch, [most + 1 for most in budget], noise)


def drafted_by(kind: type[ModelDrafter], engine: Engine) -> Engine:
    """The engine with its draft model behind another drafter."""
    assert isinstance(engine.drafter, ModelDrafter)
    return exchanged(engine, drafter=kind(engine.drafter.backend, engine.drafter.tree))


def colder_drafter(engine: Engine) -> Engine:
    """The drafter draws at another temperature than its rows say."""
    return drafted_by(ColderDrafter, engine)


def honest_drafter(engine: Engine) -> Engine:
    """The drafter draws at another temperature than the target, and its rows say so."""
    return drafted_by(HonestColderDrafter, engine)


def eager_drafter(engine: Engine) -> Engine:
    """The drafter drafts one node more than it may."""
    return unchecked(drafted_by(EagerDrafter, engine))


class _Unchecked(Drafting):
    def _checked(self, requests: Sequence[Request], budget: Sequence[int], noise: Noise) -> Draft:
        return self.drafter.draft([request.sequence for request in requests], budget, noise)


def unchecked(engine: Engine) -> Engine:
    """The same engine, but its drafts are taken as they come."""
    engine.drafting = _Unchecked(engine.drafter, engine.target.vocabulary, engine.rule)
    return engine


def mistold(name: str, told: Drawn) -> RuleFunction:
    """A rule that is told another way of drawing than the drafter's."""

    def rule(target: Tensor, draft: Draft) -> Law:
        return RULES[name](target, replace(draft, drawn=told))

    return rule


def claimed(name: str, row: Sequence[Fraction]) -> RuleFunction:
    """A rule that is told another row than the one that tokens were drawn from."""

    def rule(target: Tensor, draft: Draft) -> Law:
        rows = torch.tensor([float(mass) for mass in row], dtype=target.dtype).expand_as(target)
        return RULES[name](target, replace(draft, rows=rows, drawn="iid"))

    return rule
