"""The panel of repeated prefixes: what was drawn after them, and three tests of it that share a part of alpha.

G over all contexts, with a p-value by drawing, depth by depth: at each depth the counts are multinomial given how
many texts came there, whatever came before. Capital on the counts at each place in a draft, which finds what is
diluted elsewhere. And capital on texts that come up too often, which finds shared seeds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp
from scipy.stats import binom

from specproof.audit.answer import Check
from specproof.audit.white.arms import repeated
from specproof.audit.white.contexts import Context, Place, Prefixes
from specproof.audit.white.emission import STRATA, Floats, Integers
from specproof.audit.white.ledger import Ledger
from specproof.audit.white.near_tie import margin_for
from specproof.audit.white.panel import (
    CONCENTRATIONS,
    Group,
    dirichlet_terms,
    eased,
    summed_g,
    tail_pvalue,
    together,
)
from specproof.audit.white.plan import PANEL, REPEATS
from specproof.audit.white.plan import STRATA as BY_PLACE
from specproof.audit.white.record import Places

# That more draws than are eased differ by rounding alone happens so rarely, at each depth.
_RARELY = 1e-7


@dataclass(frozen=True)
class PanelResult:
    """What the draws came to.

    Attributes:
        prefixes, draws, contexts: how many prefixes, draws of texts, and contexts that were tested.
        samples: draws of tokens in these contexts.
        pvalue: of G, from the first tokens after the prefixes and from all depths together.
        by_depth: p-values of G at each depth.
        tolerant: as `pvalue`, of what rounding within the ledger cannot explain.
        strata: highest logarithm of the capital on places in drafts, together; `by_stratum` of each.
        strata_tolerant: of what rounding cannot explain.
        repeats: highest logarithm of the capital on equal texts.
        forbidden, edge: draws of tokens without mass, and of those that rounding moved across a filter's edge.
        tv: mean total variation after the prefixes between shares and rows, less what chance makes of it.
    """

    prefixes: int
    draws: int
    contexts: int
    samples: int
    pvalue: float
    by_depth: tuple[float, ...]
    tolerant: float
    strata: float
    strata_tolerant: float
    by_stratum: dict[str, float]
    repeats: float
    forbidden: int
    edge: int
    tv: float

    def checks(self, levels: dict[str, float], *, beyond_rounding: bool = False) -> tuple[Check, ...]:
        """The three tests at their levels; a token without mass is part of the first."""
        whole, strata = (self.tolerant, self.strata_tolerant) if beyond_rounding else (self.pvalue, self.strata)
        return (
            Check(PANEL, whole, levels[PANEL], self.samples),
            Check(BY_PLACE, min(1.0, float(np.exp(-strata))), levels[BY_PLACE], self.samples),
            Check(REPEATS, min(1.0, float(np.exp(-self.repeats))), levels[REPEATS], self.draws),
        )

    def convicts(self, levels: dict[str, float]) -> bool:
        """Whether the law is not the target's."""
        return any(check.pvalue <= check.level for check in self.checks(levels))

    def beyond_rounding(self, levels: dict[str, float]) -> bool:
        """Whether it is not within the ledger of it, either."""
        return any(check.pvalue <= check.level for check in self.checks(levels, beyond_rounding=True))


class Draws:
    """Gathers texts drawn after prefixes.

    Args:
        prefixes: scored.
    """

    def __init__(self, prefixes: Prefixes) -> None:
        self.prefixes = prefixes
        self.texts: dict[int, list[tuple[int, ...]]] = defaultdict(list)
        # Of each context and part of a draft: how often each token came out.
        self.tokens: dict[tuple[Place, int], Counter[int]] = defaultdict(Counter)
        # Of each context: the row that was drafted from there, and how many draws had one.
        self.drafts: dict[Place, Floats] = {}
        self.drafted: Counter[Place] = Counter()
        # Whether anything was drafted on the way.
        self.exercised = False

    def take(self, prefix: int, text: Sequence[int], places: Places | None = None) -> None:
        """Take in a text drawn after a prefix."""
        text = tuple(text)
        self.texts[prefix].append(text)
        for depth, token in enumerate(text):
            place = Place(prefix, text[:depth])
            if place not in self.prefixes.contexts:
                continue
            self.tokens[place, 0 if places is None else int(places.strata[depth])][token] += 1
            row = None if places is None else places.rows.get(depth)
            if row is not None:
                self.drafted[place] += 1
                if place not in self.drafts:
                    self.drafts[place] = row.double().numpy() / float(row.double().sum())

    def counted(self, place: Place) -> Integers:
        """[K] draws at a context in its cells; tokens without mass left out."""
        return sum(
            (self._pooled(key) for key in self.tokens if key[0] == place),
            np.zeros(len(self.prefixes.contexts[place].masses), dtype=np.int64),
        )

    def judge(self, ledger: Ledger, seed: int) -> PanelResult:
        """Test everything that came out.

        Args:
            ledger: how far rounding moves rows.
            seed: of the draws under the hypothesis.
        """
        rng = np.random.default_rng(seed)
        forbidden, edge = self._support(ledger)
        depths = self._depths()
        groups = [[self._group(context) for context in contexts] for contexts in depths]
        by_depth = [tail_pvalue(each, summed_g(each), rng) for each in groups]
        tolerant = by_depth
        if ledger.largest > 0:
            moved = [eased(each, _moves(each, ledger)) for each in groups]
            tolerant = [tail_pvalue(each, summed_g(each), rng) for each in moved]
        logs, tolerant_logs = self._by_place(ledger)
        return PanelResult(
            prefixes=len(self.prefixes.starts),
            draws=sum(map(len, self.texts.values())),
            contexts=sum(map(len, depths)),
            samples=int(sum(group.observed.sum() for each in groups for group in each)),
            pvalue=0.0 if forbidden else together(by_depth),
            by_depth=tuple(by_depth),
            tolerant=0.0 if forbidden else together(tolerant),
            strata=_mean(logs),
            strata_tolerant=_mean(tolerant_logs),
            by_stratum=logs,
            repeats=self._repeats(),
            forbidden=forbidden,
            edge=edge,
            tv=_mean_tv(groups[0]) if groups else 0.0,
        )

    def _pooled(self, key: tuple[Place, int]) -> Integers:
        context = self.prefixes.contexts[key[0]]
        tokens = [(int(context.owner[token]), count) for token, count in self.tokens[key].items()]
        inside = [(cell, count) for cell, count in tokens if cell >= 0]
        cells, counts = zip(*inside, strict=True) if inside else ((), ())
        return np.bincount(
            np.array(cells, dtype=np.int64), np.array(counts, dtype=np.float64), len(context.masses)
        ).astype(np.int64)

    def _group(self, context: Context) -> Group:
        return Group(self.counted(context.place), context.masses)

    def _depths(self) -> list[list[Context]]:
        found: dict[int, list[Context]] = defaultdict(list)
        for place, context in self.prefixes.contexts.items():
            found[len(place.path)].append(context)
        return [found[depth] for depth in sorted(found)]

    def _support(self, ledger: Ledger) -> tuple[int, int]:
        """Draws of tokens without mass, and of those that rounding moved across the edge of a filter."""
        margin, forbidden, edge = margin_for(ledger.spread), 0, 0
        for (place, _), tokens in self.tokens.items():
            row = self.prefixes.contexts[place].row
            for token, count in tokens.items():
                if row[token] <= 0:
                    moved = self.prefixes.at_edge(place, token, margin)
                    forbidden, edge = forbidden + count * (not moved), edge + count * moved
        return forbidden, edge

    def _by_place(self, ledger: Ledger) -> tuple[dict[str, float], dict[str, float]]:
        """Logarithm of the capital on the draws at each place in a draft; the same beyond rounding."""
        logs, tolerant = {}, {}
        for number, name in enumerate(STRATA):
            keys = [key for key in self.tokens if key[1] == number]
            groups = [Group(self._pooled(key), self.prefixes.contexts[key[0]].masses) for key in keys]
            logs[name] = _capital(groups)
            moves = _moves(groups, ledger) if ledger.largest > 0 else 0
            tolerant[name] = _capital(eased(groups, moves)) if moves else logs[name]
        return logs, tolerant

    def _repeats(self) -> float:
        """The highest logarithm of the capital on equal texts after a prefix."""
        capital = highest = 0.0
        for prefix, texts in self.texts.items():
            often = {text for text, count in Counter(texts).items() if count > 1}
            chances = {text: self.prefixes.chance(prefix, text) for text in often}
            before: list[tuple[tuple[int, ...], float]] = []
            for text in texts:
                # A text without mass is settled by the support rule.
                if np.isfinite(chances.get(text, 0.0)):
                    capital += repeated(text, before)
                    before.append((text, chances.get(text, 0.0)))
                    highest = max(highest, capital)
        return highest


def _moves(groups: Sequence[Group], ledger: Ledger) -> int:
    """Draws that rounding may have changed; more of them are rarer than `_RARELY`."""
    size = int(sum(group.observed.sum() for group in groups))
    return int(binom.isf(_RARELY, size, min(1.0, ledger.largest)))


def _capital(groups: Sequence[Group]) -> float:
    """Logarithm of the capital on several groups: the mean over concentrations of the product."""
    if not groups:
        return 0.0
    terms = sum(dirichlet_terms(group.observed, group.masses) for group in groups)
    return float(logsumexp(terms) - np.log(len(CONCENTRATIONS)))


def _mean(logs: dict[str, float]) -> float:
    """Logarithm of the mean of the capitals."""
    return float(logsumexp(list(logs.values())) - np.log(len(logs)))


def _mean_tv(groups: Sequence[Group]) -> float:
    """Mean total variation between shares and masses, with the noise of shares taken off; at least 0."""
    found = []
    for observed, masses in groups:
        size = max(1, int(observed.sum()))
        noise = np.sqrt(2 * masses * (1 - masses) / (np.pi * size)).sum() / 2
        found.append(np.abs(observed / size - masses).sum() / 2 - noise)
    return float(max(0.0, np.mean(found)))
