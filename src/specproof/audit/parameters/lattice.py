"""Values of every parameter that shapes the law, and few settings in which every pair of them occurs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from torch import Tensor

from specproof.types import SamplingParams

# Of the tiny vocabulary; 0 ends a text.
VOCABULARY = 4
END = 0

Values = Mapping[str, Sequence[Any]]
Choice = tuple[str, Any]


def after_two(context: list[int], logits: Tensor) -> Tensor:
    """A user's function that looks at the text: long ones are sharper, what came two tokens ago is likelier."""
    logits = logits * (1 + 0.1 * min(len(context), 20))
    logits[context[-2:][0]] += 0.75
    return logits


def values_for(tokens: Sequence[int], end: int, *, wide: bool = True) -> dict[str, tuple[Any, ...]]:
    """Values of every parameter, for texts in which some tokens are common.

    Args:
        tokens: three that occur.
        end: ends a text.
        wide: whether the vocabulary is large, so that filters keep more.
    """
    first, second, third = tokens[:3]
    return {
        "repetition_penalty": (1.4, 0.7),
        "presence_penalty": (0.8, -0.7),
        "frequency_penalty": (0.6, -0.5),
        "logit_bias": ({first: 1.5, end: -0.75},),
        "bad_words": (((second, third), (first, first), (third, first, second)), ((second,),)),
        "min_tokens": (2, 3),
        "processors": ((after_two,),),
        "temperature": (0.6, 1.7, 0.0),
        "top_k": (40, 5) if wide else (2, 3),
        "top_p": (0.8,),
        "min_p": (0.05,) if wide else (0.2,),
    }


VALUES = values_for((1, 2, 3), END, wide=False)


def choices(values: Values) -> list[Choice]:
    """Every value of every parameter."""
    return [(name, value) for name, each in values.items() for value in each]


def pairs(values: Values) -> list[dict[str, Any]]:
    """Every pair of values of two parameters."""
    return [dict(pair) for pair in combinations(choices(values), 2) if pair[0][0] != pair[1][0]]


def covering(values: Values, most: int = 5) -> list[dict[str, Any]]:
    """Settings of at most `most` parameters each, greedily made, in which every pair of values occurs.

    More at once would leave too little of a law over few tokens for a fault to show.
    """
    every = choices(values)

    def differ(pair: tuple[int, int]) -> bool:
        return every[pair[0]][0] != every[pair[1]][0]

    left = {frozenset(pair) for pair in combinations(range(len(every)), 2) if differ(pair)}
    made = []
    while left:
        chosen = set(min(left, key=sorted))
        while len(chosen) < most:
            free = [i for i in range(len(every)) if all(differ((i, j)) for j in chosen)]
            gains = {i: sum(frozenset((i, j)) in left for j in chosen) for i in free}
            best = max(free, key=lambda i: (gains[i], -i), default=None)
            if best is None or gains[best] == 0:
                break
            chosen.add(best)
        left -= {frozenset((i, j)) for i, j in combinations(sorted(chosen), 2)}
        made.append(dict(every[i] for i in sorted(chosen)))
    return made


def shown(values: Mapping[str, Any]) -> str:
    """A setting in words."""
    words = (name if name == "processors" else f"{name}={value}" for name, value in values.items())
    return ", ".join(words) or "no parameter"


def params_of(values: Mapping[str, Any], max_tokens: int = 3) -> SamplingParams:
    """Sampling parameters of a setting."""
    return SamplingParams(**{"max_tokens": max_tokens} | dict(values))
