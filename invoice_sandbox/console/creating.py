"""The pages that create something: forms made of the schemas and examples of operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from flask import Response, abort, g, render_template, request

from invoice_sandbox.base import jsonio
from invoice_sandbox.console.actions import shown_effect
from invoice_sandbox.console.common import client, contents, curl, pages
from invoice_sandbox.console.effects import Effect, effect_of
from invoice_sandbox.console.records import Address
from invoice_sandbox.openapi.load.pointers import at_pointer

_CONTROL: Final = ("createWorkspace", "triggerEvent", "addUser", "addFault")
"""Operations of the control API and of the project's control endpoints that have a form."""

_UNIQUE: Final = "x-unique"
"""The keyword of an example with the members that differ in every request."""

Widget = Literal["text", "number", "choice", "boxes", "lines", "json", "secret"]


@dataclass(frozen=True)
class Field:
    """A member of a body as a field of a form. ``choices`` are the values that it may have, or
    suggestions; ``value`` is the text that it begins with, of ``boxes`` and ``lines`` several."""

    name: str
    widget: Widget
    description: str
    is_required: bool
    choices: Sequence[str]
    value: str

    def typed(self, texts: Sequence[str]) -> Any:
        """The value of what was typed; None: nothing was. What is not of the right type is sent as
        text, so that the response has the reason."""
        given = [text for text in texts if text.strip()]
        if not given:
            return None
        if self.widget == "boxes":
            return given
        if self.widget == "lines":
            return given[0].split()
        if self.widget in {"number", "json"} or given[0] in {"true", "false"}:
            value = jsonio.parsed(given[0])
            return given[0] if value is None else value
        return given[0]


def creations() -> list[Address]:
    """The operations that have a form: those of the contract first."""
    found, addresses = contents(), contents().addresses
    sign_in = found.sign_in[0].operation.id if found.sign_in else None
    names = [name for name in found.engine.project.contract.operations if name != sign_in]
    listed = [addresses[name] for name in (*names, *_CONTROL) if name in addresses]
    return [address for address in listed if _has_form(address)]


def _has_form(address: Address) -> bool:
    is_creation = address.method == "POST" and "{" not in address.operation.path
    return is_creation and bool(_schema(address).get("properties"))


@pages.get("/new")
def all_creations() -> str:
    """The page with a form for each of these operations."""
    return render_template("creations.html", page="new", creations=creations())


@pages.get("/new/<name>")
def creation(name: str) -> str:
    """The form of an operation. Members in the address come before those of the example."""
    address = _named(name)
    fields = list(_fields(address, request.args))
    return _page(address, fields, {field.name: field.value for field in fields})


@pages.post("/new/<name>")
def create(name: str) -> Response:
    """Send what was typed, and show the effect; after a rejection, also what was typed."""
    address = _named(name)
    fields = list(_fields(address, {}))
    texts = {field.name: request.form.getlist(field.name) for field in fields}
    given = {field.name: field.typed(texts[field.name]) for field in fields}
    content = jsonio.dumps({name: value for name, value in given.items() if value is not None})
    path = address.path()
    received = client().send(address.method, path, content)
    effect = effect_of(address.method, path, received)
    command = curl(address.method, path, {"content-type": "application/json"}, content.decode())
    panel = shown_effect(effect, received, address.method, path, command)
    if received.is_success:
        texts = {field.name: [field.value] for field in fields}
    values = {name: "\n".join(lines) for name, lines in texts.items()}
    page = _page(address, fields, values, effect, panel)
    return Response(page, 200 if received.is_success else received.status)


def _page(
    address: Address,
    fields: Sequence[Field],
    values: Mapping[str, str],
    effect: Effect | None = None,
    panel: str = "",
) -> str:
    problems = {} if effect is None else _problems(effect)
    return render_template(
        "create.html",
        page="new",
        address=address,
        fields=fields,
        values=values,
        panel=panel,
        problems=problems,
    )


def _problems(effect: Effect) -> dict[str, str]:
    """The reasons of a rejection by the member of the body that they are about."""
    found: dict[str, list[str]] = {}
    for pointer, problem in effect.problems.items():
        _, name, *rest = (*pointer.split("/"), "")
        place = "/".join(filter(None, rest))
        found.setdefault(name, []).append(f"{place} {problem}".strip())
    return {name: "; ".join(lines) for name, lines in found.items()}


def _named(name: str) -> Address:
    found = [address for address in creations() if address.operation.id == name]
    return found[0] if found else abort(404)


def _fields(address: Address, given: Mapping[str, str]) -> Iterator[Field]:
    """Yield the fields of an operation, the required ones first."""
    schema, example = _schema(address), example_of(address)
    required = schema.get("required", ())
    names = sorted(schema["properties"], key=lambda name: name not in required)
    for name in names:
        member = _resolved(schema["properties"][name], address.document)
        value = given.get(name, example.get(name))
        yield _field(name, member, value, address.document, is_required=name in required)


def _field(
    name: str,
    member: Mapping[str, Any],
    value: Any,
    document: Mapping[str, Any],
    *,
    is_required: bool,
) -> Field:
    widget, choices = _widget(member, document)
    lines = value if isinstance(value, list) else [] if value is None else [value]
    texts = [line if isinstance(line, str) else jsonio.dumps(line).decode() for line in lines]
    description = str(member.get("description", "")).strip()
    return Field(name, widget, description, is_required, choices, "\n".join(texts))


def _widget(member: Mapping[str, Any], document: Mapping[str, Any]) -> tuple[Widget, Sequence[str]]:
    """The widget of a member, by its type or that of its first example; and its choices."""
    examples = member.get("examples")
    example = examples[0] if isinstance(examples, list) and examples else None
    types = _types(member)
    if isinstance(member.get("enum"), list):
        return "choice", [str(choice) for choice in member["enum"] if choice is not None]
    if "boolean" in types or isinstance(example, bool):
        return "choice", ["true", "false"]
    if types & {"integer", "number"}:
        return "number", ()
    if "array" in types or isinstance(example, list):
        choices = _resolved(member.get("items"), document).get("enum", ())
        return ("boxes" if choices else "lines"), choices or _events(example)
    if "object" in types or isinstance(example, Mapping):
        return "json", ()
    return ("secret" if member.get("format") == "password" else "text"), _events([example])


def _types(member: Mapping[str, Any]) -> set[str]:
    types = member.get("type", ())
    return {types} if isinstance(types, str) else set(types)


def _events(example: Any) -> Sequence[str]:
    """The types of events, if one of them is an example."""
    known = contents().engine.project.lifecycle.events
    is_event = isinstance(example, list) and any(name in known for name in map(str, example))
    return sorted(known) if is_event else ()


def _schema(address: Address) -> Mapping[str, Any]:
    return _resolved(_media(address).get("schema", {}), address.document)


def _media(address: Address) -> Mapping[str, Any]:
    body = _resolved(address.declared.get("requestBody"), address.document)
    found: Mapping[str, Any] = body.get("content", {}).get("application/json", {})
    return found


def _resolved(schema: Any, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema with the members of the one that it refers to, in which its own come first."""
    seen: dict[str, Any] = {}
    while isinstance(schema, Mapping):
        seen = {**schema, **seen}
        reference = seen.pop("$ref", None)
        if not isinstance(reference, str) or not reference.startswith("#"):
            return seen
        schema = at_pointer(document, reference[1:])
    return seen


def example_of(address: Address) -> dict[str, Any]:
    """The members of the first example of a body. Those that differ in every request end with the
    number of requests before it."""
    examples = iter(_media(address).get("examples", {}).values())
    first = _resolved(next(examples, None), address.document)
    value = first.get("value")
    members = dict(value) if isinstance(value, Mapping) else {}
    number = g.position.partition(".")[0]
    for name in first.get(_UNIQUE, ()):
        members[name] = f"{members[name]}-{number}"
    return members
