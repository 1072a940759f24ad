"""The exact law of a rule's output: every possible draft, its probability x stop x next, summed.

The rule is the very function that the engine runs. Rows depend on the context, rounds follow one another
until the text has its length, and the sum is closed: no sampling, so a deviation above rounding is a fault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from specproof.backends.table import TableModel
from specproof.tree import Tree
from specproof.types import Draft, Drawn, Law

RuleFunction = Callable[[Tensor, Draft], Law]


@dataclass(frozen=True)
class Instance:
    """A setting to enumerate: the same shape is drafted in every round until the text is complete.

    Attributes:
        target: next-token rows of the model whose law must come out, for contexts up to the text's end.
        draft: rows that nodes are drawn from; for point drafts, its likeliest tokens are the nodes.
        tree: the shape.
        drawn: as in `Draft`. Drafts that would exhaust a row have no probability, so rows need as many tokens
            with mass as there are siblings; of top_and_one drafts, the likeliest tokens come first.
        length: tokens in the text whose law is computed.
    """

    target: TableModel
    draft: TableModel
    tree: Tree
    drawn: Drawn
    length: int


class TextLaw(NamedTuple):
    """Law [V**length] of the text, and the expected number of accepted nodes in the first round."""

    law: Tensor
    accepted: float


def target_law(instance: Instance) -> Tensor:
    """The target's own law of the text, [V**length]."""
    law = torch.ones(1, dtype=torch.float64)
    for length in range(instance.length):
        law = (law[:, None] * _rows(instance.target, length, torch.arange(len(law)))).flatten()
    return law


def text_law(rule: RuleFunction, instance: Instance) -> TextLaw:
    """The exact law of the text that rounds of `rule` commit.

    Built from the back: the law of what follows a context needs only the laws after longer contexts. Tokens
    that a round commits beyond the text's end are cut, as the engine does.
    """
    size, total = instance.target.vocabulary, instance.length
    after: dict[int, Tensor] = {total: torch.ones(size**total, 1, dtype=torch.float64)}
    for length in range(total - 1, -1, -1):
        drafts = enumerate_drafts(instance, length)
        law = rule(drafts.target, drafts.draft)
        left = total - length
        out = torch.zeros(size**length, size**left, dtype=torch.float64)
        for node in range(-1, len(instance.tree)):
            depth = instance.tree.depths[node] if node >= 0 else 0
            weight = drafts.probability * law.stop[:, node + 1]  # [B]
            code = _extend(drafts, instance, node)  # number of context + path in base V
            if depth >= left:
                code = code // size ** (depth - left)
                out.view(-1).index_add_(0, code, weight)
                continue
            at = torch.full((len(weight),), node + 1)
            following = after[length + depth + 1].reshape(size ** (length + depth), size, -1)[code]
            mass = (weight[:, None] * law.next(at))[..., None] * following  # [B, V, rest]
            out.view(size ** (length + depth), -1).index_add_(0, code, mass.flatten(1))
        if length == 0:
            accepted = float(_accepted(drafts, law, instance.tree))
        after[length] = out
    return TextLaw(after[0][0], accepted)


def accepted_nodes(rule: RuleFunction, instance: Instance, length: int) -> Tensor:
    """Expected accepted nodes of the round after each context of `length` tokens, [V**length]."""
    drafts = enumerate_drafts(instance, length)
    return _accepted(drafts, rule(drafts.target, drafts.draft), instance.tree)


def tv(law: Tensor, other: Tensor) -> float:
    """Total variation: half the sum of differences."""
    return float((law - other).abs().sum() / 2)


class Drafts(NamedTuple):
    """Every draft after every context of one length.

    Attributes:
        contexts: [B] number of the context in base V.
        probability: [B] of the draft, given the context.
        target: [B, N+1, V] target rows.
        draft: as the rule takes it.
    """

    contexts: Tensor
    probability: Tensor
    target: Tensor
    draft: Draft


def enumerate_drafts(instance: Instance, length: int) -> Drafts:
    """Every draft that can follow any context of `length` tokens."""
    size, tree = instance.target.vocabulary, instance.tree
    contexts = torch.arange(size**length)
    probability = torch.ones(len(contexts), dtype=torch.float64)
    tokens = torch.zeros(len(contexts), 0, dtype=torch.long)
    codes = [contexts]  # number of context + path, for the root and each node
    for node, parent in enumerate(tree.parents):
        rows = _rows(instance.draft, length + tree.depths[node] - 1, codes[parent + 1])
        family = tree.children(parent)
        rank = family.index(node)
        if instance.drawn == "point" or (instance.drawn == "top_and_one" and rank < len(family) - 1):
            # The nth child of a node is its nth likeliest token, so siblings differ.
            token = rows.argsort(dim=-1, descending=True, stable=True)[:, rank % size]
        else:
            # Every token in turn: repeat all drafts so far V times.
            if instance.drawn != "iid":
                rows = _without(rows, tokens[:, list(family[:rank])])
            token = torch.arange(size).repeat(len(contexts))
            spread = torch.arange(len(contexts)).repeat_interleave(size)
            contexts, tokens, codes = contexts[spread], tokens[spread], [code[spread] for code in codes]
            probability = probability[spread] * rows.flatten()
        tokens = torch.cat([tokens, token[:, None]], 1)
        codes.append(codes[parent + 1] * size + token)
    depths = (0, *tree.depths)
    target = [_rows(instance.target, length + d, code) for d, code in zip(depths, codes, strict=True)]
    drawn = [_rows(instance.draft, length + d, code) for d, code in zip(depths, codes, strict=True)]
    rows_or_none = None if instance.drawn == "point" else torch.stack(drawn, 1)
    draft = Draft((tree,) * len(contexts), tokens, rows_or_none, instance.drawn)
    return Drafts(contexts, probability, torch.stack(target, 1), draft)


def _without(rows: Tensor, taken: Tensor) -> Tensor:
    """Rows [B, V] without the tokens [B, n] already taken by earlier siblings; zero where none is left."""
    rest = rows.scatter(-1, taken, 0.0)
    return torch.nan_to_num(rest / rest.sum(-1, keepdim=True))


def _accepted(drafts: Drafts, law: Law, tree: Tree) -> Tensor:
    depths = torch.tensor([0, *tree.depths], dtype=torch.float64)
    each = drafts.probability * (law.stop * depths).sum(-1)
    return each.new_zeros(int(drafts.contexts[-1]) + 1).index_add_(0, drafts.contexts, each)


def _extend(drafts: Drafts, instance: Instance, node: int) -> Tensor:
    code = drafts.contexts
    for step in instance.tree.path(node):
        code = code * instance.target.vocabulary + drafts.draft.tokens[:, step]
    return code


def _rows(model: TableModel, length: int, codes: Tensor) -> Tensor:
    """Rows [.., V] after the contexts of `length` tokens with these numbers."""
    if length > model.order:
        return model.levels[model.order][codes % model.vocabulary**model.order]
    return model.levels[length][codes]
