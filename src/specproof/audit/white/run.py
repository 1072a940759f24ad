"""Audit of our engine on a real model: run it, score what came out, bet, repeat some prefixes, answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from specproof.audit.white.forcing import Reference, reference_for
from specproof.audit.white.gathering import PANEL_PLAIN, PLAIN, Gathering, Text, Texts
from specproof.audit.white.plan import Plan, digest
from specproof.audit.white.record import recorded
from specproof.audit.white.result import WhiteResult
from specproof.audit.white.summary import Sides, summary
from specproof.audit.white.texts import Begun, begun, repeated_texts, running
from specproof.audit.white.verdict import decide
from specproof.backends.hf import HFBackend
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.types import Backend, SamplingParams, TokenSequence


@dataclass
class Audit(Gathering):
    """An audit of our engine under way; see `Gathering`."""

    engine: Engine = field(kw_only=True)

    @property
    def plain(self) -> Engine:
        """The engine without speculation."""
        inner = self.engine
        return Engine(inner.target, "none", tokenizer=inner.tokenizer, eos=inner.eos, max_batch=inner.max_batch)

    def start(self, prompt: Sequence[int], params: SamplingParams) -> TokenSequence:
        """See `Gathering.start`."""
        return begun(self.engine, [prompt], 0, params).start

    def running(self, use: int) -> Texts:
        """See `Gathering.running`."""
        engine = self.plain if use == PLAIN else self.engine
        return self._finished(engine, running(engine, self.prompts, self.params, self.plan, use), use == PLAIN)

    def repeated(self, params: SamplingParams, use: int) -> Texts:
        """See `Gathering.repeated`."""
        engine = self.plain if use == PANEL_PLAIN else self.engine
        texts = repeated_texts(engine, self.prefixes, params, self.plan, use)
        return self._finished(engine, texts, use == PANEL_PLAIN)

    def _finished(self, engine: Engine, begun: Iterable[Begun], plain: bool) -> Texts:
        """The texts as they come; with speculation counted, and with their places in drafts."""
        if plain:
            yield from (Text(text.prompt, text.start, text.output) for text in begun)
            return
        with recorded(engine) as recorder:
            for text in begun:
                self.counts.add(text, engine.target.context)
                places = recorder.take(text.request.sequence)
                yield Text(text.prompt, text.start, text.output, places)


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
    reference = reference or reference_for(engine.target)
    audit = Audit(prompts, _checked(params, prompts, plan), plan, reference, tell, engine=engine)
    setting = _setting(audit)
    described = digest(plan.described(audit.mixture, setting))
    tell(f"plan {described}: up to {plan.tokens} tokens, alpha {plan.alpha:g}")
    control = audit.control(fresh)
    tell(f"{control.tokens} tokens without speculation: p-value {control.arms().pvalue:.2g}; {audit.ledger}")
    side, planner = audit.speculate()
    panel = audit.panel() if plan.draws and not audit.greedy and not audit.counts.misended else None
    found = summary(Sides(control, side, planner), panel, audit.counts, engine.tokenizer)
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
