"""Faults of randomness: numbers used twice, and coins at the edges of an interval."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specproof.audit.enumerate import EnumeratingNoise
from specproof.audit.mutants.case import Plant, exchanged
from specproof.engine.engine import Engine
from specproof.rules.spec.numbers import Number, Numbers, Row, SpecLaw
from specproof.rules.spec.rejection import rejection
from specproof.tree import Tree
from specproof.types import EXTRA, PROPOSE, Key


def raced_again(number: Numbers, target: list[Row], drawn: list[Row], tree: Tree, tokens: list[int]) -> SpecLaw:
    """Rejection where the exponential numbers that raced for the drafted token race for the residual, too."""
    right = rejection(number, target, drawn, tree, tokens)
    rows = [second_race(drawn[i], right.next[i]) for i in range(len(tokens))]
    return SpecLaw(right.stop, [*rows, right.next[-1]])


def second_race(first: Row, second: Row) -> Row:
    """Law of a race's winner, run with the numbers of an earlier race that somebody without a share here won.

    The first race ends at a time T, exponential with rate 1, whoever wins. Number v then exceeds first[v] T by
    an exponential one, so in the second race v starts at T first[v] / second[v] and arrives with rate
    second[v]. While those that have started have rate r in all, nobody has arrived yet with probability
    exp(-c T), c growing by r for each unit of time; its expectation over T is 1 / (1 + c).
    """
    entrants = sorted((v for v, mass in enumerate(second) if mass > 0), key=lambda v: first[v] / second[v])
    law: Row = [0] * len(second)
    rate: Number = 0
    exponent: Number = 0
    for place, v in enumerate(entrants):
        rate = rate + second[v]
        mass = 1 / (1 + exponent)
        if place + 1 < len(entrants):
            later = entrants[place + 1]
            exponent = exponent + rate * (first[later] / second[later] - first[v] / second[v])
            mass = mass - 1 / (1 + exponent)
        for running in entrants[: place + 1]:
            law[running] = law[running] + mass * second[running] / rate
    return law


class _Rekeyed(EnumeratingNoise):
    """Asks under other keys than it was asked."""

    def __init__(self, rekey: Callable[[Key], Key]) -> None:
        super().__init__()
        self.rekey = rekey

    def choose(self, rows: Tensor, keys: Sequence[Key]) -> Tensor:
        return super().choose(rows, [self.rekey(key) for key in keys])


def rekeyed(rekey: Callable[[Key], Key]) -> Plant:
    """The engine's decisions keyed otherwise."""

    def plant(engine: Engine) -> Engine:
        return exchanged(engine, noise=_Rekeyed(rekey))

    return plant


def by_position(key: Key) -> Key:
    """Proposals keyed by the position they fill: after a rejection it is filled with the same number again."""
    return key._replace(root=key.root + key.part, part=0) if key.use == PROPOSE else key


def one_stream(key: Key) -> Key:
    """The extra token keyed like the first proposal."""
    return key._replace(use=PROPOSE) if key.use == EXTRA else key


def one_part(key: Key) -> Key:
    """All proposals of a step under one key."""
    return key._replace(part=0)


def closed(rows: Tensor, coins: Tensor) -> Tensor:
    """The inverse CDF with a closed comparison: the first token whose running sum reaches the coin."""
    return torch.searchsorted(rows.double().cumsum(-1), coins[:, None])[:, 0].clamp(max=rows.shape[1] - 1)


def falling_through(rows: Tensor, coins: Tensor) -> Tensor:
    """The inverse CDF that gives the last token of the vocabulary to a coin past the running sum."""
    chosen = torch.searchsorted(rows.double().cumsum(-1), coins[:, None], right=True)[:, 0]
    return chosen.clamp(max=rows.shape[1] - 1)
