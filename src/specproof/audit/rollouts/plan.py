"""What an audit of rollouts will do, written down before the first token is looked at."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from specproof.audit.answer import split_alpha
from specproof.audit.white.evidence import Mixture
from specproof.audit.white.plan import Plan
from specproof.errors import SpecproofError

BETS, STALE = "bets on the tokens", "bets on the stale checkpoint"
# What numbers a file's log-probabilities can be.
CONVENTIONS = {
    "folded": "the law that tokens are drawn from, after penalties, temperature and filters",
    "tempered": "log softmax(logits / temperature)",
    "raw": "log softmax(logits)",
    "penalised": "log softmax(logits after penalties and bans), before temperature and filters",
    "scaled": "log softmax(logits), divided by the temperature afterwards: no law, its exp does not sum to 1",
}
ANY = "any"


@dataclass(frozen=True)
class RolloutPlan:
    """The choices of a run.

    Attributes:
        alpha: rollouts of the policy are called biased at most this often.
        detect: a total variation; a file that would not have shown a known fault of this size is inconclusive.
        seed: of the noise inside tokens.
        tokens: most tokens to look at; texts are taken whole, in the order of prompt and sample.
        logprobs: the convention that the file's `logprobs` must have, or "any" for any that is known.
        plain: the engine did not speculate, whatever the file says or leaves out.
    """

    alpha: float = 1e-3
    detect: float = 0.1
    seed: int = 0
    tokens: int = 1 << 20
    logprobs: str = ANY
    plain: bool = False

    def __post_init__(self) -> None:
        def need(ok: bool, name: str, allowed: str) -> None:
            if not ok:
                raise SpecproofError(f"{name}={getattr(self, name)!r} is not allowed: give {allowed}")

        need(0 < self.alpha < 1, "alpha", "a rate between 0 and 1, such as 0.001")
        need(0 < self.detect < 1, "detect", "a total variation between 0 and 1")
        need(0 <= self.seed < 2**64, "seed", "a whole number in [0, 2**64)")
        need(self.tokens >= 1, "tokens", "a whole number >= 1")
        need(self.logprobs in (ANY, *CONVENTIONS), "logprobs", f"one of {ANY}, {', '.join(CONVENTIONS)}")

    def levels(self, stale: bool) -> dict[str, float]:
        """The rate of false alarms of each test; together they are alpha."""
        return split_alpha(self.alpha, {BETS: 0.5, STALE: 0.5} if stale else {BETS: 1.0})

    def bets(self, name: str, stale: bool) -> Plan:
        """The part of alpha that a test has, as the plan of a side of an audit."""
        return Plan(self.levels(stale)[name], detect=self.detect, seed=self.seed, draws=0)

    def described(self, mixtures: dict[str, Mixture], setting: dict[str, Any]) -> dict[str, Any]:
        """Everything that was fixed, for the hash."""
        stale = STALE in mixtures
        bets = {name: mixture.described() for name, mixture in mixtures.items()}
        return {"plan": asdict(self), "levels": self.levels(stale), "mixtures": bets, "setting": setting}
