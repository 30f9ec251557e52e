"""The limits in the tables of docs/limits.md are those of the code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final

import pytest

from invoice_sandbox.http.read import BODIES_OF_A_WORKSPACE, BODIES_OF_AN_ADDRESS, Patience
from invoice_sandbox.settings import SETTINGS
from tests.attack.corpus import ATTACKS, DOCUMENTS
from tests.attack.limits import LIMITS, Limit
from tests.attack.runs import filled, served
from tests.hostile.wire import Process
from tests.support import Running

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = (ROOT / "docs" / "limits.md").read_text()
DEFAULTS: Final = {setting.name: setting.default for setting in SETTINGS}

_CELLS: Final = [
    [cell.strip() for cell in line.split("|")[1:-1]]
    for line in PAGE.splitlines()
    if line.startswith("| ")
]
ROWS: Final = {what: others for what, *others in _CELLS if what != "What"}
"""What is limited: the limit, what happens beyond, what changes it."""


def size(number: int) -> str:
    mebibytes, rest = divmod(number, 1024 * 1024)
    return f"{number // 1024} KiB" if rest else f"{mebibytes} MiB"


def count(number: int) -> str:
    return f"{number:,}"


def seconds(number: float) -> str:
    return f"{number:,.0f} s"


def hours(span: timedelta) -> str:
    return f"{span.total_seconds() / 3600:.0f} h"


CONSTANTS: Final[dict[str, tuple[Any, str]]] = {
    "Request line and headers": (size, "invoice_sandbox.server.protocol:HEAD_LIMIT"),
    "Headers": (size, "invoice_sandbox.http.edge:_HEADER_LIMIT"),
    "Body of an upload": (size, "domain.uploads:MAX_BYTES"),
    "Bodies in flight": (size, "invoice_sandbox.http.read:BODIES_IN_FLIGHT"),
    "Rest of a body that is too large, read before the response": (
        size,
        "invoice_sandbox.http.read:MAX_DRAINED_BYTES",
    ),
    "Chunk framing and trailers of a body": (
        size,
        "invoice_sandbox.server.protocol:FRAMING_LIMIT",
    ),
    "Nesting of JSON": (count, "invoice_sandbox.base.jsonio:MAX_SENT_DEPTH"),
    "Objects and lists of a body that are looked into for undeclared members": (
        count,
        "invoice_sandbox.openapi.message.texts:_MAX_LOOKED_INTO",
    ),
    "Corrections of a `--stateful` record that a response cannot have": (
        count,
        "invoice_sandbox.project.fitting:_ROUNDS",
    ),
    "Items of a page": (count, "invoice_sandbox.project.conventions:Conventions.page_size"),
    "Listener stream without a message": (seconds, "invoice_sandbox.control.listeners:_IDLE"),
    "Deliveries in an advance of the clock, without a response of any receiver": (
        seconds,
        "invoice_sandbox.runtime.agenda:PATIENCE",
    ),
    "Deliveries in an advance of the clock, in all": (
        seconds,
        "invoice_sandbox.runtime.agenda:LONGEST_WAIT",
    ),
    "Requests in progress when the server stops": (
        seconds,
        "invoice_sandbox.server.serving:_SECONDS_TO_FINISH",
    ),
    "Responses stored for an `Idempotency-Key`": (hours, "invoice_sandbox.http.idempotency:_KEPT"),
    "Nesting of a YAML or JSON file": (
        count,
        "invoice_sandbox.openapi.load.text:MAX_LEVELS",
    ),
    "Size of a YAML or JSON file": (
        size,
        "invoice_sandbox.openapi.load.documents:MAX_FILE_BYTES",
    ),
    "Values of a YAML or JSON file, aliases expanded": (
        count,
        "invoice_sandbox.openapi.load.documents:MAX_VALUES",
    ),
    "Schemas that one schema applies to one value": (
        count,
        "invoice_sandbox.openapi.load.effort:MAX_EXPANDED",
    ),
    "Schemas that lead on from one to the next": (
        count,
        "invoice_sandbox.openapi.load.effort:MAX_CHAIN",
    ),
    "Requests that a bundle can replay": (count, "invoice_sandbox.replay:_MOST_LINES"),
    "Size of what a bundle can replay": (size, "invoice_sandbox.state.memory:_RECORDED_BYTES"),
    "Replays that run or wait, of a workspace and all created from it": (
        count,
        "invoice_sandbox.bundles.control:MOST_OF_A_FAMILY",
    ),
    "Replays that run or wait, of the server": (count, "invoice_sandbox.bundles.control:MOST"),
    "Replays of the server that run at a time": (
        count,
        "invoice_sandbox.bundles.control:SIDE_BY_SIDE",
    ),
    "Duration of a replay": (seconds, "invoice_sandbox.bundles.control:MOST_SECONDS"),
    "CPU time of a replay": (seconds, "invoice_sandbox.cli.replay:MAX_CPU_SECONDS"),
    "Memory of a replay": (size, "invoice_sandbox.cli.replay:MAX_MEMORY"),
    "Requests in a journal": (count, "invoice_sandbox.state.memory:_LOG_ENTRIES"),
    "Size of a journal": (size, "invoice_sandbox.state.memory:_LOG_BYTES"),
    "Requests per minute of a workspace and all created from it": (
        count,
        "invoice_sandbox.http.admit:FAMILY_LIMIT",
    ),
    "Name of an API key": (count, "invoice_sandbox.state.credentials:MAX_NAME"),
    "Audit events, events and finished deliveries, each": (
        count,
        "invoice_sandbox.webhooks.outbox:KEPT",
    ),
    "Attempts of a delivery": (count, "invoice_sandbox.webhooks.attempts:KEPT_ATTEMPTS"),
    "Responses stored at a time": (count, "invoice_sandbox.http.idempotency:KEPT_RESPONSES"),
    "Wrong passwords per minute for one e-mail address, from one client address": (
        count,
        "invoice_sandbox.state.passwords:WRONG_PASSWORDS",
    ),
    "Wrong passwords per minute from one client address, in a workspace": (
        count,
        "invoice_sandbox.state.passwords:WRONG_LOGINS",
    ),
    "Sessions in a list": (count, "invoice_sandbox.state.credentials:MAX_LISTED"),
    "Passwords per minute and workspace": (
        count,
        "invoice_sandbox.state.passwords:HASHES_PER_WORKSPACE",
    ),
    "Passwords per minute of the server": (
        count,
        "invoice_sandbox.state.passwords:HASHES_PER_SERVER",
    ),
    "Passwords that the server hashes at a time": (
        count,
        "invoice_sandbox.state.passwords:SIDE_BY_SIDE",
    ),
    "Users of a workspace, disabled ones included": (count, "domain.users:MAX_USERS"),
    "Sessions, and upload addresses, each": (count, "invoice_sandbox.state.credentials:MAX_OPEN"),
    "User-Agent in the audit log": (count, "invoice_sandbox.runtime.journal:MAX_USER_AGENT"),
    "Body in a journal": (size, "invoice_sandbox.runtime.journal:_MAX_BODY"),
    "Query in a journal": (size, "invoice_sandbox.runtime.journal:_MAX_QUERY"),
    "Headers in a journal": (count, "invoice_sandbox.runtime.journal:_MAX_HEADERS"),
    "Values of a body with secrets in a journal": (
        count,
        "invoice_sandbox.runtime.journal:_MAX_VALUES",
    ),
    "Steps in one advance of the clock": (
        count,
        "invoice_sandbox.runtime.agenda:MAX_STEPS",
    ),
    "Body and headers of a fault `response`": (
        size,
        "invoice_sandbox.scenarios.faults:STUB_LIMIT",
    ),
    "Snapshots": (count, "invoice_sandbox.control.snapshots:MAX_SNAPSHOTS"),
    "Acceptance runs": (count, "invoice_sandbox.control.acceptance:MAX_RUNS"),
    "Consoles that show changes at once, and `requests --follow`": (
        count,
        "invoice_sandbox.runtime.engine:STREAMS_OF_A_WORKSPACE",
    ),
    "Messages that wait for a listener": (
        count,
        "invoice_sandbox.webhooks.listeners:MAX_WAITING",
    ),
    "Concurrent webhooks of the server": (
        count,
        "invoice_sandbox.webhooks.lanes:SIDE_BY_SIDE",
    ),
    "Concurrent webhooks of one workspace": (count, "invoice_sandbox.webhooks.lanes:SHARE"),
    "Concurrent DNS lookups of the server": (count, "invoice_sandbox.webhooks.dns:LOOKUPS"),
    "Concurrent DNS lookups of one workspace": (
        count,
        "invoice_sandbox.webhooks.dns:LOOKUPS_OF_A_WORKSPACE",
    ),
    "Response body of a webhook receiver": (
        size,
        "invoice_sandbox.webhooks.sender:READ_LIMIT",
    ),
}

TIMES: Final = {
    "Idle connection; request head; unread body": Patience().head,
    "Pause between two requests": Patience().between,
    "Pause within a body": Patience().silence,
    "Whole body": Patience().body,
    "Pause while the client reads a response": Patience().response,
    "Whole response": Patience().whole_response,
}

OPTIONS: Final = {
    "Missing scopes (403) per minute and workspace": ("rate-limit", "120"),
    "Rejected credentials (401) per minute and address": ("rate-limit", "120"),
    "Requests per minute and key": ("rate-limit", "120"),
    "Response of a webhook receiver": ("webhook-timeout", "15 s"),
    "Workspaces": ("max-workspaces", "1,000"),
    "Workspaces created from one that was created with the first key": ("max-children", "100"),
    "Generations of workspaces after the first": ("max-depth", "8"),
    "State, and again all snapshots together": ("max-state", "512 MiB"),
    "Faults": ("max-faults", "100"),
    "Listeners": ("max-listeners", "16"),
    "Size of all messages that wait for listeners": ("max-queue", "16 MiB"),
    "Webhook endpoints": ("max-endpoints", "100"),
    "API keys, revoked ones included": ("max-keys", "1,000"),
    "Waiting scenario steps": ("max-steps", "50,000"),
    "Waiting webhook deliveries": ("max-deliveries", "10,000"),
    "Unused workspace": ("workspace-idle", "24 h"),
}

NO_NUMBERS: Final = {
    "Replays of a workspace at a time",  # one or none
    "Body",  # of the contract, and below
    "Password of a new user",  # the same
    "`Idempotency-Key`",
    "Numbers in JSON",
    "Strings in JSON",
    "Duplicate keys in a JSON object",
    "Compiled size of a pattern",
}


@pytest.mark.parametrize("row", CONSTANTS)
def test_a_limit_is_what_the_code_says(row: str) -> None:
    written, name = CONSTANTS[row]
    assert ROWS[row][0].startswith(written(resolve_name(name)))


def test_the_shares_of_an_address_and_a_workspace_are_what_the_code_says() -> None:
    address, workspace = size(BODIES_OF_AN_ADDRESS), size(BODIES_OF_A_WORKSPACE)
    shown = f"; {address} of one address, {workspace} of one workspace"
    assert ROWS["Bodies in flight"][0].endswith(shown)


@pytest.mark.parametrize("row", TIMES)
def test_a_time_is_what_the_code_says(row: str) -> None:
    assert ROWS[row][0] == seconds(TIMES[row])


@pytest.mark.parametrize("row", OPTIONS)
def test_what_an_option_changes_has_its_default(row: str) -> None:
    option, shown = OPTIONS[row]
    assert ROWS[row][0] == shown
    assert ROWS[row][2] == f"`--{option}`"
    assert "".join(filter(str.isdigit, shown)) == DEFAULTS[option]


def test_the_limit_of_a_body_is_what_the_contract_makes_of_it(server: Running) -> None:
    project = server.sandbox.engine.project
    operations = [*project.contract.operations.values(), *project.control.operations.values()]
    limits = {one.body.limit for one in operations if one.body is not None}
    assert {size(limit) for limit in limits} == {ROWS["Body"][0], ROWS["Body of an upload"][0]}


def test_the_length_of_a_password_is_what_the_contract_says(server: Running) -> None:
    schemas = server.sandbox.engine.project.control.document["components"]["schemas"]
    password = schemas["NewUser"]["properties"]["password"]
    shown = f"{password['maxLength']} characters, at least {password['minLength']}"
    assert ROWS["Password of a new user"][0] == shown


@pytest.mark.parametrize(
    ("sentence", "name"),
    [
        ("more than {} steps gets 400", "invoice_sandbox.openapi.load.effort:MAX_EFFORT"),
        ("Beyond {} steps only", "invoice_sandbox.openapi.schema.compile:_MAX_EXPLAINED"),
        ("at most {}, is reserved", "invoice_sandbox.server.serving:RESERVED_FILES"),
        ("up to {}. A quarter", "invoice_sandbox.server.serving:MAX_FILES"),
        ("stops after {} steps", "invoice_sandbox.openapi.schema.compile:MAX_BACKTRACKING"),
    ],
)
def test_a_number_of_steps_is_what_the_code_says(sentence: str, name: str) -> None:
    assert sentence.format(count(resolve_name(name))) in PAGE


ATTACKS_ON: Final = {
    "Nesting of a YAML or JSON file": "300 levels",
    "Size of a YAML or JSON file": "a file of 65 MiB",
    "Values of a YAML or JSON file, aliases expanded": "1,000,001 values",
    "Schemas that one schema applies to one value": "allOf that doubles 40 times",
    "Schemas that lead on from one to the next": "references 5,000 deep",
    "Consoles that show changes at once, and `requests --follow`": "300 consoles that show changes",
}
"""Rows that ``make attack`` tries with an attack or a document of this name."""

TESTS_OF: Final = {
    "test_acceptance_control": {"Acceptance runs": "oldest_runs_are_dropped"},
    "test_agenda": {"Steps in one advance of the clock": "circles_stops_after_10_000_steps"},
    "test_body_limits": {"Bodies in flight": "workspace_holds_only_its_share_of_bodies_in_flight"},
    "test_cli": {"Requests in progress when the server stops": "stop_cuts_off_gets_a_503"},
    "test_hostile_input": {
        "Idle connection; request head; unread body": "head_must_come_whole_in_its_time",
        "Pause within a body": "body_must_not_stop",
        "Whole body": "body_must_come_whole_in_its_time",
        "Pause between two requests": "client_that_is_silent_is_not_waited_for",
        "Pause while the client reads a response": "response_that_nobody_takes_is_given_up",
        "Whole response": "client_that_reads_without_end_is_given_up",
    },
    "test_bundles": {"Size of what a bundle can replay": "says_that_its_beginning_is_gone"},
    "test_idempotency": {
        "Responses stored for an `Idempotency-Key`": "day_of_the_workspace_s_time"
    },
    "test_journal": {
        "Objects and lists of a body that are looked into for undeclared members": (
            "body_is_looked_into_within_limits"
        ),
        "Size of a journal": "four_mebibytes",
        "Body in a journal": "long_bodies_are_cut",
        "Query in a journal": "long_query_is_cut",
        "Headers in a journal": "hundred_headers_are_shown",
        "Values of a body with secrets in a journal": "very_many_values_only_the_length_is_shown",
    },
    "test_listen": {"Listener stream without a message": "ends_when_there_was_nothing_for_so_long"},
    "test_quotas": {
        "Size of all messages that wait for listeners": "listeners_have_a_quota_in_bytes",
        "Messages that wait for a listener": "listener_has_a_thousand_messages",
    },
    "test_replay": {"Requests that a bundle can replay": "too_many_requests_is_not_replayed"},
    "test_replay_control": {
        "Replays of a workspace at a time": "replays_take_turns",
        "Replays that run or wait, of a workspace and all created from it": "replays_take_turns",
        "Replays that run or wait, of the server": "replays_of_a_server_are_limited",
        "Replays of the server that run at a time": "replays_take_turns",
        "Duration of a replay": "replay_that_does_not_end",
        "CPU time of a replay": "has_limits_and_ends_with_the_server",
        "Memory of a replay": "has_limits_and_ends_with_the_server",
    },
    "test_retention": {
        "Audit events, events and finished deliveries, each": "oldest_audit_events_are_dropped",
        "Attempts of a delivery": "delivery_has_its_last_attempts",
        "Sessions, and upload addresses, each": "oldest_upload_address_ends",
    },
    "test_stateful": {
        "Corrections of a `--stateful` record that a response cannot have": (
            "corrected_in_few_rounds"
        )
    },
    "test_users": {
        "Password of a new user": "invalid_user_is_400",
        "Passwords per minute and workspace": "limited_for_a_workspace_and_for_a_server",
        "Sessions in a list": "list_of_sessions_is_limited",
        "Passwords per minute of the server": "limited_for_a_workspace_and_for_a_server",
        "Passwords that the server hashes at a time": "two_passwords_are_hashed_at_a_time",
        "Users of a workspace, disabled ones included": "users_of_a_workspace_are_limited",
    },
    "test_webhook_faults": {"Response body of a webhook receiver": "no_further_than_64_kib"},
    "test_webhook_lanes": {
        "Deliveries in an advance of the clock, without a response of any receiver": (
            "lists_what_is_left_when_no_receiver_responds"
        ),
        "Deliveries in an advance of the clock, in all": "not_longer_than_its_longest_wait",
        "Concurrent webhooks of the server": "have_hung_before_take_no_places",
        "Concurrent webhooks of one workspace": "receivers_all_hang_does_not_keep_the_others",
    },
    "test_webhook_network": {
        "Response of a webhook receiver": "receiver_that_does_not_respond_in_time",
        "Concurrent DNS lookups of the server": "all_workspaces_together_have_their_share",
        "Concurrent DNS lookups of one workspace": "only_the_share_of_their_workspace",
    },
    "test_workspaces": {"Unused workspace": "nobody_uses_for_a_day_is_gone"},
}
"""Rows that ``make attack`` does not try, as the limit takes long to reach or is not seen through
HTTP: the test that tries them, by its file and a part of its name."""


def test_every_number_is_tried_by_an_attack_or_a_test() -> None:
    tried = {one.row for one in LIMITS}.union(ATTACKS_ON, *TESTS_OF.values())
    elsewhere = {
        "Replays of a workspace at a time",
        "Body",
        "`Idempotency-Key`",
        "Password of a new user",
    }
    assert set(ROWS) - tried == NO_NUMBERS - elsewhere
    assert tried <= set(ROWS)
    assert {*ATTACKS_ON.values()} <= {*DOCUMENTS, *(one.name for one in ATTACKS)}


@pytest.mark.parametrize("file", TESTS_OF)
def test_the_tests_of_limits_exist(file: str) -> None:
    source = (ROOT / "tests" / f"{file}.py").read_text()
    found = re.findall(r"def test_(\w+)", source)
    for part in TESTS_OF[file].values():
        assert any(part in name for name in found), part


@pytest.mark.parametrize("limit", LIMITS, ids=lambda one: one.row)
def test_an_attack_reaches_the_number_of_the_page_or_lowers_it(limit: Limit) -> None:
    number, _, *setting = ROWS[limit.row]
    lowered = [one for one in limit.options if f"`{one}`" in setting and one != "--rate-limit"]
    assert lowered or limit.at in number


SLOW: Final = {
    "API keys, revoked ones included",
    "Responses stored at a time",
    "Requests in a journal",
    "Requests per minute of a workspace and all created from it",
}
"""Rows that only ``make attack`` reaches: they need a thousand requests and more."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Process]]:
    """One server for all rows with the same options."""
    with ExitStack() as stack:

        @cache
        def server(*options: str) -> Process:
            return stack.enter_context(served(tmp_path_factory.mktemp("server"), *options))

        yield server


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(
    "limit", [one for one in LIMITS if one.row not in SLOW], ids=lambda one: one.row
)
def test_an_attack_finds_its_limit(servers: Callable[..., Process], limit: Limit) -> None:
    assert filled(limit, servers(*limit.options)).broke == ""


@pytest.mark.process
@pytest.mark.parametrize(
    ("row", "changes", "broke"),
    [
        ("Items of a page", {"status": 200}, "400"),
        ("Items of a page", {"says": "1000"}, "400"),
        ("Nesting of JSON", {"filling": frozenset({201})}, "statuses [400]"),
    ],
    ids=["status", "text", "status before"],
)
def test_an_attack_that_finds_another_limit_reports_it(
    servers: Callable[..., Process], row: str, changes: dict[str, Any], broke: str
) -> None:
    limit = next(one for one in LIMITS if one.row == row)
    found = filled(replace(limit, **changes), servers(*limit.options))
    assert found.broke.startswith(broke)


def test_every_row_is_compared_or_is_no_number_of_ours() -> None:
    assert set(ROWS) == {*CONSTANTS, *TIMES, *OPTIONS, *NO_NUMBERS}
