"""Audit of a server: ask in rounds, keep every answer, judge what there is, stop when it is decided."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Any

from specproof.audit.endpoint.ask import Endpoint, Granted, body_of, check_params, for_arm, probe
from specproof.audit.endpoint.client import Client, Interrupted, Job, Manners
from specproof.audit.endpoint.evidence import Gathered
from specproof.audit.endpoint.known import Rows
from specproof.audit.endpoint.local import Local
from specproof.audit.endpoint.plan import OFF, ON, EndpointPlan
from specproof.audit.endpoint.result import EndpointResult
from specproof.audit.endpoint.store import Store
from specproof.audit.endpoint.verdict import Drafted, convicted, decide
from specproof.audit.endpoint.wire import Answer
from specproof.audit.white.plan import digest
from specproof.errors import SpecproofError
from specproof.params import SamplingParams


@dataclass(frozen=True)
class Progress:
    """How far an audit is; told as answers arrive.

    Attributes:
        texts, most: answers that are kept, and how many there may be.
        log_e: the running capital's logarithm, of the bets that say most; None between rounds.
        smallest: total variation that the texts so far would have shown.
    """

    texts: int
    most: int
    log_e: float | None = None
    smallest: float = float("inf")


@dataclass
class EndpointAudit:
    """An audit under way.

    Attributes:
        endpoint, prompts, params, plan: what is audited, and how.
        client, store: who asks, and where answers are kept.
        local: a copy of the model, if there is one.
        trusted: speculation is on and off as asked, whatever the server tells of it.
        tell: told how far it is.
    """

    endpoint: Endpoint
    prompts: Sequence[str]
    params: SamplingParams
    plan: EndpointPlan
    client: Client
    store: Store
    local: Local | None
    trusted: bool
    tell: Callable[[Progress], None]
    granted: Granted = field(default_factory=Granted)

    @property
    def arms(self) -> tuple[str, ...]:
        """What is asked for."""
        return (ON, OFF) if self.endpoint.controlled else (ON,)

    @property
    def most(self) -> int:
        """Texts of an arm."""
        return self.plan.draws * len(self.prompts)

    def progress(self, log_e: float | None = None, smallest: float = float("inf")) -> Progress:
        """How far it is; without figures, those told before stand."""
        return Progress(self.store.size, self.most * len(self.arms), log_e, smallest)

    def sent(self, number: int) -> str | list[int]:
        """A prompt as it is sent: tokens, if we have the tokenizer, so that nobody adds any."""
        text = self.prompts[number % len(self.prompts)]
        if self.local is None or self.endpoint.chat or self.endpoint.texts:
            return text
        return self.local.prompt(text)

    async def begin(self) -> str:
        """Find out what the server grants, fix the plan, and return its hash; what was noted before stands."""
        found, known = self.store.recall("granted"), self.store.recall("names") or ["", ""]
        names = [self.endpoint.name or known[0], self.endpoint.reference_name or known[1]]
        for at, base in enumerate((self.endpoint.base, self.endpoint.reference)):
            if base is not None and not names[at]:
                names[at] = (await self.client.models(base))[0]
        self.endpoint = replace(self.endpoint, name=names[0], reference_name=names[1])
        if found is None:
            granted = await probe(self.client, self.endpoint, self.params, self.sent(0), self.arms)
            found = asdict(granted)
        self.granted = Granted(**found)
        described = digest(self.plan.described(self.setting()))
        self.store.note("plan", described)
        self.store.note("granted", found)
        self.store.note("names", names)
        return described

    def setting(self) -> dict[str, Any]:
        """What is audited, for the plan's hash and the report."""
        prompts = sha256(json.dumps(list(self.prompts)).encode()).hexdigest()[:16]
        return {
            "url": self.endpoint.url(ON),
            "endpoint": asdict(self.endpoint),
            "granted": asdict(self.granted),
            "params": repr(self.params),
            "prompts": f"{len(self.prompts)}, {prompts}",
            "model": None if self.local is None else self.local.described,
            "trusted": self.trusted,
        }

    async def round(self, number: int) -> None:
        """Ask for what a round lacks; one arm after the other, as servers count drafts for all together."""
        first, after = (self.plan.after(n) * len(self.prompts) for n in (number, number + 1))
        for arm in self.arms if number % 2 == 0 else self.arms[::-1]:
            missing = sorted(set(range(first, after)) - self.store.has(arm))
            if missing:
                await self._ask(arm, missing)

    async def _ask(self, arm: str, numbers: Sequence[int]) -> None:
        base = self.endpoint.reference if arm == OFF and self.endpoint.reference else self.endpoint.base
        seeds = self.plan.seeds(arm, self.most)
        before = await self.client.counters(base)

        def keep(job: Job, answer: Answer) -> None:
            self.store.add(arm, job.number, job.number % len(self.prompts), job.body.get("seed"), answer)
            self.tell(self.progress())

        def jobs() -> Any:
            for number in numbers:
                body = body_of(self.endpoint, self.granted, self.params, self.sent(number), seeds[number])
                yield Job(arm, number, self.endpoint.url(arm), for_arm(self.endpoint, arm, body))

        await self.client.collect(jobs(), keep)
        after = await self.client.counters(base)
        if before is not None and after is not None:
            self.store.count(arm, after[0] - before[0], after[1] - before[1])


def audit_endpoint(
    endpoint: Endpoint,
    prompts: Sequence[str],
    params: SamplingParams,
    plan: EndpointPlan,
    store: Store,
    *,
    local: Local | None = None,
    manners: Manners | None = None,
    key: str | None = None,
    trusted: bool = False,
    announce: Callable[[str], None] | None = None,
    tell: Callable[[Progress], None] | None = None,
    replay: str = "",
) -> EndpointResult:
    """Audit a server by its answers.

    Args:
        endpoint: the server, and how it is asked with speculation and without.
        prompts: taken in turn.
        params: of every request; seeds and lengths are the plan's.
        plan: sizes and rates.
        store: where answers are kept; one that was begun with the same plan is gone on with.
        local: a copy of the model that is served: every token is then judged by its rows.
        manners: how the server is treated.
        key: API key.
        trusted: do not ask for signs that the server speculates.
        announce: told the plan's hash before the first answer that counts.
        tell: told how far it is.
        replay: command for the report.

    Raises:
        Interrupted: the server stopped answering; what it answered is in the store.
        SpecproofError: nothing to compare with, or something that the server or an audit does not take.
    """
    check_params(params)
    if not prompts:
        raise SpecproofError("no prompts were given; give at least one")
    params = replace(params, max_tokens=plan.length, min_tokens=min(params.min_tokens, plan.length), seed=None)
    with asyncio.Runner() as runner:
        client = Client(manners or Manners(), key)
        quiet: Callable[[Any], None] = lambda _: None  # noqa: E731
        audit = EndpointAudit(endpoint, prompts, params, plan, client, store, local, trusted, tell or quiet)
        try:
            described = runner.run(audit.begin())
            (announce or quiet)(
                f"plan {described}: up to {audit.most} texts of {plan.length} tokens an arm, alpha {plan.alpha:g}"
                + (f"; {store.size} answers are kept already" if store.size else "")
            )
            return _judged(audit, runner, described, replay)
        except Interrupted as error:
            kept = f"; {store.size} answers are kept in {store.path}: the same command goes on from there"
            raise Interrupted(f"{error}{kept if store.size else ''}") from error
        finally:
            runner.run(client.close())


def _judged(audit: EndpointAudit, runner: asyncio.Runner, described: str, replay: str) -> EndpointResult:
    """Round after round until it is decided."""
    plan = audit.plan
    rows = Rows(audit.granted, audit.params, audit.local, audit.prompts)
    gathered = Gathered(plan, audit.granted, rows, len(audit.prompts))
    for number in range(plan.rounds):
        runner.run(audit.round(number))
        first, after = (plan.after(n) * len(audit.prompts) for n in (number, number + 1))
        answers = {arm: list(audit.store.answers(arm, first, after)) for arm in audit.arms}
        gathered.round(answers.get(OFF, []), answers[ON], number + 1)
        audit.tell(audit.progress(gathered.log_e, gathered.smallest()))
        if convicted(gathered.seen(audit.endpoint.controlled), plan):
            break
    seen = gathered.seen(audit.endpoint.controlled, whole=True)
    seen = replace(seen, trusted=audit.trusted, drafts=_drafts(audit, gathered, ON))
    seen = replace(seen, control_drafts=_drafts(audit, gathered, OFF))
    if convicted(seen, plan):
        fault, tv = gathered.fit(seen.bets is not None and seen.bets.beyond_rounding(plan.bets.barrier))
        seen = replace(seen, fault=fault, tv=tv)
    verdict, reason = decide(seen, plan)
    return EndpointResult(
        verdict=verdict,
        reason=reason,
        setting=audit.setting(),
        plan=plan,
        digest=described,
        seen=seen,
        texts=gathered.texts,
        tokens=gathered.tokens,
        kept=str(audit.store.path),
        replay=replay,
    )


def _drafts(audit: EndpointAudit, gathered: Gathered, arm: str) -> Drafted | None:
    """What the server told of an arm's drafts, in its answers or else by its counters."""
    found = gathered.drafts.get(arm) or audit.store.counted(arm)
    return None if found is None else Drafted(*found)
