"""From a law to an outcome: the one place where verification meets randomness."""

import torch

from specproof.types import EXTRA, STOP, Batch, Draft, Key, Law, Noise, Step


def draw(law: Law, batch: Batch, draft: Draft, noise: Noise) -> list[Step]:
    """Draw where verification stops, then the extra token there; one step a sequence."""
    roots = [(sequence.seed, len(sequence.tokens) - 1) for sequence in batch]
    if law.stop.shape[1] == 1:  # nothing was drafted, so nothing is to be decided
        at = torch.zeros(len(batch), dtype=torch.long, device=law.stop.device)
    else:
        at = noise.choose(law.stop, [Key(*root, STOP) for root in roots])
    extra = noise.choose(law.next(at), [Key(*root, EXTRA) for root in roots])
    outcomes = zip(draft.trees, at.tolist(), extra.tolist(), strict=True)
    return [Step(tree.path(row - 1), token) for tree, row, token in outcomes]
