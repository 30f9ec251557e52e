"""Bundles: a workspace as one file, without secrets."""

from __future__ import annotations

import json
import stat
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from invoice_sandbox.base.ids import key_digest, new_key
from invoice_sandbox.bundles.archive import BundleError, read_bundle, write_bundle
from invoice_sandbox.bundles.saving import save_bundle
from invoice_sandbox.cli import main
from invoice_sandbox.control.client import ControlClient
from invoice_sandbox.runtime.journal import REQUESTS_LOG
from invoice_sandbox.state import MEBIBYTE
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.scenario_run import DATED
from tests.support import Running, serving


@dataclass(frozen=True)
class Saved:
    """A bundle, what its file contains, and the secrets that its workspace had."""

    file: Path
    texts: str
    secrets: tuple[str, ...]


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """A server of this module."""
    with serving() as running:
        yield running


def use(server: Running, key: str) -> tuple[str, ...]:
    """Use the workspace of ``key`` in every way that involves a secret, and return the secrets."""
    with server.client(key) as client:
        inbox = client.get("/sandbox/inbox").json()["data"]["url"]
        hook = client.post("/api/webhooks", json={"url": inbox, "events": ["*"]}).json()["data"]
        issued = client.post("/api/developer/api-keys", json={"name": "second"}).json()["data"]
        client.put("/sandbox/scenario", json={"name": "auto-progress"})
        other = {"Authorization": f"Bearer {issued['secret']}"}
        client.post("/api/invoices", json=DATED, headers=other)
        client.post("/sandbox/clock/advance", json={"by": "P1D"})
        client.get("/api/invoices", headers={"X-API-Key": "a-key-that-nobody-has"})
        login = {"email": "seller@demo.example", "password": "demo-password"}
        client.post("/api/auth/login", json=login)
        client.get("/api/auth/session", headers={"Authorization": ""})
        session = client.cookies["ils_session"]
    token = inbox.rpartition("/")[2]
    secrets = (key, token, hook["secret"], issued["secret"], session, "a-key-that-nobody-has")
    return *secrets, key_digest(key), key_digest(issued["secret"])


@pytest.fixture(scope="module")
def saved(server: Running, tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """The bundle of a workspace that used every kind of secret."""
    key = server.new_workspace(seed=11)
    secrets = use(server, key)
    file = tmp_path_factory.mktemp("bundles") / "bug.zip"
    save_bundle(ControlClient(server.url, key), file)
    with zipfile.ZipFile(file) as archive:
        names = set(archive.namelist()) - {"contract.json"}  # it is public
        texts = "\n".join(archive.read(name).decode() for name in names)
    return Saved(file, texts, secrets)


def test_a_bundle_has_every_part_and_its_digest(saved: Saved) -> None:
    bundle = read_bundle(saved.file)
    assert set(bundle.parts) == {
        *("contract.json", "deliveries.json", "end.json", "journal.har", "journal.ndjson"),
        *("outcomes.ndjson", "recording.json", "start.json", "steps.ndjson"),
        *("scenarios/auto-progress.json", "scenarios/manual.json"),
    }
    assert {name: one["bytes"] for name, one in bundle.manifest["parts"].items()} == {
        name: len(part) for name, part in bundle.parts.items()
    }
    assert (bundle.manifest["seed"], bundle.manifest["replayable"]) == (11, True)
    assert bundle.json("end.json")["faults"] == []
    steps = {one["do"] for one in bundle.lines("steps.ndjson")}
    assert {"deliver", "start-verification"} <= steps
    assert bundle.json("start.json")["records"].keys() < bundle.json("end.json")["records"].keys()


def test_a_bundle_has_no_secret(saved: Saved) -> None:
    assert [one for one in saved.secrets if one in saved.texts] == []
    assert "demo-password" not in saved.texts


def test_the_har_has_the_requests_of_the_journal(saved: Saved) -> None:
    bundle = read_bundle(saved.file)
    entries = bundle.json("journal.har")["log"]["entries"]
    journal = bundle.lines("journal.ndjson")
    assert [(one["request"]["method"], one["response"]["status"]) for one in entries] == [
        (one["method"], one["status"]) for one in journal
    ]
    registration = next(one for one in entries if one["request"]["url"].endswith("/api/invoices"))
    assert json.loads(registration["request"]["postData"]["text"]) == DATED


def test_changes_by_the_control_api_are_in_the_bundle_and_not_listed(saved: Saved) -> None:
    journal = read_bundle(saved.file).lines("journal.ndjson")
    assert [one["operation"] for one in journal if not one["isListed"]] == [
        *("setScenario", "advanceClock"),
    ]


def test_requests_have_simulated_and_real_times(saved: Saved) -> None:
    bundle = read_bundle(saved.file)
    entries = bundle.json("journal.har")["log"]["entries"]
    journal = bundle.lines("journal.ndjson")
    assert [one["_simulatedTime"] for one in entries] == [one["at"] for one in journal]
    assert [one["startedDateTime"] for one in entries] == [one["receivedAt"] for one in journal]


def test_only_requests_of_known_callers_have_a_number(server: Running, tmp_path: Path) -> None:
    with server.client(None) as unknown, server.client() as known:
        statuses = [one.get("/api/invoices").status_code for one in (unknown, known)]
    assert statuses == [401, 200]
    save_bundle(ControlClient(server.url, DEMO_KEY), tmp_path / "x.zip")
    rejected, listed = read_bundle(tmp_path / "x.zip").lines("journal.ndjson")[-2:]
    assert (rejected["number"], listed["number"] > 0) == (0, True)


def test_the_same_parts_give_the_same_bytes(tmp_path: Path) -> None:
    one, other = tmp_path / "1.zip", tmp_path / "2.zip"
    write_bundle(one, {"seed": 1}, {"a": b"x", "b": b"y"})
    write_bundle(other, {"seed": 1}, {"b": b"y", "a": b"x"})
    assert one.read_bytes() == other.read_bytes()


def test_a_file_is_replaced_only_if_asked_to_and_is_named_as_a_bundle(
    server: Running, tmp_path: Path
) -> None:
    file = tmp_path / "bug.zip"

    def save(*words: str) -> Result:
        options = ["--url", server.url, "--key", server.new_workspace()]
        return CliRunner().invoke(main, ["bundle", "save", *words, *options])

    assert save(str(file)).exit_code == 0
    before = file.read_bytes()
    again = save(str(file))
    assert (again.exit_code, again.stdout) == (2, "")
    assert "bug.zip: the file exists; choose another name, or replace it with --force" in (
        again.stderr
    )
    assert file.read_bytes() == before
    assert save(str(file), "--force").exit_code == 0
    other = save(str(tmp_path / "bug.txt"))
    assert (other.exit_code, other.stdout) == (2, "")
    assert "bug.txt: the name of a bundle ends in .zip" in other.stderr
    assert not (tmp_path / "bug.txt").exists()


def test_a_bundle_says_that_its_beginning_is_gone(server: Running, tmp_path: Path) -> None:
    key = server.new_workspace()
    with server.client(key) as client:
        workspace = client.get("/sandbox/workspaces").json()["data"][0]["id"]
        client.get("/api/invoices")
    entry = server.call(server.store.log, workspace, REQUESTS_LOG).entries[0]
    server.call(server.store.append, workspace, REQUESTS_LOG, entry, 4 * MEBIBYTE)
    about = save_bundle(ControlClient(server.url, key), tmp_path / "late.zip")
    assert (about["replayable"], about["journalDropped"]) == (False, 1)
    assert about["reason"].startswith("its beginning is gone: after 1,000 requests, 4 MiB")


def test_no_part_of_a_secret_is_where_a_bundle_cuts_a_body(server: Running, tmp_path: Path) -> None:
    key = server.new_workspace()
    with server.client(key) as client:
        token = client.get("/sandbox/inbox").json()["data"]["url"].rpartition("/")[2]
        text = client.post("/api/invoices", json={**DATED, "invoiceNumber": token}).text
        before = "1" * (8 * 1024 - len(token) // 2 - text.index(token))
        number = before + token + "2" * 32_000
        client.post("/api/invoices", json={**DATED, "invoiceNumber": number})
    save_bundle(ControlClient(server.url, key), tmp_path / "x.zip")
    bundle = read_bundle(tmp_path / "x.zip")
    response = bundle.lines("journal.ndjson")[-1]["response"]
    assert before[:-500] in response["body"]
    assert [name for name, part in bundle.parts.items() if token[:12].encode() in part] == []


# Files of strangers


def tampered(file: Path, change: Callable[[zipfile.ZipFile], None]) -> Path:
    """A bundle with something wrong."""
    write_bundle(file, {}, {"a.json": b"{}"})
    with zipfile.ZipFile(file, "a") as archive:
        change(archive)
    return file


def entry(name: str, mode: int = 0) -> zipfile.ZipInfo:
    """An entry of an archive."""
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


def bomb(archive: zipfile.ZipFile) -> None:
    info = entry("bomb")
    info.compress_type = zipfile.ZIP_DEFLATED
    with archive.open(info, "w") as part:
        for _ in range(65):
            part.write(bytes(2**20))


def twice(archive: zipfile.ZipFile) -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("a.json", b"other")


def many(archive: zipfile.ZipFile) -> None:
    for number in range(6_000):
        archive.writestr(f"part-{number:040}", b"")


HOSTILE: dict[str, tuple[Callable[[zipfile.ZipFile], Any], str]] = {
    "a way up": (lambda one: one.writestr("../evil", b""), "parts are not those"),
    "an absolute name": (lambda one: one.writestr("/etc/evil", b""), "parts are not those"),
    "a symbolic link": (
        lambda one: one.writestr(entry("link", stat.S_IFLNK | 0o777), b"/etc/passwd"),
        "parts are not those",
    ),
    "a bomb": (bomb, "too large"),
    "two of a name": (twice, "two parts a.json"),
    "thousands of parts": (many, "at most 1000 parts"),
    "an unlisted part": (lambda one: one.writestr("more", b""), "parts are not those"),
}


@pytest.mark.parametrize(("change", "problem"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_bundle_ends_in_one_line(
    tmp_path: Path, change: Callable[[zipfile.ZipFile], Any], problem: str
) -> None:
    file = tampered(tmp_path / "x.zip", change)
    with pytest.raises(BundleError, match=problem) as raised:
        read_bundle(file)
    assert "\n" not in str(raised.value)
    assert [one.name for one in tmp_path.iterdir()] == ["x.zip"]


def test_a_wrong_digest_is_found(saved: Saved, tmp_path: Path) -> None:
    bundle, file = read_bundle(saved.file), tmp_path / "x.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("manifest.json", json.dumps(bundle.manifest))
        for name, part in bundle.parts.items():
            archive.writestr(name, part.replace(b"RUN-1", b"RUN-2"))
    with pytest.raises(BundleError, match=r"the SHA-256 of \S+ is not that of"):
        read_bundle(file)


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "flipped", "missing"])
def test_a_damaged_bundle_ends_in_one_line(saved: Saved, tmp_path: Path, damage: str) -> None:
    content, file = saved.file.read_bytes(), tmp_path / "x.zip"
    middle = len(content) // 2
    texts = {
        "cut": content[:middle],
        "empty": b"",
        "text": b"not a zip\n" * 10,
        "flipped": content[:60] + bytes(100) + content[160:],
    }
    if damage in texts:
        file.write_bytes(texts[damage])
    with pytest.raises(BundleError) as raised:
        read_bundle(file)
    assert str(raised.value).startswith(f"{file}: ")
    assert "\n" not in str(raised.value)


def test_no_change_of_a_bundle_goes_unnoticed(tmp_path: Path) -> None:
    """A changed byte is an error, or is in what nobody reads, such as the time of a part."""
    file, parts = tmp_path / "x.zip", {f"{name}.json": name.encode() * 40 for name in "abc"}
    write_bundle(file, {}, parts)
    content, outcomes = file.read_bytes(), set()
    for place in range(0, len(content), 5):
        file.write_bytes(content[:place] + bytes([content[place] ^ 0x41]) + content[place + 1 :])
        try:
            assert read_bundle(file).parts == parts
            outcomes.add("same")
        except BundleError as error:
            outcomes.add("error" if "\n" not in str(error) else "several lines")
    assert outcomes == {"same", "error"}


def test_keys_are_not_in_names_or_texts_of_bundles(server: Running, tmp_path: Path) -> None:
    key, stranger, other = server.new_workspace(), new_key(), new_key()
    with server.client(key) as client:
        client.post("/api/invoices", json={**DATED, "invoiceNumber": stranger})
        client.post("/api/invoices", content=b'{"password": 1234, "secret": {"a": "hidden-in-it"}}')
        client.get(f"/api/invoices?token={other}&sellerId=x")
    file = tmp_path / "x.zip"
    save_bundle(ControlClient(server.url, key), file)
    bundle = read_bundle(file)
    content = b"".join(bundle.parts.values())
    assert [one for one in (stranger, other) if one.encode() in content] == []
    assert key.encode() not in content
    first, second, _ = bundle.lines("journal.ndjson")
    assert json.loads(first["request"]["body"])["invoiceNumber"].startswith("[redacted ")
    assert (second["request"]["body"], second["request"]["bodyBytes"]) == (None, 51)


def test_what_a_tool_only_looks_at_takes_no_room_of_what_the_client_did(
    client: httpx.Client,
) -> None:
    client.get("/api/partners")
    for _ in range(1001):
        client.get("/api/webhooks", headers={"X-Sandbox-Journal": "off"})
    entries = client.get("/sandbox/recording").json()["data"]["journal"]
    assert [entry["path"] for entry in entries if entry["isListed"]] == ["/api/partners"]
