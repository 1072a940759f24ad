"""Replay: draft what an earlier policy answered to the same prompt, as far as the new answer goes the same way.

For rollouts of reinforcement learning, where every prompt comes up again under weights that have hardly moved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

import torch

from specproof.drafters.past import Past, law_of, load_pasts
from specproof.errors import SpecproofError
from specproof.tree import Tree
from specproof.types import PROPOSE, Batch, Draft, Drawn, Key, Noise, Output, Step, TokenSequence


class ReplayDrafter:
    """Drafts the rest of an old text, until the new one departs from it.

    With rows the old tokens are draws: rule "rejection" keeps each with min(1, new / old). Give an engine a budget
    as long as the answers: the fresh token after a draft mostly leaves the old text. Without rows they are points,
    kept with the new probability; under rule "coupling" and the old text's seed, which a request has to be given,
    they were decided by the noise that decides now, and nearly all of them are kept.

    Each old text is given to one request, so that requests stay independent of each other: the one with its seed,
    else the next that has its prompt. Requests without one are not drafted for, nor those of whose draft anything
    was refused: lossless rules never give out a refused token again, and where a lossy one does, the rest of the
    old text was judged already.

    Args:
        pasts: the old texts.
        vocabulary: number of the target's tokens.
        rows: whether to use the stored rows.
        shared: give one text to any number of requests; each still follows the target's law, but they lean on
            each other.
        dtype: of the rows.

    Raises:
        SpecproofError: rows are asked for and some text has none, or has tokens outside the vocabulary.

    Source: SPEC-RL (2509.23232) for the reuse; the rules are Leviathan et al. 2023 and Daliri et al. 2024.
    """

    chains = True

    def __init__(
        self,
        pasts: Iterable[Past],
        vocabulary: int,
        *,
        rows: bool = True,
        shared: bool = False,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.vocabulary, self.shared, self.dtype = vocabulary, shared, dtype
        self.drawn: Drawn = "iid" if rows else "point"
        self._pasts: dict[tuple[int, ...], list[Past]] = defaultdict(list)
        for past in pasts:
            if rows and past.tokens and not past.rows:
                raise SpecproofError("an old text has no rows; store them with rollout.replay, or give rows=False")
            if outside := [token for token in past.tokens if not 0 <= token < vocabulary]:
                raise SpecproofError(
                    f"an old text has token {outside[0]}, outside the vocabulary, 0 to {vocabulary - 1}"
                )
            self._pasts[past.prompt].append(past)
        self._given: dict[tuple[tuple[int, ...], int], Past | None] = {}
        self._asked: dict[TokenSequence, int] = {}  # nodes of the draft that is being judged

    @classmethod
    def load(cls, path: str | Path, vocabulary: int, *, coupled: bool = False) -> ReplayDrafter:
        """From a file of `save_pasts`; with its rows, if it has any and the rule does not share its noise."""
        pasts = load_pasts(path)
        return cls(pasts, vocabulary, rows=not coupled and any(past.rows for past in pasts))

    def draft(self, batch: Batch, budget: Sequence[int], noise: Noise) -> Draft:
        """A chain for each sequence, empty where its text departed from the old one or there is none."""
        pasts = [self._past(sequence) for sequence in batch]
        places = [len(sequence.tokens) - sequence.prompt_length for sequence in batch]
        sizes = [
            self._size(sequence, past, place, most)
            for sequence, past, place, most in zip(batch, pasts, places, budget, strict=True)
        ]
        if self.drawn == "iid":
            sizes = self._thinned(batch, pasts, places, sizes, noise)
        self._asked |= dict(zip(batch, sizes, strict=True))
        width = max(sizes, default=0)
        tokens = torch.zeros(len(batch), width, dtype=torch.long)
        rows = (
            torch.zeros(len(batch), width + 1, self.vocabulary, dtype=self.dtype) if self.drawn == "iid" else None
        )
        for b, (past, place, size) in enumerate(zip(pasts, places, sizes, strict=True)):
            if past is None or not size:
                continue
            tokens[b, :size] = torch.tensor(past.tokens[place : place + size])
            if rows is not None:
                for node, row in enumerate(past.rows[place : place + size]):
                    rows[b, node] = law_of(row, self.vocabulary, self.dtype)
        return Draft(tuple(map(Tree.chain, sizes)), tokens, rows, self.drawn)

    def observe(self, batch: Batch, steps: Sequence[Step], output: Output) -> None:
        """Nothing to roll back: it reads the text itself. An old text that was refused anywhere is done with."""
        for sequence, step in zip(batch, steps, strict=True):
            if len(step.path) < self._asked.get(sequence, 0):
                self._given[_name(sequence)] = None

    def free(self, batch: Batch) -> None:
        """An old text stays with the seed that it was given to: a request that comes back goes on with it."""
        for sequence in batch:
            self._asked.pop(sequence, None)

    def _past(self, sequence: TokenSequence) -> Past | None:
        """The old text of a sequence; it stays the same for good."""
        known = _name(sequence)
        if known not in self._given:
            left = self._pasts.get(known[0], [])
            own = next((at for at, past in enumerate(left) if past.seed == sequence.seed), 0)
            if not left:
                self._given[known] = None
            else:
                self._given[known] = left[own] if self.shared else left.pop(own)
        return self._given[known]

    def _size(self, sequence: TokenSequence, past: Past | None, place: int, most: int) -> int:
        """Tokens that are left to draft."""
        if past is None or most < 1 or sequence.output != list(past.tokens[:place]):
            return 0
        return min(most, len(past.tokens) - place)

    def _thinned(
        self,
        batch: Batch,
        pasts: Sequence[Past | None],
        places: Sequence[int],
        sizes: Sequence[int],
        noise: Noise,
    ) -> list[int]:
        """Tokens up to the first that may not be drafted as a draw from its stored row."""
        keys, chances = [], []
        for sequence, past, place, size in zip(batch, pasts, places, sizes, strict=True):
            for node in range(size):
                assert past is not None
                keys.append(Key(sequence.seed, len(sequence.tokens) - 1, PROPOSE, node))
                chances.append(past.rows[place + node].chance)
        if not keys:
            return list(sizes)
        stay = torch.tensor(chances, dtype=torch.float64)
        left = iter(noise.choose(torch.stack([stay, 1 - stay], 1), keys).tolist())
        found = []
        for size in sizes:
            refused = list(islice(left, size))
            found.append(refused.index(1) if 1 in refused else size)
        return found


def _name(sequence: TokenSequence) -> tuple[tuple[int, ...], int]:
    """Prompt and seed."""
    return tuple(islice(sequence.tokens, sequence.prompt_length)), sequence.seed
