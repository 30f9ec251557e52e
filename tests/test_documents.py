"""YAML and JSON files become plain data as people expect, and every error has a place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from invoice_sandbox.openapi.load.documents import (
    load_document,
    parse_text,
    place_of,
)
from invoice_sandbox.openapi.load.text import DocumentError
from invoice_sandbox.openapi.load.yaml_12 import parse_yaml, yaml_text
from tests.cases import in_turn


@in_turn(
    "text",
    [
        *[
            "no",
            "NO",
            "yes",
            "on",
            "Off",
            "y",
            "n",
            "tRUE",
            "NULl",
            "x",
            "2026-11-21",
            "2026-11-21T09:30:00Z",
        ],
        *[
            "12:30:45",
            "1_000",
            "0b11",
            "0o18",
            "-0x1F",
            "0X1F",
            "1.2.3",
            "0.1.0",
            "+",
            "-",
            ".",
            "e3",
            "inf",
            "nan",
            "-.nan",
            "=",
        ],
    ],
)
def test_what_looks_like_text_stays_text(text: str) -> None:
    # A lone hyphen opens a list in YAML, so it can only be written in quotes.
    written = f"'{text}'" if text == "-" else text
    assert parse_yaml(f"a: {written}", "f") == {"a": text}


SCALARS: dict[str, Any] = {
    "true": True,
    "null": None,
    "~": None,
    "": None,
    "12345678901234567890": 12345678901234567890,
    "007": 7,
    "-08": -8,
    "0o17": 15,
    "0x1F": 31,
    ".5": 0.5,
    "-1.25": -1.25,
    "1e3": 1000.0,
    "1.5E-2": 0.015,
    "'1'": "1",
    '"true"': "true",
    "'null'": "null",
}


@in_turn(("written", "value"), SCALARS.items(), ids=SCALARS)
def test_numbers_booleans_and_null_are_what_they_look_like(written: str, value: Any) -> None:
    read = parse_yaml(f"a: {written}", "f")["a"]
    assert (type(read), read) == (type(value), value)


KEYS = {
    "a status": ("200: x", "200"),
    "a quoted status": ("'200': x", "200"),
    "on": ("on: x", "on"),
    "no": ("no: x", "no"),
    "a date": ("2026-11-21: x", "2026-11-21"),
    "a version": ("1.0: x", "1.0"),
    "an exponent": ("1e3: x", "1e3"),
    "true, as it is written": ("true: x", "true"),
    "null, as it is written": ("null: x", "null"),
    "a number with a sign, as it is written": ("+2: x", "+2"),
}


@in_turn(("text", "key"), KEYS.values(), ids=KEYS)
def test_every_key_is_the_text_that_was_written(text: str, key: str) -> None:
    assert parse_yaml(f"{text}\ninner: [{{{text}}}]", "f") == {key: "x", "inner": [{key: "x"}]}


WRONG: dict[str, tuple[str, str, str]] = {
    "duplicate key": ("a: 1\nb: 2\na: 3\n", "f:3:1", "duplicate key 'a'"),
    "the same status with and without quotes": ("200: a\n'200': b\n", "f:2:1", "duplicate key"),
    "duplicate key in JSON": ('{"a": 1,\n "a": 2}', "f:2:2", "duplicate key 'a'"),
    "duplicate key behind an alias": ("a: &x {k: 1, k: 2}\nb: *x\n", "f:1:14", "duplicate key"),
    "unfinished list": ("a: [1,\n", "f:2:1", "expected"),
    "tab as indentation": ("a:\n\tb: 1\n", "f:2:1", "cannot start any token"),
    "colon in a plain text": ("a: b: c\n", "f:1:5", "mapping values are not allowed"),
    "alias of nothing": ("a: *x\n", "f:1:4", "undefined alias"),
    "a whole number of 200,000 digits": (
        f"a: 0x{'f' * 200_000}",
        "f:1:4",
        f"'0x{'f' * 38}' is not a valid int",
    ),
    "an object of Python": ("a: !!python/object:os.system x\n", "f:1:4", "tag"),
    "an unknown tag": ("a: !secret x\n", "f:1:4", "tag"),
    "a number without end": ("a: 1\nb: .inf\n", "f:2:4", "'.inf' is not a valid float"),
    "a control character": ("a: 1\nb: \x07\n", "f:2:4", "control characters are not allowed"),
    "an anchor inside itself": ("a: &x [*x]\n", "f:1:1", "nested too deeply"),
}


@in_turn(("text", "place", "problem"), [pytest.param(*row, id=name) for name, row in WRONG.items()])
def test_a_wrong_document_is_one_line_with_a_place(text: str, place: str, problem: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_yaml(text, "f")
    assert caught.value.place == place
    assert problem in caught.value.problem
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["a:\n\tb: 1", "ä: 𝄞\r\na:\n b: 1\n\tc: 2", "a: |\n\tb", "-\ta: 1"]
)
def test_a_tab_that_yaml_does_not_allow_is_called_so(text: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_yaml(text, "f")
    assert str(caught.value).endswith(" (this is a tab; YAML indents with spaces)")


NO_JSON = {
    "timestamp": "!!timestamp 2026-11-21",
    "binary": "!!binary aGk=",
    "set": "!!set {a, b}",
    "a float beyond all floats": "1e999",
}


@pytest.mark.parametrize("text", NO_JSON.values(), ids=NO_JSON)
def test_what_json_cannot_hold_is_rejected(text: str) -> None:
    with pytest.raises(DocumentError):
        parse_yaml(f"a: {text}", "f")


def test_json_is_read_as_the_yaml_it_is(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{\n\t"a": [1, 2.5, true, null, "no"],\n\t"b\\/c": "\\u00e9\\n"\n}')
    assert load_document(file) == {"a": [1, 2.5, True, None, "no"], "b/c": "é\n"}


def test_a_duplicate_key_of_a_json_file_has_a_place(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"a": 1,\n "b": {"c": 1,\n  "c": 2}}')
    with pytest.raises(DocumentError, match="duplicate key 'c'") as caught:
        load_document(file)
    assert caught.value.place == f"{file}:3:3"


def test_json_may_write_a_letter_as_two_surrogates(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"a": "\\ud83d\\ude00"}')
    assert load_document(file) == {"a": "😀"}


@pytest.mark.parametrize("half", ["\\ud800", "\\uDC00", "\\ud800\\ud800\\udc00", "\\\\\\ud800"])
def test_json_with_half_of_a_surrogate_pair_has_a_place(half: str) -> None:
    name = "a.json"
    text = f'{{"a": "{half}"}}'
    with pytest.raises(DocumentError, match=rf"{name}:1:\d+: found invalid Unicode character"):
        parse_text(text.lower(), name)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_json_with_a_word_that_is_no_value_is_rejected(word: str) -> None:
    with pytest.raises(DocumentError, match=rf"^a.json: not JSON: {word} is not a JSON value$"):
        parse_text(f'{{"a": "{word}", "b": [{word}]}}', "a.json")


AMBIGUOUS = "0189 eExobnyNO._+-:~=<'#\"\n\r\t\x85\u2028\ufeffé😀\\|>&*!%@`[]{},?"


@settings(derandomize=True, max_examples=300)
@given(st.text(st.sampled_from(AMBIGUOUS), max_size=12) | st.text(max_size=300))
@example("089")
@example("1e3")
@example("0o17")
@example("no")
def test_what_is_written_as_yaml_is_read_as_it_was(text: str) -> None:
    document = {"a": text, text: [text, {"b": [text]}]}
    assert parse_yaml(yaml_text(document), "f") == document


def test_a_byte_order_mark_is_no_part_of_the_document(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert load_document(file) == {"a": 1}


def test_an_empty_file_is_null(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("# nothing but a comment\n")
    assert load_document(file) is None
    assert place_of(file, ("a",)) == f"{file}:1:1"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DocumentError) as caught:
        load_document(tmp_path / "none.yaml")
    assert str(caught.value) == f"{tmp_path / 'none.yaml'}: no such file"


def test_a_file_that_is_not_utf_8_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "latin.yaml"
    file.write_bytes("a: é".encode("latin-1"))
    with pytest.raises(DocumentError, match="cannot be read") as caught:
        load_document(file)
    assert caught.value.place == f"{file}:1:4"


TEXT = """\
paths:
  /a/{b}:
    get:
      responses:
        200: {description: x}
      tags: [one, two]
'a b': &anchor
  c: 1
d: *anchor
"""
PLACES: dict[str, tuple[tuple[str | int, ...], str]] = {
    "the document": ((), ":1:1"),
    "a member": (("paths",), ":1:1"),
    "a path": (("paths", "/a/{b}"), ":2:3"),
    "a status": (("paths", "/a/{b}", "get", "responses", "200"), ":5:9"),
    "in one line": (("paths", "/a/{b}", "get", "responses", "200", "description"), ":5:15"),
    "an item": (("paths", "/a/{b}", "get", "tags", 1), ":6:19"),
    "a quoted key": (("a b", "c"), ":8:3"),
    "behind an alias": (("d", "c"), ":8:3"),
    "its nearest ancestor": (("paths", "/a/{b}", "put", "responses"), ":2:3"),
    "an item too far": (("paths", "/a/{b}", "get", "tags", 9), ":6:7"),
    "nothing": (("nothing",), ":1:1"),
}


@pytest.mark.parametrize(("pointer", "place"), PLACES.values(), ids=PLACES)
def test_a_place_is_file_line_and_column(
    tmp_path: Path, pointer: tuple[str | int, ...], place: str
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(TEXT)
    assert place_of(file, pointer) == f"{file}{place}"


def test_the_place_of_a_json_member_is_found_too(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{\n  "a": [\n    {"b": 1}\n  ]\n}\n')
    assert place_of(file, ("a", 0, "b")) == f"{file}:3:6"


def test_a_merge_key_fills_in_what_is_missing() -> None:
    assert parse_yaml("<<: {a: 1, b: 1}\nb: 2", "f") == {"a": 1, "b": 2}
