"""One call a protocol: raises AssertionError, with the place and the numbers, where a contract is broken.

Exact where laws are concerned; caches are compared with fresh ones over rounds that accept nothing, something,
everything, and that draft nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specproof.audit.drafter.draws import Context
from specproof.audit.drafter.exact import enumerate_drafts
from specproof.audit.report import RuleResult
from specproof.audit.rules import audit_rule
from specproof.noise import CounterNoise
from specproof.rules import Rule
from specproof.tree import Tree
from specproof.types import Backend, Batch, Draft, Drafter, Output, SamplingParams, Step, TokenSequence

# Accepted nodes of successive rounds for the first sequence; others are shifted against it.
_ACCEPTED = (0, 2, 0, 1, 9, 0, 9, 1)


def check_rule(rule: Rule, instances: int = 60) -> RuleResult:
    """A rule keeps the target's law on every draft that it accepts, and equals its specification.

    Args:
        rule: an entry as in RULES.
        instances: random settings, each enumerated exactly.
    """
    result = audit_rule(rule, instances)
    assert result.ok, str(result)
    return result


def check_backend(backend: Backend, tolerance: float = 1e-9) -> None:
    """Cached scores of ragged batches and trees equal those of the same text prefilled afresh.

    Args:
        backend: in float64 for the default tolerance; needs a context of at least 48.
        tolerance: largest difference of probabilities.
    """
    generator = torch.Generator().manual_seed(0)
    batch = [_sequence(backend, length, generator) for length in (5, 1, 9)]
    trees = (Tree.chain(3), Tree.levels((2, 2)), Tree.chain(0), Tree((-1, 0, -1, 1)))
    for turn, accepted in enumerate(_ACCEPTED):
        if turn == 5:  # one leaves, one joins: rows move
            backend.free(batch[:1])
            batch = [*batch[1:], _sequence(backend, 3, generator)]
        shapes = tuple(trees[(turn + b) % len(trees)] for b in range(len(batch)))
        width = max(map(len, shapes))
        tokens = torch.randint(backend.vocabulary, (len(batch), width), generator=generator)
        draft = Draft(shapes, tokens, None, "point")
        logits = _forward_in_parts(backend, batch, draft, parts=turn % 2)
        for b, (sequence, tree) in enumerate(zip(batch, shapes, strict=True)):
            for node in range(-1, len(tree)):
                text = sequence.tokens + [int(tokens[b, n]) for n in tree.path(node)]
                _compare(
                    logits[b, node + 1], _fresh(backend, text), tolerance, f"round {turn}, row {b}, node {node}"
                )
        paths = [tree.path(min(accepted + b, len(tree)) - 1) for b, tree in enumerate(shapes)]
        for b, (sequence, path) in enumerate(zip(batch, paths, strict=True)):
            sequence.tokens += [int(tokens[b, n]) for n in path] + [turn % backend.vocabulary]
        backend.keep(batch, paths)
    backend.free(batch)


def check_coins(inverse_cdf: Callable[[Tensor, Tensor], Tensor]) -> None:
    """An inverse CDF is half-open and never gives a token without mass, at coins on every edge.

    Args:
        inverse_cdf: from rows [M, V], not always summing to 1 exactly, and coins [M] in [0, 1) to [M] tokens.
    """
    below_one = 1 - 2.0**-53
    cases = (
        ([0, 0.5, 0.5, 0], 0.0, 1),
        ([0, 0.5, 0.5, 0], 0.25, 1),
        ([0, 0.5, 0.5, 0], 0.5, 2),
        ([0.25, 0, 0.75, 0], 0.25, 2),
        ([0, 0.5, 0.5, 0], below_one, 2),
        # Rounding can leave a sum below 1, and a coin above it.
        ([0.5, 0, 0.5 - 1e-7, 0], below_one, 2),
    )
    for row, coin, expected in cases:
        found = int(inverse_cdf(torch.tensor([row]).double(), torch.tensor([coin]).double()))
        what = "a token without mass" if row[found] == 0 else "the wrong side of an edge"
        assert found == expected, f"coin {coin} on {row}: token {found}, {what}; right is {expected}"


def check_drafter(make: Callable[[], Drafter], target: Backend, budget: int = 3) -> None:
    """Drafts stay within budget, are drawn from the rows that they return, and caches roll back.

    Args:
        make: builds the drafter; called twice for each round, once for a drafter without history.
        target: the backend it drafts for.
        budget: most nodes asked for.
    """
    generator = torch.Generator().manual_seed(1)
    params = SamplingParams(temperature=0.8, top_k=3)
    batch = [_sequence(target, length, generator, params, seed=length) for length in (4, 1, 7)]
    drafter, noise = make(), CounterNoise()
    _check_draws(make(), target, batch[0], budget)
    for turn, accepted in enumerate(_ACCEPTED):
        asked = [budget if turn % 4 != 2 else 0, budget - 1, (budget + turn) % (budget + 1)]
        draft = drafter.draft(batch, asked, noise)
        _same_draft(draft, make().draft(batch, asked, noise), f"round {turn}")
        assert draft.drawn == drafter.drawn, f"declares {drafter.drawn} draws, returned {draft.drawn}"
        for tree, most in zip(draft.trees, asked, strict=True):
            assert len(tree) <= most, f"round {turn}: {len(tree)} nodes for a budget of {most}"
            assert tree.is_chain or not drafter.chains, f"round {turn}: declares chains, returned {tree}"
        output = target.forward(batch, draft)
        paths = [tree.path(min(accepted + b, len(tree)) - 1) for b, tree in enumerate(draft.trees)]
        steps = [Step(path, (turn + b) % target.vocabulary) for b, path in enumerate(paths)]
        for b, (sequence, step) in enumerate(zip(batch, steps, strict=True)):
            sequence.tokens += [int(draft.tokens[b, n]) for n in step.path] + [step.token]
        target.keep(batch, paths)
        drafter.observe(batch, steps, output)
    target.free(batch)
    drafter.free(batch)


def _check_draws(drafter: Drafter, target: Backend, sequence: TokenSequence, budget: int) -> None:
    """Enumerate the drafter's random choices: each draft has the probability that its rows give it."""
    context = Context(tuple(sequence.tokens), sequence.params)
    found = enumerate_drafts(target, drafter, context, budget)
    assert not found.open, f"{drafter.drawn} drafts that are not drawn with the noise, or too many to enumerate"
    wrong = found.wrong(1e-6)
    assert not wrong, f"{wrong} (after {context})"


def _same_draft(found: Draft, fresh: Draft, where: str) -> None:
    assert found.trees == fresh.trees, f"{where}: shape {found.trees}, without history {fresh.trees}"
    for b, tree in enumerate(found.trees):
        same = torch.equal(found.tokens[b, : len(tree)], fresh.tokens[b, : len(tree)])
        assert same, f"{where}: tokens of sequence {b} differ from those of a drafter without history"
        if found.rows is not None and fresh.rows is not None:
            _compare(
                found.rows[b, : len(tree)], fresh.rows[b, : len(tree)], 1e-6, f"{where}, sequence {b}", rows=True
            )


def _forward_in_parts(backend: Backend, batch: Batch, draft: Draft, parts: int) -> Tensor:
    """Score a draft at once, or as a drafter grows it: the root first, then the nodes."""
    if not parts:
        return backend.forward(batch, draft).logits
    none = Draft((Tree.chain(0),) * len(batch), draft.tokens[:, :0], None, draft.drawn)
    root: Output = backend.forward(batch, none)
    if draft.tokens.shape[1] == 0:
        return root.logits
    return torch.cat([root.logits, backend.forward(batch, draft, start=[1] * len(batch)).logits], 1)


def _fresh(backend: Backend, tokens: Sequence[int]) -> Tensor:
    twin = TokenSequence(list(tokens), len(tokens), SamplingParams(), 0)
    none = Draft((Tree.chain(0),), torch.zeros(1, 0, dtype=torch.long), None, "point")
    logits = backend.forward([twin], none).logits[0, 0]
    backend.free([twin])
    return logits


def _compare(found: Tensor, expected: Tensor, tolerance: float, where: str, rows: bool = False) -> None:
    if not rows:
        found, expected = found.softmax(-1), expected.softmax(-1)
    error = float((found.double() - expected.double()).abs().max()) if found.numel() else 0.0
    assert error <= tolerance, f"{where}: probabilities differ from a fresh pass by {error:.2g}"


def _sequence(
    backend: Backend,
    length: int,
    generator: torch.Generator,
    params: SamplingParams | None = None,
    seed: int = 0,
) -> TokenSequence:
    tokens = torch.randint(backend.vocabulary, (length,), generator=generator).tolist()
    return TokenSequence(tokens, length, params or SamplingParams(), seed)
