"""The rows that our engine's rule is handed on a real model, after the root and after every drafted path.

What is drafted does not matter for the law, so that it is chosen to hit parameters that look at the text: trees of
the very tokens that penalties, biases and bad words are about. The forward's logits are taken as they are, in
double precision: what is compared is what sampling parameters make of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from specproof.audit.mutants.around import Around
from specproof.audit.parameters.compared import Compared, Tally
from specproof.audit.parameters.lattice import params_of, shown
from specproof.audit.parameters.plain import plain_row
from specproof.drafters.none import empty_draft
from specproof.engine.engine import Engine
from specproof.errors import SpecproofError
from specproof.rules import find_rule
from specproof.tree import Tree
from specproof.types import Backend, Batch, Draft, Drawn, Law, Noise, Output, Step

TREE = Tree((-1, -1, 0, 0, 1, 2, 5))
TOLERANCE = 1e-9
# Rows of texts of this length: long enough for every word, count and minimum.
LENGTH = 8


class PathDrafter:
    """Drafts the tree of `TREE` from a few tokens, other ones at every length of the text."""

    drawn: Drawn = "point"
    chains = False

    def __init__(self, palette: Sequence[int]) -> None:
        if len(set(palette)) < 3:
            raise SpecproofError(f"a palette of {sorted(set(palette))}: give at least three different tokens")
        self.palette = list(dict.fromkeys(palette))

    def draft(self, batch: Batch, budget: Sequence[int], noise: Noise) -> Draft:
        """See `Drafter.draft`."""
        trees = tuple(Tree(TREE.parents[: min(most, len(TREE))]) for most in budget)
        width = max(map(len, trees))
        if width == 0:
            return empty_draft(len(batch))
        tokens = torch.zeros(len(batch), width, dtype=torch.long)
        for b, (sequence, tree) in enumerate(zip(batch, trees, strict=True)):
            for node in range(len(tree)):
                # Siblings stand next to each other in the tree, so they are different.
                tokens[b, node] = self.palette[(len(sequence.tokens) + node) % len(self.palette)]
        return Draft(trees, tokens, None, "point")

    def observe(self, batch: Batch, steps: Sequence[Step], output: Output) -> None:
        """Nothing is kept."""

    def free(self, batch: Batch) -> None:
        """Nothing is kept."""


class Seen(NamedTuple):
    """One row: the text before it, how many of its last tokens were drafted, the forward's logits, the row."""

    text: list[int]
    drafted: int
    logits: Tensor
    row: Tensor


class _Precise(Around):
    """The target in double precision, with its last batch and logits at hand."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.texts: list[list[int]] = []
        self.logits = torch.zeros(0)

    def forward(self, batch: Batch, draft: Draft, start: Sequence[int] | None = None) -> Output:
        """As the target does."""
        self.logits = super().forward(batch, draft, start).logits.double()
        self.texts = [list(sequence.tokens) for sequence in batch]
        return Output(self.logits)


def compare_rows(
    target: Backend,
    prompts: Sequence[Sequence[int]],
    settings: Sequence[Mapping[str, Any]],
    palette: Sequence[int],
    ends: Sequence[int],
    plant: Callable[[Engine], Engine] = lambda engine: engine,
) -> Iterator[Compared]:
    """Run the engine under every setting, all prompts in one batch, and compare every row that its rule is handed.

    Args:
        target: the model.
        prompts: tokens of each.
        settings: parameters by name.
        palette: what is drafted.
        ends: tokens that end a text.
        plant: changes the engine, for faults.
    """
    walk = find_rule("walk")
    for values in settings:
        precise, seen = _Precise(target), list[Seen]()

        def rule(rows: Tensor, draft: Draft, precise: _Precise = precise, seen: list[Seen] = seen) -> Law:
            for b, (text, tree) in enumerate(zip(precise.texts, draft.trees, strict=True)):
                for row in range(len(tree) + 1):
                    path = [int(draft.tokens[b, node]) for node in tree.path(row - 1)]
                    seen.append(Seen(text + path, len(path), precise.logits[b, row], rows[b, row]))
            return walk(rows, draft)

        params = params_of(values, LENGTH)
        engine = Engine(precise, PathDrafter(palette), rule, eos=ends, max_batch=len(prompts), adaptive=False)
        engine = plant(engine)
        requests = [engine.requests(prompt, params)[0] for prompt in prompts]
        for number, request in enumerate(requests):
            request.sequence.seed = number
        for _ in engine.run(requests):
            pass
        tally, lengths = Tally(), {tuple(prompt): len(prompt) for prompt in prompts}
        for one in seen:
            length = next(n for prompt, n in lengths.items() if tuple(one.text[:n]) == prompt)
            expected = plain_row(one.logits, one.text, length, params, ends)
            if bool(expected.isfinite().all()):  # else everything is forbidden, and the request ends with an error
                place = f"after {len(one.text) - length} tokens, {one.drafted} of them drafted"
                tally.add(one.row, expected, one.drafted > 0, place)
        yield tally.compared(shown(values), "rows on the model", TOLERANCE)
