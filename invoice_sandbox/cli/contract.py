"""``invoice-sandbox contract``: print it, list the assumptions, check another version."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import click

from invoice_sandbox.acceptance.reports import printable
from invoice_sandbox.base.errors import UserError
from invoice_sandbox.cli.options import FAILED, OFFLINE, Document
from invoice_sandbox.cli.output import Table, print_json, print_table
from invoice_sandbox.openapi.diff import BREAKS, CHANGES, MAY, bad_examples, differences
from invoice_sandbox.openapi.load.documents import Places
from invoice_sandbox.openapi.load.openapi_30 import as_31
from invoice_sandbox.openapi.load.operations import named_operations
from invoice_sandbox.openapi.load.overlay import assumptions
from invoice_sandbox.openapi.load.pointers import ContractError
from invoice_sandbox.openapi.load.reading import ReadContract, check_openapi, read_as_written
from invoice_sandbox.openapi.load.text import DocumentError, InvalidDocumentError
from invoice_sandbox.openapi.load.yaml_12 import yaml_text
from invoice_sandbox.project.code import handler_functions, operation_names
from invoice_sandbox.project.contracts import (
    base_document,
    compile_apart,
    control_names,
    merge_errors,
    merged_document,
    overlay_document,
)
from invoice_sandbox.project.loader import project_errors


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
    metavar="FILE|URL",
    type=Document(),
    help="Compare another version of the published contract, and check the project with it; "
    "status 1 if anything breaks.",
)
@click.option("--json", "as_json", is_flag=True, help="With --check: print JSON.")
@click.option(
    "--junit",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="With --check: write JUnit XML to this file, too.",
)
def contract(
    project: Path,
    base: bool,
    form: str,
    with_assumptions: bool,
    version: Path | None,
    as_json: bool,
    junit: Path | None,
) -> None:
    """Print the served contract, or compare the next version.

    The served contract is the published document merged with the assumptions of this sandbox.

    \b
    invoice-sandbox contract --format json > contract.json
    invoice-sandbox contract --assumptions
    invoice-sandbox contract --check next-version.yaml
    """
    if version is not None:
        sys.exit(FAILED if check(project, version, as_json=as_json, junit=junit) else 0)
    if as_json or junit is not None:
        raise click.UsageError("--json and --junit need --check FILE")
    if with_assumptions:
        print_assumptions(project)
    else:
        print_contract(project, base=base, form=form)


@dataclass(frozen=True)
class Finding:
    """One difference of another version of the contract, its verdict, and its place."""

    verdict: str
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


def check(project: Path, file: Path, *, as_json: bool = False, junit: Path | None = None) -> bool:
    """Print what ``file`` changes; True when anything would break."""
    found = sorted(
        dict.fromkeys(compare(project, file)),
        key=lambda finding: _WORST_FIRST.index(finding.verdict),
    )
    counts = dict.fromkeys(_WORST_FIRST, 0)
    counts |= Counter(finding.verdict for finding in found)
    if junit is not None:
        junit.write_bytes(_as_junit(file, found))
    if as_json:
        rows = [{"breaking": finding.verdict == BREAKS, **asdict(finding)} for finding in found]
        print_json({"breaking": counts[BREAKS], "differences": rows})
        return counts[BREAKS] > 0
    for finding in found:
        click.echo(f"{_MARKS[finding.verdict]}  {finding.place}  {finding.text}")
    if found:
        click.echo()
    more = f"; {counts[MAY]} may break a client" if counts[MAY] else ""
    click.echo(f"{len(found)} differences, {counts[BREAKS]} of them breaking{more}.")
    return counts[BREAKS] > 0


_MARKS: Final = {BREAKS: "BREAKS ", MAY: "may    ", CHANGES: "changes"}
_WORST_FIRST: Final = list(_MARKS)


def _as_junit(file: Path, found: Sequence[Finding]) -> bytes:
    """Return the findings as JUnit XML: one case for each, or one that passes if there are none."""
    breaks = [finding for finding in found if finding.verdict == BREAKS]
    counts = {"tests": str(len(found) or 1), "failures": str(len(breaks))}
    suite = ElementTree.Element("testsuite", {"name": printable(str(file)), **counts})
    for finding in found or [Finding(CHANGES, str(file), "no differences")]:
        names = {"classname": finding.place, "name": finding.text}
        names = {key: printable(text) for key, text in names.items()}
        case = ElementTree.SubElement(suite, "testcase", names)
        if finding.verdict == BREAKS:
            ElementTree.SubElement(case, "failure", {"message": names["name"]})
    text: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return text


def compare(folder: Path, file: Path) -> Iterator[Finding]:
    """Everything that differs or no longer fits when ``file`` is the published contract."""
    read = read_as_written(file)
    own_file, places = folder / "openapi" / "openapi.yaml", Places()
    for difference in differences(base_document(folder), as_31(read.document)):
        pointer = difference.pointer
        place = places.of(own_file, pointer) if difference.in_ours else read.place(pointer)
        yield Finding(difference.verdict, place, difference.text)
    published = replace(read, document=as_31(deepcopy(read.document)))
    for error in merge_errors(folder, read.document):
        yield from _findings(error, "")
    yield from _misfits(folder, replace(read, document=as_31(read.document)), published)


def _misfits(folder: Path, merged: ReadContract, published: ReadContract) -> Iterator[Finding]:
    """All that keeps a project from serving the merged next version, and its bad examples.

    If that version is invalid itself, what is published stands for it in all other checks.
    """
    yield from _handler_findings(folder, merged)
    for read in (merged, published):
        try:
            check_openapi(read.document, folder, read.place)
            contract = compile_apart(read)
        except (ContractError, DocumentError) as error:
            yield from _findings(error, read.place(()))
            continue
        for problem in project_errors(folder, contract):
            yield from _findings(problem, str(folder))
        for note in bad_examples(contract.document, contract.schemas):
            yield from _findings(note.error(read.place), "")
        return


def _findings(error: UserError, place: str) -> Iterator[Finding]:
    """Yield one finding for each line of an error, which knows its place or is at ``place``."""
    if isinstance(error, InvalidDocumentError):
        yield from (Finding(BREAKS, *line.split(": ", 1)) for line in error.lines)
    elif isinstance(error, DocumentError):
        yield Finding(BREAKS, error.place, error.clause)
    else:
        yield Finding(BREAKS, place, str(error))


def _handler_findings(folder: Path, read: ReadContract) -> Iterator[Finding]:
    """Handlers without an operation, and operations that lose theirs or are new without one."""
    functions = handler_functions(folder / "handlers")
    names = operation_names(read.document)
    for name, (function, file) in functions.items():
        if name not in names | control_names(folder):
            line = inspect.getsourcelines(function)[1]
            yield Finding(BREAKS, f"{file}:{line}", f"handler {name} has no operation any more")
    before = operation_names(merged_document(folder)).keys() - functions
    places = named_operations(read.document)
    for name in [name for name in names if functions and name not in {*functions, *before}]:
        path, method, _ = places[names[name]]
        text = f"operation {names[name]} has no handler {name}: it responds from the contract"
        yield Finding(CHANGES, read.place(("paths", path, method)), text)
