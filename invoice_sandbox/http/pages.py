"""Routes beside the operations: the documents (``/openapi.json``, ``.yaml``) and pages for people.

Flask renders the pages, with Swagger UI; everything they load comes from this server. What only
they need is imported and made when the first one is requested.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import structs

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.errors import reject
from invoice_sandbox.http.request import JSON, Message, Receive, Reply, Request, Scope, Send
from invoice_sandbox.http.routing import Page
from invoice_sandbox.openapi.load.merge import with_vocabularies
from invoice_sandbox.openapi.load.operations import CONSOLE, DOCS, HELP
from invoice_sandbox.openapi.operation import Contract

if TYPE_CHECKING:
    from flask import Flask, Response

ASGIApplication = Callable[[Scope, Receive, Send], Awaitable[None]]

Vocabularies = Callable[[], Mapping[str, tuple[str, ...]]]
"""The words of vocabularies that may change while the sandbox is served."""

_THREADS: Final = 4
_A_YEAR: Final = 365 * 24 * 3600
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_NOT_PASSED_ON: Final = frozenset({"content-type", "content-length", "date"})


def pages(
    contracts: Mapping[str, Contract],
    public_url: str,
    vocabularies: Vocabularies,
    demo_key: Callable[[Request], str | None],
) -> list[Page]:
    """The documents of ``contracts`` below their base paths, and the page that shows them.

    The page is authorized with the ``demo_key`` of the request for it, if there is one.
    """
    titles = [
        (str(contract.document["info"]["title"]), f"{base}/openapi.json")
        for base, contract in contracts.items()
    ]
    app = cache(partial(docs_app, titles, public_url))
    docs = _application_page(DOCS, lambda request: app(demo_key(request)))
    return [*_document_pages(contracts, public_url, vocabularies), docs]


def start_page(public_path: str) -> Page:
    """The redirect from ``/`` to the console, for contracts without an operation at ``/``."""

    async def to_console(_request: Request) -> Reply:
        return Reply(
            HTTPStatus.TEMPORARY_REDIRECT, headers=(("Location", f"{public_path}{CONSOLE}"),)
        )

    return Page("/", to_console)


def help_pages() -> Page:
    """The documentation below ``/help``, for contracts without operations there."""
    app = cache(help_app)
    return _application_page(HELP, lambda _request: app(help_folder()))


def help_folder() -> Path:
    """The site of the documentation: inside the wheel, or where ``make docs`` writes it."""
    package = Path(__file__).parents[1]
    shipped = package / "help"
    return shipped if shipped.is_dir() else package.parent / "build" / "help"


def _document_pages(
    contracts: Mapping[str, Contract], public_url: str, vocabularies: Vocabularies
) -> list[Page]:
    return [
        Page(
            f"{base}/openapi.{extension}",
            _Document(served_document(contract, public_url), extension, vocabularies).respond,
        )
        for base, contract in contracts.items()
        for extension in _WRITERS
    ]


class _Document:
    """A document, serialized for the first request, in a thread: YAML takes half a second."""

    def __init__(
        self, document: dict[str, Any], extension: str, vocabularies: Vocabularies
    ) -> None:
        self._document = document
        self._write = _WRITERS[extension]
        self._vocabularies = vocabularies
        self._written: tuple[Mapping[str, tuple[str, ...]], Reply] | None = None

    async def respond(self, _request: Request) -> Reply:
        """Return the document with the words that its vocabularies have now."""
        words = self._vocabularies()
        if self._written is None or self._written[0] != words:
            document = with_vocabularies(self._document, words)
            self._written = words, await asyncio.to_thread(self._write, document)
        return self._written[1]


def _json_reply(document: Any) -> Reply:
    return Reply(200, jsonio.dumps_pretty(document), JSON)


def _yaml_reply(document: Any) -> Reply:
    from invoice_sandbox.openapi.load.yaml_12 import yaml_text

    return Reply(200, yaml_text(document).encode(), "application/yaml")


_WRITERS: Final[Mapping[str, Callable[[Any], Reply]]] = {"json": _json_reply, "yaml": _yaml_reply}


def served_document(contract: Contract, public_url: str) -> dict[str, Any]:
    """The contract with this server first in its list of servers."""
    here = {"url": public_url + contract.base_path, "description": "This sandbox"}
    return {**contract.document, "servers": [here, *contract.document.get("servers", [])]}


def _application_page(path: str, app_for: Callable[[Request], ASGIApplication]) -> Page:
    """Return the pages below ``path``, which the ASGI application of ``app_for`` renders."""

    async def respond(request: Request) -> Reply:
        return await respond_with(app_for(request), request)

    return Page(path, respond, below=True)


async def respond_with(
    app: ASGIApplication, request: Request, content: bytes = b"", *, has_own_404: bool = False
) -> Reply:
    """The response of an application that renders pages, which may have a 404 of its own.
    Raises ApiError 404.

    ``content`` is the body of the request.
    """
    method = "POST" if request.method == "POST" else "GET"
    reply = await ask(app, {**request.scope, "method": method}, content)
    if reply.status == 404 and not has_own_404:
        raise reject("unknown_path", meant="")
    return structs.replace(reply, is_page=True)


async def ask(app: ASGIApplication, scope: Scope, content: bytes) -> Reply:
    """The response of ``app`` to a request with this body, as one reply."""
    messages: list[Message] = []
    waiting: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive() -> Message:
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        messages.append(message)

    await app(scope, receive, send)
    start, *parts = messages
    headers = [(name.decode("latin-1"), text.decode("latin-1")) for name, text in start["headers"]]
    return Reply(
        start["status"],
        b"".join(part.get("body", b"") for part in parts),
        dict(headers).get("content-type", "application/octet-stream"),
        tuple(header for header in headers if header[0].lower() not in _NOT_PASSED_ON),
    )


def docs_app(
    contracts: Sequence[tuple[str, str]], public_url: str, demo_key: str | None
) -> ASGIApplication:
    """Swagger UI below ``/docs`` for ``contracts``: pairs of a name and a path of this server.

    The page shows ``demo_key`` and is authorized with it. Requests to ``public_url`` go to the
    address that the page was opened at.
    """
    return _in_threads(_flask_app(contracts, public_url, demo_key))


def help_app(folder: Path) -> ASGIApplication:
    """The files of ``folder`` below ``/help``, or a page that names the command that makes them."""
    from flask import Flask, redirect, render_template, send_from_directory
    from werkzeug.wrappers import Response as AnyResponse

    app = Flask(__name__, static_folder=None)
    app.config["PROPAGATE_EXCEPTIONS"] = True
    app.after_request(partial(_with_policy, _POLICY))

    @app.get(HELP)
    def beginning() -> AnyResponse:
        return redirect(f"{HELP[1:]}/", 308)  # relative: a proxy may have a path before it

    @app.get(f"{HELP}/")
    @app.get(f"{HELP}/<path:name>")
    def file(name: str = "index.html") -> AnyResponse | str:
        if not folder.is_dir():
            return render_template("help.html")
        return send_from_directory(folder, name)

    return _in_threads(app)


def _in_threads(app: Any) -> ASGIApplication:
    """Return a Flask application as an ASGI application."""
    from a2wsgi import WSGIMiddleware

    served: Any = WSGIMiddleware(app, workers=_THREADS)  # declares its own ASGI types
    return cast("ASGIApplication", served)


def _with_policy(policy: str, response: Response) -> Response:
    protect(response, policy)
    return response


def _flask_app(
    contracts: Sequence[tuple[str, str]], public_url: str, demo_key: str | None
) -> Flask:
    from flask import Flask
    from flask_swagger_ui import get_swaggerui_blueprint

    app = Flask(__name__, static_url_path=f"{DOCS}/static")
    app.config["PROPAGATE_EXCEPTIONS"] = True  # the pipeline responds to a failure, not Flask
    app.url_map.strict_slashes = False
    app.jinja_env.globals.update(docs=DOCS, demo_key=demo_key, public_url=public_url)
    config = _swagger_config(contracts)
    app.register_blueprint(get_swaggerui_blueprint(DOCS, contracts[0][1], config))
    app.after_request(_add_headers)
    return app


def _swagger_config(contracts: Sequence[tuple[str, str]]) -> dict[str, object]:
    return {
        "app_name": contracts[0][0],
        "urls": [{"name": name, "url": url} for name, url in contracts],
        "validatorUrl": None,
        "oauth2RedirectUrl": None,
        "deepLinking": True,
        "showExtensions": True,
        "persistAuthorization": True,
        "tryItOutEnabled": True,
        "displayRequestDuration": True,
        "defaultModelsExpandDepth": 0,
    }


def _add_headers(response: Response) -> Response:
    """Let the page use this server only, and keep what cannot change: an asset with a version."""
    from flask import request

    protect(response, _POLICY)
    if response.mimetype != "text/html" and "v" in request.args:
        response.headers["Cache-Control"] = f"public, max-age={_A_YEAR}, immutable"
    return response


def protect(response: Response, policy: str) -> None:
    """Add the headers of a page: the ``policy`` for its contents; nobody keeps HTML."""
    response.headers["Content-Security-Policy"] = policy
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "same-origin"
    if response.mimetype == "text/html":
        response.headers["Cache-Control"] = "no-store"
