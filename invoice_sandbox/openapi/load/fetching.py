"""Files that a contract refers to over the network: fetched only where that was asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from invoice_sandbox.base.clock import OperatingSystemClock, SystemClock

MAX_BYTES: Final = 16 * 1024 * 1024
MAX_FILES: Final = 200
MAX_SECONDS: Final = 20
_MAX_REDIRECTS: Final = 5

Fetch = Callable[[str], str]
"""From the address of a file to its text. Raises FetchError."""


class FetchError(Exception):
    """A file, or a place in it, that could not be had.

    The message is a clause such as 'the server returned 404', or nothing.
    """

    def __init__(self, why: str = "", advice: str = "") -> None:
        super().__init__(why)
        self.advice = advice


NOT_FETCHED: Final = "references are not fetched over the network"
"""Why a remote reference is rejected by default."""


def never(_: str) -> str:
    """Default fetcher: rejects every remote reference."""
    raise FetchError(NOT_FETCHED, "serve --allow-remote-refs has them fetched")


@dataclass
class Fetcher:
    """Fetches files by http and https, each in MAX_SECONDS and up to MAX_BYTES, no more than
    MAX_FILES in all."""

    system_clock: SystemClock = field(default_factory=OperatingSystemClock)
    seconds: float = MAX_SECONDS
    fetched: int = 0

    def __call__(self, url: str) -> str:
        """The text at ``url``. Raises FetchError."""
        import httpx  # slow to import, and most contracts refer to nothing that is fetched

        self.fetched += 1
        if self.fetched > MAX_FILES:
            raise FetchError(f"no more than {MAX_FILES} files are fetched")
        try:
            return self._content(url).decode("utf-8-sig")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise FetchError(f"it cannot be fetched: {error or type(error).__name__}") from None
        except UnicodeDecodeError:
            raise FetchError("it is not UTF-8") from None

    def _content(self, url: str) -> bytes:
        import httpx

        deadline = self.system_clock.monotonic() + self.seconds
        with (
            httpx.Client(
                follow_redirects=True, max_redirects=_MAX_REDIRECTS, timeout=self.seconds
            ) as client,
            client.stream("GET", url) as reply,
        ):
            if reply.status_code != httpx.codes.OK:
                raise FetchError(f"the server returned {reply.status_code}")
            content = bytearray()
            for part in reply.iter_bytes():
                content += part
                if len(content) > MAX_BYTES:
                    raise FetchError(f"it is larger than {MAX_BYTES} bytes")
                if self.system_clock.monotonic() > deadline:
                    raise FetchError(f"it took more than {self.seconds} seconds")
            return bytes(content)
