"""Drafting, guarded: a drafter that fails costs its requests the speculation, never their text."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specproof.drafters.none import empty_draft
from specproof.engine.requests import Request
from specproof.errors import SpecproofError
from specproof.tree import Tree
from specproof.types import Draft, Drafter, Noise, Output, Step

_EMPTY = Tree.chain(0)


class Drafting:
    """A drafter as the engine calls it: only for requests that speculate, and with what it returns checked.

    Args:
        drafter: any; it may raise, and what it returns may be wrong.
        vocabulary: number of the target's tokens.
    """

    def __init__(self, drafter: Drafter, vocabulary: int) -> None:
        self.drafter = drafter
        self.vocabulary = vocabulary

    def draft(self, requests: Sequence[Request], budget: Sequence[int], noise: Noise) -> Draft:
        """A draft for all requests; empty for those whose speculation is off."""
        places = [b for b, request in enumerate(requests) if request.speculates]
        if not places:
            return empty_draft(len(requests), self.drafter.drawn)
        asked = [requests[b] for b in places]
        most = [budget[b] for b in places]
        try:
            draft = self._checked(asked, most, noise)
        except Exception:
            # Whose fault is it? Each alone, from a clean state; what is drawn now is thrown away by all.
            self.free(asked)
            for request, nodes in zip(asked, most, strict=True):
                self._try(request, nodes, noise)
            return empty_draft(len(requests), self.drafter.drawn)
        return draft if len(places) == len(requests) else _spread(draft, places, len(requests))

    def observe(self, requests: Sequence[Request], steps: Sequence[Step], output: Output) -> None:
        """Tell the drafter what was committed."""
        places = [b for b, request in enumerate(requests) if request.speculates]
        if not places:
            return
        told = [requests[b] for b in places]
        logits = output.logits if len(places) == len(requests) else output.logits[places]
        try:
            self.drafter.observe([r.sequence for r in told], [steps[b] for b in places], Output(logits))
        except Exception as error:
            self.free(told)
            for request in told:
                _off(request, error)

    def free(self, requests: Sequence[Request]) -> None:
        """Forget these requests."""
        self.drafter.free([request.sequence for request in requests])

    def _try(self, request: Request, budget: int, noise: Noise) -> None:
        try:
            self._checked([request], [budget], noise)
        except Exception as error:
            _off(request, error)
        self.free([request])

    def _checked(self, requests: Sequence[Request], budget: Sequence[int], noise: Noise) -> Draft:
        draft = self.drafter.draft([request.sequence for request in requests], budget, noise)
        check_draft(draft, budget, self.vocabulary)
        return draft


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
    if not bool(torch.isfinite(draft.rows.sum())):
        raise SpecproofError("drafted rows hold NaN or infinity")


def _off(request: Request, error: Exception) -> None:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
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
