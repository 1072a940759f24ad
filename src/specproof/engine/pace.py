"""How far to draft: for each request before anything is drawn, from what its drafts gained and steps cost.

A draft of K tokens is worth the tokens it is expected to commit over the time that the step will take; all rows of
a forward are as wide as the widest, so K is one number for a batch, and 0 for requests whose drafts do not pay.

The law does not depend on it, since it is decided before the draft, from the past alone. The text for a given seed
may: under a rule that is not coupled, what is drafted decides which random number a token is drawn with. So
requests that were given a seed are paced by their own history and nominal costs, whatever their batch mates and
the clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from specproof.engine.costs import Costs, bucket
from specproof.engine.history import TREES, CostOf, Habits, History, best_length, lengths_to
from specproof.engine.requests import Request
from specproof.engine.stats import FAILED, LOSES, MEASURING, NO_DRAFT, NO_ROOM, WAITING, Price, StepRecord
from specproof.tree import Tree
from specproof.types import Drafter


class Choice(NamedTuple):
    """Most nodes to draft for a request in this step, and why none."""

    nodes: int
    reason: str | None = None


# Drafted steps after which a plain one is taken where none was yet.
_SOON = 8
_UNLIMITED = 1 << 30


class Pace:
    """The policy of an engine.

    Args:
        drafter: whose drafts it paces.
        coupled: whether the rule makes texts independent of what was drafted.
        adaptive: false always asks for as many nodes as are allowed.
        timed: false paces every request by nominal costs, so that nothing depends on the clock.
        habits: how quickly it learns; those of chains or of trees if not given.
    """

    def __init__(
        self,
        drafter: Drafter,
        coupled: bool,
        *,
        adaptive: bool = True,
        timed: bool = True,
        habits: Habits | None = None,
    ) -> None:
        self.habits = habits or (Habits() if drafter.chains else TREES)
        self.chains = drafter.chains
        self.coupled = coupled
        self.adaptive = adaptive
        self.timed = timed
        node = 0.0 if drafter.drawn == "point" else self.habits.node
        self.forward = Costs(lambda rows, width: 1 + self.habits.column * (rows * width - 1))
        # A lookup takes no time worth mentioning, but a shape needs a size.
        self.draft = Costs(lambda rows, width: max(node, 1e-3) * width)
        self._node = node
        self._all = History()
        self._since: dict[int, int] = {}  # steps since a plain one, by rows
        self._tried: set[tuple[int, int]] = set()  # rows and widths of steps with trees
        self._gate = 0  # steps until anybody may probe again

    def choose(self, requests: Sequence[Request], most: Sequence[int]) -> list[Choice]:
        """Nodes for each request, at most `most[b]`. Nothing may have been drawn for this step."""
        choices: dict[int, Choice] = {}
        together = []
        for b, (request, limit) in enumerate(zip(requests, most, strict=True)):
            if not request.speculates:
                choices[b] = Choice(0, FAILED)
            elif limit <= 0:
                choices[b] = Choice(0, NO_ROOM)
            elif not self.adaptive:
                choices[b] = Choice(limit)
            elif self._alone(request):
                choices[b] = self._decide(request.history, limit, self._nominal(request.history))
            else:
                together.append(b)
        if together:
            forced = max((choice.nodes for choice in choices.values()), default=0)
            histories = [requests[b].history for b in together]
            decided = self._jointly(histories, [most[b] for b in together], forced, len(requests))
            choices.update(zip(together, decided, strict=True))
        return [choices[b] for b in range(len(requests))]

    def record(
        self,
        requests: Sequence[Request],
        choices: Sequence[Choice],
        trees: Sequence[Tree],
        outcomes: Sequence[tuple[int, int]],
        seconds: Sequence[float],
        fresh: bool,
    ) -> list[StepRecord]:
        """Learn from a step; returns what it was for each request.

        Args:
            requests, choices, trees: who took part, what was chosen, and what was drafted.
            outcomes: nodes accepted and tokens committed by each.
            seconds: of draft, forward and verification.
            fresh: the forward read a part of a prompt too, so its time says nothing.
        """
        rows, widest = len(requests), max(map(len, trees))
        prices = [None] * rows if fresh else self._prices(requests, trees)
        if not fresh:
            # With its first draft of a text a drafter catches up on the prompt.
            ready = all(r.history.tried or not len(tree) for r, tree in zip(requests, trees, strict=True))
            self._measure(rows, widest, seconds, ready)
        records = []
        probed = False
        for request, choice, tree, (accepted, kept), price in zip(
            requests, choices, trees, outcomes, prices, strict=True
        ):
            reason = NO_DRAFT if choice.nodes and not len(tree) else choice.reason
            records.append(StepRecord(tree.depths, accepted, kept, choice.nodes, reason, tuple(seconds), price))
            # Among trees a chain is what was looked up: it says nothing of the trees.
            if len(tree) and kept and (self.chains or not tree.is_chain):
                # Of a step that was cut, only what could still be used.
                depth = tree.depths[-1] if kept > accepted else min(tree.depths[-1], kept)
                probed |= request.history.probing and not self._alone(request)
                for history in (request.history, self._all):
                    history.learn(depth, min(accepted, kept), self.habits.memory)
                    history.largest = max(history.largest, len(tree))
                    history.probing = False
        if probed:
            self._gate = self._rarely(rows, widest, prices)
        return records

    def _alone(self, request: Request) -> bool:
        params = request.sequence.params
        return not self.timed or (params.seed is not None and params.temperature > 0 and not self.coupled)

    def _decide(
        self, history: History, most: int, cost: CostOf, prior: float | None = None, gate: int = 0
    ) -> Choice:
        """What pays for one request, if all others were like it."""
        if history.wait > 0 or (history.probing and gate > 0):
            history.wait = max(0, history.wait - 1)
            return Choice(0, WAITING)
        tokens = history.tokens = self._tokens(history, most, prior)
        length = best_length(tokens, cost, self._lengths(most))
        if not history.probing:
            if tokens[length] * cost(0) <= self.habits.margin * cost(length):
                history.rest(self.habits)
                return Choice(0, LOSES)
            history.pause = 0
        return Choice(length)

    def _jointly(self, histories: Sequence[History], most: Sequence[int], forced: int, rows: int) -> list[Choice]:
        """One length for all that are paced together; the step is `forced` nodes wide in any case."""
        self._gate = max(0, self._gate - 1)
        longest = max(most)
        if forced == 0 and self._unmeasured(rows):
            return [Choice(0, MEASURING)] * len(most)
        cost, prior = self._cost(rows, forced), self._prior()
        choices = [
            self._decide(history, limit, cost, prior, self._gate)
            for history, limit in zip(histories, most, strict=True)
        ]
        if rows == 1:
            return choices
        live = [b for b, choice in enumerate(choices) if choice.nodes]
        if not live:
            return choices
        expected = [histories[b].tokens for b in live]
        others = rows - len(live)
        total = [sum(t[min(k, len(t) - 1)] for t in expected) + others for k in range(longest + 1)]
        none = () if any(histories[b].probing for b in live) else (0,)
        length = best_length(total, cost, (*none, *self._lengths(longest)))
        for b in live:
            if length == 0:
                histories[b].rest(self.habits)
            choices[b] = Choice(min(length, most[b]), None if length else LOSES)
        return choices

    def _tokens(self, history: History, most: int, prior: float | None) -> list[float]:
        """Expected tokens by drafted nodes; of trees only the largest is considered."""
        alone, prior = prior is None, self.habits.prior if prior is None else prior
        if self.chains:
            return history.expected(most, prior, self.habits.weight)
        depth = len((history if alone else self._all).tried) or 1
        return [1.0] * most + history.expected(depth, prior, self.habits.weight)[-1:]

    def _lengths(self, most: int) -> Sequence[int]:
        return lengths_to(most) if self.chains else (most,)

    def _prior(self) -> float:
        """Acceptance expected of a request that is paced with others: half of what the engine has seen."""
        return (self.habits.prior + self._all.overall(self.habits.prior, self.habits.weight)) / 2

    def _nominal(self, history: History) -> CostOf:
        """Costs that depend on nothing that was measured, in plain forwards. A tree is drafted level by level."""
        largest, levels = self._largest(history), len(history.tried) or 1
        if self.chains:
            return lambda nodes: 1 + nodes * (self.habits.column + self._node)
        return lambda nodes: 1 + min(nodes, largest) * self.habits.column + (levels * self._node if nodes else 0)

    def _cost(self, rows: int, forced: int = 0) -> CostOf:
        """Seconds of a step that is at least `forced` nodes wide; nominal while nothing was measured."""
        plain = self.forward.at(rows, 1)
        if plain is None:
            return self._nominal(self._all)
        largest = self._largest(self._all)

        @cache
        def seconds(nodes: int) -> float:
            nodes = min(nodes, largest)
            forward = self.forward.at(rows, 1 + max(nodes, forced)) or plain
            draft = self.draft.at(rows, nodes) if nodes else 0.0
            return forward + (plain * self._node * nodes if draft is None else draft)

        return seconds

    def _largest(self, history: History) -> int:
        """A budget above this costs no more. Of trees, what was drafted may be smaller than what was allowed."""
        return _UNLIMITED if self.chains else history.largest or _UNLIMITED

    def _measure(self, rows: int, widest: int, seconds: Sequence[float], ready: bool) -> None:
        if not self.chains and (shape := (bucket(rows), bucket(widest + 1))) not in self._tried:
            # The first step of a shape, in which libraries prepare themselves, would end all trees for long.
            self._tried.add(shape)
            return
        draft, forward, verify = seconds
        self.forward.measure(rows, widest + 1, forward + verify)
        if widest and ready:
            self.draft.measure(rows, widest, draft)
        near = bucket(rows)
        self._since[near] = self._since.get(near, 0) + 1 if widest else 0

    def _unmeasured(self, rows: int) -> bool:
        """Whether it is time for a plain step, to know what speculation is compared with."""
        known = self.forward.known(rows, 1) is not None
        return self._since.get(bucket(rows), 0) >= (self.habits.refresh if known else _SOON)

    def _rarely(self, rows: int, widest: int, prices: Sequence[Price | None]) -> int:
        """Steps to wait after a probe so wide, for probes to lose no more than their share."""
        cost = self._cost(rows)
        tokens = [price.tokens for price in prices if price is not None] or [1.0]
        loss = cost(widest) / cost(0) - sum(tokens) / len(tokens)
        return max(0, int(loss / self.habits.probe_share))

    def _prices(self, requests: Sequence[Request], trees: Sequence[Tree]) -> list[Price | None]:
        """What was to be expected of this step, from what was known before it."""
        rows, widest = len(requests), max(map(len, trees))
        plain = self.forward.known(rows, 1)
        if plain is None:
            return [None] * rows
        seconds, prior = self._cost(rows)(widest), self._prior()
        expected = [
            (request.history.tokens or self._tokens(request.history, len(tree), prior))[
                len(tree) if self.chains else -1
            ]
            if len(tree)
            else 1.0
            for request, tree in zip(requests, trees, strict=True)
        ]
        return [Price(plain, tokens, seconds) for tokens in expected]
