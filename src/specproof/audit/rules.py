"""The exact audit of a rule of RULES: random instances, its specification, and its known values."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import islice

import torch
from torch import Tensor

from specproof.audit.exact import Drafts, Instance, enumerate_drafts, target_law, text_law, tv
from specproof.audit.golden import GOLDEN, Golden
from specproof.audit.lossy import audit_lossy
from specproof.audit.report import RuleResult
from specproof.backends.table import TableModel
from specproof.rules import Rule
from specproof.rules.spec.numbers import EXACT
from specproof.tree import Tree
from specproof.types import Draft

CHAINS = tuple(Tree.chain(length) for length in (1, 2, 3))
# (2, 1) is two chains side by side.
TREES = (*map(Tree.levels, ((2,), (2, 1), (1, 2), (2, 2))), Tree((-1, 0, -1, 1)))


def audit_rule(rule: Rule, instances: int = 300, seed: int = 0) -> RuleResult:
    """Audit a rule exactly.

    Args:
        rule: from RULES.
        instances: how many random settings are enumerated, spread over draws and shapes that it accepts.
        seed: of the random rows; the same seed gives the same instances.
    """
    distances, differences = [], []
    for instance in islice(random_instances(rule, seed), instances):
        distances.append(tv(text_law(rule, instance).law, target_law(instance)))
        differences.append(spec_difference(rule, some_drafts(enumerate_drafts(instance, 0))))
    golden = tuple((g.case, float(g.accepted), _accepted(rule, g)) for g in GOLDEN if g.rule == rule.label)
    replay = f"specproof audit rule {rule.label} --instances {instances} --seed {seed}"
    slack = None if rule.lossless else least_slack(rule, seed)
    worst = _largest(distances), _largest(differences)
    return RuleResult(rule.label, instances, *worst, golden, replay, rule.claim, slack)


def least_slack(rule: Rule, seed: int, pairs: int = 40) -> float:
    """Least slack of the bound that single drafts obey (see `audit.lossy`), over random pairs of rows."""
    generator = torch.Generator().manual_seed(seed)
    slacks = []
    for number in range(pairs):
        target, draft = (TableModel.random(2 + number % 4, 0, generator, 0.3).levels[0][0] for _ in range(2))
        slacks += [
            audit_lossy(rule, target.tolist(), draft.tolist(), drawn).slack
            for drawn in rule.draws
            if drawn in ("iid", "point")
        ]
    return min(slacks)


def random_instances(rule: Rule, seed: int) -> Iterator[Instance]:
    """Settings without end: rows that depend on the context, some with zero-mass tokens, some degenerate."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        trees = (*CHAINS, *TREES, _random_tree(generator))
        for drawn, tree in ((drawn, tree) for drawn in rule.draws for tree in trees if rule.fits(drawn, tree)):
            # Two more tokens than one round can accept: at least two rounds, and a text cut inside a block. One
            # token less where there would be more than 3^7 drafts of the last round.
            length = max(tree.depths) + (2 if max(tree.depths) + len(tree) < 7 else 1)
            for pair in _pairs(3, length, generator, exhaustible=drawn in ("without_replacement", "top_and_one")):
                yield Instance(*pair, tree, drawn, length)


def _random_tree(generator: torch.Generator) -> Tree:
    """Four nodes, at most three deep; at most three siblings, since rows have three tokens."""
    lows = (-1, -1, -1, 0)
    return Tree(
        tuple(int(torch.randint(low, min(node, 2), (), generator=generator)) for node, low in enumerate(lows))
    )


def _pairs(
    size: int, length: int, generator: torch.Generator, exhaustible: bool
) -> Iterator[tuple[TableModel, TableModel]]:
    def model(zeros: float) -> TableModel:
        return TableModel.random(size, length - 1, generator, zeros)

    target = model(0.3)
    yield model(0.0), model(0.0)
    yield target, model(0.0)
    yield (
        target,
        TableModel(tuple(level.roll(1, -1) for level in target.levels)) if not exhaustible else model(0.0),
    )
    if not exhaustible:  # rows with one token cannot give two siblings
        yield target, model(0.5)
        yield target, target
        yield model(1.0), model(0.3)


def some_drafts(drafts: Drafts, most: int = 27) -> Drafts:
    """At most so many of the drafts, evenly spread: fractions are slow."""
    step = -(-len(drafts.contexts) // most)
    kept = torch.arange(0, len(drafts.contexts), step)
    draft = drafts.draft
    rows = None if draft.rows is None else draft.rows[kept]
    thinned = Draft(draft.trees[::step], draft.tokens[kept], rows, draft.drawn)
    return Drafts(drafts.contexts[kept], drafts.probability[kept], drafts.target[kept], thinned)


def spec_difference(rule: Rule, drafts: Drafts) -> float:
    """Largest difference between the torch law and the specification on `Fraction`, over given drafts."""
    law = rule(drafts.target, drafts.draft)
    following = torch.stack([law.next(torch.full((len(law.stop),), row)) for row in range(law.stop.shape[1])], 1)
    found = [0.0]
    for b in range(len(law.stop)):
        if drafts.probability[b] == 0:
            continue
        spec = rule.specification(drafts.draft.drawn)(EXACT, *scalars(drafts.target[b], drafts.draft, b))
        for row, (stop, token_law) in enumerate(zip(spec.stop, spec.next, strict=True)):
            found.append(abs(float(stop) - float(law.stop[b, row])))
            if stop > 0:  # a law that is never drawn from is anybody's choice
                expected = torch.tensor([float(mass) for mass in token_law], dtype=torch.float64)
                found.append(float((expected - following[b, row]).abs().max()) * float(stop))
    return _largest(found)


def _largest(values: list[float]) -> float:
    """NaN if one is, unlike `max`: a rule that returns NaN must not pass."""
    return float(torch.tensor(values, dtype=torch.float64).max())


def scalars(
    target: Tensor, draft: Draft, b: int
) -> tuple[list[list[Fraction]], list[list[Fraction]], Tree, list[int]]:
    """Arguments of a specification for draft b: rows as exact fractions that sum to 1."""
    tree, tokens = draft.trees[b], draft.tokens[b].tolist()
    if draft.rows is not None:
        drawn = [_fractions(row) for row in draft.rows[b]]
    else:
        # A point draft was drawn from a one-hot row.
        drawn = [[Fraction(0)] * target.shape[-1] for _ in range(len(tree) + 1)]
        for token, parent in zip(tokens, tree.parents, strict=True):
            drawn[parent + 1][token] = Fraction(1)
    return [_fractions(row) for row in target], drawn, tree, tokens


def _fractions(row: Tensor) -> list[Fraction]:
    exact = [Fraction(mass) for mass in row.tolist()]
    return [mass / sum(exact) for mass in exact]


def _accepted(rule: Rule, golden: Golden) -> float:
    """Expected accepted nodes in one round for constant rows."""
    target, draft = (TableModel.constant([float(mass) for mass in row]) for row in golden.rows)
    return text_law(rule, Instance(target, draft, golden.tree, golden.drawn, max(golden.tree.depths) + 1)).accepted
