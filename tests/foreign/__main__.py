"""``python -m tests.foreign`` reads what others have made, and brings
docs/internals/third-party-documents.md up to date; ``--bounded`` reads a few, and writes nothing.

Ends with 1 unless every valid document starts, and every other one starts or is rejected with its
places.
"""

from __future__ import annotations

import re
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from openapi_spec_validator import OpenAPIV30SpecValidator, OpenAPIV31SpecValidator

from invoice_sandbox.base.errors import UserError
from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.project.loader import load_contract
from tests.foreign import packages
from tests.interop.node import UnavailableError

PAGE: Final = Path(__file__).parents[2] / "docs" / "internals" / "third-party-documents.md"
_TABLE: Final = re.compile(r"(?<=<!-- read: make foreign -->\n).*(?=<!-- end -->)", re.DOTALL)
_PLACE: Final = re.compile(r".+:\d+:\d+: .+")


@dataclass(frozen=True)
class Outcome:
    """What came of one document: ``lines`` are the places for which it is rejected, ``seconds`` the
    CPU time until it could be served."""

    package: str
    name: str
    is_valid: bool
    operations: int = 0
    warnings: int = 0
    lines: tuple[str, ...] = ()
    seconds: float = 0

    @property
    def is_right(self) -> bool:
        """True if a valid document starts, and another one starts or has its places."""
        if self.lines:
            return not self.is_valid and all(map(_PLACE.fullmatch, self.lines))
        return True


@click.command()
@click.option("--bounded", is_flag=True, help="A few small documents.")
@click.argument("words", nargs=-1)
def main(bounded: bool, words: tuple[str, ...]) -> None:
    """Read the documents whose names contain one of WORDS, or all of them."""
    try:
        outcomes = list(_outcomes(packages.BOUNDED if bounded else packages.whole(), words))
    except UnavailableError as error:
        raise click.ClickException(str(error)) from None
    if not (bounded or words):
        table = "\n" + "\n".join(_table(outcomes)) + "\n\n"
        PAGE.write_text(_TABLE.sub(lambda _: table, PAGE.read_text()))
    click.echo(_summary(outcomes))
    sys.exit(0 if all(outcome.is_right for outcome in outcomes) else 1)


def _outcomes(chosen: dict[packages.Package, list[str]], words: Sequence[str]) -> Iterator[Outcome]:
    for package, names in chosen.items():
        wanted = [name for name in names if not words or any(word in name for word in words)]
        for name, file in zip(wanted, package.documents(wanted), strict=True):
            outcome = read(file, package.name, name)
            word = "rejected" if outcome.lines else "started"
            click.echo(f"{word:9}{'' if outcome.is_right else 'WRONG '}{package.name} {name}")
            for line in outcome.lines:
                click.echo(f"         {line[:200]}")
            yield outcome


def read(file: Path, package: str, name: str) -> Outcome:
    """Return what comes of a document."""
    is_valid = _is_valid(file)
    start = time.process_time()
    try:
        project = load_contract(file)
    except UserError as error:
        lines = str(error).splitlines()
        return Outcome(package, name, is_valid, lines=tuple(lines[len(lines) > 1 :]))
    seconds = time.process_time() - start
    numbers = len(project.contract.operations), len(project.warnings)
    return Outcome(package, name, is_valid, *numbers, seconds=seconds)


def _is_valid(file: Path) -> bool:
    """True if openapi-spec-validator accepts the document. It ends with any exception for one that
    it stumbles over."""
    document = load_document(file)
    is_30 = str(document["openapi"]).startswith("3.0.")
    validator = OpenAPIV30SpecValidator if is_30 else OpenAPIV31SpecValidator
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return validator(document).is_valid()
        except Exception:
            return False


def _summary(outcomes: Sequence[Outcome]) -> str:
    valid = [outcome for outcome in outcomes if outcome.is_valid]
    started = sum(not outcome.lines for outcome in valid)
    others = [outcome for outcome in outcomes if not outcome.is_valid]
    rejected = sum(bool(outcome.lines) for outcome in others)
    all_or = "all" if started == len(valid) else f"{started} of {len(valid)}"
    return (
        f"valid documents: {len(valid)}, started: {all_or}; "
        f"others: {len(others)}, rejected with their places: {rejected}, "
        f"started: {len(others) - rejected}"
    )


def _table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield "| Documents | Valid | Started | Operations | Others | Rejected | Slowest start (CPU) |"
    yield "|---|---|---|---|---|---|---|"
    for package in dict.fromkeys(outcome.package for outcome in outcomes):
        of_package = [outcome for outcome in outcomes if outcome.package == package]
        valid = [outcome for outcome in of_package if outcome.is_valid]
        others = [outcome for outcome in of_package if not outcome.is_valid]
        numbers = (
            len(valid),
            sum(not outcome.lines for outcome in valid),
            sum(outcome.operations for outcome in valid),
            len(others),
            sum(bool(outcome.lines) for outcome in others),
        )
        slowest = max(outcome.seconds for outcome in of_package)
        yield f"| {package} | {' | '.join(map(str, numbers))} | {slowest:.1f} s |"
    yield ""
    yield "Of the others:"
    yield ""
    for outcome in [outcome for outcome in outcomes if not outcome.is_valid]:
        places = len(outcome.lines)
        text = f"rejected, {places} place{'s'[: places > 1]}" if places else "started"
        count = outcome.warnings
        noted = f", {count} warning{'' if count == 1 else 's'}" if count else ""
        yield f"- `{outcome.name}`: {text}{noted}"


if __name__ == "__main__":
    main()
