"""Do texts with speculation and without have the same law? A permutation test within each prompt.

Under the hypothesis the texts of one prompt could have come from either arm. So the labels of arms are shuffled,
and (1 + shuffles with as large a statistic) / (1 + shuffles) is a p-value at any number of texts.

Two statistics: G, summed over all places where texts have the same past; and the maximum mean discrepancy with
Hamming's kernel, a sum over positions (Gao, Liang and Guestrin, arXiv 2410.20247), which sees marginals only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from specproof.audit.endpoint.units import Place, Units, places
from specproof.audit.white.emission import Floats, Integers

FEWEST_SHUFFLES = 9_999
_PORTION = 500
# Once shuffles have reached the statistic this often, its p-value cannot come below the level any more.
_ENOUGH = 40


@dataclass(frozen=True)
class Prompt:
    """The texts of one prompt as a table.

    Attributes:
        texts: of both arms; the first half with speculation.
        places: where they have the same past.
        inside: [texts, cells] which cell a text counts in, over all places.
        owner: [cells] number of each cell's place.
        marginal: [texts, units at positions] for Hamming's kernel.
    """

    texts: Sequence[Units]
    places: tuple[Place, ...]
    inside: csr_array
    owner: Integers
    marginal: csr_array

    @staticmethod
    def of(on: Sequence[Units], off: Sequence[Units]) -> Prompt:
        """The table of texts with speculation and without."""
        texts = [*on, *off]
        found = tuple(places(texts))
        rows, columns = [], []
        owner: list[int] = []
        for number, place in enumerate(found):
            cells = place.cells()
            rows.append(place.texts)
            columns.append(len(owner) + cells[place.next])
            owner += [number] * int(cells.max() + 1)
        inside = _table(rows, columns, (len(texts), len(owner)))
        return Prompt(texts, found, inside, np.array(owner, dtype=np.int64), _marginal(texts))

    @property
    def freedom(self) -> int:
        """Degrees of freedom: cells less places."""
        return len(self.owner) - len(self.places)

    @property
    def labels(self) -> Floats:
        """[texts] 1 with speculation."""
        return (np.arange(len(self.texts)) < len(self.texts) // 2).astype(np.float64)

    def counts(self, labels: Floats) -> tuple[Floats, Floats]:
        """[.., cells] and [.., places] how many texts with speculation come there; of labels [.., texts]."""
        inside = np.asarray(labels @ self.inside)
        cells = (np.ones(len(self.owner)), (np.arange(len(self.owner)), self.owner))
        return inside, np.asarray(inside @ csr_array(cells, shape=(len(self.owner), len(self.places))))

    def statistics(self, labels: Floats) -> Floats:
        """[.., 3] G, weighted total variation, and discrepancy; of labels [.., texts]."""
        inside, at = self.counts(labels)
        cells = np.asarray(self.inside.sum(0))
        sizes = np.array([len(place.texts) for place in self.places], dtype=np.float64)
        g = _xlogx(inside).sum(-1) + _xlogx(cells - inside).sum(-1) + _xlogx(sizes).sum()
        g -= _xlogx(at).sum(-1) + _xlogx(sizes - at).sum(-1) + _xlogx(cells).sum()
        share = inside / np.maximum(at, 1)[..., self.owner]
        other = (cells - inside) / np.maximum(sizes - at, 1)[..., self.owner]
        tv = (sizes[self.owner] * np.abs(share - other)).sum(-1) / 2
        half = len(self.texts) / 2
        with_it = np.asarray(labels @ self.marginal)
        away = ((2 * with_it - np.asarray(self.marginal.sum(0))) / half) ** 2
        return np.stack([2 * g, tv, away.sum(-1)], -1)


@dataclass(frozen=True)
class Permuted:
    """What the test came to.

    Attributes:
        texts: of each arm, over all prompts.
        places, freedom: where texts were compared, and degrees of freedom there.
        g, pvalue: the statistic, and its p-value by shuffling.
        hamming: p-value of the maximum mean discrepancy; for information, it has no part of alpha.
        tv: mean total variation between the arms at these places, less what chance alone gives.
    """

    texts: int
    places: int
    freedom: int
    g: float
    pvalue: float
    hamming: float
    tv: float


def permutation_test(prompts: Sequence[Prompt], level: float, seed: int) -> Permuted:
    """Test all prompts together.

    Args:
        prompts: their tables.
        level: at which the p-value will be judged; there are enough shuffles to get below it.
        seed: of the shuffles.
    """
    most = max(FEWEST_SHUFFLES, int(np.ceil(4 / level)))
    rng = np.random.default_rng(seed)
    observed = sum(prompt.statistics(prompt.labels[None])[0] for prompt in prompts)
    larger, means, done = np.zeros(3), np.zeros(3), 0
    # Equal values count as larger; rounding must not make them smaller.
    bound = observed * (1 - 1e-9)
    while done < most and larger[0] < _ENOUGH:
        shuffled = np.zeros((_PORTION, 3))
        for prompt in prompts:
            labels = rng.permuted(np.broadcast_to(prompt.labels, (_PORTION, len(prompt.texts))), axis=1)
            shuffled += prompt.statistics(labels)
        larger += (shuffled >= bound).sum(0)
        means += shuffled.sum(0)
        done += _PORTION
    pvalues = (1 + larger) / (1 + done)
    weight = sum(len(place.texts) for prompt in prompts for place in prompt.places)
    return Permuted(
        texts=sum(len(prompt.texts) for prompt in prompts) // 2,
        places=sum(len(prompt.places) for prompt in prompts),
        freedom=sum(prompt.freedom for prompt in prompts),
        g=float(observed[0]),
        pvalue=float(pvalues[0]),
        hamming=float(pvalues[2]),
        tv=float(max(0.0, observed[1] - means[1] / done) / max(1, weight)),
    )


def _xlogx(counts: Floats) -> Floats:
    return np.asarray(counts * np.log(np.maximum(counts, 1)))


def _table(rows: list[Integers], columns: list[Integers], shape: tuple[int, int]) -> csr_array:
    at = (np.concatenate(rows), np.concatenate(columns)) if rows else (np.zeros(0, int), np.zeros(0, int))
    return csr_array((np.ones(len(at[0])), at), shape=shape)


def _marginal(texts: Sequence[Units]) -> csr_array:
    numbers: dict[tuple[int, str], int] = {}
    rows, columns = [], []
    for text, parts in enumerate(texts):
        for position, unit in enumerate(parts):
            rows.append(text)
            columns.append(numbers.setdefault((position, unit), len(numbers)))
    return _table([np.array(rows)], [np.array(columns)], (len(texts), len(numbers)))
