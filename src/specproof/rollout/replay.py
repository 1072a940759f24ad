"""Remember rollouts so that they can be drafted again: tokens alone, or with the rows they were drawn from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch

from specproof.drafters.past import Kept, Past, kept
from specproof.engine.engine import Engine
from specproof.rollout.trajectory import Trajectory
from specproof.sampling import warp_batch
from specproof.tree import Tree
from specproof.types import Draft

# Tokens whose rows are computed in one forward.
_PIECE = 32


def tokens_of(trajectories: Iterable[Trajectory]) -> Iterator[Past]:
    """Texts without rows, for point drafts and for rule "coupling"; nothing is computed."""
    for one in trajectories:
        yield Past(one.prompt_ids, _own(one), one.seed)


def remember(
    engine: Engine, trajectories: Iterable[Trajectory], most: int = 64, dtype: torch.dtype = torch.float16
) -> Iterator[Past]:
    """Texts with what is stored of their rows, which are computed again: do it before the weights are updated.

    Args:
        engine: whose target drew them, with the weights that it drew them with; no request may be running.
        trajectories: of its target.
        most: likeliest tokens that are stored of a row; 0 for all that have mass.
        dtype: of the stored probabilities.
    """
    for one in trajectories:
        yield Past(one.prompt_ids, _own(one), one.seed, tuple(_rows(engine, one, most, dtype)))


def _own(one: Trajectory) -> tuple[int, ...]:
    """Tokens of the policy that it began with: what came after an update is of other rows."""
    return one.completion_ids[: one.updates[0][0]] if one.updates else one.completion_ids


def _rows(engine: Engine, one: Trajectory, most: int, dtype: torch.dtype) -> Iterator[Kept]:
    params = replace(one.sampling, seed=one.seed, n=1, logprobs=None, prompt_logprobs=None)
    request = engine.requests(list(one.prompt_ids), params)[0]
    request.read(len(request.unread))
    sequence, tokens = request.sequence, list(_own(one))
    try:
        for first in range(0, len(tokens), _PIECE):
            part = tokens[first : first + _PIECE]
            draft = Draft((Tree.chain(len(part) - 1),), torch.tensor([part[:-1]], dtype=torch.long), None, "point")
            rows, broken = warp_batch(engine.target.forward([sequence], draft).logits, [sequence], draft)
            for row, lost, token in zip(rows[0].cpu(), broken[0].tolist(), part, strict=True):
                found = kept(row, token, most, dtype)
                yield found._replace(chance=0.0) if lost else found
            sequence.tokens += part
            engine.target.keep([sequence], [tuple(range(len(part) - 1))])
    finally:
        engine.target.free([sequence])
