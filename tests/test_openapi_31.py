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

JSON = {"Content-Type": "application/json"}


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
        pytest.param({"openapi": "3.3.0"}, "OpenAPI 3.3.0 is not served", id="OpenAPI 3.3"),
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


def test_a_whole_number_is_within_the_range_of_its_format(tmp_path: Path) -> None:
    number = {"type": "integer", "format": "int64"}
    document = contract({"type": "object", "properties": {"n": number}})
    operation = document["paths"]["/check"]["post"]
    small = {"type": "integer", "format": "int32", "maximum": 2**40}
    operation["parameters"] = [{"name": "q", "in": "query", "schema": small}]
    with serving_contract(tmp_path, document) as client:
        for query, value, status in (
            (2**31 - 1, 2**63 - 1, 204),
            (-(2**31), -(2**63), 204),
            (2**31, 0, 400),
            (-(2**31) - 1, 0, 400),
            (0, 2**63, 400),
            (0, -(2**63) - 1, 400),
        ):
            content = f'{{"n": {value}}}'
            sent = client.post(f"/check?q={query}", content=content, headers=JSON)
            assert sent.status_code == status, (query, value, sent.text)
