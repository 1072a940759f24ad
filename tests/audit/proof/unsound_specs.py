"""Specifications with one fault each, and one control that only looks wrong."""

from fractions import Fraction

from specproof.rules.spec.block import block
from specproof.rules.spec.numbers import SpecLaw, excess, normalised
from specproof.rules.spec.rejection import rejection


def _token_by_token(number, target, tokens, accepts, residual):
    """The common frame: accept node i with accepts(i), else draw from residual(i)."""
    reached, stop, following = 1, [], []
    for i in range(len(tokens)):
        accept = accepts(i)
        stop.append(reached * (1 - accept))
        following.append(normalised(number, residual(i), target[i]))
        reached = reached * accept
    return SpecLaw([*stop, reached], [*following, target[len(tokens)]])


def resampling(number, target, drawn, tree, tokens):
    """After a rejection the extra token is drawn from the target itself."""
    law = rejection(number, target, drawn, tree, tokens)
    return SpecLaw(law.stop, list(target))


def absolute_difference(number, target, drawn, tree, tokens):
    """The residual is |target - draft|."""

    def residual(i):
        return [number.maximum(p - q, q - p) for p, q in zip(target[i], drawn[i], strict=True)]

    return _token_by_token(
        number, target, tokens, lambda i: number.minimum(1, target[i][tokens[i]] / drawn[i][tokens[i]]), residual
    )


def argmax_with_soft_row(number, target, drawn, tree, tokens):
    """For point drafts: judged as if drawn from a soft row, here the uniform one."""
    soft = [Fraction(1, len(target[0]))] * len(target[0])
    return rejection(number, target, [soft] * len(tokens), tree, tokens)


def unrenormalised_siblings(number, target, drawn, tree, tokens):
    """Two siblings without replacement, the second one judged by the full row."""
    first, second = tokens
    accept = number.minimum(1, target[0][first] / drawn[0][first])
    owed = normalised(number, excess(number, target[0], drawn[0]), target[0])
    again = number.minimum(1, owed[second] / drawn[0][second])
    rest = normalised(number, excess(number, owed, drawn[0]), owed)
    stop = [(1 - accept) * (1 - again), accept, (1 - accept) * again]
    return SpecLaw(stop, [rest, target[1], target[2]])


def dropped_by_its_value(number, target, drawn, tree, tokens):
    """Token 1 is dropped before it is judged, and the target row used as if nothing had been drafted."""
    if tokens[0] == 1:
        return SpecLaw([1] + [0] * len(tokens), list(target))
    return rejection(number, target, drawn, tree, tokens)


def uncapped_at_the_end(number, target, drawn, tree, tokens):
    """Block verification, the last node accepted with the joint ratio that was never capped on the way."""
    law = block(number, target, drawn, tree, tokens)
    joint = 1
    for i, token in enumerate(tokens):
        joint = joint * target[i][token] / drawn[i][token]
    last = number.minimum(1, joint)
    before = [
        number.if_positive(1 - law.stop[-1], lambda s=s: s / (1 - law.stop[-1]), lambda: 0) for s in law.stop[:-1]
    ]
    return SpecLaw([*((1 - last) * s for s in before), last], law.next)


def longest_of_two(number, target, drawn, tree, tokens):
    """Two drafts judged on their own; the first that passes is taken."""
    passes = [number.minimum(1, target[0][token] / drawn[0][token]) for token in tokens]
    rest = normalised(number, excess(number, target[0], drawn[0]), target[0])
    neither = (1 - passes[0]) * (1 - passes[1])
    return SpecLaw([neither, passes[0], (1 - passes[0]) * passes[1]], [rest, target[1], target[2]])


def without_normalising(number, target, drawn, tree, tokens):
    """The residual is used as it is, so the extra token has no law."""
    law = rejection(number, target, drawn, tree, tokens)
    return SpecLaw(law.stop, [excess(number, target[0], drawn[0]), *law.next[1:]])


def negative_residual(number, target, drawn, tree, tokens):
    """K-SEQ without slack on two drafts: the text is right, but one mass of the residual may be negative."""
    accepts = [number.minimum(1, target[0][token] / drawn[0][token]) for token in tokens]
    both = [number.minimum(p, q) for p, q in zip(target[0], drawn[0], strict=True)]
    tries = 2 - sum(both)
    rest = [p - mass * tries for p, mass in zip(target[0], both, strict=True)]
    neither = (1 - accepts[0]) * (1 - accepts[1])
    return SpecLaw(
        [neither, accepts[0], (1 - accepts[0]) * accepts[1]], [normalised(number, rest, target[0]), *target[1:]]
    )


def divides_by_any_mass(number, target, drawn, tree, tokens):
    """The ratio of every token is computed, drafted or not."""
    ratios = [number.minimum(1, p / q) for p, q in zip(target[0], drawn[0], strict=True)]
    rest = normalised(number, [p - r * q for p, q, r in zip(target[0], drawn[0], ratios, strict=True)], target[0])
    return SpecLaw([1 - ratios[tokens[0]], ratios[tokens[0]]], [rest, target[1]])


def wrong_in_a_corner(number, target, drawn, tree, tokens):
    """Right except where token 0 has nearly all mass in both rows, where no small fraction is."""
    right = rejection(number, target, drawn, tree, tokens)
    corner = number.minimum(target[0][0], drawn[0][0]) - Fraction(96, 100)
    extra = [
        number.if_positive(corner, lambda p=p: p, lambda r=r: r)
        for p, r in zip(target[0], right.next[0], strict=True)
    ]
    return SpecLaw(right.stop, [extra, *right.next[1:]])


def wrong_where_rows_are_equal(number, target, drawn, tree, tokens):
    """Right except on equal rows, a set that random rows never meet."""
    right = rejection(number, target, drawn, tree, tokens)
    gap = sum(excess(number, target[0], drawn[0]))
    stop = [number.if_positive(gap, lambda s=s: s, lambda o=o: o) for s, o in zip(right.stop, (1, 0), strict=True)]
    first = [1] + [0] * (len(target[0]) - 1)
    extra = [
        number.if_positive(gap, lambda r=r: r, lambda o=o: o) for r, o in zip(right.next[0], first, strict=True)
    ]
    return SpecLaw(stop, [extra, *right.next[1:]])


def wrong_without_mass(number, target, drawn, tree, tokens):
    """Right except where token 1 can never be drafted."""
    right = rejection(number, target, drawn, tree, tokens)
    extra = [
        number.if_positive(drawn[0][1], lambda r=r: r, lambda p=p: p)
        for r, p in zip(right.next[0], target[0], strict=True)
    ]
    return SpecLaw(right.stop, [extra, *right.next[1:]])


def any_fallback(number, target, drawn, tree, tokens):
    """Control: what is drawn where the residual is empty does not matter, for it is never drawn."""
    uniform = [Fraction(1, len(target[0]))] * len(target[0])
    law = rejection(number, target, drawn, tree, tokens)
    return SpecLaw(law.stop, [normalised(number, excess(number, target[0], drawn[0]), uniform), *law.next[1:]])
