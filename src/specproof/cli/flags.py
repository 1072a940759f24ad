"""Flags that several commands share; sampling flags are derived from the fields of SamplingParams."""

from __future__ import annotations

import argparse
import sys
from dataclasses import Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specproof.errors import SpecproofError
from specproof.types import SamplingParams

if TYPE_CHECKING:
    from specproof.engine.engine import Engine


def _bias(text: str) -> tuple[int, float]:
    """TOKEN:BIAS, of a token's number and what is added to its logit."""
    token, _, bias = text.partition(":")
    try:
        return int(token), float(bias)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not TOKEN:BIAS, as in 42:-1.5") from None


def _definition(text: str) -> str:
    """The content of a file; a JSON object stands for itself."""
    if text.lstrip().startswith("{"):
        return text
    try:
        return Path(text).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"cannot read {text!r} ({error}); name a file") from error


# What a field's annotation is read as; `from __future__ import annotations` keeps them as text.
_READ: dict[str, Any] = {"float": float, "int": int, "int | None": int, "str | None": str}
# Fields that are read from a file.
_FILES = ("json_schema", "grammar")
# Fields with several values: the flag may be repeated, and each time reads one of them.
_REPEATED: dict[str, Any] = {"logit_bias": _bias, "stop_token_ids": int, "stop": str, "bad_words": str}


def add_sampling_flags(parser: argparse.ArgumentParser) -> None:
    """One flag for each field of SamplingParams that has a help text, with its default."""
    group = parser.add_argument_group("sampling")
    for field in _flagged():
        flag = "--" + field.name.replace("_", "-")
        text = field.metadata["help"]
        if field.type == "bool":
            group.add_argument(flag, action="store_true", help=text)
        elif field.name in _REPEATED:
            read = _REPEATED[field.name]
            shown = "TEXT" if read is str else "N"
            group.add_argument(flag, action="append", type=read, default=[], help=text, metavar=shown)
        else:
            read = _definition if field.name in _FILES else _READ[str(field.type)]
            shown = {str: "TEXT", _definition: "FILE"}.get(read, "N")
            text += "" if field.default is None else f" (default {field.default})"
            group.add_argument(flag, type=read, default=field.default, help=text, metavar=shown)


def sampling_from(args: argparse.Namespace) -> SamplingParams:
    """The parameters that the flags ask for."""
    values = {field.name: getattr(args, field.name) for field in _flagged()}
    biases = dict(values["logit_bias"])
    if len(biases) < len(values["logit_bias"]):
        given = [token for token, _ in values["logit_bias"]]
        twice = next(token for token in given if given.count(token) > 1)
        raise SpecproofError(f"--logit-bias names token {twice} more than once; give each token one bias")
    return SamplingParams(**values | {"logit_bias": biases})


def _flagged() -> list[Field[Any]]:
    return [field for field in fields(SamplingParams) if "help" in field.metadata]


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    """Which model, and how it is run."""
    group = parser.add_argument_group("model")
    group.add_argument(
        "--model", default="default", help="folder, hub name, or 'default' (SmolLM2-135M-Instruct)", metavar="NAME"
    )
    group.add_argument("--dtype", default="float32", help="float32 (default), bfloat16, float16 or float64")
    group.add_argument("--device", default="cpu", help="where the models live, in torch's words (default cpu)")
    group.add_argument("--threads", type=int, default=None, help="processor threads (default: torch's choice)")


def add_speculation_flags(parser: argparse.ArgumentParser) -> None:
    """Who drafts, and who judges."""
    group = parser.add_argument_group("speculation")
    group.add_argument(
        "--drafter",
        default="auto",
        help="none, ngram, suffix, replay, early_exit, model, eagle3, hybrid, medusa, dflash, or auto (default): "
        "hybrid if a head comes with the model, else ngram",
        metavar="NAME",
    )
    group.add_argument(
        "--draft-model",
        default=None,
        help="the smaller model, the head, or the file of old rollouts for replay",
        metavar="NAME",
    )
    group.add_argument(
        "--draft-vocabulary",
        choices=["same", "intersection"],
        default="same",
        help="tokens of the smaller model: the same as the model's, or any (it drafts those that both have)",
    )
    group.add_argument(
        "--draft-shape",
        default=None,
        help="chain:N, dynamic, best_first (medusa, dflash), sequoia:A,B,… (the best static tree where the first, "
        "second, … child is accepted that often), sequoia, which measures that first, or mixed:N (dynamic for "
        "greedy texts, distinct draws for others; default of hybrid; elsewhere a chain)",
        metavar="SHAPE",
    )
    group.add_argument(
        "--rule",
        default="auto",
        help="verification rule, with numbers as in lenience:0.5, or auto",
        metavar="NAME",
    )
    group.add_argument(
        "--allow-lossy", action="store_true", help="take a rule that changes the model's law; results say so"
    )
    group.add_argument(
        "--no-adaptive", action="store_true", help="draft the full length in every step, whether it pays or not"
    )


def engine_from(args: argparse.Namespace, **options: Any) -> Engine:
    """The engine that the flags of model and speculation ask for, with further options of `Engine`."""
    from specproof.engine.heads import default_drafter
    from specproof.engine.loading import load_engine

    if args.drafter == "auto":
        args.drafter = default_drafter(args.model)  # what is printed later is what ran
    engine = load_engine(
        args.model,
        drafter=args.drafter,
        draft_model=args.draft_model,
        vocabulary=args.draft_vocabulary,
        shape=args.draft_shape,
        rule=args.rule,
        dtype=args.dtype,
        device=args.device,
        allow_lossy=args.allow_lossy,
        adaptive=not args.no_adaptive,
        **options,
    )
    if args.draft_shape is not None and engine.shape != args.draft_shape:
        print(f"measured: --draft-shape {engine.shape}", file=sys.stderr)
    args.draft_shape = engine.shape
    return engine


def write_file(flag: str, path: Path, text: str) -> None:
    """Write what `flag` asked for.

    Raises:
        SpecproofError: the file cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SpecproofError(
            f"cannot write {flag} {path}: {error.strerror}; name a file in an existing folder"
        ) from error


def prepare_torch(args: argparse.Namespace) -> None:
    """Thread count, and no progress bars or advice from libraries between our own lines."""
    if args.threads is not None and args.threads < 1:
        raise SpecproofError(f"--threads {args.threads} is not allowed: give a whole number >= 1")
    import torch
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    if args.threads is not None:
        torch.set_num_threads(args.threads)
