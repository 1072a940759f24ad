"""For tests of rules: one round summed in fractions, and a torch rule held against its specification."""

from collections import defaultdict
from fractions import Fraction as F
from itertools import product

import torch

from specproof.rules.spec.numbers import EXACT
from specproof.tree import Tree
from specproof.types import Draft

P = [F(1, 2), F(1, 3), F(1, 6)]
Q = P[::-1]


def round_law(spec, target, draft, length=1, complete=None):
    """Law of the texts after one round on chains of `length`, rows without context; completed with the target.

    Completed to `length` + 1 tokens, or cut to `complete`. Tokens of the draft are i.i.d.
    """
    tree = Tree.chain(length)
    law = defaultdict(F)
    for tokens in product(range(len(target)), repeat=length):
        probability = F(1)
        for token in tokens:
            probability *= draft[token]
        if probability:
            outcome = spec(EXACT, [target] * (length + 1), [draft] * length + [[]], tree, list(tokens))
            for accepted, (stop, following) in enumerate(zip(outcome.stop, outcome.next, strict=True)):
                for tail in product(range(len(target)), repeat=length + 1 - accepted):
                    mass = probability * stop * following[tail[0]]
                    for token in tail[1:]:
                        mass *= target[token]
                    law[(*tokens[:accepted], *tail)[:complete]] += mass
    return law


def accepted(spec, target, draft):
    """Probability that a single drafted token is kept."""
    tree = Tree.chain(1)
    return sum(q * spec(EXACT, [target] * 2, [draft, []], tree, [x]).stop[1] for x, q in enumerate(draft) if q)


def one_step(spec, target, draft):
    """Law of the first token after one drafted token."""
    law = round_law(spec, target, draft, 1, complete=1)
    return [law[(x,)] for x in range(len(target))]


def distance(law, other):
    return sum(abs(a - b) for a, b in zip(law, other, strict=True)) / 2


def product_law(target, length):
    law = {}
    for text in product(range(len(target)), repeat=length):
        law[text] = F(1)
        for token in text:
            law[text] *= target[token]
    return law


def text_distance(law, other):
    return sum(abs(law.get(t, 0) - other.get(t, 0)) for t in {*law, *other}) / 2


def random_row(size, generator, zeros=0.3):
    """A row of small fractions, with tokens without mass and, now and then, all of it on one token."""
    while True:
        counts = [int(torch.randint(1, 7, (), generator=generator)) for _ in range(size)]
        kept = torch.rand(size, generator=generator) >= (
            0.9 if torch.rand((), generator=generator) < 0.1 else zeros
        )
        counts = [count * int(keep) for count, keep in zip(counts, kept, strict=True)]
        if sum(counts):
            return [F(count, sum(counts)) for count in counts]


CHAINS = tuple(Tree.chain(length) for length in range(4))
TREES = (*CHAINS, Tree((-1, -1)), Tree((-1, -1, 0, 0, 1)), Tree((-1, 0, -1, 2, 2)), Tree((-1, -1, -1)))


def disagreement(rule, spec, trees, drawn, *, seed=0, rounds=15, size=4, dtype=torch.float64):
    """Largest difference between a batched torch rule and its specification, over random ragged batches.

    Rows hold zeros, one-hot rows, equal rows and rows of disjoint support; point drafts have equal siblings.
    """
    generator = torch.Generator().manual_seed(seed)
    worst = 0.0
    for _ in range(rounds):
        rows = [[random_row(size, generator) for _ in range(len(tree) + 1)] for tree in trees]
        drawn_rows, tokens = [], []
        for tree, target in zip(trees, rows, strict=True):
            own = [
                row if torch.rand((), generator=generator) < 0.2 else random_row(size, generator) for row in target
            ]
            mass = torch.tensor([[float(x) for x in own[parent + 1]] for parent in tree.parents])
            picked = torch.multinomial(mass, 1, generator=generator)[:, 0].tolist() if len(tree) else []
            if drawn == "point":
                own = [[F(0)] * size for _ in own]
                for parent, token in zip(tree.parents, picked, strict=True):
                    own[parent + 1] = [F(int(x == token)) for x in range(size)]
            drawn_rows.append(own)
            tokens.append(picked)
        law = rule(*_batch(trees, rows, drawn_rows, tokens, drawn, size, dtype))
        assert (law.stop.sum(-1) - 1).abs().max() < 1e-5
        for b, tree in enumerate(trees):
            expected = spec(EXACT, rows[b], drawn_rows[b], tree, tokens[b])
            found = law.stop[b].tolist()
            assert not any(found[len(tree) + 1 :]), "stops in padding"
            for row, (stop, following) in enumerate(zip(expected.stop, expected.next, strict=True)):
                worst = max(worst, abs(float(stop) - found[row]))
                if stop > 1e-9:
                    at = torch.tensor([min(row, len(t)) for t in trees])
                    pairs = zip(following, law.next(at)[b].tolist(), strict=True)
                    worst = max(worst, *(abs(float(mass) - other) for mass, other in pairs))
    return worst


def _batch(trees, rows, drawn_rows, tokens, drawn, size, dtype):
    """Tensors as an engine would give them; the padding holds junk that no rule may read."""
    width = max(map(len, trees))
    target = torch.full((len(trees), width + 1, size), 1 / size, dtype=dtype)
    soft = torch.full((len(trees), width + 1, size), 1 / size, dtype=dtype)
    padded = torch.full((len(trees), width), size - 1)
    for b, tree in enumerate(trees):
        target[b, : len(tree) + 1] = torch.tensor([[float(x) for x in row] for row in rows[b]], dtype=dtype)
        soft[b, : len(tree) + 1] = torch.tensor([[float(x) for x in row] for row in drawn_rows[b]], dtype=dtype)
        padded[b, : len(tree)] = torch.tensor(tokens[b], dtype=torch.long)
    return target, Draft(tuple(trees), padded, None if drawn == "point" else soft, drawn)
