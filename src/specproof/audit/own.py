"""Rules on the user's own rows: the exact law of what comes out, in one round and over several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from specproof.audit.compare import Comparison, compare_on
from specproof.audit.exact import Instance, enumerate_drafts, target_law, text_law, tv
from specproof.audit.fractions import spec_law
from specproof.audit.fractions import target_law as exact_target_law
from specproof.audit.fractions import tv as exact_tv
from specproof.audit.given import Row, pair, total_variation
from specproof.audit.report import TOLERANCE
from specproof.audit.rules import some_drafts, spec_difference
from specproof.backends.table import TableModel
from specproof.errors import SpecproofError
from specproof.rules import Rule
from specproof.tree import Tree
from specproof.types import Drawn

# Numbers in the largest table of drafts: about 160 MB in float64.
_MOST_NUMBERS = 20_000_000
# Fractions of the specification, for drafts of one round in all.
_MOST_EXACT = 300


@dataclass(frozen=True)
class OwnResult:
    """A rule on given rows, which follow every context alike.

    Attributes:
        rule, claim: its label, and what may be said of it, see `Rule.claim`.
        tokens: expected tokens a round commits, the extra one included.
        gap: see `compare.Standing`.
        law: of the first token that comes out, an entry a token.
        tv: total variation between that law and the target row.
        text_tv: the same for texts of `length` tokens, which take several rounds.
        length: tokens in these texts.
        disagreement: largest difference between rule and specification.
        exact_tokens, exact_tv: `tokens` and `tv` by the specification in fractions; None where that takes long.
    """

    rule: str
    claim: str
    tokens: float
    gap: float
    law: tuple[float, ...]
    tv: float
    text_tv: float
    length: int
    disagreement: float
    exact_tokens: Fraction | None
    exact_tv: Fraction | None

    @property
    def ok(self) -> bool:
        """Equal to its specification, and to the target if it claims that."""
        return self.disagreement <= TOLERANCE and (self.lossless or self.claim != "EXACT")

    @property
    def lossless(self) -> bool:
        """Whether the law that came out is the target's, to rounding."""
        return max(self.tv, self.text_tv) <= TOLERANCE

    @property
    def verdict(self) -> str:
        """As of a `RuleResult`; a lossy rule may be exact on these very rows."""
        if not self.ok:
            return "NOT LOSSLESS" if self.claim == "EXACT" else "WRONG"
        return f"{self.claim}, EXACT HERE" if self.lossless and self.claim != "EXACT" else self.claim

    def __str__(self) -> str:
        return (
            f"{self.verdict}: {self.rule}: {_both(self.tokens, self.exact_tokens)} tokens a round; TV of a token "
            f"{_both(self.tv, self.exact_tv)}, of texts of {self.length} tokens {_small(self.text_tv)}; "
            f"specification differs by {self.disagreement:.1e}"
        )


@dataclass(frozen=True)
class OwnRows:
    """All that was asked about a pair of rows.

    Attributes:
        target, draft, tree, drawn: what was given.
        distance: total variation between the rows.
        comparison: the rules beside each other, and what their gaps are measured against.
        results: one a rule, best first.
    """

    target: Row
    draft: Row
    tree: Tree
    drawn: Drawn
    distance: Fraction
    comparison: Comparison
    results: tuple[OwnResult, ...]


def audit_own(
    rules: Sequence[Rule], target: Sequence[Fraction], draft: Sequence[Fraction], tree: Tree, drawn: Drawn
) -> OwnRows:
    """Every rule on the same rows.

    Args:
        rules: all must take this draft.
        target, draft: rows with the same tokens, each summing to 1.
        tree, drawn: what is drafted in every round.

    Raises:
        SpecproofError: rows that are no distributions, a rule that does not take the draft, more children than
            the draft's row has tokens, or too much to enumerate.
    """
    target, draft = pair(target, draft)
    for rule in rules:
        rule.check_tree(drawn, tree)
    check_children(draft, tree, drawn)
    length = _length(len(target), tree, drawn)
    models = [TableModel.constant([float(mass) for mass in row]) for row in (target, draft)]
    instance = Instance(models[0], models[1], tree, drawn, length)
    comparison = compare_on(rules, [instance], "your rows")
    by_label = {rule.label: rule for rule in rules}
    results = []
    for standing in comparison.standings:
        rule = by_label[standing.rule]
        law = text_law(rule, instance).law
        right = target_law(instance)
        first = law.reshape(len(target), -1).sum(-1)
        results.append(
            OwnResult(
                rule=standing.rule,
                claim=standing.claim,
                tokens=standing.tokens,
                gap=standing.gap,
                law=tuple(first.tolist()),
                tv=tv(first, instance.target.levels[0][0]),
                text_tv=tv(law, right),
                length=length,
                disagreement=spec_difference(rule, some_drafts(enumerate_drafts(instance, 0))),
                **_in_fractions(rule, target, draft, tree, drawn),
            )
        )
    return OwnRows(target, draft, tree, drawn, total_variation(target, draft), comparison, tuple(results))


def _in_fractions(rule: Rule, target: Row, draft: Row, tree: Tree, drawn: Drawn) -> dict[str, Fraction | None]:
    """Tokens a round and TV of the first token by the specification, where that is quick."""
    if drawn == "top_and_one" or len(target) ** _random_nodes(tree, drawn) > _MOST_EXACT:
        return {"exact_tokens": None, "exact_tv": None}
    rows = (lambda context: list(target)), (lambda context: list(draft))
    law, accepted = spec_law(rule.specification(drawn), *rows, tree, drawn, 1)
    return {"exact_tokens": 1 + accepted, "exact_tv": exact_tv(law, exact_target_law(rows[0], 1))}


def check_children(draft: Row, tree: Tree, drawn: Drawn) -> None:
    """Raise where siblings that differ would need more tokens than the row has with mass."""
    most = max(tree.parents.count(parent) for parent in tree.parents)
    support = sum(mass > 0 for mass in draft)
    if drawn != "iid" and most > support:
        raise SpecproofError(
            f"the draft row has {support} tokens with mass and the tree {most} children of one node, which differ "
            f"when drawn {drawn}: give a smaller tree, or --drawn iid"
        )


def _random_nodes(tree: Tree, drawn: Drawn) -> int:
    """Nodes whose tokens are drawn."""
    if drawn == "point":
        return 0
    return len(set(tree.parents)) if drawn == "top_and_one" else len(tree)


def _length(size: int, tree: Tree, drawn: Drawn) -> int:
    """Tokens of the text: two more than a round can accept if that can be summed, at least two in all."""
    for length in range(max(tree.depths) + 2, 1, -1):
        rows = size ** (length - 1 + _random_nodes(tree, drawn))
        if max(rows * size * (len(tree) + 1), size ** (length + 1)) <= _MOST_NUMBERS:
            return length
    raise SpecproofError(
        f"{size} tokens and {len(tree)} nodes drawn {drawn} are too many to sum over every draft: give fewer "
        "tokens or a smaller tree"
    )


def _both(value: float, exact: Fraction | None) -> str:
    if exact is None or len(str(exact)) > 12:
        return _small(value)
    return str(exact) if exact.denominator == 1 else f"{exact} = {value:.6f}"


def _small(value: float) -> str:
    return f"{value:.6f}" if value == 0 or value >= 1e-6 else f"{value:.1e}"
