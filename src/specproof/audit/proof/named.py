"""Proofs by name: rules of the table, and specifications of one's own."""

from __future__ import annotations

import re
from importlib import import_module
from time import monotonic

from specproof.audit.imported import imported
from specproof.audit.proof.freedom import FREEDOM
from specproof.audit.proof.result import ProofResult
from specproof.audit.proof.run import prove
from specproof.audit.proof.setting import Setting, Specification
from specproof.errors import SpecproofError, unknown
from specproof.rules import RULES
from specproof.tree import Tree
from specproof.types import Drawn

# Every draft is made a law, so this is a matter of minutes.
_MOST_DRAFTS = 20_000


def prove_rule(
    rule: str, vocabulary: int = 2, shape: str = "chain:1", drawn: Drawn | None = None, seconds: float = 300
) -> ProofResult:
    """Prove a rule lossless for all rows, or find rows for which it is not.

    Args:
        rule: a name in RULES, or "module:function", a specification of one's own found from the current folder.
        vocabulary: number of tokens.
        shape: "chain:3", or children per level: "2", "2x2".
        drawn: how the draft was drawn; the first way that the rule accepts if not given.
        seconds: after which it gives up, about.

    Raises:
        SpecproofError: no such rule or shape, or what `prove` raises.
    """
    tree = parse_shape(shape)
    if vocabulary ** len(tree) > _MOST_DRAFTS:
        raise SpecproofError(
            f"{vocabulary} tokens on {len(tree)} nodes make {vocabulary ** len(tree)} drafts: "
            f"give a smaller --vocab or --shape, at most {_MOST_DRAFTS} drafts"
        )
    own = ":" in rule
    if not own and rule not in RULES:
        raise unknown("rule", rule, [*RULES, "MODULE:FUNCTION"])
    way = drawn or ("iid" if own else RULES[rule].draws[0])
    if not own:
        RULES[rule].check(way, tree.is_chain)
    started = monotonic()
    specification = imported(rule) if own else _of_table(rule, way)
    outcome = prove(Setting(specification, vocabulary, tree, way, FREEDOM.get(rule)), seconds)
    replay = f"specproof prove {rule} --vocab {vocabulary} --shape {shape} --drawn {way}"
    return ProofResult(rule, vocabulary, shape, way, outcome, monotonic() - started, replay)


def parse_shape(text: str) -> Tree:
    """The tree of "chain:3", or of children per level, "2" or "2x2"."""
    if match := re.fullmatch(r"chain:([1-9]\d*)", text):
        return Tree.chain(int(match[1]))
    if re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", text):
        return Tree.levels(tuple(map(int, text.split("x"))))
    raise SpecproofError(f"shape {text!r} is not known: give chain:LENGTH, or children per level like 2 or 2x2")


def _of_table(name: str, drawn: Drawn) -> Specification:
    """The specification for drafts drawn like this: `name_drawn` where there is one beside `name`."""
    module = import_module(f"specproof.rules.spec.{name}")
    specification: Specification = getattr(module, f"{name}_{drawn}", None) or getattr(module, name)
    return specification
