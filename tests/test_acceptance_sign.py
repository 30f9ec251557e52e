"""Signed acceptance reports: what is bound, and what verification finds."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from invoice_sandbox.acceptance.reports import contract_subject
from invoice_sandbox.bundles.archive import write_bundle
from invoice_sandbox.cli import main

DIGEST = "sha256:" + 64 * "a"
REPORT = {
    "tool": {"name": "tool", "version": "1"},
    "plan": {"name": "partner", "digest": DIGEST},
    "contract": {"version": "0.1.0", "digest": DIGEST},
    "verdict": "FAIL",
    "checks": [
        {"id": "backoff", "verdict": "PASS"},
        {"id": "money", "verdict": "FAIL"},
        {"id": "tolerance", "verdict": "WARN"},
        {"id": "polling", "verdict": "INCONCLUSIVE"},
        {"id": "webhook-order", "verdict": "NOT_APPLICABLE"},
    ],
}


def command(*words: object) -> Result:
    """The result of ``invoice-sandbox acceptance …``."""
    return CliRunner().invoke(main, ["acceptance", *map(str, words)])


def keys(folder: Path) -> tuple[Path, Path]:
    """The files of a new key pair."""
    key = Ed25519PrivateKey.generate()
    private, public = folder / "key.pem", folder / "public.pem"
    form = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    private.write_bytes(key.private_bytes(*form))
    form_of_public = Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(*form_of_public))
    return private, public


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A key pair."""
    return keys(tmp_path)


@pytest.fixture
def signed(tmp_path: Path, pair: tuple[Path, Path]) -> Path:
    """A signed report folder."""
    folder = tmp_path / "report"
    folder.mkdir()
    (folder / "report.json").write_text(json.dumps(REPORT))
    (folder / "report.html").write_text("<h1>Report</h1>")
    result = command("sign", folder, "--key", pair[0])
    assert result.exit_code == 0, result.output
    return folder


def statement(folder: Path) -> dict[str, Any]:
    """What was signed."""
    envelope = json.loads((folder / "attestation.json").read_text())
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    found: dict[str, Any] = json.loads(base64.b64decode(envelope["payload"]))
    return found


def test_a_signature_is_verified_with_the_folder_and_the_public_key(
    signed: Path, pair: tuple[Path, Path]
) -> None:
    result = command("verify", signed, "--key", pair[1])
    assert result.exit_code == 0, result.output
    assert result.output == (
        "signature valid; verdict FAILED (plan/partner, contract/0.1.0, tool, 2 files)\n"
    )


def test_the_statement_is_a_test_result_of_in_toto(signed: Path) -> None:
    found = statement(signed)
    assert found["_type"] == "https://in-toto.io/Statement/v1"
    assert found["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    assert [one["name"] for one in found["subject"]] == ["report.html", "report.json"]
    predicate = found["predicate"]
    assert predicate["configuration"][0]["digest"] == {"sha256": 64 * "a"}
    assert (predicate["result"], predicate["passedTests"]) == ("FAILED", ["backoff"])
    assert predicate["warnedTests"] == ["tolerance"]
    assert predicate["failedTests"] == ["money", "polling"]


def test_a_run_that_judged_nothing_has_not_passed(signed: Path, pair: tuple[Path, Path]) -> None:
    skipped = [{"id": "webhook-order", "verdict": "NOT_APPLICABLE"}]
    report = {**REPORT, "verdict": "NOT_APPLICABLE", "checks": skipped}
    (signed / "report.json").write_text(json.dumps(report))
    assert "signed; verdict FAILED (" in command("sign", signed, "--key", pair[0]).output
    assert statement(signed)["predicate"]["failedTests"] == []


def test_the_same_report_gives_the_same_signature(signed: Path, pair: tuple[Path, Path]) -> None:
    before = (signed / "attestation.json").read_bytes()
    assert command("sign", signed, "--key", pair[0]).exit_code == 0
    assert (signed / "attestation.json").read_bytes() == before


def _forge(folder: Path) -> None:
    file = folder / "attestation.json"
    envelope = json.loads(file.read_text())
    payload = base64.b64decode(envelope["payload"]).replace(b"FAILED", b"PASSED")
    envelope["payload"] = base64.b64encode(payload).decode()
    file.write_text(json.dumps(envelope))


def _link(folder: Path) -> None:
    (folder / "report.html").unlink()
    (folder / "report.html").symlink_to("/etc/hostname")


CHANGES: dict[str, tuple[Callable[[Path], object], int, str]] = {
    "a file": (
        lambda it: (it / "report.html").write_text("<h1>Passed</h1>"),
        1,
        "not verified: report.html was changed after signing",
    ),
    "one more file": (
        lambda it: (it / "more.txt").touch(),
        1,
        "not verified: more.txt is not part of the signed report",
    ),
    "a file less": (
        lambda it: (it / "report.html").unlink(),
        1,
        "not verified: report.html is missing",
    ),
    "the payload": (_forge, 1, "not verified: no signature is of this key"),
    "no envelope": (
        lambda it: (it / "attestation.json").write_text("[" * 100_000),
        1,
        "not verified: the attestation is not a DSSE envelope",
    ),
    "no signature": (
        lambda it: (it / "attestation.json").write_text(
            '{"payloadType": "x", "payload": "", "signatures": []}'
        ),
        1,
        "not verified: no signature is of this key",
    ),
    "no attestation": (lambda it: (it / "attestation.json").unlink(), 2, "no such file"),
    "a link to elsewhere": (_link, 2, "report.html: no such file"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_was_changed_is_found(signed: Path, pair: tuple[Path, Path], change: str) -> None:
    make, status, message = CHANGES[change]
    make(signed)
    result = command("verify", signed, "--key", pair[1])
    assert (result.exit_code, message in result.output) == (status, True), result.output


def test_the_key_of_another_verifies_nothing(signed: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    _, public = keys(tmp_path / "other")
    result = command("verify", signed, "--key", public)
    assert (result.exit_code, "no signature is of this key" in result.output) == (1, True)


def test_a_file_that_is_no_key(signed: Path, pair: tuple[Path, Path]) -> None:
    private, public = pair
    for words in (("sign", signed, "--key", public), ("verify", signed, "--key", private)):
        result = command(*words)
        assert (result.exit_code, "Ed25519 key as PEM" in result.output) == (2, True)


def test_a_folder_without_a_report_cannot_be_signed(signed: Path, pair: tuple[Path, Path]) -> None:
    (signed / "report.json").write_text("[]")
    result = command("sign", signed, "--key", pair[0])
    assert (result.exit_code, "not an acceptance report" in result.output) == (2, True)
    shutil.rmtree(signed)


def with_bundle(folder: Path, report: bytes) -> None:
    """Write a bundle with this report, and with the plan and contract of the report."""
    parts = {"report.json": report, "plan.yaml": b"name: x", "contract.json": CONTRACT}
    write_bundle(folder / "bundle.zip", {"cases": {}}, parts)


CONTRACT = json.dumps({"info": {"version": "0.1.0"}, "paths": {}}).encode()
BOUND = {
    **REPORT,
    "plan": {"name": "x", "digest": f"sha256:{hashlib.sha256(b'name: x').hexdigest()}"},
    "contract": {
        "version": "0.1.0",
        "digest": contract_subject(json.loads(CONTRACT), ()).contract_digest,
    },
}


def test_the_bundle_of_the_report_is_signed_and_verified(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    folder, report = tmp_path / "report", json.dumps(BOUND).encode()
    folder.mkdir()
    (folder / "report.json").write_bytes(report)
    with_bundle(folder, report)
    assert command("sign", folder, "--key", pair[0]).exit_code == 0
    assert "bundle.zip" in {one["name"] for one in statement(folder)["subject"]}
    assert command("verify", folder, "--key", pair[1]).exit_code == 0
    with_bundle(folder, report + b" ")
    changed = command("verify", folder, "--key", pair[1])
    assert (changed.exit_code, "bundle.zip was changed" in changed.output) == (1, True)


@pytest.mark.parametrize("member", ["plan", "contract", "verdict", "zip"])
def test_the_bundle_of_another_report_is_not_signed(
    tmp_path: Path, pair: tuple[Path, Path], member: str
) -> None:
    folder = tmp_path / "report"
    folder.mkdir()
    other = (
        BOUND | {member: REPORT.get(member)} if member != "verdict" else BOUND | {member: "PASS"}
    )
    (folder / "report.json").write_text(json.dumps(BOUND if member == "zip" else other))
    with_bundle(folder, json.dumps(other if member in {"plan", "contract"} else BOUND).encode())
    if member == "zip":
        (folder / "bundle.zip").write_bytes(b"no zip")
    rejected = command("sign", folder, "--key", pair[0])
    assert rejected.exit_code == 2
    assert "bundle.zip" in rejected.output
    assert not (folder / "attestation.json").exists()
