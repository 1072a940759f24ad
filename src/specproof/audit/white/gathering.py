"""The parts of a statistical audit, whatever makes texts: a control, bets on running text, repeated prefixes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from specproof.audit.white.contexts import Prefixes, informative
from specproof.audit.white.draws import Draws
from specproof.audit.white.evidence import WITHOUT_DRAFT, Mixture
from specproof.audit.white.forcing import Conditions, Reference, Scored, score
from specproof.audit.white.foresight import foresee
from specproof.audit.white.ledger import Ledger, measure
from specproof.audit.white.near_tie import margin_for
from specproof.audit.white.plan import BETS, PANEL, Plan
from specproof.audit.white.planner import Planner
from specproof.audit.white.record import Places
from specproof.audit.white.side import Side
from specproof.audit.white.summary import Panel
from specproof.audit.white.texts import Counts
from specproof.types import Backend, SamplingParams, TokenSequence

# What texts are made for; each use has seeds of its own.
PLAIN, SPECULATIVE, PANEL_SPECULATIVE, PANEL_PLAIN = 0, 1, 2, 3
# Texts on which rounding is measured, and about how many emissions power is computed over.
LEDGER_TEXTS, POWER_ROWS = 4, 128


class Text(NamedTuple):
    """A finished text.

    Attributes:
        prompt: its number.
        start: the sequence before its first token.
        output: its tokens.
        places: where they stood in drafts, as far as that is known.
    """

    prompt: int
    start: TokenSequence
    output: list[int]
    places: Places | None = None


Texts = Generator[Text, None, None]


@dataclass
class Gathering(ABC):
    """An audit under way.

    Attributes:
        prompts, params, plan: what is audited, and how.
        reference: scores texts.
        announce: told how it goes.
        mixture: the bets on text with speculation.
        ledger: what rounding does; measured on the first texts.
        counts: of everything that was drafted.
        prefixes: what the panel repeats; chosen from texts without speculation.
    """

    prompts: Sequence[Sequence[int]]
    params: SamplingParams
    plan: Plan
    reference: Reference
    announce: Callable[[str], None]
    mixture: Mixture = field(default_factory=Mixture)
    ledger: Ledger = field(default_factory=Ledger.empty)
    counts: Counts = field(default_factory=Counts)
    prefixes: list[list[int]] = field(default_factory=list)

    @abstractmethod
    def start(self, prompt: Sequence[int], params: SamplingParams) -> TokenSequence:
        """A sequence before its first token."""

    @abstractmethod
    def running(self, use: int) -> Texts:
        """Texts in turn of all prompts until there are as many tokens as planned; with speculation all counted."""

    @abstractmethod
    def repeated(self, params: SamplingParams, use: int) -> Texts:
        """`draws` texts after every prefix; with speculation all counted."""

    @property
    def greedy(self) -> bool:
        """Whether temperature is 0."""
        return self.params.temperature == 0

    def scored(self, text: Text, noise: np.random.Generator) -> list[Scored]:
        """A text against the reference."""
        logits = self.reference(text.start.tokens + text.output, len(text.start.tokens))
        inside, margin = noise.random(len(text.output)), margin_for(self.ledger.spread)
        return score(text.start, text.output, logits, Conditions(text.places, inside, margin))

    def control(self, fresh: Backend | None) -> Side:
        """Speculation off; measures the ledger with a fresh backend and chooses prefixes on the way."""
        plan = self.plan
        texts = list(self.running(PLAIN))
        if fresh is not None:
            some = [(text.start, text.output) for text in texts[:LEDGER_TEXTS] if text.output]
            self.ledger = measure(fresh, self.reference, some)
        side = Side(plan, self.ledger, self.greedy, Mixture.plain(WITHOUT_DRAFT))
        noise = np.random.default_rng((plan.seed, PLAIN))
        for text in texts:
            portions = self.scored(text, noise)
            side.take(text.prompt, text.output, portions)
            if plan.draws and portions and len(self.prefixes) < plan.prefixes:
                often = informative(portions[0].emissions.target, plan.draws)
                prefix = text.start.tokens + text.output[: int(often.argmax()) if len(often) else 0]
                if prefix not in self.prefixes:
                    self.prefixes.append(prefix)
        return side

    def speculate(self) -> tuple[Side, Planner]:
        """Speculation on, until decided or out of tokens."""
        plan, counts = self.plan, self.counts
        side, planner = (
            Side(plan, self.ledger, self.greedy, self.mixture),
            Planner(plan.levels[BETS], self.mixture),
        )
        noise = np.random.default_rng((plan.seed, SPECULATIVE))
        stride, ahead = max(1, plan.tokens // POWER_ROWS), 0
        with closing(self.running(SPECULATIVE)) as texts:
            for text in texts:
                portions = self.scored(text, noise)
                side.take(text.prompt, text.output, portions)
                if text.places is not None:
                    counts.rows += len(text.places.rows)
                    counts.hidden += text.places.hidden
                for portion in portions if not self.greedy else ():
                    planner.add(portion.emissions.some(slice(ahead, None, stride)))
                    ahead = (ahead - len(portion.emissions)) % stride
                if counts.texts % plan.at_once == 0:
                    self.announce(side.progress)
                if side.decided or counts.misended:
                    break
        return side, planner

    def panel(self) -> Panel:
        """Draws after repeated prefixes; after an alarm without speculation as well."""
        plan = self.plan
        params = replace(self.params, max_tokens=plan.depth, min_tokens=min(self.params.min_tokens, plan.depth))
        starts = [self.start(prefix, params) for prefix in self.prefixes]
        prefixes = Prefixes(starts, self.reference, plan.draws, plan.depth)
        prefixes.score()
        self.announce(f"{len(starts)} repeated prefixes, {len(prefixes.contexts)} contexts")
        draws = self._drawn(prefixes, params, PANEL_SPECULATIVE)
        result, control = draws.judge(self.ledger, plan.seed), None
        if result.convicts(plan.levels):
            control = self._drawn(prefixes, params, PANEL_PLAIN).judge(self.ledger, plan.seed)
        return Panel(draws, result, control, foresee(draws, plan.levels[PANEL]))

    def _drawn(self, prefixes: Prefixes, params: SamplingParams, use: int) -> Draws:
        draws, before = Draws(prefixes), self.counts.drafted
        with closing(self.repeated(params, use)) as texts:
            for text in texts:
                draws.take(text.prompt, text.output, text.places)
        draws.exercised = self.counts.drafted > before
        return draws
