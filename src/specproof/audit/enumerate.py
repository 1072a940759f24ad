"""The noise of an exact audit: it follows scripts instead of chance, and finds every path there is.

A path is one run of a sequence: its script is replayed, the probabilities of its choices are multiplied, and
at the first open choice it takes one and leaves the others as new scripts. When no script is left, every
possible run has been made once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from specproof.types import GUMBEL, STOP, Key

# Less is rounding: a mass that vanishes in another batch would shift the script of the next run.
_DUST = 1e-14


@dataclass
class Path:
    """One run of a sequence.

    Attributes:
        choices: indices chosen, or to be chosen, in the order in which the engine asks.
        probability: product over all choices.
        asked: how many choices were made so far.
        rounds: verifications of a draft so far.
    """

    choices: list[int]
    probability: float = 1.0
    asked: int = 0
    rounds: int = 0


@dataclass
class EnumeratingNoise:
    """Takes the place of `CounterNoise`; a sequence's seed names its path.

    Attributes:
        paths: runs under way, by seed.
        open: scripts still to be run.
        keys: every key seen on each path; asking twice with the same key is a fault of the caller.
    """

    paths: dict[int, Path] = field(default_factory=dict)
    open: list[list[int]] = field(default_factory=lambda: [[]])
    keys: dict[int, set[Key]] = field(default_factory=dict)

    def start(self, seed: int) -> None:
        """Begin the run of an open script under this seed."""
        self.paths[seed] = Path(self.open.pop())
        self.keys[seed] = set()

    def finish(self, seed: int) -> Path:
        """The completed path of a seed."""
        del self.keys[seed]
        return self.paths.pop(seed)

    def choose(self, rows: Tensor, keys: Sequence[Key]) -> Tensor:
        """See `Noise.choose`; rows must be float64 for exact sums."""
        chosen = [self._choose(row, key) for row, key in zip(rows.tolist(), keys, strict=True)]
        return torch.tensor(chosen, dtype=torch.long, device=rows.device)

    def _choose(self, row: list[float], key: Key) -> int:
        path = self.paths[key.seed]
        # Shared noise decides a position anew for every text that may stand before it. Only one of these texts
        # comes out, so it does not matter for the law that the decisions are enumerated as if independent.
        assert key.use == GUMBEL or key not in self.keys[key.seed], f"one random number for two decisions: {key}"
        self.keys[key.seed].add(key)
        path.rounds += key.use == STOP and len(row) > 1
        first, *others = [index for index, mass in enumerate(row) if mass > _DUST]
        if not others:
            # Certain, so no choice: whether the engine asks at all may depend on batch mates.
            path.probability *= row[first]
            return first
        if path.asked == len(path.choices):
            self.open += [[*path.choices, other] for other in others]
            path.choices.append(first)
        choice = path.choices[path.asked]
        assert choice < len(row), (
            "a decision has other outcomes beside other batch mates: no script can be followed"
        )
        path.asked += 1
        path.probability *= row[choice]
        return choice
