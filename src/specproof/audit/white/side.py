"""One side of an audit, with speculation or without: what its scored tokens say, gathered as they come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np

from specproof.audit.white.arms import repeated
from specproof.audit.white.evidence import Evidence, Mixture
from specproof.audit.white.forcing import Scored
from specproof.audit.white.ledger import Ledger
from specproof.audit.white.near_tie import NearTies, near_ties
from specproof.audit.white.plan import Plan
from specproof.audit.white.tolerant import tolerant_arms
from specproof.audit.white.verdict import Arms


class Side:
    """Bets, or at temperature 0 gaps.

    Args:
        plan: the rates.
        ledger: what rounding does; without any there is nothing to tolerate.
        greedy: whether temperature is 0, where there is nothing to bet on.
        mixture: how capital is divided.
    """

    def __init__(self, plan: Plan, ledger: Ledger, greedy: bool, mixture: Mixture) -> None:
        self.plan, self.ledger, self.is_greedy = plan, ledger, greedy
        self.evidence = Evidence(mixture)
        tolerant = Mixture.plain(tolerant_arms(ledger.largest))
        self.tolerant = Evidence(tolerant) if ledger.largest > 0 else None
        self.tokens = 0
        self.edge = 0
        self._gaps: list[np.ndarray] = []
        self._runners_up: list[np.ndarray] = []
        self._earlier: dict[int, list[tuple[tuple[Hashable, ...], float]]] = defaultdict(list)

    def take(
        self, prompt: int, text: Sequence[Hashable], portions: Sequence[Scored], told: float | None = None
    ) -> None:
        """Take in a text of a prompt, scored; `told` is its log-probability, if that is not that of its rows."""
        self.tokens += len(text)
        if self.is_greedy:
            self._gaps += [portion.gaps for portion in portions]
            self._runners_up += [portion.runners_up for portion in portions]
            return
        chance = 0.0
        for portion in portions:
            self.edge += portion.edge
            self.evidence.play(portion.emissions)
            if self.tolerant is not None:
                self.tolerant.play(portion.emissions)
            with np.errstate(divide="ignore"):
                chance += float(np.log(portion.emissions.mass).sum())
        chance = chance if told is None else told
        # A text that lost a token at the edge of a filter has no probability to compare.
        if np.isfinite(chance) and not any(portion.edge for portion in portions):
            earlier = self._earlier[prompt]
            self.evidence.play_repeat(repeated(tuple(text), earlier))
            earlier.append((tuple(text), chance))

    @property
    def decided(self) -> bool:
        """Whether more tokens cannot change that something is wrong."""
        if self.is_greedy:
            verdict = self.greedy()
            return verdict is not None and not verdict.ok
        arms = self.arms()
        return arms.convicts(self.plan.barrier) and arms.beyond_rounding(self.plan.barrier)

    @property
    def progress(self) -> str:
        """How far it is, in words; at temperature 0 there is no capital to tell of."""
        return f"{self.tokens} tokens" + ("" if self.is_greedy else f": log capital {self.evidence.log_e:+.1f}")

    def arms(self) -> Arms:
        """What the bets came to."""
        return Arms(
            tokens=self.evidence.tokens,
            log_e=self.evidence.log_e,
            highest=self.evidence.highest,
            tolerant=self.tolerant.highest if self.tolerant is not None else None,
            forbidden=self.evidence.forbidden,
            edge=self.edge,
            by_arm=self.evidence.by_arm(),
            by_stratum=self.evidence.by_stratum(),
        )

    def greedy(self) -> NearTies | None:
        """What the gaps came to; None at other temperatures."""
        if not self._gaps:
            return None
        return near_ties(np.concatenate(self._gaps), np.concatenate(self._runners_up), self.ledger.spread)
