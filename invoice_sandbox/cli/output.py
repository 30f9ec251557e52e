"""How commands print: JSON for scripts; tables and lines for people."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any, Final

import click

from invoice_sandbox.base import jsonio

NOTHING: Final = "-"
"""How an absent value is shown."""

_GAP: Final = "  "

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
    columns = zip(table.columns, zip(*map(table.cells, rows), strict=True), strict=True)
    filled = {title: cells for title, cells in columns if set(cells) != {NOTHING}}
    widths = [max(map(len, (title, *cells))) for title, cells in filled.items()]
    if sys.stdout.isatty():
        widths = _fitting(widths, filled, get_terminal_size().columns)
    click.secho(_line(filled, widths), bold=True)
    for row in zip(*filled.values(), strict=True):
        folded = [_folded(text, width) for text, width in zip(row, widths, strict=True)]
        for texts in zip_longest(*folded, fillvalue=""):
            click.echo(_line(texts, widths))


def _fitting(widths: list[int], columns: Mapping[str, Sequence[str]], most: int) -> list[int]:
    """Return widths of columns with which a line has at most ``most`` characters, as far as titles
    and words stay whole."""
    least = [
        max(len(title), *(len(word) for text in texts for word in text.split(" ")))
        for title, texts in columns.items()
    ]
    while sum(widths) + len(_GAP) * (len(widths) - 1) > most and widths != least:
        spare = [width if width > some else 0 for width, some in zip(widths, least, strict=True)]
        widest = spare.index(max(spare))
        widths = [width - (place == widest) for place, width in enumerate(widths)]
    return widths


def _folded(text: str, width: int) -> list[str]:
    return [text] if len(text) <= width else wrap(text, width, break_on_hyphens=False)


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
