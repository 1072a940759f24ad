"""Coins where an inequality the wrong way round shows: 0, the edges of the laws, and the largest below 1.

With coins like these a token of probability 0 must not come out, and nothing may fail. Chance alone would
need some 2**24 draws to meet one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import torch

from specproof.audit.adaptors.coins import LARGEST, ScriptedCoins
from specproof.audit.exact import Instance
from specproof.audit.panel import Proposal, Verify, commit, proposals
from specproof.audit.report import EdgeFailure
from specproof.rules.rejection import rejection
from specproof.types import Draft


def edge_failures(verify: Verify, name: str, instance: Instance) -> tuple[int, list[EdgeFailure]]:
    """How many scripts of coins were tried on every draft of an instance, and those that failed."""
    tried, failures = 0, []
    for proposal in proposals(instance):
        for nodes, extra in _scripts(instance, proposal):
            tried += 1
            reason = _failure(verify, proposal, ScriptedCoins(nodes, extra))
            if reason:
                failures.append(EdgeFailure(name, tuple(proposal.tokens.tolist()), (*nodes, extra), reason))
    return tried, failures


def _failure(verify: Verify, proposal: Proposal, coins: ScriptedCoins) -> str:
    try:
        committed = commit(verify, proposal, coins)
    except (ArithmeticError, IndexError, RuntimeError) as error:
        return f"raised {type(error).__name__}: {error}"
    for row, token in zip(proposal.target, committed, strict=False):
        if row[token] == 0:
            return f"committed {list(committed)}, and token {token} has probability 0"
    return ""


def _scripts(instance: Instance, proposal: Proposal) -> Iterator[tuple[tuple[float, ...], float]]:
    """Every combination of edge coins: one for each token, one for the rest."""
    nodes = len(proposal.tokens)
    at = torch.arange(nodes)
    ratios = proposal.target[at, proposal.tokens] / proposal.drawn[at, proposal.tokens]
    coins = [sorted({0.0, LARGEST, min(float(ratio), LARGEST)}) for ratio in ratios]
    # A verifier may draw what follows from the residual, or the place where it stops, by the inverse CDF.
    rows = torch.cat([proposal.drawn, torch.zeros_like(proposal.drawn[:1])])[None]
    law = rejection(proposal.target[None], Draft((instance.tree,), proposal.tokens[None], rows, "iid"))
    extras = {0.0, LARGEST}
    for row in [law.stop[0], *(law.next(torch.tensor([stop]))[0] for stop in range(nodes + 1))]:
        extras |= {min(float(edge), LARGEST) for edge in row.cumsum(0)}
    return product(product(*coins), sorted(extras))
