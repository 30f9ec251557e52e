"""The pictures of the console in ``docs/pictures/console``."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from PIL import Image
from playwright.sync_api import Browser, Page

from tests.browser import browsing
from tests.console.workspace import registered, shown
from tests.support import Running

FOLDER: Final = Path(__file__).parents[2] / "docs" / "pictures" / "console"
_COLOURS: Final = 128
_WHOLE: Final = frozenset({"scenario"})
"""Pictures of a whole page, not only of what a window shows."""

_FRAME: Final = (900, 620)


def take_all() -> list[str]:
    """Write the pictures and the recording; their sizes in words."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with shown() as (running, ids), browsing() as browser:
        for name, path in views(ids).items():
            take(browser, running, name, path, (1400, 900), "light")
        take(browser, running, "overview-dark", "", (1400, 900), "dark")
        take(browser, running, "invoice-phone", f"/records/invoices/{ids['invoice']}", (390, 844))
        seconds = record(browser, running)
    sizes = [f"{one.name} {one.stat().st_size // 1024} KB" for one in sorted(FOLDER.iterdir())]
    return [*sizes, f"the recording takes {seconds:.0f} seconds"]


def views(ids: dict[str, str]) -> dict[str, str]:
    """The address of each view, by the name of its picture."""
    return {
        "overview": "",
        "invoices": "/records/invoices",
        "invoice": f"/records/invoices/{ids['invoice']}",
        "request": f"/requests/{ids['violation']}",
        "webhooks": "/webhooks",
        "delivery": f"/webhooks/{ids['delivery']}",
        "scenario": "/scenario?name=dispute-resolved",
        "acceptance": f"/acceptance/{ids['run']}",
        "contract": "/contract",
        "sign-in": "/sign-in",
    }


@contextmanager
def open_page(
    browser: Browser,
    running: Running,
    size: tuple[int, int],
    scheme: Any = "light",
    **options: Any,
) -> Iterator[Page]:
    width, height = size
    viewport: Any = {"width": width, "height": height}
    with browser.new_context(
        base_url=running.url, viewport=viewport, color_scheme=scheme, **options
    ) as context:
        yield context.new_page()


def take(
    browser: Browser,
    running: Running,
    name: str,
    path: str,
    size: tuple[int, int],
    scheme: Any = "light",
) -> None:
    """One picture of a view, in few colours."""
    with open_page(browser, running, size, scheme) as page:
        page.goto(f"/console{path}")
        whole = name in _WHOLE
        picture = Image.open(io.BytesIO(page.screenshot(full_page=whole)))
    reduced = picture.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    reduced.save(FOLDER / f"{name}.png", optimize=True)


def record(browser: Browser, running: Running) -> float:
    """An invoice arrives, its clock moves, it has an offer: a recording of so many seconds."""
    frames: list[Image.Image] = []
    seconds: list[float] = []

    def keep(page: Page, duration: float) -> None:
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        frames.append(picture)
        seconds.append(duration)

    with open_page(browser, running, _FRAME) as page, running.client() as api:
        page.goto("/console")
        keep(page, 2)
        page.goto("/console/records/invoices")
        keep(page, 1.5)
        invoice = registered(api, 20)
        page.get_by_text(invoice).wait_for()
        keep(page, 1.5)
        page.goto(f"/console/records/invoices/{invoice}")
        keep(page, 2)
        for _ in range(4):
            page.goto("/console/scenario")
            page.get_by_role("button", name="Run next step").scroll_into_view_if_needed()
            keep(page, 0.7)
            page.get_by_role("button", name="Run next step").click()
            page.goto(f"/console/records/invoices/{invoice}")
            keep(page, 1.1)
        page.get_by_role("heading", name="Timeline").scroll_into_view_if_needed()
        keep(page, 2)
        page.goto("/console/webhooks")
        keep(page, 1.5)
        page.goto("/console")
        keep(page, 2)
    frames[0].save(
        FOLDER / "console.webp",
        save_all=True,
        append_images=frames[1:],
        duration=[int(one * 1000) for one in seconds],
        loop=0,
        quality=60,
        method=6,
    )
    return sum(seconds)
