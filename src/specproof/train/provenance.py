"""Where a head comes from: what is written into its configuration and onto its card."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from specproof.engine.versions import versions
from specproof.train.evaluate import Evaluation
from specproof.train.settings import TrainSettings


def provenance(
    settings: TrainSettings, target: str, data: dict[str, Any], result: Evaluation, agreed: Sequence[float]
) -> dict[str, Any]:
    """Command, commit, versions, settings with the seed, data with its hash, and what came out."""
    return {
        "command": shlex.join(["specproof", *sys.argv[1:]]),
        "git_commit": git_commit(),
        "versions": versions(),
        "target": target,
        "settings": settings.as_dict(),
        "data": data,
        "evaluation": result.as_dict() | {"acceptance_by_depth_at_temperature_0": list(agreed)},
    }


def git_commit() -> str | None:
    """Commit of the checkout that this code runs from, marked if it was changed; None outside of one."""
    source = Path(__file__).parent

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", str(source), *words], capture_output=True, text=True, check=False)
        except OSError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("rev-parse", "HEAD")
    if commit is None or git("ls-files", "--error-unmatch", str(source / "settings.py")) is None:
        return None
    return commit + (
        "+changes" if git("status", "--porcelain", "--untracked-files=no", str(source.parent)) else ""
    )


_KINDS = {"eagle3": "EAGLE-3 head", "medusa": "Medusa heads"}


def model_card(made: dict[str, Any], size: int) -> str:
    """Markdown: what the head is, how it was made, how good it is, and what it is not."""
    evaluation, settings, data, versions = (made[part] for part in ("evaluation", "settings", "data", "versions"))
    shares = zip(
        evaluation["acceptance_by_depth"], evaluation["acceptance_by_depth_at_temperature_0"], strict=True
    )
    plans = "".join(f"; from update {start} on planned as {steps}" for start, steps in made["plans"][1:])
    if plans:
        plans = f" (at first planned as {made['plans'][0][1]}{plans})"
    depths = "\n".join(f"| {d} | {a:.3f} | {zero:.3f} |" for d, (a, zero) in enumerate(shares, start=1))
    return f"""# {_KINDS[settings["method"]]} for {made["target"]}

A draft head for speculative decoding of `{made["target"]}`, in the format of vllm-project/speculators.
It changes how fast the model writes and not what: every drafted token is verified by the model. It holds no
embedding, which is the model's own, and cannot be run without it. {size / 1e6:.1f} MB.

## How it was made

    {made["command"]}

- {data["train"]} texts written by the model itself at temperature {settings["temperature"]}
- prompts: {data["prompts"]}
- {settings["steps"]} updates{plans}, each of {settings["batch"]} texts
- loss `{settings["loss"]}`, seed {settings["seed"]}
- data hash `{data["hash"]}`
- commit `{made["git_commit"]}`, torch {versions["torch"]}, transformers {versions["transformers"]}

All settings are in `config.json` under `specproof`.

## How good it is

Exact expected acceptance (sum of min over the vocabulary) along the model's own text, on {data["held_out"]}
held-out texts ({evaluation["positions"]} positions), at the temperature they were written at and at 0:

| depth | temperature {evaluation["temperature"]} | temperature 0 |
| --- | --- | --- |
{depths}

Expected tokens per forward with chains of {settings["depth"]}: {evaluation["tokens_per_forward"]:.2f}.

Texts of other kinds and other temperatures give other numbers; the output's law is the model's in any case.
"""
