"""A GRPO run on a tiny model, watched: what the trainer's own pass says of texts at their first use."""

from dataclasses import dataclass, field

import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

PROMPTS = ["a b c", "d e", "f g a", "b"]
SETTINGS = {
    "max_steps": 20,
    "per_device_train_batch_size": 8,
    "num_generations": 4,
    "max_completion_length": 8,
    "learning_rate": 3e-3,
    "lr_scheduler_type": "constant",
    "bf16": False,
    "use_cpu": True,
    "gradient_checkpointing": False,
    "report_to": [],
    "save_strategy": "no",
    "logging_strategy": "no",
    "disable_tqdm": True,
}


@dataclass
class Log:
    """One entry a generation."""

    texts: list = field(default_factory=list)  # completions
    versions: list = field(default_factory=list)  # of target and drafter
    params: list = field(default_factory=list)  # what was drawn under
    accepted: int = 0
    off: list = field(default_factory=list)  # largest difference of logprobs from the trainer's pass
    off_exact: list = field(default_factory=list)  # and of those in trajectories from a pass in float64
    filters: list = field(default_factory=list)  # largest difference of the drawn law's from those
    weights: list = field(default_factory=list)  # a copy before each


class Watched(GRPOTrainer):
    log_of_run: Log

    def _compute_loss(self, model, inputs):
        if self._step % (self.args.steps_per_generation * self.num_iterations) == 0:
            ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
            mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1)
            with torch.no_grad():
                own, _, _ = self._get_per_token_logps_and_entropies(
                    model, ids, mask, inputs["completion_ids"].shape[1]
                )
            apart = (own - inputs["sampling_per_token_logps"]) * inputs["completion_mask"]
            self.log_of_run.off.append(float(apart.abs().max()))
        return super()._compute_loss(model, inputs)


def count_a(completions, **_):
    return [float(text.split().count("a")) for text in completions]


def grpo(model, tokenizer, rollouts, folder, reward=count_a, prompts=PROMPTS, **settings):
    """Train; returns the log."""
    log = Log()

    def rewarded(completions, trajectory, **values):
        log.texts.append([one.completion_ids for one in trajectory])
        log.versions.append({(one.target_version, one.drafter_version) for one in trajectory})
        log.params.append([one.params for one in trajectory])
        log.accepted += sum(one.accepted for one in trajectory)
        log.off_exact.append(max(map(_off, [model] * len(trajectory), trajectory)))
        log.filters.append(
            max(abs(a - b) for one in trajectory for a, b in zip(one.logprobs, one.raw_logprobs, strict=True))
        )
        log.weights.append({name: value.detach().clone() for name, value in model.named_parameters()})
        return reward(completions=completions, trajectory=trajectory, **values)

    trainer = Watched(
        model,
        rewarded,
        GRPOConfig(str(folder), **SETTINGS | settings),
        Dataset.from_dict({"prompt": prompts}),
        processing_class=tokenizer,
        rollout_func=rollouts,
    )
    trainer.log_of_run = log
    trainer.train()
    return log


@torch.no_grad()
def _off(model, one):
    ids = torch.tensor([one.prompt_ids + one.completion_ids])
    logits = model(input_ids=ids, use_cache=False).logits[0, len(one.prompt_ids) - 1 : -1]
    law = (logits / one.params["temperature"]).log_softmax(-1)
    own = law.gather(1, torch.tensor(one.completion_ids)[:, None])[:, 0]
    return float((own - torch.tensor(one.raw_logprobs, dtype=own.dtype)).abs().max())
