"""The mechanism of errors, and those that every project has: status, text and advice.

A project gives errors of its own to ``reject`` as ``ErrorType`` values. Which code stands for a
status, and what the body of an error looks like, are conventions of the project.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from difflib import get_close_matches
from heapq import nlargest
from http import HTTPStatus
from os.path import commonprefix
from typing import Any, Final, NamedTuple, TypeVar

from invoice_sandbox.base.ids import KEY_PREFIX

CODES: Final[Mapping[int, str]] = {
    400: "invalid_request",
    401: "authentication_required",
    403: "insufficient_scope",
    404: "resource_not_found",
    429: "rate_limit_exceeded",
    500: "internal_error",
    503: "service_unavailable",
}
"""The code of an error by its status. Other statuses fall back to the 400 or 500 code."""


T = TypeVar("T")
"""The type of a record that is looked up."""


class UserError(Exception):
    """A problem with what the user of a command gave; the message says what to do.

    It ends every command with one line on stderr and exit status 2.
    """


@dataclass(frozen=True)
class ErrorType:
    """An error: its name, the HTTP status, what is wrong, and what to do about it.

    ``text`` and ``advice`` are templates such as ``"There is no {kind} with this {member}"``; what
    is put into them must never come from a credential, and what the client sent is ``value``, which
    is shown if it looks like an id or an e-mail address. Without ``code`` the conventions of the
    project choose one by ``code_status``, which is the status unless given.
    """

    name: str
    status: int
    text: str
    advice: str
    code: str | None = None
    code_status: int | None = None


_ERRORS: Final = (
    ErrorType(
        "malformed_http", 400, "The request is not valid HTTP/1.1", "Check the client's framing."
    ),
    ErrorType(
        "malformed_host",
        400,
        "The request names no valid host",
        "Send one Host header with a host name and an optional port.",
    ),
    ErrorType(
        "unknown_method",
        400,
        "The request is not valid HTTP/1.1, or its method is not known here",
        "Check the method, and the client's framing.",
    ),
    ErrorType(
        "malformed_json", 400, "The body cannot be read as JSON: {reason}", "Send one JSON value."
    ),
    ErrorType("missing_body", 400, "A request body is required", "Send a body as {declared}."),
    ErrorType("schema_violated", 400, "{problems}", "The contract is at {base_url}/openapi.json."),
    ErrorType("bad_parameter", 400, "{problems}", "The contract is at {base_url}/openapi.json."),
    ErrorType(
        "unknown_scenario",
        400,
        "{place}: there is no scenario '{name}'",
        "{suggestion}'invoice-sandbox scenarios' or GET /sandbox/scenarios lists all of them.",
    ),
    ErrorType("bad_preference", 400, "Prefer: {problem}", "{known}"),
    ErrorType("no_credential", 401, "No credential was sent", "Send {ways}."),
    ErrorType("credential_missing", 401, "A credential is missing", "Send {ways}."),
    ErrorType(
        "no_bearer",
        401,
        "The Authorization header {problem}",
        "Send 'Authorization: Bearer <API_KEY>'.",
    ),
    ErrorType(
        "bad_credential",
        401,
        "The credential is not valid here: it is unknown, revoked or expired",
        "Create a new key, or check that it belongs to this environment.",
    ),
    ErrorType(
        "public_demo_key",
        401,
        "The demo key is public, so it is not valid {where}",
        "Use another key, such as that of 'invoice-sandbox serve --key KEY'.",
    ),
    ErrorType(
        "credentials_disagree",
        401,
        "Two credentials were sent and they disagree",
        "Send one credential only.",
    ),
    ErrorType(
        "invalid_signature",
        401,
        "{problem}",
        "The inbox keeps the message, marked as not verified.",
    ),
    ErrorType(
        "scope_missing",
        403,
        "This key lacks scope {scope}",
        "Use a key that was created with that scope.",
    ),
    ErrorType(
        "scope_not_grantable",
        403,
        "This key lacks scope {scope} and cannot grant it",
        "Request only scopes that the calling key has.",
    ),
    ErrorType(
        "unknown_path",
        404,
        "No operation has this path{meant}",
        "See {base_url}/openapi.json.",
    ),
    ErrorType(
        "unknown_resource",
        404,
        "There is no {kind} with this {member}",
        "Check {value}, and that the credential belongs to the same workspace.",
    ),
    ErrorType(
        "unknown_record",
        404,
        "There is no record with this {member}",
        "Check {value}: it was not posted to this path since the start or the last reset, or was "
        "deleted.",
    ),
    ErrorType(
        "method_not_allowed", 405, "{method} is not allowed on this path", "Allowed: {allowed}."
    ),
    ErrorType(
        "not_acceptable",
        406,
        "The response has no media type that the client accepts",
        "Accept one of {declared}.",
    ),
    ErrorType(
        "bad_idempotency_key",
        400,
        "The Idempotency-Key must be 1 to 255 printable ASCII characters",
        "Send a UUID.",
    ),
    ErrorType(
        "idempotency_key_reused",
        400,
        "The Idempotency-Key was used for another request",
        "Use a new key for every new request; repeat a key only to repeat its request.",
    ),
    ErrorType(
        "in_progress",
        409,
        "A request with the same Idempotency-Key is still in progress",
        "Wait a second and send it again.",
    ),
    ErrorType("conflict", 409, "{problem}", "{advice}"),
    ErrorType("too_large", 413, "The body is larger than {limit} bytes", "Send a smaller body."),
    ErrorType("not_json", 415, "The body must be JSON in UTF-8", "Send {ways}."),
    ErrorType(
        "media_type",
        415,
        "The body's content type is not one of those declared",
        "Send one of {declared}.",
    ),
    ErrorType(
        "cross_origin",
        403,
        "A page of another site cannot change anything with the session of this one",
        "Send the request from a page of this server, or use an API key.",
        code_status=400,
    ),
    ErrorType(
        "wrong_host",
        421,
        "This server does not serve the requested host",
        "Use the address that the server printed, or start it with --public-url.",
    ),
    ErrorType(
        "rate_limited",
        429,
        "More than {limit} requests in {window} seconds",
        "Wait {retry_after} seconds, then back off exponentially.",
    ),
    ErrorType(
        "too_slow",
        408,
        "The request did not arrive within {seconds} seconds",
        "Send the whole request at once.",
    ),
    ErrorType(
        "target_too_long",
        414,
        "The URL takes most of the {limit} bytes that the request head may have",
        "Send a shorter URL.",
    ),
    ErrorType(
        "headers_too_large",
        431,
        "The headers are larger than {limit} bytes",
        "Send fewer or shorter headers.",
    ),
    ErrorType(
        "internal_error",
        500,
        "The sandbox failed to produce a response that its contract allows",
        "The log of the sandbox gives the reason under this request id.",
    ),
    ErrorType(
        "limit_reached",
        429,
        "The workspace has {limit} {what}, which is its limit",
        "Remove some, or reset the workspace.",
    ),
    ErrorType(
        "state_full",
        429,
        "The workspace has {limit} bytes of state, which is its limit",
        "Reset the workspace, or start the server with a larger --max-state.",
    ),
    ErrorType(
        "stopping",
        503,
        "The server stops, and accepts and finishes no more requests",
        "Send it again when the server is back.",
    ),
    ErrorType(
        "busy",
        503,
        "The server is handling as many requests as it may",
        "Wait a second and send it again.",
    ),
    ErrorType(
        "store_unavailable",
        503,
        "The server cannot keep any change at present",
        "Wait a second and send it again, with the same Idempotency-Key if it had one.",
    ),
    ErrorType(
        "too_many_waiting",
        503,
        "The connection has as many requests without a response as it may",
        "Wait for responses before you send more requests on a connection.",
    ),
    ErrorType(
        "no_usable_response",
        501,
        "The contract has no usable response for this operation: {problem}",
        "All other operations are served.",
    ),
)
ERRORS: Final[Mapping[str, ErrorType]] = {error.name: error for error in _ERRORS}
"""The errors of the engine, by name."""


class InputProblem(NamedTuple):
    """A problem with one input of a request, without its value, which may be a secret.

    ``text`` is a clause such as ``must be a number``; if ``is_sentence``, it is a whole
    sentence, such as a hint about an undeclared member.
    """

    text: str
    is_missing: bool = False
    is_sentence: bool = False


class InputProblems(NamedTuple):
    """The first problems of the inputs of a request, missing ones first, and how many in all."""

    listed: tuple[InputProblem, ...]
    total: int

    def text(self, labels: Sequence[str]) -> str:
        """Return everything that is missing, else the first problem; what is undeclared; and the
        number of the others. ``labels`` are the names of the inputs for the reader, one for each
        problem."""
        pairs = list(zip(labels, self.listed, strict=True))
        missing = [label for label, problem in pairs if problem.is_missing]
        hint = next((problem.text for problem in self.listed if problem.is_sentence), "")
        first = f"{pairs[0][0]} {pairs[0][1].text}"
        count = self.total
        if hint and not missing and self.listed[0].is_sentence:
            first, hint = hint, ""
        elif hint:
            count -= 1
        if missing:
            *some, last = missing
            first = f"{', '.join(some)} and {last} are required" if some else f"{last} is required"
        others = count - (len(missing) or 1)
        if others:
            first += f" (and {others} more {'problem' if others == 1 else 'problems'})"
        return f"{first}; {hint}" if hint else first


@dataclass
class ApiError(Exception):
    """An error response: its type, the values of its templates, and headers to send with it."""

    type: ErrorType
    values: Mapping[str, Any] = field(default_factory=dict)
    headers: tuple[tuple[str, str], ...] = ()

    __hash__ = Exception.__hash__

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.type.status

    @property
    def code(self) -> str:
        """The machine-readable code, unless the conventions of the project have another."""
        return self.type.code or code_for(self.type.code_status or self.status)

    def message(self, base_url: str = "") -> str:
        """Return what is wrong, then what to do: one sentence each."""
        values = {"base_url": base_url, **self.values, "value": _shown(self.values.get("value"))}
        text, advice = self.type.text.format_map(values), self.type.advice.format_map(values)
        return f"{ended(text)} {advice}".rstrip()


def ended(text: str) -> str:
    """A sentence with its full stop, unless it ends in one or in a question mark."""
    return text if text.endswith(("?", ".")) else f"{text}."


def _shown(value: Any) -> str:
    """A value of the client as an error repeats it: an id or an e-mail address, never a secret."""
    text = str(value)
    if value is None or not _ID.fullmatch(text) or text.startswith(_SECRETS):
        return "the value"
    return f"'{text}'"


_ID: Final = re.compile(r"[\w-]{1,64}|[\w.+-]{1,64}@[\w.-]{1,128}", re.ASCII)
_SECRETS: Final = (KEY_PREFIX, "whsec_")


def code_for(status: int, codes: Mapping[int, str] = CODES) -> str:
    """The code of an error status, which falls back to the 400 or 500 code."""
    server = HTTPStatus.INTERNAL_SERVER_ERROR
    return codes.get(status) or codes[server if status >= server else HTTPStatus.BAD_REQUEST]


def reject(error: str | ErrorType, *headers: tuple[str, str], **values: Any) -> ApiError:
    """``raise reject("unknown_resource", kind="booking", member="id")``.

    ``error`` is the name of an error of the engine, or an error type of the project.
    """
    return ApiError(ERRORS[error] if isinstance(error, str) else error, values, headers)


def existing(found: T | None, kind: str, value: Any = None, member: str = "id") -> T:
    """Return what was looked up. Raises ApiError 404 for None: a ``kind`` of that ``member``."""
    if found is None:
        raise reject("unknown_resource", kind=kind, member=member, value=value)
    return found


def conflict(problem: str, advice: str, **values: Any) -> ApiError:
    """``raise conflict("The order is closed", "Use another order.")``: a 409."""
    return reject("conflict", problem=problem, advice=advice, **values)


def reject_inputs(error: str, inputs: InputProblems, labels: Sequence[str]) -> ApiError:
    """``reject`` for problems of inputs, whose ``labels`` are their names for the reader."""
    return reject(error, problems=inputs.text(labels))


def suggestion(word: str, known: Iterable[Any], otherwise: str = "", where: str = "") -> str:
    """Return advice for an unknown word: the closest known word, else all of them; of many the
    first ones, or ``where`` they are listed."""
    words = [str(value) for value in (sorted(known, key=str) if isinstance(known, Set) else known)]
    return did_you_mean(word, words) or otherwise or _listed(words, where)


def _listed(words: Sequence[str], where: str) -> str:
    if not words:
        return "none is known"
    others = len(words) - MOST_LISTED
    if others <= 0:
        return f"known: {', '.join(words)}"
    return where or f"known: {', '.join(words[:MOST_LISTED])} and {others} more"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``did you mean clock.advanced or clock.set?``: what begins with the word and goes on
    with a separator (``clock.*``), else the closest known word; empty if none is close."""
    words = list(known)
    begin = word.rstrip("-._*")
    longer = tuple(f"{begin}{separator}" for separator in "-._")
    meant = [other for other in words if begin and other.startswith(longer)]
    if not 0 < len(meant) <= _MOST_MEANT:
        meant = [close_word(word, words)]
    *some, last = meant
    alternatives = f"{', '.join(some)} or {last}" if some else last
    return f"did you mean {alternatives}?" if last else ""


def close_word(word: str, known: Iterable[str]) -> str:
    """Return the closest known word, else an empty text.

    It is similar in whole, the last part of the word (``raise-dispute``: ``dispute``), the only
    one with a similar first part (``hapy``: ``happy-path``), or the same but for capital letters.
    """
    if len(word) > _LONGEST_WORD:
        return ""
    words = list(known)
    likely = nlargest(
        _MOST_COMPARED,
        words,
        key=lambda other: len(commonprefix([word, other])),  # noqa: RUF071 - not of paths
    )
    firsts = {other: re.split(r"[-._]", other)[0] for other in likely}
    first = get_close_matches(word, firsts.values(), n=1, cutoff=_CLOSE)
    begun = [other for other in likely if firsts[other] in first]
    close = (
        get_close_matches(word, likely, n=1, cutoff=_CLOSE)
        or [other for other in words if word.endswith((f"-{other}", f".{other}", f"_{other}"))]
        or get_close_matches(word, likely, n=1)
        or (begun if len(begun) == 1 else [])
        or [other for other in words if other.casefold() == word.casefold()]
    )
    return close[0] if close else ""


_CLOSE: Final = 0.8
_MOST_MEANT: Final = 5
MOST_LISTED: Final = 22
"""Known words that are listed where none is close."""

_LONGEST_WORD: Final = 100
_MOST_COMPARED: Final = 64
"""Longer words get no suggestion, and of many known words those that begin like it are compared:
looking for a word takes time that grows with both."""
