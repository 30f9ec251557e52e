"""An example in the contract is a response that the running server gives."""

from __future__ import annotations

import pytest

from tests.cases import in_turn
from tests.contract_examples import differences, examples
from tests.contract_requests import REQUESTS, response_of
from tests.support import Running
from tests.test_published_contract import ENDPOINTS

EXAMPLES = examples()


def test_the_request_of_every_example_is_known() -> None:
    assert REQUESTS.keys() == EXAMPLES.keys()
    assert {row.id for row in ENDPOINTS} <= {one.split(" ")[0] for one in REQUESTS}


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_server_responds_as_the_example_says(example: str, server: Running) -> None:
    response = response_of(example, server)
    assert response.status_code == int(example.split(" ")[1])
    wrong = list(differences(EXAMPLES[example], response.json()))
    assert not wrong, "run python -m tests.contract_examples"


SHOWN = {"data": [{"id": "inv_sandbox_0001", "at": "2026-11-23T09:30:00Z", "amount": 10}]}


def test_ids_and_instants_of_a_response_may_be_others() -> None:
    sent = {"data": [{"id": "inv_sandbox_k2v5_0007", "at": "2026-11-24T00:00:00Z", "amount": 10}]}
    assert list(differences(SHOWN, sent)) == []


@in_turn(
    "sent",
    [
        {"data": [{**SHOWN["data"][0], "amount": 11}]},
        {"data": [{**SHOWN["data"][0], "id": "off_sandbox_0001"}]},
        {"data": [{**SHOWN["data"][0], "more": 1}]},
        {"data": [{"id": "inv_sandbox_0001", "amount": 10}]},
        {"data": [*SHOWN["data"], *SHOWN["data"]]},
        {"data": {}},
    ],
    ids=repr,
)
def test_another_value_or_member_is_a_difference(sent: object) -> None:
    assert len(list(differences(SHOWN, sent))) == 1
