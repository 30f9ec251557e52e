"""What each view of the console shows and lets its visitor do, beside the journal and records."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

from invoice_sandbox.base.ids import new_key
from invoice_sandbox.bundles import archive
from invoice_sandbox.bundles.archive import read_bundle
from invoice_sandbox.bundles.saving import save_bundle
from invoice_sandbox.control.client import ControlClient
from invoice_sandbox.replay import replay
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.cases import in_turn
from tests.interop.node import node
from tests.receivers import Message, receiving, subscribe
from tests.scenario_run import INVOICE, advance, data, move, register_new, until, verified
from tests.support import FROZEN, OPTIONAL, PATIENCE, Running, serving
from tests.test_console import VIEWS, act, api, key, status_of, visitor
from tests.test_sessions import AUDITOR, PASSWORD, logged_in

pytestmark = pytest.mark.slow

__all__ = ["api", "key", "visitor"]  # fixtures


def text_of(page: httpx.Response) -> str:
    """What a page shows, without its markup."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", "", page.text)))


def buttons(page: httpx.Response) -> list[str]:
    """The requests that the buttons of a page name."""
    return [unescape(one) for one in re.findall(r'<button title="([^"]*)"', page.text)]


def links_of(page: httpx.Response) -> dict[str, str | None]:
    """What each mark of a timeline opens, by its source and text."""
    mark = r'class="source">(.*?)</span>\s*<span class="what">(?:<a href="(.*?)">)?(.*?)<'
    found = re.findall(mark, page.text)
    return {f"{source} {text.strip()}": unescape(link) or None for source, link, text in found}


# Who visits


def test_a_user_looks_and_does_not_act(visitor: httpx.Client) -> None:
    visitor.post("/console/sign-out")
    wrong = visitor.post("/console/sign-in", data={**AUDITOR, "password": "wrong"})
    assert 'role="alert"' in wrong.text
    assert PASSWORD not in wrong.text
    signed_in = visitor.post("/console/sign-in", data=AUDITOR, follow_redirects=True)
    assert "session of usr_sandbox_auditor" in signed_in.text
    for view in VIEWS:
        assert 'role="alert"' not in visitor.get(f"/console{view}").text, view
    moved = act(visitor, "POST", "/sandbox/clock/advance", body='{"by": "P1D"}')
    assert status_of(moved) == 403


def test_a_session_of_the_api_opens_the_console_until_it_ends() -> None:
    private = replace(FROZEN, key=new_key())
    with serving(private) as running, logged_in(running, **AUDITOR) as user:
        assert "session of usr_sandbox_auditor" in user.get("/console").text
        with user.stream("GET", "/console/events") as stream:
            assert stream.status_code == 200
        user.post("/api/auth/logout")
        assert "<h1>Sign in</h1>" in user.get("/console").text
        assert user.get("/console/events").status_code == 401


def test_the_demo_key_opens_nothing_for_a_request_that_was_forwarded(server: Running) -> None:
    forwarded = {"X-Forwarded-For": "192.0.2.1"}
    with server.client(None) as client:
        client.post("/console/sign-in", data={"key": DEMO_KEY}, headers=forwarded)
        page = client.get("/console/requests", headers=forwarded).text
        assert "<h1>Sign in</h1>" in page
        assert "x-forwarded-for" in page
        assert client.get("/console/events", headers=forwarded).status_code == 401
        assert "<h1>Requests</h1>" in client.get("/console/requests").text


def test_a_visitor_switches_between_keys(server: Running, visitor: httpx.Client) -> None:
    other = server.new_workspace()
    with server.client(other) as client:
        strange = register_new(client, invoiceNumber="OF-THE-OTHER")
    path = "/console/records/invoices"
    assert strange not in visitor.get(path).text
    visitor.post("/console/sign-in", data={"key": other})
    page = visitor.get(path).text
    assert strange in page
    assert len(re.findall(r'<option value="\d"[^>]*>wsp_sandbox_', page)) == 2
    assert other not in page
    for wrong in ("2", "-1", "x", ""):
        visitor.post("/console/switch", data={"identity": wrong})
        assert strange in visitor.get(path).text
    visitor.post("/console/switch", data={"identity": "1"})
    assert strange not in visitor.get(path).text
    visitor.post("/console/sign-out")
    assert strange in visitor.get(path).text
    assert "Switch</button>" not in visitor.get("/console").text


def test_a_key_that_may_look_sees_every_view(visitor: httpx.Client, api: httpx.Client) -> None:
    scopes = ["sandbox:read", "invoices:read", "webhooks:read"]
    made = data(api.post("/api/developer/api-keys", json={"scopes": scopes}), 201)
    visitor.post("/console/sign-in", data={"key": made["secret"]})
    for view in VIEWS:
        page = visitor.get(f"/console{view}")
        assert 'role="alert"' not in page.text, view
        assert "Read-only: this key lacks" in page.text or view == "/sign-in"
    visitor.post("/console/switch", data={"identity": "1"})
    assert "Read-only" not in visitor.get("/console").text
    visitor.post("/console/switch", data={"identity": "1"})
    assert status_of(act(visitor, "POST", "/sandbox/reset")) == 403


@in_turn(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200),
        ({"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}, 200),
        ({}, 200),
    ],
)
def test_a_page_of_another_origin_reads_nothing(
    visitor: httpx.Client, headers: dict[str, str], status: int
) -> None:
    page = visitor.get("/console/requests", headers=headers)
    assert page.status_code == status
    assert ("<h1>" in page.text) is (status == 200)
    with visitor.stream("GET", "/console/events", headers=headers) as stream:
        assert stream.status_code == status


# Overview and contract


def test_first_steps_are_ticked_off_and_end_with_a_webhook(
    visitor: httpx.Client, api: httpx.Client
) -> None:
    api.put("/sandbox/scenario", json={"name": "auto-progress"})

    def first_steps() -> list[bool]:
        page = visitor.get("/console").text
        rows = re.findall(r'<li id="first-\w+">(.*?)</li>', page, flags=re.DOTALL)
        return [">done<" in row for row in rows]

    page = visitor.get("/console")
    assert "export SANDBOX_API_KEY=&lt;API_KEY&gt;" in page.text
    assert len(re.findall("curl -X POST", page.text)) == 3
    assert first_steps() == [False, False, False, False]
    for number, label in enumerate(labels(page), 1):
        form = fields_of(page, label)
        assert act(visitor, **form).status_code == 200
        assert first_steps()[:3] == [step < number for step in range(3)]
    until(lambda: first_steps()[3], "a webhook arrives")
    finished = visitor.get("/console")
    assert '<details class="card steps" id="first-steps">' in finished.text
    assert "First steps: done" in finished.text
    assert "in the inbox" in text_of(finished)


def labels(page: httpx.Response) -> list[str]:
    """The buttons of the first steps."""
    return re.findall(r'<li id="first-\d">.*?<button[^>]*>(.*?)</button>', page.text, re.DOTALL)


def test_a_request_shows_the_member_that_was_meant(
    visitor: httpx.Client, api: httpx.Client
) -> None:
    data(api.post("/api/invoices", json={**INVOICE, "dueDat": 1, "<b>": 2}), 201)
    (entry,) = api.get("/sandbox/requests?limit=1").json()["data"]
    page = visitor.get(f"/console/requests/{entry['requestId']}").text
    hints = [unescape(one) for one in re.findall("<p>Hint: (.*?)</p>", page)]
    assert hints == [
        "undeclared member 'dueDat' (did you mean dueDate?).",
        "undeclared member '<b>'.",
    ]
    assert "'<b>'" not in page


def test_errors_are_grouped_by_operation_and_reason(
    visitor: httpx.Client, api: httpx.Client
) -> None:
    for body in ({"invoiceNumber": 7}, {"invoiceNumber": 8}, {**INVOICE, "currency": 7}):
        api.post("/api/invoices", json=body)
    for path in (
        "/api/invoices/unknown",
        "/api/invoices/unknown_too",
        "/api/nothing",
        "/api/nothing",
        "/api/partners",
    ):
        api.get(path)
    page = visitor.get("/console").text
    rows = re.findall(
        r'<tr><td><a href="([^"]*)">([^<]*)</a></td><td><span[^>]*>(\d+)</span></td>'
        r"<td>([^<]*)</td><td>(\d+)</td>",
        page,
    )
    found = {(one[1], one[2], one[3].partition(". ")[0]): int(one[4]) for one in rows}
    assert found == {
        ("createInvoice", "400", "/sellerId is required"): 2,
        ("createInvoice", "400", "/currency must be a string"): 1,
        ("getInvoice", "404", "There is no invoice with this id"): 2,
        ("/api/nothing", "404", "No operation has this path"): 2,
    }
    for link, name, *_ in rows:
        listed = visitor.get(unescape(link)).text
        assert 'role="alert"' not in listed, name
        assert ">200</span>" not in listed
        assert "/console/requests/req_sandbox_" in listed


def test_the_overview_shows_what_is_due_and_the_last_deliveries(
    visitor: httpx.Client, api: httpx.Client
) -> None:
    api.put("/sandbox/scenario", json={"name": "auto-progress"})
    url = data(api.get("/sandbox/inbox"))["url"]
    data(api.post("/api/webhooks", json={"url": url, "events": ["*"]}), 201)
    invoice = register_new(api)
    advance(api, "PT1S")
    page = text_of(visitor.get("/console"))
    assert f"2026-11-23 09:30:02 finish-verification {invoice} auto-progress" in page
    names = ("invoice.verification_started", "invoice.registered")
    last = page[page.index("Last deliveries") :]
    assert last.index(names[0]) < last.index(names[1])
    assert "2026-11-23 09:30:01 frozen" in page.replace("01frozen", "01 frozen")


def test_the_overview_shows_verdicts_and_provokes_what_shows_them(
    visitor: httpx.Client, api: httpx.Client
) -> None:
    page = visitor.get("/console").text
    assert "not seen yet" in page
    assert "Provoke" in page
    path = "/sandbox/verdicts/rejected-once/provoke"
    form = {"method": "POST", "path": path, "back": "/console"}
    provoked = text_of(visitor.post("/console/call", data=form, follow_redirects=True))
    assert "error 400, once. Register an invoice. It is rejected; do not send it again." in provoked
    ids = [api.post("/api/invoices", json={}).headers["x-request-id"] for _ in range(2)]
    shown = visitor.get("/console").text
    assert re.search(r">2 broken</span>", shown)
    links = re.findall(r'/console/requests/(\w+)">POST /api/invoices: 400', shown)
    assert ids == links[:2]


def test_the_contract_shows_responses_assumptions_and_coverage(
    visitor: httpx.Client, api: httpx.Client
) -> None:
    api.get("/api/partners")
    page = visitor.get("/console/contract")
    row = re.search(r"listPartners</span>.*?</details>", page.text, re.DOTALL)
    assert row
    cells = re.findall(r">(\d{3})</span></td><td>[^<]*</td><td>(\w+)</td>", row[0])
    assert dict(cells)["200"] == "yes"
    assert dict(cells)["401"] == "no"
    assert "/docs#/partners/listPartners" in row[0]
    assert "Assumptions of the sandbox" in row[0]
    paths = api.get("/openapi.json").json()["paths"].values()
    declared = sum(len({"get", "post", "put", "delete"} & one.keys()) for one in paths)
    assert f"operations 1 of {declared}" in text_of(page)


def test_a_violation_leads_to_the_schema(visitor: httpx.Client, api: httpx.Client) -> None:
    api.post("/api/invoices", json={"invoiceNumber": 7})
    [entry] = data(api.get("/sandbox/requests"))
    page = visitor.get(f"/console/requests/{entry['requestId']}").text
    link = re.search(r'href="(/console/contract/schema[^"]*)"', page)
    assert link
    schema = text_of(visitor.get(unescape(link[1])))
    assert '"sellerId", "debtorId"' in schema
    assert api.get("/api/partners?limit=many").status_code == 400
    [entry, _] = data(api.get("/sandbox/requests"))
    shown = visitor.get(f"/console/requests/{entry['requestId']}")
    assert "limit must be a whole number" in text_of(shown)
    link = re.search(r'href="(/console/contract/schema[^"]*)"', shown.text)
    assert link
    assert '"name": "limit"' in text_of(visitor.get(unescape(link[1])))
    for wrong in ("", "?pointer=/nothing", "?pointer=x"):
        assert visitor.get(f"/console/contract/schema{wrong}").status_code == 404


# Records


def test_events_deliveries_and_postings_are_on_the_timeline(
    visitor: httpx.Client, api: httpx.Client
) -> None:
    url = data(api.get("/sandbox/inbox"))["url"]
    data(api.post("/api/webhooks", json={"url": url, "events": ["*"]}), 201)
    invoice = register_new(api)
    move(api, invoice, "start-verification", "verify", "request-financing", "receive-offer")
    [offer] = data(api.get("/api/offers", params={"invoiceId": invoice}))
    page = visitor.get(f"/console/records/invoices/{invoice}")
    assert f"POST /sandbox/offers/{offer['id']}/accept" in buttons(page)
    data(api.post(f"/sandbox/offers/{offer['id']}/accept"))
    move(api, invoice, "fund")
    advance(api, "PT0S")
    page = visitor.get(f"/console/records/invoices/{invoice}")
    found = text_of(page)
    for mark in (
        "request POST /api/invoices → 201",
        "event offer.received",
        "delivery offer.received to Inbox → 200",
        "ledger ",
        "audit log invoice.registered",
    ):
        assert re.search(mark, found), mark
    links = links_of(page)
    for request, *causes in (
        ("POST /api/invoices", "event invoice.registered", "audit log invoice.registered"),
        (f"POST /sandbox/offers/{offer['id']}/accept", "event offer.accepted", "ledger purchase"),
        (f"POST /sandbox/invoices/{invoice}/transition", "event invoice.funded", "ledger pay-out"),
    ):
        [link] = {links[one] for one in causes}
        assert f"</span> {request}</h2>" in visitor.get(link or "").text
    assert None not in links.values()


def test_what_a_step_did_opens_its_entry_in_the_agenda(
    visitor: httpx.Client, api: httpx.Client
) -> None:
    data(api.put("/sandbox/scenario", json={"name": "full-lifecycle"}))
    other, invoice = register_new(api), register_new(api)
    path = f"/console/records/invoices/{invoice}"
    due = links_of(visitor.get(path))["step make-offer"]
    assert due == links_of(visitor.get(path))["step make-offer"]
    assert (
        visitor.get(str(due).partition("#")[0]).text.count(unquote(str(due)).partition("#")[2]) == 1
    )
    advance(api, "P1D")
    links = links_of(visitor.get(path))
    assert (
        links["step make-offer"]
        == links["event offer.received"]
        == links["audit log offer.received"]
    )
    assert links["event invoice.funded"] == links["ledger pay-out"] != links["ledger purchase"]
    assert None not in links.values()
    for link in {one for one in links.values() if one and "#" in one}:
        address, _, fragment = link.partition("#")
        agenda = visitor.get(address).text
        assert agenda.count(f'id="{unquote(fragment)}"') == 1
        assert other not in agenda


def test_a_failed_attempt_and_the_next_one_are_on_the_timeline(
    visitor: httpx.Client, api: httpx.Client
) -> None:
    url = data(api.get("/sandbox/inbox"))["url"]
    body = {"url": url, "events": ["invoice.registered"]}
    data(api.post("/api/webhooks", json=body), 201)
    data(api.put("/sandbox/scenario", json={"name": "webhook-down-then-up"}))
    invoice = register_new(api)
    advance(api, "PT0S")
    page = text_of(visitor.get(f"/console/records/invoices/{invoice}"))
    assert re.search(r"delivery invoice.registered to \S+ → 5\d\d, fail", page)
    assert re.search(r"delivery invoice.registered to \S+ due", page)


@pytest.mark.parametrize(
    ("what", "status"),
    [("accept", "Accepted"), ("decline", "Declined"), ("withdraw", "Withdrawn")],
)
def test_an_offer_is_decided_by_its_buttons(
    visitor: httpx.Client, api: httpx.Client, what: str, status: str
) -> None:
    invoice = verified(api)["id"]
    move(api, invoice, "request-financing", "receive-offer")
    [offer] = data(api.get("/api/offers", params={"invoiceId": invoice}))
    page = visitor.get(f"/console/records/invoices/{invoice}")
    [request] = [one for one in buttons(page) if one.endswith(f"/{what}")]
    method, path = request.split(" ")
    assert status_of(act(visitor, method, path)) == 200
    assert data(api.get("/api/offers", params={"invoiceId": invoice}))[0]["status"] == status
    assert offer["status"] == "Received"


# Webhooks


def test_a_delivery_is_explained_byte_for_byte(visitor: httpx.Client, api: httpx.Client) -> None:
    url = data(api.get("/sandbox/inbox"))["url"]
    made = data(api.post("/api/webhooks", json={"url": url, "events": ["*"]}), 201)
    register_new(api)
    advance(api, "PT0S")
    [delivery] = data(api.get("/api/webhooks"))["deliveries"]
    link = f"/console/webhooks/{delivery['id']}"
    path = f"POST /sandbox/deliveries/{delivery['id']}/replay"
    named = [one for one in buttons(visitor.get(link)) if one.startswith(path)]
    assert len(named) == 16
    assert f'{path} {{"fault":"late"}}' in named
    rotate = f"/sandbox/webhooks/{made['id']}/rotate-secret"
    assert f"POST {rotate}" in buttons(visitor.get("/console/webhooks"))
    secret = data(api.post(rotate))["secret"]
    act(visitor, "POST", path.partition(" ")[2], body='{"fault": "changed-body"}')
    page = visitor.get(link)
    shown = text_of(page)
    assert f"current (new) whsec_…{secret[-4:]}" in shown
    assert f"previous (old) whsec_…{made['secret'][-4:]}" in shown
    assert "The body was changed after signing." in shown
    assert data(api.get(f"/sandbox/deliveries/{delivery['id']}"))["body"] in unescape(page.text)
    assert secret not in page.text
    for language in ("Python", "Node.js", "Java", "Go"):
        assert f"<summary>{language}</summary>" in page.text
    assert 'role="alert"' in visitor.get("/console/webhooks/unknown").text


@in_turn(
    ("attempt", "text"),
    [
        ({}, "Your receiver accepted it."),
        ({"variation": "fail"}, "Modified by you"),
        (
            {"responseStatus": None, "error": "timeout"},
            "No response: timeout. Is your receiver running",
        ),
        ({"responseStatus": 401}, "Compare its signature check"),
        ({"responseStatus": 502}, "failed with 502"),
        ({"responseStatus": 302}, "Only 2xx"),
        (None, "Nothing was sent yet."),
    ],
)
def test_the_outcome_of_a_delivery_is_a_sentence(attempt: Any, text: str) -> None:
    from invoice_sandbox.console.deliveries import diagnosis

    one = {"responseStatus": 200, "error": None, "variation": None, **(attempt or {})}
    delivered = "Delivered" if attempt == {} else "Failed"
    attempts = [] if attempt is None else [one]
    assert text in diagnosis({"status": delivered, "attempts": attempts})


def genuine(language: str, snippet: str, message: Message, secret: str, folder: Path) -> bool:
    """Whether the code of the page, in a program, takes a message for genuine."""
    names = ("id", "timestamp", "signature")
    values = [secret, *(message.headers[f"webhook-{one}"] for one in names)]
    program, name, command = PROGRAMS[language]
    (folder / name).write_text(program.replace("SNIPPET", snippet))
    command = [*command, str(folder / name), *values]
    done = subprocess.run(  # what it writes is looked at
        command, check=False, input=message.body, capture_output=True, timeout=PATIENCE
    )
    assert done.stdout.strip() in {b"true", b"false"}, done.stderr
    return done.stdout.strip() == b"true"


PROGRAMS = {
    "Python": (
        """
import sys
secret, *values = sys.argv[1:]
headers = dict(zip(("webhook-id", "webhook-timestamp", "webhook-signature"), values))
body = sys.stdin.buffer.read()
genuine = "true"
try:
    exec('''SNIPPET''')
except Exception as error:
    genuine = "false" if "signature" in str(error) else error
print(genuine)
""",
        "verify.py",
        [sys.executable],
    ),
    "Node.js": (
        """
import { readFileSync } from "node:fs";
const [secret, id, timestamp, header] = process.argv.slice(2);
const body = readFileSync(0);
SNIPPET
console.log(genuine);
""",
        "verify.mjs",
        [shutil.which("node") or str(node())],
    ),
    "Java": (
        """
import static java.nio.charset.StandardCharsets.UTF_8;
import java.security.MessageDigest;
import java.util.*;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
class Verify {
    public static void main(String[] args) throws Exception {
        String secret = args[0], id = args[1], timestamp = args[2], header = args[3];
        byte[] body = System.in.readAllBytes();
        SNIPPET
        System.out.println(genuine);
    }
}
""",
        "Verify.java",
        ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"],  # which start at once
    ),
    "Go": (
        """
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	secret, id, timestamp, header := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	body, _ := io.ReadAll(os.Stdin)
	SNIPPET
	fmt.Println(genuine)
}
""",
        "verify.go",
        ["go", "run"],
    ),
}
"""By language: a program around the code of the page, its file, and the command that runs it."""


@pytest.fixture(scope="module")
def signed() -> Iterator[tuple[Message, str, dict[str, str]]]:
    """A delivered message, its secret, and the code that the console shows, by language."""
    with receiving() as receiver, serving(real_time=True) as running, running.client() as api:
        secret = subscribe(api, receiver.url, events=["invoice.registered"])["secret"]
        register_new(api, invoiceNumber="Ü-1")
        advance(api, "PT0S")
        [delivery] = data(api.get("/api/webhooks"))["deliveries"]
        page = api.get(f"/console/webhooks/{delivery['id']}").text
        shown = re.findall(r"<summary>([^<]*)</summary>.*?<pre[^>]*>(.*?)</pre>", page, re.DOTALL)
        [message] = receiver.messages
        yield message, secret, {language: unescape(code) for language, code in shown}


_MISSING = {
    "Python": "needs Python: make install",
    "Node.js": "needs Node.js: make interop",
    "Java": f"{OPTIONAL} needs Java: install a JDK",
    "Go": f"{OPTIONAL} needs Go: install it",
}


@pytest.mark.parametrize(
    "language",
    [
        pytest.param(
            one,
            marks=pytest.mark.skipif(
                shutil.which(PROGRAMS[one][2][0]) is None,
                reason=_MISSING[one],
            ),
        )
        for one in PROGRAMS
    ],
)
def test_the_code_that_verifies_a_signature_runs(
    signed: tuple[Message, str, dict[str, str]], language: str, tmp_path: Path
) -> None:
    message, secret, code = signed
    other = "whsec_" + secret[-1:-33:-1].replace("=", "A")
    rotated = f"v1,{'A' * 43}= {message.headers['webhook-signature']}"
    for changed, known, is_genuine in (
        (message, secret, True),
        (replace(message, headers={**message.headers, "webhook-signature": rotated}), secret, True),
        (replace(message, body=message.body + b" "), secret, False),
        (message, other, False),
    ):
        assert genuine(language, code[language], changed, known, tmp_path) is is_genuine


# Scenario and clock


def test_a_scenario_is_drawn_and_used_with_conditions(
    visitor: httpx.Client, api: httpx.Client
) -> None:
    page = visitor.get("/console/scenario", params={"name": "dispute-resolved"})
    drawn = re.findall(r'class="box[^"]*">(\w+)<', page.text)
    assert drawn[0] == "Registered"
    assert drawn[-1] == "Verified"
    assert 'name="field.with.decision"' in page.text
    form = {"body": '{"name": "dispute-resolved"}', "field.with.decision": "P3D"}
    assert status_of(act(visitor, "PUT", "/sandbox/scenario", **form)) == 200
    assert data(api.get("/sandbox/clock"))
    invoice = register_new(api)
    advance(api, "PT2S")
    due = data(api.get("/sandbox/agenda"))["due"]
    decided = [one["at"] for one in due if one["do"] != "pass-date"]
    assert decided == ["2026-11-26T09:30:02Z"], invoice


def test_scenarios_are_found_in_groups_with_what_is_expected(visitor: httpx.Client) -> None:
    page = visitor.get("/console/scenario")
    groups = re.findall(r'<details id="group-\d+"( open)?><summary>(.*?) <span', page.text)
    assert {name for _, name in groups} >= {"Verification", "Offers", "Money", "Webhooks"}
    assert len([name for is_open, name in groups if is_open]) == 1, "that of the one in use"
    found = visitor.get("/console/scenario", params={"find": "REVIEWER rejects"})
    listed = re.findall(r'<li id="scenario-([^"]*)">', found.text)
    assert listed == ["kyb-declined"]
    assert "Expected: The client treats Rejected as final." in text_of(found)
    assert "No scenario matches" in visitor.get("/console/scenario", params={"find": "zz"}).text


@pytest.mark.parametrize("path", ["/nowhere", "/records/nothing", "/new/nothing", "/call"])
def test_an_unknown_address_is_a_page_with_a_way_back(visitor: httpx.Client, path: str) -> None:
    page = visitor.get(f"/console{path}")
    assert page.status_code in {404, 405}
    assert '<p><a href="/console">Overview</a></p>' in page.text
    assert "<h1>There is no such page</h1>" in page.text


def test_the_next_step_is_run(visitor: httpx.Client, api: httpx.Client) -> None:
    api.put("/sandbox/scenario", json={"name": "auto-progress"})
    register_new(api)
    due = data(api.get("/sandbox/agenda"))["due"][0]
    request = f'POST /sandbox/clock/advance {{"to":"{due["at"]}"}}'
    for view in ("", "/scenario"):
        assert request in buttons(visitor.get(f"/console{view}"))
    act(visitor, "POST", "/sandbox/clock/advance", body=json.dumps({"to": due["at"]}))
    assert data(api.get("/sandbox/agenda"))["done"][0]["do"] == due["do"]


def test_a_fault_shows_what_it_hit(visitor: httpx.Client, api: httpx.Client) -> None:
    fault = {"kind": "status", "operation": "listPartners", "count": 2}
    made = data(api.post("/sandbox/faults", json=fault), 201)
    api.get("/api/partners")
    page = visitor.get("/console/scenario")
    assert "hit 1 time, 1 left" in text_of(page)
    [entry] = data(api.get("/sandbox/requests"))
    assert f'href="/console/requests/{entry["requestId"]}"' in page.text
    assert f"DELETE /sandbox/faults/{made['id']}" in buttons(page)


# Requests, acceptance


def test_a_rejected_credential_is_listed_without_it(server: Running) -> None:
    secret = new_key()
    with server.client(secret) as client, server.client(None) as visitor:
        assert client.get("/api/partners?of=nobody").status_code == 401
        page = visitor.get("/console/requests", params={"text": "of=nobody"})
        link = re.search(r'<a href="(/console/requests/[^"]*)"', page.text)
        assert link
        shown = visitor.get(unescape(link[1]))
        assert "authorization: [redacted]" in shown.text
        assert secret not in page.text + shown.text


REPEATED = {
    "Idempotency-Key": "it's-one",
    "Prefer": "return=representation",
    "X-Own": "caf\u00e9".encode().decode("latin-1"),
}
LONG = {**INVOICE, "invoiceNumber": "L" * 9_000}


def fields_of(page: httpx.Response, button: str) -> dict[str, str]:
    """What the form of a button sends."""
    [form] = [one for one in page.text.split("<form")[1:] if f">{button}</button>" in one]
    pairs = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', form)
    return {name: unescape(text) for name, text in pairs}


def test_a_request_is_sent_again_with_its_headers_and_its_body(
    visitor: httpx.Client, api: httpx.Client
) -> None:
    body = json.dumps(INVOICE, indent=1)
    sent = {**REPEATED, "Content-Type": "application/json; charset=utf-8", "Cookie": "a=b"}
    headers = [(one.encode(), text.encode("latin-1")) for one, text in sent.items()]
    made = data(api.post("/api/invoices", content=body, headers=headers), 201)["id"]
    [entry] = data(api.get("/sandbox/requests"))
    page = visitor.get(f"/console/requests/{entry['requestId']}")
    form = fields_of(page, "Send again")
    named = {one for one in form if one.startswith("header.")}
    assert named == {f"header.{one.lower()}" for one in sent if one != "Cookie"}
    form["raw"] = form["raw"].replace("\n", "\r\n")  # as a browser sends it
    again = visitor.post("/console/call", data={**form, "header.Host": "evil.example"})
    assert again.status_code == 303
    opened = again.headers["location"]
    again, first = data(api.get("/sandbox/requests"))
    assert opened == f"/console/requests/{again['requestId']}"
    assert [one["status"] for one in (again, first)] == [201, 201]
    assert again["request"]["body"] == first["request"]["body"] == body
    assert again["why"]["replayed"] is True
    shown = [dict(one["request"]["headers"]) for one in (again, first)]
    assert shown[0].items() >= {one.lower(): sent[one] for one in sent if one != "Cookie"}.items()
    assert shown[0]["host"] == shown[1]["host"]
    assert made in first["response"]["body"]


def test_a_curl_command_repeats_a_request(visitor: httpx.Client, api: httpx.Client) -> None:
    headers = {one: text for one, text in REPEATED.items() if text.isascii()}
    data(api.post("/api/invoices?a=%27b", json=INVOICE, headers=headers), 201)
    [entry] = data(api.get("/sandbox/requests"))
    page = visitor.get(f"/console/requests/{entry['requestId']}")
    command = unescape(re.findall(r'<pre tabindex="0">(curl .*?)</pre>', page.text, re.DOTALL)[0])
    key = api.headers["authorization"].removeprefix("Bearer ")
    environment = {**os.environ, "SANDBOX_API_KEY": key}
    done = subprocess.run(  # noqa: S602  the command is what a person copies
        command, shell=True, env=environment, check=True, capture_output=True, timeout=PATIENCE
    )
    assert json.loads(done.stdout) == json.loads(entry["response"]["body"])
    again, first = data(api.get("/sandbox/requests"))
    assert again["why"]["replayed"] is True
    assert (again["path"], again["request"]["body"]) == (first["path"], first["request"]["body"])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/invoices", LONG),
        ("/api/auth/login", AUDITOR),
        ("/api/partners?token=whsec_AAAAAAAAAAAAAAAAAAAAAAAA", None),
    ],
    ids=["shortened", "with a secret", "with a secret in the address"],
)
def test_a_request_that_the_journal_has_not_whole_is_not_sent_again(
    visitor: httpx.Client, api: httpx.Client, path: str, body: Any
) -> None:
    api.request("GET" if body is None else "POST", path, json=body)
    [entry] = data(api.get("/sandbox/requests"))
    page = visitor.get(f"/console/requests/{entry['requestId']}")
    assert "cannot be sent again" in text_of(page)
    assert "Send again" not in page.text
    assert "As a curl command" not in page.text


def test_a_run_shows_what_it_waits_for(visitor: httpx.Client, api: httpx.Client) -> None:
    check = {"level": "must", "proves": "It works.", "summary": None, "verdict": None}
    checks = [
        {**check, "id": "zero", "state": "finished", "verdict": "PASS", "summary": "It did."},
        {**check, "id": "one", "state": "finished", "verdict": "FAIL", "summary": "It did not."},
        {**check, "id": "two", "state": "running"},
    ]
    waiting = {"task": 6, "check": "two", "text": "register an invoice", "environment": {}}
    report_check = {"id": "one", "specification": "Retries", "expected": "a key", "actual": "none"}
    report = {
        "verdict": "FAIL",
        "state": "interrupted",
        "checks": [{**report_check, "evidence": []}],
    }
    run = {"plan": "partner", "state": "running", "verdict": None, "checks": checks}
    body = {**run, "waitingFor": waiting, "report": report}
    made = data(api.post("/sandbox/acceptance/runs", json=body), 201)["id"]
    assert "2 of 3" in text_of(visitor.get("/console/acceptance"))
    page = visitor.get(f"/console/acceptance/{made}")
    shown = text_of(page)
    for text in ("Waiting for you: register an invoice", "2 of 3 checks", "a key", "Retries"):
        assert text in shown
    listed = re.findall(r'<details id="(\w+)"', page.text)
    assert listed == ["one", "two", "zero"], "failures first"
    path = f"/sandbox/acceptance/runs/{made}/task"
    assert f'PUT {path} {{"state":"done","task":6}}' in buttons(page)
    assert status_of(act(visitor, "PUT", path, body='{"state": "done", "task": 6}')) == 200
    assert "You reported: done" in visitor.get(f"/console/acceptance/{made}").text
    assert "Download the bundle of this run" not in shown
    zipped = {"Content-Type": "application/octet-stream"}
    data(api.put(f"/sandbox/acceptance/runs/{made}/bundle", content=b"PK", headers=zipped))
    shown = text_of(visitor.get(f"/console/acceptance/{made}"))
    assert "Download the bundle of this run" in shown
    assert f"invoice-sandbox replay {made}.zip" in shown
    file = visitor.get(f"/console/acceptance/{made}/bundle.zip")
    assert file.content == b"PK"
    assert file.headers["content-disposition"] == f'attachment; filename="{made}.zip"'
    file = visitor.get(f"/console/acceptance/{made}/report.json")
    assert file.json() == report
    assert file.headers["content-disposition"] == f'attachment; filename="{made}.json"'
    assert visitor.get("/console/acceptance/unknown/report.json").status_code == 404
    assert 'role="alert"' in visitor.get("/console/acceptance/unknown").text


def test_the_plans_of_the_project_are_there(visitor: httpx.Client) -> None:
    page = text_of(visitor.get("/console/acceptance"))
    assert "Plan partner" in page
    assert "idempotent-retry" in page


def test_the_bundle_is_the_one_that_the_command_saves(
    server: Running, visitor: httpx.Client, api: httpx.Client, key: str, tmp_path: Path
) -> None:
    url = data(api.get("/sandbox/inbox"))["url"]
    data(api.post("/api/webhooks", json={"url": url, "events": ["*"]}), 201)
    register_new(api)
    link = re.search(r'href="([^"]*)" download', visitor.get("/console/bundle").text)
    assert link
    downloaded = visitor.get(link[1])
    assert downloaded.headers["content-type"] == "application/zip"
    assert downloaded.headers["content-disposition"] == 'attachment; filename="bundle.zip"'
    files = [tmp_path / "downloaded.zip", tmp_path / "saved.zip"]
    files[0].write_bytes(downloaded.content)
    save_bundle(ControlClient(server.url, key), files[1])
    one, saved = map(read_bundle, files)
    assert {"contract.json", "journal.ndjson", "journal.har"} < one.parts.keys()
    assert one.parts == saved.parts
    assert replay(one).differences == ()
    assert not [name for name, part in one.parts.items() if key.encode() in part]


def test_a_bundle_that_is_too_large_or_not_allowed_shows_why(
    visitor: httpx.Client, api: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = data(api.post("/api/developer/api-keys", json={"scopes": ["sandbox:read"]}), 201)
    monkeypatch.setattr(archive, "MAX_PART", 1000)
    large = visitor.get("/console/bundle.zip")
    assert large.status_code == 413
    assert "too large for a bundle" in text_of(large)
    visitor.post("/console/sign-in", data={"key": made["secret"]})
    rejected = visitor.get("/console/bundle.zip")
    assert rejected.status_code == 403
    assert "sandbox:control" in rejected.text
