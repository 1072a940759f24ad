"""How the first token comes out, on given rows: kept from which child, or drawn after all were refused.

The law is summed over every draft with the function that an engine runs; `sample_first` draws from it as an
engine draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import torch

from specproof.audit.exact import Instance, RuleFunction, enumerate_drafts, target_law, tv
from specproof.audit.fractions import Spec, spec_law
from specproof.audit.fractions import target_law as exact_target_law
from specproof.audit.fractions import tv as exact_tv
from specproof.audit.given import Row
from specproof.audit.mutants import rule as faults
from specproof.audit.mutants.case import constant, specified
from specproof.noise import CounterNoise
from specproof.rules import Rule, find_rule
from specproof.rules.draw import draw
from specproof.tree import Tree
from specproof.types import PROPOSE, Draft, Drawn, Key, Law, SamplingParams, TokenSequence

# Drafts that the specification judges in fractions while somebody drags a bar.
_MOST_EXACT = 27


@dataclass(frozen=True)
class Setting:
    """One verification on constant rows.

    Attributes:
        rule, spec: the same law, batched and as a specification in scalars.
        target: whose law should come out.
        source: the row that tokens are really drawn from.
        tree, drawn: what is drafted.
    """

    rule: RuleFunction
    spec: Spec
    target: Row
    source: Row
    tree: Tree
    drawn: Drawn

    @property
    def instance(self) -> Instance:
        """The setting as it is enumerated."""
        return Instance(constant(self.target), constant(self.source), self.tree, self.drawn, 1)


@dataclass(frozen=True)
class FirstToken:
    """The law of the first token that comes out, in parts; a tuple has an entry a token.

    Attributes:
        kept: for each child of the root in drawing order, the probability that it is kept and is this token.
        redrawn: that none is kept and this token is drawn instead.
        tv: total variation between their sum and the target.
        exact_tv: the same by the specification in fractions; None where that takes long.
        accepted: expected accepted nodes of the round.
    """

    kept: tuple[tuple[float, ...], ...]
    redrawn: tuple[float, ...]
    tv: float
    exact_tv: Fraction | None
    accepted: float

    @property
    def law(self) -> tuple[float, ...]:
        """What comes out."""
        return tuple(sum(parts) for parts in zip(*self.kept, self.redrawn, strict=True))


def sound(rule: Rule, target: Row, draft: Row, tree: Tree, drawn: Drawn) -> Setting:
    """A rule of RULES, fed as it should be."""
    return Setting(rule, rule.specification(drawn), target, draft, tree, drawn)


def _redraw(redraw: faults.Redraw, target: Row, draft: Row) -> Setting:
    spec = faults.redrawn(redraw)
    return Setting(specified(spec), spec, target, draft, Tree.chain(1), "iid")


def _told_another(drawn: Drawn, source: Callable[[Row], Row], target: Row, draft: Row) -> Setting:
    """Rejection that takes a token for a draw from the draft row, which it is not."""
    spec = faults.soft(draft)
    return Setting(specified(spec), spec, target, source(draft), Tree.chain(1), drawn)


def _lenient(target: Row, draft: Row) -> Setting:
    return sound(find_rule("lenience:0.5"), target, draft, Tree.chain(1), "iid")


def _sharpened(row: Row) -> Row:
    """At temperature 1/2, which squares every probability, so that the row stays rational."""
    squares = [mass * mass for mass in row]
    return tuple(mass / sum(squares) for mass in squares)


# One draft and rejection, with a single ingredient exchanged.
MISTAKES: dict[str, Callable[[Row, Row], Setting]] = {
    "resample_target": partial(_redraw, faults.from_target),
    "absolute_difference": partial(_redraw, faults.absolute),
    "temperature": partial(_told_another, "iid", _sharpened),
    "soft_row": partial(_told_another, "point", tuple),
    "lenience": _lenient,
}


def first_token(setting: Setting) -> FirstToken:
    """The exact law: float64, and its distance in fractions where that is quick."""
    drafts = enumerate_drafts(setting.instance, 0)
    law = setting.rule(drafts.target, drafts.draft)
    tree, weight = setting.tree, drafts.probability[:, None] * law.stop
    kept = []
    for child in tree.children(-1):
        below = [node + 1 for node in range(len(tree)) if child in tree.path(node)]
        mass = torch.zeros(len(setting.target), dtype=torch.float64)
        kept.append(mass.index_add_(0, drafts.draft.tokens[:, child], weight[:, below].sum(-1)))
    at = torch.zeros(len(weight), dtype=torch.long)
    redrawn = (weight[:, :1] * law.next(at)).sum(0)
    depths = torch.tensor([0, *tree.depths], dtype=torch.float64)
    right = target_law(setting.instance)
    return FirstToken(
        kept=tuple(tuple(mass.tolist()) for mass in kept),
        redrawn=tuple(redrawn.tolist()),
        tv=tv(torch.stack([*kept, redrawn]).sum(0), right),
        exact_tv=_exact_tv(setting),
        accepted=float((weight * depths).sum()),
    )


def _exact_tv(setting: Setting) -> Fraction | None:
    nodes = 0 if setting.drawn == "point" else len(setting.tree)
    if setting.drawn == "top_and_one" or len(setting.target) ** nodes > _MOST_EXACT:
        return None
    rows = (lambda context: list(setting.target)), (lambda context: list(setting.source))
    law, _ = spec_law(setting.spec, *rows, setting.tree, setting.drawn, 1)
    return exact_tv(law, exact_target_law(rows[0], 1))


def sample_first(setting: Setting, samples: int, seed: int) -> tuple[int, ...]:
    """How often each token came out first in so many rounds with keyed noise; the same seed, the same counts."""
    noise = CounterNoise()
    drafts = enumerate_drafts(setting.instance, 0)
    batch = [TokenSequence([0], 1, SamplingParams(), seed * samples + i) for i in range(samples)]
    keys = [Key(sequence.seed, 0, PROPOSE) for sequence in batch]
    picks = noise.choose((drafts.probability / drafts.probability.sum()).expand(samples, -1), keys)
    tokens, rows = drafts.draft.tokens[picks], drafts.draft.rows
    draft = Draft((setting.tree,) * samples, tokens, None if rows is None else rows[picks], setting.drawn)
    # Every draft is judged once, however often it is drawn.
    law = setting.rule(drafts.target, drafts.draft)
    rows_after = [law.next(torch.full((len(law.stop),), row)) for row in range(law.stop.shape[1])]
    following = torch.stack(rows_after, 1)
    judged = Law(law.stop[picks], lambda at: following[picks, at])
    steps = draw(judged, batch, draft, noise)
    first = [int(tokens[i, step.path[0]]) if step.path else step.token for i, step in enumerate(steps)]
    return tuple(first.count(token) for token in range(len(setting.target)))
