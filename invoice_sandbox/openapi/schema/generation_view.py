"""Schemas as the generator reads them: whatever has to be looked up elsewhere is at hand.

Every reference is in full. What the address of a ``$dynamicRef`` may be, and which schema a
``discriminator`` chooses, become alternatives. Members that only clients send are shut out. What
earlier dialects have otherwise is as in JSON Schema 2020-12. These are copies to make values from:
the validator decides whether a value is valid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urldefrag

from invoice_sandbox.openapi.load.model import ONE_OF, SCHEMA, Node, address, node
from invoice_sandbox.openapi.load.pointers import named
from invoice_sandbox.openapi.schema.annotations import OF_THE_CLIENT, marked_members, without

Schema = Mapping[str, Any] | bool

COMPONENTS: Final = "#/components/schemas/"

_MAX_STEPS: Final = 40
_MAX_SUBTYPES: Final = 12
"""How many of the schemas that build upon one are tried: Microsoft Graph has one with 600."""
_CHOICES: Final = ("oneOf", "anyOf")
ITSELF: Final = "itself:"
"""Before an address: that schema alone, not one of those that its discriminator leads to."""


class GenerationView:
    """The schemas of one document, read when they are asked for."""

    def __init__(self, document: Mapping[str, Any], known: Mapping[str, Any]) -> None:
        """``known`` are the schemas of ``document`` by their identifiers."""
        self._known = known
        self._components: Mapping[str, Any] = document.get("components", {}).get("schemas", {})
        self._anchored = _anchored(known)
        self._subtypes = _subtypes(self._components)
        self._read: dict[str, Schema] = {}

    def read(self, schema: Schema) -> Schema:
        """``schema``, which stands in the document outside of any that has an ``$id``."""
        view: Schema = self._read_schema(schema, "")
        return view

    def at(self, reference: str) -> Schema:
        """The schema at a full address, as the schemas read here refer to it.

        Raises LookupError when there is none.
        """
        if reference not in self._read:
            plain = reference.removeprefix(ITSELF)
            found: Any = self._find(plain)
            resource = urldefrag(plain).url
            if self._known.get(resource) is found and isinstance(found, Mapping):
                found = {key: one for key, one in found.items() if key != "$id"}
            view = self._read_schema(found, resource)
            if isinstance(view, dict) and plain == reference:
                view = self._as_subtype(view, found, plain)
            self._read[reference] = view
        return self._read[reference]

    def _find(self, whole: str) -> Any:
        found = named(whole, "", self._known)
        if found is None:
            raise LookupError(whole)
        return found

    def _read_schema(
        self,
        schema: Any,
        base: str,
        around: frozenset[str] = frozenset(),
        *,
        part: bool = False,
    ) -> Any:
        """A copy of ``schema``, without members that are hidden ``around`` it.

        A ``part`` of an ``allOf`` applies to the same value as the whole.
        """
        if not isinstance(schema, Mapping):
            return schema
        if isinstance(schema.get("$id"), str):
            base = urldefrag(address(schema["$id"], base)).url
        hidden = around | marked_members(schema, OF_THE_CLIENT, lambda ref: self._named(ref, base))
        parts = schema["allOf"] if isinstance(schema.get("allOf"), list) else []
        rest = {key: one for key, one in schema.items() if key != "allOf" or not parts}
        view: dict[str, Any] = node(rest, SCHEMA).copy(lambda one: self._below(one, base))
        if parts:
            read = [self._read_schema(one, base, hidden, part=True) for one in parts]
            view = {key: read if key == "allOf" else view[key] for key in schema}
        if "required" in view:
            view["required"] = without(view["required"], hidden)
        self._exclude(view, hidden)
        _rewrite(view, base)
        if isinstance(schema.get("$ref"), str):
            view["$ref"] = (ITSELF if part else "") + _whole(schema["$ref"], base)
        if isinstance(schema.get("$dynamicRef"), str):
            self._resolve_dynamic(view, schema["$dynamicRef"], base)
        if isinstance(schema.get("discriminator"), Mapping):
            self._discriminate(view, schema, base)
        elif isinstance(view.get("anyOf"), list):  # one of which may be anything
            said = [one for one in view["anyOf"] if one and one is not True] or view["anyOf"]
            view["anyOf"] = [{"oneOf": said}, *said] if schema.get(ONE_OF) is True else said
        return view

    def _below(self, here: Node, base: str) -> Any:
        if here.type == SCHEMA:
            return self._read_schema(here.value, base)
        return here.copy(lambda child: self._below(child, base))

    def _named(self, reference: str, base: str) -> Any:
        return self._find(_whole(reference, base))

    def _exclude(self, view: dict[str, Any], hidden: frozenset[str]) -> None:
        own = hidden & set(view.get("properties", ()))
        if own:
            view["properties"] = {**view["properties"], **dict.fromkeys(own, False)}

    def _resolve_dynamic(self, view: dict[str, Any], reference: str, base: str) -> None:
        """Whichever schema has that anchor may be meant; the outermost one is found by trying."""
        whole = _whole(reference, base)
        anchored = self._anchored.get(urldefrag(whole).fragment, ())
        meant = [whole, *(one for one in anchored if one != whole)]
        del view["$dynamicRef"]
        choice = {"anyOf": [{"$ref": one} for one in reversed(meant)]}
        view["allOf"] = [*view.get("allOf", ()), choice]

    def _discriminate(self, view: dict[str, Any], schema: Mapping[str, Any], base: str) -> None:
        """Each alternative with the name that the discriminator has for it, if it may have one.

        Names may be all that distinguishes the alternatives of a ``oneOf``, and JSON Schema does
        not compare them. So a value may also be one that exactly one alternative allows as written.
        """
        for key in _CHOICES:
            branches = schema.get(key)
            if not isinstance(branches, list):
                continue
            pairs = [*zip(branches, view.pop(key), strict=True)]
            said = [(raw, one) for raw, one in pairs if one and one is not True] or pairs
            plain = [one for _, one in said]
            named_branches = [self._with_name(one, raw, schema, base) for raw, one in said]
            choices = [{key: named_branches}]
            if key == "oneOf" and named_branches != plain:
                choices.append({"oneOf": plain, "anyOf": named_branches})
            if schema.get(ONE_OF) is True:
                choices.insert(0, {"oneOf": plain, "anyOf": named_branches})
            _add_choices(view, choices)

    def _with_name(self, view: Schema, branch: Any, schema: Mapping[str, Any], base: str) -> Schema:
        """A branch with its name in the discriminating member, if it allows that."""
        member = schema["discriminator"].get("propertyName")
        if not isinstance(member, str):
            return view
        allowed = [
            name
            for name in self._names(branch, schema, base)
            if all(_may_be(one, name) for one in self._members(branch, member, base, 0))
        ]
        required_name = {"required": [member], "properties": {member: {"enum": allowed}}}
        return {"allOf": [view, required_name]} if allowed else view

    def _members(self, schema: Any, member: str, base: str, steps: int) -> Iterator[Any]:
        """What ``schema`` and its parts require of the member."""
        if not isinstance(schema, Mapping) or steps > _MAX_STEPS:
            return
        if isinstance(schema.get("$ref"), str):
            whole = _whole(schema["$ref"], base)
            found = named(whole, "", self._known)
            yield from self._members(found, member, urldefrag(whole).url, steps + 1)
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and member in properties:
            yield from self._behind(properties[member], base)
        for part in schema.get("allOf", ()):
            yield from self._members(part, member, base, steps + 1)

    def _behind(self, schema: Any, base: str) -> Iterator[Any]:
        """A schema, and what it refers to."""
        yield schema
        if isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str):
            yield named(_whole(schema["$ref"], base), "", self._known)

    def _names(self, branch: Any, schema: Mapping[str, Any], base: str) -> Sequence[str]:
        """What the discriminator of ``schema`` calls ``branch``."""
        reference = branch.get("$ref") if isinstance(branch, Mapping) else None
        if not isinstance(reference, str):
            return ()
        whole = _whole(reference, base)
        mapping = _mapping(schema["discriminator"])
        given = [name for name, target in mapping.items() if self._meant(target, base) == whole]
        return given or [whole.rpartition("/")[2]]

    def _meant(self, target: str, base: str) -> str:
        """The address that a mapping names: by the name of a component, or by a reference."""
        return COMPONENTS + target if target in self._components else _whole(target, base)

    def _as_subtype(self, view: dict[str, Any], schema: Any, whole: str) -> Schema:
        """A schema whose discriminator chooses among those that build upon it, as one of them."""
        discriminator = schema.get("discriminator")
        if not isinstance(discriminator, Mapping) or not view.keys().isdisjoint(_CHOICES):
            return view
        names = self._subtypes.get(whole, ())[:_MAX_SUBTYPES]
        subtypes = [COMPONENTS + name for name in names]
        choices = [
            self._with_name({"$ref": ITSELF + one}, {"$ref": one}, schema, "") for one in subtypes
        ]
        return {"anyOf": choices} if choices else view


def _rewrite(view: dict[str, Any], base: str) -> None:
    """What earlier dialects have otherwise, as JSON Schema 2020-12 has it."""
    if isinstance(view.get("items"), list):
        view["prefixItems"] = view.pop("items")
        view |= {"items": view["additionalItems"]} if "additionalItems" in view else {}
    for limit in ("exclusiveMinimum", "exclusiveMaximum"):
        if isinstance(view.get(limit), bool):  # whether the value may be the limit itself
            del view[limit]
    view.pop("$recursiveAnchor", None)
    if isinstance(view.get("$recursiveRef"), str):
        view["$ref"] = _whole(view.pop("$recursiveRef"), base)


def _add_choices(view: dict[str, Any], choices: list[dict[str, Any]]) -> None:
    """Require one of ``choices``, where the order of alternatives counts if possible."""
    choice = choices[0] if len(choices) == 1 else {"anyOf": choices}
    if view.keys().isdisjoint(_CHOICES):
        view |= choice
    else:
        view["allOf"] = [*view.get("allOf", ()), choice]


def _whole(reference: str, base: str) -> str:
    """The full address; components are those of the document, wherever they are referred to."""
    return address(reference, "" if reference.startswith(COMPONENTS) else base)


def _may_be(schema: Any, name: str) -> bool:
    """Whether the type and the constants of a schema allow the text."""
    if not isinstance(schema, Mapping):
        return schema is not False
    types = schema.get("type", "string")
    constants = [schema["const"]] if "const" in schema else schema.get("enum", [name])
    return "string" in ([types] if isinstance(types, str) else types) and name in constants


def _mapping(discriminator: Mapping[str, Any]) -> Mapping[str, str]:
    mapping = discriminator.get("mapping")
    if not isinstance(mapping, Mapping):
        return {}
    return {name: target for name, target in mapping.items() if isinstance(target, str)}


def _anchored(known: Mapping[str, Any]) -> dict[str, list[str]]:
    """The addresses of the schemas with a ``$dynamicAnchor``, by its name, in document order."""
    found: dict[str, list[str]] = {}
    for whole, schema in known.items():
        fragment = urldefrag(whole).fragment
        if fragment and schema.get("$dynamicAnchor") == fragment:
            found.setdefault(fragment, []).append(whole)
    return found


def _subtypes(components: Mapping[str, Any]) -> dict[str, list[str]]:
    """The names of the components that have another in their ``allOf``, by its address."""
    found: dict[str, list[str]] = {}
    for name, schema in components.items():
        for reference in _built_upon(schema):
            found.setdefault(reference, []).append(name)
    return found


def _built_upon(schema: Any) -> Iterator[str]:
    parts = schema.get("allOf") if isinstance(schema, Mapping) else None
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, Mapping) and isinstance(part.get("$ref"), str):
            yield part["$ref"]
