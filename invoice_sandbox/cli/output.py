"""Print data: JSON for scripts; tables and lines for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from invoice_sandbox.base import jsonio

NOTHING: Final = "-"
"""The text for an absent value."""

_GAP: Final = "  "

Row = Mapping[str, Any]
Cell = str | Callable[[Row], Any]
"""The content of a column: the member at a dotted path, or the result of a function."""


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
            return ", ".join(f"{name} {plain(member)}" for name, member in value.items())
    return "".join(
        letter if letter.isprintable() or letter == "\n" else ascii(letter)[1:-1]
        for letter in str(value)
    )


def _on_one_line(value: Any) -> str:
    return plain(value).replace("\n", "\\n")


def print_table(table: Table, rows: Sequence[Row]) -> None:
    """Print a table without its empty columns."""
    if not rows:
        click.echo(table.empty)
        return
    columns = zip(table.columns, zip(*map(table.cells, rows), strict=True), strict=True)
    filled = {title: cells for title, cells in columns if set(cells) != {NOTHING}}
    widths = [max(map(len, (title, *cells))) for title, cells in filled.items()]
    click.secho(_line(filled, widths), bold=True)
    for row in zip(*filled.values(), strict=True):
        click.echo(_line(row, widths))


def _line(texts: Iterable[str], widths: Iterable[int]) -> str:
    padded = (text.ljust(width) for text, width in zip(texts, widths, strict=True))
    return _GAP.join(padded).rstrip()


def print_lines(*lines: Iterable[Any]) -> None:
    """Print the values of each line, two spaces apart."""
    for line in lines:
        click.echo(_GAP.join(map(_on_one_line, line)))


def marker(row: Row) -> str:
    """Return the mark of the row that is in force."""
    return "*" if row["current"] else " "


def show_deleted(deleted: Row) -> None:
    """Print the id of what was deleted."""
    print_lines([deleted["id"], "deleted"])
