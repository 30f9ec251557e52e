"""Requests that no well-meaning client sends: the bytes, what may be returned, and what is left.

``statuses`` has one entry for each response that must come, in order: the status, or those that are
allowed. ``then`` is what the server does with the connection: it keeps it ``open`` for the next
request, or it is ``closed``.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from typing import Final, Literal

from tests.hostile.wire import request

Status = int | frozenset[int]


@dataclass(frozen=True)
class Case:
    """One conversation."""

    sent: bytes
    statuses: tuple[Status, ...]
    then: Literal["open", "closed"] = "open"


def _post(*lines: str, path: str = "/api/invoices", body: bytes = b"") -> bytes:
    return request("POST", path, "Content-Type: application/json", *lines) + body


def _get(path: str, *lines: str) -> bytes:
    return request("GET", path, *lines)


def _chunks(*parts: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + end


HEALTH: Final = _get("/api/health")
_HTTP_2: Final = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
_CHUNKED: Final = "Transfer-Encoding: chunked"
_INVOICE: Final = b'{"sellerId":"s","debtorId":"d","invoiceNumber":"n","amount":1,"currency":"EUR"}'
_LONG: Final = b'{"sellerId":"' + b"x" * (5 * 1024 * 1024) + b'"}'
_BOMB: Final = gzip.compress(b" " * 20_000_000)

LENGTHS: Final = {
    "a length that is missing": Case(_post(), (400,)),
    "a length of nothing": Case(_post("Content-Length: 0"), (400,)),
    "an empty length": Case(_post("Content-Length: "), (400,), "closed"),
    "a length that is a word": Case(_post("Content-Length: two", body=b"{}"), (400,), "closed"),
    "a length with a plus": Case(_post("Content-Length: +2", body=b"{}"), (400,), "closed"),
    "a length in hexadecimal": Case(_post("Content-Length: 0x2", body=b"{}"), (400,), "closed"),
    "a length with a fraction": Case(_post("Content-Length: 2.0", body=b"{}"), (400,), "closed"),
    "a list of lengths": Case(_post("Content-Length: 2, 2", body=b"{}"), (400,), "closed"),
    "a length beyond 64 bits": Case(_post(f"Content-Length: {10**30}"), (400,), "closed"),
    "two lengths that differ": Case(
        _post("Content-Length: 2", "Content-Length: 3", body=b"{} "), (400,), "closed"
    ),
    "a length and chunks": Case(
        _post("Content-Length: 2", _CHUNKED, body=_chunks(b"{}")), (400,), "closed"
    ),
    "a length that is too short": Case(
        _post("Content-Length: 1", body=b"{}"), (400, 400), "closed"
    ),
    "5 MB in one string": Case(_post(f"Content-Length: {len(_LONG)}", body=_LONG), (413,)),
    "5 MB in one chunk": Case(_post(_CHUNKED, body=_chunks(_LONG)), (413,)),
    "5 MB where no body belongs": Case(
        _get("/api/health", f"Content-Length: {len(_LONG)}") + _LONG, (200,)
    ),
    "262,144 bytes": Case(_post("Content-Length: 262144", body=b" " * 262_144), (400,)),
    "262,145 bytes": Case(_post("Content-Length: 262145", body=b" " * 262_145), (413,)),
}

CHUNKS: Final = {
    "chunks of one byte": Case(_post(_CHUNKED, body=_chunks(*[b" "] * 60_000, b"{}")), (400,)),
    "a chunk with extensions": Case(_post(_CHUNKED, body=b"2;a=b;c\r\n{}\r\n0\r\n\r\n"), (400,)),
    "an extension without end": Case(
        _post(_CHUNKED, body=b"2;" + b"a" * 200_000), (400,), "closed"
    ),
    "trailers": Case(_post(_CHUNKED, body=_chunks(b"{}", end=b"0\r\nX: y\r\n\r\n")), (400,)),
    "a trailer that closes": Case(
        _post(_CHUNKED, body=_chunks(b"{}", end=b"0\r\nConnection: close\r\n\r\n")),
        (400,),
        "closed",
    ),
    "trailers without end": Case(
        _post(_CHUNKED, body=_chunks(b"{}", end=b"0\r\n" + b"X: y\r\n" * 40_000)), (400,), "closed"
    ),
    "one trailer without end": Case(
        _post(_CHUNKED, body=_chunks(b"{}", end=b"0\r\nX: " + b"y" * 200_000)), (400,), "closed"
    ),
    "a credential that trails": Case(
        b"POST /api/invoices HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
        + _chunks(b"{}", end=b"0\r\nAuthorization: Bearer x\r\nHost: evil\r\n\r\n"),
        (401,),
    ),
    "a chunk that is longer than it says": Case(
        _post(_CHUNKED, body=b"1\r\n{}\r\n0\r\n\r\n"), (400,), "closed"
    ),
    "a chunk of negative size": Case(_post(_CHUNKED, body=b"-1\r\n\r\n"), (400,), "closed"),
    "a chunk beyond 64 bits": Case(_post(_CHUNKED, body=b"f" * 17 + b"\r\n"), (400,), "closed"),
    "chunked twice": Case(_post("Transfer-Encoding: chunked, chunked"), (400,), "closed"),
    "an unknown transfer coding": Case(_post("Transfer-Encoding: gzip"), (400,), "closed"),
    "a bad chunk where no body belongs": Case(
        _get("/api/health", _CHUNKED) + b"zz\r\n", (200,), "closed"
    ),
}

CODINGS: Final = {
    "gzip": Case(
        _post(
            "Content-Encoding: gzip",
            f"Content-Length: {len(gzip.compress(_INVOICE))}",
            body=gzip.compress(_INVOICE),
        ),
        (frozenset({400, 415}),),
    ),
    "a gzip bomb": Case(
        _post("Content-Encoding: gzip", f"Content-Length: {len(_BOMB)}", body=_BOMB),
        (frozenset({400, 415}),),
    ),
    "an unknown coding": Case(
        _post("Content-Encoding: rot13", "Content-Length: 2", body=b"no"),
        (frozenset({400, 415}),),
    ),
    "UTF-16 by its own account": Case(
        request("POST", "/api/invoices", "Content-Type: application/json; charset=utf-16")[:-2]
        + b"Content-Length: 4\r\n\r\n{\0}\0",
        (415,),
    ),
    "no type at all": Case(request("POST", "/api/invoices", "Content-Length: 2") + b"{}", (415,)),
    "a type without end": Case(
        request("POST", "/api/invoices", "Content-Type: " + "a;" * 5000, "Content-Length: 2")
        + b"{}",
        (415,),
    ),
    "a form": Case(
        request("POST", "/api/invoices", "Content-Type: multipart/form-data", "Content-Length: 2")
        + b"--",
        (415,),
    ),
}

EXPECTATIONS: Final = {
    "asks first, has nothing": Case(_post("Expect: 100-continue", "Content-Length: 0"), (400,)),
    "asks first, sends anyway": Case(
        _post("Expect: 100-continue", "Content-Length: 2", body=b"{}"), (400,)
    ),
    "expects a miracle": Case(_post("Expect: miracle", "Content-Length: 2", body=b"{}"), (400,)),
    "asks first where no body belongs": Case(
        _get("/api/health", "Expect: 100-continue", "Content-Length: 0"), (200,)
    ),
}

HEADS: Final = {
    "600 headers": Case(_get("/api/health", *[f"X-{n}: {n}" for n in range(600)]), (200,)),
    "4,000 headers": Case(_get("/api/health", *["X: y"] * 4000 + ["Y: " + "z" * 9000]), (431,)),
    "headers without end": Case(_get("/api/health", *["X: y"] * 40_000)[:-2], (431,), "closed"),
    "a header without end": Case(_get("/api/health", "X: " + "y" * 300_000), (431,), "closed"),
    "a name without end": Case(_get("/api/health", "x" * 300_000), (431,), "closed"),
    "a space before the colon": Case(_get("/api/health", "X : y"), (400,), "closed"),
    "a header without a name": Case(_get("/api/health", ": y"), (400,), "closed"),
    "a carriage return alone": Case(_get("/api/health", "X: a\rY: b"), (400,), "closed"),
    "one credential a thousand times": Case(
        _get("/api/auth/session", *["X-API-Key: x"] * 1000), (200,)
    ),
    "cookies beyond counting": Case(
        _get("/api/auth/session", "Cookie: " + "; ".join(f"c{n}={n}" for n in range(1000))),
        (frozenset({200, 401, 403}),),
    ),
    "a cookie that is none": Case(
        _get("/api/auth/session", 'Cookie: "' + "\\" * 8000), (frozenset({200, 401, 403}),)
    ),
    "preferences without end": Case(
        _get("/api/health", "Prefer: " + "code=404," * 1000), (frozenset({200, 400, 404}),)
    ),
    "a preference that is no number": Case(
        _get("/api/health", "Prefer: code=" + "9" * 5000), (frozenset({200, 400}),)
    ),
    "a scenario that is none": Case(
        _get("/api/invoices", "X-Sandbox-Scenario: " + "../" * 2000), (400,)
    ),
    "bytes beyond ASCII": Case(
        _get("/api/health", "X: \xff\xfe", "X-Sandbox-Explain: 1", "Origin: http://\xff"), (200,)
    ),
    "an idempotency key without end": Case(
        _post("Idempotency-Key: " + "k" * 9000, "Content-Length: 2", body=b"{}"), (400,)
    ),
    "two hosts": Case(_get("/api/health", "Host: 127.0.0.1"), (400,)),
    "no host": Case(b"GET /api/health HTTP/1.1\r\n\r\n", (421,)),
    "a NUL in a header": Case(_get("/api/health", "X: a\0b"), (400,), "closed"),
    "line ends without a carriage return": Case(HEALTH.replace(b"\r\n", b"\n"), (400,), "closed"),
    "a method that nobody knows": Case(HEALTH.replace(b"GET", b"FROB"), (400,), "closed"),
    "a method without end": Case(b"A" * 100_000, (400,), "closed"),
    "a method for proxies": Case(
        b"CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (400,), "closed"
    ),
    "a method for debugging": Case(HEALTH.replace(b"GET", b"TRACE"), (405,)),
    "the beginning of HTTP/2": Case(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400,), "closed"),
    "HTTP/0.9": Case(b"GET /api/health\r\n\r\n", (421,), "closed"),
    "HTTP/3.0": Case(b"GET /api/health HTTP/3.0\r\nHost: 127.0.0.1\r\n\r\n", (400,), "closed"),
    "a greeting of TLS": Case(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", (400,), "closed"),
    "only zeros": Case(b"\0" * 1000, (400,), "closed"),
    "an absolute target": Case(_get("http://127.0.0.1/api/health"), (frozenset({200, 404}),)),
    "another host in the target": Case(
        _get("http://evil.example/api/health"), (frozenset({200, 404, 421}),)
    ),
}

UPGRADES: Final = {
    "an offer of HTTP/2": Case(_get("/api/health", *_HTTP_2), (200,)),
    "an offer of WebSocket": Case(
        _get("/api/health", "Connection: Upgrade", "Upgrade: websocket"), (200,)
    ),
    "one offer after the other": Case(_get("/api/health", *_HTTP_2) * 3 + HEALTH, (200,) * 4),
    "an offer with a body": Case(
        _post(*_HTTP_2, f"Content-Length: {len(_INVOICE)}", body=_INVOICE) + HEALTH, (201, 200)
    ),
    "an offer with a body in chunks": Case(
        _post(*_HTTP_2, _CHUNKED, body=_chunks(_INVOICE)) + HEALTH, (201, 200)
    ),
    "an offer with a long body": Case(
        _post(*_HTTP_2, "Content-Length: 262145", body=b" " * 262_145), (413,)
    ),
    "an offer with a bad chunk": Case(_post(*_HTTP_2, _CHUNKED, body=b"zz\r\n"), (400,), "closed"),
    "an offer with an unknown transfer coding": Case(
        _post(*_HTTP_2, "Transfer-Encoding: gzip"), (400,), "closed"
    ),
    "an offer with a length and chunks": Case(
        _post(*_HTTP_2, "Content-Length: 2", _CHUNKED, body=_chunks(b"{}")), (400,), "closed"
    ),
}

_TARGETS: Final[dict[str, Status]] = {
    "/api/%2e%2e/sandbox/health": 404,
    "/api/../sandbox/health": 404,
    "/api/..%2f..%2fetc%2fpasswd": 404,
    "/api/invoices/%2e%2e": 404,
    "/api/invoices/..%2f..%2f..%2fetc%2fpasswd": 404,
    "/docs/%2e%2e/%2e%2e/etc/passwd": 404,
    "/docs/..%2f..%2fpyproject.toml": 404,
    "/docs/../../pyproject.toml": 404,
    "/docs/%00": 404,
    "/docs/%ff%fe": 404,
    "/docs/" + "a/" * 2000: 404,
    "/docs/swagger-ui.css;x=y": 404,
    "//api//health": 404,
    "/api/health;x=y": 404,
    "/api/invoices;x=y": 404,
    "/api/invoices/a;b": 404,
    "/api/invoices/%00": 404,
    "/api/invoices/a%0d%0aX-Evil:%20yes": 404,
    "/api/invoices/%25252e": 404,
    "/api/invoices/%": 404,
    "/api/invoices/%zz": 404,
    "/api/invoices/%u002e": 404,
    "/api/invoices/%c0%ae%c0%ae": 404,
    "/api/invoices/" + "x" * 30_000: 404,
    "/api/invoices/" + "%41" * 10_000: 404,
    "/%61pi/health": 200,
    "/api/health%2f": 404,
    "/api%2fhealth": 404,
    "/api/health%3fx=y": 404,
    "/api/health?": 200,
    "/api/health?" + "?" * 1000: 200,
    "/sandbox/..%2fapi/health": 404,
    "/sandbox/inbox/%2e%2e": frozenset({404, 405}),
    "/openapi.json/": 404,
    "/openapi.json%00": 404,
    "/api/invoices?" + "&".join(f"p{n}=1" for n in range(8000)): 200,
    "/api/invoices?" + "a=&" * 10_000: 200,
    "/api/invoices?" + "&".join(f"{n:04}=" for n in range(10_000)): 200,
    "/api/invoices?" + "&" * 30_000: 200,
    "/api/invoices?" + "limit=1&" * 7000: 400,
    "/api/invoices?cursor=" + "A" * 30_000: 200,
    "/api/invoices?status=" + "%00" * 10_000: frozenset({200, 400}),
    "/api/invoices?status=%ed%a0%80": 400,
    "/sandbox/requests?status=%F0%28%8C%28": 400,
}
PATHS: Final = {
    **{target: Case(_get(target), (statuses,)) for target, statuses in _TARGETS.items()},
    "/api\\health": Case(_get("/api\\health"), (404,)),
    "no slash": Case(_get("api/health"), (400,), "closed"),
    "nothing but a query": Case(_get("?x"), (400,), "closed"),
    "a space": Case(_get("/api/he alth"), (400,), "closed"),
    "a NUL as it is": Case(_get("/api/\0"), (400,), "closed"),
    "a letter beyond ASCII": Case(_get("/api/\xe9"), (400,), "closed"),
    "10,000 parameters of 6 bytes": Case(
        _get("/api/invoices?" + "&".join(f"p{n}=12" for n in range(10_000))), (414,), "closed"
    ),
    "an address as long as a head": Case(_get("/" + "x" * 66_000), (414,), "closed"),
    "a path without end": Case(_get("/" + "x" * 300_000), (414,), "closed"),
    "a star": Case(request("OPTIONS", "*"), (404,)),
}

PIPELINES: Final = {
    "20 requests at once": Case(HEALTH * 20, (200,) * 20),
    "a good one, then nonsense": Case(HEALTH + b"nonsense\r\n\r\n", (200, 400), "closed"),
    "a good one, then a head without end": Case(
        HEALTH + HEALTH[:-2] + b"X: " + b"y" * 100_000, (200, 431), "closed"
    ),
    "good bodies, then a bad chunk": Case(
        _post("Content-Length: 2", body=b"{}") * 3 + _post(_CHUNKED, body=b"zz\r\n"),
        (400, 400, 400, 400),
        "closed",
    ),
    "nothing but line ends before a request": Case(b"\r\n" * 3 + HEALTH, (200,)),
    "more after a request that closes": Case(
        _get("/api/health", "Connection: close") + HEALTH, (200,), "closed"
    ),
    "a body that looks like a request": Case(
        _post(f"Content-Length: {len(HEALTH)}", body=HEALTH), (400,)
    ),
    "a body that nobody reads, and another request": Case(
        _get("/api/health", "Content-Length: 7") + b"ignored" + HEALTH, (200, 200)
    ),
}

GROUPS: Final[dict[str, dict[str, Case]]] = {
    "length": LENGTHS,
    "chunks": CHUNKS,
    "coding": CODINGS,
    "expect": EXPECTATIONS,
    "head": HEADS,
    "upgrade": UPGRADES,
    "path": PATHS,
    "pipeline": PIPELINES,
}
