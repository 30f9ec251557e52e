"""Print data: JSON for scripts; tables and lines for people."""

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
    fitted = _fitted(filled, widths, _terminal_width())
    if fitted is None:
        _print_blocks(filled)
        return
    click.secho(_line(filled, fitted), bold=True)
    for row in zip(*filled.values(), strict=True):
        wrapped = [_wrapped(text, width) for text, width in zip(row, fitted, strict=True)]
        for texts in zip_longest(*wrapped, fillvalue=""):
            click.echo(_line(texts, fitted))


def _terminal_width() -> int | None:
    """The columns of the terminal; None: the output goes elsewhere, and lines are not wrapped."""
    return get_terminal_size().columns if sys.stdout.isatty() else None


def _fitted(
    columns: Mapping[str, Sequence[str]], widths: Sequence[int], most: int | None
) -> Sequence[int] | None:
    """The widths of columns in a table of ``most`` characters, in which no word is broken; None:
    it does not fit."""
    fitted = list(widths)
    words = [
        max(_longest_word(text) for text in (title, *cells)) for title, cells in columns.items()
    ]
    while most is not None and sum(fitted) + len(_GAP) * (len(fitted) - 1) > most:
        room = [width - word for width, word in zip(fitted, words, strict=True)]
        if max(room) <= 0:
            return None
        fitted[room.index(max(room))] -= 1
    return fitted


def _longest_word(text: str) -> int:
    return max(map(len, text.split(" ")))


def _wrapped(text: str, width: int) -> list[str]:
    """The lines of a cell."""
    if len(text) <= width:
        return [text]
    return wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _print_blocks(columns: Mapping[str, Sequence[str]]) -> None:
    """Print each row as lines of a title and a value."""
    widest = max(map(len, columns))
    for row in zip(*columns.values(), strict=True):
        for title, text in zip(columns, row, strict=True):
            click.echo(f"{click.style(title.ljust(widest), bold=True)}{_GAP}{text}")
        click.echo()


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
