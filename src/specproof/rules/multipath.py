"""Greedy multi-path block verification: keep one of several independent chains, then judge it as a block."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specproof.rules.block import block
from specproof.rules.powers import chord
from specproof.rules.rows import pick, token_mass
from specproof.rules.topdown import prefixes
from specproof.tree import Tree
from specproof.types import Draft, Law


def multipath(target: Tensor, draft: Draft) -> Law:
    """Law of multi-path block verification on equally long chains from the root; target is [B, N+1, V].

    Kept is the largest chain in the lexicographic order by target/draft, ties by token number. The rows that it
    was drawn from are known (see `_kept_rows`), and with them block verification goes on. More chains are not
    always better: where the draft is good, keeping the largest ratio spoils it.

    Source: Thomas and Pal 2026 (2602.16961).
    """
    assert draft.rows is not None
    texts, drawn = prefixes(draft), draft.rows.to(target.dtype)
    batch = torch.arange(len(target), device=target.device)[:, None]
    sizes = [max(tree.depths, default=0) for tree in draft.trees]
    paths = _paths(draft.trees, max(sizes, default=0)).to(target.device)  # [B, K, L]
    # Comparing needs one order: rows are those of the first node with the same text.
    target_rows, drawn_rows = target[batch, texts.home], drawn[batch, texts.home]
    score = _merit(token_mass(target_rows, draft.tokens), token_mass(drawn_rows, draft.tokens))
    kept = pick(paths, _largest(paths, score, draft.tokens))  # [B, L]
    inside = torch.arange(kept.shape[1], device=kept.device) < torch.tensor(sizes, device=kept.device)[:, None]
    row = torch.where(inside, texts.first[batch, kept + 1], 0)
    row = torch.cat([torch.zeros_like(batch), row], 1)  # [B, L+1] along the kept chain
    judged, source, tokens = target[batch, row], drawn[batch, row], draft.tokens[batch, kept]
    chains = torch.tensor([tree.parents.count(-1) for tree in draft.trees], device=kept.device)
    source[:, :-1] = _kept_rows(judged[:, :-1], source[:, :-1], tokens, chains)
    law = block(judged, Draft(tuple(map(Tree.chain, sizes)), tokens, source, "iid"))
    stop = torch.zeros_like(target[..., 0]).scatter_add_(1, row, law.stop)  # it is 0 for padding
    width = draft.tokens.shape[1]
    depths = [[0, *tree.depths, *[0] * (width - len(tree))] for tree in draft.trees]
    depth = torch.tensor(depths, device=kept.device)
    return Law(stop, lambda at: law.next(pick(depth[..., None], at)[:, 0]))


def _merit(target: Tensor, drawn: Tensor) -> Tensor:
    """What tokens are ordered by; where a token cannot be drawn its place does not matter."""
    return torch.where(drawn > 0, target / drawn, 0)


def _paths(trees: Sequence[Tree], length: int) -> Tensor:
    """Nodes of each chain, [B, K, L] on the host.

    What is missing is filled so that it changes no comparison: a chain by the first one, a node by node 0.
    """
    most = max((tree.parents.count(-1) for tree in trees), default=0)
    chains: dict[Tree, list[list[int]]] = {}
    for tree in dict.fromkeys(trees):
        inner = set(tree.parents)
        paths = sorted(tree.path(node) for node in range(len(tree)) if node not in inner)
        filled = [[*path, *[0] * (length - len(path))] for path in paths] or [[0] * length]
        chains[tree] = filled + filled[:1] * (most - len(filled))
    return torch.tensor([chains[tree] for tree in trees], dtype=torch.long)


def _largest(paths: Tensor, score: Tensor, tokens: Tensor) -> Tensor:
    """Number [B] of the largest chain of each draft, the first of equal ones; score and tokens are [B, N]."""
    batch = torch.arange(len(paths), device=paths.device)[:, None]
    alive = torch.ones_like(paths[..., 0], dtype=torch.bool) if paths.shape[-1] else None
    if alive is None:
        return torch.zeros(len(paths), dtype=torch.long, device=paths.device)
    for node in paths.unbind(-1):
        for value in (score[batch, node], tokens[batch, node]):
            least = value.min() - 1
            best = value.masked_fill(~alive, least).amax(-1, keepdim=True)
            alive &= value == best
    return alive.max(-1).indices


def _kept_rows(target: Tensor, drawn: Tensor, tokens: Tensor, chains: Tensor) -> Tensor:
    """Rows [B, L, V] from which the tokens of the largest of `chains` [B] independent chains come.

    If below is the draft mass of all chains smaller than those with the kept chain's first tokens, and a token's
    chains have masses in (low, high] in the order, then the largest chain is among them with probability
    high^k - low^k. Masses are kept relative to the largest chain with these first tokens, so nothing underflows.
    """
    order = _merit(target, drawn).argsort(stable=True)
    upper = drawn.double().gather(-1, order).cumsum(-1)
    lower = torch.cat([torch.zeros_like(upper[..., :1]), upper[..., :-1]], -1)
    upper, lower = (torch.zeros_like(upper).scatter_(-1, order, part) for part in (upper, lower))
    below = upper.new_zeros(len(drawn), 1)
    within = 1 - below
    rows: list[Tensor] = []
    for depth, token in enumerate(tokens.unbind(1)):
        low, high = below + within * lower[:, depth], below + within * upper[:, depth]  # [B, V]
        every = chord(below, torch.ones_like(below), chains[:, None])
        rows.append(drawn[:, depth] * (chord(low, high, chains[:, None]) / every).to(drawn.dtype))
        mass = within * drawn[:, depth].gather(1, token[:, None])
        low, high = low.gather(1, token[:, None]), high.gather(1, token[:, None])
        # A token without mass cannot be drawn; then anything finite will do.
        below, within = (torch.where(mass > 0, part / high, 0.5) for part in (low, mass))
    return torch.stack(rows, 1) if rows else drawn
