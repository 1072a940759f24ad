"""What verification costs, from target logits to a drawn step, against one softmax over the same logits.

Every rule takes a chain that was drawn from rows close to the target's. Beside them stand the verifiers of
transformers, economize and flashspec (those that are installed), one softmax, and one read of the logits, the
floor that memory sets. All take turns in one run, and medians count. The ratio to the softmax is the figure to
look at: it depends less on the machine than milliseconds do.

    python benchmarks/rules.py [--quick] [--threads N] [--markdown FILE]
"""

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from time import perf_counter

import torch
from torch import Tensor

import specproof
from specproof.noise import CounterNoise
from specproof.rules import RULES, Rule
from specproof.rules.coupling import decided
from specproof.rules.draw import draw
from specproof.sampling import warp_batch
from specproof.tree import Tree
from specproof.types import Draft, SamplingParams, TokenSequence

BATCHES, LENGTHS, VOCABULARIES = (1, 8, 64), (5, 15), (32_000, 128_000)
PEERS = ("transformers", "economize", "flashspec")
FLOORS = ("softmax", "read")
ALWAYS = (*FLOORS, "rejection", "block", "transformers", "flashspec")
TURNS = 15  # most measurements of one contestant in one setting
SHARE = 0.5  # seconds after which a contestant takes no more turns in a setting
LIMIT = 1.5  # seconds; a contestant that would take longer for one turn is left out
MEMORY = 6e9
# Bytes at the peak for each target logit: about 12 are the inputs, and what a contestant makes comes on top.
PEAK = {"economize": 44, "transformers": 16, "kseq": 36, "transport": 100, "multipath": 100, "mars": 36}
NOISE = CounterNoise()


@dataclass(frozen=True)
class Case:
    """One setting; logits [B, N+1, V], the draft's rows the same, its logarithms [B, N, V]."""

    logits: Tensor
    draft: Draft
    logs: Tensor
    batch: list[TokenSequence]

    @classmethod
    def make(cls, size: int, length: int, vocabulary: int) -> "Case":
        """Sequences with the same rows and other seeds: what is timed does not depend on the values."""
        generator = torch.Generator().manual_seed(0)
        logits = 3 * torch.randn(1, length + 1, vocabulary, generator=generator)
        near = (logits + torch.randn(logits.shape, generator=generator)).log_softmax(-1)
        tokens = near.exp()[0, :-1].multinomial(1, generator=generator).T
        near = near.repeat(size, 1, 1)
        draft = Draft((Tree.chain(length),) * size, tokens.repeat(size, 1), near.exp(), "iid")
        batch = [TokenSequence([0], 1, SamplingParams(), seed) for seed in range(size)]
        return cls(logits.repeat(size, 1, 1), draft, near[:, :-1].contiguous(), batch)


def run_rule(rule: Rule, case: Case) -> None:
    """As the engine does it: warp, rule, draw."""
    rows = warp_batch(case.logits, case.batch)
    drawn = "iid" if "iid" in rule.draws else rule.draws[0]
    draft = Draft(case.draft.trees, case.draft.tokens, None if drawn == "point" else case.draft.rows, drawn)
    if rule.coupled:
        rows = decided(rows, case.batch, draft, NOISE)
    draw(rule(rows, draft), case.batch, draft, NOISE)


def transformers() -> Callable[[Case], object]:
    """It verifies one sequence at a time, and takes logits of the draft."""
    function = import_module("transformers.generation.utils")._speculative_sampling

    def run(case: Case) -> None:
        length = case.draft.tokens.shape[1]
        for tokens, logs, logits in zip(case.draft.tokens, case.logs, case.logits, strict=True):
            function(tokens[None], logs[None], length, logits[None])

    return run


def economize() -> Callable[[Case], object]:
    """With its own sampler, at temperature 1 and top-p 1."""
    modules = {name: import_module(f"economize.decoding.{name}") for name in ("verifiers", "selectors")}
    config = import_module("economize.decoding.config").DecodeConfig(verifier="rejection")
    made = import_module("economize.decoding.protocols").Draft
    verifier, selector = modules["verifiers"].RejectionVerifier(config), modules["selectors"].TopPSampler()

    def run(case: Case) -> None:
        size, length = case.draft.tokens.shape
        draft = made(tokens=case.draft.tokens, lengths=[length] * size, probs=case.draft.rows[:, :-1])
        verifier.verify_batch(case.logits, draft, selector, None, [0] * size)

    return run


def flashspec() -> Callable[[Case], object]:
    """It takes logarithms of both rows; the draft's are ready, as its rows are for the others."""
    function = import_module("flashspec.sampling.rejection").rejection_step
    return lambda case: function(case.draft.tokens, case.logs, case.logits.log_softmax(-1)).tolist()


def contestants() -> dict[str, Callable[[Case], object]]:
    """Everything that is timed, by name."""
    found: dict[str, Callable[[Case], object]] = {
        "softmax": lambda case: case.logits.softmax(-1),
        "read": lambda case: case.logits.sum(),
    }
    # One rule needs rows that nobody has, and one is for audits.
    found |= {name: partial(run_rule, rule) for name, rule in RULES.items() if rule.usable}
    for name, build in zip(PEERS, (transformers, economize, flashspec), strict=True):
        try:
            found[name] = build()
        except ImportError:
            print(f"{name} is not installed: left out", file=sys.stderr)
    return found


class Race:
    """Takes the time of every contestant in every setting, and knows why one did not take part."""

    def __init__(self, runs: dict[str, Callable[[Case], object]]) -> None:
        self.runs = runs
        self.seconds: dict[tuple[int, int, int], dict[str, float]] = {}
        self.left_out: list[str] = []
        self.known: dict[str, float] = {}  # seconds a logit, from the setting before

    def setting(self, size: int, length: int, vocabulary: int) -> None:
        """All contestants in turn, until each has had its turns or its share of time."""
        logits = size * (length + 1) * vocabulary
        runs = {name: run for name, run in self.runs.items() if self._fits(name, (size, length, vocabulary))}
        case = Case.make(size, length, vocabulary)
        spent: dict[str, list[float]] = {name: [] for name in runs}
        for turn in range(TURNS + 1):
            for name, run in runs.items():
                if sum(spent[name]) > SHARE:
                    continue
                start = perf_counter()
                run(case)
                # The first turn warms up; it counts only where there is no time for another.
                spent[name] = [*(spent[name] if turn > 1 else []), perf_counter() - start]
        self.seconds[size, length, vocabulary] = {name: median(times) for name, times in spent.items()}
        self.known |= {name: min(times) / logits for name, times in spent.items()}

    def _fits(self, name: str, setting: tuple[int, int, int]) -> bool:
        size, length, vocabulary = setting
        logits = size * (length + 1) * vocabulary
        # What was once measured under load must not keep out what the benchmark is about.
        seconds_known = 0.0 if name in ALWAYS else self.known.get(name, 0.0)
        memory, seconds = PEAK.get(name, 24) * logits, seconds_known * logits
        where = f"{name} at B={size} N={length} V={vocabulary}"
        if memory > MEMORY:
            self.left_out.append(f"{where}: would need about {memory / 1e9:.0f} GB")
        elif seconds > LIMIT:
            self.left_out.append(f"{where}: would take about {seconds:.0f} s a turn")
        return memory <= MEMORY and seconds <= LIMIT


def tables(race: Race, load: float) -> str:
    """Markdown for people: ratios to the softmax, a table for each vocabulary."""
    text = [
        f"Load before the run {load:.1f} on {os.cpu_count()} cores, {torch.get_num_threads()} threads, "
        f"torch {torch.__version__}, float32, temperature 1. "
        f"{'The machine was busy with other work, so the figures are rough. ' if load > 0.5 else ''}"
        "Times are multiples of one `torch.softmax` over the same target logits; B sequences, N drafted tokens."
    ]
    for vocabulary in dict.fromkeys(setting[2] for setting in race.seconds):
        settings = {s: times for s, times in race.seconds.items() if s[2] == vocabulary}
        text += ["", f"## Vocabulary {vocabulary}", ""]
        text.append("| | " + " | ".join(f"B={b} N={n}" for b, n, _ in settings) + " |")
        text.append("| --- |" + " ---: |" * len(settings))
        text.append(
            "| softmax, ms | " + " | ".join(f"{1000 * t['softmax']:.2f}" for t in settings.values()) + " |"
        )
        for name in race.runs:
            if name == "softmax":
                continue
            cells = [f"{t[name] / t['softmax']:.2f}" if name in t else "–" for t in settings.values()]
            label = f"*{name}*" if name in (*PEERS, *FLOORS) else f"`{name}`"
            text.append(f"| {label} | " + " | ".join(cells) + " |")
    if race.left_out:
        text += ["", "Left out (–):", "", *[f"- {line}" for line in race.left_out]]
    return "\n".join(text)


def installed(package: str) -> str | None:
    """Its version, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def main() -> None:
    """Print the tables, then one JSON line; with --markdown write the tables to a page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help=f"only a vocabulary of {VOCABULARIES[0]}")
    parser.add_argument("--markdown", type=Path, help="page to write")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    load = os.getloadavg()[0]
    # Until a large block was freed, the C library returns memory and pays for new pages; any model has freed one.
    torch.empty(30 * 2**20, dtype=torch.uint8)
    race = Race(contestants())
    with torch.inference_mode():
        for vocabulary in VOCABULARIES[:1] if args.quick else VOCABULARIES:
            for length in LENGTHS:
                for size in BATCHES:
                    race.setting(size, length, vocabulary)
    page = tables(race, load)
    print(page)
    if args.markdown:
        command = shlex.join(["python", "benchmarks/rules.py", *sys.argv[1:]])
        intro = (__doc__ or "").split("\n\n")[:-1]
        title, body = intro[0], intro[1]
        args.markdown.write_text(f"# The speed of rules\n\n{title}\n\n{body}\n\n    {command}\n\n{page}\n")
    times = {"B{} N{} V{}".format(*setting): t for setting, t in race.seconds.items()}
    versions = {name: installed(name) for name in ("torch", *PEERS)}
    about = {"specproof": specproof.__version__, "threads": args.threads, "load": load} | versions
    print(json.dumps({"seconds": times, "left_out": race.left_out} | about))


if __name__ == "__main__":
    main()
