"""The loop: draft, forward, verify, commit, roll back; and the requests that go through it.

Everything that could differ between engines lies behind a contract: drafter, target, rule, noise. Speculation
off is the drafter "none" in the same loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from time import perf_counter
from typing import Any

from torch import Tensor

from specproof.drafters import DRAFTERS, NODES, choose_drafter
from specproof.drafters.none import empty_draft
from specproof.engine.drafting import Drafting
from specproof.engine.logprobs import of_block, of_prompt
from specproof.engine.memory import out_of_memory
from specproof.engine.pace import Pace
from specproof.engine.requests import Request, Result, make_requests
from specproof.engine.scheduler import Scheduler
from specproof.engine.stats import Statistics, places
from specproof.engine.sync import Synced
from specproof.engine.watch import watched
from specproof.errors import SpecproofError
from specproof.noise import CounterNoise
from specproof.rules import Rule, admit, choose_rule
from specproof.rules.coupling import decided
from specproof.rules.draw import draw
from specproof.sampling import Rows, no_law, warp_batch
from specproof.stopping import commit, cut, room
from specproof.types import Backend, Draft, Drafter, Law, Noise, SamplingParams, Step

Prompt = str | Sequence[int]


class Engine(Synced):
    """Speculative decoding of many requests at once.

    Args:
        target: the model whose law comes out.
        drafter: a name from DRAFTERS, or a drafter.
        rule: a name from RULES, "auto", or any function from target rows and draft to a law.
        tokenizer: for prompts and results as text; without one both are tokens.
        eos: tokens that end a text.
        budget: most nodes drafted for a sequence in one step.
        max_batch: most sequences in one forward; further requests wait their turn.
        kv_tokens: most entries of the key-value store in each layer; further requests wait (see `Scheduler`).
        prefill: most prompt tokens that a request reads in one forward.
        allow_lossy: take a rule that changes the target's law; results then say lossless=False.
        adaptive: draft as far as it pays, see `Pace`; false drafts the full budget in every step.
        trace: keep a record of every step in the statistics of each request.
        noise: where randomness comes from; unless given, the keyed noise of `noise`. Draft lengths do not hang on
            the clock under a noise that is given, so that an audit can repeat its runs.
    """

    def __init__(
        self,
        target: Backend,
        drafter: str | Drafter = "none",
        rule: str | Callable[[Tensor, Draft], Law] = "auto",
        *,
        tokenizer: Any = None,
        eos: Collection[int] = (),
        budget: int = NODES,
        max_batch: int = 16,
        kv_tokens: int | None = None,
        prefill: int = 512,
        allow_lossy: bool = False,
        adaptive: bool = True,
        trace: bool = False,
        noise: Noise | None = None,
    ) -> None:
        if max_batch < 1 or budget < 0 or prefill < 1:
            raise SpecproofError(
                f"max_batch={max_batch}, budget={budget}, prefill={prefill}: give at least one row, no less than "
                "0 nodes, and at least one token"
            )
        self.target = target
        self.drafter = choose_drafter(drafter, target) if isinstance(drafter, str) else drafter
        if isinstance(rule, str):
            rule = choose_rule(rule, self.drafter, allow_lossy=allow_lossy)
        elif isinstance(rule, Rule):
            admit(rule, self.drafter, allow_lossy=allow_lossy)
        self.rule = rule
        self.coupled = isinstance(rule, Rule) and rule.coupled
        self.tokenizer = tokenizer
        self.eos = frozenset(eos)
        self.budget = budget
        self.max_batch = max_batch
        self.scheduler = Scheduler(max_batch, kv_tokens, prefill)
        self.drafting = Drafting(self.drafter, target.vocabulary, self.rule)
        self.noise = noise or CounterNoise()
        self.stats = Statistics()
        self.pace = Pace(self.drafter, self.coupled, adaptive=adaptive, timed=noise is None)
        self.trace = trace
        self.shape: str | None = None  # name of the drafts' shape, if they were asked for by one

    @classmethod
    def from_pretrained(cls, model: str = "default", **options: Any) -> Engine:
        """An engine for a model folder, a hub name, or the embedded default; see `loading.load_engine`."""
        from specproof.engine.loading import load_engine

        return load_engine(model, **options)

    @property
    def rule_name(self) -> str:
        """Name of the rule in use."""
        return self.rule.label if isinstance(self.rule, Rule) else getattr(self.rule, "__name__", "custom")

    @property
    def drafter_name(self) -> str:
        """Name of the drafter in use, as in DRAFTERS; of one that is not there its class's."""
        kind = type(self.drafter)
        places = {place: name for name, place in DRAFTERS.items()}
        return places.get(f"{kind.__module__}:{kind.__qualname__}", kind.__name__)

    @property
    def lossless(self) -> bool | None:
        """Whether the rule is lossless; None for a function that RULES does not know."""
        return self.rule.lossless if isinstance(self.rule, Rule) else None

    def generate(
        self, prompts: Sequence[Prompt], params: SamplingParams | Sequence[SamplingParams]
    ) -> list[Result]:
        """Complete all prompts, many at a time.

        Results stand in the order of the prompts, the n completions of a prompt next to each other.
        """
        if isinstance(prompts, str):
            prompts = [prompts]
        each = [params] * len(prompts) if isinstance(params, SamplingParams) else list(params)
        requests = [r for prompt, p in zip(prompts, each, strict=True) for r in self.requests(prompt, p)]
        for _ in self.run(requests):
            pass
        return [self.result(request) for request in requests]

    def stream(self, prompt: Prompt, params: SamplingParams) -> Iterator[Result]:
        """Complete one prompt; yields the results so far after every step, `delta` being what is new."""
        for touched in self.run(self.requests(prompt, params)):
            yield from map(self.result, touched)

    def run(self, requests: Iterable[Request]) -> Iterator[list[Request]]:
        """Serve requests until all are done; yields those that took part after every step."""
        mine = list(requests)
        try:
            for request in mine:
                self.add(request)
            while mine:
                # Somebody else's steps may have finished them, or a call of `cancel`.
                touched = set(map(id, self.step())) if not all(request.done for request in mine) else set()
                news = [request for request in mine if request.done or id(request) in touched]
                mine = [request for request in mine if not request.done]
                yield news
        finally:
            self._leave(mine)

    def requests(self, prompt: Prompt, params: SamplingParams) -> list[Request]:
        """The n requests of a prompt, to be added; errors in prompt or parameters are raised here."""
        return make_requests(prompt, params, self.target, self.tokenizer, self.eos, trace=self.trace)

    def add(self, request: Request) -> None:
        """Queue a request; it joins between steps."""
        self.scheduler.add(request)
        request.weighed(self.target_version, self.drafter_version)

    def cancel(self, request: Request) -> None:
        """End a request between steps, waiting or running; what it has so far stays in its result."""
        if not request.done:
            request.end("cancelled")
            self._leave([request])

    def result(self, request: Request) -> Result:
        """The result so far; its `delta` is what is new since the last call."""
        return request.result(self.rule_name, self.lossless)

    def step(self) -> list[Request]:
        """One turn for every request that runs; returns those that took part. Nothing to do gives none.

        Prompts are read in forwards of their own, since they would pad every other row.
        """
        self.scheduler.admit()
        reading, fresh = self.scheduler.read()
        new = [*reading, *chain(*fresh)]
        settled = [request for request in self.scheduler.running if not any(request is other for other in new)]
        turns = [(reading, self._read), *((group, self._begin) for group in fresh), (settled, self._step)]
        touched = [*new, *settled]
        try:
            for group, act in turns:
                self._within_memory(self.scheduler.among_running(group), act)
        finally:
            self._leave([request for request in touched if request.done])
        return touched

    def _read(self, requests: Sequence[Request]) -> None:
        """Prompts in the middle: nothing is drafted and nothing comes out."""
        batch = self.scheduler.share(requests, self.target)
        self.target.forward(batch, empty_draft(len(batch)))
        self.target.keep(batch, [()] * len(batch))

    def _begin(self, requests: Sequence[Request]) -> None:
        """The first step of requests whose prompt was read."""
        for request in requests:
            count, sequence = request.sequence.params.prompt_logprobs, request.sequence
            if count is not None and request.prompt_logprobs is None:
                request.prompt_logprobs = of_prompt(self.target, list(sequence.tokens), count)
            if room(sequence, self.target.context) == 0:
                self._commit(request, [])
            request.begun = True
        if live := [request for request in requests if not request.done]:
            self.scheduler.share(live, self.target)
            self._step(live, fresh=True)

    def _step(self, requests: Sequence[Request], fresh: bool = False) -> None:
        """One round for a batch; drafts one less than there is room, which is left to the extra token."""
        batch = [request.sequence for request in requests]
        times = [perf_counter()]

        # 1 draft
        most = [min(self._most(r), room(r.sequence, self.target.context) - 1) for r in requests]
        choices = self.pace.choose(requests, most)
        draft = self.drafting.draft(requests, [choice.nodes for choice in choices], self.noise)
        times.append(perf_counter())

        # 2 forward
        output = self.target.forward(batch, draft)
        times.append(perf_counter())

        # 3 verify
        rows = warp_batch(output.logits, batch, draft)
        judged = decided(rows.rows, batch, draft, self.noise) if self.coupled else rows.rows
        law = self.rule(judged, draft.to(judged.device))
        steps = draw(law, batch, draft, self.noise)

        # 4 commit: in order, up to the first end
        tokens, outcomes = draft.tokens.tolist(), []
        for b, (request, step) in enumerate(zip(requests, steps, strict=True)):
            block = [tokens[b][node] for node in step.path] + [step.token]
            kept = self._settle(request, step, block, Rows(rows.rows[b], rows.broken[b]), output.logits[b])
            outcomes.append((len(step.path), kept))
            if request.watched is not None:
                request.watched.append(watched(draft, b, step, rows.rows[b], kept))
            steps[b] = cut(step, kept)

        # 5 roll back
        self.target.keep(batch, [step.path for step in steps])
        self.drafting.observe(requests, steps, output)
        times.append(perf_counter())

        spent = [after - before for before, after in pairwise(times)]
        records = self.pace.record(requests, choices, draft.trees, outcomes, spent, fresh)
        for request, record, tree, step in zip(requests, records, draft.trees, steps, strict=True):
            request.stats.add(whole := record._replace(places=places(tree, step.path)))
            self.stats.add(whole, 1 / len(requests))

    def _most(self, request: Request) -> int:
        return self.budget if request.budget is None else min(self.budget, request.budget)

    def _settle(self, request: Request, step: Step, block: list[int], rows: Rows, logits: Tensor) -> int:
        """Commit a block as far as the model gave a law for it; returns how many tokens were."""
        used = [0, *(node + 1 for node in step.path)]
        broken = rows.broken[used].tolist()
        sound = broken.index(True) if True in broken else len(block)
        logprobs = []
        if request.sequence.params.logprobs is not None:  # before the commit, since memory may run out
            logprobs = of_block(rows.rows, logits, step.path, block[:sound], request.sequence.params)
        kept = self._commit(request, block[:sound])
        request.logprobs += logprobs[:kept]
        if sound < len(block) and not request.done:
            request.end("error", no_law(request.sequence))
        return kept

    def _commit(self, request: Request, block: list[int]) -> int:
        return commit(request.sequence, block, self.target.context, request.stopped)

    def _within_memory(self, group: list[Request], act: Callable[[Sequence[Request]], None]) -> None:
        """Take a turn; while memory does not suffice, send the latest request back to wait."""
        while group:
            try:
                return act(group)
            except BaseException as error:
                # What the failed turn left behind is forgotten; a later turn reads it again.
                self._forget(group)
                if not out_of_memory(error):
                    raise
                late = self.scheduler.preempt()
                if late is None:
                    group[0].end("error", f"out of memory with no other request running: {error}".splitlines()[0])
                    return None
                self._forget([late])
                group = [request for request in self.scheduler.among_running(group) if not request.done]
        return None

    def _leave(self, requests: list[Request]) -> None:
        self.scheduler.remove(requests)
        self._forget(requests)
