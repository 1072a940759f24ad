"""The same question asked of Z3 in one formula, without any of the prover's own reasoning."""

from itertools import product

import pytest
import unsound_specs as unsound
import z3

from specproof.audit.proof import Setting, prove
from specproof.rules.spec.block import block
from specproof.rules.spec.rejection import rejection
from specproof.tree import Tree


class Plain:
    def minimum(self, a, b):
        return z3.If(a < b, a, b)

    def maximum(self, a, b):
        return z3.If(a > b, a, b)

    def if_positive(self, a, then, otherwise):
        return z3.If(a > 0, then(), otherwise())


def row(name, size, solver):
    masses = [z3.Real(f"{name}{token}") for token in range(size)]
    solver.add(*[mass >= 0 for mass in masses], sum(masses) == 1)
    return masses


def plain_verdict(spec, size, length):
    """Whether the text's law can differ from the target's, rows depending on the context."""
    solver = z3.SolverFor("QF_NRA")
    contexts = [context for n in range(length + 1) for context in product(range(size), repeat=n)]
    target = {c: row(f"p{c}", size, solver) for c in contexts}
    draft = {c: row(f"q{c}", size, solver) for c in contexts if len(c) < length}
    law = dict.fromkeys(product(range(size), repeat=length + 1), z3.RealVal(0))
    for tokens in product(range(size), repeat=length):
        rows = [target[tokens[:i]] for i in range(length + 1)]
        drawn = [draft[tokens[:i]] for i in range(length)]
        chance = z3.Product([drawn[i][token] for i, token in enumerate(tokens)])
        said = spec(Plain(), rows, drawn, Tree.chain(length), list(tokens))
        for text in law:
            for i, (stop, extra) in enumerate(zip(said.stop, said.next, strict=True)):
                if text[:i] == tokens[:i]:
                    rest = [target[text[:j]][text[j]] for j in range(i + 1, length + 1)]
                    share = z3.Product([chance, stop, extra[text[i]], *rest])
                    law[text] = law[text] + z3.If(chance > 0, share, 0)
    differs = [law[t] != z3.Product([target[t[:j]][t[j]] for j in range(length + 1)]) for t in law]
    solver.add(z3.Or(differs))
    return {"unsat": "PROVED", "sat": "COUNTEREXAMPLE"}[str(solver.check())]


@pytest.mark.parametrize(
    ("spec", "size", "length"),
    [
        (rejection, 2, 1),
        (rejection, 3, 1),
        (unsound.resampling, 2, 1),
        (unsound.absolute_difference, 2, 1),
        (unsound.dropped_by_its_value, 2, 1),
        (unsound.wrong_where_rows_are_equal, 2, 1),
        (unsound.any_fallback, 2, 1),
        pytest.param(block, 2, 2, marks=pytest.mark.slow),
    ],
)
def test_the_prover_agrees_with_one_plain_query(spec, size, length):
    own = prove(Setting(spec, size, Tree.chain(length), "iid"), first_search=False)
    assert own.status == plain_verdict(spec, size, length)
