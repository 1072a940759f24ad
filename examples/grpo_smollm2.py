"""GRPO on SmolLM2-135M with rollouts by specproof; beside them TRL's own generation, step by step.

    python examples/grpo_smollm2.py --steps 20
    python examples/grpo_smollm2.py --steps 20 --beside           # all three generate in every step
    python examples/grpo_smollm2.py --steps 20 --generation trl   # TRL's own generation only

With --beside three generators get the same prompts and the same weights in every step, and take turns in going
first: this engine with drafts, this engine without, and TRL's own. The policy learns from the first one's texts.
Seconds of a step with one of them are those of the whole step less the others' generation. The task is
arithmetic with a reward that anyone can check: the share of the answer that is digits, and 1 more if the first
number in it is the sum. Needs the extra `trl`.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any

import torch
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
class Side:
    """What one generator did in every step.

    Attributes:
        seconds: of generation.
        tokens: of completions.
        forwards: of the rows that were not done, summed over rows.
        calls: of the model.
    """

    seconds: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    forwards: list[int] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)

    def summary(self, name: str, rest: list[float]) -> str:
        """A line of means over all steps but the first, which warms up; `rest` are other seconds of the steps."""
        first = min(1, len(self.tokens) - 1)
        steps = len(self.tokens) - first
        seconds, tokens, forwards, calls = (
            sum(values[first:]) for values in (self.seconds, self.tokens, self.forwards, self.calls)
        )
        whole = (seconds + sum(rest[first:])) / steps
        return (
            f"{name:9}  {whole:12.2f}  {seconds / steps:13.2f}  {tokens / steps:6.1f}"
            f"  {1000 * seconds / tokens:8.1f}  {tokens / forwards:18.2f}  {calls / steps:5.1f}"
        )


@dataclass
class Clock:
    """What every step of a run took.

    Attributes:
        sides: by generator.
        steps: seconds of whole steps.
        rewards: their means.
    """

    sides: dict[str, Side]
    steps: list[float] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)

    def line(self) -> str:
        """The latest step."""
        parts = [f"step {len(self.steps):3}: {self.steps[-1]:6.2f} s, reward {self.rewards[-1]:.2f}"]
        for name, side in self.sides.items():
            per_forward = side.tokens[-1] / side.forwards[-1]
            parts.append(
                f"{name} {side.seconds[-1]:6.2f} s for {side.tokens[-1]:4} tokens, {per_forward:.2f} per forward, "
                f"{side.calls[-1]} calls"
            )
        return "; ".join(parts)

    def table(self) -> str:
        """Means of both, and what the steps gain."""
        generation = [sum(each) for each in zip(*(side.seconds for side in self.sides.values()), strict=True)]
        rest = [step - spent for step, spent in zip(self.steps, generation, strict=True)]
        lines = ["generator  seconds/step  of generation  tokens  ms/token  tokens per forward  calls"]
        lines += [side.summary(name, rest) for name, side in self.sides.items()]
        return "\n".join(lines)


GENERATORS = ("drafts", "no drafts", "trl")


def generator(options: argparse.Namespace, model: Any, name: str) -> Rollouts | None:
    """The `rollout_func` of a generator; None for TRL's own."""
    if name == "trl":
        return None
    drafter = options.drafter if name == "drafts" else "none"
    head = load_trained_head(model, options.model) if drafter in ("eagle3", "hybrid") else None
    rule = options.rule if name == "drafts" else "auto"
    return Rollouts(drafter, rule, head=head, max_batch=options.max_batch, adaptive=options.adaptive)


def train(options: argparse.Namespace) -> Clock:
    """Some steps of GRPO; returns what they took."""
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    names = GENERATORS if options.beside else (options.generation,)
    clock = Clock({name: Side() for name in names})
    model, tokenizer = load_model(options.model), load_tokenizer(options.model)
    rollouts = {name: generator(options, model, name) for name in names}
    calls = [0]
    model.register_forward_pre_hook(lambda *_: calls.__setitem__(0, calls[0] + 1))

    class Timed(GRPOTrainer):
        def _generate(self, prompts: list[Any]) -> Any:
            first = len(clock.steps) % len(names)
            found = {name: self.timed(name, prompts) for name in (*names[first:], *names[:first])}
            return found[names[0]]

        def timed(self, name: str, prompts: list[Any]) -> Any:
            self.rollout_func = own = rollouts[name]
            calls[0], began = 0, time.perf_counter()
            found = super()._generate(prompts)
            side, lengths = clock.sides[name], [len(text) for text in found[1]]
            side.seconds.append(time.perf_counter() - began)
            side.calls.append(calls[0])
            side.tokens.append(sum(lengths))
            # Plain generation goes through a forward of each row for each of its tokens.
            side.forwards.append(sum(lengths) if own is None else sum(one.forwards for one in own.last))
            return found

    class Steps(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.began = time.perf_counter()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            clock.steps.append(time.perf_counter() - self.began)
            print(clock.line(), flush=True)

    def scored(**values: Any) -> list[float]:
        earned = reward(**values)
        clock.rewards.append(sum(earned) / len(earned))
        return earned

    with tempfile.TemporaryDirectory() as folder:
        settings = GRPOConfig(
            folder, max_steps=options.steps, num_generations=options.group, seed=options.seed,
            per_device_train_batch_size=options.prompts * options.group, max_completion_length=options.tokens,
            learning_rate=options.learning_rate, temperature=options.temperature, bf16=not options.float32,
            use_cpu=not torch.cuda.is_available(), gradient_checkpointing=False, report_to=[],
            save_strategy="no", logging_strategy="no", disable_tqdm=True,
        )  # fmt: skip
        trainer = Timed(
            model, scored, settings, questions(64), processing_class=tokenizer, callbacks=[Steps()],
            rollout_func=rollouts[names[0]],
        )  # fmt: skip
        trainer.train()
    return clock


def main() -> None:
    """Read the flags, train, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="default")
    parser.add_argument("--generation", choices=GENERATORS, default="drafts")
    parser.add_argument("--beside", action="store_true", help="all of them, in every step")
    parser.add_argument("--drafter", default="hybrid")
    parser.add_argument("--rule", default="auto")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--prompts", type=int, default=2, help="in each step")
    parser.add_argument("--group", type=int, default=4, help="completions of each prompt")
    parser.add_argument("--tokens", type=int, default=32, help="longest completion")
    parser.add_argument("--max-batch", type=int, default=16, help="most texts in a forward, but for TRL's own")
    parser.add_argument("--adaptive", action="store_true", help="draft only where nominal costs say it pays")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--float32", action="store_true", help="TRL's default is bfloat16 autocast")
    parser.add_argument("--learning-rate", type=float, default=1e-5)
    parser.add_argument("--seed", type=int, default=0)
    print(train(parser.parse_args()).table())


if __name__ == "__main__":
    main()
