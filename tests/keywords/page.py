"""Writes what of docs/keywords.md comes from playing the suite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.keywords.play import Outcome, as_requests, as_responses
from tests.keywords.suite import Group, groups

PAGE: Final = Path(__file__).parent.parent.parent / "docs" / "keywords.md"
ASSERTED: Final = "format"
"""The one keyword that is held to more than the suite asks for: it is asserted."""

_TITLES: Final = ("Keyword", "Cases")
_SIDE_BY_SIDE: Final = 4


@dataclass(frozen=True)
class Played:
    """The suite, and what became of each case in each direction."""

    groups: Sequence[Group]
    requests: Sequence[Outcome]
    responses: Sequence[Outcome]

    @property
    def wrong(self) -> list[str]:
        """Every case, by name, that one direction judges otherwise than the suite."""
        return [*_wrong("request", self.requests), *_wrong("answer", self.responses)]


def played() -> Played:
    """Play the whole suite in both directions."""
    every = groups()
    with TemporaryDirectory() as first, TemporaryDirectory() as second:
        requests = as_requests(every, Path(first))
        return Played(every, requests, as_responses(every, Path(second)))


def with_generated(page: str, of: Played) -> str:
    """The page with its generated parts made anew."""
    for name, text in {
        "table": _table(of),
        "asserted": _asserted(of),
        "wrong": _faults(of),
    }.items():
        start, end = f"<!-- generated: {name} -->\n", f"<!-- end of {name} -->"
        assert page.count(start) == page.count(end) == 1, f"the page has no place for {name}"
        before, _, rest = page.partition(start)
        _, _, after = rest.partition(end)
        page = f"{before}{start}{text}{end}{after}"
    return page


def is_asserted(outcome: Outcome) -> bool:
    """Whether the suite takes a format for an annotation, and so an invalid text for valid."""
    return outcome.group.file == ASSERTED and outcome.case.name.endswith("annotation by default")


def _wrong(direction: str, outcomes: Sequence[Outcome]) -> Iterator[str]:
    for one in outcomes:
        if not one.right and not is_asserted(one):
            case = f"{one.group.file}: {one.group.name}: {one.case.name}"
            yield f"{case} (as {direction}: {one.verdict})"


def _table(of: Played) -> str:
    files = list(dict.fromkeys(one.file for one in of.groups))
    cells = [cell for file in files for cell in (f"`{file}`", _counts(of, {file}))]
    width = len(_TITLES) * _SIDE_BY_SIDE
    rows = [cells[start : start + width] for start in range(0, len(cells), width)]
    lines = [_TITLES * _SIDE_BY_SIDE, ("---", "--:") * _SIDE_BY_SIDE, *rows]
    missing = sum(len(one.cases) for one in of.groups) - len(of.requests)
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return (
        f"{table}\nAll cases: {_counts(of, set(files))}. "
        f"Cases that no OpenAPI document can contain: {missing}.\n"
    )


def _counts(of: Played, files: set[str]) -> str:
    """The number of cases, and of correct results per direction if some are not."""
    cases = sum(len(one.cases) for one in of.groups if one.file in files)
    directions = (of.requests, of.responses)
    right = {sum(one.right for one in way if one.group.file in files) for way in directions}
    return str(cases) if right == {cases} else f"{' and '.join(map(str, right))} of {cases}"


def _asserted(of: Played) -> str:
    held = [one for one in of.requests if is_asserted(one)]
    names = ", ".join(f"`{one.group.name.removesuffix(' format')}`" for one in held)
    return f"{len(held)} cases of `{ASSERTED}`: {names}.\n"


def _faults(of: Played) -> str:
    return "".join(f"- {one}\n" for one in of.wrong) or "None.\n"
