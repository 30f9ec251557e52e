"""JSON goes in and out without losing a digit, and nothing but JSON gets in."""

from __future__ import annotations

import json
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invoice_sandbox.base.jsonio import (
    MAX_DEPTH,
    JsonError,
    dumps,
    dumps_pretty,
    loads,
)
from tests.cases import in_turn

pytestmark = pytest.mark.slow

NUMBERS = st.from_regex(
    r"-?(0|[1-9][0-9]{0,250})(\.[0-9]{1,60})?([eE][+-]?[0-9]{1,2})?", fullmatch=True
)
BOUND = Decimal("1e300")
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.decimals(-BOUND, BOUND, allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


@settings(deadline=None)
@given(NUMBERS)
def test_a_number_keeps_every_digit(text: str) -> None:
    sent, echoed = Decimal(text), Decimal(dumps(loads(text.encode())).decode())
    assert echoed == sent
    assert echoed.as_tuple()[1:] == sent.as_tuple()[1:]


@settings(deadline=None)
@given(VALUES)
def test_what_is_written_is_read_as_the_same(value: Any) -> None:
    assert loads(dumps(value)) == value
    assert loads(dumps_pretty(value)) == value


@settings(deadline=None)
@given(st.binary() | st.text(alphabet='[]{}":,.-+eE0123 \\untrfals\t\n').map(str.encode))
def test_whatever_comes_in_the_only_error_is_json_error(raw: bytes) -> None:
    with suppress(JsonError):
        loads(dumps(loads(raw)))


@settings(deadline=None)
@given(st.binary(max_size=8) | st.text(alphabet='[]{}":,.-+eE01 \\u', max_size=12).map(str.encode))
def test_what_the_standard_library_rejects_is_rejected(raw: bytes) -> None:
    try:
        json.loads(raw.decode())
    except ValueError:
        with pytest.raises(JsonError):
            loads(raw)


ECHOED = {
    "money": "12500.50",
    "more digits than a double has": "0.1234567890123456789",
    "an integer of 18 digits": "999999999999999999",
    "an integer of 19 digits": "9999999999999999999",
    "the smallest 64-bit integer": "-9223372036854775808",
    "an integer of 60 digits": "1" * 60,
    "zero with cents": "0.00",
    "negative zero with cents": "-0.00",
    "nine zeros": "1.000000000",
    "long fraction": "0." + "1" * 3000,
}


@in_turn("text", ECHOED.values(), ids=ECHOED)
def test_a_number_without_exponent_is_echoed_as_it_was_sent(text: str) -> None:
    assert dumps(loads(text.encode())) == text.encode()
    assert dumps_pretty(loads(text.encode())) == text.encode() + b"\n"
    long = f"[{'1,' * 5_000}{text}]".encode()
    assert dumps(loads(long)) == long


@pytest.mark.parametrize(
    ("text", "kind"),
    [("1", int), ("-5", int), ("1.0", Decimal), ("1e2", Decimal), ("9" * 19, Decimal)],
)
def test_what_64_bits_cannot_hold_is_decimal(text: str, kind: type[Any]) -> None:
    assert type(loads(text.encode())) is kind
    long = f"[{'1,' * 5_000}{text}]".encode()
    assert [type(one) for one in loads(long)] == [int] * 5_000 + [kind]


REJECTED: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "line 1, column 1"),
    "NaN": (b"[NaN]", "NaN is not a JSON value"),
    "two values": (b"1 2", "line 1, column 3"),
    "a comma too many": (b"[1,\n]", "not valid JSON at line"),
    "single quotes": (b"{'a': 1}", "line 1, column 2"),
    "a comment": (b"1 // one", "line 1, column 3"),
    "a leading zero": (b"01", "line 1, column 2"),
    "an open fraction": (b"5.", "line 1, column 2"),
    "a tab in a string": (b'"a\tb"', "line 1, column 3"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "line 1, column 1"),
    "not UTF-8": (b'{"a": "\xff"}', "not valid UTF-8 at byte 7"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "not valid UTF-8 at byte 0"),
    "half a surrogate pair": (rb'"\ud800"', "half of a surrogate pair"),
    "a number no double can hold": (b"1e400", "the number 1e400 is larger than any double"),
    "an integer no double can hold": (
        b"9" * 400,
        f"the number {'9' * 18}... is larger than any double",
    ),
}


@in_turn(("raw", "reason"), [pytest.param(*row, id=name) for name, row in REJECTED.items()])
def test_what_is_not_json_is_rejected_with_a_reason(raw: bytes, reason: str) -> None:
    with pytest.raises(JsonError) as caught:
        loads(raw)
    assert reason in str(caught.value)


def nested(levels: int, opening: bytes = b"[", closing: bytes = b"]", core: bytes = b"") -> bytes:
    """``levels`` arrays, or objects, one inside the other."""
    return opening * levels + core + closing * levels


@in_turn("levels", [1, 253, 254, 255, MAX_DEPTH])
@in_turn(
    ("opening", "closing", "core"),
    [(b"[", b"]", b""), (b'{"a":', b"}", b"1")],
    ids=["array", "object"],
)
def test_256_levels_go_in_and_out(levels: int, opening: bytes, closing: bytes, core: bytes) -> None:
    raw = nested(levels, opening, closing, core)
    assert dumps(loads(raw)) == raw


def test_a_response_may_wrap_what_was_sent_at_the_deepest() -> None:
    raw = nested(MAX_DEPTH)
    assert dumps({"data": {"echo": loads(raw)}}) == b'{"data":{"echo":' + raw + b"}}"


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 100_000])
@pytest.mark.parametrize("closing", [b"]", b""], ids=["closed", "open"])
def test_more_than_256_levels_are_rejected(levels: int, closing: bytes) -> None:
    with pytest.raises(JsonError, match="more than 256 levels deep"):
        loads(nested(levels, closing=closing))


def test_brackets_in_a_string_are_no_levels() -> None:
    text = '[{\\"' * 300
    assert loads(f'["{text}"]'.encode()) == ['[{"' * 300]
