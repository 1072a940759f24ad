"""Which numbers the log-probabilities of a file are: of which law, of which checkpoint, or of none that is known.

Every convention is computed from the checkpoint's own logits and compared token by token. Beside that stands one
test that needs no convention: whether the tokens rather follow the law that the file tells of, or the model's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from specproof.audit.rollouts.plan import CONVENTIONS
from specproof.audit.white.emission import Floats
from specproof.audit.white.forcing import PORTION
from specproof.sampling import fold
from specproof.tree import Tree
from specproof.types import Draft, TokenSequence

# Mean difference a token, in nats, and that of one token in a hundred: the same numbers; or near ones.
SAME, CLOSE = (1e-3, 1e-2), (0.05, 0.5)
# Conventions that differ by less than this are one here.
_ONE = 1e-6


class Off(NamedTuple):
    """How far told numbers are from a convention of a checkpoint.

    Attributes:
        column: of the file.
        checkpoint: "--model" or "--stale".
        convention: one of CONVENTIONS, or several that are one here, joined by " = ".
        tokens: that were compared.
        mean, median, p99, largest: of the differences' sizes, in nats.
        shift: mean of told - own.
    """

    column: str
    checkpoint: str
    convention: str
    tokens: int
    mean: float
    median: float
    p99: float
    largest: float
    shift: float

    @property
    def same(self) -> bool:
        """Whether these are the same numbers, but for rounding in single precision."""
        return self.mean <= SAME[0] and self.p99 <= SAME[1]

    @property
    def close(self) -> bool:
        """Whether rounding in half precision would explain the difference."""
        return self.mean <= CLOSE[0] and self.p99 <= CLOSE[1]


def conventions(start: TokenSequence, output: Sequence[int], logits: Tensor, mass: Floats) -> dict[str, Floats]:
    """[n] the log-probability of each token under each convention.

    Args:
        start: the text before its first token.
        output: its tokens.
        logits: [n, V] of a checkpoint.
        mass: [n] probability of each token under its folded law.
    """
    temperature = start.params.temperature or 1.0
    found: dict[str, list[Floats]] = defaultdict(list)
    for first in range(0, len(output), PORTION):
        tokens = list(output[first : first + PORTION])
        part = logits[first : first + PORTION].double()
        at = torch.arange(len(tokens)), torch.tensor(tokens)
        raw = part.log_softmax(-1)[at].numpy()
        found["raw"].append(raw)
        found["scaled"].append(raw / temperature)
        found["tempered"].append((part / temperature).log_softmax(-1)[at].numpy())
        found["penalised"].append(
            _penalised(start, list(output[:first]), tokens, part).log_softmax(-1)[at].numpy()
        )
    with np.errstate(divide="ignore"):
        folded = np.log(mass)
    return {"folded": folded} | {name: np.concatenate(parts or [np.zeros(0)]) for name, parts in found.items()}


def _penalised(start: TokenSequence, before: list[int], tokens: list[int], logits: Tensor) -> Tensor:
    sequence = replace(start, tokens=start.tokens + before)
    draft = Draft((Tree.chain(len(tokens) - 1),), torch.tensor([tokens[:-1]], dtype=torch.long), None, "point")
    return fold(logits[None], [sequence], draft)[0]


@dataclass
class Told:
    """Compares one column of a file with one checkpoint, text by text.

    Attributes:
        column, checkpoint: see `Off`.
        log_ratio: sum over tokens of told - own folded log-probability; `lowest` and `highest` of all its values.
    """

    column: str
    checkpoint: str
    log_ratio: float = 0.0
    lowest: float = 0.0
    highest: float = 0.0
    _apart: dict[str, list[Floats]] = field(default_factory=lambda: defaultdict(list))
    _own: dict[str, list[Floats]] = field(default_factory=lambda: defaultdict(list))

    def take(self, told: Sequence[float], own: Mapping[str, Floats]) -> None:
        """Take in a text; an end token that was left out has nothing told, what was cut nothing own."""
        numbers = np.asarray(told, dtype=np.float64)[: len(own["folded"])]
        # A token without mass is judged elsewhere; here it would only hide the rest.
        sound = np.isfinite(numbers)
        for values in own.values():
            sound &= np.isfinite(values[: len(numbers)])
        for name, values in own.items():
            self._apart[name].append((numbers - values[: len(numbers)])[sound])
            self._own[name].append(values[: len(numbers)][sound])
        path = self.log_ratio + np.cumsum(self._apart["folded"][-1])
        if len(path):
            self.log_ratio = float(path[-1])
            self.lowest, self.highest = min(self.lowest, float(path.min())), max(self.highest, float(path.max()))

    @property
    def tokens(self) -> int:
        """How many were compared."""
        return sum(map(len, self._apart["folded"]))

    def offs(self) -> list[Off]:
        """Each convention, nearest first; those that are one here as one."""
        return sorted(self._summed(), key=lambda off: off.mean) if self.tokens else []

    def _summed(self) -> Iterator[Off]:
        own = {name: np.concatenate(self._own[name]) for name in CONVENTIONS}
        left = list(CONVENTIONS)
        while left:
            first = left[0]
            alike = [name for name in left if np.abs(own[name] - own[first]).max() <= _ONE]
            left = [name for name in left if name not in alike]
            apart = np.concatenate(self._apart[first])
            size = np.abs(apart)
            yield Off(
                self.column,
                self.checkpoint,
                " = ".join(alike),
                len(apart),
                float(size.mean()),
                float(np.median(size)),
                float(np.quantile(size, 0.99)),
                float(size.max()),
                float(apart.mean()),
            )
