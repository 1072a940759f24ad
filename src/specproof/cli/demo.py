"""`specproof demo`: three prompts, plain and speculative decoding side by side in one run, then the audit."""

from __future__ import annotations

import argparse
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from specproof.cli.flags import add_model_flags, prepare_torch
from specproof.errors import SpecproofError
from specproof.types import SamplingParams

if TYPE_CHECKING:
    from rich.console import Console

    from specproof.engine.engine import Engine
    from specproof.engine.stats import Statistics

_RECORDS = """\
id,name,city,score
1041,Marta Olsen,Bergen,88.5
1042,Tomas Novak,Brno,91.0
1043,Aiko Tanaka,Kobe,79.25
1044,Liam Byrne,Cork,84.0
1045,Ines Duarte,Porto,93.5
"""

PROMPTS: tuple[tuple[str, str], ...] = (
    ("copy", f"Repeat the following text exactly, all lines, nothing else:\n\n{_RECORDS}"),
    ("explain", "Explain in a few sentences why the sky is blue."),
    ("story", "Write the beginning of a story about a lighthouse keeper who finds a map."),
)
# Of the audit behind the table; `specproof audit` goes further.
_INSTANCES = 50


class Run(NamedTuple):
    """One prompt decoded one way, several times: median seconds, and what the last time gave."""

    seconds: float
    tokens: int
    text: str
    stats: Statistics | None

    @property
    def speed(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "demo",
        help="plain and speculative decoding side by side, then the exact audit",
        description="Three prompts at temperature 0 by transformers' own generate, by this engine without "
        "speculation, and with it, taking turns in one run; then the exact audit of rules and engine.",
        allow_abbrev=False,
    )
    add_model_flags(parser)
    parser.add_argument("--max-tokens", type=int, default=128, help="tokens per prompt (default 128)", metavar="N")
    parser.add_argument("--repeats", type=int, default=3, help="times each is run; medians count (default 3)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Decode, print the table, audit."""
    if args.repeats < 1:
        raise SpecproofError(f"--repeats {args.repeats} is not allowed: give a whole number >= 1")
    from rich.console import Console

    params = SamplingParams(temperature=0, max_tokens=args.max_tokens)
    console = Console(highlight=False)
    prepare_torch(args)
    from specproof.engine.engine import Engine
    from specproof.engine.loading import load_engine

    console.print(f"Loading {args.model} in {args.dtype} …", style="dim")
    fast = load_engine(args.model, drafter="ngram", dtype=args.dtype, device=args.device)
    plain = Engine(fast.target, "none", tokenizer=fast.tokenizer, eos=fast.eos)
    rows = []
    for name, prompt in PROMPTS:
        console.rule(f"{name}: {prompt.splitlines()[0]}", align="left")
        rows.append((name, *_compare(console, plain, fast, prompt, params, args.repeats)))
    _print_table(console, rows)
    return _audit(console)


def _compare(
    console: Console, plain: Engine, fast: Engine, prompt: str, params: SamplingParams, repeats: int
) -> tuple[Run, Run, Run]:
    """All three ways in turn, several times; the first speculative one is streamed."""
    from specproof.engine.loading import chat_tokens

    tokens = chat_tokens(fast.tokenizer, prompt)
    ways: tuple[list[Run], list[Run], list[Run]] = ([], [], [])
    for turn in range(repeats):
        ways[0].append(_transformers(fast, tokens, params))
        ways[1].append(_decode(plain, tokens, params, None))
        ways[2].append(_decode(fast, tokens, params, console if turn == 0 else None))
    theirs, slow, quick = (w[-1]._replace(seconds=median(one.seconds for one in w)) for w in ways)
    same = "the same text" if slow.text == quick.text else "another text (a near-tie fell the other way)"
    console.print(f"Plain decoding of this engine gives {same}.", style="dim")
    return theirs, slow, quick


def _decode(engine: Engine, prompt: list[int], params: SamplingParams, console: Console | None) -> Run:
    start = perf_counter()
    if console is None:
        result = engine.generate([prompt], params)[0]
    else:
        for result in engine.stream(prompt, params):
            console.print(result.delta, end="", markup=False, soft_wrap=True)
    seconds = perf_counter() - start
    if console is not None:
        console.print()
    return Run(seconds, len(result.tokens), result.text, result.stats)


def _transformers(engine: Engine, prompt: list[int], params: SamplingParams) -> Run:
    import torch

    model = engine.target.model  # type: ignore[attr-defined]
    ids = torch.tensor([prompt], device=model.device)
    start = perf_counter()
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=params.max_tokens, do_sample=False
    )
    seconds = perf_counter() - start
    new = out[0, len(prompt) :].tolist()
    return Run(seconds, len(new), engine.tokenizer.decode(new, skip_special_tokens=True), None)


def _print_table(console: Console, rows: list[tuple[str, Run, Run, Run]]) -> None:
    from rich.table import Table

    table = Table(title="tokens per second, temperature 0, medians of runs taking turns")
    table.add_column("prompt")
    speeds = ("trans-\nformers", "plain", "specu-\nlative", "plain /\ntransf.", "specul. /\nplain")
    for column in ("tokens", *speeds, "tokens per\nforward", "accept-\nance"):
        table.add_column(column, justify="right")
    for name, theirs, slow, quick in rows:
        assert quick.stats is not None
        table.add_row(
            name,
            str(quick.tokens),
            *(f"{run.speed:.1f}" for run in (theirs, slow, quick)),
            f"{slow.speed / theirs.speed:.2f}x",
            f"{quick.speed / slow.speed:.2f}x",
            f"{quick.stats.tokens_per_forward:.2f}",
            f"{quick.stats.acceptance:.2f}",
        )
    console.print(table)


def _audit(console: Console) -> int:
    """Verdicts on every rule and on the engine; the speed above means nothing without them."""
    from specproof.audit.engine_suite import audit_engines
    from specproof.audit.rules import audit_rule
    from specproof.audit.selftest import audit_mutants
    from specproof.rules import sound_rules

    console.rule("Is it lossless? The exact audit", align="left")
    results = []
    for rule in sound_rules():
        results.append(audit_rule(rule, _INSTANCES))
        console.print(str(results[-1]), soft_wrap=True)
    engines = [result for _, result in audit_engines(drafters=("ngram", "model"))]
    worst = max(engines, key=lambda result: result.tv)
    paths = sum(result.paths for result in engines)
    console.print(f"{len(engines)} engines, {paths} paths in all; the worst: {worst}", soft_wrap=True)
    mutants = [result for _, result in audit_mutants()]
    caught = sum(not result.ok for result in mutants)
    least = min(result.tv for result in mutants)
    console.print(f"{caught} of {len(mutants)} planted faults caught, the smallest with TV {least:.2g}")
    ok = all(r.ok for r in results) and all(r.ok for r in engines) and caught == len(mutants)
    console.print("Verdict: EXACT" if ok else "Verdict: NOT LOSSLESS", style="bold")
    return 0 if ok else 1
