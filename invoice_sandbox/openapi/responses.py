"""A response from the contract itself: a named example, else the example, else generated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.openapi.load.operations import named_examples
from invoice_sandbox.openapi.message.coercion import Shape
from invoice_sandbox.openapi.message.media_types import (
    PROBLEM_JSON,
    concrete,
    is_json,
    is_text,
    json_first,
    parse,
    preferred,
)
from invoice_sandbox.openapi.message.parameters import compile_parameter
from invoice_sandbox.openapi.message.styles import Given
from invoice_sandbox.openapi.operation import Contract, DeclaredResponse, Operation
from invoice_sandbox.openapi.schema.compile import Checker, Schema, SchemaError
from invoice_sandbox.openapi.schema.generate import CannotGenerate, generate
from invoice_sandbox.openapi.schema.problems import Problem

Problems = Callable[[Any], Sequence[Problem]]
"""Everything wrong with a value."""

_NOT_SENT: Final = "is a text that no header can carry"
NOT_USED: Final = "this example is not used"
_FIRST_FINAL: Final = 200
SET_BY_SERVER: Final = frozenset(
    {
        *("connection", "content-encoding", "content-length", "content-type", "date"),
        *("content-security-policy", "keep-alive", "trailer", "transfer-encoding", "upgrade"),
        "x-content-type-options",
    }
)
"""Headers that the server writes itself; a contract that declares them has no effect."""


WITHOUT_BODY: Final = frozenset({204, 205, 304})
"""Statuses whose responses have no body, whatever a document declares (RFC 9110, section 6.4.1)."""


class NoResponseError(ValueError):
    """The contract gives no valid response; the message names the operation and what to add."""


@dataclass
class NotOfferedError(ValueError):
    """The contract lacks what a client prefers: ``problem`` is what, ``known`` what it has."""

    problem: str
    known: tuple[str, ...]

    __hash__ = ValueError.__hash__


@dataclass
class NotAcceptableError(ValueError):
    """None of the ``declared`` media types is one that the client accepts."""

    declared: tuple[str, ...]

    __hash__ = ValueError.__hash__


@dataclass(frozen=True)
class Choice:
    """The choice of a client: the response of a ``status``, the ``example`` of a name, one that is
    generated and no example (``dynamic``), a media type that its header ``accept`` allows."""

    status: int | None = None
    example: str | None = None
    dynamic: bool = False
    accept: str | None = None


USUAL: Final = Choice()
"""The success response, from an example if there is one."""


@dataclass(frozen=True)
class ContractResponse:
    """``body`` is a JSON value when the media type is JSON, else text; None: no body.

    ``headers`` are those that the contract requires, or shows by an example. ``hints`` are about an
    example that its schema does not allow, so that ``body`` is generated.
    """

    status: int
    media_type: str = ""
    body: Any = None
    headers: tuple[tuple[str, str], ...] = ()
    hints: tuple[str, ...] = ()


def contract_response(
    contract: Contract, operation: Operation, seed: int | str, choice: Choice = USUAL
) -> ContractResponse:
    """Return the response of the operation by its contract; its success unless ``choice`` differs.

    A JSON body is always valid; a generated one is the same for the same ``seed``. Raises
    NoResponseError when there is no example and none can be generated, NotOfferedError for a status
    or an example that is not declared, and NotAcceptableError.
    """
    status, response = _chosen(operation, choice)
    if status < _FIRST_FINAL:
        raise NoResponseError(
            f"{operation.id}: {status} is not a final status, and no other response is declared"
        )
    own_seed = f"{seed}/{operation.id}" + ("" if choice.status is None else f"/{status}")
    source = _Source(contract, f"{operation.id}, response {status}", own_seed, choice)
    if response is None:
        return ContractResponse(status)
    headers = tuple(source.headers(response))
    declared = _media_type(contract, operation, response, status, choice)
    if declared is None:
        return ContractResponse(status, headers=headers)
    body, media_type = source.body(response, declared), concrete(declared)
    if parse(media_type).name == PROBLEM_JSON:
        body = _with_status(body, status, response.content[declared])
    return ContractResponse(status, media_type, body, headers, (*source.hints,))


def _with_status(body: Any, status: int, checker: Checker | None) -> Any:
    """A problem whose ``status`` is that of its response (RFC 9457, section 3.1.2), if it has one
    and its schema allows that."""
    if not isinstance(body, Mapping) or "status" not in body:
        return body
    changed = {**body, "status": status}
    return changed if checker is None or checker.is_valid(changed) else body


def allowed_headers(
    contract: Contract, operation: Operation, status: int, wanted: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield the headers that the response declares and allows, with the wanted values. Names of
    ``wanted`` are in lower case."""
    response = operation.response_for(status)
    for name, raw in response.headers.items() if response else ():
        value = wanted.get(name.lower())
        if value is not None and "content" not in raw:
            place = f"{operation.id}, header {name}"
            checker = contract.schemas.compile(raw.get("schema", True), place)
            text = _as_text(value)
            if checker.is_valid(value) or checker.is_valid(text):
                yield name, text


def check_headers(
    contract: Contract, operation: Operation, status: int | None, headers: Mapping[str, str]
) -> None:
    """Raises NotOfferedError if the contract does not allow one of these headers of a response."""
    number, response = _chosen(operation, Choice(status))
    given = {name.lower(): text for name, text in headers.items()}
    for name, raw in response.headers.items() if response else ():
        if name.lower() in given:
            place = f"{operation.id}, header {name}"
            one = compile_parameter({**raw, "name": name, "in": "header"}, contract.schemas, place)
            found = one.find(Given([(name, given[name.lower()])]))
            if found is not None and found.problem is not None:
                text = f"not a {number} of {operation.id}: the header {name} {found.problem.text}"
                raise NotOfferedError(text, ())


def given_response(
    contract: Contract,
    operation: Operation,
    seed: int | str,
    status: int | None,
    body: Any,
    headers: Mapping[str, str],
) -> ContractResponse:
    """The response with this body, as JSON if the contract declares that; its success by default.
    Besides ``headers`` it has those that the contract requires, or shows by an example.

    Raises NotOfferedError when the contract does not allow the body, and NoResponseError when it
    requires a header that cannot be generated.
    """
    number, response = _chosen(operation, Choice(status))
    declared = json_first(response.content) if response is not None else []
    if not declared or response is None:
        raise NotOfferedError(f"{operation.id} {number} has no body", ())
    checker, media_type = response.content[declared[0]], concrete(declared[0])
    if not is_json(media_type) and not isinstance(body, str):
        raise NotOfferedError(f"the body of {operation.id} {number} must be a text", ())
    problems = checker.problems(body) if checker is not None else ()
    if problems:
        text = problems[0].sentence("the body")
        raise NotOfferedError(f"not a {number} of {operation.id}: {text}", ())
    place = f"{operation.id}, response {number}"
    source = _Source(contract, place, f"{seed}/{operation.id}/{number}", USUAL)
    others = source.headers(response, {name.lower() for name in headers})
    return ContractResponse(number, media_type, body, (*others, *headers.items()))


def _chosen(operation: Operation, choice: Choice) -> tuple[int, DeclaredResponse | None]:
    if choice.status is None:
        key = operation.success
        status = int(key) if key.isdigit() else 200 if key == "default" else int(f"{key[0]}00")
        return status, operation.responses.get(key)
    response = operation.response_for(choice.status)
    if response is None:
        problem = f"{operation.id} declares no response {choice.status}"
        raise NotOfferedError(problem, tuple(operation.responses))
    return choice.status, response


def _media_type(
    contract: Contract,
    operation: Operation,
    response: DeclaredResponse,
    status: int,
    choice: Choice,
) -> str | None:
    """The declared media type to respond in: that of ``json_first``, unless the client prefers
    another.

    An error is returned whatever the client accepts (RFC 9110, section 15.5.7, allows it).
    """
    declared = json_first(response.content)
    if choice.example is not None:
        names = {
            media_type: dict(named_examples(contract.document, response.media[media_type]))
            for media_type in declared
        }
        declared = [media_type for media_type in declared if choice.example in names[media_type]]
        if not declared:
            problem = f"{operation.id} {status} has no example '{choice.example[:60]}'"
            known = dict.fromkeys(name for some in names.values() for name in some)
            raise NotOfferedError(problem, tuple(known))
    if not declared or choice.accept is None:
        return declared[0] if declared else None
    liked = preferred(declared, choice.accept)
    if liked is None and status < 400:
        raise NotAcceptableError(tuple(map(concrete, declared)))
    return liked or declared[0]


@dataclass(frozen=True)
class _Source:
    """Where the values of one response come from; ``place`` is its name in messages."""

    contract: Contract
    place: str
    seed: str
    choice: Choice
    hints: list[str] = field(default_factory=list)

    def body(self, response: DeclaredResponse, declared: str) -> Any:
        """Return a JSON value for JSON, else a text. Raises NoResponseError, NotOfferedError."""
        media, checker = response.media[declared], response.content[declared]
        media_type = concrete(declared)
        if is_json(media_type):
            return self._value(media, checker)
        schema = media.get("schema")
        is_one_text = schema is not None and Shape(schema, self.contract.schemas).is_plain
        if is_one_text or (schema is not None and is_text(media_type)):
            return _as_text(self._value(media, checker))
        examples = self._examples(media)
        return "" if self.choice.dynamic else _as_text(next(examples, ""))

    def _value(self, media: Mapping[str, Any], checker: Checker | None) -> Any:
        problems = checker.problems if checker else _no_problems
        if not self.choice.dynamic or self.choice.example is not None:
            wrong = []
            for example in self._examples(media):
                found = problems(example)
                if not found:
                    return example
                wrong.append(found[0].sentence("the value"))
            self.hints.extend(f"{NOT_USED}: {problem}" for problem in wrong[:1])
        if self.choice.example is not None:
            problem = f"the example '{self.choice.example[:60]}' does not satisfy its own schema"
            raise NotOfferedError(f"{self.place}: {problem}", ())
        return self._made(media.get("schema", True), problems, self.seed)

    def _examples(self, media: Mapping[str, Any]) -> Iterator[Any]:
        for name, value in named_examples(self.contract.document, media):
            if self.choice.example in {None, name}:
                yield value
        if "example" in media and self.choice.example is None:
            yield media["example"]

    def _made(self, schema: Schema, problems: Problems, seed: str) -> Any:
        try:
            return generate(
                self.contract.schemas, schema, seed, dynamic=self.choice.dynamic, problems=problems
            )
        except CannotGenerate as error:
            raise NoResponseError(f"{self.place}: {error}") from None

    def headers(
        self, response: DeclaredResponse, without: Set[str] = frozenset()
    ) -> Iterator[tuple[str, str]]:
        """The headers that are required, or shown by an example. ``without`` are names of others,
        in lower case. Raises NoResponseError."""
        for name, raw in response.headers.items():
            is_shown = any(key in raw or key in _schema_of(raw) for key in ("example", "examples"))
            is_wanted = name.lower() not in SET_BY_SERVER | without
            if is_wanted and (raw.get("required", False) or is_shown):
                yield name, self._header(name, raw)

    def _header(self, name: str, raw: Mapping[str, Any]) -> str:
        schema = raw.get("schema", True)
        has_content = "content" in raw
        if has_content:
            raw = next(iter(raw["content"].values()))
            schema = raw.get("schema", True)
        try:
            checker = self.contract.schemas.compile(schema, f"{self.place}, header {name}")
        except SchemaError as error:
            raise NoResponseError(str(error)) from None

        def written(value: Any) -> str:
            return jsonio.dumps(value).decode() if has_content else _in_simple_style(value, raw)

        def problems(value: Any) -> Sequence[Problem]:
            unsent = () if _can_be_sent(written(value)) else [Problem("", _NOT_SENT, "")]
            return checker.problems(value) or unsent

        shown = [*(value for _, value in named_examples(self.contract.document, raw))]
        shown += [raw["example"]] if "example" in raw else []
        for value in () if self.choice.dynamic else shown:
            if not problems(value):
                return written(value)
        return written(self._made(schema, problems, f"{self.seed}/{name}"))


def _schema_of(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = raw.get("schema")
    return schema if isinstance(schema, Mapping) else {}


def _no_problems(_: Any) -> Sequence[Problem]:
    return ()


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else jsonio.dumps(value).decode()


def _in_simple_style(value: Any, raw: Mapping[str, Any]) -> str:
    """Return a header's value as the style ``simple`` writes it, the only one that headers have."""
    if isinstance(value, list):
        return ",".join(map(_as_text, value))
    if isinstance(value, Mapping):
        equals = "=" if raw.get("explode", False) else ","
        return ",".join(f"{name}{equals}{_as_text(member)}" for name, member in value.items())
    return _as_text(value)


def _can_be_sent(text: str) -> bool:
    """True if a header can carry the text as it is."""
    return text == text.strip() and all(" " <= letter <= "~" for letter in text)
