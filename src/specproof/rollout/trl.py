"""Rollouts for TRL's GRPOTrainer: `GRPOTrainer(..., rollout_func=Rollouts(drafter="ngram"))`.

What TRL does with the log-probabilities it is given decides which are right. Its loss never reads them: the old
policy's come from the trainer's own pass over the texts, log softmax(logits / temperature) without filters or
penalties. They are read by `off_policy_mask_threshold` alone, which subtracts that pass from them and takes the
difference for drift. So they are returned in the same convention; those of the law the tokens were drawn from
are in `trajectory`, which reward functions get. Source: TRL 1.16, trainer/grpo_trainer.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

import torch
from torch import nn

from specproof.backends.hf import HFBackend
from specproof.drafters import HEADED, choose_drafter
from specproof.engine.engine import Engine
from specproof.engine.stats import FAILED
from specproof.errors import SpecproofError
from specproof.noise import completion_seed
from specproof.rollout.trajectory import Trajectory
from specproof.rollout.trl_settings import (
    check_config,
    check_trainer,
    effective_config,
    padding_error,
    sampling_params,
)
from specproof.rollout.worker import RolloutWorker, Task

if TYPE_CHECKING:
    from specproof.drafters.reduced import DraftVocabulary

_MOVED = 0.2  # standard deviations; rounding in half precision stays far below


class Online(Protocol):
    """What learns between rollouts; see `online.OnlineDrafter`."""

    def update(self, engine: Engine) -> float | None:
        """Learn from what was recorded, and tell the engine."""


class Rollouts:
    """A `rollout_func`: one completion for each prompt it is given, drawn from exactly the trainer's model.

    The engine runs on the trainer's own module, so an update of the policy is an update of the target and nothing
    is copied. The module is in evaluation mode meanwhile, and as it was before afterwards.

    Args:
        drafter: a key of DRAFTERS.
        rule: a key of RULES, or "auto".
        head: for drafters that draft with a trained head, which is then not trained unless `online` does.
        draft_model: a smaller transformers model of the same vocabulary, for drafter "model".
        engine: one of your own, in place of all these; its target is given the weights of the trainer's model
            whenever those are new.
        online: learns between rollouts.
        options: further arguments of `Engine`.

    Attributes:
        last: trajectories of the latest call, in the order of its prompts.

    Settings that cannot be honoured are refused on the first call (`trl_settings`). Seeds are derived from the
    trainer's, from process, optimiser step and place in the batch, so a run that is resumed draws what it would
    have drawn.
    """

    def __init__(
        self,
        drafter: str = "ngram",
        rule: str = "auto",
        *,
        head: DraftVocabulary | None = None,
        draft_model: Any = None,
        engine: Engine | None = None,
        online: Online | None = None,
        **options: Any,
    ) -> None:
        if engine is not None and (head is not None or draft_model is not None or options):
            raise SpecproofError("an engine of your own has its drafter and options: give it alone")
        self.drafter, self.rule = drafter, rule
        self.head, self.draft_model, self.options = head, draft_model, options
        self.online = online
        self.engine = engine
        self.last: list[Trajectory] = []
        self._own = engine is None
        self._model: Any = None  # that the engine was last synced with, at `_step`
        self._step = -1
        self._calls: dict[str, int] = {}  # since then, by mode
        self._padded = False  # whether the trainer's padding was looked at
        self._failed = 0  # steps so far whose drafter had failed

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, list[Any]]:
        """What GRPOTrainer asks of a `rollout_func`.

        Args:
            prompts: texts or conversations, each already repeated for its group: one completion is due for each.
                (The trainer's docstring says otherwise; its code repeats them.)
            trainer: the GRPOTrainer.

        Returns:
            `prompt_ids`, `completion_ids`, `logprobs`; and `trajectory`, a Trajectory each, for reward functions.

        Raises:
            SpecproofError: a setting cannot be honoured, or a prompt cannot be completed.
        """
        model = trainer.accelerator.unwrap_model(trainer.model)
        check_trainer(trainer)
        config = effective_config(trainer, model)
        check_config(config, trainer.temperature)
        mode = "train" if trainer.model.training else "eval"
        ids, images, _ = trainer._tokenize_prompts(list(prompts))
        if images is not None:
            raise SpecproofError("prompts with images cannot be honoured in rollouts: give text")
        with evaluating(model):
            engine = self._synced(model, trainer.state.global_step)
            seed = self._seed(trainer, mode)
            params = sampling_params(config, engine.target.context, seed)
            tasks = numbered(ids)
            self._look_at_padding(model, {len(tokens) for tokens in ids})
            found = {(one.prompt, one.sample): one for one in RolloutWorker(engine).run(tasks, params)}
        self.last = [_checked(found[task.prompt, task.sample]) for task in tasks]
        self._warn(engine)
        return {
            "prompt_ids": [list(one.prompt_ids) for one in self.last],
            "completion_ids": [list(one.completion_ids) for one in self.last],
            "logprobs": [list(one.raw_logprobs) for one in self.last],
            "trajectory": list(self.last),
        }

    def _synced(self, model: Any, step: int) -> Engine:
        """The engine with the weights of this step, which is their version less 1."""
        if self._own and self._model is not model:
            self.engine = self._build(model)
        assert self.engine is not None
        if self._model is not model or step != self._step:
            self.engine.update_target(model, max(step, self.engine.target_version) + 1)
            self._model, self._step, self._calls = model, step, {}
            if self.online is not None:
                self.online.update(self.engine)
        return self.engine

    def _build(self, model: Any) -> Engine:
        target = HFBackend(model, taps=self.head.taps if self.head is not None else (), mixed=True)
        if self.head is not None and self.drafter not in HEADED:
            raise SpecproofError(f"drafter {self.drafter!r} takes no head; those that do: {', '.join(HEADED)}")
        draft = None if self.draft_model is None else HFBackend(self.draft_model, mixed=True)
        drafter = choose_drafter(self.drafter, target, draft, head=self.head, coupled=self.rule == "coupling")
        return Engine(target, drafter, self.rule, **self.options)

    def _look_at_padding(self, model: Any, lengths: set[int]) -> None:
        """Warn once if the trainer's own pass over padded prompts is not this model's law."""
        if len(lengths) > 1 and not self._padded:
            self._padded = True
            if (error := padding_error(model)) > _MOVED:
                warnings.warn(
                    "prompts of different lengths are padded on the left, which moves the logits of a "
                    f"{type(model).__name__} by {error:.2g} standard deviations in the trainer's own pass: its "
                    "loss is not that of the texts; give prompts of one length, or a model with rotary positions",
                    stacklevel=3,
                )

    def _warn(self, engine: Engine) -> None:
        failed = engine.stats.unspeculated[FAILED]
        if failed > self._failed:
            warnings.warn(f"the drafter failed: {failed - self._failed} steps without speculation", stacklevel=3)
            self._failed = failed
        if alarm := engine.alarm():
            warnings.warn(alarm, stacklevel=3)

    def _seed(self, trainer: Any, mode: str) -> int:
        """Of this call: of process, mode, optimiser step, and number of the call since that step."""
        call = self._calls[mode] = self._calls.get(mode, 0) + 1
        seed = trainer.args.seed
        for number in (trainer.accelerator.process_index, int(mode == "eval"), trainer.state.global_step, call):
            seed = completion_seed(seed, number + 1)
        return int(seed)


_OF: WeakKeyDictionary[Any, Rollouts] = WeakKeyDictionary()


def rollout_func(prompts: Sequence[Any], trainer: Any) -> dict[str, list[Any]]:
    """`Rollouts()` as a plain function: prompt lookup, the rule that fits it, one engine for each trainer."""
    return _OF.setdefault(trainer, Rollouts())(prompts, trainer)


def numbered(prompts: Sequence[Sequence[int]]) -> list[Task]:
    """Tasks for prompts [tokens], equal ones being samples of one prompt."""
    places: dict[tuple[int, ...], int] = {}
    counts: dict[int, int] = {}
    tasks = []
    for tokens in prompts:
        prompt = places.setdefault(tuple(tokens), len(places))
        counts[prompt] = counts.get(prompt, 0) + 1
        tasks.append(Task(prompt, counts[prompt] - 1, list(tokens)))
    return tasks


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """A model in evaluation mode; every part of it goes back to the mode it had.

    In mixed precision the trainer casts the weights in each forward. What is cast here is kept until the end, as
    within one forward of the trainer's: the numbers are the same, and most of the time was in the casts.
    """
    training = [module for module in model.modules() if module.training]
    model.eval()
    torch.autocast_increment_nesting()
    torch.clear_autocast_cache()  # of other weights, if this is within somebody's autocast
    try:
        yield
    finally:
        torch.autocast_decrement_nesting()
        torch.clear_autocast_cache()  # these casts have no gradients, and the weights are about to change
        for module in training:
            module.training = True


def _checked(trajectory: Trajectory) -> Trajectory:
    if trajectory.error is not None or not trajectory.completion_ids:
        reason = trajectory.error or "it leaves no room in the model's context"
        raise SpecproofError(f"prompt {trajectory.prompt} ({len(trajectory.prompt_ids)} tokens): {reason}")
    return trajectory
