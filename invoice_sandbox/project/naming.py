"""What documents call things: ids, envelopes and lists are found by the words of their names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from invoice_sandbox.base.ids import snake_case
from invoice_sandbox.project.fitting import at_steps, members

_ENVELOPES: Final = (
    *("data", "result", "item", "record", "resource", "payload", "response", "node", "value"),
)
IDS: Final = frozenset({"id", "data", "result", "value"})
_OF_NEW: Final = frozenset(
    {"entity", "record", "resource", "object", "item", "new", "created", "inserted"}
)
"""Members of a response without the record that may have its id, and first words of others."""
LISTS: Final = frozenset(
    {*_ENVELOPES, "collection", "content", "edge", "element", "entry", "list", "row"}
)
"""Words in the names of members with the records of a list."""
_LARGE: Final = 10**18
_WHOLE: Final = re.compile("0|[1-9][0-9]{0,17}")


def as_ids(value: Any) -> Iterator[Any]:
    """A value of a path, as members may have it: itself, as text, and as a number."""
    yield from (value, str(value))
    if _WHOLE.fullmatch(str(value)):
        yield int(value)


def plain_id(value: Any) -> Any:
    """An id in its shortest form: ``1.0`` is the same number as ``1``."""
    is_number = isinstance(value, float | Decimal) and -_LARGE < value < _LARGE
    return int(value) if is_number and value == int(value) else value


def words(name: str) -> list[str]:
    """``issueNumber`` as ``issue`` and ``number``."""
    return [one for one in snake_case(name).split("_") if one]


def nouns(path: str) -> list[str]:
    """The words of the last segment of a path, as of one thing."""
    return [*map(singular, words(path.rpartition("/")[2]))]


def singular(word: str) -> str:
    """``pets`` as ``pet``."""
    return f"{word[:-3]}y" if word.endswith("ies") else word.removesuffix("s")


def is_envelope(name: str, names: Sequence[str]) -> bool:
    """Whether a member with this name may have a record that is called by ``names``: ``task`` and
    ``new_task`` of ``/tasks``, ``assignment`` of ``/task_assignments``, but not its ``task``."""
    own = [*map(singular, words(name))]
    is_called = any(own[at : at + len(names)] == [*names] for at in range(len(own))) and bool(names)
    return is_called or [*names][-len(own) :] == own or not {*own}.isdisjoint(_ENVELOPES)


def place_of(body: Any, identity: Sequence[str], names: Sequence[str]) -> tuple[str, ...] | None:
    """The members of a response that lead to the record, at most two; None if it has no record.

    They are called like the collection, have a name that envelopes have, or are alone.
    """
    levels: list[tuple[tuple[str, ...], Mapping[str, Any]]] = [((), members(body))]
    for _ in range(3):
        found = [place for place, one in levels if _has(one, identity)]
        if found:
            return found[0] if len(found) == 1 else None
        levels = [
            ((*place, name), inner)
            for place, one in levels
            for name, inner in one.items()
            if isinstance(inner, Mapping) and (len(one) == 1 or is_envelope(name, names))
        ]
    return None


def named_like(value: Any, declared: Sequence[Any]) -> Any:
    """A value whose members have the names that are ``declared`` for them, if these are the same
    words: ``FriendlyName`` as ``friendly_name``."""
    if not any(declared):
        return value
    if isinstance(value, list):
        items = [one[0] for one in declared if isinstance(one, list) and one]
        return [named_like(one, items) for one in value]
    if not isinstance(value, Mapping):
        return value
    known = {name for one in declared for name in members(one)}
    others = {(*words(name),): name for name in sorted(known - value.keys())}
    found = dict[str, Any]()
    for name, one in value.items():
        own = str(name if name in known else others.get((*words(name),), name))
        below = [members(each)[own] for each in declared if own in members(each)]
        found[own] = named_like(one, below)
    return found


def is_new_id(name: str) -> bool:
    """Whether a member of a response without the record has its id, such as ``entity_id``."""
    first, *rest = words(name) or [""]
    return (first in _OF_NEW and rest == ["id"]) or name == "uuid"


def is_text(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _has(value: Any, steps: Sequence[str]) -> bool:
    """Whether there is something where these members lead, if only null."""
    return steps[-1] in members(at_steps(value, steps[:-1]))


def lists_in(body: Any) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    """The lists of a response, by the members that lead to them: at most two."""
    levels: list[tuple[tuple[str, ...], Any]] = [((), body)]
    for _ in range(3):
        yield from ((place, one) for place, one in levels if isinstance(one, list))
        levels = [
            ((*place, name), inner) for place, one in levels for name, inner in members(one).items()
        ]
