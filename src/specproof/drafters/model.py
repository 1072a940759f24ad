"""A smaller model drafts a chain: sampled, with the rows it was drawn from, or decided by shared noise."""

from collections.abc import Sequence

import torch
from torch import Tensor

from specproof.drafters.none import empty_draft
from specproof.errors import SpecproofError
from specproof.rules.coupling import shared_key
from specproof.sampling import warp_batch
from specproof.tree import Tree
from specproof.types import PROPOSE, Backend, Batch, Draft, Drawn, Key, Noise, Output, Step


class ModelDrafter:
    """Draws each token of a chain from a model under the sequence's own sampling parameters.

    Args:
        backend: any backend with the target's vocabulary; its context may be shorter than the target's.
        length: most tokens proposed.
        coupled: decide each position with the noise that rule "coupling" will decide it with, so that the two
            agree often. Given the noise nothing is left to chance, so these are point drafts.
    """

    chains = True

    def __init__(self, backend: Backend, length: int = 4, *, coupled: bool = False) -> None:
        if length < 1:
            raise SpecproofError(f"draft length {length} is not allowed: give a whole number >= 1")
        self.backend = backend
        self.length = length
        self.coupled = coupled
        self.drawn: Drawn = "point" if coupled else "iid"

    def draft(self, batch: Batch, budget: Sequence[int], noise: Noise) -> Draft:
        """A chain for each sequence; where a budget or the draft model's context is spent, a shorter one."""
        # The node at depth d sits at position tokens + d - 1; the last one is never scored by this model.
        room = [self.backend.context - len(sequence.tokens) + 1 for sequence in batch]
        sizes = [max(0, min(self.length, most, left)) for most, left in zip(budget, room, strict=True)]
        active = [b for b, size in enumerate(sizes) if size]
        if not active:
            return empty_draft(len(batch), self.drawn)
        part = self._draw([batch[b] for b in active], [sizes[b] for b in active], noise)
        trees = tuple(Tree.chain(size) for size in sizes)
        tokens = part.tokens.new_zeros(len(batch), part.tokens.shape[1])
        tokens[active] = part.tokens
        if part.rows is None:
            return Draft(trees, tokens, None, self.drawn)
        rows = part.rows.new_zeros(len(batch), *part.rows.shape[1:])
        rows[active] = part.rows
        return Draft(trees, tokens, rows, self.drawn)

    def observe(self, batch: Batch, steps: Sequence[Step], output: Output) -> None:
        """Keep what was accepted of the nodes that this model scored."""
        self.backend.keep(batch, [step.path for step in steps])

    def free(self, batch: Batch) -> None:
        """Forget these sequences."""
        self.backend.free(batch)

    def _draw(self, batch: Batch, sizes: list[int], noise: Noise) -> Draft:
        """Chains of `sizes` (all >= 1), one draft forward a depth; a finished chain waits for the others."""
        tokens = torch.zeros(len(batch), 0, dtype=torch.long)
        rows: list[Tensor] = []
        for depth in range(max(sizes)):
            trees = tuple(Tree.chain(min(size - 1, depth)) for size in sizes)
            so_far = Draft(trees, tokens, None, self.drawn)
            row = warp_batch(self.backend.forward(batch, so_far, start=depth).logits[:, -1], batch)  # [B, V]
            growing = [b for b, size in enumerate(sizes) if size > depth]
            keys = [self._key(batch[b].seed, len(batch[b].tokens), depth) for b in growing]
            token = torch.zeros(len(batch), dtype=torch.long)
            token[growing] = noise.choose(row[growing], keys).cpu()
            tokens = torch.cat([tokens, token[:, None]], 1)
            rows.append(row)
        trees = tuple(Tree.chain(size) for size in sizes)
        if self.coupled:
            return Draft(trees, tokens, None, self.drawn)
        rows.append(torch.zeros_like(rows[0]))  # nothing is drawn after the last node
        return Draft(trees, tokens, torch.stack(rows, 1), self.drawn)

    def _key(self, seed: int, length: int, depth: int) -> Key:
        """What the node at depth + 1 below a text of `length` tokens is decided by."""
        return shared_key(seed, length + depth) if self.coupled else Key(seed, length - 1, PROPOSE, depth)
