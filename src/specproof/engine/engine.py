"""The loop: draft, forward, verify, commit, roll back; and the requests that go through it.

Everything that could differ between engines lies behind a contract: drafter, target, rule, noise. Speculation
off is the drafter "none" in the same loop.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from time import perf_counter
from typing import Any

from torch import Tensor

from specproof.drafters import choose_drafter
from specproof.engine.requests import Request, Result, check_prompt
from specproof.engine.stats import Statistics
from specproof.errors import SpecproofError
from specproof.noise import CounterNoise
from specproof.rules import Rule, admit, choose_rule
from specproof.rules.coupling import decided
from specproof.rules.draw import draw
from specproof.sampling import warp_batch
from specproof.stopping import commit, cut, room
from specproof.types import Backend, Draft, Drafter, Law, Noise, SamplingParams, TokenSequence

Prompt = str | Sequence[int]


class Engine:
    """Speculative decoding of many requests at once.

    Args:
        target: the model whose law comes out.
        drafter: a name from DRAFTERS, or a drafter.
        rule: a name from RULES, "auto", or any function from target rows and draft to a law.
        tokenizer: for prompts and results as text; without one both are tokens.
        eos: tokens that end a text.
        budget: most nodes drafted for a sequence in one step.
        max_batch: most sequences in one forward; further requests wait their turn.
        allow_lossy: take a rule that changes the target's law; results then say lossless=False.
        noise: where randomness comes from; the keyed noise of `noise` unless an audit enumerates.
    """

    def __init__(
        self,
        target: Backend,
        drafter: str | Drafter = "none",
        rule: str | Callable[[Tensor, Draft], Law] = "auto",
        *,
        tokenizer: Any = None,
        eos: Collection[int] = (),
        budget: int = 16,
        max_batch: int = 16,
        allow_lossy: bool = False,
        noise: Noise | None = None,
    ) -> None:
        if max_batch < 1 or budget < 0:
            raise SpecproofError(
                f"max_batch={max_batch}, budget={budget}: give at least one row and no less than 0 nodes"
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
        self.noise = noise or CounterNoise()
        self.stats = Statistics()

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
    def lossless(self) -> bool | None:
        """Whether the rule is lossless; None for a function that RULES does not know."""
        return self.rule.lossless if isinstance(self.rule, Rule) else None

    def generate(
        self, prompts: Sequence[Prompt], params: SamplingParams | Sequence[SamplingParams]
    ) -> list[Result]:
        """Complete all prompts, many at a time; results stand in the order of the prompts."""
        if isinstance(prompts, str):
            prompts = [prompts]
        each = [params] * len(prompts) if isinstance(params, SamplingParams) else list(params)
        requests = [self._request(prompt, p) for prompt, p in zip(prompts, each, strict=True)]
        for _ in self.run(requests):
            pass
        return [self._result(request) for request in requests]

    def stream(self, prompt: Prompt, params: SamplingParams) -> Iterator[Result]:
        """Complete one prompt; yields the result so far after every step, its `delta` being what is new."""
        request = self._request(prompt, params)
        for _ in self.run([request]):
            yield self._result(request)

    def run(self, requests: Iterable[Request]) -> Iterator[list[Request]]:
        """Serve requests until all are done; yields those that took part after every step."""
        waiting = deque(requests)
        running: list[Request] = []
        try:
            while waiting or running:
                while waiting and len(running) < self.max_batch:
                    running.append(waiting.popleft())
                # Newcomers go first, alone: their prompts would pad every other row.
                batch = [r for r in running if r.stats.steps == 0] or running
                for request in batch:
                    if room(request.sequence, self.target.context) == 0:
                        self._commit(request.sequence, [])
                if live := [r for r in batch if r.sequence.finish_reason is None]:
                    self._step(live)
                done = [r.sequence for r in batch if r.sequence.finish_reason is not None]
                self.target.free(done)
                self.drafter.free(done)
                running = [r for r in running if r.sequence.finish_reason is None]
                yield batch
        finally:
            left = [r.sequence for r in running]
            self.target.free(left)
            self.drafter.free(left)

    def _step(self, requests: list[Request]) -> None:
        """One round for a batch; drafts one less than there is room, which is left to the extra token."""
        batch = [request.sequence for request in requests]
        budget = [min(self.budget, room(s, self.target.context) - 1) for s in batch]
        times = [perf_counter()]

        # 1 draft
        draft = self.drafter.draft(batch, budget, self.noise)
        times.append(perf_counter())

        # 2 forward
        output = self.target.forward(batch, draft)
        times.append(perf_counter())

        # 3 verify
        rows = warp_batch(output.logits, batch)
        if self.coupled:
            rows = decided(rows, batch, draft, self.noise)
        law = self.rule(rows, draft.to(rows.device))
        steps = draw(law, batch, draft, self.noise)

        # 4 commit: in order, up to the first end
        tokens = draft.tokens.tolist()
        for b, (request, step) in enumerate(zip(requests, steps, strict=True)):
            block = [tokens[b][node] for node in step.path] + [step.token]
            kept = self._commit(request.sequence, block)
            request.stats.count(draft.trees[b].depths, len(step.path), kept)
            self.stats.count(draft.trees[b].depths, len(step.path), kept)
            steps[b] = cut(step, kept)

        # 5 roll back
        self.target.keep(batch, [step.path for step in steps])
        self.drafter.observe(batch, steps, output)
        times.append(perf_counter())

        spent = [after - before for before, after in pairwise(times)]
        for stats in (self.stats, *(request.stats for request in requests)):
            stats.time(*spent)

    def _commit(self, sequence: TokenSequence, block: list[int]) -> int:
        return commit(sequence, block, self.eos, self.target.context)

    def _request(self, prompt: Prompt, params: SamplingParams) -> Request:
        tokens = check_prompt(prompt, self.tokenizer, self.target)
        seed = secrets.randbits(64) if params.seed is None else params.seed
        return Request(TokenSequence(tokens, len(tokens), params, seed), self.tokenizer)

    def _result(self, request: Request) -> Result:
        return request.result(self.rule_name, self.lossless)
