"""Hierarchical speculative decoding as published: unsound, kept with its counterexample, not for use."""

import torch
from torch import Tensor

from specproof.rules.block import block
from specproof.rules.rows import drawn_rows, nodes, pick, ratio, token_mass
from specproof.types import Draft, Law


def hsd_published(target: Tensor, draft: Draft) -> Law:
    """Law of the published single-draft recursion on chains; target is [B, N+1, V].

    Block verification in all but one place: the whole block passes with min(1, the product of all ratios
    target/draft), where block verification caps the product at 1 at every node on the way. So blocks whose
    ratios rise first and fall later are accepted too often. Target (1/3, 2/3), draft (2/3, 1/3), both without
    context, and a block of two: total variation 1/9.

    Source: HSD 2026 (2601.05724), the recursion of the published code.
    """
    law = block(target, draft)
    drawn = drawn_rows(target, draft)
    ratios = ratio(token_mass(target[:, :-1], draft.tokens), token_mass(drawn[:, :-1], draft.tokens))
    uncapped = torch.where(nodes(draft), ratios, 1).prod(1).clamp(max=1)
    last = torch.tensor([len(tree) for tree in draft.trees], device=target.device)
    capped = pick(law.stop, last)  # block's probability of the whole block; never more than `uncapped`
    # Where block surely takes all, nothing is left for earlier ends.
    earlier = torch.where(capped < 1, (1 - uncapped) / (1 - capped), 0)
    stop = (law.stop * earlier[:, None]).scatter(1, last[:, None], uncapped[:, None])
    return Law(stop, law.next)
