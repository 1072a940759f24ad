"""How often the statistical audit alarms without cause, and after how much it finds known faults.

A synthetic world: 50 contexts with Zipf rows over 50 tokens (exponents 0.7 to 2), draft rows off by log-normal
factors. Running text comes one token at a random context at a time; after the prefixes of a panel the context is
the last token. Then the engines of the catalogue of seeded faults (`specproof audit self-test`), on tiny models.

1. Runs of a correct engine whose capital ever reached 1/alpha, looked at after every token, and correct panels.
2. Known faults: the size that the planner predicts for 95 % power, and how many of the runs of 1.25 times that
   size found them. The same for panels.
3. Faulty engines, in the same way, and controls.

    python benchmarks/audit_calibration.py [--runs N] [--tokens N] [--faulty N] [--only PART] [--entry ID]
"""

import argparse
from collections import Counter
from functools import lru_cache

import numpy as np
import torch
from calibration_engines import engines
from scipy.stats import binom

from specproof.audit.white.contexts import Prefixes
from specproof.audit.white.draws import Draws
from specproof.audit.white.emission import STRATA, Emissions
from specproof.audit.white.evidence import WITHOUT_DRAFT, Evidence, Mixture
from specproof.audit.white.faults import Fault
from specproof.audit.white.foresight import foresee
from specproof.audit.white.ledger import Ledger
from specproof.audit.white.plan import BETS, PANEL, SHARES, Plan
from specproof.audit.white.planner import FAMILIES, Planner, Prediction
from specproof.audit.white.record import Places
from specproof.audit.white.tolerant import tolerant_arms
from specproof.types import SamplingParams, TokenSequence

RATES = (1e-3, 1e-2, 1e-1)
CONTEXTS = VOCABULARY = 50
OFF, SLACK, LEAST = 0.7, 1.25, 0.95
MOST = 12_000  # tokens or draws of a run; families that need more are only predicted
PREFIXES, DEPTH = 8, 3
Rows = tuple[np.ndarray, np.ndarray]


def world(rng: np.random.Generator) -> Rows:
    target = np.arange(1, VOCABULARY + 1)[None] ** -rng.uniform(0.7, 2, CONTEXTS)[:, None]
    target = rng.permuted(target, axis=1)
    target /= target.sum(1, keepdims=True)
    draft = target * np.exp(OFF * rng.normal(size=target.shape))
    return target, draft / draft.sum(1, keepdims=True)


def pick(edges: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (rng.random(len(edges))[:, None] * edges[:, -1:] >= edges).sum(1)


def emitted(rows: Rows, count: int, rng: np.random.Generator, fault: Fault | None = None) -> Emissions:
    at = rng.integers(CONTEXTS, size=count)
    target, draft = rows[0][at], rows[1][at]
    tokens = pick((target if fault is None else fault.rows(target, draft)).cumsum(1), rng)
    strata = rng.integers(len(STRATA), size=count)
    return Emissions(tokens, target, draft, rng.random(count), strata, np.arange(count) > 0)


@lru_cache(maxsize=64)
def prefixes(draws: int) -> Prefixes:
    """Prefixes of one token each, scored for a panel of a size."""
    target = torch.from_numpy(world(np.random.default_rng(0))[0]).log()
    params = SamplingParams(max_tokens=DEPTH)
    starts = [TokenSequence([token], 1, params, seed=0) for token in range(PREFIXES)]
    made = Prefixes(starts, lambda tokens, first: target[tokens[first - 1 : -1]], draws, DEPTH)
    made.score()
    return made


def drawn(rows: Rows, draws: int, rng: np.random.Generator, fault: Fault | None = None) -> Draws:
    gathered = Draws(prefixes(draws))
    edges = (rows[0] if fault is None else fault.rows(*rows)).cumsum(1)
    strata = np.arange(DEPTH)
    drafts = torch.from_numpy(rows[1])
    for prefix in range(PREFIXES):
        last, texts = np.full(draws, prefix), []
        for _ in range(DEPTH):
            last = pick(edges[last], rng)
            texts.append(last)
        for text in np.stack(texts, 1).tolist():
            places = {depth: drafts[before] for depth, before in enumerate([prefix, *text[:-1]])}
            gathered.take(prefix, text, Places(strata, places, 1))
    return gathered


def false_alarms(rows: Rows, runs: int, tokens: int) -> None:
    mixtures = {
        "all bets, as audits play": Mixture(),
        "bets without draft rows": Mixture.plain(WITHOUT_DRAFT),
        "tolerant bets (TV 1e-4)": Mixture.plain(tolerant_arms(1e-4)),
    }
    print(f"\nFalse alarms: {runs} correct runs of {tokens} tokens, looked at after every token; {runs} correct")
    print(f"panels of {PREFIXES} prefixes, 64 draws each, {DEPTH} tokens deep\n")
    print("| test | " + " | ".join(f"alpha {rate:g}" for rate in RATES) + " |")
    print("| --- " * (len(RATES) + 1) + "|")
    for name, mixture in mixtures.items():
        rng, counts = np.random.default_rng(1), Counter()
        for _ in range(runs):
            evidence = Evidence(mixture)
            highest = {name: evidence.play(emitted(rows, tokens, rng)).max()}
            if mixture.repeats:
                highest |= {arm: log for arm, log in evidence.by_arm().items() if not arm.startswith("A8")}
            counts.update((each, rate) for each, log in highest.items() for rate in RATES if log >= -np.log(rate))
        _alarms(highest, counts, runs)
    rng, counts = np.random.default_rng(4), Counter()
    for run in range(runs):
        checks = drawn(rows, 64, rng).judge(Ledger.empty(), run).checks(dict.fromkeys(SHARES, 0.0))
        counts.update((check.name, rate) for check in checks for rate in RATES if check.pvalue <= rate)
    _alarms([check.name for check in checks], counts, runs)
    limits = ", ".join(f"{int(binom.isf(1e-4, runs, rate))} at {rate:g}" for rate in RATES)
    print(f"\nA rate of exactly alpha exceeds these counts once in 10,000 such columns: {limits}.")


def _alarms(names, counts: Counter, runs: int) -> None:
    for each in names:
        cells = (f"{counts[each, rate]} ({counts[each, rate] / runs:.4f})" for rate in RATES)
        print(f"| {each} | " + " | ".join(cells) + " |", flush=True)


def found(rows: Rows, fault: Fault, runs: int, size: float) -> float:
    """Share of runs of so many tokens that convict."""
    rng, tokens, convicted = np.random.default_rng(2), int(SLACK * size) + 1, 0
    for _ in range(runs):
        path = Evidence(Mixture()).play(emitted(rows, tokens, rng, fault))
        convicted += bool((path >= -np.log(RATES[0])).any())
    return convicted / runs


def found_by_panel(rows: Rows, fault: Fault, runs: int, draws: float) -> float:
    """Share of panels of so many draws that convict by G, at its part of alpha."""
    rng, size = np.random.default_rng(3), int(SLACK * draws / PREFIXES) + 1
    results = (drawn(rows, size, rng, fault).judge(Ledger.empty(), run) for run in range(runs))
    return sum(result.pvalue <= SHARES[PANEL] * RATES[0] for result in results) / runs


def power(rows: Rows, runs: int) -> None:
    planner = Planner(RATES[0], Mixture())
    planner.add(Emissions.of(np.zeros(CONTEXTS), *rows))
    predicted: dict[str, Prediction] = {each.fault: each for each in planner.predictions(4096)}
    pilot = drawn(rows, 64, np.random.default_rng(5))
    panels = {each.prediction.fault: each.prediction for each in foresee(pilot, SHARES[PANEL] * RATES[0])}
    print(f"\nKnown faults at alpha {RATES[0]:g}: size predicted for 95 % power, and share of {runs} runs of")
    print(
        f"{SLACK} times that size that found the fault; smallest TV that 4,096 tokens show; half as many panels\n"
    )
    print("| fault | TV | tokens | found | TV at 4,096 | panel: draws | found |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for fault in FAMILIES:
        if (each := predicted.get(fault.name)) is not None:
            name = fault.name.replace("|", "\\|")  # in a table
            share = f"{found(rows, fault, runs, each.n95):.0%}" if each.n95 < MOST else "-"
            draws, by_panel = "-", "-"
            if (panel := panels.get(fault.name)) is not None:
                # Fewer than 16 draws after a prefix make no panel.
                size = max(panel.n95, 16 * PREFIXES / SLACK)
                draws = f"{size:,.0f}"
                by_panel = f"{found_by_panel(rows, fault, runs // 2, size):.0%}" if size < MOST / 3 else "-"
            print(
                f"| {name} | {each.tv:.3f} | {each.n95:,.0f} | {share} | {each.detectable:.3f} | {draws} "
                f"| {by_panel} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000, help="correct runs (default 2000)")
    parser.add_argument("--tokens", type=int, default=200, help="tokens of a correct run (default 200)")
    parser.add_argument("--faulty", type=int, default=40, help="runs of each fault (default 40)")
    parser.add_argument("--only", choices=("alarms", "faults", "engines"), help="one of the three parts")
    parser.add_argument("--entry", action="append", default=[], help="of the catalogue; may be repeated")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = world(np.random.default_rng(0))
    if args.only in (None, "alarms"):
        false_alarms(rows, args.runs, args.tokens)
    if args.only in (None, "faults"):
        power(rows, args.faulty)
    if args.only in (None, "engines"):
        engines(args.faulty, Plan().levels[BETS], args.entry)


if __name__ == "__main__":
    main()
