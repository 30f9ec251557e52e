"""Serve a document, ask for every operation, and compare each response with the document itself.

Responses are judged by Python's jsonschema and openapi-schema-validator, with the document as its
makers wrote it: nothing of the sandbox's own reading of schemas is trusted.
"""

from __future__ import annotations

import gc
import json
import logging
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx
from jsonschema.exceptions import ValidationError
from openapi_schema_validator import (
    OAS30Validator,
    OAS31Validator,
    oas30_format_checker,
    oas31_format_checker,
)
from referencing import Registry
from referencing.jsonschema import DRAFT4, DRAFT202012

from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.openapi.load.operations import base_path, raw_operations
from invoice_sandbox.openapi.load.pointers import at_pointer
from invoice_sandbox.openapi.schema.compile import request_response_schemas
from invoice_sandbox.project.code import ProjectError
from invoice_sandbox.project.loader import Project
from invoice_sandbox.project.stateful import CREATE, DELETE, LIST, Collection
from tests.foreign.requests import Maker, NoRequestError, Request
from tests.support import FROZEN, serving

_ADDRESS: Final = "urn:document"
_PARAMETER: Final = re.compile(r"\{[^}]+\}")
_ANCHORS_ELSEWHERE: Final = r"\\[AZz]"


@dataclass
class Played:
    """What came of one document. ``rejected`` is why it was not served, ``seconds`` the CPU time of
    the start, ``collections`` is the number of those that ``--stateful`` keeps; ``wrong`` are
    responses that the document does not allow, ``unanswered`` those with status 501, ``unasked``
    operations that no valid request could be made for; each a line."""

    name: str
    version: str = ""
    rejected: str = ""
    operations: int = 0
    collections: int = 0
    right: int = 0
    seconds: float = 0
    warnings: int = 0
    unanswered: list[str] = field(default_factory=list)
    unasked: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def play(file: Path, name: str) -> Played:
    """Serve the document of ``file`` and ask for everything in it."""
    played = Played(name)
    logging.getLogger("invoice_sandbox").setLevel(logging.ERROR)
    gc.disable()  # as the command serve does at its start
    start = time.process_time()
    try:
        with serving(replace(FROZEN, contract=file)) as running, running.client(None) as client:
            played.seconds = time.process_time() - start
            gc.enable()
            played.warnings = len(running.sandbox.engine.project.warnings)
            document = load_document(file)
            _play(played, document, client)
        stateful = replace(FROZEN, contract=file, stateful=True)
        with serving(stateful) as running, running.client(None) as client:
            _play_collections(played, document, client, running.sandbox.engine.project)
    except ProjectError as error:
        played.rejected = str(error)
    finally:
        gc.enable()
    return played


def _play(played: Played, document: Mapping[str, Any], client: httpx.Client) -> None:
    played.version = document["openapi"]
    maker, judge = _maker(client), _judge(document)
    seen = set[str]()
    for path, method, raw in raw_operations(maker.document):
        played.operations += 1
        where = f"{method.upper()} {path}"
        plain = re.sub(r"\{[^}]*\}", "{}", where)
        if plain in seen:
            played.unasked.append(f"{where}: another path is the same")
            continue
        seen.add(plain)
        try:
            made = maker.request(path, method, raw)
        except NoRequestError as error:
            played.unasked.append(f"{where}: {error}")
            continue
        try:
            reply = _sent(client, made)
        except httpx.HTTPError as error:
            played.wrong.append(f"{where}: {type(error).__name__}: {error}")
            continue
        problem = judge.problem(path, method, reply)
        if problem is None:
            played.right += 1
        elif reply.status_code == httpx.codes.NOT_IMPLEMENTED:
            played.unanswered.append(f"{where}: {reply.json()['error']['message']}")
        else:
            played.wrong.append(f"{where} {reply.status_code}: {problem}")


def _play_collections(
    played: Played, document: Mapping[str, Any], client: httpx.Client, project: Project
) -> None:
    """Make a record of each collection; read, change, list and delete it."""
    player = _Player(played, client, project, _maker(client), _judge(document))
    for collection in project.conventions.collections:
        played.collections += 1
        with suppress(NoRequestError):
            player.play(collection)


class _Player:
    """Plays the collections of a document."""

    def __init__(
        self, played: Played, client: httpx.Client, project: Project, maker: Maker, judge: Judge
    ) -> None:
        self._played, self._client, self._project = played, client, project
        self._maker, self._judge = maker, judge
        self._raw = {(path, way): one for path, way, one in raw_operations(maker.document)}

    def play(self, collection: Collection) -> None:
        """Make, list, read, change and delete a record. Raises NoRequestError."""
        roles = {role: name for name, role in collection.operations.items()}
        base = self._request(roles[CREATE]).path.rstrip("/")
        reply = self._sent(roles[CREATE])
        body = reply.json() if reply.is_success and reply.content else {}
        record = body.get(collection.record, body) if isinstance(body, Mapping) else {}
        key = record.get(collection.identity) if isinstance(record, Mapping) else None
        others = [role for role in roles if role not in {CREATE, DELETE}]
        for role in (*others, *({DELETE} & roles.keys())):
            if role == LIST:
                self._sent(roles[role])
            elif key is not None:
                self._sent(roles[role], base, quote(str(key), safe=""))

    def _request(self, name: str) -> Request:
        operation = self._project.contract.operations[name]
        path, method = operation.path, operation.method.lower()
        return self._maker.request(path, method, self._raw[path, method])

    def _sent(self, name: str, base: str = "", key: str = "") -> httpx.Response:
        """The response to an operation, of the record with ``key`` below ``base`` if given."""
        operation = self._project.contract.operations[name]
        made = self._request(name)
        if key:
            verb = operation.path.rpartition("}")[2]
            made.path = f"{base}/{key}{verb}"
        reply = _sent(self._client, made)
        problem = self._judge.problem(operation.path, operation.method.lower(), reply)
        if problem is not None:
            line = f"{operation.method} {operation.path} {reply.status_code}: {problem}"
            self._played.wrong.append(line)
        return reply


def _maker(client: httpx.Client) -> Maker:
    served = client.get("/openapi.json").json()
    served["servers"] = served["servers"][1:]
    return Maker(served, base_path(served), request_response_schemas(served))


def _judge(document: Mapping[str, Any]) -> Judge:
    hook = _meant_in_30 if document["openapi"].startswith("3.0") else _without_what_is_misread
    return Judge(json.loads(json.dumps(document), object_hook=hook))


def _sent(client: httpx.Client, made: Request) -> httpx.Response:
    given: dict[str, Any] = {"headers": made.headers, "cookies": made.cookies}
    given |= {"content": made.content} if made.files is None else {"files": made.files}
    client.cookies.clear()
    return client.request(made.method, made.target, **given)


@dataclass(frozen=True)
class Judge:
    """Whether responses are what a document, as it was written, says.

    All but what one of the validators reads otherwise than OpenAPI says: discriminators, which
    "cannot change the validation result" (3.1.1), and in 3.0 what stands beside a reference. Nor
    patterns with the anchors of other languages, which it reads as letters.
    """

    document: Mapping[str, Any]

    def problem(self, path: str, method: str, reply: httpx.Response) -> str | None:
        """What is wrong with a response; None: nothing."""
        at = ("paths", path, method, "responses")
        if not self._at(at[:3]).get("responses"):
            return None if reply.is_success else reply.text[:200]
        responses = self._at(at)
        status = str(reply.status_code)
        declared = next((one for one in _keys(status) if one in responses), None)
        is_rejected = reply.is_error and any(one.startswith("2") for one in responses)
        if declared is None or is_rejected:
            return str(reply.headers.get("x-sandbox-error", reply.text))[:200]
        content = self._at((*at, declared)).get("content") or {}
        if not content:
            return None if not reply.content else "a body that is not declared"
        own = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
        names = {one.partition(";")[0].strip().lower(): one for one in content}
        found = next(
            (names[one] for one in (own, own.split("/")[0] + "/*", "*/*") if one in names), None
        )
        if found is None:
            return f"the content type {own!r} is not declared" if reply.content else None
        is_json = "json" in own and reply.content and method != "head"
        if not is_json or "schema" not in content[found]:
            return None
        return next(
            self._problems(reply.json(), self._where((*at, declared, "content", found))), None
        )

    def _at(self, pointer: tuple[str, ...]) -> Any:
        value: Any = self.document
        for step in pointer:
            value = self._behind(value)[step]
        return self._behind(value)

    def _behind(self, value: Any) -> Any:
        while isinstance(value, Mapping) and isinstance(value.get("$ref"), str):
            value = at_pointer(self.document, value["$ref"][1:])
        return value

    def _where(self, pointer: tuple[str, ...]) -> Any:
        """The schema of a media type."""
        return self._at(pointer)["schema"]

    def _problems(self, value: Any, schema: Any) -> Iterator[str]:
        is_30 = self.document["openapi"].startswith("3.0")
        of = DRAFT4 if is_30 else DRAFT202012
        resource = of.create_resource({**self.document})
        registry: Registry[Any] = Registry().with_resource(_ADDRESS, resource)
        validator = OAS30Validator if is_30 else OAS31Validator
        formats = oas30_format_checker if is_30 else oas31_format_checker
        judge = validator(_absolute(schema), registry=registry, format_checker=formats)
        for error in judge.iter_errors(value):
            if not _is_of_the_client(error):
                yield f"{error.json_path}: {error.message[:160]}"


def _without_what_is_misread(value: dict[str, Any]) -> dict[str, Any]:
    reported, pattern = value.get("discriminator"), value.get("pattern")
    left_out = set()
    if isinstance(reported, dict) and "propertyName" in reported:
        left_out.add("discriminator")
    if isinstance(pattern, str) and re.search(_ANCHORS_ELSEWHERE, pattern):
        left_out.add("pattern")
    return {key: one for key, one in value.items() if key not in left_out}


def _meant_in_30(value: dict[str, Any]) -> dict[str, Any]:
    if isinstance(value.get("$ref"), str):
        return {"$ref": value["$ref"]}
    return _without_what_is_misread(value)


def _keys(status: str) -> tuple[str, ...]:
    return status, f"{status[0]}XX", f"{status[0]}xx", "default"


def _is_of_the_client(error: ValidationError) -> bool:
    """A member that only requests have is not required of a response (OpenAPI 3.1, writeOnly)."""
    if error.validator != "required" or not isinstance(error.schema, Mapping):
        return False
    properties = error.schema.get("properties", {})
    instance: Any = error.instance
    missing = [one for one in error.schema["required"] if one not in instance]
    return all(properties.get(one, {}).get("writeOnly") for one in missing)


def _absolute(schema: Any) -> Any:
    """References of a schema, seen from outside of its document."""
    return json.loads(json.dumps(schema).replace('"#/', f'"{_ADDRESS}#/'))
