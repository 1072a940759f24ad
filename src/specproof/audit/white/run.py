"""Audit of our engine on a real model: run it, score what came out, bet, repeat some prefixes, answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from specproof.audit.white.contexts import Prefixes, informative
from specproof.audit.white.draws import Draws, PanelResult
from specproof.audit.white.evidence import WITHOUT_DRAFT, Mixture
from specproof.audit.white.fit import best_fit
from specproof.audit.white.forcing import Conditions, Reference, Scored, reference_for, score
from specproof.audit.white.foresight import Foresight, foresee
from specproof.audit.white.ledger import Ledger, measure
from specproof.audit.white.near_tie import margin_for
from specproof.audit.white.picture import bars, tracks
from specproof.audit.white.plan import BETS, PANEL, Plan, digest
from specproof.audit.white.planner import Planner, Prediction
from specproof.audit.white.record import Places, recorded
from specproof.audit.white.result import WhiteResult
from specproof.audit.white.side import Side
from specproof.audit.white.texts import Counts, Text, begun, repeated_texts, running
from specproof.audit.white.verdict import Findings, decide
from specproof.backends.hf import HFBackend
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.types import Backend, SamplingParams

PLAIN, SPECULATIVE, PANEL_SPECULATIVE, PANEL_PLAIN = 0, 1, 2, 3
# Texts on which rounding is measured, and about how many emissions power is computed over.
LEDGER_TEXTS, POWER_ROWS = 4, 128


class Panel(NamedTuple):
    """The panel of a run: its draws, what they came to, and without speculation after an alarm."""

    draws: Draws
    result: PanelResult
    control: PanelResult | None
    foreseen: list[Foresight]


@dataclass
class Audit:
    """An audit under way.

    Attributes:
        engine, prompts, params, plan: what is audited, and how.
        reference: scores texts.
        announce: told how it goes.
        ledger: what rounding does; measured on the first texts.
        counts: of everything that the engine drafted.
        prefixes: what the panel repeats; chosen from texts without speculation.
    """

    engine: Engine
    prompts: Sequence[Sequence[int]]
    params: SamplingParams
    plan: Plan
    reference: Reference
    announce: Callable[[str], None]
    ledger: Ledger = field(default_factory=Ledger.empty)
    counts: Counts = field(default_factory=Counts)
    prefixes: list[list[int]] = field(default_factory=list)

    @property
    def greedy(self) -> bool:
        """Whether temperature is 0."""
        return self.params.temperature == 0

    @property
    def plain(self) -> Engine:
        """The engine without speculation."""
        inner = self.engine
        return Engine(inner.target, "none", tokenizer=inner.tokenizer, eos=inner.eos, max_batch=inner.max_batch)

    def scored(self, text: Text, noise: np.random.Generator, places: Places | None = None) -> list[Scored]:
        """A text against the reference."""
        logits = self.reference(text.start.tokens + text.output, len(text.start.tokens))
        inside, margin = noise.random(len(text.output)), margin_for(self.ledger.spread)
        return score(text.start, text.output, logits, Conditions(places, inside, margin))

    def control(self, fresh: Backend | None) -> Side:
        """Speculation off; measures the ledger and chooses prefixes on the way."""
        plan = self.plan
        texts = list(running(self.plain, self.prompts, self.params, plan, PLAIN))
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

    def speculate(self, mixture: Mixture) -> tuple[Side, Planner]:
        """Speculation on, until decided or out of tokens."""
        plan, counts = self.plan, self.counts
        side, planner = Side(plan, self.ledger, self.greedy, mixture), Planner(plan.levels[BETS], mixture)
        noise = np.random.default_rng((plan.seed, SPECULATIVE))
        stride = max(1, plan.tokens // POWER_ROWS)
        ahead = 0
        with recorded(self.engine) as recorder:
            for text in running(self.engine, self.prompts, self.params, plan, SPECULATIVE):
                counts.add(text, self.engine.target.context)
                portions = self.scored(text, noise, recorder.take(text.request.sequence))
                side.take(text.prompt, text.output, portions)
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
        params = replace(self.params, max_tokens=self.plan.depth)
        params = replace(params, min_tokens=min(params.min_tokens, self.plan.depth))
        numbers = range(len(self.prefixes))
        starts = [begun(self.engine, self.prefixes, number, params).start for number in numbers]
        prefixes = Prefixes(starts, self.reference, self.plan.draws, self.plan.depth)
        prefixes.score()
        self.announce(f"{len(starts)} repeated prefixes, {len(prefixes.contexts)} contexts")
        draws = self._drawn(prefixes, params, PANEL_SPECULATIVE)
        result, control = draws.judge(self.ledger, self.plan.seed), None
        if result.convicts(self.plan.levels):
            control = self._drawn(prefixes, params, PANEL_PLAIN).judge(self.ledger, self.plan.seed)
        return Panel(draws, result, control, foresee(draws, self.plan.levels[PANEL]))

    def _drawn(self, prefixes: Prefixes, params: SamplingParams, use: int) -> Draws:
        draws = Draws(prefixes)
        if use == PANEL_PLAIN:
            for text in repeated_texts(self.plain, self.prefixes, params, self.plan, use):
                draws.take(text.prompt, text.output)
            return draws
        with recorded(self.engine) as recorder:
            for text in repeated_texts(self.engine, self.prefixes, params, self.plan, use):
                self.counts.add(text, self.engine.target.context)
                draws.take(text.prompt, text.output, recorder.take(text.request.sequence))
        return draws


def audit_white(
    engine: Engine,
    prompts: Sequence[Sequence[int]],
    params: SamplingParams,
    plan: Plan | None = None,
    *,
    reference: Reference | None = None,
    fresh: Backend | None = None,
    announce: Callable[[str], None] | None = None,
    replay: str = "",
) -> WhiteResult:
    """Audit an engine's texts against its target's rows, which are computed again from the tokens alone.

    Args:
        engine: as it is used; its noise must be that of production.
        prompts: tokens of each; they are taken in turn, again and again.
        params: of every request; seeds and lengths are the plan's.
        plan: sizes and rates.
        reference: scores a text; by default the target's model in one plain pass.
        fresh: another backend for the target's model, for the ledger of rounding; made where it can be.
        announce: told the plan's hash before the first token, and how it goes.
        replay: command for the report.

    Raises:
        SpecproofError: no prompts, parameters that an audit does not honour, or a target that cannot be scored.
    """
    plan = plan or Plan()
    tell = announce or (lambda _: None)
    if fresh is None and reference is None and isinstance(engine.target, HFBackend):
        fresh = HFBackend(engine.target.model, engine.target.context)
    audit = Audit(
        engine, prompts, _checked(params, prompts, plan), plan, reference or reference_for(engine.target), tell
    )
    mixture, setting = Mixture(), _setting(audit)
    described = digest(plan.described(mixture, setting))
    tell(f"plan {described}: up to {plan.tokens} tokens, alpha {plan.alpha:g}")
    control = audit.control(fresh)
    tell(f"{control.tokens} tokens without speculation: p-value {control.arms().pvalue:.2g}; {audit.ledger}")
    side, planner = audit.speculate(mixture)
    panel = audit.panel() if plan.draws and not audit.greedy and not audit.counts.misended else None
    found = _findings(audit, control, side, planner, panel)
    verdict, reason = decide(found, plan)
    return WhiteResult(verdict, reason, setting, plan, described, found, replay)


def _findings(audit: Audit, control: Side, side: Side, planner: Planner, panel: Panel | None) -> Findings:
    """Everything that was seen."""
    counts = audit.counts
    tv, fault = None, ""
    if not audit.greedy and side.arms().convicts(audit.plan.barrier):
        tv, fault = best_fit(side.evidence, planner)
    elif panel is not None and panel.result.convicts(audit.plan.levels):
        best = max(panel.foreseen, key=lambda each: each.fit, default=None)
        tv, fault = (
            panel.result.tv,
            best.prediction.fault if best is not None and best.fit > 0 else "no known fault",
        )
    return Findings(
        bets=side.arms(),
        control=control.arms(),
        ledger=audit.ledger,
        drafted=counts.drafted,
        accepted=counts.accepted,
        texts=counts.texts,
        misended=counts.misended,
        tv=tv,
        fault=fault,
        predictions=_sooner(planner.predictions(side.tokens) if planner.seen else (), panel),
        greedy=side.greedy(),
        greedy_control=control.greedy(),
        notes=tuple(counts.notes),
        panel=panel.result if panel is not None else None,
        panel_control=panel.control if panel is not None else None,
        tracks=tracks(side.evidence) if not audit.greedy else (),
        bars=bars(panel.draws, audit.engine.tokenizer) if panel is not None else (),
    )


def _sooner(bets: Sequence[Prediction], panel: Panel | None) -> tuple[Prediction, ...]:
    """Of each family, what bets or panel would have shown first: the smaller detectable fault."""
    found = {prediction.fault: prediction for prediction in bets}
    for each in panel.foreseen if panel is not None else ():
        other = found.get(each.prediction.fault)
        if other is None or each.prediction.detectable < other.detectable:
            found[each.prediction.fault] = each.prediction
    return tuple(found.values())


def _checked(params: SamplingParams, prompts: Sequence[Sequence[int]], plan: Plan) -> SamplingParams:
    """Parameters with the plan's length.

    Raises:
        SpecproofError: no prompts, or parameters that an audit does not honour.
    """
    if not prompts:
        raise SpecproofError("no prompts were given; give at least one")
    for name, needed in (("n", 1), ("logprobs", None), ("prompt_logprobs", None)):
        if getattr(params, name) != needed:
            raise SpecproofError(f"{name}={getattr(params, name)} does nothing in an audit: leave it out")
    return replace(params, max_tokens=plan.length, min_tokens=min(params.min_tokens, plan.length))


def _setting(audit: Audit) -> dict[str, Any]:
    """What is audited, for the plan's hash and the report."""
    drafter = type(audit.engine.drafter).__name__
    prompts = sha256(repr([list(prompt) for prompt in audit.prompts]).encode()).hexdigest()[:16]
    return {
        "drafter": drafter,
        "rule": audit.engine.rule_name,
        "params": repr(audit.params),
        "prompts": f"{len(audit.prompts)}, {prompts}",
        "budget": audit.engine.budget,
    }
