"""`specproof audit numerics`: how far rounding moves a model's rows, by forward width, batch, dtype and cache."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING, Any

from specproof.cli.answers import add_answer_flags, check_html, give, replay_command
from specproof.cli.flags import add_model_flags, add_sampling_flags, prepare_torch, sampling_from
from specproof.errors import SpecproofError

if TYPE_CHECKING:
    from specproof.audit.numerics.result import NumericsResult

HEADS = ("setting", "TV mean", "median", "99 %", "largest", "KL mean", "|Δ log p|", "flips", "widest flip")


def numbers(text: str) -> tuple[int, ...]:
    """Whole numbers of "5", "1,5,9" or "1..16"."""
    if not re.fullmatch(r"\d+(\.\.\d+)?(,\d+(\.\.\d+)?)*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of whole numbers: give 5, 1,5,9 or 1..16")
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("..")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)


def add_parser(kinds: Any) -> None:
    """Register the command."""
    parser = kinds.add_parser(
        "numerics",
        help="how far rounding moves a row: by forward width, batch, dtype and cache",
        description="Read texts of a model again, several tokens a forward and several texts side by side, and "
        "compare every row with a reference in higher precision, and with plain decoding in the same precision. "
        "Exit code 0 rounding only, 1 a forward whose rows rounding does not explain, 3 no such baseline.",
        epilog="example: specproof audit numerics --dtype bfloat16 --width 1..8 --kv model,int8",
        allow_abbrev=False,
    )
    add_model_flags(parser)
    add_sampling_flags(parser)
    ways = parser.add_argument_group("what is compared")
    ways.add_argument(
        "--reference", default=None, metavar="DTYPE", help="float32, or float64 (default where --dtype is float32)"
    )
    ways.add_argument(
        "--reference-model", default=None, metavar="NAME", help="folder of the reference (default: the model)"
    )
    ways.add_argument(
        "--width", type=numbers, default=(1, 2, 5, 9, 16), metavar="LIST", help="as in 1,5,9 or 1..16"
    )
    ways.add_argument("--batch", type=numbers, default=(1, 4), metavar="LIST", help="texts in a forward (1,4)")
    ways.add_argument(
        "--kv",
        default="model",
        metavar="LIST",
        help="of model (default), float32, bfloat16, float16, float8, int8",
    )
    ways.add_argument("--tokens", type=int, default=256, metavar="N", help="positions to compare (default 256)")
    ways.add_argument("--length", type=int, default=48, metavar="N", help="tokens of a text (default 48)")
    ways.add_argument("--prompt", action="append", default=[], help="may be repeated (default: twenty)")
    add_answer_flags(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Audit a model's rows; the exit code is the verdict's."""
    check_html(args)
    prepare_torch(args)
    from specproof.audit.numerics.kept import KV
    from specproof.audit.numerics.run import Ways, audit_numerics
    from specproof.audit.prompts import PROMPTS
    from specproof.audit.white.forcing import reference_for
    from specproof.backends.hf import HFBackend
    from specproof.cli.numerics_picture import page
    from specproof.engine.loading import chat_tokens, load_model, load_tokenizer
    from specproof.errors import unknown

    kv = tuple(args.kv.split(","))
    for name in kv:
        if name not in KV:
            raise unknown("kv", name, KV)
    ways = Ways(kv, args.batch, args.width, args.tokens, args.length)
    params = _params(args)
    reference = args.reference or ("float32" if args.dtype in ("bfloat16", "float16") else "float64")
    model, tokenizer = load_model(args.model, args.dtype, args.device), load_tokenizer(args.model)
    other = load_model(args.reference_model or args.model, reference, args.device)
    prompts = [chat_tokens(tokenizer, text) for text in args.prompt or PROMPTS]
    result = audit_numerics(
        model,
        reference_for(HFBackend(other)),
        prompts,
        params,
        ways,
        names=(args.model, args.dtype, reference),
        announce=lambda line: print(line, file=sys.stderr, flush=True),
        replay=replay_command(),
    )
    return give(result.answer, args, table(result), further=result.settings, drawn=lambda: page(result))


def _params(args: argparse.Namespace) -> Any:
    """Sampling parameters; what ends or repeats texts is not used."""
    for name, usual in (
        ("max_tokens", 128),
        ("n", 1),
        ("logprobs", None),
        ("prompt_logprobs", None),
        ("stop", []),
    ):
        if getattr(args, name) != usual:
            flag = "--" + name.replace("_", "-")
            raise SpecproofError(f"{flag} does nothing in an audit of numerics: leave it out (--length, --tokens)")
    for name in ("bad_words", "json_schema", "regex", "grammar"):
        if getattr(args, name):
            raise SpecproofError(
                f"--{name.replace('_', '-')} is not honoured in an audit of numerics: leave it out"
            )
    return sampling_from(args)


def lines(result: NumericsResult, *, decoded: bool) -> list[tuple[str, ...]]:
    """One line of the quantile table for each setting."""
    from specproof.audit.numerics.moved import Summary

    found = []
    for each in result.measured:
        if decoded and each.setting == each.setting.plain:
            continue
        s = Summary.of(each.decoded if decoded else each.reference)
        shown = (s.tv[0], s.tv[1], s.tv[3], s.tv[4], s.kl[0], s.log[4])
        widest = f"{s.widest:.2g}" if s.flips else "-"
        found.append((str(each.setting), *(f"{value:.2g}" for value in shown), f"{s.flips}", widest))
    return found


def table(result: NumericsResult) -> str:
    """The ledger as text, the verdict last."""
    parts = []
    for decoded, other in ((False, f"the {result.reference} reference"), (True, "plain decoding")):
        rows = [HEADS, *lines(result, decoded=decoded)]
        if len(rows) == 1:
            continue
        widths = [max(len(row[i]) for row in rows) for i in range(len(HEADS))]
        parts.append(f"rows in {result.dtype} against {other}, {result.samples} positions")
        for name, *cells in rows:
            right = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
            parts.append("  " + "  ".join([name.ljust(widths[0]), *right]))
    return "\n".join([*parts, str(result.answer)])
