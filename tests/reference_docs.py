"""Generates the reference pages: event types, scopes, errors and operations; and ``llms.txt``.

``python -m tests.reference_docs`` updates them from the served contract, the code and the index.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from domain import errors as domain_errors
from domain.credentials import _DEFAULT_SCOPES
from domain.webhooks import _SCOPE_OF
from invoice_sandbox.base.errors import ERRORS, ErrorType, code_for
from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.openapi.load.operations import raw_operations
from invoice_sandbox.openapi.load.pointers import dereference
from invoice_sandbox.project.loader import default_project, load_project

DOCS: Final = Path(__file__).parents[1] / "docs"
LLMS: Final = DOCS.with_name("llms.txt")
Document = Mapping[str, Any]

_PUBLISHED: Final[Document] = load_document(default_project() / "openapi" / "openapi.yaml")
_MADE_UP: Final = "\\*"
"""The mark of what the specification does not have."""


def served() -> Document:
    """The contract as it is served."""
    return load_project(default_project()).contract.document


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown, or nothing without rows."""
    head, *lines = (f"| {' | '.join(row)} |\n" for row in (titles, *rows))
    return f"{head}|{'---|' * len(titles)}\n{''.join(lines)}" if lines else ""


def in_code(words: Iterable[str]) -> str:
    """The words as inline code, after each other."""
    return ", ".join(f"`{word}`" for word in words)


# Event types


def event_types(document: Document) -> str:
    """The table of the event types."""
    causes = _causes()
    rows = [
        (
            f"`{name}`{'' if name in _published_events() else _MADE_UP}",
            item["post"]["summary"],
            in_code(causes[name]),
            f"`{_SCOPE_OF[name.partition('.')[0]]}`",
        )
        for name, item in document["webhooks"].items()
    ]
    return table(("Type", "Meaning", "Recorded by", "Scope"), rows)


def _published_events() -> set[str]:
    text = (default_project() / "openapi" / "openapi.yaml").read_text()
    return set(re.findall(r"`(\w+\.\w+)`", text)) & set(served()["webhooks"])


def _causes() -> Mapping[str, list[str]]:
    """The transitions that record each event type, of the machine that it is about."""
    lifecycle = yaml.safe_load((default_project() / "scenarios" / "lifecycle.yaml").read_text())
    causes: defaultdict[str, list[str]] = defaultdict(list)
    for machine in lifecycle["machines"].values():
        for transition in machine["transitions"]:
            if "event" in transition and transition["trigger"] not in causes[transition["event"]]:
                causes[transition["event"]].append(transition["trigger"])
    return causes


# Scopes


def scopes(document: Document) -> str:
    """The table of the scopes, with the operations of each."""
    guarded: defaultdict[str, list[str]] = defaultdict(list)
    for path, method, raw in raw_operations(document):
        for scope in _scopes_of(raw):
            guarded[scope].append(f"{method.upper()} {path}")
    rows = [
        (f"`{scope}`", "yes" if scope in _DEFAULT_SCOPES else "", in_code(operations))
        for scope, operations in sorted(guarded.items())
    ]
    return table(("Scope", "In a key by default", "Operations"), rows)


def _scopes_of(raw: Document) -> list[str]:
    """The scopes that an operation needs, which its schemes share."""
    return next((list(next(iter(item.values()))) for item in raw.get("security", []) if item), [])


# Errors


def errors() -> str:
    """A section for each code, with each of its errors under its name."""
    project = [item for item in vars(domain_errors).values() if isinstance(item, ErrorType)]
    by_code: defaultdict[str, list[ErrorType]] = defaultdict(list)
    for error in (*ERRORS.values(), *project):
        by_code[error.code or code_for(error.code_status or error.status)].append(error)
    return "\n".join(f"## Code `{code}`\n\n{_errors_of(found)}" for code, found in by_code.items())


def _errors_of(found: Sequence[ErrorType]) -> str:
    ordered = sorted(found, key=lambda error: error.status)
    return "\n".join(
        f"### {error.name}\n\n**{error.status}** {_template(error.text)}. "
        f"{_template(error.advice)}\n"
        for error in ordered
    )


_PLACES: Final = {"kind": "resource", "base_url": "URL", "retry_after": "some"}
"""Places in errors whose names are no words for a page."""


def _template(text: str) -> str:
    """The text of an error, with its places in italics."""
    places = re.sub(r"\{(\w+)\}", lambda found: f"*{_PLACES.get(found[1], found[1])}*", text)
    return places.replace("<", "&lt;")


# Operations


def operations(document: Document) -> str:
    """A section for each operation: what it takes, and what it responds."""
    return "\n".join(
        _operation(document, path, method, raw) for path, method, raw in raw_operations(document)
    )


def _operation(document: Document, path: str, method: str, raw: Document) -> str:
    needed = in_code(_scopes_of(raw))
    scope = f"Scope {needed}{_MADE_UP}." if needed else _open_to_all(raw)
    success, failures = _statuses(_PUBLISHED["paths"][path][method], raw)
    lines = [
        f"## {method.upper()} {path}",
        f"{raw['summary']}. `{raw['operationId']}`. {scope}",
        table(("Name", "In", "Type", "Meaning"), _inputs(document, path, method, raw)).rstrip(),
        f"Responds {success}; errors {failures}.",
    ]
    return "\n\n".join(line for line in lines if line) + "\n"


def _open_to_all(raw: Document) -> str:
    return "Any valid credential." if raw.get("security", [{}]) != [] else "Needs no credential."


def _statuses(base: Document, raw: Document) -> tuple[str, str]:
    good = [status for status in raw["responses"] if status.startswith("2")]
    bad = [
        status if status in base["responses"] else status + _MADE_UP
        for status in sorted(raw["responses"])
        if status not in good
    ]
    return ", ".join(good), ", ".join(bad)


def _inputs(
    document: Document, path: str, method: str, raw: Document
) -> Iterator[tuple[str, str, str, str]]:
    base = _PUBLISHED["paths"][path][method]
    known = {dereference(_PUBLISHED, item)["name"] for item in base.get("parameters", [])}
    for item in raw.get("parameters", []):
        declared = dereference(document, item)
        mark = "" if declared["name"] in known else _MADE_UP
        yield _row(document, declared["name"], declared["in"], declared, mark)
    if "requestBody" in raw:
        yield from _members(document, base, dereference(document, raw["requestBody"]))


def _members(
    document: Document, base: Document, body: Document
) -> Iterator[tuple[str, str, str, str]]:
    media = body["content"]["application/json"]
    schema = dereference(document, media["schema"])
    published = _published_members(base)
    for name, member in schema.get("properties", {}).items():
        is_required = name in schema.get("required", ())
        holder = {"schema": member, "required": is_required, **member}
        yield _row(document, name, "body", holder, "" if name in published else _MADE_UP)
    if not schema.get("properties"):
        names = dict.fromkeys(name for value in _examples(document, media) for name in value)
        yield (in_code(names) + _MADE_UP, "body", "free-form object", "Members of the examples.")


def _published_members(base: Document) -> set[str]:
    if "requestBody" not in base:
        return set()
    body = dereference(_PUBLISHED, base["requestBody"])
    schema = dereference(_PUBLISHED, body["content"]["application/json"]["schema"])
    return set(schema.get("properties", {}))


def _examples(document: Document, media: Document) -> Iterator[Mapping[str, Any]]:
    for item in media.get("examples", {}).values():
        value = dereference(document, item).get("value")
        if isinstance(value, Mapping):
            yield value
    if isinstance(media.get("example"), Mapping):
        yield media["example"]


def _row(
    document: Document, name: str, place: str, declared: Document, mark: str
) -> tuple[str, str, str, str]:
    schema = dereference(document, declared["schema"])
    words = [schema.get("type", "any"), schema.get("format", "")]
    shape = " ".join(str(word) for word in words if word)
    required = ", required" if declared.get("required") else ""
    meaning = " ".join(str(declared.get("description", "")).split()).partition(". ")[0]
    return (f"`{name}`{mark}", place, f"{shape}{required}", meaning.replace("|", "\\|"))


# Pages

PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "event-types": lambda: event_types(served()),
    "scopes": lambda: scopes(served()),
    "errors": errors,
    "api-reference": lambda: operations(served()),
}
"""The generated part of each page."""


def with_generated(name: str, page: str) -> str:
    """The page with its generated part made anew."""
    start, end = f"<!-- generated: {name} -->\n", f"<!-- end of {name} -->"
    assert page.count(start) == page.count(end) == 1, f"the page has no place for {name}"
    before, _, rest = page.partition(start)
    _, _, after = rest.partition(end)
    return f"{before}{start}\n{PAGES[name]()}\n{end}{after}"


def llms_text(index: str) -> str:
    """The index of the docs for language models, as llmstxt.org describes it."""
    sections = index.partition("\n## ")[2]
    linked = re.sub(r"\]\((?!https?:)", "](docs/", f"## {sections}")
    return f"# Invoice Liquidity Sandbox\n\n{_SUMMARY}\n\n{linked}"


_SUMMARY: Final = """\
> A mock server of the Invoice Liquidity API, from its OpenAPI 3.1 contract: stateful, with a
> simulated clock, signed webhooks, fault injection and a verdict on the client.

Start it with `invoice-sandbox serve`. It serves these pages at `/help` and the contract at
`/openapi.json`. [AGENTS.md](AGENTS.md) is for coding agents."""


def main() -> None:
    """Write the pages as they should be now."""
    LLMS.write_text(llms_text((DOCS / "README.md").read_text()))
    for name in PAGES:
        file = DOCS / f"{name}.md"
        file.write_text(with_generated(name, file.read_text()))


if __name__ == "__main__":
    main()
