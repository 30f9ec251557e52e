"""The console in a real browser: live, on a phone, in the dark, by keyboard, without JavaScript."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from html import unescape
from typing import Any

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect

from invoice_sandbox.state.credentials import DEMO_KEY
from tests.browser import browsing
from tests.console.workspace import filled, run_of
from tests.receivers import receiving, response
from tests.scenario_run import data, register_new
from tests.support import FROZEN, PATIENCE, Running, serving
from tests.test_console import VIEWS

pytestmark = pytest.mark.process

MILLISECONDS = PATIENCE * 1000
expect.set_options(timeout=MILLISECONDS)
MARKUP = "<script>ran = 1</script><img src=x onerror='ran = 1'>\u202e\"'>"
"""What must stay text. It sets a variable if it runs."""

VISITING = {"/console/sign-in", "/console/switch", "/console/sign-out"}
"""The pages that the forms of a visitor lead to, which change nothing in the workspace."""

ONLY_VIOLATIONS = {"resultTypes": ["violations"]}
HOSTILE = MARKUP + "W" * 64_000


@dataclass(frozen=True)
class Place:
    """A server, and the addresses of views with a lot in them, by name."""

    running: Running
    views: dict[str, str]

    @property
    def addresses(self) -> list[str]:
        """Those of all views."""
        return [one for one in (*VIEWS, *self.views.values()) if one != "/scenario"]


@pytest.fixture(scope="module")
def lively() -> Iterator[Place]:
    """A server with something in every view, of which much is hostile."""
    settings = replace(FROZEN, scenario="auto-progress")
    with (
        receiving(response(503, HOSTILE.encode())) as failing,
        serving(settings, real_time=True) as running,
        running.client() as api,
    ):
        ids = filled(api, failing.url)
        register_new(api, invoiceNumber=MARKUP + "W" * 500)
        long = register_new(api, invoiceNumber=HOSTILE)
        long_header = (MARKUP + "W" * 12_000).encode()
        api.get("/api/partners", headers={b"User-Agent": long_header})
        hostile_request = data(api.get("/sandbox/requests"))[0]["requestId"]
        yield Place(
            running,
            {
                "invoice": f"/records/invoices/{ids['invoice']}",
                "hostile": f"/records/invoices/{long}",
                "request": f"/requests/{ids['violation']}",
                "header": f"/requests/{hostile_request}",
                "delivery": f"/webhooks/{ids['delivery']}",
                "hostile answer": f"/webhooks/{ids['failed']}",
                "run": f"/acceptance/{ids['run']}",
                "scenario": "/scenario?name=dispute-resolved",
                "steps": f"/scenario?about={ids['invoice']}",
                "unknown": "/records/invoices/unknown",
                "form": "/new/createApiKey",
                "comparison": f"/compare?a=request:{ids['violation']}&b=request:{hostile_request}",
                "schema": "/contract/schema?pointer=/components/schemas/InvoiceInput/required",
            },
        )


@pytest.fixture(scope="module")
def browser(lively: Place) -> Iterator[Browser]:
    """Headless Chromium. Its driver keeps a loop running: the server must be there before."""
    _ = lively
    with browsing("--disable-quic") as browser:
        yield browser


@contextmanager
def visiting(browser: Browser, place: Place, **options: Any) -> Iterator[Page]:
    """A page that must ask no other server, and log nothing."""
    wrong: list[str] = []
    running = place.running
    with browser.new_context(base_url=running.url, **options) as context:
        page = context.new_page()
        page.set_default_timeout(MILLISECONDS)
        page.on("request", lambda it: wrong.extend(_elsewhere(it.url, running)))
        page.on("console", lambda it: wrong.append(it.text))
        page.on("pageerror", lambda it: wrong.append(it.message))
        page.on("dialog", lambda it: wrong.append(it.message))
        yield page
        assert wrong == []


def _elsewhere(url: str, running: Running) -> list[str]:
    return [] if url.startswith(running.url) else [url]


_FOCUSED = """() => {
  const all = [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex]")];
  const seen = all.filter((one) => one.checkVisibility() && one.type !== "hidden");
  const bad = seen.filter((one) => {
    one.focus({focusVisible: true});
    const outline = getComputedStyle(one).outlineStyle;
    return one.tabIndex !== 0 || document.activeElement !== one || outline === "none";
  });
  const clicked = [...document.querySelectorAll("[onclick], [role=button]")];
  return [seen.length, [...bad, ...clicked].map((one) => one.outerHTML)];
}"""


_SMALL = """() => [...document.querySelectorAll("li a, td a, summary, button, nav a")]
  .filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 24)
  .map((one) => one.outerHTML.slice(0, 200))"""


def test_every_view_fits_is_accessible_and_shows_what_has_the_focus(
    browser: Browser, lively: Place
) -> None:
    size: Any = {"width": 390, "height": 900}
    options = {"viewport": size, "is_mobile": True, "has_touch": True, "bypass_csp": True}
    repeated = {lively.views[name] for name in ("hostile", "header", "hostile answer")}
    with visiting(browser, lively, **options) as page:
        for view in lively.addresses:
            page.goto(f"/console{view}")
            page.evaluate("document.querySelectorAll('details').forEach((it) => (it.open = true))")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, view
            assert page.evaluate("typeof ran") == "undefined", view
            assert page.evaluate("document.querySelector('header').offsetHeight") < 64, view
            assert page.evaluate(_SMALL) == [], view
            if view not in repeated:  # axe takes seconds for 64 KB in a line
                found = Axe().run(page, options=ONLY_VIOLATIONS).response["violations"]
                bad = [one for one in found if one["impact"] in {"serious", "critical"}]
                assert bad == [], (view, [(one["id"], one["nodes"][0]["html"]) for one in bad])
            page.keyboard.press("Tab")
            count, hidden = page.evaluate(_FOCUSED)
            assert count > 10, view
            assert hidden == [], view


def test_every_action_names_a_documented_request(lively: Place) -> None:
    """Only those who visit are changed without one."""
    project = lively.running.sandbox.engine.project
    contracts = (project.contract, project.control)
    known = {
        (one.method.upper(), re.sub(r"{[^}]*}", "*", contract.base_path + one.path))
        for contract in contracts
        for one in contract.operations.values()
    }
    named = set()
    with lively.running.client(None) as visitor:
        for view in lively.addresses:
            page = visitor.get(f"/console{view}").text
            for target, form in re.findall(
                r'<form[^>]* method="post" action="([^"]*)">(.*?)</form>', page, re.DOTALL
            ):
                if target != "/console/call":
                    assert target in VISITING or target.startswith("/console/new/")
                    continue
                method, path = (
                    unescape(re.findall(rf'name="{one}" value="([^"]*)"', form)[0])
                    for one in ("method", "path")
                )
                [shown] = re.findall(r'<code class="request">(.*?)</code>', form)
                assert unescape(shown).startswith(f"{method} {path}"), view
                named.add((method, path.partition("?")[0]))
    for method, path in named:
        patterns = [one for way, one in known if way == method]
        assert any(fnmatch(path, one) for one in patterns), (method, path)
    assert len(named) > 20


def test_every_view_has_an_address_that_can_be_shared(lively: Place) -> None:
    """Another visitor of the workspace sees the same at the same address."""
    with lively.running.client(None) as one, lively.running.client(None) as other:
        other.post("/console/sign-in", data={"key": DEMO_KEY})
        for view in lively.addresses:
            pages = [it.get(f"/console{view}").text for it in (one, other)]
            shown = [it[it.index("<main") : it.index("</main>")] for it in pages]
            assert shown[0] == shown[1], view


@pytest.mark.parametrize("is_mobile", [False, True])
def test_a_button_names_its_request(browser: Browser, lively: Place, is_mobile: bool) -> None:
    """Where nothing hovers, beside the button."""
    options = {"is_mobile": is_mobile, "has_touch": is_mobile}
    with visiting(browser, lively, **options) as page:
        page.goto("/console/scenario")
        named = page.locator("#main").get_by_text(
            'POST /sandbox/clock/advance {"by":"P1D"}', exact=True
        )
        expect(named).to_be_visible(visible=is_mobile)
        page.get_by_role("button", name="+1 day").focus()
        expect(named).to_be_visible()


def test_swagger_ui_fits_on_a_phone(browser: Browser, lively: Place) -> None:
    size: Any = {"width": 390, "height": 844}
    with visiting(browser, lively, viewport=size) as page:
        page.goto("/docs#/invoices/createInvoice")
        page.locator(
            ".opblock-body .parameters-container, .opblock-body .opblock-section"
        ).first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_scripts_run_only_from_files_of_the_server(browser: Browser, lively: Place) -> None:
    """Escaping is tested above; if it failed, the policy would stop the script."""
    blocked: list[str] = []
    with browser.new_context(base_url=lively.running.url) as context:
        page = context.new_page()
        page.on("console", lambda it: blocked.append(it.text))
        page.goto("/console")
        page.evaluate("document.querySelector('#main').innerHTML = '<img src=x onerror=\"ran=1\">'")
        page.evaluate(
            "(() => { const one = document.createElement('script');"
            "one.textContent = 'ran = 1'; document.body.append(one); })()"
        )
        page.wait_for_function(
            "performance.getEntriesByName(location.origin + '/x').length || true"
        )
        assert page.evaluate("typeof ran") == "undefined"
    assert any("Content Security Policy" in one for one in blocked)


ANOTHER_PAGE = """<form method=post><input name=method value=POST>
<input name=path value=/sandbox/clock/advance><input name=body value='{"by": "P1D"}'></form>"""


def test_a_page_of_another_origin_can_neither_read_nor_act(browser: Browser, lively: Place) -> None:
    url, evil = lively.running.url, "http://evil.example/"
    with browser.new_context() as context, lively.running.client() as api:
        page = context.new_page()
        page.route(f"{evil}**", lambda it: it.fulfill(body=ANOTHER_PAGE, content_type="text/html"))
        page.goto(evil)
        for path in ("/console", "/console/requests", "/console/events"):
            read = f"fetch('{url}{path}', {{credentials: 'include'}})"
            text = page.evaluate(f"{read}.then((it) => it.text(), () => 'not allowed')")
            assert text == "not allowed", path
        before = data(api.get("/sandbox/clock"))["now"]
        with page.expect_navigation(url=f"{url}/console/call") as reached:
            page.evaluate(f"document.forms[0].action = '{url}/console/call'")
            page.evaluate("document.forms[0].submit()")
        assert reached.value
        assert reached.value.status == 403
        assert data(api.get("/sandbox/clock"))["now"] == before


def test_what_happens_is_on_the_page_at_once(browser: Browser, lively: Place) -> None:
    with visiting(browser, lively) as page, lively.running.client() as api:

        def opened(view: str) -> None:
            with page.expect_response(lambda it: "/console/events?" in it.url):
                page.goto(f"/console{view}")

        opened("/requests")
        api.get("/api/invoices/live-on-the-page")
        expect(page.get_by_text("GET /api/invoices/live-on-the-page")).to_be_visible()
        opened("/requests?status=404&text=live-with")
        api.get("/api/partners?of=live-with")
        api.get("/api/invoices/live-with-filters")
        expect(page.get_by_text("GET /api/invoices/live-with-filters")).to_be_visible()
        expect(page.get_by_text("GET /api/partners?of=live-with")).not_to_be_visible()
        opened(lively.views["run"])
        page.get_by_text("Environment of the client").click()
        run = lively.views["run"].rpartition("/")[2]
        changed = run_of("send the next request")
        data(api.put(f"/sandbox/acceptance/runs/{run}", json=changed))
        expect(page.get_by_text("Waiting for you: send the next request")).to_be_visible()
        expect(page.get_by_text("SANDBOX_API_URL")).to_be_visible()  # what was open stays open
        opened("/records/invoices")
        made = register_new(api)
        expect(page.get_by_text(made)).to_be_visible()


def test_nothing_is_missed_while_a_page_is_loaded(browser: Browser, lively: Place) -> None:
    """Neither before the stream begins, nor while the page is loaded again."""
    with visiting(browser, lively) as page, lively.running.client() as api:

        def before_the_stream(route: Route) -> None:
            api.get("/api/invoices/before-the-stream")
            route.continue_()

        def while_loading(route: Route) -> None:
            reply = route.fetch()
            if "hx-request" in route.request.headers and not missed:
                missed.append(api.get("/api/invoices/while-loading"))
                page.wait_for_timeout(300)  # until the next change is reported
            route.fulfill(response=reply)

        missed: list[Any] = []
        page.route("**/console/events?*", before_the_stream)
        page.goto("/console/requests")
        expect(page.get_by_text("GET /api/invoices/before-the-stream")).to_be_visible()
        page.route("**/console/requests?*", while_loading)
        api.get("/api/invoices/another")
        expect(page.get_by_text("GET /api/invoices/while-loading")).to_be_visible()


def test_what_has_the_focus_keeps_it(browser: Browser, lively: Place) -> None:
    with visiting(browser, lively) as page, lively.running.client() as api:
        page.goto("/console/requests")
        link = page.get_by_role("link", name="GET /api/invoices/keeps-the-focus").first
        api.get("/api/invoices/keeps-the-focus")
        link.focus()
        api.get("/api/invoices/comes-later")
        expect(page.get_by_text("GET /api/invoices/comes-later")).to_be_visible()
        expect(link).to_be_focused()


@contextmanager
def at_work(api: httpx.Client, path: str, a_second: int) -> Iterator[None]:
    """A client that sends so many requests a second, until the block ends."""
    done = threading.Event()

    def send() -> None:
        while not done.wait(1 / a_second):
            api.get(path)

    client = threading.Thread(target=send)
    client.start()
    try:
        yield
    finally:
        done.set()
        client.join()


_COUNTING = """document.addEventListener("click", (event) => {
  if (!event.target.matches("#live .actions button")) return;
  event.preventDefault();
  document.body.dataset.arrived = Number(document.body.dataset.arrived ?? 0) + 1;
}, true)"""


def test_a_page_stays_still_under_the_hand(browser: Browser, lively: Place) -> None:
    """At 50 requests a second about the record that it shows."""
    with visiting(browser, lively) as page, lively.running.client() as api:
        invoice = register_new(api)
        page.goto(f"/console/records/invoices/{invoice}")
        marks = page.locator(".timeline li")
        with at_work(api, f"/api/invoices/{invoice}", 50):
            expect(marks.nth(30)).to_be_visible()
            page.evaluate(_COUNTING)
            button = page.get_by_role("button", name="start-verification", exact=True)
            for _ in range(12):
                button.click(delay=90)
            assert page.evaluate("document.body.dataset.arrived") == "12"
            shown = marks.filter(has_text="GET /api").last.locator("a").get_attribute("href")
            page.evaluate("getSelection().selectAllChildren(document.querySelector('#live p'))")
            selected = page.evaluate("getSelection().toString()")
            page.wait_for_timeout(1_200)
            assert page.evaluate("getSelection().toString()") == selected != ""
            page.get_by_role("button", name="Show what is new").click()
            newest = marks.filter(has_text="GET /api").last.locator("a")
            expect(newest).not_to_have_attribute("href", str(shown))


def test_a_page_changes_at_most_twice_a_second_and_only_for_what_it_shows(
    browser: Browser, lively: Place
) -> None:
    with visiting(browser, lively) as page, lively.running.client() as api:
        invoice = register_new(api)
        page.goto("/console/webhooks")
        changes: list[str] = []
        page.on("request", lambda it: changes.extend([it.url] * (it.resource_type == "xhr")))
        with at_work(api, f"/api/invoices/{invoice}", 50):
            page.wait_for_timeout(1_000)
            assert changes == []
            page.goto(f"/console/records/invoices/{invoice}")
            expect(page.locator(".timeline li").nth(10)).to_be_visible()
            changes.clear()
            page.wait_for_timeout(2_000)
            assert 2 <= len(changes) <= 5


def test_a_message_that_is_open_stays_open_when_another_one_comes(
    browser: Browser, lively: Place
) -> None:
    with visiting(browser, lively) as page, lively.running.client() as api:
        page.goto("/console/webhooks")
        newest = page.locator("details[id]").first
        name = str(newest.get_attribute("id"))
        newest.locator("summary").click()
        page.mouse.move(0, 0)
        register_new(api)
        api.post("/sandbox/clock/advance", json={"by": "PT0S"})
        expect(newest).not_to_have_attribute("id", name)
        expect(newest).not_to_have_attribute("open", "")
        expect(page.locator(f"#{name}")).to_have_attribute("open", "")


def test_the_keyboard_is_enough(browser: Browser, lively: Place) -> None:
    with visiting(browser, lively) as page:
        page.goto("/console")
        page.keyboard.press("Tab")
        expect(page.get_by_text("Skip to content")).to_be_focused()
        for _ in range(2):
            page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Overview")).to_be_focused()
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1, name="Invoices")).to_be_visible()
        page.goto("/console/scenario")
        page.get_by_role("button", name="+1 minute").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_label("Result")).to_contain_text("Moved to 20")


def test_an_action_shows_its_effect_on_the_page_it_was_made_on(
    browser: Browser, lively: Place
) -> None:
    with visiting(browser, lively) as page:
        page.goto("/console/scenario")
        page.get_by_label("by", exact=True).fill("soon")
        page.get_by_role("button", name="Advance").click()
        panel = page.get_by_label("Result")
        expect(panel.get_by_role("textbox", name="by")).to_have_value("soon")
        expect(panel.get_by_role("textbox")).to_have_accessible_description(re.compile("must look"))
        expect(page.get_by_label("by", exact=True).last).to_have_value("soon")
        found = Axe().run(page, options=ONLY_VIOLATIONS).response["violations"]
        assert [item["id"] for item in found] == []
        panel.get_by_role("textbox").fill("PT1M")
        panel.get_by_role("button", name="Send again").click()
        expect(panel).to_contain_text("Moved to 20")
        assert page.url.endswith("/console/scenario")
        page.get_by_role("button", name="Close").click()
        expect(panel).to_have_count(0)
        page.get_by_role("button", name="Reset the workspace").click()
        expect(page.get_by_role("alertdialog").get_by_role("button")).to_be_focused()
        found = Axe().run(page, options=ONLY_VIOLATIONS).response["violations"]
        assert [item["id"] for item in found] == []
        page.get_by_role("alertdialog").get_by_role("link", name="No").click()
        expect(page.get_by_role("alertdialog")).to_have_count(0)
