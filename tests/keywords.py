"""The official test suite of JSON Schema 2020-12, over HTTP in both directions.

``python -m tests.keywords`` plays it and updates docs/internals/keywords.md. The suite becomes an
OpenAPI document with one operation for each schema. What it serves from another host is a component
with an ``$id``. A schema that refers to itself gets an ``$id``: ``#`` would be the whole document.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import urljoin

import httpx

from invoice_sandbox.base.ids import snake_case
from invoice_sandbox.http.call import ContractViolationError
from tests.support import FROZEN, serving

FOLDER: Final = Path(__file__).parent / "json_schema_suite"
PAGE: Final = Path(__file__).parent.parent / "docs" / "internals" / "keywords.md"

_TESTS: Final = FOLDER / "tests" / "draft2020-12"
_REMOTE: Final = "http://localhost:1234/"
"""Where the suite expects its ``remotes`` folder to be served."""

_JSON: Final = "application/json"
_INTO_ITSELF: Final = frozenset({"$ref", "$dynamicRef", "$anchor", "$dynamicAnchor"})
_HEADERS: Final = {"Content-Type": _JSON, "X-Sandbox-Explain": "1"}
_LOGGER: Final = logging.getLogger("invoice_sandbox")


@dataclass(frozen=True)
class Group:
    """A schema of the suite with its cases; ``file`` names the keyword."""

    file: str
    number: int
    name: str
    schema: Any
    cases: Sequence[Mapping[str, Any]]

    @property
    def id(self) -> str:
        """A name that no other group has: ``prefixItems_3``."""
        return f"{re.sub('[^A-Za-z]', '_', self.file)}_{self.number}"

    @property
    def path(self) -> str:
        """Where its operation is: ``/prefixItems/3``."""
        return f"/{self.file}/{self.number}"


@dataclass(frozen=True)
class Outcome:
    """What became of one case: ``verdict`` is ``allowed``, ``rejected``, or what else happened."""

    group: Group
    case: Mapping[str, Any]
    verdict: str

    @property
    def is_right(self) -> bool:
        """True if the verdict is that of the suite."""
        return self.verdict == ("allowed" if self.case["valid"] else "rejected")

    @property
    def is_asserted_format(self) -> bool:
        """True if the suite has a format for an annotation, and so an invalid text for valid."""
        name: str = self.case["description"]
        return self.group.file == "format" and name.endswith("annotation by default")


def groups() -> list[Group]:
    """Return every group of the required part of the suite, in the order of its files."""
    return [
        Group(file.stem, number, one["description"], one["schema"], one["tests"])
        for file in sorted(_TESTS.glob("*.json"), key=lambda one: one.stem.lower())
        for number, one in enumerate(json.loads(file.read_text(encoding="utf-8")), 1)
    ]


# --- the suite as OpenAPI


def request_contract(every: Sequence[Group]) -> dict[str, Any]:
    """Return a contract whose operations require the schemas as their bodies."""
    responses = {"204": {"description": "allowed"}}
    return _contract({one.path: _operation(one, _schema(one), responses) for one in every}, {})


def response_contract(every: Sequence[Group]) -> dict[str, Any]:
    """Return a contract whose operations take anything and promise the schemas, each as the member
    ``data``, so that a body is never empty."""
    schemas = {one.id: _schema(one) for one in every if isinstance(one.schema, dict)}
    return _contract({one.path: _operation(one, True, _promise(one)) for one in every}, schemas)


def embedded() -> dict[str, Any]:
    """Return the remote schemas as components; one with another ``$id`` is referred to."""
    components: dict[str, Any] = {}
    for file in sorted((FOLDER / "remotes").rglob("*.json")):
        remote = json.loads(file.read_text(encoding="utf-8"))
        address = _REMOTE + file.relative_to(FOLDER / "remotes").as_posix()
        own = urljoin(address, str(remote.get("$id", address)))
        name = re.sub(r"[^A-Za-z0-9.-]+", "_", address.split("://")[1])
        components[name] = {"$id": address, **remote}
        if own != address:
            components[f"{name}.address"] = {"$id": address, "$ref": own}
    return components


def objects_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a value, itself included."""
    if isinstance(value, dict):
        yield value
    for child in value.values() if isinstance(value, dict) else value:
        if isinstance(child, dict | list):
            yield from objects_in(child)


def _schema(group: Group) -> Any:
    if isinstance(group.schema, bool):
        return group.schema
    needs_base = any(_INTO_ITSELF & one.keys() for one in objects_in(group.schema))
    own = {"$id": f"https://suite.example/{group.id}"} if needs_base else {}
    return {**own, **group.schema}


def _promise(group: Group) -> dict[str, Any]:
    is_component = isinstance(group.schema, dict)
    data = {"$ref": f"#/components/schemas/{group.id}"} if is_component else group.schema
    envelope = {"type": "object", "properties": {"data": data}, "required": ["data"]}
    return {"200": {"description": "echoed", "content": {_JSON: {"schema": envelope}}}}


def _operation(group: Group, body: Any, responses: Mapping[str, Any]) -> dict[str, Any]:
    request = {"required": True, "content": {_JSON: {"schema": body}}}
    return {"post": {"operationId": group.id, "requestBody": request, "responses": responses}}


def _contract(paths: Mapping[str, Any], schemas: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {"title": "JSON Schema 2020-12", "version": "1.0.0"},
        "paths": paths,
        "components": {"schemas": embedded() | dict(schemas)},
    }


# --- the suite over HTTP


def as_requests(every: Sequence[Group], folder: Path) -> list[Outcome]:
    """Send each instance as the body of a request: 204, or 400 that names the keyword's place."""
    file = folder / "contract.json"
    file.write_text(json.dumps(request_contract(every)))
    with serving(replace(FROZEN, contract=file)) as running, running.client() as client:
        return _sent(client, every, _verdict_of_request)


def as_responses(every: Sequence[Group], folder: Path) -> list[Outcome]:
    """Have a handler return each instance: 200 with that value, or 500 for a violation."""
    (folder / "openapi").mkdir()
    (folder / "openapi" / "openapi.yaml").write_text(json.dumps(response_contract(every)))
    handler = 'def {}(call):\n    return {{"data": call.body}}\n'
    (folder / "handlers").mkdir()
    (folder / "handlers" / "__init__.py").write_text("")
    functions = [handler.format(snake_case(one.id)) for one in every]
    (folder / "handlers" / "echo.py").write_text("\n".join(functions))
    settings = replace(FROZEN, project=folder)
    with serving(settings) as running, running.client() as client, _violations() as violations:

        def verdict(response: httpx.Response, instance: Any) -> str:
            reported = len(violations)
            violations.clear()
            if response.status_code == 200 and not reported:
                shown = response.json()["data"]
                return "allowed" if shown == instance else f"allowed, but returned as {shown!r}"
            is_rejected = response.status_code == 500 and reported == 1
            return "rejected" if is_rejected else f"{response.status_code} {response.text[:200]}"

        return _sent(client, every, verdict)


def _sent(
    client: httpx.Client, every: Sequence[Group], verdict: Callable[[httpx.Response, Any], str]
) -> list[Outcome]:
    found = []
    for group in every:
        for case in group.cases:
            content = json.dumps(case["data"])
            response = client.post(group.path, content=content, headers=_HEADERS)
            found.append(Outcome(group, case, verdict(response, case["data"])))
    return found


def _verdict_of_request(response: httpx.Response, _: Any) -> str:
    if response.status_code == 204:
        return "allowed"
    is_explained = "schemaPath=" in response.headers["x-sandbox-explain"]
    is_rejected = response.status_code == 400 and is_explained
    return "rejected" if is_rejected else f"{response.status_code} {response.text[:200]}"


@contextmanager
def _violations() -> Iterator[list[str]]:
    """Collect the contract violations that the server logs, instead of its log."""
    found: list[str] = []

    class Violations(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info else None
            if isinstance(error, ContractViolationError):
                found.append(str(error))

    handler, propagate = Violations(), _LOGGER.propagate
    _LOGGER.addHandler(handler)
    _LOGGER.propagate = False
    try:
        yield found
    finally:
        _LOGGER.removeHandler(handler)
        _LOGGER.propagate = propagate


# --- docs/internals/keywords.md


@dataclass(frozen=True)
class Played:
    """The suite, and what became of each case in each direction."""

    groups: Sequence[Group]
    requests: Sequence[Outcome]
    responses: Sequence[Outcome]

    @property
    def wrong(self) -> list[str]:
        """Every case that one direction judges otherwise than the suite."""
        return [
            f"{one.group.file}: {one.group.name}: {one.case['description']} ({way}: {one.verdict})"
            for way, outcomes in (("request", self.requests), ("response", self.responses))
            for one in outcomes
            if not one.is_right and not one.is_asserted_format
        ]


def played(every: Sequence[Group]) -> Played:
    """Play groups of the suite in both directions."""
    with TemporaryDirectory() as first, TemporaryDirectory() as second:
        return Played(every, as_requests(every, Path(first)), as_responses(every, Path(second)))


def with_results(page: str, of: Played) -> str:
    """Return the page with its generated parts made anew."""
    for name, text in (("table", _table(of)), ("asserted", _asserted(of)), ("wrong", _wrong(of))):
        start, end = f"<!-- generated: {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = page.partition(start)
        page = before + start + text + end + rest.partition(end)[2]
    return page


def _table(of: Played) -> str:
    files = list(dict.fromkeys(one.file for one in of.groups))
    cells = [cell for file in files for cell in (f"`{file}`", _counts(of, {file}))]
    rows = [cells[start : start + 8] for start in range(0, len(cells), 8)]
    lines = [("Keyword", "Cases") * 4, ("---", "--:") * 4, *rows]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return f"{table}\nAll cases: {_counts(of, set(files))}.\n"


def _counts(of: Played, files: set[str]) -> str:
    """Return the number of cases, and of correct results if some are not."""
    ways = [[one for one in way if one.group.file in files] for way in (of.requests, of.responses)]
    right = min(sum(one.is_right for one in way) for way in ways)
    return str(right) if right == len(ways[0]) else f"{right} of {len(ways[0])}"


def _asserted(of: Played) -> str:
    names = [
        f"`{one.group.name.removesuffix(' format')}`"
        for one in of.requests
        if one.is_asserted_format
    ]
    return f"{len(names)} cases of `format`: {', '.join(names)}.\n"


def _wrong(of: Played) -> str:
    return "".join(f"- {one}\n" for one in of.wrong) or "None.\n"


def main() -> int:
    """Play the suite, write the page, and report what is wrong."""
    outcome = played(groups())
    PAGE.write_text(with_results(PAGE.read_text(), outcome))
    total = len(outcome.requests) + len(outcome.responses)
    sys.stdout.write("".join(f"{one}\n" for one in outcome.wrong))
    sys.stdout.write(f"{total} cases played, {len(outcome.wrong)} wrong\n")
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
