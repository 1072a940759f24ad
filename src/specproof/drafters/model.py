"""A smaller model drafts a chain or a tree and returns the rows it was drawn from."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from typing import Literal

import torch
from torch import Tensor

from specproof.drafters.dynamic import Expanding
from specproof.drafters.growing import Growing
from specproof.drafters.none import empty_draft
from specproof.drafters.shapes.expand import Dynamic, Mixed
from specproof.errors import NumericsError, SpecproofError
from specproof.rules.coupling import shared_key
from specproof.sampling import warp_batch
from specproof.tree import Tree
from specproof.types import Backend, Batch, Draft, Drawn, Key, Noise, Output, Step, TokenSequence, greedy


class ModelDrafter:
    """Draws each node from a model's row under the sequence's own sampling parameters.

    Args:
        backend: any backend with the target's vocabulary; its context may be shorter than the target's.
        tree: the shape to draw, level by level; a number stands for a chain of that length. Budgets cut off
            its last levels, and a row with fewer tokens than children has fewer children. "dynamic", or a
            `Dynamic` with numbers of its own, lets each step's tree grow where the model is confident; that is
            for point drafts only. `Mixed` does that where all texts of a batch are greedy, and is fixed elsewhere.
        drawn: "iid" children may repeat, "without_replacement" are all different, "point" are the likeliest,
            "top_and_one" are the likeliest and a last one drawn from the rest.
        coupled: decide each position of a chain with the noise that rule "coupling" will decide it with, so
            that the two agree often. Given the noise nothing is left to chance: these are point drafts.
        stop_below: in a chain, draw no further token once `confidence` of its row is below this; None never
            stops. The first token is always drawn. What was drawn is kept whatever it is, since dropping it
            for its value would bias the text.

    Source of the stop: Agrawal et al. 2024 (2410.18351), AdaEDL.
    """

    def __init__(
        self,
        backend: Backend,
        tree: Tree | int | Dynamic | Mixed | Literal["dynamic"] = 4,
        drawn: Drawn = "iid",
        *,
        coupled: bool = False,
        stop_below: float | None = None,
    ) -> None:
        at_zero, tree = (tree.grown, tree.fixed) if isinstance(tree, Mixed) else (None, tree)
        plan = Dynamic() if tree == "dynamic" else tree if isinstance(tree, Dynamic) else None
        if plan is not None and (drawn != "point" or coupled):
            raise SpecproofError(
                "a dynamic tree drops nodes by their value, which biases "
                f"{'coupled' if coupled else drawn} draws: give drawn='point', or a fixed tree"
            )
        if isinstance(tree, str) and plan is None:
            raise SpecproofError(f"unknown tree {tree!r}; give 'dynamic', a chain's length, a Tree or a Dynamic")
        shape = Tree.chain(tree) if isinstance(tree, int) else tree if isinstance(tree, Tree) else Tree()
        if len(shape) == 0 and plan is None:
            raise SpecproofError("a draft of 0 nodes is not allowed: give a tree, or a chain's length >= 1")
        if list(shape.depths) != sorted(shape.depths):
            raise SpecproofError(f"tree {shape.parents} is not level by level: sort its nodes by depth")
        if coupled and not shape.is_chain:
            raise SpecproofError(f"tree {shape.parents} cannot be coupled, siblings would be equal: give a chain")
        if stop_below is not None and not (plan is None and shape.is_chain and 0 <= stop_below <= 1):
            raise SpecproofError(
                f"stop_below={stop_below!r} with tree {shape.parents}: give a number in [0, 1], and a chain"
            )
        self.backend = backend
        self.plan = plan
        self.at_zero = at_zero if plan is None else plan
        self.tree = shape  # empty where there is a plan
        self.stop_below = stop_below
        self.coupled = coupled
        self.drawn: Drawn = "point" if coupled else drawn
        self.chains = self.at_zero is None and shape.is_chain
        self._scored: dict[TokenSequence, list[int]] = {}  # of expanded trees: each node's place at the backend

    def draft(self, batch: Batch, budget: Sequence[int], noise: Noise) -> Draft:
        """A tree for each sequence; where a budget or the draft model's context is spent, a smaller one."""
        plan = self.at_zero if greedy(sequence.params for sequence in batch) else self.plan
        if plan is not None:
            return self._expand(batch, budget, plan)
        drafts = [Growing(s, self._template(len(s.tokens), most)) for s, most in zip(batch, budget, strict=True)]
        active = [draft for draft in drafts if len(draft.template)]
        if not active:
            return empty_draft(len(batch), self.drawn)
        for depth in range(max(draft.template.depths[-1] for draft in active)):
            if depth > 0 and not any(draft.size(depth) > draft.size(depth - 1) for draft in active):
                break
            self._score(active, depth)
            if depth > 0 and self.stop_below is not None and self._stop(active, depth):
                break
            for order in range(max(draft.most_children(depth) for draft in active)):
                self._draw(active, depth, order, noise)
        width = max(len(draft.tokens) for draft in drafts)
        if width == 0:
            return empty_draft(len(batch), self.drawn)
        rows = None
        if self.drawn != "point":
            some = next(row for draft in active for row in draft.rows.values())
            rows = some.new_zeros(len(batch), width + 1, len(some))
            for b, draft in enumerate(drafts):
                for node, row in draft.rows.items():
                    rows[b, node + 1] = row
        padded = [draft.tokens + [0] * (width - len(draft.tokens)) for draft in drafts]
        tokens = torch.tensor(padded, dtype=torch.long)
        return Draft(tuple(draft.tree for draft in drafts), tokens, rows, self.drawn)

    def observe(self, batch: Batch, steps: Sequence[Step], output: Output) -> None:
        """Keep what was accepted of the nodes that this model scored."""
        paths: list[Sequence[int]] = [step.path for step in steps]
        for b, sequence in enumerate(batch):
            if (places := self._scored.pop(sequence, None)) is not None:
                paths[b] = [places[node] for node in paths[b]]
        self.backend.keep(batch, paths)

    def free(self, batch: Batch) -> None:
        """Forget these sequences."""
        for sequence in batch:
            self._scored.pop(sequence, None)
        self.backend.free(batch)

    def _expand(self, batch: Batch, budget: Sequence[int], plan: Dynamic) -> Draft:
        """Level by level for all sequences at once; then each keeps its best nodes."""
        growing: dict[int, Expanding] = {}
        for b, (sequence, most) in enumerate(zip(batch, budget, strict=True)):
            depth = min(plan.depth, most, self.backend.context - len(sequence.tokens) + 1)
            if depth > 0:
                growing[b] = Expanding(sequence, replace(plan, depth=depth, nodes=min(plan.nodes, most)))
        active = list(growing.values())
        depth = 0
        while active and (depth == 0 or any(d.size(depth) > d.size(depth - 1) for d in active)):
            self._score(active, depth)
            for draft in active:
                draft.expand(depth)
            depth += 1
        if not active:
            return empty_draft(len(batch))
        trees, tokens = [Tree()] * len(batch), [list[int]()] * len(batch)
        for b, draft in growing.items():
            trees[b], tokens[b], self._scored[draft.sequence] = draft.finish()
        width = max(map(len, tokens))
        padded = torch.tensor([own + [0] * (width - len(own)) for own in tokens], dtype=torch.long)
        return Draft(tuple(trees), padded, None, "point")

    def _template(self, length: int, budget: int) -> Tree:
        """The shape cut to budget and context by whole levels, so that paths of one length keep one length.

        Of a first level that is too wide, the first children stay. The last level is never scored here.
        """
        deepest = self.backend.context - length + 1
        for depth in range(min(deepest, self.tree.depths[-1]), 0, -1):
            size = bisect_right(self.tree.depths, depth)
            if size <= budget:
                return Tree(self.tree.parents[:size])
        first = self.tree.parents.count(-1) if deepest > 0 else 0
        return Tree((-1,) * max(0, min(first, budget)))

    def _score(self, active: Sequence[Growing | Expanding], depth: int) -> None:
        """One draft forward: the rows of the nodes at `depth` (0 is the root), from which children are drawn."""
        sizes = [draft.size(depth) for draft in active]
        start = [0 if depth == 0 else draft.size(depth - 1) + 1 for draft in active]
        trees = tuple(Tree(tuple(draft.parents[:size])) for draft, size in zip(active, sizes, strict=True))
        tokens = torch.zeros(len(active), max(sizes), dtype=torch.long)
        for b, (draft, size) in enumerate(zip(active, sizes, strict=True)):
            tokens[b, :size] = torch.tensor(draft.tokens[:size], dtype=torch.long)
        batch = [draft.sequence for draft in active]
        scored = Draft(trees, tokens, None, self.drawn)
        output = self.backend.forward(batch, scored, start)
        readers = [draft.reader for draft in active]
        rows, broken = warp_batch(output.logits, readers, scored, start)  # [B, most new rows, V]
        lost = broken.tolist()
        for b, (draft, size, first) in enumerate(zip(active, sizes, start, strict=True)):
            for row in range(size + 1 - first):
                if not lost[b][row]:
                    draft.rows[first + row - 1] = rows[b, row]
                elif not output.logits[b, row].logsumexp(-1).isfinite():
                    raise NumericsError("the draft model's logits hold NaN or infinity")
                # Else nothing that it can draft is allowed here: no row, and no children.

    def _stop(self, active: Sequence[Growing], depth: int) -> bool:
        """Stop drafts whose next row is uncertain; returns whether all have stopped or are complete."""
        assert self.stop_below is not None
        for draft in active:
            row = draft.rows.get(len(draft.tokens) - 1)
            if draft.most_children(depth) and (row is None or confidence(row) < self.stop_below):
                draft.stopped = True
        return not any(draft.most_children(depth) for draft in active)

    def _draw(self, active: Sequence[Growing], depth: int, order: int, noise: Noise) -> None:
        """Draw the child number `order` of every node at `depth` that has one; earlier siblings are there."""
        places = [(draft, *child) for draft in active for child in draft.wanted(depth, order, self.drawn)]
        if not places:
            return
        rows = torch.stack([row for _, _, _, row in places])
        drafted = self._columns(active)
        if drafted is not None:
            rows = rows.index_select(-1, drafted)
        chosen = rows.argmax(-1)
        chance = [
            i
            for i, (draft, _, child, _) in enumerate(places)
            if self.coupled
            or self.drawn in ("iid", "without_replacement")
            or (self.drawn == "top_and_one" and draft.is_last(child))
        ]
        if chance:
            keys = [self._key(places[i][0], places[i][2]) for i in chance]
            chosen[chance] = noise.choose(rows[chance], keys)
        if drafted is not None:
            chosen = drafted[chosen]
        for (draft, node, child, _), token in zip(places, chosen.tolist(), strict=True):
            draft.add(node, child, token)

    def _columns(self, active: Sequence[Growing]) -> Tensor | None:
        """The tokens that can have mass, if the backend knows them: a draw looks at every column that it is given.

        None where a column has noise of its own, or where a user's function may give mass to any token.
        """
        if self.coupled or any(draft.sequence.processors for draft in active):
            return None
        drafted: Tensor | None = getattr(self.backend, "drafted", None)
        return drafted

    def _key(self, draft: Growing, child: int) -> Key:
        """What the template's node `child` is decided by."""
        if not self.coupled:
            return draft.key(child)
        return shared_key(draft.sequence.seed, len(draft.sequence.tokens) + draft.template.depths[child] - 1)


# How much of the entropy counts, as in the paper.
_GAMMA = 0.2


def confidence(row: Tensor) -> float:
    """Lower bound on a draft token's acceptance from the entropy H of its row [V]: 1 - sqrt(0.2 H), or 0.

    In nats. A number of the row alone, so whatever is decided by it, before the token is drawn, keeps the law.

    Source: Agrawal et al. 2024 (2410.18351), AdaEDL.
    """
    entropy = float(torch.special.entr(row).sum())
    return max(0.0, 1 - sqrt(_GAMMA * max(0.0, entropy)))
