"""Texts of transformers' `generate` with speculation and without: scored, bet on, and some prefixes repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from specproof.audit.generate.watch import Watched
from specproof.audit.generate.ways import Way
from specproof.audit.white.contexts import Prefixes, informative
from specproof.audit.white.draws import Draws, PanelResult
from specproof.audit.white.emission import UNDRAFTED
from specproof.audit.white.evidence import WITH_DRAFT, WITHOUT_DRAFT, Mixture
from specproof.audit.white.forcing import Conditions, Reference, Scored, ends_right, reference_for, score
from specproof.audit.white.foresight import Foresight, foresee
from specproof.audit.white.ledger import Ledger, measure
from specproof.audit.white.near_tie import margin_for
from specproof.audit.white.plan import BETS, PANEL, Plan
from specproof.audit.white.planner import Planner
from specproof.audit.white.record import Places
from specproof.audit.white.side import Side
from specproof.backends.hf import HFBackend
from specproof.engine.engine import Engine
from specproof.engine.loading import end_tokens
from specproof.errors import SpecproofError
from specproof.types import SamplingParams, TokenSequence

PLAIN, SPECULATIVE, PANEL_SPECULATIVE, PANEL_PLAIN = 0, 1, 2, 3
LEDGER_TEXTS, POWER_ROWS = 4, 128


class Panel(NamedTuple):
    """The panel: its draws, what they came to, the same without speculation after an alarm, and known faults."""

    draws: Draws
    result: PanelResult
    control: PanelResult | None
    foreseen: list[Foresight]


class Text(NamedTuple):
    """A finished text: number of its prompt, the sequence before its first token, its tokens."""

    prompt: int
    start: TokenSequence
    output: list[int]


@dataclass
class GenerateAudit:
    """An audit under way.

    Attributes:
        model, tokenizer: transformers'.
        way: how it speculates.
        prompts, params, plan: what is audited, and how.
        announce: told how it goes.
        ledger: what rounding does; measured on the first texts.
        prefixes: what the panel repeats; chosen from texts without speculation.
        misended, texts: how many texts with speculation did not end as they should, and how many there were.
        counts: what is drafted and accepted, while it speculates.
    """

    model: Any
    tokenizer: Any
    way: Way
    prompts: Sequence[Sequence[int]]
    params: SamplingParams
    plan: Plan
    announce: Callable[[str], None]
    ledger: Ledger = field(default_factory=Ledger.empty)
    prefixes: list[list[int]] = field(default_factory=list)
    misended: int = 0
    texts: int = 0
    counts: Watched = field(default_factory=Watched)

    def __post_init__(self) -> None:
        self.ends = tuple(end_tokens(self.model, self.tokenizer)) if self.tokenizer is not None else ()
        self.engine = Engine(HFBackend(self.model), "none", tokenizer=self.tokenizer, eos=self.ends)
        self.reference: Reference = reference_for(self.engine.target)

    @property
    def greedy(self) -> bool:
        """Whether temperature is 0."""
        return self.params.temperature == 0

    @property
    def mixture(self) -> Mixture:
        """The bets; where drafts begin is not known, so that there is one stratum."""
        arms = WITHOUT_DRAFT if self.way.rows is None else WITH_DRAFT
        return Mixture(arms, everywhere=0.95, by_stratum=0.0, serial=0.025, repeats=0.025)

    def start(self, prompt: Sequence[int], params: SamplingParams) -> TokenSequence:
        """A sequence before its first token."""
        request = self.engine.requests(list(prompt), params)[0]
        request.read(len(request.unread))
        return request.sequence

    def text(self, prompt: int, prompts: Sequence[Sequence[int]], params: SamplingParams, way: Way | None) -> Text:
        """One text of `generate`; the parameters hold its seed, torch's own state is left as it was."""
        start = self.start(prompts[prompt], params)
        ids = torch.tensor([start.tokens], device=self.model.device)
        options = {} if way is None else dict(way.options)
        self.counts.forget()
        with torch.random.fork_rng():
            torch.manual_seed(params.seed or 0)
            made = self.model.generate(
                ids, attention_mask=torch.ones_like(ids), **_arguments(params, self.ends), **options
            )
        tokens = made if isinstance(made, torch.Tensor) else made.sequences
        if way is not None and (said := getattr(made, "statistics", None)):
            self.counts.told = (said[0].drafted, said[0].accepted)
        return Text(prompt, start, tokens[0, ids.shape[1] :].tolist())

    def running(self, use: int, way: Way | None) -> Iterator[Text]:
        """Texts in turn of all prompts, until there are as many tokens as planned."""
        most = self.plan.control if use == PLAIN else self.plan.tokens
        made = number = 0
        seeds = self.plan.seeds(use, most)
        while made < most:
            text = self.text(
                number % len(self.prompts), self.prompts, replace(self.params, seed=seeds[number]), way
            )
            if not text.output:
                raise SpecproofError(f"generate gave no token after prompt {text.prompt}; give another --prompt")
            number, made = number + 1, made + len(text.output)
            yield text

    def places(self, text: Text) -> Places | None:
        """What its tokens were drafted from, as far as that is known."""
        rows = {} if self.way.rows is None else self.way.rows(text.start, text.output)
        return Places(np.full(len(text.output), UNDRAFTED), rows, len(rows))

    def scored(self, text: Text, noise: np.random.Generator, places: Places | None = None) -> list[Scored]:
        """A text against the model's rows."""
        logits = self.reference(text.start.tokens + text.output, len(text.start.tokens))
        inside, margin = noise.random(len(text.output)), margin_for(self.ledger.spread)
        return score(text.start, text.output, logits, Conditions(places, inside, margin))

    def control(self) -> Side:
        """Speculation off; measures the ledger and chooses prefixes on the way."""
        texts = list(self.running(PLAIN, None))
        some = [(text.start, text.output) for text in texts[:LEDGER_TEXTS]]
        self.ledger = measure(HFBackend(self.model), self.reference, some)
        side = Side(self.plan, self.ledger, self.greedy, Mixture.plain(WITHOUT_DRAFT))
        noise = np.random.default_rng((self.plan.seed, PLAIN))
        for text in texts:
            portions = self.scored(text, noise)
            side.take(text.prompt, text.output, portions)
            if self.plan.draws and portions and len(self.prefixes) < self.plan.prefixes:
                often = informative(portions[0].emissions.target, self.plan.draws)
                prefix = text.start.tokens + text.output[: int(often.argmax()) if len(often) else 0]
                if prefix not in self.prefixes:
                    self.prefixes.append(prefix)
        return side

    def speculate(self) -> tuple[Side, Planner]:
        """Speculation on, until decided or out of tokens."""
        plan = self.plan
        side = Side(plan, self.ledger, self.greedy, self.mixture)
        planner = Planner(plan.levels[BETS], self.mixture)
        noise = np.random.default_rng((plan.seed, SPECULATIVE))
        stride, ahead = max(1, plan.tokens // POWER_ROWS), 0
        for text in self.running(SPECULATIVE, self.way):
            self.count(text)
            portions = self.scored(text, noise, self.places(text))
            side.take(text.prompt, text.output, portions)
            for portion in portions if not self.greedy else ():
                planner.add(portion.emissions.some(slice(ahead, None, stride)))
                ahead = (ahead - len(portion.emissions)) % stride
            if self.texts % plan.at_once == 0:
                self.announce(side.progress)
            if side.decided or self.misended:
                break
        return side, planner

    def count(self, text: Text) -> None:
        """Count a text with speculation, and whether it ended where it should."""
        ended = "stop" if text.output and text.output[-1] in self.ends else "length"
        self.texts += 1
        self.counts.text(len(text.output))
        self.misended += not ends_right(text.start, text.output, ended, self.engine.target.context)

    def draws(self, prefixes: Prefixes, use: int, way: Way | None) -> Draws:
        """Texts drawn after the repeated prefixes."""
        params = replace(self.params, max_tokens=self.plan.depth)
        params = replace(params, min_tokens=min(params.min_tokens, self.plan.depth))
        seeds = iter(self.plan.seeds(use, len(self.prefixes) * self.plan.draws))
        draws = Draws(prefixes)
        for number in range(len(self.prefixes)):
            for _ in range(self.plan.draws):
                text = self.text(number, self.prefixes, replace(params, seed=next(seeds)), way)
                if way is None:
                    draws.take(number, text.output)
                else:
                    self.count(text)
                    draws.take(number, text.output, self.places(text))
        return draws

    def panel(self) -> Panel:
        """Draws after repeated prefixes; after an alarm without speculation as well."""
        params = replace(self.params, max_tokens=self.plan.depth)
        starts = [self.start(prefix, replace(params, min_tokens=0)) for prefix in self.prefixes]
        prefixes = Prefixes(starts, self.reference, self.plan.draws, self.plan.depth)
        prefixes.score()
        self.announce(f"{len(starts)} repeated prefixes, {len(prefixes.contexts)} contexts")
        draws = self.draws(prefixes, PANEL_SPECULATIVE, self.way)
        result, control = draws.judge(self.ledger, self.plan.seed), None
        if result.convicts(self.plan.levels):
            control = self.draws(prefixes, PANEL_PLAIN, None).judge(self.ledger, self.plan.seed)
        return Panel(draws, result, control, foresee(draws, self.plan.levels[PANEL]))


def _arguments(params: SamplingParams, ends: Sequence[int]) -> dict[str, Any]:
    """The arguments of `generate` that mean what the parameters mean."""
    asked: dict[str, Any] = {"max_new_tokens": params.max_tokens, "repetition_penalty": params.repetition_penalty}
    asked |= {"eos_token_id": list(ends) or None, "pad_token_id": ends[0] if ends else 0}
    if params.min_tokens:
        asked["min_new_tokens"] = params.min_tokens
    if params.temperature == 0:
        return asked | {"do_sample": False}
    asked |= {"do_sample": True, "temperature": params.temperature, "top_k": params.top_k, "top_p": params.top_p}
    return asked | ({"min_p": params.min_p} if params.min_p else {})
