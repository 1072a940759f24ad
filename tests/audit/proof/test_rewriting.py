"""Whatever is rewritten keeps its value: closed generators, rewriting under facts, and knowledge of signs."""

from fractions import Fraction as F
from functools import cache
from math import prod

import pytest
import unsound_specs as unsound
from hypothesis import given, settings
from hypothesis import strategies as st

from specproof.audit.proof.claims import drafted, text_laws
from specproof.audit.proof.polynomial import ONE, Polynomial
from specproof.audit.proof.rewriting import Rewriting
from specproof.audit.proof.samples import Samples
from specproof.audit.proof.setting import Setting
from specproof.audit.proof.solver import Fact
from specproof.audit.proof.space import Choice, Inverse, Mass, Positive, Space
from specproof.audit.proof.weighing import symbolic_arithmetic, symbolic_models
from specproof.rules.spec.block import block
from specproof.tree import Tree

parts = st.lists(st.integers(0, 4), min_size=2, max_size=2).filter(any)
rows = parts.map(lambda p: [F(part, sum(p)) for part in p])


class At:
    """Values at a point, in exact arithmetic; a division by zero is 0."""

    def __init__(self, space, models):
        self.space, self.models = space, models
        self.generator = cache(self._generator)

    def __call__(self, polynomial):
        return sum((c * prod(map(self.generator, m), start=F(1)) for m, c in polynomial.terms.items()), F(0))

    def _generator(self, number):
        what = self.space.generators[number]
        if isinstance(what, Mass):
            return self.models[what.model, what.context][what.token]
        inside = self(what.inside)
        if isinstance(what, Positive):
            return max(inside, F(0))
        if isinstance(what, Inverse):
            return 1 / inside if inside else F(0)
        return self(what.then if inside > 0 else what.otherwise)


@pytest.fixture(
    scope="module", params=[block, unsound.uncapped_at_the_end, unsound.resampling], ids=lambda f: f.__name__
)
def claims(request):
    """Differences of laws on chains of two nodes, with all their closed generators."""
    space = Space()
    setting = Setting(request.param, 2, Tree.chain(2), "iid")
    models, arithmetic = symbolic_models(space, setting), symbolic_arithmetic(space)
    (drafts,) = drafted(setting, models, arithmetic)
    goals = [(law - wanted).value for _, law, wanted in text_laws(setting, models, drafts, arithmetic)]
    return space, goals, tuple(space.generators)


def contexts(generators):
    return sorted({(what.model, what.context) for what in generators if isinstance(what, Mass)})


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_rewriting_under_true_facts_keeps_the_sign(claims, data):
    space, goals, generators = claims
    goal = data.draw(st.sampled_from(goals))
    at = At(space, {key: data.draw(rows) for key in contexts(generators)})
    reduced = Rewriting(space, frozenset())
    insides = [w.inside for w in generators if isinstance(w, Positive | Choice | Inverse) and w.inside]
    chosen = data.draw(st.lists(st.sampled_from(insides), max_size=6))
    facts = {Fact(inside, at(inside) > 0) for inside in map(reduced.image, chosen) if not inside.is_constant}
    # Divisions by zero have no value to keep.
    if any(at(w.inside) == 0 for w in generators if isinstance(w, Inverse)):
        return
    rewriting = Rewriting(space, frozenset(facts))
    rewritten, used = rewriting.goal(goal)
    before, after = at(goal), at(rewritten)
    assert (before > 0, before < 0) == (after > 0, after < 0)
    assert used <= facts


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_what_is_plainly_nonnegative_is_nowhere_negative(claims, data):
    space, _, generators = claims
    at = At(space, {key: data.draw(rows) for key in contexts(generators)})
    for number, what in enumerate(generators):
        for polynomial in [Polynomial.generator(number), *([what.inside] if not isinstance(what, Mass) else [])]:
            if space.nonnegative(polynomial):
                assert at(polynomial) >= 0


def test_samples_agree_with_exact_values(claims):
    space, _, generators = claims
    at = At(space, {key: [F(1, 4), F(3, 4)] for key in contexts(generators)})
    point = {n: at.generator(n) for n, w in enumerate(generators) if isinstance(w, Mass)}
    samples = Samples(space, 1, point)
    for number, what in enumerate(generators):
        fact = Fact(Polynomial.generator(number), above=True)
        if not isinstance(what, Inverse):
            assert samples.possible([fact]) == (at.generator(number) > 0)


def test_normal_forms_of_closed_generators():
    space = Space()
    p, q = space.row("target", (), 2)[0], space.row("draft", (), 2)[0]
    assert space.positive_part(p + q) == p + q
    assert space.positive_part(-p) == space.positive_part(p - ONE)  # both are 0
    assert space.positive_part((p - q) * p) == space.positive_part(p - q) * p
    assert space.aligned(space.positive_part(q - p) - space.positive_part(p - q)) == q - p
    assert space.inverse(p.scaled(-2)) == space.inverse(p).scaled(F(-1, 2))
    assert space.inverse(p * q) == space.inverse(p) * space.inverse(q)
    assert space.choice(p, ONE, ONE) == ONE
    assert space.choice(-p, p, q) == q
    assert space.choice(ONE, p, q) == p
    assert space.choice(p * q, ONE, p) == space.choice(q, space.choice(p, ONE, p), p)
    # The same content under another kind is another generator.
    assert space.inverse(p + q) != space.positive_part(p - q)


def test_minima_are_known_not_to_be_negative():
    space = Space()
    p, q = space.row("target", (), 2)[0], space.row("draft", (), 2)[0]
    smaller = q - space.positive_part(q - p)  # min(p, q)
    assert space.nonnegative(smaller)
    assert space.nonnegative(q * p - p * space.positive_part(q - p))
    assert space.nonnegative(q - space.positive_part(q - smaller * p))
    assert not space.nonnegative(smaller - p)
    assert space.nonnegative(ONE - p)
    assert space.nonnegative(ONE - p + q)
    assert not space.nonnegative(ONE.scaled(F(1, 2)) - p)
