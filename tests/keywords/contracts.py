"""The suite as OpenAPI 3.1: one operation for each of its schemas.

What the suite serves from another host stands in the contract itself, as a component with an
``$id`` (JSON Schema Core 9.3.1, compound schema documents): a contract that is served fetches
nothing. A schema that refers to a place within itself is a resource of its own, with an ``$id``,
because ``#`` without one would be the whole contract.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin

import orjson

from invoice_sandbox.base.ids import snake_case
from tests.keywords.suite import Group, remotes, schemas_within

_JSON: Final = "application/json"
_OWN: Final = "https://suite.example/"
_INTO_ITSELF: Final = frozenset({"$ref", "$dynamicRef", "$anchor", "$dynamicAnchor"})
_HANDLERS: Final = '''"""Each operation returns what it is sent."""

from typing import Any

from invoice_sandbox.project.api import Call
'''
_HANDLER: Final = '''

async def {name}(call: Call) -> Any:
    """Return the body of the request."""
    return {{"data": call.body}}
'''


def request_contract(groups: Sequence[Group]) -> dict[str, Any]:
    """A contract whose operations ask for the schemas of ``groups`` as their bodies."""
    return _contract({path(one): _operation(one, schema(one), _NO_CONTENT) for one in groups})


def response_contract(groups: Sequence[Group]) -> dict[str, Any]:
    """A contract whose operations take anything and promise the schemas of ``groups``.

    The schema is a component unless it is a boolean, and it describes the member ``data``, so that
    a body is never empty.
    """
    paths = {path(one): _operation(one, True, _response(one)) for one in groups}
    return _contract(paths, {one.id: schema(one) for one in groups if _is_object(one)})


def write_echo(folder: Path, groups: Sequence[Group]) -> None:
    """Write a project to ``folder`` that returns the body of every request."""
    (folder / "openapi").mkdir()
    (folder / "openapi" / "openapi.yaml").write_bytes(orjson.dumps(response_contract(groups)))
    (folder / "handlers").mkdir()
    (folder / "handlers" / "__init__.py").write_text('"""Handlers."""\n')
    functions = [_HANDLER.format(name=snake_case(one.id)) for one in groups]
    (folder / "handlers" / "echo.py").write_text(_HANDLERS + "".join(functions))


def path(group: Group) -> str:
    """Where the operation of a group is: ``/prefixItems/3``."""
    return f"/{group.file}/{group.number}"


def schema(group: Group) -> Any:
    """The schema of a group as it stands in a contract."""
    needs_base = any(_INTO_ITSELF & one.keys() for one in schemas_within(group.schema))
    return _resource(group.schema, _OWN + group.id) if needs_base else group.schema


def embedded() -> dict[str, Any]:
    """The remote schemas of the suite as components; one with another ``$id`` is referred to."""
    components: dict[str, Any] = {}
    for address, remote in remotes().items():
        name = re.sub(r"[^A-Za-z0-9.-]+", "_", address.split("://")[1])
        own = urljoin(address, str(remote.get("$id", address)))
        components[name] = _resource(remote, address)
        if own != address:
            components[f"{name}.address"] = {"$id": address, "$ref": own}
    return components


def _resource(schema: Any, address: str) -> Any:
    return {"$id": address, **schema} if isinstance(schema, dict) else schema


def _contract(paths: Mapping[str, Any], schemas: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {"title": "JSON Schema 2020-12", "version": "1.0.0"},
        "paths": dict(paths),
        "components": {"schemas": embedded() | dict(schemas or {})},
    }


_NO_CONTENT: Final = {"204": {"description": "allowed"}}


def _operation(group: Group, body: Any, responses: Mapping[str, Any]) -> dict[str, Any]:
    content = {_JSON: {"schema": body}}
    operation = {
        "operationId": group.id,
        "summary": group.name,
        "requestBody": {"required": True, "content": content},
        "responses": responses,
    }
    return {"post": operation}


def _is_object(group: Group) -> bool:
    return isinstance(group.schema, dict)


def _response(group: Group) -> dict[str, Any]:
    data = {"$ref": f"#/components/schemas/{group.id}"} if _is_object(group) else group.schema
    envelope = {"type": "object", "properties": {"data": data}, "required": ["data"]}
    return {"200": {"description": "echoed", "content": {_JSON: {"schema": envelope}}}}
