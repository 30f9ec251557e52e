"""Broken scenarios for tests: seeded changes of the structure and text of the shipped files."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.project.loader import default_project
from invoice_sandbox.scenarios.checks import Vocabulary
from invoice_sandbox.scenarios.library import scenario_files

SHIPPED: Final = scenario_files(default_project() / "scenarios")
"""The files that come with the sandbox."""


@dataclass(frozen=True)
class Mutant:
    """A changed file: the scenario that it was, what was done to it, and its bytes."""

    name: str
    change: str
    content: bytes

    def __str__(self) -> str:
        """For messages of tests."""
        return f"{self.name} after {self.change}:\n{self.content[:3000].decode(errors='replace')}"


def mutants(number: int, seed: int, vocabulary: Vocabulary) -> Iterator[Mutant]:
    """So many mutants, of each shipped file in turn, the same ones for the same seed."""
    chance = random.Random(seed)  # noqa: S311  what is wanted is that it can be repeated
    words = _words(vocabulary)
    for index in range(number):
        file = SHIPPED[index % len(SHIPPED)]
        if chance.random() < _STRUCTURAL:
            yield _structural(file, chance, words)
        else:
            yield _textual(file, chance)


_STRUCTURAL: Final = 0.65


# Structure ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Spot:
    """Where a document is changed: a container in it and the key or index of what it holds."""

    document: Any
    container: Any
    key: Any
    chance: random.Random
    words: list[str]


def _structural(file: Path, chance: random.Random, words: list[str]) -> Mutant:
    document = load_document(file)
    done = []
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        change = chance.choice(_CHANGES)
        places = list(_places(document))
        if places:
            change(_Spot(document, *chance.choice(places), chance, words))
            done.append(change.__name__.strip("_"))
    text = yaml.dump(
        document, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=1000
    )
    return Mutant(file.stem, " and ".join(done), text.encode())


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a document with each of its keys."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from _places(value[key])


def _delete(spot: _Spot) -> None:
    container, key = spot.container, spot.key
    del container[key]


def _rename(spot: _Spot) -> None:
    container, key = spot.container, spot.key
    if isinstance(container, dict):
        new = spot.chance.choice((_misspelt(key, spot.chance), spot.chance.choice(spot.words)))
        items = [(new if name == key else name, value) for name, value in container.items()]
        container.clear()
        container.update(items)


def _add(spot: _Spot) -> None:
    container = spot.container
    if isinstance(container, dict):
        container[spot.chance.choice((*spot.words, *_KEYS))] = _any_value(spot.chance, spot.words)
    else:
        container.append(_any_value(spot.chance, spot.words))


def _duplicate(spot: _Spot) -> None:
    container, key = spot.container, spot.key
    if isinstance(container, list):
        for _ in range(spot.chance.choice((1, 1, 2, 40))):
            container.insert(key, copy.deepcopy(container[key]))


def _move(spot: _Spot) -> None:
    container, key = spot.container, spot.key
    if isinstance(container, list):
        container.insert(spot.chance.randrange(len(container)), container.pop(key))


def _swap(spot: _Spot) -> None:
    container, key = spot.container, spot.key
    other, name = spot.chance.choice(list(_places(spot.document)))
    mine, its = copy.deepcopy(container[key]), copy.deepcopy(other[name])
    container[key] = its
    # Where one stood inside the other, what is left of it is as good a mutant.
    if name in other if isinstance(other, dict) else name < len(other):
        other[name] = mine


def _replace(spot: _Spot) -> None:
    container, key = spot.container, spot.key
    container[key] = _any_value(spot.chance, spot.words)


def _misspell(spot: _Spot) -> None:
    container, key = spot.container, spot.key
    if isinstance(container[key], str):
        container[key] = _misspelt(container[key], spot.chance)


def _another_word(spot: _Spot) -> None:
    container, key = spot.container, spot.key
    if isinstance(container[key], str):
        container[key] = spot.chance.choice(spot.words)


def _another_time(spot: _Spot) -> None:
    steps = [one for one in _steps(spot.document) if isinstance(one, dict) and "after" in one]
    if steps:
        spot.chance.choice(steps)["after"] = spot.chance.choice(_TIMES)


def _another_order(spot: _Spot) -> None:
    """What two steps wait for, and how long, changes hands."""
    steps = [one for one in _steps(spot.document) if isinstance(one, dict)]
    if len(steps) > 1:
        one, other = spot.chance.sample(steps, 2)
        for key in spot.chance.choice((("after",), ("on",), ("do", "with"))):
            one[key], other[key] = other.get(key), one.get(key)
            for step in (one, other):
                if step[key] is None:
                    del step[key]


def _nest(spot: _Spot) -> None:
    container, key = spot.container, spot.key
    for _ in range(spot.chance.choice((1, 1, 2, 130))):
        inner = container[key]
        container[key] = [inner] if spot.chance.random() < _STRUCTURAL else {"on": inner}


def _flatten(spot: _Spot) -> None:
    container, key = spot.container, spot.key
    if isinstance(container[key], (dict, list)) and container[key]:
        value = container[key]
        container[key] = next(iter(value.values())) if isinstance(value, dict) else value[0]


def _steps(document: Any) -> list[Any]:
    steps = document.get("steps") if isinstance(document, dict) else None
    return steps if isinstance(steps, list) else []


def _misspelt(word: str, chance: random.Random) -> str:
    if not word:
        return "x"
    at = chance.randrange(len(word))
    return chance.choice(
        (
            word[:at] + word[at + 1 :],
            word[:at] + chance.choice("abcxyzAZ-_. $0") + word[at:],
            word[:at] + word[at : at + 2][::-1] + word[at + 2 :],
            word.upper(),
            word.replace("-", "_"),
            word + " ",
        )
    )


def _any_value(chance: random.Random, words: list[str]) -> Any:
    return copy.deepcopy(chance.choice((*_VALUES, chance.choice(words), chance.choice(words))))


def _words(vocabulary: Vocabulary) -> list[str]:
    """Everything that has a name, and names that nothing has."""
    machine = vocabulary.machine
    assert machine is not None
    known = {
        *vocabulary.operations,
        *vocabulary.lifecycle.events,
        *vocabulary.actions,
        *machine.states,
    }
    known |= {one.trigger for one in machine.transitions} | set(vocabulary.members)
    return [*sorted(known), "start", "nobody", "$nothing", "$"]


_KEYS: Final = (
    *("name", "purpose", "passes", "begins", "needs", "conditions", "steps", "faults"),
    *("deliveries", "expects", "on", "after", "do", "with", "kind", "status", "count", "delay"),
    *("upTo", "when", "probability", "operation", "event", "date", "else", "call", "nth", "x-y"),
    *("limits", "most", "request", "delivery", "response", "until", "atMost", "same", "gaps"),
    *("", " ", "a\nb", "\u2028", "\x1b[31m", "<<", "$delay", "~"),
)
_TIMES: Final = (
    *("PT0S", "PT1S", "PT2S", "PT3S", "PT4S", "PT5S", "PT6S", "PT7S", "PT1M", "P1D", "P60D"),
    *("P90D", "P3650D", "P3651D", "P999999D", "PT999999H", "PT0.001S", "PT0.0001S", "P1M", "-P1D"),
    *("PT1S\n", "pt1s", "PT", "P", "PT\u0661S", "$delay"),
)
_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 2**31, 10**30, 10**400, 1e308, 0.5, 503.0, 404, 429, 503),
    *("", " ", "\n", "a\nb", "\x07", "\ufeff", "\U0001f4a5", "x" * 3000, "null", "2026-11-21"),
    *([], {}, [[]], [None], {"": None}, {"a": {"b": {"c": []}}}, {"call": "getInvoice"}),
    *({"call": "getHealth"}, {"call": "createInvoice", "nth": 2}, {"date": "dueDate"}),
    *({"date": "dueDate", "else": "P60D"}, {"date": "nobody", "else": "P1D"}, "start"),
    {"on": "start", "after": "PT0S", "do": "start-verification"},
    {"on": {"call": "getInvoice"}, "do": "revoke-calling-key"},
    {"on": "invoice.verified", "after": "PT1S", "do": "transition", "with": {"trigger": "settle"}},
    {"kind": "error", "status": 409, "operation": "getInvoice"},
    {"kind": "latency", "delay": "PT2S", "upTo": "PT1S"},
)
_CHANGES: Final[tuple[Callable[[_Spot], None], ...]] = (
    *(_delete, _rename, _add, _duplicate, _move, _swap, _replace, _misspell, _another_word),
    *(_another_time, _another_order, _another_order, _nest, _flatten),
)


# Text ---------------------------------------------------------------------------------------------


def _textual(file: Path, chance: random.Random) -> Mutant:
    content = file.read_bytes()
    done = []
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        change = chance.choice(_CORRUPTIONS)
        content = change(content, chance)
        done.append(change.__name__.strip("_"))
    return Mutant(file.stem, " and ".join(done), content)


def _flip_a_byte(content: bytes, chance: random.Random) -> bytes:
    if not content:
        return content
    at = chance.randrange(len(content))
    return content[:at] + bytes([content[at] ^ (1 << chance.randrange(8))]) + content[at + 1 :]


def _cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content) + 1)]


def _cut_out(content: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(content) + 1)
    return content[:start] + content[start + chance.randrange(1, 30) :]


def _insert(content: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(content) + 1)
    return content[:at] + chance.choice(_SPRINKLES) + content[at:]


def _before_a_value(content: bytes, chance: random.Random) -> bytes:
    """Put a tag, an anchor or the like where a value begins."""
    places = [at + 2 for at in range(len(content)) if content[at : at + 2] in {b": ", b"- "}]
    at = chance.choice(places or [0])
    return content[:at] + chance.choice(_PREFIXES) + content[at:]


def _repeat_a_line(content: bytes, chance: random.Random) -> bytes:
    return _of_lines(content, chance, lambda line: line * chance.choice((2, 2, 3, 60)))


def _drop_a_line(content: bytes, chance: random.Random) -> bytes:
    return _of_lines(content, chance, lambda _: b"")


def _indent_a_line(content: bytes, chance: random.Random) -> bytes:
    by = chance.choice((b" ", b"  ", b"\t", b"    ", b"- ", b"# "))
    return _of_lines(content, chance, lambda line: by + line)


def _outdent_a_line(content: bytes, chance: random.Random) -> bytes:
    return _of_lines(content, chance, lambda line: line.lstrip(b" "))


def _replace_a_line(content: bytes, chance: random.Random) -> bytes:
    return _of_lines(content, chance, lambda _: chance.choice(_LINES) + b"\n")


def _shuffle_lines(content: bytes, chance: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    if len(lines) > 1:
        one, other = chance.sample(range(len(lines)), 2)
        lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def _append(content: bytes, chance: random.Random) -> bytes:
    return content + chance.choice(_LINES) + b"\n"


def _recode(content: bytes, chance: random.Random) -> bytes:
    text = content.decode(errors="replace")
    encoding = chance.choice(("utf-16", "utf-8-sig", "utf-32", "utf-16-le"))
    if encoding == "utf-8-sig":
        return text.encode(encoding)
    return chance.choice((text.encode(encoding), text.replace("\n", "\r\n").encode()))


def _of_lines(content: bytes, chance: random.Random, change: Callable[[bytes], bytes]) -> bytes:
    lines = content.splitlines(keepends=True)
    if lines:
        at = chance.randrange(len(lines))
        lines[at] = change(lines[at])
    return b"".join(lines)


_SPRINKLES: Final = (
    *(b"\x00", b"\x07", b"\x1b", b"\x7f", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\t", b"\r", b"\n"),
    *(b"\xef\xbb\xbf", b"\xc2\x85", b"\xe2\x80\xa8", b"{", b"}", b"[", b"]", b":", b": ", b"- "),
    *(b"'", b'"', b"#", b" #", b"&a ", b"*a ", b"!!str ", b"!x ", b"%", b"@", b"`", b"|", b">"),
    *(b"? ", b"<<: ", b"---\n", b"...\n", b"$", b",", b"\xf0\x9f\x92\xa5", b"\\"),
)
_PREFIXES: Final = (
    *(b"&a ", b"*a ", b"!!str ", b"!!int ", b"!!float ", b"!!bool ", b"!!null ", b"!!map ", b"!x "),
    *(
        b"!!python/object/apply:os.system ",
        b"!!binary ",
        b"!!set ",
        b"!!timestamp ",
        b"<<: ",
        b"| ",
    ),
    *(b"&a [*a] #", b"'", b'"', b"[" * 300, b"{" * 20, b"- " * 300, b"9" * 5000 + b" #", b"~ #"),
    *(b".inf #", b".nan #", b"1e999 #", b"0x1F #", b"on #", b"$x #"),
)
_LINES: Final = (
    *(b"name: other", b"steps: []", b"steps:", b"conditions: {delay: $other}", b"<<: 5"),
    *(b"<<: [1]", b"<<: {steps: []}", b"<<: *a", b"? [a]\n: b", b"needs: {status: []}", b"---"),
    *(b"begins: {sellerId: 5}", b"faults: [{kind: error, status: 500}]", b"%YAML 3.0", b"\t"),
    *(b"deliveries: [{kind: late, event: nobody}]", b"expects: [{request: getInvoice}]"),
    b"faults: [{kind: error, operation: getInvoice, status: 409}]",
    b"conditions: &a {b: &b {c: *a}}",
    b"a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b]",
)
_CORRUPTIONS: Final[tuple[Callable[[bytes, random.Random], bytes], ...]] = (
    *(_flip_a_byte, _flip_a_byte, _cut, _cut_out, _insert, _insert, _before_a_value),
    *(_before_a_value, _repeat_a_line, _drop_a_line, _indent_a_line, _outdent_a_line),
    *(_replace_a_line, _shuffle_lines, _append, _recode),
)
