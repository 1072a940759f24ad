"""Gumbel coupling: drafter and target decide each position with the same noise, and agree where they can.

The target's decision at a position depends on (seed, position, row) alone. So the whole text, the extra tokens
included, is a function of seed and target: whatever drafts, however long, in whatever tree. One seed for many
requests makes their texts depend on each other, each still with the right law.
"""

import torch
from torch import Tensor

from specproof.rules.walk import walk
from specproof.types import GUMBEL, Batch, Draft, Key, Law, Noise


def coupling(target: Tensor, draft: Draft) -> Law:
    """Law of the coupling on trees: the target walk, to be given the rows of `decided`; [B, N+1, V].

    On one-hot rows the walk follows the decisions as long as they were drafted, and ends with the first that
    was not. On plain rows it is the law averaged over the noise, for drafts that do not share it.

    Source: Daliri, Musco, Suresh 2024 (2408.07978).
    """
    return walk(target, draft)


def decided(rows: Tensor, batch: Batch, draft: Draft, noise: Noise) -> Tensor:
    """Rows [B, N+1, V] to one-hot rows: what the shared noise of its position decides at each node.

    Only nodes that the decisions from the root lead to are decided; other rows come back zero, since no walk
    gets there.
    """
    one_hot = torch.zeros_like(rows)
    tokens = draft.tokens.tolist()
    at = dict.fromkeys(range(len(batch)), -1)  # node that each sequence has come to
    depth = 0
    while at:
        live, places = list(at), [node + 1 for node in at.values()]
        keys = [shared_key(batch[b].seed, len(batch[b].tokens) + depth) for b in live]
        winners = noise.choose(rows[live, places], keys).tolist()
        one_hot[live, places, winners] = 1
        children = [draft.trees[b].children(at[b]) for b in live]
        at = {
            b: next(child for child in below if tokens[b][child] == token)
            for b, below, token in zip(live, children, winners, strict=True)
            if any(tokens[b][child] == token for child in below)
        }
        depth += 1
    return one_hot


def shared_key(seed: int, position: int) -> Key:
    """The key of the noise that decides the token at an absolute position, prompt included."""
    return Key(seed, position - 1, GUMBEL)


def match_probability(target: Tensor, draft: Tensor) -> Tensor:
    """Probability that two rows [.., V] are decided alike under the same noise, [..].

    It is sum_i 1 / sum_j max(target_j / target_i, draft_j / draft_i), and lies between (1 - TV) / (1 + TV) and
    1 - TV, which rejection attains.

    Source: Daliri, Musco, Suresh 2024 (2408.07978), section 3.
    """
    # Sorted by target/draft, the maximum is the target's for all j from i on and the draft's before.
    order = torch.where(target > 0, target / draft, 0).argsort(-1)
    p, q = target.gather(-1, order), draft.gather(-1, order)
    target_from = p.flip(-1).cumsum(-1).flip(-1)
    draft_before = q.cumsum(-1) - q
    both = (p > 0) & (q > 0)
    return torch.where(both, p * q / (q * target_from + p * draft_before), 0).sum(-1)
