"""Merges two documents, and fills in closed vocabularies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.openapi.load.documents import place_of
from invoice_sandbox.openapi.load.operations import base_path, without_names
from invoice_sandbox.openapi.load.pointers import ContractError
from invoice_sandbox.openapi.load.text import DocumentError

VOCABULARY: Final = "x-vocabulary"
"""On a schema of a string: the name of the list of words that become its ``enum``."""


def merged_parts(whole: Mapping[str, Any], part: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """``whole`` with the paths, tags and components that ``part``, read from ``file``, adds to it.

    Raises DocumentError when the part names another base path, or something that is there already.
    """
    if base_path(part) != base_path(whole):
        problem = f"the server must be {base_path(whole) or '/'}, the base path of the control API"
        raise DocumentError(place_of(file, ("servers",)), problem)
    merged = deepcopy(dict(whole))
    tags = {tag["name"]: tag for document in (whole, part) for tag in document.get("tags", [])}
    merged["tags"] = list(tags.values())
    _check_paths(whole, part, file)
    _add(merged["paths"], part.get("paths", {}), ("paths",), file)
    for section, components in part.get("components", {}).items():
        _add(
            merged["components"].setdefault(section, {}), components, ("components", section), file
        )
    return merged


def with_vocabularies(
    value: Any, words: Mapping[str, Sequence[str]], later: Collection[str] = ()
) -> Any:
    """Return a copy of a document in which every named vocabulary is an ``enum`` of its words.

    Those named in ``later`` stay as they are. Raises ContractError for a vocabulary that does not
    exist.
    """
    if isinstance(value, Mapping):
        copy = {name: with_vocabularies(member, words, later) for name, member in value.items()}
        name = copy.get(VOCABULARY)
        if name is None or name in later:
            return copy
        del copy[VOCABULARY]
        if name not in words:
            known = ", ".join([*words, *later])
            raise ContractError(f"{VOCABULARY}: there is no '{name}', only {known}")
        return {**copy, "enum": list(words[name])}
    if isinstance(value, list):
        return [with_vocabularies(item, words, later) for item in value]
    return value


def _check_paths(whole: Mapping[str, Any], part: Mapping[str, Any], file: Path) -> None:
    """Raise DocumentError for a path that differs from another in its parameters' names only."""
    there = {without_names(path): path for path in whole["paths"]}
    for path in part.get("paths", {}):
        same = there.get(without_names(path), path)
        if same != path:
            raise DocumentError(place_of(file, ("paths", path)), f"'{path}' duplicates '{same}'")


def _add(
    target: dict[str, Any], addition: Mapping[str, Any], place: tuple[str, ...], file: Path
) -> None:
    for name, value in addition.items():
        if name in target:
            raise DocumentError(place_of(file, (*place, name)), f"'{name}' is there already")
        target[name] = value
