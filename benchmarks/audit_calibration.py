"""How often the statistical audit alarms without cause, and after how many tokens it finds known faults.

Two tables over a synthetic world: contexts with Zipf rows (exponents 0.7 to 2), draft rows off by log-normal
factors, one token at a random context at a time. The first counts runs of a correct engine whose capital ever
reached 1/alpha, looked at after every token. The second sets the tokens that the planner predicts for 95 %
power beside those that 95 % of the simulated runs needed.

    python benchmarks/audit_calibration.py [--runs N] [--tokens N] [--faulty N]
"""

import argparse
from collections import Counter

import numpy as np
from scipy.stats import binom

from specproof.audit.white.emission import STRATA, Emissions
from specproof.audit.white.evidence import WITHOUT_DRAFT, Evidence, Mixture
from specproof.audit.white.faults import Fault
from specproof.audit.white.planner import FAMILIES, Planner, Prediction
from specproof.audit.white.tolerant import tolerant_arms

RATES = (1e-3, 1e-2, 1e-1)
CONTEXTS, VOCABULARY, OFF = 256, 50, 0.7
MOST = 12_000  # tokens of a simulated run; families that need more are only predicted
PORTION = 500


def world(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    target = np.arange(1, VOCABULARY + 1)[None] ** -rng.uniform(0.7, 2, CONTEXTS)[:, None]
    target = rng.permuted(target, axis=1)
    target /= target.sum(1, keepdims=True)
    draft = target * np.exp(OFF * rng.normal(size=target.shape))
    return target, draft / draft.sum(1, keepdims=True)


def emitted(rows: tuple[np.ndarray, np.ndarray], count: int, rng: np.random.Generator, fault: Fault | None = None):
    at = rng.integers(CONTEXTS, size=count)
    target, draft = rows[0][at], rows[1][at]
    edges = (target if fault is None else fault.rows(target, draft)).cumsum(1)
    tokens = (rng.random(count)[:, None] * edges[:, -1:] >= edges).sum(1)
    strata = rng.integers(len(STRATA), size=count)
    return Emissions(tokens, target, draft, rng.random(count), strata, np.arange(count) > 0)


def false_alarms(rows: tuple[np.ndarray, np.ndarray], runs: int, tokens: int) -> None:
    mixtures = {
        "all bets, as audits play": Mixture(),
        "bets without draft rows": Mixture.plain(WITHOUT_DRAFT),
        "tolerant bets (TV 1e-4)": Mixture.plain(tolerant_arms(1e-4)),
    }
    print(f"\nFalse alarms of {runs} runs of {tokens} tokens, looked at after every token\n")
    print("| process | " + " | ".join(f"alpha {rate:g}" for rate in RATES) + " |")
    print("| --- " * (len(RATES) + 1) + "|")
    for name, mixture in mixtures.items():
        rng, counts = np.random.default_rng(1), Counter()
        for _ in range(runs):
            evidence = Evidence(mixture)
            highest = {name: evidence.play(emitted(rows, tokens, rng)).max()}
            if mixture.repeats:
                highest |= {arm: log for arm, log in evidence.by_arm().items() if not arm.startswith("A8")}
            counts.update((each, rate) for each, log in highest.items() for rate in RATES if log >= -np.log(rate))
        for each in highest:
            cells = (f"{counts[each, rate]} ({counts[each, rate] / runs:.4f})" for rate in RATES)
            print(f"| {each} | " + " | ".join(cells) + " |")
    limits = ", ".join(f"{int(binom.isf(1e-4, runs, rate))} at {rate:g}" for rate in RATES)
    print(f"\nA rate of exactly alpha exceeds these counts once in 10,000 such columns: {limits}.")


def needed(rows: tuple[np.ndarray, np.ndarray], fault: Fault, runs: int) -> float:
    """Tokens after which 95 % of the runs were decided; infinite where fewer were."""
    rng, found = np.random.default_rng(2), []
    for _ in range(runs):
        evidence, tokens = Evidence(Mixture()), float("inf")
        for first in range(0, MOST, PORTION):
            over = np.flatnonzero(evidence.play(emitted(rows, PORTION, rng, fault)) >= -np.log(RATES[0]))
            if len(over):
                tokens = first + int(over[0]) + 1
                break
        found.append(tokens)
    return float(np.quantile(found, 0.95, method="higher"))


def power(rows: tuple[np.ndarray, np.ndarray], runs: int) -> None:
    planner = Planner(RATES[0], Mixture())
    planner.add(Emissions.of(np.zeros(CONTEXTS), *rows))
    predicted: dict[str, Prediction] = {each.fault: each for each in planner.predictions(4096)}
    print(f"\nTokens for 95 % power at alpha {RATES[0]:g}, {runs} runs each; last: TV found by 4,096\n")
    print("| fault | TV | predicted | simulated | found by 4,096 |")
    print("| --- | --- | --- | --- | --- |")
    for fault in FAMILIES:
        if (each := predicted.get(fault.name)) is not None:
            found = f"{needed(rows, fault, runs):,.0f}" if each.n95 < MOST / 2 else "-"
            print(
                f"| {fault.name} | {each.tv:.3f} | {each.n95:,.0f} | {found} | {each.detectable:.3f} |", flush=True
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000, help="correct runs (default 2000)")
    parser.add_argument("--tokens", type=int, default=500, help="tokens of a correct run (default 500)")
    parser.add_argument("--faulty", type=int, default=60, help="runs of each fault (default 60)")
    args = parser.parse_args()
    rows = world(np.random.default_rng(0))
    false_alarms(rows, args.runs, args.tokens)
    power(rows, args.faulty)


if __name__ == "__main__":
    main()
