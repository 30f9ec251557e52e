"""An answer taken from the contract itself: its named example, else its example, else generated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from invoice_sandbox.contract.generate import CannotGenerate, generate
from invoice_sandbox.contract.operations import Contract, Operation, Response, dereference


class NoAnswerError(ValueError):
    """The contract gives no valid answer; the message says for which operation and what to add."""


@dataclass(frozen=True)
class ContractAnswer:
    """``body`` is a JSON value when the media type is JSON, else text; None: no body."""

    status: int
    media_type: str = ""
    body: Any = None


def contract_answer(contract: Contract, operation: Operation, seed: int | str) -> ContractAnswer:
    """The operation's success answer as its contract shows it.

    A JSON body is always valid; a generated one is the same for the same ``seed``. Raises
    NoAnswerError when there is no example and none can be generated.
    """
    status = int(operation.success) if operation.success.isdigit() else 200
    response = operation.responses.get(operation.success)
    if response is None or not response.content:
        return ContractAnswer(status)
    media_type = next(filter(is_json, response.content), None)
    if media_type is not None:
        body = _json_body(contract, operation, response, media_type, seed)
        return ContractAnswer(status, media_type, body)
    media_type = next(iter(response.content))
    text = next(_examples(contract.document, response.media[media_type]), "")
    return ContractAnswer(status, media_type, str(text))


def is_json(media_type: str) -> bool:
    """Whether the media type is JSON: ``application/json``, or one with the suffix ``+json``."""
    return re.fullmatch(r"application/(?:[^;]+\+)?json", media_type) is not None


def _json_body(
    contract: Contract, operation: Operation, response: Response, media_type: str, seed: int | str
) -> Any:
    checker = response.content[media_type]
    for example in _examples(contract.document, response.media[media_type]):
        if checker is None or checker.is_valid(example):
            return example
    schema = response.media[media_type].get("schema", True)
    try:
        return generate(
            contract.schemas.opened.read(schema),
            resolve=contract.schemas.opened.at,
            is_valid=checker.is_valid if checker else lambda _: True,
            seed=f"{seed}/{operation.id}",
        )
    except CannotGenerate as error:
        raise NoAnswerError(f"{operation.id}: {error}") from None


def _examples(document: Mapping[str, Any], media: Mapping[str, Any]) -> Iterator[Any]:
    for raw in media.get("examples", {}).values():
        example = dereference(document, raw)
        if "value" in example:
            yield example["value"]
    if "example" in media:
        yield media["example"]
