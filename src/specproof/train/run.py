"""From a target and prompts to a head: texts, updates, evaluation, checkpoint. Stopped, it goes on there."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

import torch

from specproof.backends.hf import HFBackend
from specproof.drafters.checkpoint import WEIGHTS
from specproof.drafters.eagle.checkpoint import save_head
from specproof.drafters.medusa.checkpoint import save_medusa
from specproof.drafters.medusa.head import MedusaHead
from specproof.engine.default_model import HUB_NAME
from specproof.engine.engine import Engine
from specproof.engine.loading import end_tokens, load_model, load_tokenizer
from specproof.errors import SpecproofError
from specproof.train.data import SHARD, Data, Sample, data_hash, split
from specproof.train.evaluate import Evaluation, agreement, evaluate
from specproof.train.prompts import built_in_prompts, read_prompts
from specproof.train.provenance import model_card, provenance
from specproof.train.settings import TrainSettings
from specproof.train.start import frequent_tokens, new_head, new_medusa
from specproof.train.teacher import Teacher
from specproof.train.trainer import Trainer

# Told of the stage, what is done of it, how much there is, and what there is to say about it.
Report = Callable[[str, int, int, str], None]


@dataclass(frozen=True)
class Job:
    """What is trained, and where it goes.

    Attributes:
        model, dtype, device: as for `load_model`.
        out: folder of the head; texts, states and a log stand below it.
        prompts: a file of prompts, one a line; the built-in ones if none is given.
        memory: GiB for what the target said about the texts; those beyond it are scored again in every epoch.
    """

    model: str
    out: Path
    prompts: Path | None = None
    dtype: str = "float32"
    device: str = "cpu"
    memory: float = 4.0

    def __post_init__(self) -> None:
        if not 0 <= self.memory < inf:
            raise SpecproofError(f"--memory {self.memory!r} is not allowed: give a number of GiB >= 0")


def train(job: Job, settings: TrainSettings, report: Report = lambda *_: None) -> Evaluation:
    """Train a head, or go on with it; returns the evaluation of the finished one.

    Raises:
        SpecproofError: something cannot be read or written, or the folder holds another run.
    """
    prompts = built_in_prompts() if job.prompts is None else read_prompts(job.prompts)
    model = load_model(job.model, job.dtype, job.device).requires_grad_(False)
    try:
        job.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SpecproofError(f"cannot write into {job.out}: {error.strerror}; name another folder") from error
    samples = _texts(job, model, prompts, settings, report)
    learned, held_out = split(samples, settings.held_out, len(prompts))
    drafted = frequent_tokens(learned, settings.draft_vocabulary, model.get_output_embeddings().weight.shape[0])
    new = new_medusa if settings.method == "medusa" else new_head
    head = new(model, _public_name(job.model), drafted, settings)
    teacher = Teacher(model, head.taps, torch.tensor(drafted), int(job.memory * 2**30))
    trainer = Trainer(head, teacher, learned, settings)
    about = settings.as_dict() | {"data": data_hash(samples)}
    trainer.resume(job.out / "state", about)
    _shorten_log(job.out, trainer.done)
    result = _updates(trainer, held_out, job.out, about, report)
    data = {"hash": about["data"], "train": len(learned), "held_out": len(held_out)}
    data["prompts"] = "built-in" if job.prompts is None else job.prompts.name
    agreed = agreement(head, teacher, held_out, settings.depth)
    made = provenance(settings, _public_name(job.model), data, result, agreed)
    made["plans"] = trainer.plans
    if isinstance(head, MedusaHead):
        head.config = replace(head.config, provenance=made)
        save_medusa(head, job.out)
    else:
        head.config = replace(head.config, provenance=made)
        save_head(head, job.out)
    card = model_card(made, (job.out / WEIGHTS).stat().st_size)
    (job.out / "README.md").write_text(card, encoding="utf-8")
    return result


def _texts(job: Job, model: Any, prompts: Sequence[str], settings: TrainSettings, report: Report) -> list[Sample]:
    """The samples; the model is asked for those that are not on disk."""
    data = Data(job.out / "data", prompts, settings, _public_name(job.model))
    tokenizer = load_tokenizer(job.model)
    # With so many rows in a forward, drafted tokens would only cost.
    engine = Engine(
        HFBackend(model), "none", tokenizer=tokenizer, eos=end_tokens(model, tokenizer), max_batch=2 * SHARD
    )
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        report("texts", done, settings.samples, "")

    data.generate(engine, advance)
    return data.samples()


def _updates(
    trainer: Trainer, held_out: Sequence[Sample], out: Path, about: dict[str, Any], report: Report
) -> Evaluation:
    settings = trainer.settings
    result = None
    while trainer.done < settings.steps:
        loss = trainer.step()
        done = trainer.done
        _log(out, {"step": done, "loss": loss})
        report("updates", done, settings.steps, f"loss {loss:.4f}")
        result = None
        if done % settings.evaluate_every == 0 or done == settings.steps:
            result = _evaluated(trainer, held_out, out)
            report("held out", done, settings.steps, str(result))
        if done % settings.save_every == 0 or done == settings.steps:
            trainer.save(out / "state", about)
    return result or _evaluated(trainer, held_out, out)


def _evaluated(trainer: Trainer, held_out: Sequence[Sample], out: Path) -> Evaluation:
    settings = trainer.settings
    result = evaluate(trainer.head, trainer.teacher, held_out, settings.depth, settings.temperature)
    _log(out, {"step": trainer.done, "held_out": result.as_dict()})
    return result


def _shorten_log(out: Path, done: int) -> None:
    """Drop what was logged after the state that a run goes on from: it will be done again."""
    path = out / "log.jsonl"
    if path.exists():
        lines = path.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if line.endswith("}") and json.loads(line)["step"] <= done]
        path.write_text("".join(line + "\n" for line in kept), encoding="utf-8")


def _log(out: Path, entry: dict[str, Any]) -> None:
    with (out / "log.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def _public_name(model: str) -> str:
    """What a head says it is for: the default model by the name that others know."""
    return HUB_NAME if model == "default" else model
