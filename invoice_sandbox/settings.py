"""The settings of ``serve`` in one table: name, default, help. It defines the command line.

Each is also an environment variable: ``--rate-limit`` is ``INVOICE_SANDBOX_RATE_LIMIT``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import SplitResult, urlsplit

from invoice_sandbox.base.clock import FROZEN_START, ClockState, instant_text, parse_instant
from invoice_sandbox.base.errors import UserError, suggestion
from invoice_sandbox.base.hosts import is_loopback
from invoice_sandbox.base.ids import key_problem, new_key
from invoice_sandbox.state.credentials import DEMO_KEY

_MAX_DIGITS: Final = 19
ENVIRONMENT_PREFIX: Final = "INVOICE_SANDBOX"


class SettingError(UserError, ValueError):
    """A setting with an invalid value; the message names the setting and the valid values."""


_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

FLAG: Final = "[on|off]"
"""The metavar of a setting that is on when it is given without a value."""

_ON: Final = frozenset({"on", "true", "yes", "1"})
_OFF: Final = frozenset({"off", "false", "no", "0"})


@dataclass(frozen=True)
class Setting:
    """One row: the option's name, its default as text (None: no default), and its help.

    A setting with the metavar FLAG is on when it is given without a value. A ``repeatable`` one may
    be given several times; spaces separate the values in its variable.
    """

    name: str
    default: str | None
    help: str
    metavar: str
    repeatable: bool = False


SETTINGS: Final = (
    Setting("host", "127.0.0.1", "Address to listen on.", "ADDRESS"),
    Setting("port", "8080", "Port to listen on; 0 picks a free one.", "N"),
    Setting("scenario", None, "Scenario of the first workspace. Default: auto-progress.", "NAME"),
    Setting("seed", None, "Seed of the first workspace: the same seed gives the same ids.", "N"),
    Setting("clock", "live", "'live' follows real time, 'frozen' moves only by advance.", "MODE"),
    Setting("now", None, f"Instant of a frozen clock: {instant_text(FROZEN_START)}.", "INSTANT"),
    Setting("public-url", None, "Address of the server for clients, if it differs.", "URL"),
    Setting("key", None, "Key of the first workspace, instead of the demo key.", "KEY"),
    Setting("rate-limit", "120", "Requests a minute per key, or 'off'.", "N|off"),
    Setting("project", None, "Folder to serve: openapi/, handlers/, fixtures/, scenarios/.", "DIR"),
    Setting("scenarios", None, "Folder with your own scenarios.", "DIR"),
    Setting("contract", None, "OpenAPI document to serve without a project.", "FILE|URL"),
    Setting("stateful", "off", "Keep what is posted to collections of that file.", FLAG),
    Setting("strict", "off", "Warnings about the contract are errors.", FLAG),
    Setting("max-workspaces", "1000", "Maximum number of workspaces.", "N"),
    Setting(
        "workspace-idle",
        "24",
        "Hours after which an unused workspace is deleted, or 'off'. The first one is kept.",
        "N|off",
    ),
    Setting("max-state", "512", "Most MiB of records and waiting steps of a workspace.", "N"),
    Setting(
        "webhook-time",
        "wall",
        "Time in webhook signatures: 'wall' is real time, 'virtual' the workspace's.",
        "wall|virtual",
    ),
    Setting(
        "allow-webhooks-to",
        None,
        "Addresses that webhooks may be sent to on any port, also without TLS. Repeatable.",
        "CIDR",
        repeatable=True,
    ),
    Setting(
        "allow-origin",
        None,
        "Origins of pages that may use the API, such as https://app.example. Repeatable.",
        "ORIGIN",
        repeatable=True,
    ),
    Setting(
        "trusted-proxy",
        None,
        "Proxies whose X-Forwarded-For names the client. Repeatable.",
        "CIDR",
        repeatable=True,
    ),
    Setting("webhook-proxy", None, "HTTP proxy for webhooks to public addresses.", "URL"),
    Setting(
        "log",
        None,
        "'requests' prints a line per request on stderr, 'json' a JSON object.",
        "requests|json",
    ),
    Setting("metrics", "off", "GET /metrics shows counters for Prometheus, without a key.", FLAG),
    Setting(
        "store",
        "memory",
        "Store: 'memory', a file as 'sqlite:///FILE', or a database as 'postgresql://...'.",
        "URL",
    ),
)


@dataclass(frozen=True)
class Postgresql:
    """A PostgreSQL database, by the address that libpq takes, which may have a password."""

    dsn: str = field(repr=False)


@dataclass(frozen=True)
class DurableFile:
    """A SQLite file whose changes wait for the disk, so that they survive a power failure."""

    path: Path


@dataclass(frozen=True)
class Settings:
    """Settings of a server, checked. ``rate_limit`` and ``workspace_idle`` None mean off; ``seed``
    None: random; ``scenario`` None: the project's default. ``key_given``: the key was chosen.
    ``max_state`` is in MiB. ``store`` is the file or database that keeps the state, None: memory.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    scenario: str | None = None
    seed: int | None = None
    clock: ClockState = field(default_factory=ClockState)
    public_url: str | None = None
    key: str = field(default=DEMO_KEY, repr=False)
    key_given: bool = False
    rate_limit: int | None = 120
    project: Path | None = None
    scenarios: Path | None = None
    contract: Path | None = None
    stateful: bool = False
    strict: bool = False
    max_workspaces: int = 1000
    workspace_idle: timedelta | None = timedelta(hours=24)
    max_state: int = 512
    webhook_time: Literal["wall", "virtual"] = "wall"
    allow_webhooks_to: tuple[_Network, ...] = ()
    allow_origin: tuple[str, ...] = ()
    trusted_proxy: tuple[_Network, ...] = ()
    webhook_proxy: str | None = field(default=None, repr=False)
    log: Literal["requests", "json"] | None = None
    metrics: bool = False
    store: Path | DurableFile | Postgresql | None = None

    @property
    def on_loopback(self) -> bool:
        """True if the server listens on a loopback address."""
        return is_loopback(self.host)

    @property
    def local(self) -> bool:
        """True if only this machine can reach the server.

        With a public URL a proxy may pass requests of others on to a loopback address.
        """
        return self.on_loopback and self.public_url is None

    def url(self, port: int) -> str:
        """The server's address for clients, without a final slash."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (self.public_url or f"http://{host}:{port}").rstrip("/")

    def local_url(self, port: int) -> str:
        """The server's address for clients on this machine, without a final slash."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104  no bind
        return replace(self, host=host, public_url=None).url(port)


RECORDED: Final = ("rate_limit", "webhook_time", "key_given", "stateful")
"""Members of Settings that responses depend on, besides what is served and on which clock."""


def read_settings(texts: Mapping[str, str | None]) -> Settings:
    """Parse all settings. Raises SettingError for the first invalid one."""
    given = {setting.name: texts.get(setting.name) or setting.default for setting in SETTINGS}
    host = _text(given, "host")
    public_url = _url(given["public-url"])
    webhook_proxy = _proxy(given["webhook-proxy"])
    key = _key(given["key"], local=is_loopback(host) and public_url is None)
    if given["project"] and given["contract"]:
        raise SettingError("--contract and --project cannot be used together; choose one")
    if _flag(given, "stateful") and not given["contract"]:
        raise SettingError("--stateful needs --contract; a project has handlers")
    return Settings(
        host=host,
        port=_integer(given, "port", 0, 65535),
        scenario=given["scenario"],
        seed=None if given["seed"] is None else _integer(given, "seed", 0, 2**63 - 1),
        clock=_clock(given),
        public_url=public_url,
        key=key,
        key_given=given["key"] is not None,
        rate_limit=None
        if given["rate-limit"] == "off"
        else _integer(given, "rate-limit", 1, 10**9, " or 'off'"),
        project=_existing(given, "project", folder=True),
        scenarios=_existing(given, "scenarios", folder=True),
        contract=_contract(given),
        stateful=_flag(given, "stateful"),
        strict=_flag(given, "strict"),
        max_workspaces=_integer(given, "max-workspaces", 1, 10**6),
        workspace_idle=None
        if given["workspace-idle"] == "off"
        else timedelta(hours=_integer(given, "workspace-idle", 1, 10**5, " or 'off'")),
        max_state=_integer(given, "max-state", 1, 10**6),
        webhook_time=_choice(given, "webhook-time", "wall", "virtual"),
        allow_webhooks_to=_networks(given, "allow-webhooks-to"),
        allow_origin=_origins(given["allow-origin"]),
        trusted_proxy=_networks(given, "trusted-proxy"),
        webhook_proxy=webhook_proxy,
        log=_choice(given, "log", "requests", "json"),
        metrics=_flag(given, "metrics"),
        store=_store(_text(given, "store")),
    )


def default_project() -> Path:
    """The project that comes with this package: inside the wheel, or the checkout's root."""
    package = Path(__file__).parent
    shipped = package / "shipped_project"
    return shipped if shipped.is_dir() else package.parent


def check_scenario(name: str, known: Collection[str]) -> None:
    """Raise SettingError, with suggestions, unless the project has a scenario of that name."""
    if name not in known:
        lists = "'invoice-sandbox scenarios list' lists all of them"
        advice = suggestion(name, known, where=lists)
        raise SettingError(f"--scenario: there is no '{name}'; {advice}")


def _text(given: Mapping[str, str | None], name: str) -> str:
    value = given[name]
    if value is None:
        raise SettingError(f"--{name} needs a value")
    return value


def _integer(given: Mapping[str, Any], name: str, low: int, high: int, other: str = "") -> int:
    text = str(given[name])
    plain = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    if not plain or not low <= int(text) <= high:
        shown = text if len(text) <= _MAX_DIGITS else text[:_MAX_DIGITS] + "..."
        raise SettingError(f"--{name} is a whole number from {low} to {high}{other}, not '{shown}'")
    return int(text)


def _flag(given: Mapping[str, str | None], name: str) -> bool:
    text = _text(given, name)
    if text.lower() not in _ON | _OFF:
        raise SettingError(f"--{name} must be 'on' or 'off', not '{text}'")
    return text.lower() in _ON


def _choice(given: Mapping[str, str | None], name: str, *choices: str) -> Any:
    text = given[name]
    if text is not None and text not in choices:
        raise SettingError(f"--{name} must be {' or '.join(map(repr, choices))}, not '{text}'")
    return text


def _clock(given: Mapping[str, str | None]) -> ClockState:
    mode, now = _choice(given, "clock", "live", "frozen"), given["now"]
    if now is None:
        return ClockState(mode)
    if mode == "live":
        raise SettingError("--now needs --clock frozen; a live clock shows real time")
    try:
        return ClockState(mode, parse_instant(now))
    except ValueError as error:
        raise SettingError(f"--now: {error}") from None


def _networks(given: Mapping[str, str | None], name: str) -> tuple[_Network, ...]:
    try:
        return tuple(map(ipaddress.ip_network, (given[name] or "").split()))
    except ValueError as error:
        raise SettingError(
            f"--{name}: {error}; use a network such as 10.1.0.0/16, or an address"
        ) from None


def _key(key: str | None, *, local: bool) -> str:
    if key is None:
        return DEMO_KEY if local else new_key()
    problem = key_problem(key)
    if key == DEMO_KEY and not local:
        problem = "the demo key is public and works on loopback only, without --public-url"
    if problem:
        raise SettingError(f"--key: {problem}; 'invoice-sandbox key' makes one")
    return key


def _origins(text: str | None) -> tuple[str, ...]:
    origins = tuple((text or "").split())
    for origin in origins:
        parts = _parts(origin)
        if parts is None or f"{parts.scheme}://{parts.netloc}".lower() != origin or "@" in origin:
            typed = "" if "@" in origin else f", not '{origin}'"
            raise SettingError(f"--allow-origin looks like https://app.example:8443{typed}")
    return origins


def _proxy(url: str | None) -> str | None:
    """The URL of a proxy, which may have a user name and a password."""
    parts = _parts(url or "")
    if url is not None and (parts is None or parts.path.strip("/") or parts.query):
        raise SettingError("--webhook-proxy looks like http://proxy.example:3128")
    return url


def _parts(url: str) -> SplitResult | None:
    """The parts of a URL with http or https, a host, and a port if any; None for any other."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if usable else None


def _url(url: str | None) -> str | None:
    if url is None:
        return None
    parts = _parts(url)
    if parts is None or parts.query or parts.fragment or parts.username is not None:
        typed = "" if set(url) & set("@?#") else f", not '{url}'"
        raise SettingError(f"--public-url looks like https://sandbox.example:8443{typed}")
    return url


def _contract(given: Mapping[str, str | None]) -> Path | None:
    """Return the file of a contract; what is named by its address is downloaded."""
    text = given["contract"]
    if text is None or not text.startswith(("http://", "https://")):
        return _existing(given, "contract", folder=False)
    from invoice_sandbox.openapi.load.remote import downloaded  # a client alone does not have it
    from invoice_sandbox.openapi.load.text import DocumentError

    try:
        return downloaded(text)
    except DocumentError as error:
        raise SettingError(f"--contract: {error}") from None


def _existing(given: Mapping[str, str | None], name: str, *, folder: bool) -> Path | None:
    text = given[name]
    if text is None:
        return None
    path = Path(text)
    if path.is_dir() == folder and path.exists():
        return path
    wanted, other = ("folder", "file") if folder else ("file", "folder")
    hint = f"; that is a {other}" if path.exists() else ""
    raise SettingError(f"--{name}: there is no {wanted} '{_without_password(text)}'{hint}")


_DURABLE: Final = "?durability=full"


def _store(text: str) -> Path | DurableFile | Postgresql | None:
    """Return the file or database of a store; None: memory. Errors show no password."""
    if text == "memory":
        return None
    if text.startswith(("postgresql://", "postgres://")):
        if find_spec("psycopg") is None:
            extra = "in a checkout of the sandbox: pip install '.[postgresql]'"
            raise SettingError(f"--store: PostgreSQL needs more packages; {extra}")
        return Postgresql(text)
    file = text.removeprefix("sqlite:///")
    path = file.removesuffix(_DURABLE)
    if path and file != text:
        return Path(path) if path == file else DurableFile(Path(path))
    raise SettingError(
        f"--store: '{_without_password(text)}' is not understood; use 'memory', "
        "'sqlite:///FILE' ('sqlite:////...' for an absolute path) or 'postgresql://...'"
    )


def _without_password(text: str) -> str:
    """An address for an error: only the scheme of one that may hold a password."""
    scheme, colon, _ = text.rpartition("@")[0].partition(":")
    return text if not set(text) & set("@?#") else f"{scheme if colon else ''}://..."
