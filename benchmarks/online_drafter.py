"""Acceptance while a policy is trained: a head that is frozen against one that is distilled between rollouts.

    OMP_NUM_THREADS=1 python benchmarks/online_drafter.py --updates 30 --svg docs/pictures/online-drafter.svg

A small Llama learns a random language of 12 letters, an EAGLE-3 head learns the Llama, and GRPO then has it prefer
half of the letters. Both runs draw under rule `coupling` with the same seeds, so they write the same texts and
have the same policy at every update, as is checked: acceptance differs by the head alone. Needs the extra `trl`.
"""

import argparse
import json
import os
import tempfile
from copy import deepcopy
from html import escape
from pathlib import Path

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from specproof.backends.hf import HFBackend
from specproof.engine.engine import Engine
from specproof.rollout.online import OnlineDrafter, OnlineSettings
from specproof.rollout.trl import Rollouts
from specproof.train.data import Sample
from specproof.train.settings import TrainSettings
from specproof.train.start import new_head
from specproof.train.teacher import Teacher
from specproof.train.trainer import Trainer
from specproof.types import SamplingParams

LETTERS = "abcdefghijkl"
LIKED = frozenset(LETTERS[: len(LETTERS) // 2])
LENGTH = 16


def tokenizer():
    """One token a letter; token 0 ends a text."""
    words = {word: number for number, word in enumerate(["<end>", *LETTERS])}
    inner = Tokenizer(models.WordLevel(words, unk_token="<end>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>", unk_token="<end>")


def language(count, length, generator):
    """Texts [count, length] of a language in which two letters say much of the next: four follow, one mostly."""
    size = len(LETTERS)
    following = torch.randint(size, (size, size, 4), generator=torch.Generator().manual_seed(1))
    share = torch.tensor([0.64, 0.2, 0.1, 0.06]).expand(count, 4)
    texts = torch.randint(size, (count, length), generator=generator)
    for place in range(2, length):
        which = torch.multinomial(share, 1, generator=generator)[:, 0]
        texts[:, place] = following[texts[:, place - 2], texts[:, place - 1], which]
    return texts + 1


def policy(updates):
    """A Llama that knows the language."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(LETTERS) + 1, hidden_size=48, intermediate_size=96, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=64,
        bos_token_id=None, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    generator = torch.Generator().manual_seed(2)
    for _ in range(updates):
        texts = language(32, LENGTH + 4, generator)
        loss = model(input_ids=texts, labels=texts).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"policy: {updates} updates, loss {loss.item():.3f}", flush=True)
    return model.eval()


def first_head(model, updates):
    """A head that learned the policy's own texts."""
    prompts = language(16, 4, torch.Generator().manual_seed(3)).tolist()
    engine = Engine(HFBackend(model), "none", max_batch=32)
    results = engine.generate(prompts, SamplingParams(max_tokens=LENGTH, seed=4, n=8))
    samples = [Sample((*prompts[n // 8], *one.tokens), 4, one.seed) for n, one in enumerate(results)]
    settings = TrainSettings(depth=3, steps=updates, batch=8, learning_rate=2e-3, loss="kl")
    head = new_head(model, "policy", range(len(LETTERS) + 1), settings)
    trainer = Trainer(head, Teacher(model, head.taps, head.drafted), samples, settings)
    losses = [trainer.step() for _ in range(updates)]
    print(f"head: {updates} updates, loss {losses[0]:.3f} to {losses[-1]:.3f}", flush=True)
    return head.eval()


def grpo(model, head, learns, options):
    """Train a copy of the policy; one entry an update: texts, acceptance, reward."""
    from trl import GRPOConfig, GRPOTrainer

    model, head = deepcopy(model).train(), deepcopy(head)
    head.embed_tokens.weight = torch.nn.Parameter(
        model.get_input_embeddings().weight.detach(), requires_grad=False
    )
    online = OnlineDrafter(head, OnlineSettings(updates=options.distil, learning_rate=1e-3)) if learns else None
    rollouts = Rollouts("eagle3", "coupling", head=head, online=online, adaptive=False, budget=3)
    entries = []

    def reward(completions, trajectory, **_):
        earned = [sum(w in LIKED for w in text.split()) / max(1, len(text.split())) for text in completions]
        drafted, accepted = (sum(getattr(one, name) for one in trajectory) for name in ("drafted", "accepted"))
        tokens, forwards = (
            sum(len(one.completion_ids) for one in trajectory),
            sum(one.forwards for one in trajectory),
        )
        entries.append(
            {
                "texts": [one.completion_ids for one in trajectory],
                "acceptance": accepted / drafted,
                "tokens_per_forward": tokens / forwards,
                "reward": sum(earned) / len(earned),
            }
        )
        if online is not None:
            online.add(trajectory, earned)
        kind = "frozen" if online is None else "online"
        print(f"{kind} {len(entries)}: reward {entries[-1]['reward']:.2f}, {accepted} of {drafted}", flush=True)
        return earned

    rows = language(64, 4, torch.Generator().manual_seed(5)).tolist()
    with tempfile.TemporaryDirectory() as folder:
        settings = GRPOConfig(
            folder, max_steps=options.updates, num_generations=4, per_device_train_batch_size=8,
            max_completion_length=LENGTH, learning_rate=options.learning_rate, lr_scheduler_type="constant",
            bf16=False, use_cpu=True, gradient_checkpointing=False, report_to=[], save_strategy="no",
            logging_strategy="no", disable_tqdm=True,
        )  # fmt: skip
        data = Dataset.from_dict({"prompt": [" ".join(LETTERS[token - 1] for token in row) for row in rows]})
        trainer = GRPOTrainer(model, reward, settings, data, processing_class=tokenizer(), rollout_func=rollouts)
        trainer.train()
    return entries


def smooth(values, width=5):
    """Running means, of fewer at the beginning."""
    parts = [values[max(0, end - width) : end] for end in range(1, len(values) + 1)]
    return [sum(part) / len(part) for part in parts]


LEFT, TOP, WIDTH, HEIGHT = 60, 24, 520, 220
STYLE = """svg { --ink: #1f2328; --faint: #6b7280; --added: #15803d; --lost: #c2410c }
@media (prefers-color-scheme: dark) {
svg { --ink: #e5e7eb; --faint: #9ca3af; --added: #5fd08a; --lost: #ff9d6c }
}"""
COLOURS = {"online": "added", "frozen": "lost"}


def text(x, y, words, fill="ink", anchor="middle"):
    """A label."""
    style = f'font-size="14" fill="var(--{fill})" text-anchor="{anchor}"'
    return f'<text x="{x:g}" y="{y:.1f}" {style}>{words}</text>'


def picture(runs):
    """Acceptance by update, as SVG that follows light and dark."""
    count = len(runs["frozen"])
    said = "; ".join(
        f"{name} head: {smooth(values)[4]:.2f} at update 5, {smooth(values)[-1]:.2f} at update {count}"
        for name, values in runs.items()
    )
    title = escape(f"Acceptance while a policy is trained, {said}")
    parts = [
        text(LEFT + WIDTH / 2, TOP + HEIGHT + 38, "updates of the policy; acceptance, and its mean over five")
    ]
    for share in range(0, 101, 20):
        y = TOP + HEIGHT * (1 - share / 100)
        ends = f'x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y:g}" y2="{y:g}"'
        parts.append(f'<line {ends} stroke="var(--faint)" stroke-opacity="0.35"/>')
        parts.append(text(LEFT - 8, y + 5, f"{share} %", anchor="end"))
    for number in (1, *range(5, count + 1, 5)):
        parts.append(text(LEFT + WIDTH * (number - 1) / (count - 1), TOP + HEIGHT + 18, str(number), "faint"))
    for name, values in runs.items():
        colour = COLOURS[name]
        places = [LEFT + WIDTH * number / (count - 1) for number in range(count)]
        for x, value in zip(places, values, strict=True):
            y = TOP + HEIGHT * (1 - value)
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="var(--{colour})" fill-opacity="0.5"/>')
        means = [TOP + HEIGHT * (1 - value) for value in smooth(values)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(places, means, strict=True))
        parts.append(f'<polyline points="{line}" fill="none" stroke="var(--{colour})" stroke-width="2.5"/>')
        parts.append(text(LEFT + WIDTH + 8, means[-1] + 5, name, colour, "start"))
    frame = f'viewBox="0 0 640 290" role="img" aria-label="{title}" font-family="system-ui, sans-serif"'
    inside = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {frame}>\n<title>{title}</title>\n<style>\n{STYLE}\n</style>\n'
        f"{inside}\n</svg>\n"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=30, help="of the policy")
    parser.add_argument("--distil", type=int, default=3, help="updates of the head after each")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="of the policy")
    parser.add_argument("--pretrain", type=int, default=150, help="updates of the policy before")
    parser.add_argument("--head", type=int, default=80, help="updates of the head before")
    parser.add_argument("--only", choices=("frozen", "online"), help="one of the two runs")
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    model = policy(options.pretrain)
    head = first_head(model, options.head)
    names = ("frozen", "online") if options.only is None else (options.only,)
    show({name: grpo(model, head, name == "online", options) for name in names}, options)


def show(runs, options):
    """Print and draw what was found; one run alone is only written."""
    if options.json:
        options.json.write_text(json.dumps(runs) + "\n", encoding="utf-8")
    if len(runs) < 2:
        return
    assert [one["texts"] for one in runs["frozen"]] == [one["texts"] for one in runs["online"]], "texts differ"
    print("the texts of both runs are equal, token by token")
    print("update  reward  acceptance: frozen  online  tokens per forward: frozen  online")
    for number, (frozen, online) in enumerate(zip(runs["frozen"], runs["online"], strict=True)):
        print(
            f"{number:6}  {frozen['reward']:6.2f}  {frozen['acceptance']:18.3f}  {online['acceptance']:6.3f}"
            f"  {frozen['tokens_per_forward']:26.2f}  {online['tokens_per_forward']:6.2f}"
        )
    for name, entries in runs.items():
        for when, part in (("first 5", entries[:5]), ("last 10", entries[-10:])):
            means = {
                key: sum(one[key] for one in part) / len(part)
                for key in ("acceptance", "tokens_per_forward", "reward")
            }
            print(name, when, {key: round(value, 3) for key, value in means.items()})
    if options.svg:
        drawn = picture({name: [one["acceptance"] for one in entries] for name, entries in runs.items()})
        options.svg.write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
