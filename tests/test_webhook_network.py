"""The guard at sending time: what is connected to is what was judged, and nothing else is."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address, ip_network
from pathlib import Path

import httpx2
import pytest

from invoice_sandbox.webhooks.dns import LOOKUPS_OF_A_WORKSPACE, WORKSPACE, NameResolver
from invoice_sandbox.webhooks.network import ForbiddenAddressError, Network, url_problem
from invoice_sandbox.webhooks.transport import (
    Resolve,
    guarded_transport,
)
from tests.cases import in_turn
from tests.certificates import tls_of
from tests.support import PATIENCE

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
BODY = b'{"type":"invoice.verified"}'
PUBLIC, ANOTHER = "93.184.215.14", "93.184.215.15"
NAME = "https://partner.example:8443/hooks"
Post = Callable[..., Awaitable[httpx2.Response]]
_TRUSTING_NOBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For the tests that never reach TLS: to load certificates would take most of their time."""


# What happens on the network


@dataclass
class Wire:
    """What this process tried on the network. Only loopback is let through."""

    connects: list[tuple[str, int]] = field(default_factory=list)
    lookups: list[str] = field(default_factory=list)

    def connect(self, address: object) -> None:
        """Note where a socket is connected to, and stop it if that is not this machine."""
        host, port = (address[0], address[1]) if isinstance(address, tuple) else (address, 0)
        self.connects.append((str(host), int(port)))
        if not isinstance(address, tuple) or not ip_address(str(host)).is_loopback:
            raise OSError(errno.ENETUNREACH, "tests stay on this machine")

    def look_up(self, host: object) -> None:
        """Note which name is looked up, and stop it if that would ask a name server."""
        self.lookups.append(str(host))
        if host not in {"localhost", "127.0.0.1", "::1"}:
            raise socket.gaierror(socket.EAI_NONAME, "tests stay on this machine")


_watching: list[Wire] = []


def _audit(event: str, details: tuple[object, ...]) -> None:
    for wire in _watching:
        if event == "socket.connect":
            wire.connect(details[1])
        elif event == "socket.getaddrinfo":
            wire.look_up(details[0])


@cache
def _start_auditing() -> None:
    sys.addaudithook(_audit)  # the interpreter's own record (PEP 578); it cannot be taken back


@pytest.fixture(autouse=True)
def wire() -> Iterator[Wire]:
    """What the test tries on the network, as the interpreter reports it."""
    _start_auditing()
    wire = Wire()
    _watching.append(wire)
    yield wire
    _watching.remove(wire)


@dataclass(frozen=True)
class Silence:
    """A socket that listens, and that nobody should ever connect to."""

    listener: socket.socket

    @property
    def port(self) -> int:
        """Where it listens on 127.0.0.1."""
        return int(self.listener.getsockname()[1])

    def is_kept(self) -> bool:
        """Whether no one connected. Connections on loopback are there at once."""
        try:
            connection, _ = self.listener.accept()
        except BlockingIOError:
            return True
        connection.close()
        return False


@contextmanager
def listening(port: int = 0) -> Iterator[Silence]:
    """A silent socket on loopback; several test runs may share a port that is asked for.

    Where a program of the machine has that port, another one has to do: then it is ``wire`` alone
    that reports a connection to it.
    """
    with closing(socket.socket()) as listener:
        if port and sys.platform != "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        yield Silence(listener)


@pytest.fixture
def silence() -> Iterator[Silence]:
    """A silent socket on some port."""
    with listening() as silence:
        yield silence
        assert silence.is_kept()


@pytest.fixture
def https_silence() -> Iterator[Silence]:
    """A silent socket on the port that names may be called on without special rights."""
    with listening(8443) as silence:
        yield silence
        assert silence.is_kept()


@dataclass
class Receiver:
    """A real receiver on loopback, and what it got."""

    port: int = 0
    peers: list[int] = field(default_factory=list)
    got: list[bytes] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    """What clients called it in the TLS handshake."""

    @property
    def url(self) -> str:
        """A loopback address of it."""
        return f"http://127.0.0.1:{self.port}/hooks"


@asynccontextmanager
async def receiving(
    response: bytes = OK, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    """A receiver that gives everyone the same response, and hangs up after an empty one."""
    receiver = Receiver()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                receiver.peers.append(writer.get_extra_info("peername")[1])
                receiver.got.append(head + await reader.readexactly(len(BODY)))
                writer.write(response)
                await writer.drain()
                if not response.endswith(b"ok"):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    if tls is not None:
        tls.sni_callback = lambda _, name, __: receiver.names.append(name)
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls) as server:
        receiver.port = server.sockets[0].getsockname()[1]
        yield receiver


@dataclass
class Responses:
    """A resolver that gives one response after the other, and repeats the last one."""

    rows: list[Sequence[str]]
    asked: list[tuple[str, int]] = field(default_factory=list)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """The next response, whatever the name is."""
        self.asked.append((host, port))
        return self.rows.pop(0) if len(self.rows) > 1 else self.rows[0]


def responding(*addresses: str) -> Responses:
    """A resolver that always gives the same addresses."""
    return Responses([addresses])


@asynccontextmanager
async def sending(
    resolve: Resolve,
    *,
    local: bool,
    opened: Sequence[Network] = (),
    connections: int = 100,
    tls: ssl.SSLContext | None = _TRUSTING_NOBODY,
    proxy: str | None = None,
) -> AsyncIterator[Post]:
    """How to post the body to a URL through a guarded transport."""
    transport = guarded_transport(
        local=local, opened=opened, resolve=resolve, connections=connections, tls=tls, proxy=proxy
    )
    async with httpx2.AsyncClient(transport=transport, timeout=PATIENCE) as client:

        async def post(url: str, **options: object) -> httpx2.Response:
            request = client.build_request("POST", url, content=BODY, **options)  # type: ignore[arg-type]
            return await client.send(request)

        yield post


def post_once(url: str, resolve: Resolve, *, local: bool) -> httpx2.Response:
    """Post the body to a URL, once."""

    async def run() -> httpx2.Response:
        async with sending(resolve, local=local) as post:
            return await post(url)

    return asyncio.run(run())


# URLs that are rejected before anything happens on the network

HOSTILE = {
    "ftp": "ftp://localhost:{port}/",
    "file": "file://localhost/etc/passwd",
    "no scheme": "127.0.0.1:{port}/",
    "plain http to a name": "http://partner.example/",
    "user": "https://user@127.0.0.1:{port}/",
    "user and password": "http://user:secret@localhost:{port}/",
    "a name as user": "https://partner.example@127.0.0.1:{port}/",
    "a backslash before the user": "https://partner.example\\@127.0.0.1:{port}/",
    "a backslash in the host": "https://127.0.0.1\\.partner.example:8443/",
    "port 0": "https://partner.example:0/",
    "two ports": "https://partner.example:8443:{port}/",
    "any other port": "https://partner.example:{port}/",
    "decimal on an allowed port": "https://2130706433:8443/",
    "hexadecimal": "https://0x7f000001:8443/",
    "octal": "https://0177.0.0.1:8443/",
    "leading zeros": "https://127.000.000.001:8443/",
    "address with a final dot": "https://127.0.0.1.:8443/",
    "localhost with a final dot": "http://localhost.:{port}/",
    "dots of IDNA and a final dot": "https://127\u30020\u30020\u30021.:8443/",
    "localhost with a dot of IDNA": "https://localhost\u3002:8443/",
    "wide letters": "https://\uff4cocalhost:8443/",
    "percent-encoded digits": "https://%31%32%37.0.0.1:8443/",
    "soft hyphen": "https://local\u00adhost:8443/",
    "null": "https://127.0.0.1\x00:8443/",
    "line feed": "https://127.0.0.1:{port}/\nHost: partner.example",
    "space": "https://127.0.0.1 .partner.example:8443/",
    "no host": "https://:8443/",
    "name without end": f"https://{'a' * 100_000}:8443/",
    "zone": "https://[fe80::1%25eth0]:8443/",
    "IPv4-compatible loopback": "https://[::127.0.0.1]:8443/",
    "translated loopback": "https://[::ffff:0:127.0.0.1]:8443/",
    "NAT64 of loopback": "https://[64:ff9b::7f00:1]:8443/",
    "Teredo": "https://[2001:0:5ef5:79fd::80ff:fffe]:8443/",
    "IPv4 in brackets": "https://[127.0.0.1]:8443/",
    "open bracket": "https://[::1:8443/",
    "text after a bracket": "https://[::1]partner.example:8443/",
    "unspecified": "http://0.0.0.0:{port}/",
    "link-local": "http://169.254.169.254/latest/meta-data",
    "private": "https://192.168.0.1:8443/",
    "multicast": "https://224.0.0.1:8443/",
    "broadcast": "https://255.255.255.255:8443/",
}
LOOPBACK = {
    "below localhost": "http://app.localhost:{port}/",
    "name": "http://localhost:{port}/",
    "name over TLS": "https://localhost:8443/",
    "IPv4": "http://127.0.0.1:{port}/",
    "IPv4 over TLS": "https://127.0.0.1:8443/",
    "before a fragment": "https://127.0.0.1:8443#@partner.example/",
    "IPv6": "http://[::1]:{port}/",
    "mapped": "http://[::ffff:127.0.0.1]:{port}/",
}
ODDLY_WRITTEN = {
    "signed port": "https://127.0.0.1:+{port}/",
    "blank before the port": "https://127.0.0.1:\u2003{port}/",
    "dots of IDNA": "https://127\u30020\u30020\u30021:8443/",
}
"""These become ordinary loopback addresses when they are sent."""
SLOPPY = {
    "leading blank": " https://partner.example/hooks",
    "blank in the path": "https://partner.example/ho oks",
    "backslash in the path": "https://partner.example/\\127.0.0.1",
    "backslash in the query": "https://partner.example/?\\@127.0.0.1",
}
"""What these mean depends on who reads them, so they are not even registered."""


def rejects_unseen(url: str, silence: Silence, wire: Wire, *, local: bool) -> None:
    """Hold that a URL is rejected although every name leads to the silent socket."""
    resolve = responding("127.0.0.1")
    with pytest.raises((ForbiddenAddressError, httpx2.InvalidURL)):
        post_once(url.replace("{port}", str(silence.port)), resolve, local=local)
    assert (resolve.asked, wire.lookups, wire.connects) == ([], [], [])


@pytest.mark.usefixtures("https_silence")
@in_turn("local", [True, False], ids=["local", "reachable"])
@in_turn("url", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_url_is_rejected_before_any_name_is_resolved(
    url: str, local: bool, silence: Silence, wire: Wire
) -> None:
    rejects_unseen(url, silence, wire, local=local)


@pytest.mark.usefixtures("https_silence")
@in_turn("url", (LOOPBACK | ODDLY_WRITTEN).values(), ids=LOOPBACK | ODDLY_WRITTEN)
def test_loopback_is_rejected_where_others_can_reach_the_server(
    url: str, silence: Silence, wire: Wire
) -> None:
    rejects_unseen(url, silence, wire, local=False)


@in_turn("local", [True, False], ids=["local", "reachable"])
@in_turn(
    "url",
    (HOSTILE | ODDLY_WRITTEN | SLOPPY).values(),
    ids=HOSTILE | ODDLY_WRITTEN | SLOPPY,
)
def test_what_is_not_sent_to_is_not_registered_either(url: str, local: bool) -> None:
    assert url_problem(url.replace("{port}", "9000"), local=local) == "url_not_allowed"


@in_turn("port", [1, 80, 444, 6379, 8080, 65535])
def test_beyond_loopback_no_port_but_two_is_called(port: int, silence: Silence, wire: Wire) -> None:
    rejects_unseen(f"https://{PUBLIC}:{port}/", silence, wire, local=True)


def test_a_rejected_url_is_not_repeated_beyond_its_host() -> None:
    with pytest.raises(ForbiddenAddressError) as rejected:
        post_once("https://user:secret@10.0.0.1/token", responding(PUBLIC), local=False)
    assert str(rejected.value) == (
        "10.0.0.1 has an address that webhooks must not use (url_not_allowed)"
    )


async def problem_of(sent: Awaitable[httpx2.Response]) -> Exception:
    """Why a request failed."""
    with pytest.raises((ForbiddenAddressError, httpx2.TransportError)) as problem:
        await sent
    return problem.value


# NameResolver, by where they lead

KINDS = {
    "0.0.0.0": "unspecified",  # noqa: S104 - judged, not bound to
    "10.0.0.1": "private",
    "100.64.0.1": "shared by a carrier",
    "168.63.129.16": "platform",
    "169.254.169.254": "link-local",
    "192.0.2.1": "documentation",
    "224.0.0.1": "multicast",
    "::127.0.0.1": "IPv4-compatible",
    "::ffff:10.0.0.1": "private",
    "::ffff:0:127.0.0.1": "IPv4-translated",
    "64:ff9b::127.0.0.1": "NAT64",
    "64:ff9b:1::10.0.0.1": "NAT64",
    "2001:0:5ef5:79fd::80ff:fffe": "Teredo",
    "2002:7f00:1::": "6to4",
    "2606:2800:21f:cb07:0:5efe:127.0.0.1": "ISATAP",
    "fc00::1": "private",
    "fe80::1": "link-local",
    "ff02::1": "multicast",
    "127.1": "link-local or unreadable",
}
LOOPBACK_ADDRESSES = ["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1"]


def rejects_name(resolve: Responses, wire: Wire, kind: str, *, local: bool) -> None:
    """Hold that a name is rejected for where it leads, after it was resolved once."""
    with pytest.raises(ForbiddenAddressError) as rejected:
        post_once(NAME, resolve, local=local)
    assert (rejected.value.host, rejected.value.address_type) == ("partner.example", kind)
    assert (resolve.asked, wire.connects) == ([("partner.example", 8443)], [])


@pytest.mark.usefixtures("https_silence")
@in_turn("local", [True, False], ids=["local", "reachable"])
@in_turn(("address", "kind"), KINDS.items(), ids=KINDS)
def test_a_name_that_leads_to_a_special_address_is_rejected(
    address: str, kind: str, local: bool, wire: Wire
) -> None:
    rejects_name(responding(address), wire, kind, local=local)


@pytest.mark.usefixtures("https_silence")
@pytest.mark.parametrize("address", LOOPBACK_ADDRESSES)
def test_a_name_that_leads_to_loopback_is_rejected_where_others_can_reach_the_server(
    address: str, wire: Wire
) -> None:
    rejects_name(responding(address), wire, "loopback", local=False)


ORDERS = {"first": 0, "between": 1, "last": 2}


@pytest.mark.usefixtures("https_silence")
@in_turn("local", [True, False], ids=["local", "reachable"])
@in_turn("place", ORDERS.values(), ids=ORDERS)
@in_turn("address", ["127.0.0.1", "::ffff:127.0.0.1", "10.0.0.1"])
def test_a_name_with_one_forbidden_address_is_rejected_as_a_whole(
    address: str, place: int, local: bool, wire: Wire
) -> None:
    addresses = [PUBLIC, ANOTHER]
    addresses.insert(place, address)
    with pytest.raises(ForbiddenAddressError):
        post_once(NAME, responding(*addresses), local=local)
    assert wire.connects == []


@pytest.mark.parametrize("address", [PUBLIC, "10.0.0.1", "::"])
def test_localhost_that_leads_elsewhere_is_rejected(address: str, wire: Wire) -> None:
    with pytest.raises(ForbiddenAddressError):
        post_once("http://localhost:8443/hooks", responding(address), local=True)
    assert wire.connects == []


# A resolver that changes its response between check and connection


@pytest.mark.usefixtures("https_silence")
@pytest.mark.parametrize("local", [True, False], ids=["local", "reachable"])
def test_what_was_judged_is_connected_to_whatever_the_name_leads_to_next(
    local: bool, wire: Wire
) -> None:
    resolve = Responses([[PUBLIC], ["127.0.0.1"]])
    with pytest.raises(httpx2.ConnectError):
        post_once(NAME, resolve, local=local)
    assert resolve.asked == [("partner.example", 8443)]
    assert (wire.connects, wire.lookups) == ([(PUBLIC, 8443)], [])


@pytest.mark.usefixtures("https_silence")
def test_a_name_is_judged_again_for_every_new_connection(wire: Wire) -> None:
    resolve = Responses([[PUBLIC], ["127.0.0.1"], [PUBLIC, "127.0.0.1"], [ANOTHER]])

    async def run() -> list[type[Exception]]:
        async with sending(resolve, local=False) as post:
            problems = [await problem_of(post(NAME)) for _ in range(4)]
        return [type(problem) for problem in problems]

    rejected, tried = ForbiddenAddressError, httpx2.ConnectError
    assert asyncio.run(run()) == [tried, rejected, rejected, tried]
    assert wire.connects == [(PUBLIC, 8443), (ANOTHER, 8443)]


def test_a_kept_connection_leads_to_what_was_judged_and_no_name_is_resolved_again() -> None:
    resolve = Responses([["127.0.0.1"], ["10.0.0.1"]])

    async def run() -> list[int]:
        async with receiving() as receiver, sending(resolve, local=True) as post:
            for _ in range(3):
                assert (await post(f"http://localhost:{receiver.port}/")).text == "ok"
            return receiver.peers

    first, *others = asyncio.run(run())
    assert others == [first, first]
    assert len(resolve.asked) == 1


# What is allowed


@pytest.mark.parametrize("host", ["127.0.0.1", "receiver", "localhost"])
def test_a_receiver_in_an_opened_network_is_reached_by_name_and_address(host: str) -> None:
    async def run() -> None:
        async with receiving() as receiver:
            opened = (ip_network("127.0.0.0/8"), ip_network("::1"))
            resolve = responding("127.0.0.1")
            async with sending(resolve, local=False, opened=opened) as post:
                assert (await post(f"http://{host}:{receiver.port}/hooks")).status_code == 200

    asyncio.run(run())


OPENED = (ip_network("10.1.0.0/16"),)
MIXED = {
    "a public address without TLS": ("http://receiver:443/", [PUBLIC]),
    "a public address on another port": ("https://receiver:9000/", [PUBLIC]),
    "an opened and a public one": ("http://receiver:9000/", ["10.1.2.3", PUBLIC]),
    "an opened and a private one": ("http://receiver:9000/", ["10.1.2.3", "10.2.2.3"]),
    "loopback": ("http://receiver:9000/", ["127.0.0.1"]),
}


@pytest.mark.parametrize(("url", "addresses"), MIXED.values(), ids=MIXED)
def test_a_name_is_called_only_if_all_its_addresses_are_opened(
    wire: Wire, url: str, addresses: list[str]
) -> None:
    async def run() -> None:
        async with sending(responding(*addresses), local=False, opened=OPENED) as post:
            with pytest.raises(ForbiddenAddressError):
                await post(url)

    asyncio.run(run())
    assert wire.connects == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::ffff:127.0.0.1]"])
def test_a_receiver_on_loopback_is_reached_by_a_local_server_and_by_no_other(host: str) -> None:
    async def run() -> list[bytes]:
        async with receiving() as receiver:
            url = f"http://{host}:{receiver.port}/hooks?a=b#c"
            async with sending(responding("127.0.0.1"), local=True) as post:
                assert (await post(url)).text == "ok"
            async with sending(responding("127.0.0.1"), local=False) as post:
                with pytest.raises(ForbiddenAddressError):
                    await post(url)
            return receiver.got

    (got,) = asyncio.run(run())
    assert got.startswith(b"POST /hooks?a=b HTTP/1.1\r\n")
    assert got.endswith(BODY)


@pytest.mark.parametrize(
    ("url", "address"),
    {
        "https://partner.example/hooks": (PUBLIC, 443),
        "HTTPS://Partner.Example:8443/hooks": (PUBLIC, 8443),
        "https://partner.example./hooks": (PUBLIC, 443),
        "https://b\u00fccher.example/hooks": (PUBLIC, 443),
        "https://partner\u3002example/hooks": (PUBLIC, 443),
        "https://partner.example#@127.0.0.1/": (PUBLIC, 443),
        "https://partner.example?@127.0.0.1/": (PUBLIC, 443),
        "https://partner.example/@127.0.0.1/": (PUBLIC, 443),
        f"https://{ANOTHER}:8443/hooks": (ANOTHER, 8443),
        f"https://[::ffff:{ANOTHER}]/hooks": (ANOTHER, 443),
    }.items(),
)
@pytest.mark.parametrize("local", [True, False], ids=["local", "reachable"])
def test_a_public_receiver_is_connected_to_where_it_was_said_to_be(
    url: str, address: tuple[str, int], local: bool, wire: Wire
) -> None:
    with pytest.raises(httpx2.ConnectError):
        post_once(url, responding(PUBLIC), local=local)
    assert (wire.connects, wire.lookups) == ([address], [])


# Redirects, proxies, and what else leads astray


def test_proxies_of_the_environment_are_not_used(
    silence: Silence, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"]:
        monkeypatch.setenv(variable, f"http://127.0.0.1:{silence.port}")

    async def run() -> None:
        async with receiving() as receiver, sending(responding(), local=True) as post:
            assert (await post(receiver.url)).text == "ok"
            assert len(receiver.got) == 1

    asyncio.run(run())


# TLS


async def post_over_tls(receiver: Receiver, host: str, **extensions: str) -> httpx2.Response:
    """Post the body to a receiver that speaks TLS, under one of its names."""
    async with sending(responding("127.0.0.1"), local=True, tls=None) as post:
        return await post(f"https://{host}:{receiver.port}/hooks", extensions=extensions)


def test_a_receiver_is_called_by_its_name_in_tls_and_proves_it(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))

    async def run() -> None:
        async with receiving(tls=tls_of(certificate)) as receiver:
            assert (await post_over_tls(receiver, "localhost")).text == "ok"
            assert receiver.names == ["localhost"]

    asyncio.run(run())


@pytest.mark.parametrize(("host", "trusted"), [("localhost", False), ("127.0.0.1", True)])
def test_a_certificate_of_another_or_of_nobody_ends_the_connection(
    host: str, trusted: bool, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))

    async def run() -> list[bytes]:
        async with receiving(tls=tls_of(certificate)) as receiver:
            with pytest.raises(httpx2.ConnectError, match="certificate verify failed"):
                await post_over_tls(receiver, host, sni_hostname="localhost")
            return receiver.got

    assert asyncio.run(run()) == []


# What goes wrong on the way is what httpx2 says it is


class DeadNameServer:
    """Says nothing about names that begin with ``dead`` until the end of the test."""

    def __init__(self) -> None:
        self.end = threading.Event()
        self.begun = threading.Semaphore(0)
        self.asked: list[str] = []

    def look_up(self, host: str, _port: int) -> Sequence[str]:
        self.asked.append(host)
        self.begun.release()
        if host.startswith("dead"):
            assert self.end.wait(PATIENCE)
        return ["203.0.113.1"]


def looking_up(names: NameResolver, workspace: str, host: str) -> asyncio.Task[Sequence[str]]:
    context = copy_context()
    context.run(WORKSPACE.set, workspace)
    return asyncio.get_running_loop().create_task(names.resolve(host, 80), context=context)


async def given_up(server: DeadNameServer) -> tuple[list[str], Sequence[str]]:
    """What was looked up of ten dead names and one that lives, by one workspace, and by another.

    The first workspace has given up when the other one begins.
    """
    names = NameResolver(server.look_up)
    dead = [looking_up(names, "a", f"dead{number}.test") for number in range(10)]
    dead.append(looking_up(names, "a", "alive.test"))
    for _ in range(LOOKUPS_OF_A_WORKSPACE):
        assert await asyncio.to_thread(server.begun.acquire, timeout=PATIENCE)
    for task in dead:
        task.cancel()
    await asyncio.wait(dead)
    waiting = looking_up(names, "a", "alive.test")
    found = await looking_up(names, "b", "alive.test")
    asked = list(server.asked)
    assert not waiting.done()
    server.end.set()
    assert await waiting == found
    return asked, found


def test_dead_names_take_only_the_share_of_their_workspace() -> None:
    """Also once nobody waits for them any more."""
    server = DeadNameServer()
    asked, found = asyncio.run(given_up(server))
    assert sorted(asked) == ["alive.test", *(f"dead{one}.test" for one in range(4))]
    assert found == ["203.0.113.1"]


# A proxy


@asynccontextmanager
async def proxying(receiver: Receiver) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A proxy that leads everyone to the receiver: its URL, and the requests that it got."""
    got: list[bytes] = []

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(65_536):
                writer.write(piece)
        except ConnectionError:
            return
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.readuntil(b"\r\n\r\n"))
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", receiver.port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(pass_on(reader, far_writer), pass_on(far_reader, writer))

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://me:word@127.0.0.1:{port}", got


@pytest.mark.parametrize(
    ("address", "local", "goes_through"),
    [("8.8.8.8", False, True), ("127.0.0.1", True, False), ("10.0.0.1", False, None)],
    ids=["public", "this machine", "private"],
)
def test_what_goes_to_public_addresses_goes_through_the_proxy(
    address: str,
    local: bool,
    goes_through: bool | None,
    certificate: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))

    async def run() -> None:
        async with (
            receiving(tls=tls_of(certificate)) as receiver,
            proxying(receiver) as (proxy, got),
            sending(responding(address), local=local, tls=None, proxy=proxy) as post,
        ):
            port, host = (receiver.port, "localhost") if local else (8443, "partner.example")
            if goes_through is None:
                with pytest.raises(ForbiddenAddressError):
                    await post(f"https://{host}:{port}/hooks")
            elif goes_through:  # the certificate is that of localhost, and is still asked for
                with pytest.raises(httpx2.ConnectError, match="Hostname mismatch"):
                    await post(f"https://{host}:{port}/hooks")
                assert receiver.names == [host]
            else:
                assert (await post(f"https://{host}:{port}/hooks")).text == "ok"
            tunnel = b"CONNECT partner.example:8443 HTTP/1.1\r\n"
            assert [head.startswith(tunnel) for head in got] == ([True] if goes_through else [])
            assert all(b"Proxy-Authorization: Basic bWU6d29yZA==" in head for head in got)

    asyncio.run(run())
