"""A bench as tables and sentences for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from specproof.bench.advice import Sentence
from specproof.bench.figures import MEAN, Figures
from specproof.bench.run import BenchResult
from specproof.bench.ways import BASE

if TYPE_CHECKING:
    from rich.console import Console

# Depths that a table has room for; all are in the JSON document.
DEPTHS = 4
MISSING = "–"


def print_result(console: Console, result: BenchResult) -> None:
    """Tables by temperature, the check of the texts, advice, and what was measured."""
    for temperature in temperatures(result):
        here = [one for one in result.figures if one.temperature == temperature]
        kinds = list(dict.fromkeys(one.kind for one in here))
        console.print(
            _ways_table(temperature, [one for one in here if one.kind == MEAN], result.wrong, len(kinds) - 1)
        )
        if len(kinds) > 2:
            console.print(_kinds_table(here, kinds))
        for sentence in result.advice:
            if sentence.temperature == temperature:
                console.print(f"{topic(sentence)}: {sentence.text}", style="bold" if sentence.kind == MEAN else "")
        console.print()
    for line in (*text_lines(result), *result.notes, *made_lines(result)):
        console.print(line, style="dim", soft_wrap=True)


def temperatures(result: BenchResult) -> list[float]:
    """In the order they were measured."""
    return list(dict.fromkeys(one.temperature for one in result.figures))


def topic(sentence: Sentence) -> str:
    """What a sentence is about."""
    return f"All kinds at temperature {sentence.temperature:g}" if sentence.kind == MEAN else sentence.kind


def text_lines(result: BenchResult) -> list[str]:
    """How the texts at temperature 0 compare, those that parted one by one."""
    if not result.checked:
        return ["no texts at temperature 0 were asked for, so none were compared; see specproof audit"]
    parted = len(result.parted)
    verdict = "all equal the plain ones" if not parted else f"parted from the plain ones in {parted} ways"
    lines = [f"{result.checked} speculative texts at temperature 0: {verdict}"]
    lines += [str(check) for check in result.parted]
    if not result.ok:
        lines.append("FAIL: speeds of the ways with DIFFERENT texts mean nothing")
    return lines


def made_lines(result: BenchResult) -> list[str]:
    """Model, machine, settings, versions, command."""
    made, settings = result.made, result.made["settings"]
    machine, forwards = made["machine"], result.forwards
    load = "" if machine["load"] is None else f", load {machine['load']} before"
    kinds = ", ".join(f"{count} {kind}" for kind, count in made["prompts"]["kinds"].items())
    narrow = forwards[min(forwards)]
    rules = ", ".join(f"{way}: {rule}" for way, rule in {one.way: one.rule for one in result.figures}.items())
    widths = ", ".join(f"{width}: {1000 * s:.1f} ms ({s / narrow:.2f}x)" for width, s in forwards.items())
    return [
        f"forward by width  {widths}",
        f"model {made['model']} ({made['parameters'] / 1e6:.0f} M parameters), {made['dtype']}, {made['device']}, "
        f"{made['threads']} threads of {machine['cores']} cores, {machine['processor']}{load}",
        f"rules  {rules}",
        f"prompts {made['prompts']['from']}: {kinds}; up to {settings['max_tokens']} tokens each, "
        f"{settings['repeats']} turns, seed {settings['seed']}, "
        f"draft lengths {'adaptive' if settings['adaptive'] else 'full'}, batch 1",
        ", ".join(f"{name} {version}" for name, version in made["versions"].items()),
        made["command"],
    ]


def _ways_table(temperature: float, found: Sequence[Figures], wrong: frozenset[str], kinds: int) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    of = "one kind of prompts" if kinds == 1 else f"mean of {kinds} kinds"
    table = Table(title=f"temperature {temperature:g}, {of}", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("drafter", overflow="fold")
    columns = ("tokens\nper s", "speed-\nup", "from–to", "pre-\ndicted", "tokens per\nforward")
    for column in (*columns, "acceptance\nby depth", "pays\nfrom"):
        table.add_column(column, justify="right")
    for one in found:
        name = f"{one.way} (WRONG TEXT)" if one.way in wrong else one.way
        table.add_row(
            name,
            number(one.tokens_per_second, "{:.1f}"),
            number(one.speedup, "{:.2f}x"),
            span(one),
            number(one.predicted_speedup, "{:.2f}x"),
            f"{one.tokens_per_forward:.2f}",
            depths(one),
            number(one.break_even, "{:.2f}"),
        )
    return table


def _kinds_table(found: Sequence[Figures], kinds: Sequence[str]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title="by kind: speed-up, tokens per forward", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("kind")
    ways = [way for way in dict.fromkeys(one.way for one in found) if way != BASE]
    table.add_column("plain\ntokens/s", justify="right")
    for way in ways:
        table.add_column(way, justify="right", overflow="fold")
    for kind in kinds:
        by_way = {one.way: one for one in found if one.kind == kind}
        cells = [f"{number(by_way[way].speedup, '{:.2f}x')}  {by_way[way].tokens_per_forward:.2f}" for way in ways]
        plain = number(by_way[BASE].tokens_per_second, "{:.1f}")
        table.add_row(kind, plain, *cells, end_section=kind == kinds[-2], style="bold" if kind == MEAN else "")
    return table


def span(one: Figures) -> str:
    """The least and the largest speed-up of a turn."""
    if one.speedup_low is None or one.way == BASE:
        return MISSING
    return f"{one.speedup_low:.2f}–{one.speedup_high:.2f}"


def depths(one: Figures) -> str:
    """Acceptance at the first depths."""
    shares = [
        f"{share:.2f}".removeprefix("0")
        for depth, share in sorted(one.acceptance_by_depth.items())
        if depth <= DEPTHS
    ]
    return " ".join(shares) or MISSING


def number(value: float | None, form: str) -> str:
    """A figure in its form; a dash where there is none."""
    return MISSING if value is None else form.format(value)
