"""Verification rules: RULES, the one table, and how a name becomes a rule. Importing it loads no torch.

A rule is a pure function from target rows and a draft to a law. It has no randomness, no end-of-text, no
cache and no sampling parameters; `draw` turns its law into an outcome.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from specproof.errors import SpecproofError, unknown
from specproof.rules import parameters as p
from specproof.rules.rule import Rule
from specproof.types import Drafter, Drawn

__all__ = ["RULES", "Rule", "admit", "choose_rule", "find_rule", "sound_rules"]

ANY_DRAW: tuple[Drawn, ...] = ("iid", "without_replacement", "top_and_one", "point")
CHAIN_DRAW: tuple[Drawn, ...] = ("iid", "point")
TREE_DRAW: tuple[Drawn, ...] = ("iid", "without_replacement")

RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule("rejection", True, CHAIN_DRAW, False, "Leviathan et al. 2023, 2.3; Chen et al. 2023, alg. 2"),
        Rule("block", True, CHAIN_DRAW, False, "Sun et al. 2024 (2403.10444), alg. 2", ("rejection",)),
        Rule("walk", True, ANY_DRAW, True, "Miao et al. 2023 (2305.09781), naive sampling; EAGLE-2 trees"),
        Rule("siblings", True, TREE_DRAW, True, "Miao et al. 2023, alg. 2; Li et al. 2024, A.2", ("rejection",)),
        # On trees it may accept a little less than `siblings`, see its docstring.
        Rule(
            "traversal", True, (*TREE_DRAW, "point"), True, "Weng et al. 2025 (2505.12398)", ("block", "rejection")
        ),
        Rule("kseq", True, ("iid",), True, "Sun et al. 2023 (2310.15141), K-SEQ", shape="parallel"),
        Rule(
            "transport", True, TREE_DRAW, True, "Sun et al. 2023 (2310.15141); Khisti et al. 2024; Hu et al. 2025"
        ),
        Rule("hu", True, ("top_and_one",), True, "Hu et al. 2025 (2502.18779), greedy construction"),
        Rule("multipath", True, ("iid",), True, "Thomas & Pal 2026 (2602.16961)", shape="even"),
        Rule("coupling", True, ANY_DRAW, True, "Daliri et al. 2024 (2408.07978)", coupled=True),
        Rule("spec_rl_exact", True, CHAIN_DRAW, False, "SPEC-RL 2025 (2509.23232), with the residual"),
        # Lossy: an engine takes these only where asked to.
        Rule("lenience", False, CHAIN_DRAW, False, "Leviathan et al. 2023, A.5", parameters=(p.SHARE,)),
        Rule("typical", False, ANY_DRAW, True, "Cai et al. 2024 (2401.10774)", parameters=(p.EPSILON, p.DELTA)),
        Rule("mars", False, ANY_DRAW, True, "MARS 2026 (2601.15498)", parameters=(p.THETA, p.PEAK)),
        Rule("threshold", False, ("point",), True, "SGLang tree kernel", parameters=(p.SINGLE, p.ACCUMULATED)),
        Rule("spec_rl", False, CHAIN_DRAW, False, "SPEC-RL 2025 (2509.23232)", parameters=(p.FACTOR,)),
        # For audits only: one needs rows that no backend returns, the other is unsound.
        Rule("dropmatch", False, CHAIN_DRAW, False, "DropMatch 2026 (2603.03333)", usable=False),
        Rule(
            "hsd_published",
            False,
            CHAIN_DRAW,
            False,
            "HSD 2026 (2601.05724), its code",
            usable=False,
            refuted=True,
        ),
    )
}


def sound_rules() -> list[Rule]:
    """The rules that an engine may use unasked: lossless and usable."""
    return [rule for rule in RULES.values() if rule.lossless and rule.usable]


def find_rule(name: str) -> Rule:
    """The rule of that name; numbers behind a colon configure it: "lenience:0.5", "typical:0.09,0.3".

    Raises:
        SpecproofError: no such rule, or a number that it does not take.
    """
    key, colon, text = name.partition(":")
    if key not in RULES:
        raise unknown("rule", key, ["auto", *RULES])
    rule = RULES[key]
    if not colon:
        return rule
    names = [parameter.name for parameter in rule.parameters]
    texts = text.split(",")
    if len(texts) > len(names):
        form = f"give at most {key}:{','.join(names).upper()}" if names else f"give {key!r}"
        raise SpecproofError(f"rule {name!r} has {len(texts)} values and {key!r} takes {len(names)}; {form}")
    values = tuple(_number(name, text) for text in texts)
    for parameter, value in zip(rule.parameters, values, strict=False):
        parameter.check(value)
    return replace(rule, values=values)


def _number(name: str, text: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError) as error:
        raise SpecproofError(f"rule {name!r}: {text!r} is no number; give one like 0.5 or 1/2") from error


def choose_rule(name: str, drafter: Drafter, *, allow_lossy: bool = False) -> Rule:
    """The rule of that name, or for "auto" the one that accepts most of what the drafter draws.

    Args:
        name: "auto", or as for `find_rule`.
        drafter: whose drafts it will judge.
        allow_lossy: whether a rule that changes the target's law may be chosen.

    Raises:
        SpecproofError: see `find_rule` and `admit`.
    """
    if name == "auto":
        # The target walk is optimal for point drafts. On chains the coupling is the same walk, and makes the
        # text a function of seed and target, whatever was drafted. Block verification is optimal for sampled
        # chains; traversal is block verification on trees, and takes a greedy text's points too.
        sampled = "block" if drafter.drawn == "iid" and drafter.chains else "traversal"
        point = "coupling" if drafter.chains else "walk"
        return RULES[{"point": point, "top_and_one": "hu"}.get(drafter.drawn, sampled)]
    rule = find_rule(name)
    admit(rule, drafter, allow_lossy=allow_lossy)
    return rule


def admit(rule: Rule, drafter: Drafter, *, allow_lossy: bool = False) -> None:
    """Raise if an engine must not use the rule: unusable, lossy and not asked for, or wrong for the drafter."""
    sound = ", ".join(rule.name for rule in sound_rules())
    if not rule.usable:
        raise SpecproofError(
            f"rule {rule.name!r} is for audits only, no engine can use it; choose one of: {sound}"
        )
    if not rule.lossless and not allow_lossy:
        raise SpecproofError(
            f"rule {rule.name!r} is lossy: its texts do not follow the target's law; allow that with "
            f"allow_lossy=True (--allow-lossy), or choose a lossless rule: {sound}"
        )
    rule.check(drafter.drawn, drafter.chains)
