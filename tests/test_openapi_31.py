"""Bodies are checked as JSON Schema 2020-12, keyword by keyword, over real HTTP."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from invoice_sandbox.app import create_app
from invoice_sandbox.project.code import ProjectError
from invoice_sandbox.project.loader import load_contract
from tests.support import FROZEN
from tests.toy import contract, serving_contract

pytestmark = pytest.mark.slow

BOUNDED = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 10}
IF_COMPANY = {
    "if": {"properties": {"kind": {"const": "company"}}, "required": ["kind"]},
    "then": {"required": ["vat"]},
    "else": {"required": ["name"]},
}

JSON = {"Content-Type": "application/json"}
KEYWORDS: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "const": ({"const": "EUR"}, ["EUR"], ["GBP", 1]),
    "numeric exclusive bounds": (BOUNDED, [0.001, 9], [0, 10, -1]),
    "prefixItems": (
        {"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
        [["a", 1], ["a"]],
        [["a", "b"], [1], ["a", 1, 2]],
    ),
    "unevaluatedProperties": (
        {"allOf": [{"properties": {"a": True}}], "unevaluatedProperties": False},
        [{"a": 1}, {}],
        [{"a": 1, "b": 2}],
    ),
    "$dynamicRef": (
        {"$ref": "#/components/schemas/Tree"},
        [{"children": [{"data": 1}]}],
        [{"children": [{"daat": 1}]}],
    ),
    "null among types": ({"type": ["string", "null"]}, ["a", None], [1]),
    "if, then, else": (IF_COMPANY, [{"kind": "company", "vat": "1"}, {"name": "x"}], [{}]),
    "dependentRequired": (
        {"dependentRequired": {"issueDate": ["dueDate"]}},
        [{}, {"issueDate": 1, "dueDate": 2}],
        [{"issueDate": 1}],
    ),
    "contains with minContains": (
        {"contains": {"type": "integer"}, "minContains": 2},
        [[1, "a", 2]],
        [[1, "a"]],
    ),
    "format date is asserted": ({"format": "date"}, ["2026-02-28"], ["2026-02-30", "today"]),
    "format date-time is asserted": (
        {"format": "date-time"},
        ["2026-11-21T09:30:00Z"],
        ["2026-11-21"],
    ),
    "an unknown keyword is an annotation": ({"x-nonsense": 1, "nullable": True}, [1, None], []),
}


def cases(index: int) -> list[Any]:
    return [
        pytest.param(row[0], value, id=f"{keyword}: {value!r}")
        for keyword, row in KEYWORDS.items()
        for value in row[index]
    ]


def test_an_earlier_dialect_is_read_as_2020_12_with_a_warning(tmp_path: Path) -> None:
    text = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "string", "maxLength": 1}
    file = tmp_path / "contract.json"
    file.write_bytes(orjson.dumps(contract(text)))
    (line,) = load_contract(file).warnings
    assert line.endswith("is not supported: read as JSON Schema 2020-12")
    with serving_contract(tmp_path, contract(text)) as client:
        assert [client.post("/check", json=one).status_code for one in ("a", "ab")] == [204, 400]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        pytest.param(
            contract({}, jsonSchemaDialect="https://toy.example/dialect"),
            "'https://toy.example/dialect' is not supported: read as JSON Schema 2020-12",
            id="unknown dialect of the document",
        ),
        pytest.param(
            contract({"$schema": "https://toy.example/dialect"}),
            "'https://toy.example/dialect' is not supported: read as JSON Schema 2020-12",
            id="unknown dialect of one schema",
        ),
        pytest.param({"openapi": "3.2.0"}, "OpenAPI 3.2.0 is not served", id="OpenAPI 3.2"),
        pytest.param({"openapi": "3.1.0"}, "info", id="not valid OpenAPI"),
    ],
)
def test_a_contract_that_cannot_be_served_is_a_start_up_error(
    tmp_path: Path, document: Any, reason: str
) -> None:
    file = tmp_path / "contract.json"
    file.write_bytes(orjson.dumps(document))
    settings = replace(FROZEN, contract=file, strict=True)
    with pytest.raises(ProjectError, match=reason):
        asyncio.run(create_app(settings, url="http://127.0.0.1"))
