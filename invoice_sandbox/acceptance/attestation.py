"""Signed results: an in-toto test-result statement in a DSSE envelope, with Ed25519.

The statement binds every file of a report folder, with the bundle among them, the plan, the
contract and the version of the tool. The bundle must be that of the report: it has the same report,
and the plan and the contract that the report names. Verification needs the folder and the public
key only. Sources: in-toto Statement v1, its
predicate test-result v0.1, and DSSE 1.0.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from invoice_sandbox.acceptance.reports import contract_subject
from invoice_sandbox.acceptance.runs import BUNDLE, PLAN, REPORT
from invoice_sandbox.acceptance.verdicts import CONFORMANT, Verdict
from invoice_sandbox.base.errors import UserError
from invoice_sandbox.bundles.archive import BundleError, read_bundle
from invoice_sandbox.bundles.saving import CONTRACT

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

ATTESTATION: Final = "attestation.json"
"""The file of the envelope, in the report folder."""

_PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
_STATEMENT: Final = "https://in-toto.io/Statement/v1"
_PREDICATE: Final = "https://in-toto.io/attestation/test-result/v0.1"
_MAX_BYTES: Final = 64 * 1024 * 1024
_NOT_FAILED: Final = {one.value for one in (*CONFORMANT, Verdict.NOT_APPLICABLE)}
"""Verdicts of checks. A run that is not applicable has judged nothing, so it has not passed."""
_INSTALL: Final = (
    "signatures need more packages; in a checkout of the sandbox: pip install '.[sign]'"
)


class InvalidAttestationError(Exception):
    """An attestation that does not prove what is in the folder; the message gives the reason."""


def sign(folder: Path, key_file: Path) -> dict[str, Any]:
    """Write the signed statement about a report folder, and return the statement.

    ``key_file`` holds a private Ed25519 key as PEM. Raises UserError.
    """
    key = _private_key(key_file)
    statement = _statement(folder)
    payload = json.dumps(statement, sort_keys=True, separators=(",", ":")).encode()
    signature = key.sign(_encoded(_PAYLOAD_TYPE, payload))
    envelope = {
        "payloadType": _PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"sig": base64.b64encode(signature).decode()}],
    }
    text = json.dumps(envelope, indent=2) + "\n"
    (folder / ATTESTATION).write_text(text, encoding="utf-8")
    return statement


def verify(folder: Path, key_file: Path) -> dict[str, Any]:
    """The statement about a report folder, if its signature and every digest are right.

    ``key_file`` holds the public Ed25519 key as PEM. Raises UserError for a missing file or key,
    InvalidAttestationError for what does not fit.
    """
    key = _public_key(key_file)
    statement = _opened(_read(folder / ATTESTATION), key)
    named = _subjects(statement)
    present = _digests(folder)
    for name in sorted(named.keys() | present.keys()):
        if name not in present:
            raise InvalidAttestationError(f"{name} is missing")
        if name not in named:
            raise InvalidAttestationError(f"{name} is not part of the signed report")
        if named[name] != present[name]:
            raise InvalidAttestationError(f"{name} was changed after signing")
    problem = _bundle_problem(folder)
    if problem is not None:
        raise InvalidAttestationError(problem)
    return statement


def _bundle_problem(folder: Path) -> str | None:
    """Why the bundle in a folder is not that of its report; None: it is, or there is none."""
    if not (folder / BUNDLE).exists():
        return None
    content = _read(folder / REPORT)
    try:
        bundle, report = read_bundle(folder / BUNDLE), json.loads(content)
        plan = f"sha256:{hashlib.sha256(bundle.parts[PLAN]).hexdigest()}"
        contract = contract_subject(bundle.json(CONTRACT), ()).contract_digest
        expected = (content, report["plan"]["digest"], report["contract"]["digest"])
        if (bundle.parts[REPORT], plan, contract) == expected:
            return None
    except BundleError as error:
        return str(error)
    except (ValueError, LookupError, TypeError, AttributeError):
        pass
    return f"{BUNDLE} is not the bundle of {REPORT}"


def _statement(folder: Path) -> dict[str, Any]:
    try:
        report = json.loads(_read(folder / REPORT))
        checks = {one["id"]: one["verdict"] for one in report["checks"]}
        plan, contract = report["plan"], report["contract"]
        configuration = [
            _descriptor(f"plan/{plan['name']}", plan["digest"]),
            _descriptor(f"contract/{contract['version']}", contract["digest"]),
            {"name": report["tool"]["name"], "annotations": {"version": report["tool"]["version"]}},
        ]
        verdict = report["verdict"]
    except (ValueError, LookupError, TypeError):
        raise UserError(f"{folder / REPORT}: not an acceptance report") from None
    problem = _bundle_problem(folder)
    if problem is not None:
        raise UserError(f"{folder}: {problem}")
    digests = _digests(folder).items()
    return {
        "_type": _STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in digests],
        "predicateType": _PREDICATE,
        "predicate": {
            "result": _result(verdict),
            "configuration": configuration,
            "passedTests": [name for name, one in checks.items() if one == Verdict.PASS.value],
            "warnedTests": [name for name, one in checks.items() if one == Verdict.WARN.value],
            "failedTests": [name for name, one in checks.items() if one not in _NOT_FAILED],
        },
    }


def _result(verdict: str) -> str:
    return {Verdict.PASS.value: "PASSED", Verdict.WARN.value: "WARNED"}.get(verdict, "FAILED")


def _descriptor(name: str, digest: str) -> dict[str, Any]:
    return {"name": name, "digest": {"sha256": digest.removeprefix("sha256:")}}


def _digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file of a folder but the attestation. Raises UserError."""
    files = sorted(one for one in folder.iterdir() if one.name != ATTESTATION)
    return {one.name: hashlib.sha256(_read(one)).hexdigest() for one in files}


def _read(file: Path) -> bytes:
    if file.is_symlink() or not file.is_file():
        raise UserError(f"{file}: no such file")
    if file.stat().st_size > _MAX_BYTES:
        raise UserError(f"{file}: larger than {_MAX_BYTES:,} bytes")
    return file.read_bytes()


def _encoded(payload_type: str, payload: bytes) -> bytes:
    """The pre-authentication encoding of DSSE: what is signed."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _opened(content: bytes, key: Ed25519PublicKey) -> dict[str, Any]:
    """The statement in an envelope that the key has signed."""
    from cryptography.exceptions import InvalidSignature

    try:
        envelope = json.loads(content)
        payload_type = str(envelope["payloadType"])
        payload = base64.b64decode(envelope["payload"], validate=True)
        signatures = [base64.b64decode(one["sig"]) for one in envelope["signatures"]]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise InvalidAttestationError("the attestation is not a DSSE envelope") from None
    for signature in signatures:
        try:
            key.verify(signature, _encoded(payload_type, payload))
        except InvalidSignature:
            continue
        return _parsed(payload_type, payload)
    raise InvalidAttestationError("no signature is of this key")


def _parsed(payload_type: str, payload: bytes) -> dict[str, Any]:
    statement = json.loads(payload) if payload_type == _PAYLOAD_TYPE else None
    if not isinstance(statement, dict) or statement.get("predicateType") != _PREDICATE:
        raise InvalidAttestationError("the signed payload is no test result")
    return statement


def _subjects(statement: Mapping[str, Any]) -> dict[str, str]:
    try:
        return {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
    except (LookupError, TypeError):
        raise InvalidAttestationError("the signed payload names no files") from None


def _private_key(file: Path) -> Ed25519PrivateKey:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:
        raise UserError(_INSTALL) from None
    try:
        key = load_pem_private_key(_read(file), None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise UserError(f"{file}: not a private Ed25519 key as PEM without password")
    return key


def _public_key(file: Path) -> Ed25519PublicKey:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    except ImportError:
        raise UserError(_INSTALL) from None
    try:
        key = load_pem_public_key(_read(file))
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise UserError(f"{file}: not a public Ed25519 key as PEM")
    return key
