"""GRPO on SmolLM2-135M with rollouts by specproof, or by TRL's own generation: time and tokens per forward.

    python examples/grpo_smollm2.py --steps 3
    python examples/grpo_smollm2.py --steps 3 --beside          # the same steps by TRL's own generation as well
    python examples/grpo_smollm2.py --steps 3 --generation trl  # by TRL's own generation only

The task is arithmetic with a reward that anyone can check: the share of the answer that is digits, and 1 more if
the first number in it is the sum. Needs the extra `trl`.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any

from datasets import Dataset

from specproof.engine.heads import load_trained_head
from specproof.engine.loading import load_model, load_tokenizer
from specproof.rollout.trl import Rollouts

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")


def questions(count: int) -> Dataset:
    """Sums of two small numbers, with their answers."""
    rows = []
    for number in range(count):
        left, right = 2 + 7 * number % 19, 3 + 5 * number % 13
        text = f"What is {left} + {right}? Answer with the number only."
        rows.append({"prompt": [{"role": "user", "content": text}], "answer": str(left + right)})
    return Dataset.from_list(rows)


def reward(completions: list[Any], answer: list[str], **_: Any) -> list[float]:
    """Share of the characters that are digits, and 1 if the first number is the answer."""
    earned = []
    for completion, wanted in zip(completions, answer, strict=True):
        text = completion[0]["content"].strip()
        found = re.search(r"\d+", text)
        earned.append(
            sum(map(str.isdigit, text)) / max(1, len(text)) + float(found is not None and found[0] == wanted)
        )
    return earned


@dataclass
class Clock:
    """Seconds and tokens of every generation of one run."""

    generation: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    forwards: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)

    def table(self, name: str) -> str:
        """One line a step, then the means without the first, which warms up."""
        lines = [f"{name}: step  seconds  of which generation  tokens  tokens per forward  reward"]
        rows = zip(self.steps, self.generation, self.tokens, self.forwards, self.rewards, strict=True)
        for number, (step, written, tokens, forwards, earned) in enumerate(rows):
            lines.append(
                f"{number:>{len(name) + 6}}  {step:7.2f}  {written:19.2f}  {tokens:6}"
                f"  {tokens / forwards:18.2f}  {earned:6.2f}"
            )
        return "\n".join(lines)

    def per_token(self) -> float:
        """Milliseconds of generation per token, the first step left out where there are more."""
        first = min(1, len(self.tokens) - 1)
        return 1000 * sum(self.generation[first:]) / sum(self.tokens[first:])


def train(options: argparse.Namespace, generation: str) -> Clock:
    """Some steps of GRPO; returns what they took."""
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    clock = Clock()
    model, tokenizer = load_model(options.model), load_tokenizer(options.model)
    rollouts = None
    if generation == "specproof":
        headed = options.drafter in ("eagle3", "hybrid")
        head = load_trained_head(model, options.model) if headed else None
        rollouts = Rollouts(options.drafter, options.rule, head=head, max_batch=options.prompts * options.group)

    class Timed(GRPOTrainer):
        def _generate(self, prompts: list[Any]) -> Any:
            began = time.perf_counter()
            found = super()._generate(prompts)
            clock.generation.append(time.perf_counter() - began)
            lengths = [len(text) for text in found[1]]
            clock.tokens.append(sum(lengths))
            # Plain generation goes through a forward of each row for each of its tokens.
            own = [one.forwards for one in rollouts.last] if rollouts is not None else lengths
            clock.forwards.append(sum(own))
            return found

    class Steps(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.began = time.perf_counter()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            clock.steps.append(time.perf_counter() - self.began)

    def scored(**values: Any) -> list[float]:
        earned = reward(**values)
        clock.rewards.append(sum(earned) / len(earned))
        return earned

    with tempfile.TemporaryDirectory() as folder:
        settings = GRPOConfig(
            folder, max_steps=options.steps, num_generations=options.group, seed=options.seed,
            per_device_train_batch_size=options.prompts * options.group, max_completion_length=options.tokens,
            learning_rate=options.learning_rate, bf16=False, gradient_checkpointing=False, report_to=[],
            save_strategy="no", logging_strategy="no", disable_tqdm=True,
        )  # fmt: skip
        trainer = Timed(
            model, scored, settings, questions(64), processing_class=tokenizer, callbacks=[Steps()],
            rollout_func=rollouts,
        )  # fmt: skip
        trainer.train()
    return clock


def main() -> None:
    """Read the flags, train, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="default")
    parser.add_argument("--generation", choices=("specproof", "trl"), default="specproof")
    parser.add_argument("--beside", action="store_true", help="both, one after the other")
    parser.add_argument("--drafter", default="hybrid")
    parser.add_argument("--rule", default="auto")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--prompts", type=int, default=2, help="in each step")
    parser.add_argument("--group", type=int, default=4, help="completions of each prompt")
    parser.add_argument("--tokens", type=int, default=32, help="longest completion")
    parser.add_argument("--learning-rate", type=float, default=1e-5)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    names = ("specproof", "trl") if options.beside else (options.generation,)
    clocks = {name: train(options, name) for name in names}
    for name, clock in clocks.items():
        print(clock.table(name))
    if options.beside:
        ours, theirs = clocks["specproof"].per_token(), clocks["trl"].per_token()
        print(
            f"milliseconds of generation per token: specproof {ours:.1f}, TRL {theirs:.1f}: {theirs / ours:.2f}x"
        )


if __name__ == "__main__":
    main()
