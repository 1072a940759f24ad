"""Verification rules: RULES, the one table, and how a rule refuses what it is not lossless for.

A rule is a pure function from target rows and a draft to a law. It has no randomness, no end-of-text, no
cache and no sampling parameters; `draw` turns its law into an outcome. Importing this table loads no torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from specproof.errors import SpecproofError, unknown
from specproof.rules.parameters import (
    ACCUMULATED,
    DELTA,
    EPSILON,
    FACTOR,
    PEAK,
    SHARE,
    SINGLE,
    THETA,
    Parameter,
)
from specproof.types import Draft, Drafter, Drawn, Law

if TYPE_CHECKING:
    from torch import Tensor

ANY_DRAW: tuple[Drawn, ...] = ("iid", "without_replacement", "point")
CHAIN_DRAW: tuple[Drawn, ...] = ("iid", "point")


@dataclass(frozen=True)
class Rule:
    """An entry of RULES; calling it checks the draft and returns the law.

    Attributes:
        name: the key in RULES; also the module that holds the torch rule, and its specification in `spec`.
        lossless: whether the output law is the target's for every draft that it accepts.
        draws: ways of drawing for which that holds.
        trees: whether it takes trees; otherwise chains only.
        paper: where it comes from.
        dominates: rules that never accept more in expectation on the same draft (all exact, see `audit.exact`).
        usable: whether an engine may use it; false for published rules that are unsound, or need what no
            engine has.
        parameters: numbers that configure it, in the order in which a name gives them ("typical:0.09,0.3").
        values: of the first of these parameters; the others have their defaults.
        coupled: whether an engine decides the target rows with shared noise first (see `rules.coupling`).
    """

    name: str
    lossless: bool
    draws: tuple[Drawn, ...]
    trees: bool
    paper: str
    dominates: tuple[str, ...] = ()
    usable: bool = True
    parameters: tuple[Parameter, ...] = ()
    values: tuple[Fraction, ...] = ()
    coupled: bool = False

    @property
    def label(self) -> str:
        """The name that `find_rule` takes, values included."""
        # Shortest decimals; a fraction stays one where it is not a decimal.
        texts = [repr(float(v)) if Fraction(repr(float(v))) == v else str(v) for v in self.values]
        return ":".join([self.name, ",".join(texts)]) if texts else self.name

    def __call__(self, target: Tensor, draft: Draft) -> Law:
        """The law of one verification; target rows are [B, N+1, V]."""
        self.check(draft.drawn, all(tree.is_chain for tree in draft.trees))
        if draft.tokens.shape[1] == 0:
            # Every rule's law of an empty draft, at no cost: plain decoding goes through here.
            return Law(target.new_ones(len(target), 1), lambda at: target[:, 0])
        law: Law = self.law(target, draft)
        return law

    @cached_property
    def law(self) -> Callable[[Tensor, Draft], Law]:
        """The batched torch rule, unchecked."""
        function = getattr(import_module(f"specproof.rules.{self.name}"), self.name)
        return partial(function, **self._settings(float)) if self.values else function

    @cached_property
    def spec(self) -> Callable[..., Any]:
        """The scalar specification over an abstract number (see `spec.numbers`)."""
        function = getattr(import_module(f"specproof.rules.spec.{self.name}"), self.name)
        return partial(function, **self._settings(Fraction)) if self.values else function

    def accepts(self, drawn: Drawn, chain: bool) -> bool:
        """Whether the rule is made for drafts that were drawn like this."""
        return drawn in self.draws and (chain or self.trees)

    def check(self, drawn: Drawn, chain: bool) -> None:
        """Raise unless the rule accepts such drafts; the error says which rules do."""
        if not self.accepts(drawn, chain):
            shape = "chains" if chain else "trees"
            fitting = ", ".join(rule.name for rule in sound_rules() if rule.accepts(drawn, chain)) or "none"
            raise SpecproofError(f"rule {self.name!r} does not take {drawn} {shape}; rules that do: {fitting}")

    def _settings(self, number: Callable[[Fraction], Any]) -> dict[str, Any]:
        """Keywords for the values that were given."""
        return {p.name: number(value) for p, value in zip(self.parameters, self.values, strict=False)}


RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule("rejection", True, CHAIN_DRAW, False, "Leviathan et al. 2023, 2.3; Chen et al. 2023, alg. 2"),
        Rule("block", True, CHAIN_DRAW, False, "Sun et al. 2024 (2403.10444), alg. 2", ("rejection",)),
        Rule("walk", True, ANY_DRAW, True, "Miao et al. 2023 (2305.09781), naive sampling; EAGLE-2 trees"),
        Rule("coupling", True, ANY_DRAW, True, "Daliri et al. 2024 (2408.07978)", coupled=True),
        Rule("spec_rl_exact", True, CHAIN_DRAW, False, "SPEC-RL 2025 (2509.23232), with the residual"),
        # Lossy: an engine takes these only where asked to.
        Rule("lenience", False, CHAIN_DRAW, False, "Leviathan et al. 2023, A.5", parameters=(SHARE,)),
        Rule("typical", False, ANY_DRAW, True, "Cai et al. 2024 (2401.10774)", parameters=(EPSILON, DELTA)),
        Rule("mars", False, ANY_DRAW, True, "MARS 2026 (2601.15498)", parameters=(THETA, PEAK)),
        Rule("threshold", False, ("point",), True, "SGLang tree kernel", parameters=(SINGLE, ACCUMULATED)),
        Rule("spec_rl", False, CHAIN_DRAW, False, "SPEC-RL 2025 (2509.23232)", parameters=(FACTOR,)),
        # For audits only: one needs rows that no backend returns, the other is unsound.
        Rule("dropmatch", False, CHAIN_DRAW, False, "DropMatch 2026 (2603.03333)", usable=False),
        Rule("hsd_published", False, CHAIN_DRAW, False, "HSD 2026 (2601.05724), its code", usable=False),
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
        # The target walk is optimal for point drafts, block verification for sampled chains.
        return RULES["block" if drafter.drawn == "iid" and drafter.chains else "walk"]
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
