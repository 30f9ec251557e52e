"""Generates the tables of docs/scenarios.md and the sessions of docs/scenario-tutorial.md.

``python -m tests.scenario_docs`` updates both pages. A block after
``<!-- file: NAME -->`` is written to that file, a line ``invoice-sandbox serve ...`` starts a
server, and the console blocks after it use that server, all in one empty folder.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from invoice_sandbox.project.loader import Project, default_project, load_project
from invoice_sandbox.scenarios.actions import Action, Parameter
from invoice_sandbox.scenarios.checks import scenario_errors
from invoice_sandbox.scenarios.lifecycle import PREVIOUS
from tests.readme import commands, outputs, with_outputs

PAGE: Final = Path(__file__).parent.parent / "docs" / "scenarios.md"
TUTORIAL: Final = PAGE.parent / "scenario-tutorial.md"

_FILE: Final = re.compile(r"<!-- file: (\S+) -->\n```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SERVE: Final = re.compile(r"^```sh\n(invoice-sandbox serve .*)\n```$", re.MULTILINE)
_LOG: Final = re.compile(
    r"(?<=<!-- log of the server -->\n```text\n).*?(?=^```$)", re.MULTILINE | re.DOTALL
)
_COPY: Final = "cp -f --"
_BIN: Final = Path(sys.executable).parent
_READY: Final = re.compile(r"ready on (\S+) with key")


@cache
def project() -> Project:
    """The project that comes with the sandbox."""
    return load_project(default_project())


# What is generated from files


def generated() -> dict[str, str]:
    """The generated parts of the page, by the names in their marks."""
    return {
        "scenarios": _table(
            ("Scenario", "What happens", "To pass, the client"),
            _scenario_rows(),
        )
        + _not_for_one_invoice(),
        "actions": _table(("Action", "What it does", "Arguments in `with`"), _action_rows()),
        "arguments": _arguments(),
        "transitions": _table(("Trigger", "From", "To", "Event"), _transition_rows()),
    }


def with_generated(page: str) -> str:
    """The page with its generated parts made anew."""
    for name, text in generated().items():
        start, end = f"<!-- generated: {name} -->\n", f"<!-- end of {name} -->"
        assert page.count(start) == page.count(end) == 1, f"the page has no place for {name}"
        before, _, rest = page.partition(start)
        _, _, after = rest.partition(end)
        page = f"{before}{start}{text}{end}{after}"
    return page


def _table(titles: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    head, *lines = (f"| {' | '.join(line)} |\n" for line in (titles, *rows))
    return f"{head}|{'---|' * len(titles)}\n{''.join(lines)}"


def _scenario_rows() -> Iterator[Sequence[str]]:
    for name, one in sorted(project().scenarios.items()):
        ids = ", ".join(f"`{member}: {value}`" for member, value in one.begins.items())
        happens = f"{one.purpose} Magic id: {ids}." if ids else one.purpose
        yield f"`{name}`", happens, (one.passes or "-").removeprefix("The client ")


def _not_for_one_invoice() -> str:
    names = sorted(name for name, one in project().scenarios.items() if one.faults or one.calls)
    return f"\nNot for a single invoice: {_listed(names)}.\n"


def _action_rows() -> Iterator[Sequence[str]]:
    for name, action in sorted(project().actions.items()):
        if action.in_scenarios:
            summary = action.summary.removesuffix(" Raises ApiError.")
            summary = summary.removesuffix(" Raises ApiError for no such item.")
            yield f"`{name}`", summary.removesuffix(" Raises ApiError 400."), _accepted(action)


def _accepted(action: Action) -> str:
    usual = inspect.signature(action.function).parameters
    arguments = [
        f"`{one.name}`: {_type(one)}, {_default(one, usual[one.python_name].default)}"
        for one in action.parameters.values()
    ]
    return "; ".join(arguments) or "-"


def _type(parameter: Parameter) -> str:
    return "see below" if parameter.choices else parameter.type_name


def _default(parameter: Parameter, usual: Any) -> str:
    if parameter.required:
        return "required"
    if usual == "":
        return "optional"
    return f"default `{str(usual).lower() if isinstance(usual, bool) else usual}`"


def _arguments() -> str:
    """What else the steps of the shipped project may name: items, states, partners."""
    find = project().actions["find"].parameters
    partners = [one["id"] for one in project().fixtures["partners"]]
    lines = {
        "Items of the checklist, for `find`": find["item"].choices,
        "States of an item": find["state"].choices,
        "Partners": partners,
    }
    return "".join(f"- {what}: {_listed(words)}.\n" for what, words in lines.items())


def _listed(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _transition_rows() -> Iterator[Sequence[str]]:
    """A row for each trigger and target, with all statuses that it leads from."""
    machine = project().vocabulary.machine
    assert machine is not None
    rows: dict[tuple[str, str, str], list[str]] = {}
    for one in machine.transitions:
        to = "the status before" if one.to == PREVIOUS else f"`{one.to}`"
        event = "-" if one.event is None else f"`{one.event}`"
        rows.setdefault((f"`{one.trigger}`", to, event), []).append(one.from_)
    for (trigger, to, event), statuses in rows.items():
        yield trigger, _listed(statuses), to, event


@dataclass(frozen=True)
class Mistake:
    """A rule, and a change by which a valid scenario breaks it."""

    rule: str
    fine: str
    wrong: str


SCENARIO: Final = """\
name: my-scenario
purpose: The seller declines the offer.
begins: {sellerId: sim_seller_of_mine}
needs: {status: [Registered]}
conditions: {patience: P1D}
steps:
  - {on: start, after: PT1S, do: start-verification}
  - {on: start, after: PT2S, do: finish-verification}
  - {on: start, after: PT4S, do: request-financing}
  - {on: start, after: PT6S, do: make-offer, with: {partnerId: ptn_sandbox_everest}}
  - {on: offer.received, after: $patience, do: transition, with: {trigger: decline-offer}}
  - {on: {call: getInvoice, nth: 3}, do: revoke-calling-key}
faults:
  - {operation: listOffers, kind: status, status: 503}
deliveries:
  - {event: offer.received, kind: duplicate}
expects:
  - {that: The offer is read once., request: listOffers, times: 1}
"""

MISTAKES: Final = (
    Mistake("It is YAML.", "name: my-scenario", "name: [my-scenario"),
    Mistake("No key stands twice.", "needs:", "purpose: Once more.\nneeds:"),
    Mistake("Every key is known.", "conditions:", "condition:"),
    Mistake("What must be there is there.", "purpose: The seller declines the offer.\n", ""),
    Mistake("Values have the right form.", "PT1S", "1 second"),
    Mistake("The name is that of the file.", "name: my-scenario", "name: other-scenario"),
    Mistake("Kinds of event are known.", "on: offer.received", "on: offer.recieved"),
    Mistake("Actions are known.", "make-offer", "make-ofer"),
    Mistake("An action gets known arguments only.", "partnerId", "partner"),
    Mistake("An action gets its required arguments.", ", with: {trigger: decline-offer}", ""),
    Mistake("Arguments have the right type.", "ptn_sandbox_everest", "7"),
    Mistake("Triggers are known.", "decline-offer", "decline-ofer"),
    Mistake("Operations are known.", "call: getInvoice", "call: getInvoices"),
    Mistake("Members are known.", "sellerId", "seller"),
    Mistake("Statuses are known.", "[Registered]", "[Registred]"),
    Mistake("A step after an event says how long.", "on: start, after: PT1S", "on: start"),
    Mistake("A step with a request does not.", "nth: 3}", "nth: 3}, after: PT1S"),
    Mistake("Such a request is one with a key.", "call: getInvoice", "call: getHealth"),
    Mistake("A request does no move.", "revoke-calling-key", "accept-best-offer"),
    Mistake("No step waits too long.", "PT6S", "P4000D"),
    Mistake("Conditions that are used are named.", "$patience", "$patient"),
    Mistake("Conditions that are named are used.", "$patience", "P1D"),
    Mistake("A fault goes together.", "status: 503", "delay: PT1S"),
    Mistake("Every step has its moment.", "on: offer.received, after", "on: offer.expired, after"),
    Mistake("Its move is possible then.", "decline-offer", "become-overdue"),
    Mistake(
        "A loop takes time.",
        "  - {on: {call",
        "".join(
            f"  - {{on: {kind}, after: PT0S, do: transition, with: {{trigger: {trigger}}}}}\n"
            for kind, trigger in (
                ("offer.declined", "dispute"),
                ("invoice.disputed", "resolve-dispute"),
                ("invoice.dispute_resolved", "dispute"),
            )
        )
        + "  - {on: {call",
    ),
)


def broken_by(mistake: Mistake) -> list[str]:
    """What ``invoice-sandbox scenarios validate`` reports for the scenario with this mistake."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "my-scenario.yaml"
        file.write_text(SCENARIO.replace(mistake.fine, mistake.wrong, 1))
        errors = scenario_errors(file, project().vocabulary)
    return [str(error).replace(str(file), file.name) for error in errors]


# What is generated by running it


def played(page: str) -> str:
    """The page with what its commands print now, and what its servers say."""
    first, *rest = _SERVE.split(page)
    assert not commands(first), "the page asks something before there is a server"
    parts, logged = [first], ""
    with TemporaryDirectory() as name, contextlib.chdir(name):
        for line, part in zip(rest[::2], rest[1::2], strict=True):
            with serving_as_shown(line) as (url, log):
                parts += [f"```sh\n{line}\n```", _with_outputs(part, url)]
            logged += log.read_text()
    warned = dict.fromkeys(one for one in logged.splitlines() if one.startswith("WARNING"))
    warnings = "".join(f"{one}\n" for one in warned)
    return _LOG.sub(lambda _: warnings, "".join(parts))


@contextlib.contextmanager
def serving_as_shown(line: str) -> Iterator[tuple[str, Path]]:
    """Run a line that serves, on a free port: the address, and the file of what the server says.

    In the meantime ``invoice-sandbox`` is this one, and asks this server.
    """
    log = Path("server.log").absolute()
    program, *options = shlex.split(line)
    command = [str(_BIN / program), *options, "--port", "0"]
    with (
        log.open("w") as saying,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=saying, text=True) as server,
    ):
        try:
            assert server.stdout is not None
            ready = _READY.search(server.stdout.readline())
            assert ready is not None, log.read_text()
            with _environment(
                PATH=f"{_BIN}{os.pathsep}{os.environ['PATH']}", INVOICE_SANDBOX_URL=ready[1]
            ):
                yield ready[1], log
        finally:
            server.terminate()


def _with_outputs(part: str, url: str) -> str:
    """A part of the page with what its commands print, after the files before them are written."""
    texts: list[str] = []

    def copied(block: re.Match[str]) -> str:
        texts.append(block[2])
        source = Path(f"block-{len(texts)}")
        source.write_text(block[2])
        return f"```console\n$ {_COPY} {source} {block[1]}\n```"

    session = _FILE.sub(copied, part)
    asked = commands(session)
    printed = [
        output
        for command, output in zip(asked, outputs(session, url), strict=True)
        if not command.startswith(_COPY)
    ]
    return with_outputs(part, printed)


@contextlib.contextmanager
def _environment(**variables: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def main() -> None:
    """Write the pages as they should be now."""
    PAGE.write_text(with_generated(PAGE.read_text()))
    TUTORIAL.write_text(played(TUTORIAL.read_text()))


if __name__ == "__main__":
    main()
