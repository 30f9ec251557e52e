"""The examples of the contract, compared with what a server responds.

``python -m tests.contract_examples`` writes the responses of a running server into the overlay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import reduce
from typing import Any, Final

import yaml

from invoice_sandbox.openapi.load.documents import load_document, place_of
from tests.contract_requests import response_of
from tests.support import serving
from tests.test_published_contract import ENDPOINTS, JSON, MERGED, OPENAPI, operation

FILE: Final = OPENAPI / "overlay.yaml"


def examples() -> dict[str, Any]:
    """The body of every example of a response, by its operation or shared response, its status and
    its name."""
    found = {}
    for row in ENDPOINTS:
        for status, response in operation(MERGED, row)["responses"].items():
            shared = response.get("$ref", "").rpartition("/")[2]
            declared = MERGED["components"]["responses"][shared] if shared else response
            for name, one in declared["content"][JSON]["examples"].items():
                found[f"{shared or row.id} {status} {name}"] = one["value"]
    return found


_UNLIKE: Final = re.compile(
    r"(?P<id>[a-z]+_sandbox_)(?:[0-9a-z]+_)?[0-9]+\b|(?P<request>req_sandbox_)[0-9A-Z]{26}"
    r"|\d{4}-\d\d-\d\dT[\d:.]+Z|https?://(?:127\.0\.0\.1:\d+|sandbox\.example)"
)
_ANY_VALUE: Final = frozenset(
    {"secret", "last4", "webhook-timestamp", "webhook-signature", "durationMs", "ip", "userAgent"}
    | {"url", "bodyDigest", "bodySize"}
)
"""Members that are random, or belong to the client or to real time."""


def differences(example: Any, response: Any, place: str = "") -> Iterator[str]:
    """Where a response is not what the example shows; ids, instants and addresses may differ."""
    if isinstance(example, dict) and isinstance(response, dict):
        for name in sorted({*example, *response}):
            if name not in response or name not in example:
                missing = "response" if name not in response else "example"
                yield f"{place}/{name} is not in the {missing}"
            elif name not in _ANY_VALUE or type(example[name]) is not type(response[name]):
                yield from differences(example[name], response[name], f"{place}/{name}")
    elif isinstance(example, list) and isinstance(response, list) and len(example) == len(response):
        for index, (one, other) in enumerate(zip(example, response, strict=True)):
            yield from differences(one, other, f"{place}/{index}")
    elif _comparable(example) != _comparable(response):
        yield f"{place} is {response!r}, not {example!r}"


def _comparable(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value.startswith("{"):
        return json.dumps(json.loads(value, object_hook=_comparable_object))
    return _UNLIKE.sub(lambda found: found["id"] or found["request"] or "", value)


def _comparable_object(value: dict[str, Any]) -> dict[str, Any]:
    return {name: _comparable(one) for name, one in value.items()}


def as_example(example: Any, response: Any) -> Any:
    """The response, with the ids, instants and addresses that the example has already."""
    if isinstance(response, dict):
        example = example if isinstance(example, dict) else {}
        return {
            name: example[name]
            if name in _ANY_VALUE and type(example.get(name)) is type(one)
            else as_example(example.get(name), one)
            for name, one in response.items()
        }
    if isinstance(response, list):
        padded = [*(example if isinstance(example, list) else []), *[None] * len(response)]
        return [as_example(old, one) for old, one in zip(padded, response, strict=False)]
    if not list(differences(example, response)):
        return example
    return _without_seed(response) if isinstance(response, str) else response


def _without_seed(text: str) -> str:
    text = re.sub(r"(_sandbox_)[0-9a-z]+_([0-9]+)\b", r"\1\2", text)
    return re.sub(r"http://127\.0\.0\.1:[0-9]+", "https://sandbox.example", text)


class _Dumper(yaml.SafeDumper):
    """Writes lists of plain values in one line and indents others, as the overlay does."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002  PyYAML's
        super().increase_indent(flow, False)


def _list(dumper: _Dumper, values: list[Any]) -> yaml.Node:
    plain = not any(isinstance(one, dict | list) for one in values)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=plain)


_Dumper.add_representer(list, _list)


def written(text: str, example: str, value: Any) -> str:
    """The text of the overlay with another value of an example."""
    line = int(place_of(FILE, (*_place(example), "value")).split(":")[-2]) - 1
    lines = text.splitlines(keepends=True)
    indents = [len(one) - len(one.lstrip()) for one in lines]
    indent = indents[line]
    end = next(at for at in range(line + 1, len(lines)) if indents[at] <= indent)
    block = yaml.dump({"value": value}, Dumper=_Dumper, sort_keys=False, width=100 - indent)
    new = [" " * indent + one for one in block.splitlines(keepends=True)]
    return "".join([*lines[:line], *new, *lines[end:]])


def _place(example: str) -> tuple[str | int, ...]:
    """Where the overlay has an example."""
    owner, status, name = example.split(" ")
    content = ("content", JSON, "examples", name)
    places = {
        "$.components.responses": (owner, *content),
        f"$.components.responses.{owner}.content['{JSON}']": content[2:],
    } | {
        f"$.paths['{row.path}'].{row.method}": ("responses", status, *content)
        for row in ENDPOINTS
        if row.id == owner
    }
    for index, action in enumerate(load_document(FILE)["actions"]):
        steps = places.get(action["target"], ("",))
        if reduce(lambda found, step: found.get(step, {}), steps, action.get("update", {})):
            return ("actions", index, "update", *steps)
    raise LookupError(example)


def main() -> None:
    """Write every response that differs from its example into the overlay."""
    with serving() as server:
        for example, value in examples().items():
            body = response_of(example, server).json()
            if list(differences(value, body)):
                FILE.write_text(written(FILE.read_text(), example, as_example(value, body)))


if __name__ == "__main__":
    main()
