"""How many tokens a round commits in expectation, rule beside rule on the same drafts, and how far from the best.

One figure, the gap: 1 - tokens of this rule / tokens of the best there can be. The best is known for chains (block
verification), for point drafts (the target walk) and for one level of children (a sum over sets of tokens). For
deeper sampled trees no closed form is known; there it is the best lossless rule on the same drafts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import comb

import torch

from specproof.audit.exact import Instance, accepted_nodes, enumerate_drafts
from specproof.backends.table import TableModel
from specproof.rules import RULES, Rule, sound_rules
from specproof.rules.flow import MOST_SETS
from specproof.tree import Tree
from specproof.types import Drawn

# Rows of a panel come after contexts of so many tokens: each context is one more pair of rows.
_CONTEXT = 2


@dataclass(frozen=True)
class Group:
    """Drafts that rules are compared on: one way of drawing, some shapes.

    Attributes:
        title: what tables call it.
        drawn, trees: as in `Instance`.
        vocabulary: tokens of the random rows.
    """

    title: str
    drawn: Drawn
    trees: tuple[Tree, ...]
    vocabulary: int = 3


@dataclass(frozen=True)
class Standing:
    """One rule among the others.

    Attributes:
        rule: its label.
        claim: what may be said of it, see `Rule.claim`.
        tokens: expected tokens a round commits, the extra one included.
        gap: 1 - tokens / the comparison's best; below 0 where a lossy rule commits more than is lossless.
    """

    rule: str
    claim: str
    tokens: float
    gap: float


@dataclass(frozen=True)
class Comparison:
    """All rules that take the drafts of a group, best first.

    Attributes:
        group: its title.
        best: tokens a round that gaps are measured against.
        source: what `best` is, in words.
        optimum: whether no lossless rule can have more; otherwise it is the best rule here.
        instances: pairs of rows and shapes averaged over.
        standings: one a rule.
    """

    group: str
    best: float
    source: str
    optimum: bool
    instances: int
    standings: tuple[Standing, ...]


def _trees(*levels: tuple[int, ...]) -> tuple[Tree, ...]:
    return tuple(map(Tree.levels, levels))


_CHAINS = (Tree.chain(2), Tree.chain(3))
_ANY = (*_trees((1, 2), (2, 2)), Tree((-1, 0, -1, 1)))
GROUPS = (
    Group("chains, iid", "iid", _CHAINS),
    Group("one level of children, iid", "iid", _trees((2,), (3,))),
    Group("chains side by side, iid", "iid", _trees((2, 1), (3, 1))),
    Group("trees, iid", "iid", _ANY),
    Group("one level of children, without replacement", "without_replacement", _trees((2,), (3,)), 4),
    Group("trees, without replacement", "without_replacement", (*_trees((2, 1)), *_ANY)),
    Group("one level of children, top and one", "top_and_one", _trees((2,), (3,)), 4),
    Group("trees, top and one", "top_and_one", (*_trees((2, 1)), *_ANY)),
    Group("chains, point", "point", _CHAINS),
    Group("trees, point", "point", (*_trees((2,), (2, 1)), *_ANY)),
)


def compare(rules: Sequence[Rule], seed: int = 0, groups: Sequence[Group] = GROUPS) -> tuple[Comparison, ...]:
    """Every group that one of the rules takes; best rules are sought among all lossless ones.

    Args:
        rules: from RULES.
        seed: of the rows; the same for all rules.
        groups: the drafts to compare on.
    """
    comparisons = []
    for group in groups:
        fitting = [r for r in rules if all(takes(r, group.drawn, tree, group.vocabulary) for tree in group.trees)]
        if fitting:
            comparisons.append(compare_on(fitting, panel(group, seed), group.title, _CONTEXT))
    return tuple(comparisons)


def compare_on(rules: Sequence[Rule], instances: Sequence[Instance], title: str, context: int = 0) -> Comparison:
    """Rules that take all these drafts, on the rounds after contexts of `context` tokens."""
    group = [(i.drawn, i.tree, i.target.vocabulary) for i in instances]
    rivals = {rule.label: rule for rule in sound_rules() if all(takes(rule, *draft) for draft in group)}
    rivals |= {rule.label: rule for rule in rules}
    means = {
        label: _mean(torch.cat([1 + accepted_nodes(rule, i, context) for i in instances]))
        for label, rule in rivals.items()
    }
    best, source, optimum = _best(means, instances, context)
    standings = [Standing(r.label, r.claim, means[r.label], 1 - means[r.label] / best) for r in rules]
    standings.sort(key=lambda standing: -round(standing.tokens, 12))
    rounds = sum(i.target.vocabulary**context for i in instances)
    return Comparison(title, best, source, optimum, rounds, tuple(standings))


def takes(rule: Rule, drawn: Drawn, tree: Tree, vocabulary: int) -> bool:
    """Whether the rule is made for such drafts, and can judge them with so many tokens."""
    children = max(tree.parents.count(parent) for parent in tree.parents)
    planned = rule.name == "transport" and drawn == "without_replacement"
    return rule.fits(drawn, tree) and not (planned and comb(vocabulary, children) > MOST_SETS)


def panel(group: Group, seed: int = 0) -> list[Instance]:
    """Random rows after every context for each shape: half of the drafts far from the target, half near it."""
    generator = torch.Generator().manual_seed(seed)
    instances = []
    for tree in group.trees:
        depth = max(tree.depths)
        order = _CONTEXT + depth
        target, far = (TableModel.random(group.vocabulary, order, generator, zeros) for zeros in (0.2, 0.0))
        near = TableModel(tuple((p + q) / 2 for p, q in zip(target.levels, far.levels, strict=True)))
        instances += [Instance(target, draft, tree, group.drawn, order + 1) for draft in (far, near)]
    return instances


def one_level_optimum(instance: Instance, context: int = 0) -> torch.Tensor:
    """Most tokens a round can commit when all nodes are children of the root, after each context, [V**context].

    The probability to accept one is at most 1 + min over sets H of tokens of target(H) - P(all children in H),
    and that is attained. Sums over all 2^V sets.

    Source: Sun et al. 2023 (2310.15141), the dual; Hu et al. 2025 (2502.18779).
    """
    drafts = enumerate_drafts(instance, context)
    size, contexts = instance.target.vocabulary, instance.target.vocabulary**context
    target = torch.zeros(contexts, size, dtype=torch.float64)
    target[drafts.contexts] = drafts.target[:, 0]
    least = torch.zeros(contexts, dtype=torch.float64)
    for tokens in chain.from_iterable(combinations(range(size), count) for count in range(1, size + 1)):
        inside = torch.isin(drafts.draft.tokens, torch.tensor(tokens)).all(1) * drafts.probability
        drawn = torch.zeros_like(least).index_add_(0, drafts.contexts, inside)
        least = torch.minimum(least, target[:, list(tokens)].sum(-1) - drawn)
    return 2 + least


# Sets of tokens grow as 2^V.
_MOST_TOKENS = 12


def _best(means: dict[str, float], instances: Sequence[Instance], context: int) -> tuple[float, str, bool]:
    """What gaps are measured against, where it comes from, and whether nothing lossless can be better."""
    drawn = instances[0].drawn
    if drawn == "point":
        return means["walk"], "optimum: the target walk", True
    if drawn == "iid" and all(i.tree.is_chain for i in instances):
        return means["block"], "optimum: block verification (Sun et al. 2024, theorem 2)", True
    small = instances[0].target.vocabulary <= _MOST_TOKENS
    if small and all(max(i.tree.depths) == 1 for i in instances):
        known = torch.cat([one_level_optimum(i, context) for i in instances])
        return _mean(known), "optimum: transport, summed over all sets of tokens", True
    rule = max((label for label in means if RULES[label.partition(":")[0]].lossless), key=lambda x: means[x])
    return means[rule], f"best lossless rule here: {rule}; no optimum is known in closed form", False


def _mean(values: torch.Tensor) -> float:
    return float(values.mean())
