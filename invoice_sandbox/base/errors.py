"""Every refusal this service can give, in one table: status, code, text and advice.

The envelope and the codes are the specification's (section Errors). Texts are templates; what is
put into them never comes from a credential.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MODE: Final = "sandbox_mock"
"""Marks every answer as non-production data (specification, What the service does, rule 2)."""

INVALID_REQUEST: Final = "invalid_request"
AUTHENTICATION_REQUIRED: Final = "authentication_required"
INSUFFICIENT_SCOPE: Final = "insufficient_scope"
RESOURCE_NOT_FOUND: Final = "resource_not_found"
RATE_LIMIT_EXCEEDED: Final = "rate_limit_exceeded"
INTERNAL_ERROR: Final = "internal_error"
SERVICE_UNAVAILABLE: Final = "service_unavailable"


@dataclass(frozen=True)
class Refusal:
    """One row: the HTTP status, the machine-readable code, what is wrong, and what to do."""

    status: int
    code: str
    text: str
    advice: str


ERRORS: Final[Mapping[str, Refusal]] = {
    "malformed_http": Refusal(
        400, INVALID_REQUEST, "The request is not valid HTTP/1.1", "Check the client's framing."
    ),
    "malformed_json": Refusal(
        400, INVALID_REQUEST, "The body cannot be read as JSON: {reason}", "Send one JSON value."
    ),
    "missing_body": Refusal(
        400, INVALID_REQUEST, "A request body is required", "Send it as {declared}."
    ),
    "schema_violated": Refusal(
        400, INVALID_REQUEST, "{problems}", "The contract is at {base_url}/openapi.json."
    ),
    "bad_parameter": Refusal(
        400, INVALID_REQUEST, "{problems}", "The contract is at {base_url}/openapi.json."
    ),
    "out_of_bounds": Refusal(
        400, INVALID_REQUEST, "{problems}", "Correct the invoice; repeating it will not help."
    ),
    "unknown_scenario": Refusal(
        400,
        INVALID_REQUEST,
        "{place}: there is no scenario '{name}'",
        "{near}; all are listed by GET /sandbox/scenarios.",
    ),
    "bad_preference": Refusal(400, INVALID_REQUEST, "Prefer: {problem}", "{known}"),
    "bad_upload": Refusal(
        400, INVALID_REQUEST, "{problem}", "Send the file that the address was made for."
    ),
    "no_credential": Refusal(
        401,
        AUTHENTICATION_REQUIRED,
        "No credential was sent",
        "Send 'Authorization: Bearer <API_KEY>' or 'X-API-Key: <API_KEY>'.",
    ),
    "credential_wanted": Refusal(
        401, AUTHENTICATION_REQUIRED, "A credential is missing", "Send {ways}."
    ),
    "bad_credential": Refusal(
        401,
        AUTHENTICATION_REQUIRED,
        "The credential is not valid here: it is unknown, revoked or expired",
        "Create a new key, or check that it belongs to this environment.",
    ),
    "credentials_disagree": Refusal(
        401,
        AUTHENTICATION_REQUIRED,
        "Two credentials were sent and they disagree",
        "Send one credential only.",
    ),
    "login_failed": Refusal(
        401,
        AUTHENTICATION_REQUIRED,
        "The login was refused",
        "Check the e-mail address and the password.",
    ),
    "not_genuine": Refusal(
        401,
        AUTHENTICATION_REQUIRED,
        "{problem}",
        "It is kept in the inbox, marked as not verified.",
    ),
    "scope_missing": Refusal(
        403,
        INSUFFICIENT_SCOPE,
        "This key lacks scope {scope}",
        "Use a key that was created with that scope.",
    ),
    "scope_not_grantable": Refusal(
        403,
        INSUFFICIENT_SCOPE,
        "This key lacks scope {scope} and cannot grant it",
        "Ask for scopes that the calling key holds.",
    ),
    "unknown_path": Refusal(
        404, RESOURCE_NOT_FOUND, "There is nothing at this path", "See {base_url}/openapi.json."
    ),
    "unknown_resource": Refusal(
        404,
        RESOURCE_NOT_FOUND,
        "There is no {kind} with this {member}",
        "Check the value, and that the credential belongs to the same workspace.",
    ),
    "method_not_allowed": Refusal(
        405, INVALID_REQUEST, "{method} is not allowed on this path", "Allowed: {allowed}."
    ),
    "not_acceptable": Refusal(
        406,
        INVALID_REQUEST,
        "The answer has no media type that the client accepts",
        "Accept one of {declared}.",
    ),
    "bad_idempotency_key": Refusal(
        400,
        INVALID_REQUEST,
        "The Idempotency-Key must be 1 to 255 printable ASCII characters",
        "Send a UUID.",
    ),
    "idempotency_key_reused": Refusal(
        400,
        INVALID_REQUEST,
        "The Idempotency-Key was used for another request",
        "Use a new key for every request, and the same only to repeat it.",
    ),
    "in_progress": Refusal(
        409,
        INVALID_REQUEST,
        "A request with the same Idempotency-Key is still in progress",
        "Wait a second and repeat it.",
    ),
    "conflict": Refusal(409, INVALID_REQUEST, "{problem}", "{advice}"),
    "too_large": Refusal(
        413, INVALID_REQUEST, "The body is larger than {limit} bytes", "Send a smaller body."
    ),
    "not_json": Refusal(
        415,
        INVALID_REQUEST,
        "The body must be JSON in UTF-8",
        "Send 'Content-Type: application/json'.",
    ),
    "media_type": Refusal(
        415,
        INVALID_REQUEST,
        "The body's content type is not one of those declared",
        "Send one of {declared}.",
    ),
    "cross_origin": Refusal(
        403,
        INSUFFICIENT_SCOPE,
        "A session may change things only from a page of this server",
        "Send the 'Origin' of this server, or use an API key.",
    ),
    "wrong_host": Refusal(
        421,
        INVALID_REQUEST,
        "This server does not answer for the host that was asked for",
        "Use the address that the server printed, or start it with --public-url.",
    ),
    "rate_limited": Refusal(
        429,
        RATE_LIMIT_EXCEEDED,
        "More than {limit} requests in {window} seconds",
        "Wait {retry_after} seconds, then back off exponentially.",
    ),
    "too_slow": Refusal(
        408,
        INVALID_REQUEST,
        "The request did not come within {seconds} seconds",
        "Send it whole, at once.",
    ),
    "target_too_long": Refusal(
        414,
        INVALID_REQUEST,
        "The address takes most of the {limit} bytes that a head may have",
        "Send a shorter one.",
    ),
    "headers_too_large": Refusal(
        431,
        INVALID_REQUEST,
        "The headers are larger than {limit} bytes",
        "Send fewer or shorter ones.",
    ),
    "internal_error": Refusal(
        500,
        INTERNAL_ERROR,
        "The sandbox failed to answer as its contract says",
        "This is a defect of the sandbox; its log names the reason under this requestId.",
    ),
    "no_answer": Refusal(
        501,
        INTERNAL_ERROR,
        "The contract gives no answer to this operation: {problem}",
        "The rest of the contract is served.",
    ),
}


@dataclass
class ApiError(Exception):
    """A refusal on its way to the client.

    ``row`` is a key of ERRORS, ``values`` fill its templates, ``headers`` go with the answer.
    """

    row: str
    values: Mapping[str, Any] = field(default_factory=dict)
    headers: tuple[tuple[str, str], ...] = ()

    __hash__ = Exception.__hash__

    @property
    def status(self) -> int:
        """The HTTP status."""
        return ERRORS[self.row].status

    @property
    def code(self) -> str:
        """The machine-readable code of the envelope."""
        return ERRORS[self.row].code

    def message(self, base_url: str = "") -> str:
        """What is wrong, then advice: one sentence each."""
        refusal = ERRORS[self.row]
        values = {"base_url": base_url, **self.values}
        text, advice = (part.format_map(values) for part in (refusal.text, refusal.advice))
        return f"{text.rstrip('.')}. {advice}"

    def envelope(self, request_id: str, base_url: str = "") -> dict[str, Any]:
        """The error envelope of the specification."""
        error = {"code": self.code, "message": self.message(base_url), "requestId": request_id}
        return {"error": error, "mode": MODE}


def code_for(status: int) -> str:
    """The code that goes with an error status, be it one that only an injected fault gives."""
    for refusal in ERRORS.values():
        if refusal.status == status:
            return refusal.code
    if status == 503:
        return SERVICE_UNAVAILABLE
    return INVALID_REQUEST if status < 500 else INTERNAL_ERROR


def reject(row: str, *headers: tuple[str, str], **values: Any) -> ApiError:
    """``raise reject("unknown_resource", kind="invoice", member="id")``."""
    return ApiError(row, values, headers)
