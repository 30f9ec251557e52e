"""The file of a bundle: a zip archive whose manifest has the SHA-256 of every other part.

A bundle may come from a stranger. Nothing is ever extracted: parts are read into memory, with
limits while reading, and a name is never used as a path.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.base.errors import UserError

FORMAT: Final = "invoice-sandbox-bundle/1"
MANIFEST: Final = "manifest.json"
CASES: Final = "cases/"
"""The folder with the parts of each case of an acceptance run."""

MAX_FILE: Final = 32 * 1024 * 1024
MAX_PART: Final = 16 * 1024 * 1024
MAX_CONTENT: Final = 64 * 1024 * 1024
MAX_PARTS: Final = 1000
"""Bytes of the file, of one part, and of all parts; and the number of parts."""

_MOMENT: Final = (1980, 1, 1, 0, 0, 0)


class BundleError(UserError):
    """A file that is not a usable bundle; the message names the file and what is wrong."""


def write_bundle(file: Path, about: Mapping[str, Any], parts: Mapping[str, bytes]) -> None:
    """Write parts and their manifest to a file. Raises OSError, and BundleError like ``zipped``."""
    file.write_bytes(zipped(str(file), about, parts))


def zipped(name: str, about: Mapping[str, Any], parts: Mapping[str, bytes]) -> bytes:
    """The bundle ``name`` of parts and their manifest, which also has the members of ``about``.

    The same parts give the same bytes. Raises BundleError for more than can be read.
    """
    large = [part for part, content in parts.items() if len(content) > MAX_PART]
    if large or len(parts) >= MAX_PARTS or sum(map(len, parts.values())) > MAX_CONTENT:
        what = large[0] if large else "all of it"
        raise BundleError(f"{name}: {what} is too large for a bundle")
    listed = {
        part: {"sha256": hashlib.sha256(parts[part]).hexdigest(), "bytes": len(parts[part])}
        for part in sorted(parts)
    }
    manifest = {"format": FORMAT, **about, "parts": listed}
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, content in {MANIFEST: as_json(manifest), **dict(sorted(parts.items()))}.items():
            info = zipfile.ZipInfo(part, _MOMENT)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return file.getvalue()


def as_json(value: Any) -> bytes:
    """A part for people and programs."""
    return (json.dumps(value, indent=2, ensure_ascii=False, default=number) + "\n").encode()


def number(value: Decimal) -> int | float:
    """A decimal as JSON has it: the seed of a workspace is too long for a float."""
    return int(value) if value == value.to_integral_value() else float(value)


class Bundle:
    """A bundle that was read: its manifest, and its parts by name. All digests are right."""

    def __init__(self, file: Path, manifest: Mapping[str, Any], parts: Mapping[str, bytes]) -> None:
        self.file = file
        self.manifest = manifest
        self.parts = parts

    def json(self, name: str) -> Any:
        """A part as JSON. Raises BundleError."""
        try:
            return json.loads(self._part(name))
        except (ValueError, RecursionError):
            raise self.problem(f"{name} is not JSON") from None

    def lines(self, name: str) -> list[dict[str, Any]]:
        """A part with a JSON object on each line. Raises BundleError."""
        try:
            found = [json.loads(line) for line in self._part(name).splitlines()]
        except (ValueError, RecursionError):
            raise self.problem(f"{name} is not NDJSON") from None
        if not all(isinstance(value, dict) for value in found):
            raise self.problem(f"{name} has a line that is not an object")
        return found

    @property
    def workspaces(self) -> Mapping[str, Bundle]:
        """The bundles of the workspaces in this one, by the names of the cases of an acceptance
        run; of a bundle of one workspace, the bundle itself. Raises BundleError."""
        cases = self.manifest.get("cases")
        if cases is None:
            return {"": self}
        if not isinstance(cases, dict) or not all(
            isinstance(case, dict) for case in cases.values()
        ):
            raise self.problem(f"the cases of its {MANIFEST} are malformed")
        return {name: self._below(f"{CASES}{name}/", about) for name, about in cases.items()}

    def _below(self, folder: str, about: Mapping[str, Any]) -> Bundle:
        shared = {name: part for name, part in self.parts.items() if "/" not in name}
        inside = {
            name.removeprefix(folder): part
            for name, part in self.parts.items()
            if name.startswith(folder)
        }
        return Bundle(self.file, about, {**shared, **inside})

    def problem(self, text: str) -> BundleError:
        """The error for what is wrong with this file."""
        return BundleError(f"{self.file}: {text}")

    def _part(self, name: str) -> bytes:
        if name not in self.parts:
            raise self.problem(f"it has no {name}")
        return self.parts[name]


def read_bundle(file: Path) -> Bundle:
    """Read a bundle with all its parts, and check every digest. Raises BundleError."""
    try:
        if file.stat().st_size > MAX_FILE:
            raise BundleError(f"{file}: a bundle has at most {MAX_FILE // 2**20} MiB")
        return bundle_from(file, file.read_bytes())
    except OSError as error:
        raise BundleError(f"{file}: {error.strerror}") from None


def bundle_from(file: Path, content: bytes) -> Bundle:
    """The bundle that the ``content`` of a file is. Raises BundleError."""
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            parts = _parts(archive)
        manifest = json.loads(parts.pop(MANIFEST, b"null"))
        _check(manifest, parts)
    except _ProblemError as problem:
        raise BundleError(f"{file}: {problem}") from None
    except Exception:  # a stranger's archive may be wrong in any way
        raise BundleError(f"{file}: it is not a bundle, or it is damaged") from None
    return Bundle(file, manifest, parts)


class _ProblemError(Exception):
    """The problem of a file, as a clause."""


def _parts(archive: zipfile.ZipFile) -> dict[str, bytes]:
    infos = archive.infolist()
    if len(infos) > MAX_PARTS:
        raise _ProblemError(f"a bundle has at most {MAX_PARTS} parts")
    parts: dict[str, bytes] = {}
    left = MAX_CONTENT
    for info in infos:
        if info.filename in parts:
            raise _ProblemError(f"it has two parts {info.filename}")
        with archive.open(info) as part:
            content = part.read(min(MAX_PART, left) + 1)
        if len(content) > min(MAX_PART, left):
            raise _ProblemError(f"{info.filename} is too large, or all parts together are")
        left -= len(content)
        parts[info.filename] = content
    return parts


def _check(manifest: Any, parts: Mapping[str, bytes]) -> None:
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise _ProblemError(f"its {MANIFEST} does not have the format {FORMAT}")
    listed = manifest.get("parts")
    if not isinstance(listed, dict) or listed.keys() != parts.keys():
        raise _ProblemError(f"its parts are not those of its {MANIFEST}")
    for name, content in parts.items():
        digest = listed[name].get("sha256") if isinstance(listed[name], dict) else None
        if digest != hashlib.sha256(content).hexdigest():
            raise _ProblemError(f"the SHA-256 of {name} is not that of its {MANIFEST}")
