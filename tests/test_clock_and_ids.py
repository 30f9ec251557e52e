"""Instants are RFC 3339 in UTC; ids repeat from a seed, and secrets never do."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invoice_sandbox.base import ids
from invoice_sandbox.base.clock import (
    FROZEN_START,
    OperatingSystemClock,
    instant_text,
    parse_instant,
)
from tests.cases import in_turn

PARSED = {
    "2026-11-23T09:30:00Z": "2026-11-23T09:30:00Z",
    "2026-11-23t09:30:00z": "2026-11-23T09:30:00Z",
    "2026-11-23T11:30:00+02:00": "2026-11-23T09:30:00Z",
    "2026-11-23T00:00:00-09:30": "2026-11-23T09:30:00Z",
    "2026-11-23T09:30:00-00:00": "2026-11-23T09:30:00Z",
    "2026-11-23T23:59:00+23:59": "2026-11-23T00:00:00Z",
    "2026-11-23T09:30:00.5Z": "2026-11-23T09:30:00.500Z",
    "2026-11-23T09:30:00.120Z": "2026-11-23T09:30:00.120Z",
    "2026-11-23T09:30:00.123456789Z": "2026-11-23T09:30:00.123Z",
    "2026-11-23T09:30:00.000Z": "2026-11-23T09:30:00Z",
    "2026-11-23T09:30:00.0001Z": "2026-11-23T09:30:00Z",
    "2016-12-31T23:59:60Z": "2016-12-31T23:59:59Z",
    "2016-12-31T23:59:60.250Z": "2016-12-31T23:59:59.250Z",
    "2017-01-01T00:59:60+01:00": "2016-12-31T23:59:59Z",
    "2024-02-29T12:00:00Z": "2024-02-29T12:00:00Z",
    "0001-01-01T00:00:00Z": "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00": "0001-01-01T00:00:00Z",
    "0000-01-01T00:00:00Z": "0001-01-01T00:00:00Z",
    "0000-12-31T23:59:59.999Z": "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z": "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59.999Z": "9999-12-31T23:59:59.999Z",
    "9999-12-31T23:59:59-14:00": "9999-12-31T23:59:59Z",
}


@in_turn(("text", "utc"), PARSED.items())
def test_an_instant_is_read_in_any_offset_and_written_in_utc(text: str, utc: str) -> None:
    assert instant_text(parse_instant(text)) == utc


NO_INSTANTS = [
    *["", "now", "2026-11-23", "2026-11-23T09:30Z", "2026-11-23T09:30:00", "20261121T093000Z"],
    *["2026-11-23 09:30:00Z", "2026-11-23T09:30:00+0200", "2026-11-23T09:30:00+02"],
    *["2026-11-23T09:30:00.Z", "2026-11-23T09:30:00,5Z", "2026-11-23T09:30:00Z\n"],
    *[" 2026-11-23T09:30:00Z", "+2026-11-23T09:30:00Z", "12026-11-21T09:30:00Z", "2026-W47-6"],
    *["2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z", "2025-02-29T00:00:00Z"],
    *["2026-11-23T24:00:00Z", "2026-11-23T09:60:00Z", "2026-11-23T09:30:61Z"],
    *["2026-11-23T09:30:00+24:00", "2026-11-23T09:30:00+01:60", "2026-11-23T09:30:00Z[UTC]"],
    *["0000-13-01T00:00:00Z", "0000-01-01T99:99:99Z", "٢٠٢٦-11-21T09:30:00Z"],
]


@in_turn("text", NO_INSTANTS, ids=ascii)
def test_anything_else_is_no_instant(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  the text of the error is the library's
        parse_instant(text)


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)))  # noqa: DTZ001
@settings(deadline=None)
def test_what_is_written_is_read_as_the_same_millisecond(naive: datetime) -> None:
    instant = naive.replace(microsecond=naive.microsecond // 1000 * 1000, tzinfo=UTC)
    assert parse_instant(instant_text(instant)) == instant


# --- clocks


@pytest.mark.parametrize("jump", [timedelta(hours=-1), timedelta(hours=25)])
def test_time_goes_on_evenly_when_the_calendar_is_set(jump: timedelta) -> None:
    """So nothing that is due waits, and no workspace looks unused."""
    calendar, seconds = [FROZEN_START], [100.0]
    system_clock = OperatingSystemClock(lambda: calendar[0], lambda: seconds[0])
    calendar[0] += jump
    seconds[0] += 8
    assert system_clock.now() == FROZEN_START + timedelta(seconds=8)
    assert system_clock.calendar() == FROZEN_START + jump


# --- keys

WELL_FORMED = "ilk_sandbox_CECB5EE8zUJG0vI1PtzJtiV8pgvVjP2NKDq6"


@pytest.mark.parametrize(
    ("body", "checksum"),
    [
        pytest.param("CECB5EE8zUJG0vI1PtzJtiV8pgvVjP", "2NKDq6", id="vector"),
        pytest.param("DemoKeyForLocalIntegrationTest", "3H6UmJ", id="demo key"),
        pytest.param("", "000000", id="nothing"),
        pytest.param("0" * 30, "2C8GjS", id="zeros"),
    ],
)
def test_the_checksum_is_crc_32_in_six_base62_digits(body: str, checksum: str) -> None:
    assert ids.key_checksum(body) == checksum


PROBLEMS = {
    "another prefix": ("ilk_live_" + WELL_FORMED[12:], "begins with ilk_sandbox_"),
    "no prefix": (WELL_FORMED[12:], "begins with ilk_sandbox_"),
    "nothing": ("", "begins with ilk_sandbox_"),
    "too short": (WELL_FORMED[:-1], "36 characters"),
    "too long": (WELL_FORMED + "0", "36 characters"),
    "a strange letter": (WELL_FORMED[:-1] + "é", "36 characters"),
    "a hyphen": (WELL_FORMED[:20] + "-" + WELL_FORMED[21:], "36 characters"),
    "two letters swapped": (WELL_FORMED.replace("CECB", "ECCB"), "checksum"),
    "one letter of the checksum": (WELL_FORMED[:-1] + "7", "checksum"),
}


@in_turn(("key", "problem"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_typing_error_is_named_without_repeating_the_key(key: str, problem: str) -> None:
    said = ids.key_problem(key) or ""
    assert problem in said
    assert not key or key not in said


@given(st.integers(0, 29), st.sampled_from(ids.BASE62))
@settings(deadline=None)
def test_one_wrong_letter_is_always_noticed(position: int, letter: str) -> None:
    start = len(ids.KEY_PREFIX) + position
    typed = WELL_FORMED[:start] + letter + WELL_FORMED[start + 1 :]
    assert (ids.key_problem(typed) is None) == (typed == WELL_FORMED)


# --- ids from a seed

ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
NOW = datetime(2026, 11, 23, 9, 30, tzinfo=UTC)


def ulid(request_id: str) -> str:
    """The part of a request id behind its prefix."""
    assert request_id.startswith("req_sandbox_")
    return request_id.removeprefix("req_sandbox_")


def milliseconds(request_id: str) -> int:
    """The time inside a ULID."""
    value = 0
    for digit in ulid(request_id)[:10]:
        value = value * 32 + CROCKFORD.index(digit)
    return value


def test_the_same_seed_gives_the_same_ids_in_every_version() -> None:
    """The token is part of every id that clients have written down."""
    assert ids.seed_token(7) == ids.seed_token(7)
    assert re.fullmatch("[a-z2-7]{8}", ids.seed_token(7))
    assert ids.resource_id("inv_sandbox", "k2v5q7xa", 7) == "inv_sandbox_k2v5q7xa_0007"
    assert ids.resource_id("inv_sandbox", "k2v5q7xa", 12345) == "inv_sandbox_k2v5q7xa_12345"


INSTANTS = [
    NOW,
    NOW + timedelta(milliseconds=1),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
]


@pytest.mark.parametrize("now", INSTANTS, ids=instant_text)
def test_request_ids_are_ulids(now: datetime) -> None:
    assert ULID.fullmatch(ulid(ids.random_request_id(now)))
    assert ULID.fullmatch(ulid(ids.seeded_request_id(7, 1, now)))
