"""Values of every parameter that shapes the law, and few settings in which every pair of them occurs."""

from itertools import combinations

from specproof.types import SamplingParams

VOCABULARY = 4
END = 0


def after_two(context, logits):
    """A user's function that looks at the text: long ones are sharper, what came two tokens ago is likelier."""
    logits = logits * (1 + 0.1 * len(context))
    logits[context[-2:][0]] += 0.75
    return logits


# For a vocabulary of four tokens; 0 ends a text.
VALUES = {
    "repetition_penalty": (1.4, 0.7),
    "presence_penalty": (0.8, -0.7),
    "frequency_penalty": (0.6, -0.5),
    "logit_bias": ({1: 1.5, 0: -0.75},),
    "bad_words": (((2, 3), (1, 1), (3, 1, 2)), ((2,),)),
    "min_tokens": (2, 3),
    "processors": ((after_two,),),
    "temperature": (0.6, 1.7, 0.0),
    "top_k": (2, 3),
    "top_p": (0.8,),
    "min_p": (0.2,),
}
CHOICES = [(name, value) for name, values in VALUES.items() for value in values]


def pairs():
    """Every pair of values of two parameters."""
    return [dict(pair) for pair in combinations(CHOICES, 2) if pair[0][0] != pair[1][0]]


def covering(most=5):
    """Settings of at most `most` parameters each, greedily made, in which every pair of values occurs.

    More at once would leave too little of a law over four tokens for a fault to show.
    """
    left = {frozenset(pair) for pair in combinations(range(len(CHOICES)), 2) if _differ(pair)}
    made = []
    while left:
        chosen = set(min(left, key=sorted))
        while len(chosen) < most:
            free = [i for i in range(len(CHOICES)) if all(_differ((i, j)) for j in chosen)]
            gains = {i: sum(frozenset((i, j)) in left for j in chosen) for i in free}
            best = max(free, key=lambda i: (gains[i], -i), default=None)
            if best is None or gains[best] == 0:
                break
            chosen.add(best)
        left -= {frozenset(pair) for pair in combinations(sorted(chosen), 2)}
        made.append(dict(CHOICES[i] for i in sorted(chosen)))
    return made


def _differ(pair):
    return CHOICES[pair[0]][0] != CHOICES[pair[1]][0]


def shown(values):
    """A short name for a test's id."""
    return "-".join(values)


def params_of(values, max_tokens=3):
    """Sampling parameters of a setting."""
    return SamplingParams(**{"max_tokens": max_tokens} | values)
