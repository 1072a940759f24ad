"""The fixed panel on which verifiers are audited from outside: rows, every draft, and the law of texts.

Small vocabularies, so that every text is a cell of its own; rows that depend on the context, so that a row
used one position too early or too late shows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specproof.audit.adaptors.coins import Coins
from specproof.audit.exact import Instance
from specproof.backends.table import TableModel
from specproof.errors import SpecproofError
from specproof.tree import Tree

# As `Adaptor.verify`: target rows, drawn rows, tokens, coins in; committed tokens out.
Verify = Callable[[Tensor, Tensor, Tensor, Coins], list[int]]
Law = NDArray[np.float64]


class Proposal(NamedTuple):
    """One possible draft: its probability, tokens [N], target rows [N+1, V] and drawn rows [N, V] in float32."""

    probability: float
    tokens: Tensor
    target: Tensor
    drawn: Tensor


def chain(target: TableModel, draft: TableModel, nodes: int, length: int = 0, point: bool = False) -> Instance:
    """An instance with a chain of `nodes`; the text is one token longer unless its length is given."""
    return Instance(target, draft, Tree.chain(nodes), "point" if point else "iid", length or nodes + 1)


@lru_cache(maxsize=1)
def panel() -> dict[str, Instance]:
    """The instances by name; every one is sampled, and integrated where that is possible."""
    random, constant = TableModel.random, TableModel.constant

    def dice(seed: int) -> torch.Generator:
        return torch.Generator().manual_seed(seed)

    zipf = np.arange(1, 25) ** -1.2
    bent = zipf * np.exp(0.7 * np.sin(5.0 * np.arange(24)))
    return {
        "toy": chain(constant([0.6, 0.3, 0.1]), constant([0.2, 0.3, 0.5]), 1),
        "context": chain(random(3, 2, dice(1)), random(3, 2, dice(2)), 2),
        "long": chain(random(2, 3, dice(3)), random(2, 3, dice(4)), 3),
        "zeros": chain(random(4, 2, dice(5), zeros=0.3), random(4, 2, dice(6), zeros=0.3), 2),
        "first and last zero": chain(constant([0, 0.7, 0.3, 0]), constant([0.3, 0.2, 0.2, 0.3]), 2),
        "disjoint": chain(constant([0, 0.4, 0, 0.6]), constant([0.5, 0, 0.5, 0]), 2),
        "equal": chain(random(3, 2, dice(7)), random(3, 2, dice(7)), 2),
        "flat target": chain(constant([0.25] * 4), constant([0.55, 0.25, 0.15, 0.05]), 2),
        "sharp target": chain(constant([0.02, 0.96, 0.02]), constant([0.3, 0.3, 0.4]), 2),
        "sharp draft": chain(random(3, 2, dice(8)), constant([0.97, 0.02, 0.01]), 2),
        "greedy": chain(constant([0, 0, 1]), constant([0.4, 0.4, 0.2]), 2),
        "point": chain(random(3, 2, dice(5)), random(3, 2, dice(9)), 2, point=True),
        "wide": chain(constant(list(zipf / zipf.sum())), constant(list(bent / bent.sum())), 1, length=1),
    }


@lru_cache(maxsize=1)
def edge_panel() -> dict[str, Instance]:
    """The instances on which edge coins are scripted: tokens of probability 0, and rows that are nearly equal."""
    names = ("zeros", "first and last zero", "disjoint", "greedy")
    return {name: panel()[name] for name in names} | {"nearly equal": _nearly_equal()}


def _nearly_equal() -> Instance:
    """Rows that differ in the last bits of one token, as two runs of one model do: almost no residual is left."""
    rows = torch.tensor(
        [
            [4681540, 6527454, 5568222],
            [4300855, 5563604, 6912757],
            [7065516, 6012669, 3699031],
            [6969124, 3672385, 6135707],
        ],
        dtype=torch.float64,
    )
    raised = torch.zeros_like(rows)
    raised[range(4), [0, 2, 0, 1]] = 2
    target, draft = rows / 2**24, (rows + raised) / 2**24
    return chain(TableModel((target[:1], target[1:])), TableModel((draft[:1], draft[1:])), 2)


def proposals(instance: Instance) -> list[Proposal]:
    """Every draft of an instance that has some probability."""
    size, nodes = instance.target.vocabulary, len(instance.tree)
    found = []
    for tokens in product(range(size), repeat=nodes):
        contexts = [tokens[:n] for n in range(nodes + 1)]
        drawn = torch.stack([_drawn(instance, context) for context in contexts[:-1]])
        probability = float(drawn[range(nodes), list(tokens)].prod())
        if probability > 0:
            target = torch.stack([instance.target.row(context) for context in contexts])
            found.append(Proposal(probability, torch.tensor(tokens), target.float(), drawn.float()))
    return found


def _drawn(instance: Instance, context: tuple[int, ...]) -> Tensor:
    row = instance.draft.row(context)
    if instance.drawn == "iid":
        return row
    return torch.nn.functional.one_hot(row.argmax(), len(row)).double()


def completed(instance: Instance, committed: tuple[int, ...]) -> Law:
    """Law [V**length] of the text that begins with `committed` (cut if longer) and goes on by the target."""
    size, text = instance.target.vocabulary, committed[: instance.length]
    law, contexts = np.ones(1), [text]
    for _ in range(instance.length - len(text)):
        rows = np.stack([instance.target.row(context).numpy() for context in contexts])
        law = (law[:, None] * rows).ravel()
        contexts = [(*context, token) for context in contexts for token in range(size)]
    number = 0
    for token in text:
        number = number * size + token
    out = np.zeros(size**instance.length)
    out[number * len(law) : (number + 1) * len(law)] = law
    return out


def commit(verify: Verify, proposal: Proposal, coins: Coins) -> tuple[int, ...]:
    """What a verifier commits for a draft; it gets copies, so that it cannot spoil the panel.

    Raises:
        SpecproofError: it returned nothing, too many tokens, or what is no token.
    """
    tokens = verify(proposal.target.clone(), proposal.drawn.clone(), proposal.tokens.clone(), coins)
    nodes, size = proposal.drawn.shape
    if not 1 <= len(tokens) <= nodes + 1 or not all(0 <= token < size for token in tokens):
        raise SpecproofError(
            f"the verifier returned {tokens} for {nodes} drafted tokens of a vocabulary of {size}: "
            f"give the accepted tokens and one more"
        )
    return tuple(tokens)
