"""A contract may be named by its address: it is downloaded, within limits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx
import pytest
from click.testing import CliRunner

from invoice_sandbox.cli import main
from invoice_sandbox.openapi.load.remote import downloaded
from invoice_sandbox.openapi.load.text import DocumentError
from invoice_sandbox.settings import SettingError, read_settings
from tests.receivers import free_port
from tests.support import serving
from tests.test_published_contract import OPENAPI

PUBLISHED = OPENAPI / "openapi.yaml"
CONTRACT = """
openapi: 3.1.0
info: {title: Toy, version: '1'}
paths:
  /toys: {get: {responses: {'200': {description: Toys., content: {text/plain: {example: toys}}}}}}
"""


class Files(BaseHTTPRequestHandler):
    """Responds with the contract, or in a way that a download does not accept."""

    def do_GET(self) -> None:
        """Respond by the path."""
        status = {"/moved": 302, "/none": 404}.get(self.path, 200)
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/v1/toys.yaml?x=1")
        self.end_headers()
        with suppress(ConnectionError):  # a download that takes too long is given up
            for _ in range(20 if self.path == "/drip" else 0):
                self.wfile.write(b" ")
                time.sleep(0.1)
            published = self.path == "/published"
            self.wfile.write(PUBLISHED.read_bytes() if published else CONTRACT.encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def files() -> Iterator[str]:
    """The address of a server of files."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Files) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of a server of files."""
    with files() as url:
        yield url


@pytest.mark.parametrize("path", ["/v1/toys.yaml", "/moved"])
def test_a_contract_is_served_by_its_address(url: str, path: str) -> None:
    settings = read_settings({"contract": f"{url}{path}", "clock": "frozen", "port": "0"})
    with serving(settings) as running:
        assert httpx.get(f"{running.url}/toys").text == "toys"


def test_an_error_of_the_document_has_its_name_and_line(url: str) -> None:
    assert downloaded(f"{url}/v1/toys.yaml?x=1").name == "toys.yaml"


PROBLEMS = {
    "a status": ("/none", {}, "cannot be downloaded: the status is 404"),
    "too many bytes": ("/v1/toys.yaml", {"most": 100}, "is larger than 100 bytes"),
    "too much time": ("/drip", {"seconds": 0.5}, "is not downloaded after 0.5 s"),
}


@pytest.mark.parametrize(("path", "limits", "problem"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_download_that_fails_names_the_address_and_the_reason(
    url: str, path: str, limits: dict[str, float], problem: str
) -> None:
    with pytest.raises(DocumentError) as caught:
        downloaded(url + path, **limits)  # type: ignore[arg-type]
    assert str(caught.value) == f"{url}{path}: {problem}"


def test_nobody_at_the_address_is_an_error_without_the_password() -> None:
    place = f"127.0.0.1:{free_port()}/toys.yaml"
    with pytest.raises(SettingError) as caught:
        read_settings({"contract": f"http://me:secret@{place}"})
    assert str(caught.value) == f"--contract: http://{place}: cannot be downloaded (refused)"


def test_the_next_version_is_compared_by_its_address(url: str) -> None:
    wrong = CliRunner().invoke(main, ["contract", "--check", f"{url}/none"])
    assert wrong.exit_code == 2
    assert "cannot be downloaded: the status is 404" in wrong.output
    same = CliRunner().invoke(main, ["contract", "--check", f"{url}/published"])
    assert (same.exit_code, same.output) == (0, "0 differences, 0 of them breaking.\n")
