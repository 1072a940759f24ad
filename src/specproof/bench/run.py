"""A whole bench: load, measure forwards, decode, check the texts, and add it all up."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from specproof.bench.advice import Sentence, advise
from specproof.bench.figures import Figures, Group, figures, steps_of
from specproof.bench.forwards import forward_costs
from specproof.bench.measure import PROBE, BenchSettings, Clock, Run, measure, run_count
from specproof.bench.model import StepCosts
from specproof.bench.prompts import Prompt
from specproof.bench.texts import TextCheck, parted_texts
from specproof.bench.ways import BASE, Loaded
from specproof.engine.loading import chat_tokens
from specproof.engine.versions import versions


@dataclass(frozen=True)
class BenchResult:
    """What was found.

    Attributes:
        made: what was measured, on what, by which command and versions.
        forwards: seconds of a target forward by width.
        figures: by temperature, way and kind.
        parted: texts at temperature 0 that are not the plain ones.
        checked: how many texts at temperature 0 were compared with plain ones.
        advice: by temperature and kind.
        notes: what was left out, and warnings of drafters.
    """

    made: dict[str, Any]
    forwards: dict[int, float]
    figures: tuple[Figures, ...]
    parted: tuple[TextCheck, ...]
    checked: int
    advice: tuple[Sentence, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Every text at temperature 0 is the plain one, or parts from it at near-ties only."""
        return all(check.ok for check in self.parted)

    @property
    def wrong(self) -> frozenset[str]:
        """Ways that wrote a wrong text."""
        return frozenset(check.way for check in self.parted if not check.ok)

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "made": self.made,
            "ok": self.ok,
            "forward_seconds_by_width": self.forwards,
            "figures": [one.as_dict() for one in self.figures],
            "texts": {"checked": self.checked, "parted": [check.as_dict() for check in self.parted]},
            "advice": [asdict(sentence) for sentence in self.advice],
            "notes": list(self.notes),
        }


def bench(
    loaded: Loaded,
    prompts: Sequence[Prompt],
    settings: BenchSettings,
    made: dict[str, Any],
    clock: Clock = perf_counter,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> BenchResult:
    """Measure all ways of a model.

    Args:
        loaded: the model and its ways.
        prompts: user messages, given in the model's chat format.
        settings: temperatures, lengths, repeats.
        made: as from `provenance`.
        clock: seconds.
        report: told how many runs of how many are done.
    """
    tokens = [chat_tokens(loaded.tokenizer, prompt.text) for prompt in prompts]
    forwards = forward_costs(loaded.fresh_target(), clock)
    kinds = [prompt.kind for prompt in prompts]
    probed = [kinds.index(kind) for kind in dict.fromkeys(kinds)]
    runs, total = [], run_count(len(loaded.ways), len(prompts), len(probed), settings)
    for run in measure(loaded.ways, tokens, probed, settings, clock):
        runs.append(run)
        report(len(runs), total)
    parted = parted_texts(runs, tokens, loaded.fresh_target)
    chains = {way.label: way.chains for way in loaded.ways}
    found = add_up(runs, kinds, forwards, chains)
    wrong = frozenset(check.way for check in parted if not check.ok)
    warnings = dict.fromkeys(f"{run.place.way}: {line}" for run in runs for line in run.warnings)
    short = sum(run.decoded == 0 for run in runs)
    ended = (
        [f"{short} of {len(runs)} texts ended in their first step and count for no decoding speed"]
        if short
        else []
    )
    return BenchResult(
        made=made,
        forwards=forwards,
        figures=tuple(found),
        parted=tuple(parted),
        checked=sum(run.place.temperature == 0 and run.place.way != BASE for run in runs),
        advice=tuple(advise(found, wrong)),
        notes=(*loaded.notes, *warnings, *ended),
    )


def add_up(
    runs: Sequence[Run], kinds: Sequence[str], forwards: dict[int, float], chains: dict[str, bool]
) -> list[Figures]:
    """Figures of all runs.

    Args:
        runs: of all ways at all temperatures.
        kinds: of each prompt, by its number.
        forwards: seconds by width.
        chains: for each way whether its drafts are chains.
    """
    found = []
    for temperature in dict.fromkeys(run.place.temperature for run in runs):
        here = [run for run in runs if run.place.temperature == temperature]
        probes = [run for run in here if run.place.turn == PROBE]
        counted = [run for run in here if run.place.turn != PROBE]
        plain = [run for run in counted if run.place.way == BASE]
        for way, is_chain in chains.items():
            mine, tried = ([run for run in runs if run.place.way == way] for runs in (counted, probes))
            costs = StepCosts(forwards, steps_of([*mine, *tried]), steps_of(plain))
            found += figures(Group(mine, plain, tried, costs, is_chain), kinds)
    return found


def provenance(
    command: str, loaded: Loaded, model: str, prompts: str, settings: BenchSettings, counts: dict[str, int]
) -> dict[str, Any]:
    """What was measured, for the reader to judge and repeat.

    Args:
        command: that made it.
        loaded, model: the model and its name.
        prompts: where they come from.
        settings: how it was run.
        counts: prompts of each kind.
    """
    weights = next(loaded.model.parameters())
    return {
        "command": command,
        "model": model,
        "parameters": sum(part.numel() for part in loaded.model.parameters()),
        "dtype": str(weights.dtype).removeprefix("torch."),
        "device": str(weights.device),
        "threads": torch.get_num_threads(),
        "machine": {"processor": _processor(), "cores": os.cpu_count(), "load": _load()},
        "versions": versions(),
        "prompts": {"from": prompts, "kinds": counts},
        "ways": [way.label for way in loaded.ways],
        "settings": asdict(settings),
    }


def _processor() -> str:
    """Its name where the system tells it, else its architecture."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text(encoding="utf-8").splitlines() if listed.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _load() -> float | None:
    """Processes that ran or waited in the last minute; None where the system does not count them."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
