"""The operations of a document: their names, where they are served, and notes about them."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from itertools import chain, count
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from invoice_sandbox.openapi.load.model import ADDITIONAL, METHODS
from invoice_sandbox.openapi.load.pointers import dereference


def base_path(document: Mapping[str, Any]) -> str:
    """Return the path of the first server, its variables at their defaults, without a final slash.

    A relative address (``v1``, ``./v1``) starts from where the document is served: the root. What
    an address begins with that is not a variable (``{baseUrl}/v1``, ``{scheme}://host``,
    ``${URL}/v1``, ``{{url}}/v1``) has no path.
    """
    url = _UNKNOWN_ORIGIN.sub("http://", _server_url(document))
    path = urlsplit(urljoin("http://sandbox.invalid/", url)).path
    return "/".join(["", *(step for step in path.split("/") if step)])


def served_base_path(document: Mapping[str, Any]) -> str:
    """The base path that a project's operations are served below: with ``/api`` before it where
    the sandbox has pages or the control API of its own."""
    path = base_path(document)
    is_ours = path == "/sandbox" or f"{path}/".startswith((f"{DOCS}/", f"{CONSOLE}/"))
    return f"/api{path}" if is_ours else path


def _server_url(document: Mapping[str, Any]) -> str:
    """Return the URL of the first server, its variables at their defaults."""
    servers = document.get("servers") or [{"url": "/"}]
    url: str = servers[0]["url"]
    for name, variable in servers[0].get("variables", {}).items():
        url = url.replace("{" + name + "}", str(variable["default"]))
    return url


_UNKNOWN_ORIGIN: Final = re.compile(r"^(?:\$?\{[^{}/]*\}|\{\{[^{}/]*\}\})(://)?")
"""The begin of an address in braces that are not those of a variable."""

DOCS: Final = "/docs"
CONSOLE: Final = "/console"
HELP: Final = "/help"


def raw_operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield ``path, method, operation object`` for every operation, in document order."""
    for path, item in document.get("paths", {}).items():
        resolved = dereference(document, item)
        for steps, operation in operations_of(resolved):
            yield path, steps[-1], operation


def operations_of(item: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Yield the operations of a path item, and the steps to each; the last is its method."""
    others = item.get(ADDITIONAL)
    rows: list[tuple[tuple[str, ...], Any]] = [((name,), item.get(name)) for name in METHODS]
    if isinstance(others, Mapping):
        rows += [((ADDITIONAL, name), operation) for name, operation in others.items()]
    yield from ((steps, operation) for steps, operation in rows if isinstance(operation, dict))


def parameter_key(declared: Mapping[str, Any]) -> tuple[str, str]:
    """The location and the name of a parameter, which no two of an operation share; that of a
    header is the same in capitals and small letters (RFC 9110, section 5.1)."""
    location, name = str(declared.get("in")), str(declared.get("name"))
    return location, name.lower() if location == "header" else name


def path_names(path: str) -> list[str]:
    """Return the names of the parameters in a path, in their order."""
    return _TEMPLATE.findall(path)


def without_names(path: str) -> str:
    """``/orders/{id}`` as ``/orders/{}``: what is left is the same for paths that match alike."""
    return _TEMPLATE.sub("{}", path)


_TEMPLATE: Final = re.compile(r"\{([^}]*)\}")


def named_examples(
    document: Mapping[str, Any], holder: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """The named examples of a Media Type, Parameter or Header Object that the document has."""
    for name, declared in holder.get("examples", {}).items():
        example = dereference(document, declared)
        if "value" in example:
            yield name, example["value"]


def operation_id(path: str, method: str, raw: Mapping[str, Any]) -> str:
    """Return the operationId as declared, else made of method and path: ``get_pets_id``."""
    words = re.sub(r"[^A-Za-z0-9]+", "_", f"{method}{path}").strip("_")
    return str(raw.get("operationId", words))


def named_operations(document: Mapping[str, Any]) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Return path, method and object of every operation by its name, in document order.

    A made name that is taken gets a number: ``/a/b`` and ``/a_b`` make the same.
    """
    operations = list(raw_operations(document))
    taken = {str(raw["operationId"]) for _, _, raw in operations if "operationId" in raw}
    found: dict[str, tuple[str, str, dict[str, Any]]] = {}
    for path, method, raw in operations:
        name = operation_id(path, method, raw)
        name = name if "operationId" in raw else numbered(name, taken)
        taken.add(name)
        found[name] = (path, method, raw)
    return found


def numbered(name: str, taken: Container[str]) -> str:
    """Return the name, or ``name_2`` and so on if it is taken."""
    names = chain([name], (f"{name}_{number}" for number in count(2)))
    return next(each for each in names if each not in taken)
