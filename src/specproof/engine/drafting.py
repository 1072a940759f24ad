"""Drafting, guarded: a drafter that fails costs its requests the speculation, never their text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite

import torch
from torch import Tensor

from specproof.drafters.none import empty_draft
from specproof.engine.requests import Request
from specproof.errors import SpecproofError
from specproof.rules import Rule
from specproof.tree import Tree
from specproof.types import Draft, Drafter, Law, Noise, Output, Step, may_draw

_EMPTY = Tree.chain(0)
_SLACK = 1e-3  # how far from 1 a row may sum: rounding in half precision


class Drafting:
    """A drafter as the engine calls it: only for requests that speculate, and with what it returns checked.

    Args:
        drafter: any; it may raise, and what it returns may be wrong.
        vocabulary: number of the target's tokens.
        rule: what judges the drafts; one of RULES says which it takes.
    """

    def __init__(self, drafter: Drafter, vocabulary: int, rule: Callable[[Tensor, Draft], Law]) -> None:
        self.drafter = drafter
        self.vocabulary = vocabulary
        self.rule = rule

    def draft(self, requests: Sequence[Request], budget: Sequence[int], noise: Noise) -> Draft:
        """A draft for all requests; empty for those whose speculation is off."""
        places = [b for b, request in enumerate(requests) if request.speculates]
        if not places:
            return empty_draft(len(requests), self.drafter.drawn)
        asked = [requests[b] for b in places]
        most = [budget[b] for b in places]
        try:
            draft = self._checked(asked, most, noise)
        except Exception as error:
            # What is drawn to find out whose fault it is is thrown away by all.
            alone = zip(asked, most, strict=True)
            trials = [partial(self._checked, [request], [nodes], noise) for request, nodes in alone]
            self._blame(asked, error, trials)
            return empty_draft(len(requests), self.drafter.drawn)
        return draft if len(places) == len(requests) else _spread(draft, places, len(requests))

    def observe(self, requests: Sequence[Request], steps: Sequence[Step], output: Output) -> None:
        """Tell the drafter what was committed."""
        places = [b for b, request in enumerate(requests) if request.speculates]
        if not places:
            return
        try:
            self._tell(requests, steps, output, places)
        except Exception as error:
            trials = [partial(self._tell, requests, steps, output, [place]) for place in places]
            self._blame([requests[place] for place in places], error, trials)

    def free(self, requests: Sequence[Request]) -> None:
        """Forget these requests."""
        try:
            self.drafter.free([request.sequence for request in requests])
        except Exception as error:
            for request in requests:
                _off(request, error)

    def _blame(
        self, requests: Sequence[Request], error: Exception, trials: Sequence[Callable[[], object]]
    ) -> None:
        """Speculation off for those that fail alone as well, from a clean state; for all if nobody does."""
        self.free(requests)
        guilty: list[tuple[Request, Exception]] = []
        for request, alone in zip(requests, trials, strict=True):
            try:
                alone()
            except Exception as own:
                guilty.append((request, own))
            self.free([request])
        for request, reason in guilty or [(request, error) for request in requests]:
            _off(request, reason)

    def _tell(
        self, requests: Sequence[Request], steps: Sequence[Step], output: Output, places: Sequence[int]
    ) -> None:
        logits = output.logits if len(places) == len(requests) else output.logits[places]
        batch = [requests[place].sequence for place in places]
        self.drafter.observe(batch, [steps[place] for place in places], Output(logits))

    def _checked(self, requests: Sequence[Request], budget: Sequence[int], noise: Noise) -> Draft:
        batch = [request.sequence for request in requests]
        draft = self.drafter.draft(batch, budget, noise)
        check_draft(draft, budget, self.vocabulary)
        if draft.drawn not in may_draw(self.drafter, [sequence.params for sequence in batch]):
            raise SpecproofError(f"drafted {draft.drawn!r} where {self.drafter.drawn!r} drafts were promised")
        if isinstance(self.rule, Rule):
            for tree in draft.trees:
                self.rule.check_tree(draft.drawn, tree)
        return _tidy(draft)


def check_draft(draft: Draft, budget: Sequence[int], vocabulary: int) -> None:
    """Raise unless a draft is one: within its budgets and the vocabulary, with rows where they are needed."""
    sizes = [len(tree) for tree in draft.trees]
    if len(sizes) != len(budget) or any(size > most for size, most in zip(sizes, budget, strict=False)):
        raise SpecproofError(f"drafted {sizes} nodes where at most {list(budget)} were asked for")
    width = max(sizes, default=0)
    if draft.tokens.dtype != torch.long or draft.tokens.shape[0] != len(sizes) or draft.tokens.shape[1] < width:
        raise SpecproofError(f"drafted tokens {tuple(draft.tokens.shape)}; needed [{len(sizes)}, {width}]")
    for tokens, size in zip(draft.tokens.tolist(), sizes, strict=True):
        if outside := [token for token in tokens[:size] if not 0 <= token < vocabulary]:
            raise SpecproofError(f"drafted token {outside[0]} is outside the vocabulary, 0 to {vocabulary - 1}")
    if draft.drawn == "point" or width == 0:
        return
    shape = (len(sizes), draft.tokens.shape[1] + 1, vocabulary)
    if draft.rows is None or tuple(draft.rows.shape) != shape:
        found = None if draft.rows is None else tuple(draft.rows.shape)
        raise SpecproofError(f"drafted rows {found} where {shape} were needed")
    places = [(b, parent + 1) for b, tree in enumerate(draft.trees) for parent in set(tree.parents)]
    sums, least = draft.rows.sum(-1).tolist(), draft.rows.amin(-1).tolist()
    used, lows = [sums[b][row] for b, row in places], [least[b][row] for b, row in places]
    if not all(map(isfinite, used)):
        raise SpecproofError("drafted rows hold NaN or infinity")
    if min(lows) < 0 or any(abs(mass - 1) > _SLACK for mass in used):
        raise SpecproofError("drafted rows are no distributions: an entry is negative, or a sum is not 1")


def _tidy(draft: Draft) -> Draft:
    """The same draft as narrow as it can be, with zeros for padding: rules read it, whatever came of it."""
    width = max(map(len, draft.trees))
    tokens, rows = draft.tokens[:, :width], draft.rows
    sizes = torch.tensor([[len(tree)] for tree in draft.trees], device=tokens.device)
    padding = torch.arange(width, device=tokens.device) >= sizes
    if bool(padding.any()):
        tokens = tokens.masked_fill(padding, 0)
    if rows is not None:
        rows = rows[:, : width + 1]
        if not bool(rows.sum().isfinite()):  # in rows that nothing was drawn from, as was checked
            rows = torch.where(rows.isfinite(), rows, 0)
    return Draft(draft.trees, tokens, rows, draft.drawn)


def _off(request: Request, error: Exception) -> None:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
    if request.speculates:
        request.speculates = False
        request.warnings.append(f"speculation is off for this request: the drafter failed ({reason})")


def _spread(draft: Draft, places: Sequence[int], count: int) -> Draft:
    """The same draft among `count` sequences, empty for all but those at `places`."""
    trees = [_EMPTY] * count
    for place, tree in zip(places, draft.trees, strict=True):
        trees[place] = tree
    tokens = draft.tokens.new_zeros(count, draft.tokens.shape[1])
    tokens[places] = draft.tokens
    rows = None
    if draft.rows is not None:
        rows = draft.rows.new_zeros(count, *draft.rows.shape[1:])
        rows[places] = draft.rows
    return Draft(tuple(trees), tokens, rows, draft.drawn)
