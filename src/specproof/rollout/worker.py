"""An engine that rolls out: prompts in, trajectories out, new weights in between. Nothing here knows of Ray."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from specproof.engine.engine import Engine, Prompt
from specproof.engine.requests import Request, check_prompt
from specproof.engine.weights import Weights
from specproof.errors import SpecproofError
from specproof.noise import completion_seed
from specproof.rollout.trajectory import Trajectory, params_dict
from specproof.types import SamplingParams


class Task(NamedTuple):
    """One sample to draw: numbers of prompt and sample, and the prompt."""

    prompt: int
    sample: int
    content: Prompt


def sample_seed(seed: int, prompt: int, sample: int) -> int:
    """Seed of a sample: of the run's seed and these two numbers alone, so whoever draws it draws the same."""
    # From 1 on: number 0 would be the run's seed itself, and sample i of prompt 0 then share that of prompt i.
    return completion_seed(completion_seed(seed, prompt + 1), sample)


class RolloutWorker:
    """Draws trajectories from an engine's target and takes new weights between them.

    Args:
        engine: nobody else steps it meanwhile.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def rollout(
        self, prompts: Sequence[Prompt], params: SamplingParams, samples: int | None = None
    ) -> list[Trajectory]:
        """All samples of all prompts, those of a prompt next to each other.

        Args:
            prompts: texts, or tokens.
            params: how each token is drawn; a seed that is not given is drawn afresh.
            samples: of each prompt; `params.n` if not given.
        """
        count = params.n if samples is None else samples
        tasks = [Task(p, s, content) for p, content in enumerate(prompts) for s in range(count)]
        return sorted(self.run(tasks, params), key=lambda one: (one.prompt, one.sample))

    def run(self, tasks: Iterable[Task], params: SamplingParams) -> Iterator[Trajectory]:
        """Trajectories of tasks, as they finish; weights may be updated between two of them.

        Errors in prompts and parameters are raised before anything is drawn.
        """
        if params.seed is None:
            params = replace(params, seed=secrets.randbits(64))
        if params.logprobs or params.prompt_logprobs is not None:
            raise SpecproofError("a trajectory has its own tokens' log-probabilities; leave logprobs=N away")
        given = params_dict(params)
        made = [(task, self._request(task, params)) for task in tasks]
        task_of = {id(request): task for task, request in made}
        for touched in self.engine.run([request for _, request in made]):
            for request in touched:
                if request.done:
                    yield self._trajectory(task_of[id(request)], request, given)

    def update_target(self, weights: Weights, version: int | None = None) -> int:
        """See `Engine.update_target`."""
        return self.engine.update_target(weights, version)

    def update_drafter(self, weights: Weights, version: int | None = None) -> int:
        """See `Engine.update_drafter`."""
        return self.engine.update_drafter(weights, version)

    @property
    def alarm(self) -> str | None:
        """See `Engine.alarm`."""
        return self.engine.alarm()

    def _request(self, task: Task, params: SamplingParams) -> Request:
        assert params.seed is not None
        # Given seeds are paced by their own history alone, so that neither clock nor batch mates enter.
        own = replace(params, seed=sample_seed(params.seed, task.prompt, task.sample), n=1, logprobs=0)
        engine = self.engine
        try:
            tokens = check_prompt(task.content, engine.tokenizer, engine.target)
        except SpecproofError as error:
            raise SpecproofError(f"prompt {task.prompt}: {error}") from error
        return engine.requests(tokens, own)[0]

    def _trajectory(self, task: Task, request: Request, given: dict[str, object]) -> Trajectory:
        engine, sequence = self.engine, request.sequence
        read = sequence.tokens[: sequence.prompt_length]
        return Trajectory(
            prompt=task.prompt,
            sample=task.sample,
            prompt_ids=(*read, *request.unread),
            completion_ids=tuple(sequence.output),
            finish_reason=str(sequence.finish_reason),
            seed=sequence.seed,
            logprobs=tuple(entry.logprob for entry in request.logprobs if entry.logprob is not None),
            raw_logprobs=tuple(entry.scaled for entry in request.logprobs if entry.scaled is not None),
            target_version=request.target_version,
            drafter_version=request.drafter_version,
            params=given,
            rule=engine.rule_name,
            drafter=engine.drafter_name,
            lossless=engine.lossless,
            drafted=request.stats.drafted,
            accepted=request.stats.accepted,
            forwards=request.stats.steps,
            updates=tuple(request.updates),
            error=request.error,
        )
