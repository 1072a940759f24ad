"""What the tests of the multi-draft rules share: random instances, exact fractions, and single-step formulas."""

from collections.abc import Callable, Iterator
from fractions import Fraction as F
from itertools import combinations, islice, permutations, product

import torch

from specproof.audit.exact import Instance, target_law, text_law, tv
from specproof.backends.table import TableModel
from specproof.rules import RULES
from specproof.rules.spec.numbers import EXACT
from specproof.tree import Tree
from specproof.types import Draft

P = (F(1, 2), F(1, 3), F(1, 6))
Q = P[::-1]


def star(children):
    return Tree((-1,) * children)


def fractions(row):
    """The exact values of floats, divided by their sum."""
    exact = [F(mass) for mass in row]
    return [mass / (sum(exact) or 1) for mass in exact]


# Specifications, in fractions.


def draws(row, drawn, count) -> Iterator[tuple[tuple[int, ...], F]]:
    """Every way to draw `count` siblings, with its probability."""
    top = sorted(range(len(row)), key=lambda x: -row[x])[: count - 1]
    for tokens in product(range(len(row)), repeat=count):
        probability, rest = F(1), list(row)
        for i, token in enumerate(tokens):
            if drawn == "top_and_one" and i < count - 1:
                probability *= token == top[i]
            else:
                probability *= rest[token] / sum(rest) if sum(rest) else 0
            rest[token] *= drawn == "iid"
        if probability:
            yield tokens, probability


def one_round(spec, target: Callable, draft: Callable, tree: Tree, drawn="iid"):
    """Law of the text after one round, completed by the target, and the expected number of accepted nodes."""
    length = max(tree.depths) + 1
    law, accepted = dict.fromkeys(product(range(len(target(()))), repeat=length), F(0)), F(0)
    for tokens, probability in _drafts(draft, tree, drawn):
        texts = [tuple(tokens[i] for i in tree.path(node)) for node in range(-1, len(tree))]
        said = spec(EXACT, [list(target(t)) for t in texts], [list(draft(t)) for t in texts], tree, tokens)
        assert sum(said.stop) == 1
        for text, stop, row in zip(texts, said.stop, said.next, strict=True):
            assert stop >= 0
            if stop:
                assert min(row) >= 0
                accepted += probability * stop * len(text)
                for token, mass in enumerate(row):
                    for end, rest in _completions(target, (*text, token), length):
                        law[end] += probability * stop * mass * rest
    return law, accepted


def own_law(target: Callable, length: int):
    return dict(_completions(target, (), length)) if length else {}


def _completions(target, text, length) -> Iterator[tuple[tuple[int, ...], F]]:
    if len(text) == length:
        yield text, F(1)
        return
    for token, mass in enumerate(target(text)):
        for end, rest in _completions(target, (*text, token), length):
            yield end, mass * rest


def _drafts(draft, tree, drawn) -> Iterator[tuple[list[int], F]]:
    def extend(tokens, probability, parents):
        if not parents:
            yield [tokens[node] for node in range(len(tree))], probability
            return
        parent, *others = parents
        children = tree.children(parent)
        row = draft(tuple(tokens[i] for i in tree.path(parent)))
        for siblings, chance in draws(row, drawn, len(children)):
            yield from extend(
                {**tokens, **dict(zip(children, siblings, strict=True))}, probability * chance, others
            )

    yield from extend({}, F(1), sorted(set(tree.parents)))


# Torch rules, in float64.


def accepted(name, target, draft, tree, drawn="iid"):
    """Expected accepted nodes of the torch rule in one round, for rows that ignore the context."""
    rows = (TableModel.constant([float(mass) for mass in row]) for row in (target, draft))
    return text_law(RULES[name], Instance(*rows, tree, drawn, max(tree.depths) + 1)).accepted


def audit(name, drawn, trees, count, size=3, seed=0, spec=None):
    """Largest TV over random instances, and largest difference from the specification."""
    generator = torch.Generator().manual_seed(seed)
    worst = different = 0.0
    for instance in islice(instances(trees, drawn, size, generator), count):
        found = text_law(RULES[name], instance)
        worst = max(worst, tv(found.law, target_law(instance)))
        different = max(different, spec_difference(name, spec or RULES[name].spec, instance, generator))
    return worst, different


def instances(trees, drawn, size, generator) -> Iterator[Instance]:
    def model(zeros=0.0):
        return TableModel.random(size, length - 1, generator, zeros)

    while True:
        for tree in trees:
            length = max(tree.depths) + 2
            target = model(0.4)
            pairs = [(model(), model()), (target, model())]
            if drawn == "iid":
                rolled = TableModel(tuple(level.roll(1, -1) for level in model(1.0).levels))
                pairs += [(target, model(0.4)), (target, target), (model(1.0), model(0.4)), (model(1.0), rolled)]
            for pair in pairs:
                yield Instance(*pair, tree, drawn, length)


def spec_difference(name, spec, instance, generator, samples=12):
    """Over some drafts from the empty context: stop, and the extra token's law as often as it is drawn from."""
    worst = 0.0
    parts = [_random_draft(instance, generator) for _ in range(samples)]
    targets, rows, tokens = (
        torch.cat(part)
        for part in zip(*((target, draft.rows, draft.tokens) for target, draft in parts), strict=True)
    )
    law = RULES[name](targets, Draft((instance.tree,) * samples, tokens, rows, instance.drawn))
    extra = [law.next(torch.full((samples,), row)).tolist() for row in range(len(instance.tree) + 1)]
    for b in range(samples):
        exact = [[fractions(row) for row in part[b].tolist()] for part in (targets, rows)]
        said = spec(EXACT, *exact, instance.tree, tokens[b].tolist())
        for row, (stop, following) in enumerate(zip(said.stop, said.next, strict=True)):
            worst = max(worst, abs(float(stop) - float(law.stop[b, row])))
            gaps = [abs(float(mass) - found) for mass, found in zip(following, extra[row][b], strict=True)]
            worst = max(worst, float(stop) * max(gaps))
    return worst


def _random_draft(instance, generator):
    tree, tokens = instance.tree, []
    texts = [[]]
    for node, parent in enumerate(tree.parents):
        row = instance.draft.row(texts[parent + 1]).clone()
        family = tree.children(parent)
        earlier = [tokens[i] for i in family if i < node]
        if instance.drawn == "top_and_one" and len(earlier) < len(family) - 1:
            token = int(row.argsort(descending=True, stable=True)[len(earlier)])
        else:
            if instance.drawn != "iid":
                row[earlier] = 0
            token = int(torch.multinomial(row, 1, generator=generator))
        tokens.append(token)
        texts.append([*texts[parent + 1], token])
    target, rows = (torch.stack([m.row(text) for text in texts])[None] for m in (instance.target, instance.draft))
    return target, Draft((tree,), torch.tensor([tokens]), rows, instance.drawn)


def batch_equals_singles(name, drawn, trees, generator, size=5, dtype=torch.float64):
    """A padded batch of different trees has the laws of each draft by itself; returns the largest difference."""
    parts = []
    for tree in trees:
        pair = [TableModel.random(size, 3, generator) for _ in range(2)]
        parts.append(_random_draft(Instance(*pair, tree, drawn, 1), generator))
    width = max(map(len, trees))
    target, rows = (torch.full((len(trees), width + 1, size), 1 / size, dtype=dtype) for _ in range(2))
    tokens = torch.zeros(len(trees), width, dtype=torch.long)
    for b, (single, draft) in enumerate(parts):
        nodes = len(trees[b])
        target[b, : nodes + 1], rows[b, : nodes + 1], tokens[b, :nodes] = single[0], draft.rows[0], draft.tokens[0]
    law = RULES[name](target, Draft(tuple(trees), tokens, rows, drawn))
    assert law.stop.dtype == dtype
    worst = 0.0
    for b, (single, draft) in enumerate(parts):
        alone = RULES[name](single, draft)
        padded = torch.zeros(width + 1, dtype=torch.float64)
        padded[: alone.stop.shape[1]] = alone.stop[0]
        worst = max(worst, float((law.stop[b] - padded).abs().max()))
        for row in range(alone.stop.shape[1]):
            gap = law.next(torch.full((len(trees),), row))[b] - alone.next(torch.tensor([row]))[0]
            worst = max(worst, float(gap.abs().max() * alone.stop[0, row]))
    return worst


# Single-step formulas.


def multi_step_acceptance(p, q, count):
    """Recursive rejection of independent drafts (Miao et al. 2023): 1 - product of refusals."""
    refused, owed = F(1), list(p)
    for _ in range(count):
        chance = sum(map(min, owed, q))
        refused *= 1 - chance
        if chance == 1:
            break
        owed = [max(r - b, F(0)) / (1 - chance) for r, b in zip(owed, q, strict=True)]
    return 1 - refused


def all_in(tokens, q, drawn, count):
    """Probability that all of `count` drafts are among these tokens."""
    if drawn == "iid":
        return sum((q[x] for x in tokens), F(0)) ** count
    total = F(0)
    for order in permutations(tokens, count):
        probability, rest = F(1), F(1)
        for x in order:
            probability, rest = (probability * q[x] / rest if q[x] else F(0)), rest - q[x]
        total += probability
    return total


def best_of_subsets(p, q, drawn, count):
    """The optimum, 1 + min over sets of [target - all drafts in it] (Hu et al. 2025)."""
    sets = (s for size in range(len(p) + 1) for s in combinations(range(len(p)), size))
    return 1 + min(sum((p[x] for x in s), F(0)) - all_in(s, q, drawn, count) for s in sets)


def best_of_prefixes(p, q, drawn, count):
    """The same over sets of the tokens with the smallest target/draft only."""
    order = sorted(range(len(p)), key=lambda x: (q[x] == 0, p[x] / q[x] if q[x] else 0))
    sets = (order[:size] for size in range(len(p) + 1))
    return 1 + min(sum((p[x] for x in s), F(0)) - all_in(s, q, drawn, count) for s in sets)
