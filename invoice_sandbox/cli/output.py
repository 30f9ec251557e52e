"""How commands print: JSON for scripts; tables and lines for people."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from shutil import get_terminal_size
from typing import Any, Final

import click

from invoice_sandbox.base import jsonio

NOTHING: Final = "-"
"""How an absent value is shown."""

_ANY_WIDTH: Final = 100_000

Row = Mapping[str, Any]
Cell = str | Callable[[Row], Any]
"""What a column shows of a row: the member at a dotted path, or the result of a function."""


@dataclass(frozen=True)
class Table:
    """The columns of a table by title, and the text for no rows."""

    columns: Mapping[str, Cell]
    empty: str

    def cells(self, row: Row) -> list[str]:
        """The texts of one row."""
        return [_on_one_line(_value(row, cell)) for cell in self.columns.values()]


def _value(row: Row, cell: Cell) -> Any:
    if callable(cell):
        return cell(row)
    value: Any = row
    for name in cell.split("."):
        value = value.get(name)
    return value


def print_json(data: Any) -> None:
    """Print data as JSON; numbers keep their digits."""
    click.echo(jsonio.dumps_pretty(data), nl=False)


def plain(value: Any) -> str:
    """A value as text without control characters of a terminal."""
    match value:
        case None | "" | []:
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(map(plain, value))
        case dict():
            return ", ".join(f"{name} {plain(one)}" for name, one in value.items())
    return "".join(
        letter if letter.isprintable() or letter == "\n" else ascii(letter)[1:-1]
        for letter in str(value)
    )


def _on_one_line(value: Any) -> str:
    return plain(value).replace("\n", "\\n")


def print_table(table: Table, rows: Sequence[Row]) -> None:
    """Print a table without its empty columns. A terminal folds prose; identifiers stay whole."""
    if not rows:
        click.echo(table.empty)
        return
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    columns = zip(table.columns, zip(*map(table.cells, rows), strict=True), strict=True)
    filled = {title: cells for title, cells in columns if set(cells) != {NOTHING}}
    for title, cells in filled.items():
        is_prose = any(" " in text for text in cells)
        shown.add_column(title, overflow="fold", no_wrap=not is_prose)
    for row in zip(*filled.values(), strict=True):
        shown.add_row(*map(Text, row))
    console = Console(width=_ANY_WIDTH)
    if sys.stdout.isatty():
        least = Measurement.get(console, console.options, shown).minimum
        console.width = max(least, get_terminal_size().columns)
    with console.capture() as printed:
        console.print(shown)
    for line in printed.get().splitlines():
        click.echo(line.rstrip())


def print_lines(*lines: Iterable[Any]) -> None:
    """Print the values of each line, two spaces apart."""
    for line in lines:
        click.echo("  ".join(map(_on_one_line, line)))


def marker(row: Row) -> str:
    """Return the mark of the row that is in force."""
    return "*" if row["current"] else " "


def show_deleted(deleted: Row) -> None:
    """Print the id of what was deleted."""
    print_lines([deleted["id"], "deleted"])
