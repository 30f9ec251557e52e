"""Pages that are generated from the contract and the code, and what other pages say of commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from invoice_sandbox.base.errors import ERRORS
from invoice_sandbox.cli import main
from invoice_sandbox.openapi.load.documents import load_document
from tests.cases import in_turn
from tests.reference_docs import DOCS, served
from tests.test_docs import PAGES as ALL_PAGES


def test_every_operation_event_type_and_error_has_its_place() -> None:
    document = served()
    reference, types = (
        (DOCS / f"{name}.md").read_text() for name in ("api-reference", "event-types")
    )
    assert [path for path in document["paths"] if f" {path}\n" not in reference] == []
    assert [name for name in document["webhooks"] if f"| `{name}`" not in types] == []
    headings = re.findall(r"^### (\w+)$", (DOCS / "errors.md").read_text(), re.MULTILINE)
    assert ERRORS.keys() <= {*headings}
    assert len(headings) == len({*headings}), "an anchor leads to one error"


def test_what_the_specification_does_not_have_is_marked() -> None:
    reference, types = (
        (DOCS / f"{name}.md").read_text() for name in ("api-reference", "event-types")
    )
    assert "| `id` | path |" in reference
    assert "| `limit`\\* | query |" in reference
    assert "| `amount` | body |" in reference
    assert re.findall(r"^\| `([\w.]+)` \|", types, re.MULTILINE) == [
        "invoice.verified",
        "offer.received",
    ]


def test_the_way_to_live_names_every_check_of_the_plan() -> None:
    page = (DOCS / "go-live.md").read_text()
    used = set(re.findall(r"--only ([\w-]+)", page))
    plan = load_document(DOCS.with_name("acceptance") / "partner.yaml")
    checks = {check["id"] for check in plan["checks"]}
    assert used <= checks
    assert len(used) > 9


# Commands in the text


_COMMAND = re.compile(
    r"^(?:\$ )?(invoice-sandbox [^|&;<>#\n]+)|`(invoice-sandbox [^`\n]+)`", re.MULTILINE
)


def commands_in(page: Path) -> Iterator[list[str]]:
    """The words of every command of ours that a page shows in a line of its own or in backticks."""
    text = page.read_text()
    for line in _COMMAND.findall(text):
        command = "".join(line).rstrip("\\ ").split(" (")[0]
        if "'" not in command or command.count("'") % 2 == 0:
            yield shlex.split(command)[1:]


def resolved(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that the words name, and the options that follow. Raises KeyError."""
    command: click.Command = main
    context, rest = click.Context(main), list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.get_command(context, rest[0])
        if found is None:
            if command.invoke_without_command:
                break
            raise KeyError(rest[0])
        command, context, rest = found, click.Context(found), rest[1:]
    return command, [word.partition("=")[0] for word in rest if word.startswith("--")]


@in_turn("page", ALL_PAGES, ids=lambda one: one.name)
def test_every_command_of_a_page_exists_with_its_options(page: Path) -> None:
    for words in commands_in(page):
        command, used = resolved(words)
        known = {name for parameter in command.params for name in parameter.opts}
        passes_on = bool(command.context_settings.get("ignore_unknown_options"))
        assert passes_on or set(used) - known <= {"--help", "--version"}, words
