"""The journal as an HTTP Archive (HAR 1.2), which browsers and other tools open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl


def as_har(journal: Sequence[Mapping[str, Any]], origin: str, version: str) -> dict[str, Any]:
    """Journal entries, oldest first, of a sandbox at ``origin``."""
    return {
        "log": {
            "version": "1.2",
            "creator": {"name": "invoice-sandbox", "version": version},
            "entries": [_entry(entry, origin) for entry in journal],
        }
    }


def _entry(entry: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """``startedDateTime`` is real time, ``_simulatedTime`` the end of the request on the clock of
    its workspace; a status of 0 is a reset connection."""
    took = float(entry["durationMs"])
    request, response, status = entry["request"], entry["response"], entry["status"]
    target, sent = entry.get("target") or entry["path"], _content(request)
    return {
        "startedDateTime": entry.get("receivedAt") or entry["at"],
        "_simulatedTime": entry["at"],
        "time": took,
        "request": {
            "method": entry["method"],
            "url": origin + target,
            "httpVersion": "HTTP/1.1",
            "cookies": [],
            "headers": _pairs(request["headers"]),
            "queryString": _pairs(parse_qsl(target.partition("?")[2], keep_blank_values=True)),
            **({"postData": {"mimeType": sent["mimeType"], "text": sent["text"]}} if sent else {}),
            "headersSize": -1,
            "bodySize": _size(request),
        },
        "response": {
            "status": status or 0,
            "statusText": HTTPStatus(status).phrase if status in set(HTTPStatus) else "",
            "httpVersion": "HTTP/1.1",
            "cookies": [],
            "headers": _pairs(response["headers"]),
            "content": {"size": max(0, _size(response)), "mimeType": "", **_content(response)},
            "redirectURL": "",
            "headersSize": -1,
            "bodySize": _size(response),
        },
        "cache": {},
        "timings": {"send": 0, "wait": took, "receive": 0},
        "_requestId": entry["requestId"],
        "_why": entry["why"],
        "_isListed": entry["isListed"],
    }


def _pairs(pairs: Sequence[Sequence[str]]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in pairs]


def _content(message: Mapping[str, Any]) -> dict[str, str]:
    if message["body"] is None:
        return {}
    types = (value for name, value in message["headers"] if name.lower() == "content-type")
    return {"mimeType": next(types, "application/json"), "text": message["body"]}


def _size(message: Mapping[str, Any]) -> int:
    return int(message.get("bodyBytes") or len((message["body"] or "").encode()))
