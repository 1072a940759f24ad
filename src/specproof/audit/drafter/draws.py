"""What a draft's rows say of its tokens, node by node; and a sequence as a drafter finds it in the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from specproof.drafters.none import empty_draft
from specproof.noise import CounterNoise
from specproof.sampling import ends_for, processors_for
from specproof.types import Backend, Draft, Drafter, SamplingParams, Step, TokenSequence


class Context(NamedTuple):
    """Where is drafted: a text, and how it is sampled."""

    tokens: tuple[int, ...]
    params: SamplingParams

    def __str__(self) -> str:
        return (
            f"{len(self.tokens)} tokens, temperature {self.params.temperature}, top-k {self.params.top_k or 'all'}"
        )


class Node(NamedTuple):
    """One drafted token.

    Attributes:
        path: the drafted tokens above it.
        order: which of its siblings it is.
        token: what was drafted.
        row: [V] what the rows say that it was drawn from, given its earlier siblings; one token for sure where it
            is a function of the context.
        returned: [V] the row of its parent as returned; None for point drafts.
    """

    path: tuple[int, ...]
    order: int
    token: int
    row: Tensor
    returned: Tensor


def nodes(draft: Draft, place: int = 0) -> Iterator[Node]:
    """Nodes of one sequence's draft with rows, parents first."""
    assert draft.rows is not None, "point drafts have no rows"
    tree, tokens = draft.trees[place], draft.tokens[place].tolist()
    for node, parent in enumerate(tree.parents):
        siblings = tree.children(parent)
        order = siblings.index(node)
        returned = draft.rows[place, parent + 1].double()
        row = returned.clone()
        if draft.drawn != "iid":
            row[[tokens[earlier] for earlier in siblings[:order]]] = 0
        if draft.drawn == "top_and_one" and node != siblings[-1]:
            row = torch.nn.functional.one_hot(torch.tensor(tokens[node]), len(row)).double()
        path = tuple(tokens[above] for above in tree.path(parent))
        yield Node(path, order, tokens[node], row / row.sum(), returned)


def begun(
    target: Backend, drafter: Drafter, context: Context, seeds: Sequence[int], ends: Sequence[int] = ()
) -> list[TokenSequence]:
    """A sequence for each seed, one step into its text: the target has read it and committed its last token."""
    params = context.params
    processors = processors_for(params, target.vocabulary)
    batch = [
        TokenSequence(
            list(context.tokens[:-1]), len(context.tokens) - 1, params, seed, ends_for(params, ends), processors
        )
        for seed in seeds
    ]
    drafter.draft(batch, [0] * len(batch), CounterNoise())
    output = target.forward(batch, empty_draft(len(batch), drafter.drawn))
    for sequence in batch:
        sequence.tokens.append(context.tokens[-1])
    target.keep(batch, [()] * len(batch))
    drafter.observe(batch, [Step((), context.tokens[-1])] * len(batch), output)
    return batch


def ended(target: Backend, drafter: Drafter, batch: Sequence[TokenSequence]) -> None:
    """Forget these sequences."""
    drafter.free(batch)
    target.free(batch)
