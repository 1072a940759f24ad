"""Everything that the answers so far say, taken in round by round."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from specproof.audit.answer import Bars, Track
from specproof.audit.endpoint.ask import Granted
from specproof.audit.endpoint.drift import Drift
from specproof.audit.endpoint.families import ONE_SEED, named, predictions
from specproof.audit.endpoint.greedy import Gaps, Repeats, parting_gap
from specproof.audit.endpoint.known import Known, Rows
from specproof.audit.endpoint.permuted import Prompt, permutation_test
from specproof.audit.endpoint.plan import ARMS, OFF, ON, EndpointPlan
from specproof.audit.endpoint.units import Units, units
from specproof.audit.endpoint.verdict import Look, Seen
from specproof.audit.endpoint.wager import Wager
from specproof.audit.endpoint.wire import Answer
from specproof.audit.white.evidence import Evidence
from specproof.audit.white.fit import best_fit
from specproof.audit.white.near_tie import NearTies, margin_for
from specproof.audit.white.picture import tracks
from specproof.audit.white.planner import Prediction

# Texts on which reported laws are compared with those of a model here.
_LEDGER_TEXTS = 4
_MOST_BARS, _MOST_TITLE = 12, 40
# Below so many equal texts after each prompt nothing is said of randomness.
_FEWEST_EQUAL = 8

Numbered = Sequence[tuple[int, Answer]]  # prompt and answer


class Gathered:
    """The evidence of an audit.

    Args:
        plan: sizes and rates.
        granted: what the server tells.
        rows: where known rows come from.
        prompts: how many there are.
    """

    def __init__(self, plan: EndpointPlan, granted: Granted, rows: Rows, prompts: int) -> None:
        self.plan, self.rows, self.prompts = plan, rows, prompts
        self.greedy = rows.params.temperature == 0
        self.texts = self.tokens = 0
        self.drafts: dict[str, list[int]] = {}
        self._told = granted.told > 0 or granted.ids
        self._known: Known | None = None
        self._units: dict[str, dict[int, list[Units]]] = {arm: defaultdict(list) for arm in ARMS}
        self._wager, self._looks = Wager(), list[Look]()
        self._steady, self._drift = Drift(), Drift()
        self._history: list[tuple[int, float]] = []
        self._gaps, self._repeats = {arm: Gaps() for arm in ARMS}, Repeats()

    def round(self, off: Numbered, on: Numbered, number: int) -> None:
        """Take in a round's answers, in the order of their numbers."""
        if self._known is None:
            self.rows.measure((off or on)[:_LEDGER_TEXTS])
            most = self.plan.draws * self.prompts * self.plan.length
            self._known = Known(self.plan, self.rows, most)
        for arm, answers in ((OFF, off), (ON, on)):
            for prompt, answer in answers:
                self._take(arm, prompt, answer)
        if off and not self.greedy:
            self._compare(off, on, number)
        self._history.append((self.tokens, self._wager.log_e))

    def _take(self, arm: str, prompt: int, answer: Answer) -> None:
        assert self._known is not None
        self.texts += 1
        if answer.drafted is not None:
            total = self.drafts.setdefault(arm, [0, 0])
            total[0] += answer.drafted
            total[1] += answer.accepted or 0
        text = units(answer, self._told)
        self.tokens += (len(text) - 1) if arm == ON else 0
        self._units[arm][prompt].append(text)
        if answer.rows and self.rows.granted.told:
            self._reported(arm, prompt, answer)
        if not self.greedy:
            self._known.take(arm, prompt, answer)
            return
        if self.rows.words:
            self._gaps[arm].add(*self.rows.gaps(prompt, answer))
        if arm == OFF:
            self._repeats.learn(prompt, text)
        else:
            self._repeats.compare(prompt, text)

    def _reported(self, arm: str, prompt: int, answer: Answer) -> None:
        """Laws that were reported, against those reported after the same past."""
        known = self._steady
        if self.greedy and self.rows.local is None and known.row(prompt, ()) is not None:
            parted = parting_gap(known, prompt, answer.tokens)
            if parted is not None:
                self._gaps[arm].add(*(np.array([value]) for value in parted))
        if arm == OFF:
            known.learn(prompt, answer.tokens, answer.rows)
        else:
            self._drift.compare(prompt, answer.tokens, answer.rows, known)

    def _compare(self, off: Numbered, on: Numbered, number: int) -> None:
        for prompt in range(self.prompts):
            texts = [[units(a, self._told) for p, a in answers if p == prompt] for answers in (on, off)]
            self._wager.play(prompt, *texts)
        self._wager.settle()
        if (level := self.plan.looks.get(number)) is not None:
            test = permutation_test(self._tables(), level, self.plan.seed + number)
            self._looks.append(Look(self.plan.after(number), level, test))

    def _tables(self) -> list[Prompt]:
        on, off = self._units[ON], self._units[OFF]
        return [Prompt.of(on[prompt], off[prompt]) for prompt in range(self.prompts)]

    @property
    def log_e(self) -> float:
        """Of the bets that say most, what they have won."""
        found = [self._wager.log_e]
        if self._known is not None:
            found.append(self._known.sides[ON].evidence.log_e)
        return max(found)

    def smallest(self) -> float:
        """Total variation that the texts so far would have shown with 95 % power."""
        whole = [p for p in self._predictions() if p.bet == "permutations"]
        return min((p.detectable for p in whole[:1]), default=float("inf"))

    def _predictions(self) -> tuple[Prediction, ...]:
        if self.greedy or self._known is None:
            return ()
        found: list[Prediction] = []
        if self._units[OFF]:
            draws = len(self._units[ON][0])
            found += predictions(self._tables(), self.plan.looks[self.plan.rounds], draws)
        planner, side = self._known.planner, self._known.sides[ON]
        if planner.seen and side.tokens and not self._known.trouble:
            found += planner.predictions(side.tokens)
        return tuple(found)

    def seen(self, controlled: bool, *, whole: bool = False) -> Seen:
        """What there is to judge; with `whole`, what known faults would have meant, and which fits, as well."""
        assert self._known is not None
        known, words = self._known, self.rows.words
        remarks = (f"bets on {words} were given up: {known.trouble}",) if known.trouble else ()
        playing = bool(words) and not known.trouble and not self.greedy
        ties = self._ties() if self.greedy else {}
        return Seen(
            greedy=self.greedy,
            controlled=controlled,
            bets=known.sides[ON].arms() if playing else None,
            control=known.sides[OFF].arms() if playing and controlled else None,
            rows=words if playing or ties else "",
            with_draft=self.rows.local is not None and self.rows.local.drafts,
            wager=self._wager.highest,
            looks=tuple(self._looks),
            drift=self._drift.ledger,
            steady=self._steady.ledger,
            ledger=self.rows.ledger,
            ties=ties.get(ON),
            control_ties=ties.get(OFF),
            compared=self._repeats.compared,
            equal=self._repeats.equal,
            unsteady=self._repeats.unsteady,
            repeated=self._repeats.prompts,
            frozen=self._frozen(),
            remarks=remarks,
            tracks=self._tracks() if whole else (),
            bars=self._bars() if whole else (),
            predictions=self._predictions() if whole else (),
        )

    def fit(self, rows_convict: bool) -> tuple[str, float | None]:
        """The fault that fits best and its total variation, after a conviction."""
        assert self._known is not None
        if self.greedy:
            return "", None
        if rows_convict:
            evidence: Evidence = self._known.sides[ON].evidence
            tv, fault = best_fit(evidence, self._known.planner)
            return fault, tv
        tables = self._tables()
        fault, size = (ONE_SEED, None) if self._one_seed() else named(tables)
        if size is None:
            size = permutation_test(tables, self.plan.alpha, self.plan.seed).tv
        return fault, size

    def _ties(self) -> dict[str, NearTies]:
        """The rule of near-ties for both arms, with the rounding that the control and the copy show."""
        spread = max(self.rows.spread, self._steady.ledger.spread, self._drift.ledger.spread)
        off = self._gaps[OFF].judged(spread)
        if off is not None:
            # Rounding is at least as large as it moved tokens without speculation.
            spread = max(spread, off.worst / margin_for(1.0) * (1 + 1e-9))
        found = {arm: self._gaps[arm].judged(spread) for arm in ARMS}
        return {arm: ties for arm, ties in found.items() if ties is not None}

    def _tracks(self) -> tuple[Track, ...]:
        """Capital of both arms' comparison after each round, and of bets on known rows after each portion."""
        if self.greedy or self._known is None:
            return ()
        at, logs = zip(*self._history, strict=True)
        both = (Track("both arms", (0, *at), (0.0, *logs)),) if self._units[OFF] else ()
        return (*(tracks(self._known.sides[ON].evidence) if self.rows.words else ()), *both)

    def _bars(self) -> tuple[Bars, ...]:
        """First units of both arms, the likeliest of each prompt."""
        found = []
        for prompt, off in sorted(self._units[OFF].items()):
            laws = [Counter(text[0] for text in texts) for texts in (off, self._units[ON][prompt])]
            names = [unit for unit, _ in (laws[0] + laws[1]).most_common(_MOST_BARS)]
            without, with_it = (tuple(law[name] / law.total() for name in names) for law in laws)
            shown = tuple(self.rows.unit(name) for name in names)
            title = self.rows.prompts[prompt][-_MOST_TITLE:]
            found.append(Bars(title, shown, without, with_it, laws[1].total()))
        return tuple(found)

    def _one_seed(self) -> bool:
        """Whether one text of each prompt fills half of its texts with speculation, and none does without."""
        shares = {
            arm: [Counter(texts).most_common(1)[0][1] / len(texts) for texts in self._units[arm].values()]
            for arm in ARMS
        }
        return min(shares[ON], default=0) >= 0.5 > max(shares[OFF], default=1)

    def _frozen(self) -> bool:
        texts = self._units[OFF].values()
        enough = bool(texts) and all(len(each) >= _FEWEST_EQUAL for each in texts)
        return not self.greedy and enough and all(len(set(each)) == 1 for each in texts)
