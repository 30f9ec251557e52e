"""Pages for people: the contracts in Swagger UI. All of it comes from this server, nothing else.

Flask renders the page. What only pages need is imported and made when the first one is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from invoice_sandbox.http.pages import ASGIApplication

if TYPE_CHECKING:
    from flask import Flask, Response

DOCS: Final = "/docs"
_THREADS: Final = 4
_A_YEAR: Final = 365 * 24 * 3600
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def docs_app(
    contracts: Sequence[tuple[str, str]], demo_key: str | None, public_url: str = ""
) -> ASGIApplication:
    """Swagger UI below ``/docs`` for ``contracts``: pairs of a name and a path of this server.

    The page shows ``demo_key`` and is authorized with it. Requests to ``public_url`` go to the
    address that the page was opened at.
    """
    from a2wsgi import WSGIMiddleware

    app: Any = _flask_app(contracts, demo_key, public_url)
    served: Any = WSGIMiddleware(app, workers=_THREADS)  # has types of its own for the same things
    return cast("ASGIApplication", served)


def _flask_app(
    contracts: Sequence[tuple[str, str]], demo_key: str | None, public_url: str
) -> Flask:
    from flask import Flask
    from flask_swagger_ui import get_swaggerui_blueprint

    app = Flask(__name__, static_url_path=f"{DOCS}/static")
    app.config["PROPAGATE_EXCEPTIONS"] = True  # the pipeline answers for a failure, not Flask
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
        "persistAuthorization": True,
        "tryItOutEnabled": True,
        "displayRequestDuration": True,
        "defaultModelsExpandDepth": 0,
    }


def _add_headers(response: Response) -> Response:
    """Let the page use this server only, and keep what cannot change: an asset with a version."""
    from flask import request

    response.headers["Content-Security-Policy"] = _POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "same-origin"
    if response.mimetype == "text/html":
        response.headers["Cache-Control"] = "no-store"
    elif "v" in request.args:
        response.headers["Cache-Control"] = f"public, max-age={_A_YEAR}, immutable"
    return response
