"""Documents by their address: downloaded once, before they are read."""

from __future__ import annotations

import atexit
import re
import shutil
from http import HTTPStatus
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Final

from invoice_sandbox.base.clock import OperatingSystemClock
from invoice_sandbox.base.hosts import is_loopback
from invoice_sandbox.base.outgoing import failure_of, tls_context
from invoice_sandbox.openapi.load.text import DocumentError

if TYPE_CHECKING:
    import httpx2

MOST_BYTES: Final = 64 * 1024 * 1024
SECONDS: Final = 30
"""The longest time for a whole download."""

_USER: Final = re.compile("//[^/]*@")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


def is_remote(text: str) -> bool:
    """True for an address over http or https."""
    return text.startswith(("http://", "https://"))


def downloaded(url: str, *, most: int = MOST_BYTES, seconds: float = SECONDS) -> Path:
    """Return a file with the document at ``url``, which is deleted when the process ends.

    Certificates are verified as for every outgoing connection; proxies of the environment are
    used, but not for this machine. Raises DocumentError for an address that cannot be reached, a
    response other than 200, and a document that is too large or takes too long.
    """
    import httpx2  # slow to import, and most documents are files

    shown = _USER.sub("//", url)
    try:
        parts = httpx2.URL(url)
        content = _received(parts, shown, most, seconds)
    except httpx2.InvalidURL as error:
        raise DocumentError(shown, f"is no valid URL: {error}") from None
    except httpx2.HTTPError as error:
        failure = failure_of(error)
        reason = f": {failure.reason}" if failure.reason else ""
        raise DocumentError(shown, f"cannot be downloaded ({failure.error}{reason})") from None
    folder = Path(mkdtemp(prefix="invoice-sandbox-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = folder / (_UNSAFE.sub("-", Path(parts.path).name) or "openapi")
    file.write_bytes(content)
    return file


def _received(url: httpx2.URL, shown: str, most: int, seconds: float) -> bytes:
    """Return the body of the response. Raises DocumentError, and the errors of httpx2."""
    import httpx2

    monotonic = OperatingSystemClock().monotonic
    end, content = monotonic() + seconds, bytearray()
    options: dict[str, Any] = {"verify": tls_context(), "trust_env": not is_loopback(url.host)}
    with httpx2.stream("GET", url, follow_redirects=True, timeout=seconds, **options) as response:
        if response.status_code != HTTPStatus.OK:
            raise DocumentError(
                shown, f"cannot be downloaded: the status is {response.status_code}"
            )
        for piece in response.iter_bytes():
            content += piece
            if len(content) > most:
                raise DocumentError(shown, f"is larger than {most:,} bytes")
            if monotonic() > end:
                raise DocumentError(shown, f"is not downloaded after {seconds} s")
    return bytes(content)
