"""The catalogue's engines under the statistical audit: texts are made once, runs are drawn from them.

The prediction is the planner's formula with the fault's own law, estimated on half of the texts: growth and
variance of every bet, the rate of tokens without mass, the rate of texts that end wrongly. Runs of 1.25 times the
predicted tokens are made of texts of the other half.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from specproof.audit.engine_suite import build_engine
from specproof.audit.mutants import CONTROLS, MUTANTS
from specproof.audit.mutants.case import Case, EngineAudit, TableAudit
from specproof.audit.white.emission import STRATA, Emissions
from specproof.audit.white.evidence import Evidence, Mixture
from specproof.audit.white.forcing import ends_right, reference_for
from specproof.audit.white.gathering import SPECULATIVE, Text
from specproof.audit.white.plan import Plan
from specproof.audit.white.planner import n95
from specproof.audit.white.record import recorded
from specproof.audit.white.run import Audit
from specproof.audit.white.texts import running
from specproof.backends.hf import HFBackend
from specproof.backends.table import TableBackend
from specproof.drafters.model import ModelDrafter
from specproof.engine.engine import Engine
from specproof.noise import CounterNoise
from specproof.testing.tiny import tiny_model

PROMPTS = ((1, 0, 1), (2,), (0, 1, 2, 1))
SLACK, POOL, LENGTH = 1.25, 24_000, 24
# Tokens of a control's run. Shifted positions move rows with rotary ones by little, since these are relative.
CONTROL = 2_000
ARCHITECTURES = {"B31": "gpt2"}


@dataclass(frozen=True)
class Told:
    """A text: what can be bet on, gaps at temperature 0, and whether it ended right."""

    emissions: Emissions
    gaps: np.ndarray
    ended: bool

    def __len__(self) -> int:
        return len(self.gaps)


class Rekeyed(CounterNoise):
    """Production's noise, asked under other keys."""

    def __init__(self, rekey) -> None:
        self.rekey = rekey

    def choose(self, rows, keys):
        """As production's noise does."""
        return super().choose(rows, [self.rekey(key) for key in keys])


def built(case: Case):
    """The entry's engine with production's noise, and the reference for its texts."""
    audit = case.audit
    if isinstance(audit, EngineAudit):
        architecture = ARCHITECTURES.get(case.id, "llama")
        engine = build_engine(audit.drafter, audit.rule, architecture)
        reference = reference_for(HFBackend(tiny_model(architecture, 4, seed=0)))
    else:
        target, drafter = TableBackend(audit.target), ModelDrafter(TableBackend(audit.draft), max(2, audit.nodes))
        engine = Engine(target, drafter, "rejection", eos=audit.eos, adaptive=False)
        model = audit.target

        def reference(tokens, first):
            return torch.stack([model.row(tokens[:at]) for at in range(first, len(tokens))]).log()

    engine.noise, engine.max_batch = CounterNoise(), 64
    engine.scheduler.max_batch = 64
    engine = audit.plant(engine)
    # Faults of randomness come with the enumerator that the exact audit needs.
    if (rekey := getattr(engine.noise, "rekey", None)) is not None:
        engine.noise = Rekeyed(rekey)
    return engine, reference, audit.params


def texts(case: Case, tokens: int) -> list[Told]:
    engine, reference, params = built(case)
    length = LENGTH if isinstance(case.audit, EngineAudit) else 8
    params = replace(
        params, max_tokens=length, ignore_eos=params.ignore_eos or isinstance(case.audit, EngineAudit)
    )
    size = engine.target.vocabulary
    prompts = [[token % size for token in prompt] for prompt in PROMPTS]
    plan = Plan(tokens=tokens, length=length, at_once=64)
    audit = Audit(prompts, params, plan, reference, lambda _: None, engine=engine)
    noise, told = np.random.default_rng(0), []
    with recorded(engine) as recorder:
        for text in running(engine, prompts, params, plan, SPECULATIVE):
            sequence = text.request.sequence
            begun = Text(text.prompt, text.start, text.output, recorder.take(sequence))
            portions = audit.scored(begun, noise)
            right = ends_right(text.start, text.output, sequence.finish_reason, engine.target.context)
            emissions = Emissions.join([portion.emissions for portion in portions])
            told.append(Told(emissions, np.concatenate([portion.gaps for portion in portions]), right))
    return told


def predicted(told: list[Told], alpha: float) -> float:
    """Tokens for 95 % power, by the planner's formula with what was measured on these texts."""
    lengths = np.array([len(text) for text in told])
    mixture, per_text = Mixture(), []
    for text in told:
        steps = [arm.log_e(text.emissions) for arm in mixture.arms]
        strata = [
            np.where((text.emissions.strata == s)[:, None], step, 0) for s in range(len(STRATA)) for step in steps
        ]
        per_text.append(np.concatenate([step.sum(0) for step in (*steps, *strata)]))
    sums = np.stack(per_text)
    weights = [mixture.weight(arm) for arm in mixture.arms for _ in arm.bets]
    share = mixture.by_stratum / mixture.everywhere / len(STRATA)
    weights += [mixture.weight(arm) * share for _ in STRATA for arm in mixture.arms for _ in arm.bets]
    growth = sums.mean(0) / lengths.mean()
    with np.errstate(invalid="ignore"):
        variance = (sums - growth * lengths[:, None]).var(0) / lengths.mean()
    bets = [
        n95(g, v, -np.log(alpha) - np.log(w))
        for g, v, w in zip(growth, variance, weights, strict=True)
        if np.isfinite(g)
    ]
    sure = sum((text.emissions.mass <= 0).any() or not text.ended for text in told) / len(told)
    once = float("inf") if sure == 0 else max(1.0, np.log(0.05) / np.log1p(-min(sure, 1 - 1e-9))) * lengths.mean()
    return float(min(once, *bets))


def convicts(told: list[Told], order: np.ndarray, tokens: float, alpha: float) -> bool:
    """Whether a run of these texts in this order convicts by so many tokens."""
    chosen, made = [], 0
    for at in order:
        chosen.append(told[at])
        made += len(told[at])
        if made >= tokens:
            break
    if not all(text.ended for text in chosen):
        return True
    path = Evidence(Mixture()).play(Emissions.join([text.emissions for text in chosen]))
    return bool((path >= -np.log(alpha)).any())


def by_panel(case: Case, runs: int) -> float:
    """Share of panels that convict, each with seeds of its own."""
    engine, reference, params = built(case)
    size, found = engine.target.vocabulary, 0
    for seed in range(runs):
        plan = Plan(seed=seed)
        audit = Audit(PROMPTS, replace(params, ignore_eos=True), plan, reference, lambda _: None, engine=engine)
        audit.prefixes = [[token % size, other % size] for token in range(2) for other in range(4)]
        found += audit.panel().result.convicts(plan.levels)
    return found / runs


def engines(runs: int, alpha: float, entries: Sequence[str]) -> None:
    """Prints a line for each entry of the catalogue, or for some of them."""
    cases = [case for case in (*MUTANTS, *CONTROLS) if isinstance(case.audit, (EngineAudit, TableAudit))]
    known = [case.id for case in cases]
    if strange := set(entries) - set(known):
        raise SystemExit(f"no entry {', '.join(sorted(strange))}: {', '.join(known)}")
    cases = [case for case in cases if not entries or case.id in entries]
    print(
        f"\nEngines of the catalogue at alpha {alpha:g}: tokens predicted for 95 % power with the fault's own law,"
    )
    print(f"and share of {runs} runs of {SLACK} times as many that convict; controls: of {CONTROL:,} tokens\n")
    print("| entry | what | tokens | convicted |")
    print("| --- | --- | --- | --- |")
    for case in cases:
        print(f"| {case.id} | {case.name} | {' | '.join(line(case, runs, alpha))} |", flush=True)


def line(case: Case, runs: int, alpha: float) -> tuple[str, str]:
    """Predicted tokens and the share of runs that convict."""
    told = texts(case, POOL)
    if case.audit.params.temperature == 0:
        gaps = np.array([(text.gaps > 0).any() or not text.ended for text in told])
        return "temperature 0", f"{gaps.mean():.0%} of texts"
    pilot, rest = told[::2], told[1::2]
    rng = np.random.default_rng(1)
    control = case.id.startswith("C")
    needed = CONTROL if control else predicted(pilot, alpha)
    have = sum(map(len, rest))
    if not control and SLACK * needed > have:
        # What a pilot of noise predicts, too: no bet grows, or too slowly to tell from that.
        return f"> {have:,.0f}", f"panel of 8 x 128: {by_panel(case, max(2, runs // 4)):.0%}"
    tokens = needed if control else SLACK * needed
    share = np.mean([convicts(rest, rng.permutation(len(rest)), tokens, alpha) for _ in range(runs)])
    return ("control" if control else f"{needed:,.0f}"), f"{share:.0%}"
