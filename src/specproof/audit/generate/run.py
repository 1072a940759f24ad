"""The whole audit of `generate`, from the plan to the verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from typing import Any

import transformers

from specproof.audit.answer import Answer
from specproof.audit.generate.texts import GenerateAudit
from specproof.audit.generate.watch import watched
from specproof.audit.generate.ways import Way
from specproof.audit.white.evidence import Mixture
from specproof.audit.white.forcing import reference_for
from specproof.audit.white.plan import Plan, digest
from specproof.audit.white.result import WhiteResult
from specproof.audit.white.summary import Sides, summary
from specproof.audit.white.verdict import decide
from specproof.backends.hf import HFBackend
from specproof.engine.engine import Engine
from specproof.engine.loading import end_tokens
from specproof.errors import SpecproofError
from specproof.types import SamplingParams

# What `generate` has under the same name and meaning.
TAKEN = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "min_tokens", "max_tokens", "seed")


@dataclass(frozen=True)
class GenerateResult(WhiteResult):
    """Audit of `generate`; see `WhiteResult`."""

    @property
    def subject(self) -> str:
        """What was audited, in words."""
        return f"transformers {self.setting['transformers']}, {self.setting['way']}"

    def answer(self) -> Answer:
        """The common form of audits' answers."""
        return replace(super().answer(), kind="transformers")


def audit_generate(
    model: Any,
    way: Way,
    prompts: Sequence[Sequence[int]],
    params: SamplingParams,
    plan: Plan | None = None,
    *,
    tokenizer: Any = None,
    announce: Callable[[str], None] | None = None,
    replay: str = "",
) -> GenerateResult:
    """Audit transformers' `generate` against the model's rows, computed again from the tokens alone.

    Args:
        model: decoder-only, in evaluation mode.
        way: how it speculates.
        prompts: tokens of each.
        params: of every text; seeds and lengths are the plan's.
        plan: sizes and rates.
        tokenizer: of the model; without it no token ends a text but the generation config's.
        announce: told the plan's hash before the first token, and how it goes.
        replay: command for the report.

    Raises:
        SpecproofError: no prompts, or parameters that `generate` does not have under that name.
    """
    plan = plan or Plan()
    tell = announce or (lambda _: None)
    params = _checked(params, prompts, plan)
    ends = tuple(end_tokens(model, tokenizer)) if tokenizer is not None else ()
    engine = Engine(HFBackend(model), "none", tokenizer=tokenizer, eos=ends)
    with watched(model) as counts:
        audit = GenerateAudit(
            prompts, params, plan, reference_for(engine.target), tell, Mixture.unplaced(way.rows is not None),
            model=model, way=way, engine=engine, ends=ends, watched=counts,
        )  # fmt: skip
        setting = _setting(audit)
        described = digest(plan.described(audit.mixture, setting))
        tell(f"plan {described}: up to {plan.tokens} tokens, alpha {plan.alpha:g}")
        control = audit.control(HFBackend(model))
        tell(f"{control.tokens} tokens without speculation: p-value {control.arms().pvalue:.2g}; {audit.ledger}")
        side, planner = audit.speculate()
        panel = audit.panel() if plan.draws and not audit.greedy and not audit.counts.misended else None
    found = summary(Sides(control, side, planner), panel, audit.counts, tokenizer)
    verdict, reason = decide(found, plan)
    return GenerateResult(verdict, reason, setting, plan, described, found, replay)


def _checked(params: SamplingParams, prompts: Sequence[Sequence[int]], plan: Plan) -> SamplingParams:
    """Parameters with the plan's length.

    Raises:
        SpecproofError: no prompts, or parameters that are not audited here.
    """
    if not prompts:
        raise SpecproofError("no prompts were given; give at least one")
    usual = SamplingParams()
    for each in fields(SamplingParams):
        if each.name not in TAKEN and getattr(params, each.name) != getattr(usual, each.name):
            raise SpecproofError(f"{each.name} is not among what is audited of generate: leave it out")
    return replace(params, max_tokens=plan.length, min_tokens=min(params.min_tokens, plan.length))


def _setting(audit: GenerateAudit) -> dict[str, Any]:
    """What is audited, for the plan's hash and the report."""
    prompts = sha256(repr([list(prompt) for prompt in audit.prompts]).encode()).hexdigest()[:16]
    return {
        "transformers": transformers.__version__,
        "model": type(audit.model).__name__,
        "dtype": str(audit.model.dtype),
        "way": audit.way.name,
        "params": repr(audit.params),
        "prompts": f"{len(audit.prompts)}, {prompts}",
    }
