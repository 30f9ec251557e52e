"""``invoice-sandbox contract``: print it, list the assumptions, check another version."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import click

from invoice_sandbox.cli.options import FAILED, FILE, OFFLINE
from invoice_sandbox.cli.output import Table, print_json, print_table
from invoice_sandbox.openapi.diff import bad_examples, differences
from invoice_sandbox.openapi.load.documents import place_of
from invoice_sandbox.openapi.load.overlay import assumptions, overlay_problems
from invoice_sandbox.openapi.load.pointers import ContractError
from invoice_sandbox.openapi.load.reading import read_contract
from invoice_sandbox.openapi.load.yaml_12 import yaml_text
from invoice_sandbox.openapi.operation import compile_contract
from invoice_sandbox.project.code import handler_functions, operation_names
from invoice_sandbox.project.contracts import (
    base_document,
    control_names,
    merged_document,
    overlay_document,
)
from invoice_sandbox.project.fixtures import fixture_errors


@click.command()
@click.option("--project", **OFFLINE["--project"])
@click.option("--base", is_flag=True, help="Print the published contract without the assumptions.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="Format of the output.",
)
@click.option(
    "--assumptions",
    "with_assumptions",
    is_flag=True,
    help="Print the assumptions of this sandbox as a table.",
)
@click.option(
    "--check",
    "version",
    metavar="FILE",
    type=FILE,
    help="Compare another version of the published contract; status 1 if anything breaks.",
)
@click.option("--json", "as_json", is_flag=True, help="With --check: print JSON.")
def contract(
    project: Path,
    base: bool,
    form: str,
    with_assumptions: bool,
    version: Path | None,
    as_json: bool,
) -> None:
    """Print the served contract, or compare the next version.

    The served contract is the published document merged with the assumptions of this sandbox.

    \b
    invoice-sandbox contract --format json > contract.json
    invoice-sandbox contract --assumptions
    invoice-sandbox contract --check next-version.yaml
    """
    if version is not None:
        sys.exit(FAILED if check(project, version, as_json=as_json) else 0)
    if with_assumptions:
        print_assumptions(project)
    else:
        print_contract(project, base=base, form=form)


@dataclass(frozen=True)
class Finding:
    """One difference of another version of the contract, and its place."""

    breaking: bool
    place: str
    text: str


def print_contract(project: Path, *, base: bool, form: str) -> None:
    """Write the merged document (or only the published one) to stdout."""
    document = base_document(project) if base else merged_document(project)
    if form == "json":
        print_json(document)
    else:
        sys.stdout.write(yaml_text(document))


def print_assumptions(project: Path) -> None:
    """Write every assumption of the overlay as a table: the gap, what is assumed and why."""
    merged_document(project)  # what cannot be applied is not an assumption
    overlay = overlay_document(project)
    if overlay is None:
        click.echo("This project makes no assumptions: it has no openapi/overlay.yaml.")
        return
    print_table(_ASSUMPTIONS, [asdict(assumption) for assumption in assumptions(overlay)])


_ASSUMPTIONS: Final = Table(
    {
        "gap in the specification": "gap",
        "assumption and reason": lambda row: " ".join(row["reason"].split()),
        "place in the contract": "target",
    },
    empty="The overlay makes no assumptions.",
)


def check(project: Path, file: Path, *, as_json: bool) -> bool:
    """Print what ``file`` changes; True when anything would break."""
    found = sorted(compare(project, file), key=lambda finding: not finding.breaking)
    breaking = sum(finding.breaking for finding in found)
    if as_json:
        print_json({"breaking": breaking, "differences": [asdict(finding) for finding in found]})
        return breaking > 0
    for finding in found:
        mark = "BREAKS " if finding.breaking else "changes"
        click.echo(f"{mark}  {finding.place}  {finding.text}")
    if found:
        click.echo()
    click.echo(f"{len(found)} differences, {breaking} of them breaking.")
    return breaking > 0


def compare(folder: Path, file: Path) -> Iterator[Finding]:
    """Everything that differs or no longer fits when ``file`` is the published contract."""
    read = read_contract(file)
    theirs = read.document
    own_file = folder / "openapi" / "openapi.yaml"
    for difference in differences(base_document(folder), theirs):
        pointer = difference.pointer
        place = place_of(own_file, pointer) if difference.in_ours else read.place(pointer)
        yield Finding(difference.breaking, place, difference.text)
    overlay = overlay_document(folder)  # an action that does not fit changes nothing for a client
    fits = overlay is None or not list(overlay_problems(theirs, overlay))
    try:
        contract = compile_contract({**theirs, "webhooks": {}})
    except ContractError as error:
        if fits:
            yield Finding(True, str(file), str(error))
        return
    yield from _event_findings(file, theirs) if fits else ()
    yield from _handler_findings(folder, theirs)
    for problem in fixture_errors(folder / "fixtures", contract.schemas):
        yield Finding(True, problem.place, f"fixture: {problem.clause}")
    for note in bad_examples(contract.document, contract.schemas):
        bad = note.error(read.place)
        yield Finding(True, bad.place, bad.problem)


def _event_findings(file: Path, theirs: dict[str, Any]) -> Iterator[Finding]:
    """An event that no longer fits. It keeps nothing else from being looked at."""
    try:
        compile_contract(theirs)
    except ContractError as error:
        yield Finding(True, str(file), str(error))


def _handler_findings(folder: Path, document: dict[str, Any]) -> Iterator[Finding]:
    functions = handler_functions(folder / "handlers")
    names = operation_names(document) | control_names(folder)
    for name, (function, file) in functions.items():
        if name not in names:
            line = inspect.getsourcelines(function)[1]
            yield Finding(True, f"{file}:{line}", f"handler {name} has no operation any more")
