"""The panel of repeated prefixes in whole audits: exact rates, what it alone sees, the verdicts it leads to."""

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from worlds import scores, table_engine, tables, too_many

from specproof.audit.answer import Verdict
from specproof.audit.mutants import rows
from specproof.audit.mutants.around import Around
from specproof.audit.mutants.case import exchanged
from specproof.audit.white.contexts import Place, Prefixes
from specproof.audit.white.draws import Draws
from specproof.audit.white.evidence import Mixture
from specproof.audit.white.foresight import UNSEEN, foresee, unnamed
from specproof.audit.white.ledger import Ledger
from specproof.audit.white.panel import Group, eased, fisher, g_statistic, summed_g, tail_pvalue, together
from specproof.audit.white.plan import PANEL, SHARES, Plan, digest
from specproof.audit.white.record import Places
from specproof.audit.white.run import audit_white
from specproof.noise import CounterNoise
from specproof.types import Output, SamplingParams

PROMPTS = ((1, 2), (3,), (4, 5, 6))
PLAIN = SamplingParams()
SMALL = Plan(tokens=600, at_once=16, length=32, detect=0.2, prefixes=6, draws=96, depth=4)


def audit(engine, plan=SMALL, params=PLAIN, **options):
    return audit_white(engine, PROMPTS, params, plan, **{"reference": scores(tables()[0])} | options)


def prefixes(draws=64, depth=3, count=4, params=PLAIN):
    """Prefixes of one token over the table of the tests, scored."""
    engine = table_engine()
    starts = []
    for token in range(count):
        request = engine.requests([token], replace(params, max_tokens=depth))[0]
        request.read(1)
        starts.append(request.sequence)
    made = Prefixes(starts, scores(tables()[0]), draws, depth)
    made.score()
    return made


def drawn(made, rng, law=lambda row: row, strata=lambda depth: depth, first=None):
    """Texts drawn after prefixes from laws of the target's rows; the first tokens perhaps from another."""
    model, gathered = tables()[0], Draws(made)
    # The table looks back one token.
    rows_ = [model.row([token]).numpy() for token in range(model.vocabulary)]
    edges = [np.stack([each(row) for row in rows_]).cumsum(1) for each in (first or law, law)]
    places = Places(np.array([strata(depth) for depth in range(made.depth)]), {}, 1)
    for prefix, start in enumerate(made.starts):
        for _ in range(made.draws):
            text = []
            for depth in range(made.depth):
                row = edges[min(depth, 1)][[*start.tokens, *text][-1]]
                text.append(int((rng.random() * row[-1] >= row).sum()))
            gathered.take(prefix, text, places)
    return gathered


def test_contexts_are_chosen_by_the_target_alone():
    """Each is expected sixteen times or more, and none that is gets left out."""
    made, model = prefixes(draws=200, depth=3), tables()[0]
    for place, context in made.contexts.items():
        start = made.starts[place.prefix].tokens
        chance = np.prod([model.row([*start, *place.path[:at]])[t] for at, t in enumerate(place.path)] or [1.0])
        assert context.expected == pytest.approx(200 * float(chance))
        assert context.expected >= 16
        assert context.masses.sum() == pytest.approx(1)
    below = [Place(0, (token,)) for token in range(12) if 200 * float(model.row([0])[token]) >= 16]
    assert below == [place for place in made.contexts if place.prefix == 0 and len(place.path) == 1]


def test_whole_panels_have_their_rates():
    """120 correct panels, each of the three tests at 0.1 and 0.02; false-alarm rate of this test 1e-4."""
    made, runs, rng = prefixes(draws=48, count=3), 120, np.random.default_rng(5)
    found = [drawn(made, rng).judge(Ledger.empty(), run) for run in range(runs)]
    for level in (0.1, 0.02):
        levels = dict.fromkeys(SHARES, level)
        alarms = np.array([[check.pvalue <= level for check in each.checks(levels)] for each in found])
        assert (alarms.sum(0) < too_many(runs, level, 6)).all(), (level, alarms.sum(0))
    depths = np.array([each.by_depth for each in found])
    assert ((depths <= 0.1).sum(0) < too_many(runs, 0.1, 3)).all()
    assert (depths <= 0.5).mean() > 0.4, "p-values are not merely large"


def test_the_planted_law_is_found_with_a_panel_of_the_predicted_size():
    """25 panels of 1.25 x the predicted draws; 95 % power leaves fewer than 18 with probability below 1e-4."""
    rng = np.random.default_rng(6)

    def hotter(row):
        return row**0.7

    pilot = drawn(prefixes(draws=64), rng)
    predicted = next(f.prediction for f in foresee(pilot, 3e-4) if f.prediction.fault == "temperature times 1.43")
    size = int(1.25 * predicted.n95 / 4)
    assert 30 < size < 600
    made = prefixes(draws=size)
    levels = {name: share * 1e-3 for name, share in SHARES.items()}
    found = [drawn(made, rng, hotter).judge(Ledger.empty(), run).convicts(levels) for run in range(25)]
    assert sum(found) >= 18


def test_a_fault_at_one_place_in_the_draft_is_found_there():
    made, rng = prefixes(draws=200), np.random.default_rng(7)

    def late(depth):
        return 4 if depth == 2 else depth  # a bonus token after two nodes

    gathered = Draws(made)
    gathered.tokens |= drawn(made, rng, strata=late).tokens
    wrong = drawn(made, rng, law=lambda row: row**2, strata=late)
    gathered.tokens |= {key: tokens for key, tokens in wrong.tokens.items() if key[1] == 4}
    found = gathered.judge(Ledger.empty(), 0)
    assert max(found.by_stratum, key=found.by_stratum.get) == "bonus"
    assert found.by_stratum["bonus"] > 10 > max(found.by_stratum["first node"], found.by_stratum["second node"])


def brute_force(groups, moves):
    """Least summed G within some moves, by trying all."""
    reachable = {tuple(tuple(map(int, group.observed)) for group in groups)}
    for _ in range(moves):
        following = set(reachable)
        for counts in reachable:
            for at, group in enumerate(counts):
                for out, into in product(range(len(group)), repeat=2):
                    if out != into and group[out] > 0:
                        moved = list(group)
                        moved[out], moved[into] = moved[out] - 1, moved[into] + 1
                        following.add((*counts[:at], tuple(moved), *counts[at + 1 :]))
        reachable = following
    masses = [group.masses for group in groups]
    return min(
        sum(float(g_statistic(np.array(c), m)) for c, m in zip(each, masses, strict=True)) for each in reachable
    )


@pytest.mark.parametrize("moves", [0, 1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_eased_groups_have_the_least_g_that_so_many_moves_allow(moves, seed):
    rng = np.random.default_rng(seed)
    groups = [
        Group(rng.multinomial(size, rng.dirichlet(np.ones(3))), rng.dirichlet(np.ones(3))) for size in (7, 12)
    ]
    assert summed_g(eased(groups, moves)) == pytest.approx(brute_force(groups, moves), abs=1e-9)


def test_the_pvalue_of_several_groups_is_exact():
    """400 correct pairs of groups; false-alarm rate of this test 1e-4. An outlier gets the smallest p-value."""
    rng, masses = np.random.default_rng(8), [np.array([0.5, 0.3, 0.2]), np.array([0.05, 0.95])]
    found = []
    for run in range(400):
        groups = [Group(rng.multinomial(20, each), each) for each in masses]
        found.append(tail_pvalue(groups, summed_g(groups), np.random.default_rng(run)))
    for level in (0.01, 0.1, 0.3):
        assert np.sum(np.array(found) <= level) < too_many(400, level, 3)
    odd = [Group(np.array([0, 0, 40]), masses[0])]
    assert tail_pvalue(odd, summed_g(odd), np.random.default_rng(0)) == 1e-5
    assert tail_pvalue([Group(np.zeros(2, dtype=np.int64), masses[1])], 0.0, np.random.default_rng(0)) == 1


@pytest.mark.parametrize(("exercised", "depth"), [(True, 4), (False, 4), (True, 1)])
def test_what_a_panel_shows_of_drafts_whose_rows_nobody_knows(exercised, depth):
    """Of 20 panels with a fault of the stated size 95 % convict: fewer than 14 with probability below 1e-4.

    The fault is the hardest to see of its size: all probabilities up or down by the same share. First tokens,
    which no draft may have had a part in, are the target's; without others, or without drafts, nothing is said.
    """
    level = SHARES[PANEL] * 1e-3
    made = prefixes(draws=256, depth=depth)
    probe = drawn(made, np.random.default_rng(0))
    probe.exercised = exercised
    stated = unnamed(probe, level)
    if not exercised or depth == 1:
        assert stated is UNSEEN
        return
    assert 0.05 < stated.detectable < 0.2

    def tilted(row, size):
        up = np.zeros(len(row), dtype=bool)
        for token in np.argsort(-row):
            up[token] = row[up].sum() + row[token] <= 0.5
        share = row[up].sum()
        return row * np.where(up, 1 + size / share, 1 - size / (1 - share))

    # In cells some of it cancels: as large as makes up for that.
    off = total = 0.0
    for place, context in made.contexts.items():
        count = probe.counted(place).sum() if place.path else 0
        law = context.pooled(tilted(context.row, stated.detectable))
        total += count
        off += count * float(((law - context.masses) ** 2 / context.masses).sum())
    size = stated.detectable * np.sqrt(4 * stated.detectable**2 * total / off)
    rng = np.random.default_rng(1)
    law = partial(tilted, size=size)
    panels = [drawn(made, rng, law, first=lambda row: row).judge(Ledger.empty(), run) for run in range(20)]
    assert sum(panel.pvalue <= level for panel in panels) >= 14


def test_fisher():
    assert fisher([0.2]) == pytest.approx(0.2)
    assert fisher([1e-4, 0.0]) == 0
    product_ = 0.03 * 0.2
    assert fisher([0.03, 0.2]) == pytest.approx(product_ * (1 - np.log(product_)))
    assert fisher([]) == 1


def test_depths_together():
    """One depth may decide alone; none pays for being alone."""
    assert together([]) == 1
    assert together([0.2]) == 0.2
    assert together([0.4, 1e-5, 0.6, 0.5]) == pytest.approx(3 * 4 * 1e-5)
    assert together([1e-5, 0.4, 0.6, 0.5]) == pytest.approx(3e-5)
    assert together([0.01, 0.01, 0.01, 0.01]) == pytest.approx(3 * fisher([0.01] * 4))


def keyed(rows_):
    """Rows tilted by a secret of their context: no fault of the library, and none on average."""
    numbers = torch.arange(rows_.shape[-1])
    key = (rows_[..., :1] * 1e6).long()
    tilted = rows_ * torch.exp(0.45 * (((numbers * 7 + key * 13) % 5) % 2 * 2.0 - 1))
    return tilted / tilted.sum(-1, keepdim=True)


def watermarked(engine):
    rule = engine.rule
    return exchanged(engine, rule=lambda target, draft: rule(keyed(target), draft))


def test_a_watermark_is_seen_after_repeated_prefixes_alone():
    result = audit(watermarked(table_engine()), replace(SMALL, draws=384))
    assert result.verdict is Verdict.BIASED, result
    assert "draws after repeated prefixes; best fit" in result.reason
    assert result.findings.bets.pvalue > result.plan.levels["bets on running text"]
    assert result.findings.panel.pvalue <= result.plan.levels[PANEL]
    assert not result.findings.panel_control.convicts(result.plan.levels)
    assert result.pvalue <= result.plan.alpha
    assert 0.05 < result.tv < 0.4
    assert str(result).count("repeated prefixes") == 2


def test_a_watermark_without_speculation_too_is_no_baseline():
    class Marked(Around):
        def forward(self, batch, draft, start=None):
            return Output(keyed(super().forward(batch, draft, start).logits.softmax(-1)).log())

    engine = table_engine()
    result = audit(exchanged(engine, target=Marked(engine.target)), replace(SMALL, draws=384))
    assert result.verdict is Verdict.NO_BASELINE, result
    assert result.exit_code == 3


def test_tokens_without_mass_convict_at_once_and_those_at_an_edge_do_not():
    params = SamplingParams(top_k=4)
    made, rng = prefixes(params=params), np.random.default_rng(9)
    found = drawn(made, rng)  # without the filter
    judged = found.judge(Ledger.empty(), 0)
    assert judged.forbidden > 0
    assert judged.pvalue == 0
    moved = found.judge(Ledger(10, 0.01, 0.01, 0.01, 0.01, 5.0), 0)
    assert (moved.forbidden, moved.edge) == (0, judged.forbidden)


def test_rounding_is_tolerated():
    """Rows off by less than the ledger convict nothing beyond rounding, though they are far from exact."""
    made, rng = prefixes(draws=600), np.random.default_rng(10)

    def rounded(row):
        return row ** (1 - 0.2)

    away = np.mean(
        [np.abs(rounded(r) / rounded(r).sum() - r).sum() / 2 for r in (c.row for c in made.contexts.values())]
    )
    ledger = Ledger(100, away, away, 2 * away, 2 * away, 0.0)
    found = drawn(made, rng, rounded).judge(ledger, 0)
    levels = Plan().levels
    assert found.convicts(levels)
    assert not found.beyond_rounding(levels)
    strict = drawn(made, rng, rounded).judge(replace(ledger, largest=1e-6), 0)
    assert strict.beyond_rounding(levels)


def test_shared_seeds_are_caught_by_equal_texts():
    class FewSeeds(CounterNoise):
        def choose(self, rows, keys):
            return super().choose(rows, [key._replace(seed=key.seed % 48) for key in keys])

    result = audit(exchanged(table_engine(), noise=FewSeeds()), replace(SMALL, tokens=64))
    assert result.findings.panel.repeats > 10
    assert result.verdict is Verdict.BIASED


def test_the_plan_covers_the_panel():
    engine, setting = table_engine(), {"drafter": "model"}
    said = []
    result = audit(engine, replace(SMALL, tokens=64, draws=16), announce=said.append)
    assert said[0].startswith(f"plan {result.digest}")

    described = [
        replace(SMALL, **change).described(Mixture(), setting)
        for change in ({}, {"prefixes": 5}, {"draws": 97}, {"depth": 3}, {"draws": 0})
    ]
    assert len(set(map(digest, described))) == 5
    assert sum(SMALL.levels.values()) == pytest.approx(SMALL.alpha)
    assert sum(replace(SMALL, draws=0).levels.values()) == pytest.approx(SMALL.alpha)


def test_a_redrawing_engine_is_named_by_the_panel_too():
    result = audit(rows.resample_from_target(table_engine()), replace(SMALL, tokens=32, draws=500))
    assert result.verdict is Verdict.BIASED
    assert "correction drawn from the target's row" in result.reason
