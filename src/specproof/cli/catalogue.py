"""The table of `specproof audit self-test`: a fault a line, and what its audit said."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from specproof.audit.selftest import SelfTestResult, SelfTestRow

_WIDTH = 100


def print_catalogue(result: SelfTestResult, console: Console | None = None) -> None:
    """Print faults, then controls, then the verdict; at most 100 columns wide."""
    console = console or Console(highlight=False)
    width = min(_WIDTH, console.width)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), width=width)
    for column in ("id", "fault", "kind", "level"):
        table.add_column(column, no_wrap=column != "fault", ratio=1 if column == "fault" else None)
    for column in ("TV found", "TV known"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    faults = [row for row in result.rows if not row.control]
    for row in faults:
        table.add_row(*_cells(row))
    table.add_section()
    for row in result.rows[len(faults) :]:
        table.add_row(*_cells(row))
    console.print(table)
    for row in result.rows:
        if not row.ok:
            console.print(str(row), style="bold red", soft_wrap=True, markup=False)
    console.print(str(result), style="bold", width=width)


def _cells(row: SelfTestRow) -> tuple[str, ...]:
    style = "green" if row.ok else "bold red"
    found, expected = ("" if value is None else _short(value) for value in (row.tv, row.expected))
    return (
        row.id,
        row.description,
        row.kind,
        row.level,
        found,
        expected,
        f"[{style}]{row.verdict}[/]",
    )


def _short(distance: float) -> str:
    # Rounding is shown as such, not as a distance.
    return f"{distance:.6f}" if distance >= 1e-6 or distance == 0 else f"{distance:.0e}"
