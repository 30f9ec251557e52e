"""A value that a schema allows, made of one that it does not allow and of an example."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import count
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from invoice_sandbox.base import jsonio
from invoice_sandbox.openapi.load.documents import pointer_text
from invoice_sandbox.openapi.schema.compile import Checker
from invoice_sandbox.project.declared import Foreign

ABSENT: Final = object()
"""The value of a member that is not there."""
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?")
_ROUNDS: Final = 50
_ROUNDS_OF_LARGE: Final = 5
_LEVELS: Final = 4
_LARGE: Final = 16 * 1024
"""How often a value is changed, and one of more bytes than this."""


def at_steps(value: Any, steps: Sequence[str]) -> Any:
    """What these members lead to, or None. In a list every index is that of its first item."""
    for one in steps:
        if isinstance(value, Mapping):
            value = value.get(one)
        else:
            value = value[0] if isinstance(value, list) and value and one.isdecimal() else None
    return value


def placed(value: Any, steps: Sequence[str], new: Any) -> Any:
    """A copy of ``value`` with ``new`` where these members lead, which are made if missing. In a
    list every index is that of its first item."""
    if not steps:
        return new
    if isinstance(value, list) and steps[0].isdecimal():
        return [placed(value[0] if value else None, steps[1:], new), *value[1:]]
    others = members(value)
    return {**others, steps[0]: placed(others.get(steps[0]), steps[1:], new)}


def without(value: Any, steps: Sequence[str]) -> Any:
    """A copy of ``value`` without what these members lead to."""
    *above, last = steps
    kept = {name: one for name, one in members(at_steps(value, above)).items() if name != last}
    return placed(value, above, kept)


def members(value: Any) -> Mapping[str, Any]:
    """The members of an object; none of anything else."""
    return value if isinstance(value, Mapping) else {}


def without_foreign(value: Any, foreign: Foreign) -> Any:
    """A copy of ``value`` without members that are ``foreign``, also in its objects and in the
    items of its lists."""
    if not foreign:
        return value
    if isinstance(value, list):
        return [without_foreign(one, foreign) for one in value]
    if not isinstance(value, Mapping):
        return value
    left = ((name, one) for name, one in value.items() if foreign.get(name, {}) is not None)
    return {name: without_foreign(one, foreign.get(name) or {}) for name, one in left}


def is_valid(checker: Checker | None, value: Any) -> bool:
    """Whether a schema allows the value; without one, every value."""
    return checker is None or checker.is_valid(value)


def first_valid(
    checker: Checker | None, body: Any, place: Sequence[str], values: Iterable[Any]
) -> Any:
    """The body with the first of these values that its schema allows at a place; else as it was."""
    for value in values:
        changed = without(body, place) if value is ABSENT else placed(body, place, value)
        if is_valid(checker, changed):
            return changed
    return body


def different(sent: Any, shown: Any, declared: Any, at: str = "") -> Iterator[str]:
    """JSON Pointers of what was sent and is shown otherwise, or not at all though declared."""
    if isinstance(sent, list) and isinstance(shown, list) and len(sent) == len(shown):
        first = declared[0] if isinstance(declared, list) and declared else None
        for index, (one, other) in enumerate(zip(sent, shown, strict=True)):
            yield from different(one, other, first, f"{at}/{index}")
        return
    if not isinstance(sent, Mapping) or not isinstance(shown, Mapping):
        if sent != shown:
            yield at
        return
    for name, one in sent.items():
        if name in shown or (one is not None and name in members(declared)):
            below = members(declared).get(name)
            yield from different(one, shown.get(name), below, at + pointer_text([name]))


def agreement(sent: Any, shown: Any = ABSENT) -> int:
    """How many of the values that were sent are shown; by default, how many were sent."""
    other = sent if shown is ABSENT else shown
    if isinstance(sent, Mapping):
        return sum(
            agreement(one, other[name]) for name, one in sent.items() if name in members(other)
        )
    if isinstance(sent, list):
        pairs = zip(sent, other, strict=False) if isinstance(other, list) else ()
        return sum(agreement(one, each) for one, each in pairs)
    return int(sent == other or str(sent) == str(other))


def containers_like(value: Any, declared: Any, levels: int = _LEVELS) -> dict[str, Any]:
    """A schema of objects that have members with objects or lists where ``value`` has some that are
    declared, and of lists that have an item; empty if it has none."""
    if isinstance(value, list):
        first = declared[0] if isinstance(declared, list) and declared else None
        items = containers_like(value[0], first, levels) if value else {}
        return {"type": "array", "minItems": 1, "items": items} if value else {}
    known = members(declared) or members(value)
    inside = {
        name: containers_like(one, known[name] if members(declared) else None, levels - 1)
        for name, one in members(value).items()
        if isinstance(one, Mapping | list) and one and name in known and levels
    }
    wanted = {name: one or {"type": "object"} for name, one in inside.items()}
    return {"type": "object", "required": [*wanted], "properties": wanted} if wanted else {}


def fitted(checker: Checker | None, value: Any, example: Any) -> Any:
    """``value`` without members that the schema does not allow, and with those of the example
    that it lacks, or has with a value that is not allowed: but a number that has to be a text is
    that text, and the other way round. None if that is not allowed either."""
    if checker is None or checker.is_valid(value):
        return value
    text = jsonio.dumps(value)
    value = jsonio.loads(text)
    for _ in range(_ROUNDS if len(text) <= _LARGE else _ROUNDS_OF_LARGE):
        problems = checker.problems(value)
        if not problems:
            return value
        changed = list[Sequence[str]]()
        for one in {(one.pointer, one.undeclared): one for one in problems}.values():
            steps = [_unescaped(step) for step in one.pointer.split("/")[1:]]
            if not any(steps[: len(at)] == at for at in changed):
                is_other = _is_other(checker, value, steps, one.pointer)
                at = steps if is_other else _solved(value, example, steps, one.undeclared)
                changed += [at] if at else []
        if not changed:
            return _with_one_of(checker, value, members(example))
    return None


def _with_one_of(checker: Checker, value: Any, example: Mapping[str, Any]) -> Any:
    """The value with one member as the example has it, if that is allowed: it may satisfy several
    alternatives of which it has to satisfy one. Else None."""
    for name in dict.fromkeys([*example, *members(value)]):
        one = placed(value, [name], example[name]) if name in example else without(value, [name])
        if checker.is_valid(one):
            return one
    return None


def with_own_ids(shown: Sequence[Any], sent: Sequence[Any]) -> list[Any]:
    """Items with different values of ``id``, where none was sent."""
    taken = {str(members(one).get("id")) for one in sent}
    found, others = list[Any](), dict[str, Iterator[Any]]()
    for one, item in zip(shown, sent, strict=True):
        key = members(one).get("id")
        if key is not None and "id" not in members(item):
            like = others.setdefault(str(key), _like_id(key))
            found.append({**one, "id": next(each for each in like if str(each) not in taken)})
        else:
            found.append(one)
    return found


def _like_id(key: Any) -> Iterator[Any]:
    """An id, and others like it."""
    yield key
    for number in count(1):
        if _is_number(key):
            yield key + number
        elif _UUID.fullmatch(str(key)):
            yield str(uuid5(NAMESPACE_URL, f"{key}/{number}"))
        else:
            yield f"{key}-{number + 1}"


_UUID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def _unescaped(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~")


def _solved(
    value: Any, example: Any, steps: Sequence[str], undeclared: str | None
) -> Sequence[str]:
    """The place of what was changed, because something is wrong there or in it; empty if nothing
    was."""
    if undeclared is not None:
        holder = _exactly(value, steps)
        if isinstance(holder, dict) and undeclared in holder:
            del holder[undeclared]
            return [*steps, undeclared]
    while steps:
        *above, last = steps
        if _taken(_exactly(value, above), last, at_steps(example, above)):
            return steps
        steps = above
    return []


def _taken(holder: Any, last: str, example: Any) -> bool:
    """Whether the member, or the item, was replaced by that of the example, or removed."""
    if isinstance(holder, list):
        index, shown = int(last) if last.isdecimal() else len(holder), at_steps(example, [last])
        if index >= len(holder) or shown is None or holder[index] == shown:
            return False
        holder[index] = shown
        return True
    if not isinstance(holder, dict):
        return False
    own, shown = holder.get(last, ABSENT), members(example).get(last, ABSENT)
    if own == shown:
        return False
    holder[last] = shown
    if shown is ABSENT:
        del holder[last]
    return True


def _is_other(checker: Checker, value: Any, steps: Sequence[str], pointer: str) -> bool:
    """Whether a number was made a text there, or a text a number, as that is what has to be
    there."""
    own, other = _exactly(value, steps), ABSENT
    if _is_number(own):
        other = jsonio.dumps(own).decode()
    elif isinstance(own, str) and _NUMBER.fullmatch(own):
        other = jsonio.loads(own.encode())
    holder = _exactly(value, steps[:-1])
    if other is ABSENT or not isinstance(holder, dict | list):
        return False
    _put(holder, steps[-1], other)
    if all(one.pointer != pointer for one in checker.problems(value)):
        return True
    _put(holder, steps[-1], own)
    return False


def _put(holder: dict[str, Any] | list[Any], step: str, value: Any) -> None:
    if isinstance(holder, list):
        holder[int(step)] = value
    else:
        holder[step] = value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _exactly(value: Any, steps: Sequence[str]) -> Any:
    for one in steps:
        if isinstance(value, list) and one.isdecimal() and int(one) < len(value):
            value = value[int(one)]
        else:
            value = value.get(one) if isinstance(value, dict) else None
    return value
