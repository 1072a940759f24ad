"""An arm's tokens against rows that are known: reported by the server, or computed by a model here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from specproof.audit.endpoint import coarse
from specproof.audit.endpoint.ask import Granted
from specproof.audit.endpoint.greedy import own_gaps
from specproof.audit.endpoint.local import Local
from specproof.audit.endpoint.plan import ARMS, EndpointPlan
from specproof.audit.endpoint.wire import Answer, Malformed
from specproof.audit.white.emission import Floats
from specproof.audit.white.evidence import Mixture
from specproof.audit.white.forcing import Scored
from specproof.audit.white.ledger import Ledger
from specproof.audit.white.near_tie import margin_for
from specproof.audit.white.planner import Planner
from specproof.audit.white.side import Side
from specproof.params import SamplingParams

# Emissions over which power is computed.
_POWER_ROWS = 128


class Text(NamedTuple):
    """A text as bets see it.

    Attributes:
        tokens: what was scored; two texts are the same if these are.
        portions: scored.
        chance: the text's log-probability, if it is not that of the rows.
    """

    tokens: tuple[int | str, ...]
    portions: list[Scored]
    chance: float | None


class Rows:
    """Where rows come from.

    Args:
        granted: what the server tells.
        params: what was asked for.
        local: a model here, if there is one.
        prompts: as they were asked.
    """

    def __init__(
        self, granted: Granted, params: SamplingParams, local: Local | None, prompts: Sequence[str]
    ) -> None:
        self.granted, self.local, self.prompts = granted, local, prompts
        self.params = replace(params, ignore_eos=params.ignore_eos or granted.endless)
        self._starts = [] if local is None else [local.start(local.prompt(p), self.params) for p in prompts]
        # Between reported laws and those of the model here; of that model alone, where no laws are reported.
        self.ledger, self.own = Ledger.empty(), Ledger.empty()

    @property
    def spread(self) -> float:
        """How far rounding moves a logit, as far as was seen."""
        return max(self.ledger.spread, self.own.spread)

    @property
    def words(self) -> str:
        """Where they come from, in words; empty if rows are not known."""
        if self.local is not None:
            return "the rows of --model and of drafts" if self.local.drafts else "the rows of --model"
        plain = SamplingParams(max_tokens=self.params.max_tokens, ignore_eos=self.params.ignore_eos)
        greedy = self.params.temperature == 0
        # Reported laws are those before temperature and filters, on most servers.
        told = self.granted.told > 0 and (greedy or replace(self.params, seed=None) == plain)
        return "the laws that the server reports" if told else ""

    def unit(self, name: str) -> str:
        """A unit of texts as a reader knows it: where tokens are told as numbers, the model's text of it."""
        if self.local is None or not self.granted.ids or not name.isdecimal():
            return name
        return repr(self.local.tokenizer.decode([int(name)]))[1:-1]

    @property
    def mixture(self) -> Mixture:
        """The bets that fit."""
        return coarse.MIXTURE if self.local is None else Mixture.unplaced(self.local.drafts)

    def score(self, prompt: int, answer: Answer, rng: np.random.Generator) -> Text:
        """A text against its rows.

        Raises:
            Malformed: the server does not tell what is needed.
        """
        if self.local is None:
            if answer.finish == "stop" and (answer.count is None or answer.count > len(answer.tokens)):
                raise Malformed("the law of the token that ended a text is not reported")
            emissions = coarse.emissions(answer, self.granted.told, rng)
            none = np.zeros(0)
            return Text(answer.tokens, [Scored(emissions, 0, none, none)], coarse.chance(answer))
        output = self.local.output(answer, self.params)
        portions = self.local.scored(
            self._starts[prompt],
            output,
            rng.random(len(output)),
            margin_for(self.spread),
            merged=not answer.ids,
        )
        return Text(tuple(output), portions, None)

    def gaps(self, prompt: int, answer: Answer) -> tuple[Floats, Floats]:
        """[n] of a text at temperature 0: how far tokens are from the likeliest, and how far the second is."""
        if self.local is None:
            return own_gaps(answer.rows)
        output = self.local.output(answer, self.params)
        portions = self.local.scored(
            self._starts[prompt], output, np.full(len(output), 0.5), 0.0, merged=not answer.ids
        )
        none = [np.zeros(0)]
        return (
            np.concatenate([portion.gaps for portion in portions] or none),
            np.concatenate([portion.runners_up for portion in portions] or none),
        )

    def measure(self, answers: Sequence[tuple[int, Answer]]) -> None:
        """Fill the ledger: reported laws of some texts against the model here, where there are both.

        Where none are reported, how the model here rounds is what is known: a server with the same weights rounds
        as well, and were it given no margin, its near-ties would count as faults.
        """
        if self.local is None:
            return
        if not self.granted.told:
            texts = [(self._starts[prompt], self.local.output(answer, self.params)) for prompt, answer in answers]
            if texts := [(start, output) for start, output in texts if output]:
                self.own = self.local.rounding(texts)
            return
        found = [self._apart(prompt, answer) for prompt, answer in answers if answer.rows]
        if not found:
            return
        # Some servers report laws before temperature and filters, some after: whichever is nearer is meant.
        both = np.concatenate(found, 2)
        away, spread = both[:, int(both[0].mean(1).argmin())]
        p99 = float(np.quantile(away, 0.99))
        self.ledger = Ledger(
            len(away), float(away.mean()), float(np.median(away)), p99, float(away.max()), float(spread.max())
        )

    def _apart(self, prompt: int, answer: Answer) -> Floats:
        """[2, 2, n] total variation of reported laws, and spread of logits, from raw rows and from folded ones."""
        assert self.local is not None
        output, start = self.local.output(answer, self.params)[: len(answer.rows)], self._starts[prompt]
        raw = self.local.raw(start, output)
        portions = self.local.scored(start, output, np.full(len(output), 0.5), 0.0, merged=False)
        folded = np.concatenate([portion.emissions.target for portion in portions])
        found = np.zeros((2, 2, len(output)))
        for at, row in enumerate(answer.rows[: len(output)]):
            cells = [self.local.meant(key) for key, _ in row.top]
            told = np.exp([value for _, value in row.top])
            for kind, law in enumerate((raw, folded)):
                own = np.array([law[at, cell].sum() for cell in cells])
                found[0, kind, at] = (np.abs(told - own).sum() + abs(told.sum() - own.sum())) / 2
                likely = (own > 1e-3) & (told > 0)
                moved = np.log(told[likely]) - np.log(own[likely])
                found[1, kind, at] = moved.std() if likely.sum() > 1 else 0.0
        return found


class Known:
    """Bets on both arms.

    Args:
        plan: sizes and rates.
        rows: where rows come from.
        most: tokens that an arm may have.
    """

    def __init__(self, plan: EndpointPlan, rows: Rows, most: int) -> None:
        self.plan, self.rows = plan, rows
        self.sides = {arm: Side(plan.bets, rows.ledger, False, rows.mixture) for arm in ARMS}
        self.planner = Planner(plan.bets.alpha, rows.mixture)
        self.trouble = ""
        self._noise = {arm: np.random.default_rng((plan.seed, at, 2)) for at, arm in enumerate(ARMS)}
        self._stride, self._ahead = max(1, most // _POWER_ROWS), 0

    def take(self, arm: str, prompt: int, answer: Answer) -> None:
        """Bet on a text."""
        if self.trouble or not self.rows.words:
            return
        try:
            text = self.rows.score(prompt, answer, self._noise[arm])
        except Malformed as error:
            self.trouble = str(error)
            return
        self.sides[arm].take(prompt, text.tokens, text.portions, text.chance)
        if arm == "on":
            for portion in text.portions:
                self.planner.add(portion.emissions.some(slice(self._ahead, None, self._stride)))
                self._ahead = (self._ahead - len(portion.emissions)) % self._stride
