"""Every setting has a default, a range, and one clear line for what it does not take."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from invoice_sandbox.base.clock import FROZEN_START, ClockState
from invoice_sandbox.base.hosts import is_loopback
from invoice_sandbox.base.ids import key_problem, new_key
from invoice_sandbox.cli.serve import serve
from invoice_sandbox.server.serving import listen
from invoice_sandbox.settings import (
    SETTINGS,
    SettingError,
    Settings,
    check_scenario,
    read_settings,
)
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.cases import in_turn

KEY = "ilk_sandbox_CECB5EE8zUJG0vI1PtzJtiV8pgvVjP2NKDq6"
NAMES = [setting.name for setting in SETTINGS]


def read(**texts: str | None) -> Settings:
    """Settings from texts, ``rate_limit`` standing for ``rate-limit``."""
    return read_settings({name.replace("_", "-"): text for name, text in texts.items()})


def test_without_any_text_every_setting_has_its_default() -> None:
    assert read() == Settings()
    assert read(**{setting.name: "" for setting in SETTINGS}) == Settings()


def test_the_promised_settings_are_all_there() -> None:
    promised = "host port scenario seed clock now public-url key rate-limit project contract store"
    assert {*promised.split()} <= set(NAMES)


DEFAULTS = {
    "host": "127.0.0.1",
    "port": 8080,
    "scenario": None,
    "seed": None,
    "clock": ClockState("live"),
    "public_url": None,
    "key": DEMO_KEY,
    "rate_limit": 120,
    "project": None,
    "contract": None,
}


@in_turn(("attribute", "value"), DEFAULTS.items(), ids=DEFAULTS)
def test_a_default_is_what_is_documented(attribute: str, value: Any) -> None:
    assert getattr(Settings(), attribute) == value


MOMENT = datetime(2027, 1, 31, 8, 0, tzinfo=UTC)
READ: dict[str, tuple[dict[str, str], str, Any]] = {
    "highest port": ({"port": "65535"}, "port", 65535),
    "highest seed": ({"seed": str(2**63 - 1)}, "seed", 2**63 - 1),
    "clock": ({"clock": "frozen"}, "clock", ClockState("frozen", FROZEN_START)),
    "now": (
        {"clock": "frozen", "now": "2027-01-31T10:00:00+02:00"},
        "clock",
        ClockState("frozen", MOMENT),
    ),
    "public URL": ({"public_url": "https://s.example/x"}, "public_url", "https://s.example/x"),
    "the demo key by name": ({"key": DEMO_KEY}, "key", DEMO_KEY),
    "rate limit": ({"rate_limit": "5"}, "rate_limit", 5),
    "no rate limit": ({"rate_limit": "off"}, "rate_limit", None),
    "networks": (
        {"allow_webhooks_to": "10.1.0.0/16 fd00::/8 192.168.1.7"},
        "allow_webhooks_to",
        (ip_network("10.1.0.0/16"), ip_network("fd00::/8"), ip_network("192.168.1.7")),
    ),
}


@in_turn(
    ("texts", "attribute", "value"), [pytest.param(*row, id=name) for name, row in READ.items()]
)
def test_a_text_becomes_a_value(texts: dict[str, str], attribute: str, value: Any) -> None:
    assert getattr(read(**texts), attribute) == value


def test_project_and_contract_become_paths(tmp_path: Path) -> None:
    file = tmp_path / "contract.yaml"
    file.touch()
    assert read(project=str(tmp_path)).project == tmp_path
    assert read(contract=str(file)).contract == file


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_is_an_environment_variable(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = "INVOICE_SANDBOX_" + name.replace("-", "_").upper()
    monkeypatch.setenv(variable, "from the environment")
    parameter = name.replace("-", "_")
    assert serve.make_context("serve", []).params[parameter] == "from the environment"
    given = serve.make_context("serve", [f"--{name}", "from the option"])
    assert given.params[parameter] == "from the option"


def test_networks_are_given_one_by_one_or_in_one_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "allow_webhooks_to"
    options = ["--allow-webhooks-to", "10.0.0.0/8", "--allow-webhooks-to", "fd00::/8"]
    assert serve.make_context("serve", options).params[name] == "10.0.0.0/8 fd00::/8"
    monkeypatch.setenv("INVOICE_SANDBOX_ALLOW_WEBHOOKS_TO", "10.0.0.0/8 fd00::/8")
    assert serve.make_context("serve", []).params[name] == "10.0.0.0/8 fd00::/8"


WRONG: dict[str, tuple[dict[str, str], str]] = {
    "port is no number": (
        {"port": "http"},
        "--port is a whole number from 0 to 65535, not 'http'",
    ),
    "seed is no number": (
        {"seed": "x"},
        "--seed is a whole number from 0 to 9223372036854775807",
    ),
    "clock": ({"clock": "stopped"}, "--clock must be 'live' or 'frozen', not 'stopped'"),
    "now on a live clock": ({"now": "2026-11-21T09:30:00Z"}, "--now needs --clock frozen"),
    "public URL of another kind": (
        {"public_url": "ftp://x"},
        "--public-url looks like https://",
    ),
    "key, and how to get one": (
        {"key": "ilk_sandbox_abc"},
        "0-9, A-Z, a-z; 'invoice-sandbox key' makes one",
    ),
    "no such project": ({"project": "nowhere"}, "--project: there is no folder 'nowhere'"),
    "no such contract": ({"contract": "no.yaml"}, "--contract: there is no file 'no.yaml'"),
    "project and contract": (
        {"project": ".", "contract": "x"},
        "--contract and --project cannot be used together",
    ),
    "a network with host bits": (
        {"allow_webhooks_to": "10.1.2.3/16"},
        "--allow-webhooks-to: 10.1.2.3/16 has host bits set; use a network such as 10.1.0.0/16",
    ),
    "an origin with a path": (
        {"allow_origin": "https://app.example/"},
        "--allow-origin looks like https://app.example:8443, not 'https://app.example/'",
    ),
    "a proxy that is none": (
        {"webhook_proxy": "proxy.example:3128"},
        "--webhook-proxy looks like http://proxy.example:3128",
    ),
    "SQLite": (
        {"store": "sqlite:x.db"},
        "--store: 'sqlite:x.db' is not understood; use 'memory', 'sqlite:///FILE' (",
    ),
    "another database": (
        {"store": "mysql://u:hidden@h/d"},
        "--store: 'mysql://...' is not understood; use 'memory'",
    ),
}


@in_turn(("texts", "reason"), [pytest.param(*row, id=name) for name, row in WRONG.items()])
def test_a_wrong_value_is_one_line_that_names_the_setting(
    texts: dict[str, str], reason: str
) -> None:
    with pytest.raises(SettingError) as caught:
        read(**texts)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_a_password_in_the_address_of_a_store_is_never_repeated() -> None:
    with pytest.raises(SettingError) as caught:
        read(store="mysql://user:hidden@host/db")
    assert "hidden" not in str(caught.value)


# --- keys and addresses


def test_a_wrong_checksum_is_reported_without_the_key() -> None:
    with pytest.raises(SettingError, match="are not the checksum") as caught:
        read(key=KEY[:-1] + "7")
    assert KEY[:-1] not in str(caught.value)


LOOPBACK = {
    "127.0.0.1": True,
    "127.9.9.9": True,
    "::1": True,
    "localhost": True,
    "0.0.0.0": False,  # noqa: S104
    "::": False,
    "192.168.1.7": False,
    "sandbox.example": False,
    "127.0.0.1.example": False,
    "": False,
}


@in_turn(("host", "loopback"), LOOPBACK.items(), ids=[host or "none" for host in LOOPBACK])
def test_loopback_is_what_only_this_machine_reaches(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
    assert Settings(host=host).on_loopback is loopback


@pytest.mark.parametrize("host", [host for host, loopback in LOOPBACK.items() if host and loopback])
def test_on_loopback_the_demo_key_works_out_of_the_box(host: str) -> None:
    assert read(host=host).key == DEMO_KEY


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "sandbox.example"])  # noqa: S104
def test_beyond_loopback_a_random_key_is_made(host: str) -> None:
    one, two = read(host=host).key, read(host=host).key
    assert len({one, two, DEMO_KEY}) == 3
    assert key_problem(one) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "sandbox.example"])  # noqa: S104
def test_beyond_loopback_the_demo_key_is_rejected(host: str) -> None:
    with pytest.raises(SettingError, match="--key: the demo key is public"):
        read(host=host, key=DEMO_KEY)
    assert read(host=host, key=KEY).key == KEY


def test_with_a_public_url_the_demo_key_does_not_exist() -> None:
    public = "https://sandbox.example"
    assert read(public_url=public).key not in {DEMO_KEY, read(public_url=public).key}
    with pytest.raises(SettingError, match="--key: the demo key is public"):
        read(public_url=public, key=DEMO_KEY)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("0.0.0.0", "http://127.0.0.1:81"),  # noqa: S104
        ("::", "http://[::1]:81"),
        ("::1", "http://[::1]:81"),
        ("192.0.2.7", "http://192.0.2.7:81"),
    ],
)
def test_the_address_for_this_machine_is_one_to_connect_to(host: str, expected: str) -> None:
    settings = Settings(host=host, public_url="https://sandbox.example")
    assert settings.local_url(81) == expected


def test_a_server_is_local_on_loopback_without_a_public_url() -> None:
    assert Settings().local
    assert not Settings(host="0.0.0.0").local  # noqa: S104
    assert not Settings(public_url="http://localhost:9000").local


def test_no_secret_is_in_the_representation_of_the_settings() -> None:
    key = new_key()
    assert key not in repr(read(key=key))
    assert key not in str(Settings(key=key))
    assert DEMO_KEY not in repr(Settings())


URLS = {
    "loopback": (Settings(), "http://127.0.0.1:9000"),
    "IPv6": (Settings(host="::1"), "http://[::1]:9000"),
    "a public one": (Settings(public_url="https://s.example/api/"), "https://s.example/api"),
}


@pytest.mark.parametrize(("settings", "url"), URLS.values(), ids=URLS)
def test_the_address_has_no_final_slash(settings: Settings, url: str) -> None:
    assert settings.url(9000) == url


# --- scenarios


def test_an_unknown_scenario_lists_close_names() -> None:
    known = ("auto-progress", "kyb-hold", "manual")
    check_scenario("manual", known)
    with pytest.raises(SettingError) as caught:
        check_scenario("kyb_hold", known)
    assert str(caught.value) == "--scenario: there is no 'kyb_hold'; did you mean kyb-hold?"


def test_a_scenario_like_no_other_lists_them_all() -> None:
    with pytest.raises(SettingError, match=r"known: auto-progress, manual$"):
        check_scenario("zzz", ("auto-progress", "manual"))


def test_a_project_without_scenarios_reports_so() -> None:
    with pytest.raises(SettingError) as caught:
        check_scenario("zzz", ())
    assert not re.search(r"known:\s*$", str(caught.value))


# --- listening


def test_a_port_is_taken_from_the_moment_it_is_listened_on() -> None:
    """Of two servers that start at once, the second must not say that it is ready."""
    with listen(Settings(port=0)) as first:
        port = first.getsockname()[1]
        with pytest.raises(SettingError, match=rf"cannot listen on 127\.0\.0\.1:{port}: "):
            listen(Settings(port=port)).close()


def test_port_0_picks_a_free_one() -> None:
    with listen(Settings(port=0)) as one, listen(Settings(port=0)) as two:
        assert 0 != one.getsockname()[1] != two.getsockname()[1] != 0


HOSTS = {
    "unknown name": "nonsense.invalid",
    "a space": "a b",
    "not of this machine": "192.0.2.1",
    "a null character": "a\0b",
    "a label too long": "é" * 70,
}


@pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS)
def test_a_host_that_cannot_be_listened_on_is_named(host: str) -> None:
    with pytest.raises(SettingError, match=r"^--host") as caught:
        listen(Settings(host=host, port=0))
    assert "--port 0 picks a free one" not in str(caught.value)
