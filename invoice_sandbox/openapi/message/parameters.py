"""Path, query, header and cookie parameters: from the text of a request to checked values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from urllib.parse import quote, unquote, unquote_plus

from msgspec import Struct

from invoice_sandbox.base.errors import InputProblem
from invoice_sandbox.base.jsonio import dumps
from invoice_sandbox.openapi.message.coercion import Shape, TextError, read_json, read_text
from invoice_sandbox.openapi.message.media_types import URLENCODED, is_json
from invoice_sandbox.openapi.message.styles import DEEP, FORM, Decode, Given, Pair, Style, bracketed
from invoice_sandbox.openapi.schema.compile import Checker, Schema, SchemaError, Schemas
from invoice_sandbox.openapi.schema.problems import Problem

IGNORED_HEADERS: Final = frozenset({"accept", "content-type", "authorization"})
"""A header parameter of such a name has no effect (OpenAPI 3.1, Parameter Object, ``name``)."""

_QUERY_STRING: Final = "querystring"
"""The location of a parameter that is the whole query (OpenAPI 3.2)."""

_STYLES: Final = {"path": "simple", "query": FORM, "header": "simple", "cookie": FORM}
_ALLOWED: Final = {
    "path": ("simple", "label", "matrix"),
    "query": (FORM, "spaceDelimited", "pipeDelimited", DEEP),
    "header": ("simple",),
    "cookie": (FORM,),
}

_Entry = tuple[tuple[str, ...], str]

Candidates = Callable[[Given], list[Any]]
"""The values that the texts may stand for, the likeliest first; none when nothing was sent. Raises
TextError."""


class Found(Struct, frozen=True):
    """The value of a parameter in a request, or a problem and what it is about."""

    value: Any
    problem: InputProblem | None = None
    label: str = ""


@dataclass(frozen=True)
class Parameter:
    """One declared parameter.

    A ``secret`` one is declared as ``format: password``. ``schema_pointer`` is the JSON
    Pointer to its schema in the document. ``in_raw_path``: its text must be
    taken from the path as it was sent, ``in_many`` that its parts are texts of their own, maybe
    under ``other_names``. ``members`` are the names of its members if they are parameters of their
    own; None: any name.
    """

    name: str
    location: str
    required: bool
    checker: Checker
    candidates: Candidates
    may_be_empty: bool = False
    secret: bool = False
    schema_pointer: str = ""
    in_raw_path: bool = False
    in_many: bool = False
    other_names: bool = False
    members: tuple[str, ...] | None = ()

    def find(self, given: Given) -> Found | None:
        """Return the parameter in what its location gives; None when it was not sent."""
        if not self.other_names and self.name not in given.texts:
            return None
        if self.may_be_empty and given.texts.get(self.name) == [""]:
            return Found("")
        try:
            candidates = self.candidates(given)
        except TextError as error:
            return Found(None, InputProblem(str(error)), self.name)
        for value in candidates:
            if self.checker.is_valid(value):
                return Found(value)
        if not candidates:
            return None
        (found, *_), _ = self.checker.explain(candidates[0])
        if self.secret:  # whose value nobody repeats, no client either
            found = replace(found, typed="", schema_path="")
        problem = InputProblem(found.text, found.is_missing)
        return Found(None, problem, _label(self.name, found))


def compile_parameter(
    raw: Mapping[str, Any], schemas: Schemas, place: str, others: Collection[str] = ()
) -> Parameter:
    """The compiled form of one Parameter Object, beside the query parameters named ``others``.

    Raises SchemaError for a style that its location does not have.
    """
    location, name = raw["in"], raw["name"]
    if location == _QUERY_STRING:
        return _query_string(raw, schemas, place)
    if "content" in raw:
        return _with_content(raw, schemas, place)
    style = raw.get("style", _STYLES[location])
    style = FORM if (location, style) == ("cookie", "cookie") else style  # since OpenAPI 3.2
    if style not in _ALLOWED[location] or "schema" not in raw:
        raise SchemaError(f"{place}: the style '{style}' is not one of a parameter in {location}")
    schema = raw["schema"]
    shape = Shape(schema, schemas)
    explode = bool(raw.get("explode", style == FORM))
    in_raw_path = location == "path" and not (style == "simple" and shape.is_plain)
    decode = unquote if in_raw_path else _decode(location, bool(raw.get("allowReserved")))
    spelled = Style(name, style, explode, decode)
    return Parameter(
        name=name,
        location=location,
        required=bool(raw.get("required", False)),
        checker=schemas.checker(schema, place),
        candidates=reader(spelled, shape, others),
        may_be_empty=bool(raw.get("allowEmptyValue")) and location == "query",
        in_raw_path=in_raw_path,
        in_many=explode and not shape.is_plain,
        other_names=spelled.is_spread and not shape.is_plain,
        members=_members(spelled, shape),
    )


def query_of(parameters: Iterable[Parameter], values: Mapping[str, Any]) -> str:
    """Return the query of a URL that gives parameters these values, in the style ``form``."""
    repeated = {parameter.name for parameter in parameters if parameter.in_many}
    pairs: list[str] = []
    for name, value in values.items():
        texts = [_in_query(item) for item in (value if isinstance(value, list) else [value])]
        texts = texts if name in repeated else [",".join(texts)]
        pairs += [f"{quote(name, safe='')}={text}" for text in texts]
    return "&".join(pairs)


def _in_query(value: Any) -> str:
    is_text = isinstance(value, str)
    return quote(value if is_text else dumps(value).decode(), safe="", errors="replace")


def _is_read_in_one_way(shape: Shape) -> bool:
    types = shape.types
    return shape.is_plain and ("string" not in types or types <= {"string", "null"})


def _members(style: Style, shape: Shape) -> tuple[str, ...] | None:
    if not style.is_spread or style.style == DEEP or "object" not in shape.types:
        return ()
    return None if shape.takes_any_member else tuple(shape.members)


def reader(style: Style, shape: Shape, others: Collection[str] = ()) -> Candidates:
    """Return the reader of a value of this ``shape``, written in this ``style``.

    ``others`` are the names beside it that are not members of an exploded object.
    """
    types = shape.types
    if _is_read_in_one_way(shape):
        return partial(_scalars, style, shape, literally=False)
    readers: list[Callable[[Given], list[Any]]] = []
    if "object" in types:
        readers.append(partial(_objects, style, shape, others))
    if "array" in types:
        readers.append(partial(_lists, style, shape))
    if types - {"array", "object"}:
        readers.append(partial(_scalars, style, shape, literally=False))
        readers.append(partial(_scalars, style, shape, literally=True))
    return partial(_first_that_can, readers)


def _first_that_can(readers: Sequence[Candidates], given: Given) -> list[Any]:
    """Return what all the readers find. Raises the first TextError if none finds anything."""
    found: list[Any] = []
    problems: list[TextError] = []
    for reader in readers:
        try:
            found += reader(given)
        except TextError as problem:
            problems.append(problem)
    if problems and not found:
        raise problems[0]
    return found


def _scalars(style: Style, shape: Shape, given: Given, *, literally: bool) -> list[Any]:
    texts = given.texts.get(style.name)
    if not texts:
        return []
    return [read_text(style.scalar(texts), shape.types, literally=literally)]


def _lists(style: Style, shape: Shape, given: Given) -> list[Any]:
    entries = list(bracketed(style.name, given)) if style.style == DEEP else []
    if entries:
        return [_from_brackets(entries, shape, style.decode)]
    texts = given.texts.get(style.name)
    if not texts:
        return []
    parts = style.items(texts)
    values = [_list(parts, shape, literally=literally) for literally in (False, True)]
    return [*values, []] if parts == [""] else values


def _list(parts: Sequence[str], shape: Shape, *, literally: bool) -> list[Any]:
    return [
        read_text(part, shape.item(index).types, literally=literally)
        for index, part in enumerate(parts)
    ]


def _objects(style: Style, shape: Shape, others: Collection[str], given: Given) -> list[Any]:
    if style.style == DEEP:
        entries = list(bracketed(style.name, given))
        return [_from_brackets(entries, shape, style.decode)] if entries else []
    if style.is_spread:
        pairs = [
            (name, style.decode(text))
            for name, text in given.pairs
            if name in shape.members or (shape.takes_any_member and name not in others)
        ]
    else:
        texts = given.texts.get(style.name)
        pairs = style.members(texts) if texts else []
    return [_object(pairs, shape)] if pairs else []


def _object(pairs: Sequence[Pair], shape: Shape) -> dict[str, Any]:
    texts: dict[str, list[str]] = {}
    for name, text in pairs:
        texts.setdefault(name, []).append(text)
    return {name: _member(name, some, shape.member(name)) for name, some in texts.items()}


def _member(name: str, texts: Sequence[str], shape: Shape) -> Any:
    if "array" in shape.types:
        return _list(texts, shape, literally=False)
    if len(texts) > 1:
        raise TextError(f"gives its member {name[:60]} more than once")
    return read_text(texts[0], shape.types)


def _from_brackets(entries: Sequence[_Entry], shape: Shape, decode: Decode) -> Any:
    """The value of ``[a]=1``, ``[b][c]=2``, ``[d][]=3``: the last two as most clients mean them."""
    is_list = "array" in shape.types
    if not any(path for path, _ in entries) and (is_list or len(entries) == 1):
        texts = [decode(text) for _, text in entries]
        return _member("", texts, shape)
    if not all(path for path, _ in entries):
        raise TextError("gives one of its members in two ways")
    steps = {path[0] for path, _ in entries}
    if is_list and steps == {""}:
        groups = [[(path[1:], text)] for path, text in entries]
        return [_from_brackets(group, shape.item(i), decode) for i, group in enumerate(groups)]
    if is_list and all(step.isascii() and step.isdigit() for step in steps):
        ordered = sorted(_grouped(entries).items(), key=lambda item: (len(item[0]), item[0]))
        return [
            _from_brackets(group, shape.item(i), decode) for i, (_, group) in enumerate(ordered)
        ]
    return {
        name: _from_brackets(some, shape.member(name), decode)
        for name, some in _grouped(entries).items()
    }


def _grouped(entries: Sequence[_Entry]) -> dict[str, list[_Entry]]:
    """Return entries by their first step, without it."""
    groups: dict[str, list[_Entry]] = {}
    for path, text in entries:
        groups.setdefault(path[0], []).append((path[1:], text))
    return groups


def _with_content(raw: Mapping[str, Any], schemas: Schemas, place: str) -> Parameter:
    """A parameter whose text is of a media type; JSON is read, anything else is a text, which is
    not checked if the schema allows none."""
    location, name = raw["in"], raw["name"]
    media_type, media = next(iter(raw["content"].items()))
    schema: Schema = media.get("schema", True)
    decode, is_read = _decode(location, reserved=False), is_json(media_type.lower())
    is_checked = is_read or Shape(schema, schemas).may_be_text
    style = Style(name, FORM if location in {"query", "cookie"} else "simple", False, decode)

    def candidates(given: Given) -> list[Any]:
        texts = given.texts.get(name)
        if not texts:
            return []
        text = style.scalar(texts)
        return [read_json(text) if is_read else text]

    return Parameter(
        name=name,
        location=location,
        required=bool(raw.get("required", False)),
        checker=schemas.checker(schema if is_checked else True, place),
        candidates=candidates,
    )


def _query_string(raw: Mapping[str, Any], schemas: Schemas, place: str) -> Parameter:
    """The parameter that is the whole query: the members of a form, or a text."""
    media_type, media = next(iter(raw["content"].items()))
    if media_type.lower() == URLENCODED:
        own = {"name": raw["name"], "in": "query", "required": raw.get("required", False)}
        schema = media.get("schema", {"type": "object"})
        return compile_parameter({**own, "style": FORM, "schema": schema}, schemas, place)
    read = _with_content({**raw, "in": "query"}, schemas, place)

    def candidates(given: Given) -> list[Any]:
        texts = (f"{name}={unquote(text)}" if text else name for name, text in given.pairs)
        return read.candidates(Given([(read.name, quote("&".join(texts)))]))

    return replace(read, candidates=candidates, other_names=True, members=None)


def _decode(location: str, reserved: bool) -> Decode:
    """Return what decodes a value: a header has no encoding, and a path was decoded as a whole.
    With ``allowReserved`` a plus sign stands for itself."""
    if location in {"header", "path"}:
        return str
    return unquote_plus if location == "query" and not reserved else unquote


def _label(name: str, problem: Problem) -> str:
    is_own = not problem.member or problem.member.startswith("[")
    typed = f" '{problem.typed}'" if problem.typed else ""
    return f"{name}{'' if is_own else '.'}{problem.member}{typed}"
