"""The request id, the error envelope, and the headers that every answer has."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import SystemClock
from invoice_sandbox.base.errors import ApiError, reject
from invoice_sandbox.base.ids import random_request_id
from invoice_sandbox.http import Exchange, Layer, Proceed, Reply
from invoice_sandbox.http.reading import ClientGoneError
from invoice_sandbox.state import NoWorkspaceError

LEVERS_PATH: Final = "/sandbox"
"""Where the levers and their contract are."""

log = logging.getLogger("invoice_sandbox")


def envelope(system_clock: SystemClock, contract_version: str, public_url: str) -> Layer:
    """Give the request an id and turn every refusal into the envelope of the specification.

    The id is random until the credential is known, then drawn from the workspace's stream.
    """

    async def layer(exchange: Exchange, proceed: Proceed) -> Reply:
        exchange.request_id = random_request_id(system_clock.now())
        try:
            reply = await proceed(exchange)
        except ClientGoneError:
            raise
        except ApiError as error:
            reply = _refusal(exchange, error, public_url)
        except NoWorkspaceError:  # it was deleted meanwhile
            reply = _refusal(exchange, reject("bad_credential"), public_url)
        except Exception:
            log.exception("%s: the request could not be answered", exchange.request_id)
            reply = _refusal(exchange, reject("internal_error"), public_url)
        common = (
            ("X-Request-Id", exchange.request_id),
            ("X-Contract-Version", contract_version),
            *exchange.reply_headers,
        )
        return replace(reply, headers=(*common, *reply.headers))

    return layer


def _refusal(exchange: Exchange, error: ApiError, public_url: str) -> Reply:
    is_lever = exchange.contract is not None and exchange.contract.base_path == LEVERS_PATH
    where = public_url + (LEVERS_PATH if is_lever else "")
    body = jsonio.dumps(error.envelope(exchange.request_id, where))
    return Reply(error.status, body, headers=error.headers)
