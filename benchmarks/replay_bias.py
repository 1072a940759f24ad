"""What reusing old answers does to rewards, advantages and training, summed exactly over a policy of three tokens.

Everything is enumerated: every old answer, every decision of the rule; in fractions where the policies are given,
in double precision where they are trained. Rules are their specifications, as `specproof prove` takes them.

    python benchmarks/replay_bias.py
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction as F
from functools import partial
from itertools import product
from math import exp, factorial, fsum, log, prod
from typing import Any

from specproof.rules.spec.numbers import EXACT
from specproof.rules.spec.rejection import rejection
from specproof.rules.spec.spec_rl import spec_rl
from specproof.tree import Tree

Row = list[Any]
Law = dict[tuple[int, ...], Any]
# The new policy and the old one: the golden pair of the tests.
NEW, OLD = [F(1, 2), F(1, 3), F(1, 6)], [F(1, 6), F(1, 3), F(1, 2)]
# Reward of an answer: the share of its tokens that are the first, which the new policy likes best.
TOKENS = range(3)


def published(factor: Any = F(1)) -> Callable[..., Any]:
    """SPEC-RL as published, with its lenience."""
    return partial(spec_rl, factor=factor)


def point(number: Any, new: list[Row], old: list[Row], tree: Tree, tokens: list[int]) -> Any:
    """An old answer without its rows: a point, kept with the new policy's probability."""
    drawn = [[F(t == token) for t in TOKENS] for token in tokens]
    return rejection(number, new, [*drawn, []], tree, tokens)


RULES: dict[str, Callable[..., Any]] = {
    "published, lenience 1": published(),
    "published, lenience 3/2": published(F(3, 2)),
    "published, lenience 2": published(F(2)),
    "rejection with rows": rejection,
    "point": point,
}


def replayed(rule: Callable[..., Any], new: Row, old: Row, length: int = 1) -> Law:
    """Law of new answers of some length, over all old answers; rows do not depend on the text.

    An old answer is verified as a whole; from the first refused token on the new policy writes on.
    """
    law: Law = defaultdict(F)
    for text in product(TOKENS, repeat=length):
        chance = _product(old, text)
        if not chance:
            continue
        outcome = rule(EXACT, [new] * (length + 1), [old] * length + [[]], Tree.chain(length), list(text))
        for kept, (stop, following) in enumerate(zip(outcome.stop, outcome.next, strict=True)):
            for tail in product(TOKENS, repeat=length - kept):
                mass = chance * stop
                if tail:
                    mass *= following[tail[0]] * _product(new, tail[1:])
                law[text[:kept] + tail] += mass
    return dict(law)


def kept_share(rule: Callable[..., Any], new: Row, old: Row) -> Any:
    """How likely a single old token is kept."""
    outcomes = (rule(EXACT, [new] * 2, [old, []], Tree.chain(1), [token]) for token in TOKENS)
    return sum(old[token] * outcome.stop[1] for token, outcome in enumerate(outcomes))


def distance(law: Mapping[Any, Any], other: Mapping[Any, Any]) -> Any:
    """Total variation."""
    return sum(abs(law.get(text, 0) - other.get(text, 0)) for text in {*law, *other}) / 2


def policy_law(row: Row, length: int = 1) -> Law:
    """What the policy itself writes."""
    return {text: _product(row, text) for text in product(TOKENS, repeat=length)}


def reward(text: tuple[int, ...]) -> F:
    """Share of the first token."""
    return F(text.count(0), len(text))


def mean_reward(law: Mapping[tuple[int, ...], Any]) -> Any:
    """Of all answers."""
    return sum(mass * reward(text) for text, mass in law.items())


def gradient(law: Mapping[tuple[int, ...], Any], row: Row) -> Row:
    """Policy gradient that answers of one token give: advantages are rewards less the answers' own mean."""
    mean = mean_reward(law)
    advantages = {token: law.get((token,), 0) * (reward((token,)) - mean) for token in TOKENS}
    return [advantages[k] - row[k] * sum(advantages.values()) for k in TOKENS]


def trained(rule: Callable[..., Any] | None, epochs: int, rate: float = 2.0) -> list[Row]:
    """Softmax policies after each epoch of exact gradient steps on reused answers; on fresh ones without rule."""
    logits = [0.0, 0.0, 0.0]
    policies = [_softmax(logits)]
    for epoch in range(epochs):
        row = policies[-1]
        fresh = rule is None or epoch == 0
        law = policy_law(row) if fresh else replayed(_required(rule), row, policies[-2])
        slope = gradient(law, row)
        logits = [logit + rate * float(each) for logit, each in zip(logits, slope, strict=True)]
        policies.append(_softmax(logits))
    return policies


def trained_on_its_draft(group: int, rate: float, *, own: bool = True) -> tuple[float, float]:
    """The caveat: the new policy was trained on the very answer that is its draft.

    A group of answers is drawn from the old policy, the new one is a gradient step on them, and one of them is
    drafted for it under rejection with the right rows. With `own=False` the draft is another answer, that the
    training did not see.

    Returns:
        Over all groups, the mean total variation between what comes out given the new weights and the new policy,
        and the mean of (reward of what comes out - the policy's mean reward).
    """
    old = [float(p) for p in NEW]
    away = shift = 0.0
    for counts in product(range(group + 1), repeat=len(old)):
        if sum(counts) != group:
            continue
        chance = factorial(group) * prod(p**n / factorial(n) for p, n in zip(old, counts, strict=True))
        new = _stepped(old, counts, rate)
        found: dict[tuple[int, ...], float] = defaultdict(float)
        for draft, share in enumerate([n / group for n in counts] if own else old):
            outcome = rejection(EXACT, [new] * 2, [old, []], Tree.chain(1), [draft])
            found[(draft,)] += share * float(outcome.stop[1])
            for token in TOKENS:
                found[(token,)] += share * float(outcome.stop[0]) * float(outcome.next[0][token])
        away += chance * float(distance(found, policy_law(new)))
        shift += chance * float(mean_reward(found) - mean_reward(policy_law(new)))
    return away, shift


def _stepped(old: Row, counts: Sequence[int], rate: float) -> Row:
    """The policy after a gradient step on answers, whose advantages are rewards less their mean."""
    group = sum(counts)
    mean = counts[0] / group if group > 1 else 0.0
    logits = [log(p) for p in old]
    for token, count in enumerate(counts):
        for k in TOKENS:
            logits[k] += rate * count / group * (float(reward((token,))) - mean) * ((k == token) - old[k])
    return _softmax(logits)


def _required(rule: Callable[..., Any] | None) -> Callable[..., Any]:
    assert rule is not None
    return rule


def _softmax(logits: list[float]) -> Row:
    powers = [exp(logit - max(logits)) for logit in logits]
    return [power / fsum(powers) for power in powers]


def _product(row: Row, text: tuple[int, ...]) -> Any:
    found: Any = F(1)
    for token in text:
        found *= row[token]
    return found


def _one_token() -> None:
    own = policy_law(NEW)
    true = gradient(own, NEW)
    print("| rule | answers | TV | mean reward | advantage of the policy's mean | gradient | old tokens kept |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, rule in RULES.items():
        law = replayed(rule, NEW, OLD)
        answers = ", ".join(str(law.get((token,), 0)) for token in TOKENS)
        slope = " ".join(
            f"{float(each / whole):.3f}" for each, whole in zip(gradient(law, NEW), true, strict=True)
        )
        shift = mean_reward(own) - mean_reward(law)
        print(
            f"| {name} | {answers} | {distance(law, own)} | {mean_reward(law)} | {shift} | {slope} | "
            f"{kept_share(rule, NEW, OLD)} |"
        )


def _longer() -> None:
    print("\n| tokens of an answer | TV, published | mean reward - true, published | TV, rejection | TV, point |")
    print("| --- | --- | --- | --- | --- |")
    for length in range(1, 6):
        own = policy_law(NEW, length)
        law = replayed(published(), NEW, OLD, length)
        exact = [distance(replayed(rule, NEW, OLD, length), own) for rule in (rejection, point)]
        bias = mean_reward(law) - mean_reward(own)
        print(f"| {length} | {float(distance(law, own)):.4f} | {float(bias):+.4f} | {exact[0]} | {exact[1]} |")


def _training() -> None:
    print("\n| epoch | mean reward, fresh answers | published | published, lenience 2 | rejection with rows |")
    print("| --- | --- | --- | --- | --- |")
    runs = [trained(rule, 6) for rule in (None, published(1.0), published(2.0), rejection)]
    for epoch in range(7):
        rewards = (float(mean_reward(policy_law(run[epoch]))) for run in runs)
        print(f"| {epoch} | {' | '.join(f'{each:.4f}' for each in rewards)} |")


def _caveat() -> None:
    print("\n| answers in the step | rate | draft | TV given the weights | reward - the policy's mean |")
    print("| --- | --- | --- | --- | --- |")
    for group, rate, own in product((1, 4, 16), (2.0, 0.2), (True, False)):
        away, shift = trained_on_its_draft(group, rate, own=own)
        draft = "was trained on" if own else "was not"
        print(f"| {group} | {rate:g} | {draft} | {away:.4f} | {shift + 0.0:+.5f} |")


if __name__ == "__main__":
    _one_token()
    _longer()
    _training()
    _caveat()
