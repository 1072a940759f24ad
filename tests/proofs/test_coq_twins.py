"""Coq computes its specifications over the rationals; the Python twins give the same fractions.

What Coq computes here are the very definitions that its theorems are about, at another instance of `Numbers`.
"""

import random
from fractions import Fraction as F
from functools import partial

import coq
import pytest

from specproof.audit import fractions
from specproof.rules.spec.block import block
from specproof.rules.spec.coupling import match_probability
from specproof.rules.spec.lenience import lenience
from specproof.rules.spec.numbers import EXACT, excess, normalised, ratio, without
from specproof.rules.spec.rejection import rejection
from specproof.rules.spec.siblings import siblings, siblings_without_replacement
from specproof.rules.spec.spec_rl import spec_rl
from specproof.rules.spec.traversal import traversal, traversal_without_replacement
from specproof.rules.spec.walk import walk
from specproof.tree import Tree

pytestmark = pytest.mark.proofs

PREAMBLE = f"""
From Coq Require Import List QArith Qcanon.
From Specproof.spec Require Import numbers laws rejection block walk siblings traversal lenience spec_rl coupling.
Import ListNotations.
{coq.EXACT}
#[local] Existing Instance rationals.
Open Scope nat_scope.
Definition table (rows : list (text * list Qc)) : model := fun context =>
  match find (fun entry => if list_eq_dec Nat.eq_dec (fst entry) context then true else false) rows with
  | Some entry => listed (snd entry)
  | None => listed []
  end.
Definition masses (size : nat) (r : row) := map (fun x => exact (r x)) (seq 0 size).
Definition shown (size : nat) (l : law) :=
  map (fun here => (exact (stop here), kept here, masses size (next here))) l.
Fixpoint same (one other : tree) : bool :=
  match one, other with
  | leaf, leaf => true
  | node x b y, node x' b' y' => (Nat.eqb x x' && same b b' && same y y')%bool
  | _, _ => false
  end.
"""

SHAPES = [
    Tree(()),
    Tree.chain(2),
    Tree((-1, -1)),
    Tree((-1, -1, -1)),
    Tree.levels((2, 2)),
    Tree((-1, 0, -1, 1, 2, 2, 4, -1)),
]
# Where independent siblings are equal, Python's traversal gives the first one what hangs below the others.
LEVEL_OR_CHAIN = [
    Tree(()),
    Tree((-1, -1, -1)),
    Tree.chain(1),
    Tree.chain(2),
    Tree.chain(3),
    Tree((-1, 0, 1, 2, 2)),
]
CHAINS = {
    "rejection": (rejection, "{size} {target} {drawn} [] one", {}),
    "block": (block, "{size} {target} {drawn} []", {}),
    "lenience": (lenience, f"{coq.number(F(3, 5))} {{size}} {{target}} {{drawn}} [] one", {"share": F(3, 5)}),
    "spec_rl": (spec_rl, f"{coq.number(F(3, 2))} {{target}} {{drawn}} [] one", {"factor": F(3, 2)}),
}
TREES = {
    "walk": (walk, "{size} {target} []", SHAPES),
    "siblings true": (siblings, "true {size} {target} {drawn} []", SHAPES),
    "siblings false": (siblings_without_replacement, "false {size} {target} {drawn} []", SHAPES),
    "traversal true": (traversal, "true {size} {target} {drawn} []", LEVEL_OR_CHAIN),
    "traversal false": (traversal_without_replacement, "false {size} {target} {drawn} []", SHAPES),
}


def some_row(dice, size):
    """Small fractions; every other row has zero masses, some have one token only."""
    kind = dice.randrange(4)
    weights = [dice.randint(int(kind > 1), 6) for _ in range(size)]
    if kind == 0 or not any(weights):
        weights = [int(x == weights[0] % size) for x in range(size)]
    return [F(weight, sum(weights)) for weight in weights]


def some_tokens(dice, tree, drawn, support=False, differ=False):
    """Tokens, and rows (target, drawn) at the texts of the tree.

    With `support`, only tokens that can be drawn; where siblings `differ`, they may be any others.
    """
    size = len(drawn)
    target_rows, drawn_rows = {(): some_row(dice, size)}, {(): drawn}
    tokens, paths = [], [()]
    for parent in tree.parents:
        before = drawn_rows[paths[parent + 1]]
        elder = [tokens[node] for node in tree.children(parent) if node < len(tokens)] if differ else []
        tokens.append(dice.choice([x for x in range(size) if x not in elder and (before[x] > 0 or not support)]))
        paths.append((*paths[parent + 1], tokens[-1]))
        target_rows.setdefault(paths[-1], some_row(dice, size))
        drawn_rows.setdefault(paths[-1], some_row(dice, size))
    return tokens, paths, target_rows, drawn_rows


def expected(law, paths, order):
    return [[law.stop[i], list(paths[i]), list(law.next[i])] for i in order]


def operations_on_rows(dice):
    for _ in range(20):
        size = dice.randint(2, 4)
        p, q, x = some_row(dice, size), some_row(dice, size), dice.randrange(size)
        gap, none = [F(3) * a for a in excess(EXACT, p, q)], [F(0)] * size
        fallback = coq.row(q)
        for name, value in [
            (f"excess {coq.row(p)} {coq.row(q)}", excess(EXACT, p, q)),
            (f"normalised {size} {coq.row(gap)} {fallback}", normalised(EXACT, gap, q)),
            (f"normalised {size} {coq.row(none)} {fallback}", normalised(EXACT, none, q)),
            (f"without {size} {coq.row(p)} {x}", without(EXACT, p, x)),
            (f"fun y => ratio ({coq.row(p)} y) ({coq.row(q)} y)", list(map(partial(ratio, EXACT), p, q))),
            (f"fun y => minimum ({coq.row(p)} y) ({coq.row(q)} y)", list(map(EXACT.minimum, p, q))),
            (f"fun y => maximum ({coq.row(p)} y) ({coq.row(q)} y)", list(map(EXACT.maximum, p, q))),
        ]:
            yield f"masses {size} ({name})", value


def match_probabilities(dice):
    for _ in range(20):
        size = dice.randint(2, 4)
        p, q = some_row(dice, size), some_row(dice, size)
        yield f"exact (match_probability {size} {coq.row(p)} {coq.row(q)})", match_probability(EXACT, p, q)


def chain_rule(name):
    spec, arguments, keywords = CHAINS[name]

    def instances(dice):
        for length in (0, 1, 1, 2, 2, 3, 3, 4, 5) * 3:
            size = dice.randint(2, 4)
            tree = Tree.chain(length)
            tokens, paths, target, drawn = some_tokens(dice, tree, some_row(dice, size), support=True)
            law = spec(EXACT, [target[p] for p in paths], [drawn[p] for p in paths], tree, tokens, **keywords)
            given = arguments.format(size=size, target=coq.model(target), drawn=coq.model(drawn))
            yield (
                f"shown {size} ({name} {given} {coq.listing(tokens)})",
                expected(law, paths, range(length + 1)),
            )

    return instances


def tree_rule(name):
    spec, arguments, shapes = TREES[name]
    differ = spec is traversal_without_replacement

    def instances(dice):
        for tree in shapes * 4:
            size = dice.randint(4 if differ else 2, 4)
            # Any tokens: equal siblings, tokens that are not drawn, rows that are used up.
            tokens, paths, target, drawn = some_tokens(dice, tree, some_row(dice, size), differ=differ)
            law = spec(EXACT, [target[p] for p in paths], [drawn[p] for p in paths], tree, tokens)
            given = arguments.format(size=size, target=coq.model(target), drawn=coq.model(drawn))
            term = f"shown {size} ({name.split()[0]} {given} {coq.tree(tree, tokens)})"
            yield term, expected(law, paths, coq.backwards(tree))

    return instances


def drafted_trees(replaced):
    def instances(dice):
        for tree in (*SHAPES[1:4], Tree((-1, 0, -1))):
            rows = {(): [F(1, 2), F(1, 3), F(1, 6)]}
            rows |= {(x,): [F(w, 6) for w in dice.sample([1, 2, 3], 3)] for x in range(3)}
            drawn = "iid" if replaced else "without_replacement"
            for tokens, probability in fractions.drafts(rows.__getitem__, tree, drawn):
                draw = f"draw_tree {str(replaced).lower()} 3 drawn [] (drawn []) {coq.shape_of(tree)}"
                yield (
                    f"let drawn := {coq.model(rows)} in "
                    f"exact ({draw} (fun t => if same {coq.tree(tree, tokens)} t then one else zero))",
                    probability,
                )

    return instances


def law_of_a_round(name, spec):
    """Drawing, judging and completing together: drafts of two, texts of three."""

    def instances(dice):
        contexts = [(), *((x,) for x in range(2)), *((x, y) for x in range(2) for y in range(2))]
        # The rule is told another target than the one that completes, so that the law is not simply the target's.
        target, told, drawn = ({c: some_row(dice, 2) for c in contexts} for _ in range(3))
        drawn |= {c: [F(1, 3), F(2, 3)] for c in contexts[:3]}
        found: dict[tuple[int, ...], F] = {}

        def complete(text, mass):
            if len(text) == 3:
                found[text] = found.get(text, F(0)) + mass
            else:
                for x, p in enumerate(target[text]):
                    complete((*text, x), mass * p)

        tree = Tree.chain(2)
        for tokens, probability in fractions.drafts(drawn.__getitem__, tree, "iid"):
            paths = [tuple(tokens[:i]) for i in range(3)]
            law = spec(EXACT, [told[p] for p in paths], [drawn[p] for p in paths], tree, tokens)
            for stop, path, following in zip(law.stop, paths, law.next, strict=True):
                for y, mass in enumerate(following):
                    complete((*path, y), probability * stop * mass)
        assert found != fractions.target_law(target.__getitem__, 3)
        turn = f"{name}_round 2 {coq.model(told)} {coq.model(drawn)} (fun _ => true) 2"
        for text, mass in found.items():
            yield f"exact (probability 2 {coq.model(target)} ({turn}) [] {coq.listing(text)})", mass

    return instances


INSTANCES = {
    "operations on rows": operations_on_rows,
    "match probability": match_probabilities,
    **{name: chain_rule(name) for name in CHAINS},
    **{name: tree_rule(name) for name in TREES},
    "draft of independent siblings": drafted_trees(True),
    "draft of siblings without replacement": drafted_trees(False),
    "round of rejection": law_of_a_round("rejection", rejection),
    "round of block": law_of_a_round("block", block),
}


@pytest.fixture(scope="module")
def in_coq(tmp_path_factory):
    """All values in one run of Coq, by their terms."""
    terms = [term for name, instances in INSTANCES.items() for term, _ in instances(random.Random(name))]
    return dict(zip(terms, coq.computed(tmp_path_factory.mktemp("coq"), PREAMBLE, terms), strict=True))


@pytest.mark.parametrize("name", INSTANCES)
def test_coq_computes_the_same(name, in_coq):
    count = 0
    for term, value in INSTANCES[name](random.Random(name)):
        assert in_coq[term] == value, term
        count += 1
    assert count >= 8
