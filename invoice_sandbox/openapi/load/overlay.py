"""Apply an OpenAPI Overlay 1.0 or 1.1 document to an OpenAPI document.

Targets are RFC 9535 JSONPath. ``update`` merges objects recursively and appends to arrays;
``copy`` does so with what it selects (1.1), if there is no ``update``;
``remove: true`` deletes what the target names. Stricter than the Overlay specification in one
point: a target that matches nothing is an error, because an assumption that no longer fits the
contract must be seen and not skipped.

An action with ``description`` and ``x-gap`` is an assumption. What it adds or changes gets
``x-assumption``: a list of objects with ``assumption`` (the first sentence of the description),
``gap``, and ``members``, the places below an object that is not new as a whole.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from invoice_sandbox.openapi.load.documents import pointer_text
from invoice_sandbox.openapi.load.model import SCHEMA, Node, Pointer, node

ASSUMPTION: Final = "x-assumption"

_MARKED: Final = frozenset(
    {
        *("document", "info", "tag", "pathItem", "operation", "parameter", "header", "response"),
        *(SCHEMA, "securityScheme"),
    }
)
"""OpenAPI objects that show an assumption: those whose extensions documentation tools show, and
and those that are not inside of such an object."""
_FIRST_SENTENCE: Final = re.compile(r".*?[.!?](?=\s|$)", re.DOTALL)


@dataclass
class OverlayError(Exception):
    """An action that cannot be applied. ``action`` is its index in ``actions``."""

    problem: str
    action: int
    target: str

    __hash__ = Exception.__hash__

    def __str__(self) -> str:
        """Return the problem, preceded by which action has it."""
        return f"action {self.action + 1} ({self.target}): {self.problem}"


@dataclass(frozen=True)
class Assumption:
    """One overlay action as a reader wants it: what it changes, the gap it fills, and why."""

    target: str
    gap: str
    reason: str


def overlay_problems(document: dict[str, Any], overlay: dict[str, Any]) -> Iterator[OverlayError]:
    """Yield every action that does not fit; those that do are applied to ``document``."""
    for index, action in enumerate(overlay["actions"]):
        problem = _apply_action(document, action)
        if problem:
            yield OverlayError(problem, index, action["target"])


def assumptions(overlay: dict[str, Any]) -> tuple[Assumption, ...]:
    """Return the actions of ``overlay`` in order, as a table."""
    return tuple(
        Assumption(action["target"], action.get("x-gap", ""), action.get("description", ""))
        for action in overlay["actions"]
    )


def _apply_action(document: dict[str, Any], action: Mapping[str, Any]) -> str | None:
    """Apply one action in place; return a text when it cannot be applied."""
    import jsonpath_rfc9535 as jsonpath  # slow to import, and most starts read the result

    try:
        nodes = list(jsonpath.find(action["target"], document))
        is_copy = "copy" in action and "update" not in action
        copied = jsonpath.find(action["copy"], document) if is_copy else []
    except jsonpath.JSONPathError as error:
        return f"the target, or 'copy', is not an RFC 9535 JSONPath: {error}"
    if not nodes:
        return "the target matches nothing in the contract"
    if action.get("remove") is True:
        return _remove(document, [found.location for found in nodes])
    values = [copy.deepcopy(found.value) for found in copied] or [action.get("update")]
    if is_copy and len(copied) != 1:
        return f"'copy' selects {len(copied)} values of the contract, and must select one"
    changed: list[Pointer] = []
    for found in nodes:
        problem = _update(found.value, values[0], tuple(found.location), changed)
        if problem:
            return problem
    _mark(document, action, changed)
    return None


def _remove(document: dict[str, Any], locations: list[tuple[int | str, ...]]) -> str | None:
    # What lies deeper, or further back in its list, goes first: so nothing moves before its turn.
    def depth_and_index(location: tuple[int | str, ...]) -> tuple[int, int]:
        last = location[-1] if location else -1
        return len(location), last if isinstance(last, int) else -1

    for location in sorted(dict.fromkeys(locations), key=depth_and_index, reverse=True):
        if not location:
            return "the root of the contract cannot be removed"
        parent: Any = document
        for step in location[:-1]:
            parent = parent[step]
        del parent[location[-1]]
    return None


def _update(target: Any, update: Any, at: Pointer, changed: list[Pointer]) -> str | None:
    """Merge ``update`` into ``target``, which is ``at``, and list in ``changed`` what is new."""
    if isinstance(target, dict) and isinstance(update, dict):
        _merge(target, update, at, changed)
        return None
    if isinstance(target, list):
        _append(target, [update], at, changed)
        return None
    return "the target must be an object or an array for this update"


def _merge(
    target: dict[str, Any], update: dict[str, Any], at: Pointer, changed: list[Pointer]
) -> None:
    for key, value in update.items():
        present = target.get(key)
        if isinstance(present, dict) and isinstance(value, dict):
            _merge(present, value, (*at, key), changed)
        elif isinstance(present, list) and isinstance(value, list):
            _append(present, value, (*at, key), changed)
        else:
            target[key] = copy.deepcopy(value)
            changed.append((*at, key))


def _append(target: list[Any], values: list[Any], at: Pointer, changed: list[Pointer]) -> None:
    changed += ((*at, len(target) + index) for index in range(len(values)))
    target += copy.deepcopy(values)


def _mark(document: dict[str, Any], action: Mapping[str, Any], changed: list[Pointer]) -> None:
    """Add the assumption of ``action`` to what it ``changed``."""
    if not (action.get("description") and action.get("x-gap")):
        return
    description = " ".join(action["description"].split())
    sentence = _FIRST_SENTENCE.match(description)
    note = {"assumption": sentence[0] if sentence else description, "gap": action["x-gap"]}
    members: dict[Pointer, list[str]] = {}
    for pointer in changed:
        for place in _new_objects(_trail(document, pointer)[-1]):
            marked = _marked(_trail(document, place))
            rest = pointer_text(place[len(marked) :]).removeprefix("/")
            members.setdefault(marked, []).append(rest)
    for marked, names in members.items():
        below = {"members": names} if all(names) else {}
        _trail(document, marked)[-1].value.setdefault(ASSUMPTION, []).append({**note, **below})


def _trail(document: dict[str, Any], pointer: Pointer) -> list[Node]:
    """Return the nodes from the document to what ``pointer`` names."""
    trail = [node(document)]
    for step in pointer:
        trail.append(trail[-1].child(step, trail[-1].value[step]))
    return trail


def _new_objects(new: Node) -> Iterator[Pointer]:
    """``new``, or every object in it, if it is a map or a list; a path item and its operations."""
    inner = new.containers() if new.type[0] in "{[" or new.type == "pathItem" else []
    if not inner or new.type == "pathItem":
        yield new.pointer
    for child in inner:
        yield from _new_objects(child)


def _marked(trail: list[Node]) -> Pointer:
    """Return the innermost object of ``trail`` that can be marked; a reference cannot."""
    return next(here.pointer for here in reversed(trail) if _can_be_marked(here))


def _can_be_marked(one: Node) -> bool:
    return one.type in _MARKED and isinstance(one.value, Mapping) and one.reference is None
