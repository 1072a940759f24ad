"""Audit of our engine on a real model: run it, score what came out, bet, stop when decided."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from specproof.audit.white.evidence import WITHOUT_DRAFT, Mixture
from specproof.audit.white.fit import best_fit
from specproof.audit.white.forcing import Conditions, Reference, Scored, ends_right, reference_for, score
from specproof.audit.white.ledger import Ledger, measure
from specproof.audit.white.near_tie import margin_for
from specproof.audit.white.plan import Plan, digest
from specproof.audit.white.planner import Planner
from specproof.audit.white.record import Places, recorded
from specproof.audit.white.side import Side
from specproof.audit.white.verdict import Findings, WhiteResult, decide
from specproof.backends.hf import HFBackend
from specproof.engine.engine import Engine
from specproof.engine.requests import Request
from specproof.errors import SpecproofError
from specproof.types import Backend, SamplingParams, TokenSequence

PLAIN, SPECULATIVE = 0, 1
# Texts on which rounding is measured, and about how many emissions power is computed over.
LEDGER_TEXTS, POWER_ROWS = 4, 128


class Text(NamedTuple):
    """A finished text: number of its prompt, the sequence before its first token, the request."""

    prompt: int
    start: TokenSequence
    request: Request

    @property
    def output(self) -> list[int]:
        """Its tokens."""
        return self.request.sequence.output


@dataclass
class Counts:
    """What is counted while an engine speculates."""

    drafted: int = 0
    accepted: int = 0
    texts: int = 0
    misended: int = 0
    notes: dict[str, None] = field(default_factory=dict)

    def add(self, text: Text, context: int) -> None:
        """Count a text."""
        request = text.request
        self.texts += 1
        self.drafted += request.stats.drafted
        self.accepted += request.stats.accepted
        self.notes |= dict.fromkeys(request.warnings)
        if request.error:
            self.notes[request.error] = None
        else:
            self.misended += not ends_right(text.start, text.output, request.sequence.finish_reason, context)


@dataclass
class Audit:
    """An audit under way.

    Attributes:
        engine, prompts, params, plan: what is audited, and how.
        reference: scores texts.
        announce: told how it goes.
        ledger: what rounding does; measured on the first texts.
    """

    engine: Engine
    prompts: Sequence[Sequence[int]]
    params: SamplingParams
    plan: Plan
    reference: Reference
    announce: Callable[[str], None]
    ledger: Ledger = field(default_factory=Ledger.empty)

    @property
    def greedy(self) -> bool:
        """Whether temperature is 0."""
        return self.params.temperature == 0

    def texts(self, engine: Engine, use: int, tokens: int) -> Iterator[Text]:
        """Texts of an engine, `at_once` in the making at a time, until there are this many tokens."""
        # Enough even if each turn of `at_once` texts should make one token only.
        seeds = self.plan.seeds(use, tokens * self.plan.at_once)
        number = made = 0
        while made < tokens:
            wave = []
            for _ in range(min(self.plan.at_once, -(-(tokens - made) // self.plan.length))):
                prompt = number % len(self.prompts)
                wave.append(self._begun(engine, prompt, seeds[number]))
                number += 1
            for _ in engine.run(text.request for text in wave):
                pass
            if not any(text.output for text in wave):
                raise SpecproofError(f"no tokens came out: {wave[0].request.error or 'prompts fill the context'}")
            for text in wave:
                if made < tokens:
                    made += len(text.output)
                    yield text

    def _begun(self, engine: Engine, prompt: int, seed: int) -> Text:
        params = replace(self.params, seed=seed)
        request, start = (engine.requests(self.prompts[prompt], params)[0] for _ in range(2))
        start.read(len(start.unread))
        return Text(prompt, start.sequence, request)

    def scored(self, text: Text, noise: np.random.Generator, places: Places | None = None) -> list[Scored]:
        """A text against the reference."""
        logits = self.reference(text.start.tokens + text.output, len(text.start.tokens))
        inside, margin = noise.random(len(text.output)), margin_for(self.ledger.spread)
        return score(text.start, text.output, logits, Conditions(places, inside, margin))

    def control(self, fresh: Backend | None) -> Side:
        """Speculation off; measures the ledger on the way."""
        engine, plan = self.engine, self.plan
        plain = Engine(engine.target, "none", tokenizer=engine.tokenizer, eos=engine.eos, max_batch=plan.at_once)
        texts = list(self.texts(plain, PLAIN, plan.control))
        if fresh is not None:
            some = [(text.start, text.output) for text in texts[:LEDGER_TEXTS] if text.output]
            self.ledger = measure(fresh, self.reference, some)
        side = Side(plan, self.ledger, self.greedy, Mixture.plain(WITHOUT_DRAFT))
        noise = np.random.default_rng((plan.seed, PLAIN))
        for text in texts:
            side.take(text.prompt, text.output, self.scored(text, noise))
        return side

    def speculate(self, mixture: Mixture) -> tuple[Side, Planner, Counts]:
        """Speculation on, until decided or out of tokens."""
        plan, counts = self.plan, Counts()
        side, planner = Side(plan, self.ledger, self.greedy, mixture), Planner(plan.alpha, mixture)
        noise = np.random.default_rng((plan.seed, SPECULATIVE))
        stride = max(1, plan.tokens // POWER_ROWS)
        ahead = 0
        with recorded(self.engine) as recorder:
            for text in self.texts(self.engine, SPECULATIVE, plan.tokens):
                counts.add(text, self.engine.target.context)
                portions = self.scored(text, noise, recorder.take(text.request.sequence))
                side.take(text.prompt, text.output, portions)
                for portion in portions if not self.greedy else ():
                    planner.add(portion.emissions.some(slice(ahead, None, stride)))
                    ahead = (ahead - len(portion.emissions)) % stride
                if counts.texts % plan.at_once == 0:
                    self.announce(f"{side.tokens} tokens: log capital {side.evidence.log_e:+.1f}")
                if side.decided or counts.misended:
                    break
        return side, planner, counts


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
    side, planner, counts = audit.speculate(mixture)

    tv, fault = None, ""
    if not audit.greedy and side.arms().convicts(plan.barrier):
        tv, fault = best_fit(side.evidence, planner)
    found = Findings(
        bets=side.arms(),
        control=control.arms(),
        ledger=audit.ledger,
        drafted=counts.drafted,
        accepted=counts.accepted,
        texts=counts.texts,
        misended=counts.misended,
        tv=tv,
        fault=fault,
        predictions=planner.predictions(side.tokens) if planner.seen else (),
        greedy=side.greedy(),
        greedy_control=control.greedy(),
        notes=tuple(counts.notes),
    )
    verdict, reason = decide(found, plan)
    return WhiteResult(verdict, reason, setting, plan, described, found, replay)


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
