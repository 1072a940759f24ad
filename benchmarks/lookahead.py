"""Whether lookahead decoding pays: n-grams from Jacobi iterations, verified in the forward that makes new ones.

Every forward carries a window of guesses, `window` positions at `grams - 1` stages, whose rows become the n-grams
of later steps. All of it is one point draft: the window is a tree below the root that nobody expects to be
accepted, and pooled n-grams that begin with the root are chains beside it. So the text is plain whatever is
guessed, and the question is only what the columns gain.

    python benchmarks/lookahead.py [--model NAME] [--tokens N]
"""

import argparse
import json
from collections import defaultdict

import torch
from transformers.utils import logging

from specproof.backends.hf import HFBackend
from specproof.engine.engine import Engine
from specproof.engine.loading import chat_tokens, load_model, load_tokenizer
from specproof.tree import Tree
from specproof.types import Draft, SamplingParams

# Window, length of the n-grams, and how many of them are verified at once.
SIZES = ((5, 4, 3), (8, 4, 4))
ROOM = 64  # nodes for which there is always room: texts are cancelled that far before their end
PROMPTS = (
    "Explain why the sky is blue.",
    "Write a Python function that reverses the words of a sentence.",
    "Give a numbered list of five tips for better sleep.",
    "Tell the beginning of a story about a lost key.",
)


class Lookahead:
    """A drafter of one sequence at temperature 0 (Fu et al. 2024, 2402.02057)."""

    drawn = "point"
    chains = False

    def __init__(self, window: int, grams: int, verified: int) -> None:
        self.window, self.grams, self.verified = window, grams, verified
        self.pool: dict[int, dict[tuple[int, ...], None]] = defaultdict(dict)
        self.stages: list[list[int]] = []

    def draft(self, batch, budget, noise):
        """The window as chains below a chain, then the latest n-grams that begin with the root."""
        tokens = batch[0].tokens
        if not self.stages:  # the text so far, again and again: any guess will do
            length = self.window * (self.grams - 1)
            guesses = [tokens[i % len(tokens)] for i in range(length)]
            self.stages = [guesses[i :: self.grams - 1] for i in range(self.grams - 1)]
        parents = list(range(-1, self.window - 1))
        for stage in range(1, self.grams - 1):
            parents += range((stage - 1) * self.window, stage * self.window)
        nodes = [token for stage in self.stages for token in stage]
        for gram in list(self.pool[tokens[-1]])[-self.verified :]:
            parents += [-1, *range(len(nodes), len(nodes) + len(gram) - 1)]
            nodes += gram
        assert len(nodes) <= budget[0], "the window needs room behind the text"
        return Draft((Tree(tuple(parents)),), torch.tensor([nodes]), None, "point")

    def observe(self, batch, steps, output):
        """The last stage's rows complete the n-grams, and every stage moves on by one."""
        last = (self.grams - 2) * self.window
        new = output.logits[0, 1 + last : 1 + last + self.window].argmax(-1).tolist()
        for place in range(self.window):
            gram = [stage[place] for stage in self.stages] + [new[place]]
            known = self.pool[gram[0]]
            known.pop(tuple(gram[1:]), None)
            known[tuple(gram[1:])] = None  # the latest stands last
        self.stages = [*self.stages[1:], new]

    def free(self, batch):
        """The pool is of one text."""
        self.stages = []
        self.pool.clear()


def main() -> None:
    """Print a table, then one JSON line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="default")
    parser.add_argument("--tokens", type=int, default=64)
    args = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    target, tokenizer = HFBackend(load_model(args.model)), load_tokenizer(args.model)
    params = SamplingParams(temperature=0, max_tokens=args.tokens + ROOM, ignore_eos=True)
    prompts = [chat_tokens(tokenizer, text) for text in PROMPTS]
    rows = []
    for name, drafter in (
        ("ngram", "ngram"),
        ("suffix", "suffix"),
        *(("lookahead {} {} {}".format(*size), Lookahead(*size)) for size in SIZES),
    ):
        engine = Engine(target, drafter, "walk", budget=ROOM, max_batch=1, adaptive=False)
        texts = []
        for prompt in prompts:
            (request,) = engine.requests(prompt, params)
            engine.add(request)
            while len(request.sequence.output) < args.tokens:
                engine.step()
            engine.cancel(request)
            assert not request.warnings, request.warnings
            texts.append(tuple(request.sequence.output[: args.tokens]))
        stats = engine.stats
        row = {"drafter": name, "tokens_per_forward": stats.tokens_per_forward, "texts": hash(tuple(texts))}
        rows.append(row | {"columns": 1 + stats.drafted / stats.steps})
        print(f"{name:18} {stats.tokens_per_forward:5.2f} tokens per forward, {rows[-1]['columns']:5.1f} columns")
    assert len({row.pop("texts") for row in rows}) == 1, "all drafters give the same texts"
    print(json.dumps({"model": args.model, "tokens": args.tokens, "rows": rows}))


if __name__ == "__main__":
    main()
