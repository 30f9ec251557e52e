"""Faults between a client and the API: a right client behind one of them is a wrong client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from invoice_sandbox.conformance.plan import EVERY

_NUMBERS: Final = (r'(":\s*)(\d)', r"\g<1>1\2")
"""Makes a number of a body another one."""

_END: Final = (r".{9}$", "")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault with a sentence about the client that the sandbox meets, and the capabilities without
    which the plan cannot show it (EVERY: all that the plan has).

    It is about requests to the API, or about ``is_webhook`` messages: those of which ``method``,
    ``path``, a ``header`` (name and pattern; None: it is absent), ``body`` and the ``age`` of the
    timestamp (seconds, from and to) match; ``again``: only those that came before; ``skip``: not
    the first ones. Patterns are regular expressions.

    On the way in, ``remove`` takes a header away, ``put`` changes headers that are there (``new``:
    a fresh value; ``first`` and ``previous``: that of another message), ``edit`` replaces a pattern
    of the body and ``edit_header`` one of a header, ``query`` is added. ``respond`` is a status
    that the proxy responds with itself (0: it hangs up); ``from_memory``: with its first response.
    Otherwise the message is sent on, up to ``times`` with a ``pause`` in seconds; if there is a
    ``status``, only while the response has it. On the way back, of a response with that status,
    ``hide`` takes a header away, ``set_headers`` changes some, ``cut`` halves the body,
    ``becomes`` is another status (0: it hangs up), after a ``delay`` in seconds.
    """

    name: str
    that: str
    needs: frozenset[str] = frozenset()
    is_webhook: bool = False
    method: str = ""
    path: str = ""
    header: tuple[str, str | None] | None = None
    body: str = ""
    age: tuple[float, float] | None = None
    again: bool = False
    skip: int = 0
    remove: str = ""
    put: Mapping[str, str] = field(default_factory=dict)
    edit: tuple[str, str] | None = None
    edit_header: tuple[str, str, str] | None = None
    query: str = ""
    respond: int | None = None
    from_memory: bool = False
    times: int = 1
    pause: float = 0.0
    status: str = ""
    hide: str = ""
    set_headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    becomes: int | None = None
    delay: float = 0.0


_KEYS: Final = frozenset({"idempotency"})
_ALL: Final = frozenset({EVERY})
_HOOKS: Final = frozenset({"webhooks"})
_SIGNATURE: Final = "webhook-signature"
_LATE: Final = 300.0
_EVER: Final = float("inf")

FAULTS: Final = (
    Fault(
        name="drops-keys",
        that="No request has an Idempotency-Key.",
        needs=_KEYS,
        remove="idempotency-key",
    ),
    Fault(
        name="fixes-the-key",
        that="Every request has the same Idempotency-Key.",
        needs=_KEYS,
        put={"idempotency-key": "fixed"},
    ),
    Fault(
        name="renews-keys",
        that="Every repetition has a new Idempotency-Key.",
        needs=_KEYS,
        put={"idempotency-key": "new"},
    ),
    Fault(
        name="swaps-keys",
        that="A request has the Idempotency-Key of the one before it.",
        needs=_KEYS | _HOOKS,
        put={"idempotency-key": "previous"},
    ),
    Fault(name="repeats-writes", that="Everything is created twice.", method="POST", times=2),
    Fault(
        name="repeats-writes-with-new-keys",
        that="Everything is created twice, with another Idempotency-Key.",
        method="POST",
        put={"idempotency-key": "new"},
        times=2,
    ),
    Fault(
        name="repeats-a-rejected-body",
        that="A request is repeated after 400.",
        status="400",
        times=3,
    ),
    Fault(
        name="repeats-a-forbidden-request",
        that="A request is repeated after 403.",
        status="403",
        times=3,
    ),
    Fault(
        name="repeats-a-rejected-credential",
        that="A request is repeated after 401.",
        status="401",
        times=4,
    ),
    Fault(
        name="keeps-the-credential",
        that="The first credential is used for ever.",
        needs=frozenset({"rotation"}),
        put={"authorization": "first"},
    ),
    Fault(
        name="strips-credentials",
        that="Reads have no credential.",
        method="GET",
        remove="authorization",
    ),
    Fault(
        name="repeats-at-once",
        that="A request is repeated at once after 429 and 5xx.",
        status="429|5..",
        times=5,
    ),
    Fault(
        name="hides-retry-after",
        that="Retry-After is not seen.",
        status="429|5..",
        hide="retry-after",
    ),
    Fault(
        name="halves-retry-after",
        that="A wait is half as long as Retry-After.",
        status="429",
        set_headers={"retry-after": "1"},
    ),
    Fault(
        name="repeats-without-end",
        that="A request is repeated every 0.4 s while the API fails.",
        status="5..",
        times=40,
        pause=0.4,
    ),
    Fault(
        name="takes-failures-for-rejections",
        that="Nothing is repeated after 429 or 5xx.",
        status="429|5..",
        becomes=400,
    ),
    Fault(
        name="takes-failures-for-successes",
        that="An error response counts as a success.",
        status="5..",
        becomes=200,
    ),
    Fault(name="polls-often", that="Every read is sent ten times.", method="GET", times=10),
    Fault(
        name="responds-to-writes",
        that="What should be created is never sent.",
        needs=_ALL,
        method="POST",
        respond=201,
    ),
    Fault(
        name="responds-to-later-writes",
        that="Only the first of several requests is sent.",
        needs=_HOOKS,
        method="POST",
        skip=1,
        respond=201,
    ),
    Fault(
        name="drops-reads",
        that="Only the first read arrives.",
        method="GET",
        skip=1,
        respond=0,
    ),
    Fault(
        name="reads-from-memory",
        that="A read that was sent before gets its response from a cache.",
        method="GET",
        again=True,
        from_memory=True,
    ),
    Fault(
        name="swallows-pages",
        that="Only a first page of five is read.",
        needs=_ALL,
        method="GET",
        path=r"/[a-z-]+(\?.*)?$",
        query="limit=5",
        status="2..",
        hide="link",
    ),
    Fault(
        name="drops-a-member",
        that="The last member of a body is missing.",
        method="POST",
        edit=(r',\s*"\w+":\s*"[^"]*"\s*}$', "}"),
    ),
    Fault(
        name="changes-codes",
        that="Every amount is in dollars.",
        method="POST",
        edit=(r'"[A-Z]{3}"', '"USD"'),
    ),
    Fault(
        name="changes-amounts",
        that="A digit is put before every amount.",
        method="POST",
        edit=_NUMBERS,
    ),
    Fault(
        name="rounds-amounts",
        that="Amounts have two decimals.",
        method="POST",
        edit=(r"(\d\.\d\d)\d+", r"\1"),
    ),
    Fault(
        name="changes-repetitions",
        that="A repetition has another amount.",
        needs=_KEYS,
        method="POST",
        again=True,
        edit=_NUMBERS,
    ),
    Fault(name="cuts-requests", that="The end of a body is missing.", method="POST", edit=_END),
    Fault(
        name="declares-text",
        that="A body is declared as text.",
        method="POST",
        put={"content-type": "text/plain"},
    ),
    Fault(
        name="cuts-responses",
        that="What was created cannot be read, and is created again.",
        method="POST",
        status="2..",
        cut=True,
    ),
    Fault(
        name="rejects-messages",
        that="Every webhook is rejected.",
        needs=_HOOKS,
        is_webhook=True,
        respond=401,
    ),
    Fault(
        name="accepts-messages",
        that="Forged webhooks are accepted, too.",
        needs=_HOOKS,
        is_webhook=True,
        status="[45]..",
        becomes=200,
    ),
    Fault(
        name="acknowledges-without-delivering",
        that="Webhooks are accepted, and nothing comes of them.",
        needs=_HOOKS,
        is_webhook=True,
        respond=200,
    ),
    Fault(
        name="remembers-before-it-verifies",
        that="A message whose id came before is accepted, and nothing comes of it.",
        needs=_HOOKS,
        is_webhook=True,
        again=True,
        respond=200,
    ),
    Fault(
        name="rejects-copies",
        that="The second copy of a message is rejected.",
        needs=_HOOKS,
        is_webhook=True,
        again=True,
        respond=409,
    ),
    Fault(
        name="accepts-unsigned-messages",
        that="A message without a signature is accepted.",
        needs=_HOOKS,
        is_webhook=True,
        header=(_SIGNATURE, None),
        respond=200,
    ),
    Fault(
        name="accepts-other-versions",
        that="A signature of a version that is not known is accepted.",
        needs=_HOOKS,
        is_webhook=True,
        header=(_SIGNATURE, r"^v(?!1,)"),
        respond=200,
    ),
    Fault(
        name="accepts-old-messages",
        that="A message is accepted however old it is.",
        needs=_HOOKS,
        is_webhook=True,
        age=(_LATE, _EVER),
        respond=200,
    ),
    Fault(
        name="accepts-messages-from-the-future",
        that="A message is accepted before its time.",
        needs=_HOOKS,
        is_webhook=True,
        age=(-_EVER, -_LATE),
        respond=200,
    ),
    Fault(
        name="accepts-empty-bodies",
        that="A message without a body is accepted.",
        needs=_HOOKS,
        is_webhook=True,
        body=r"^$",
        respond=200,
    ),
    Fault(
        name="reads-one-signature",
        that="Only the first of several signatures is verified.",
        needs=_HOOKS,
        is_webhook=True,
        edit_header=(_SIGNATURE, " .*", ""),
    ),
    Fault(
        name="encodes-again",
        that="The signature of another encoding of the JSON is verified.",
        needs=_HOOKS,
        is_webhook=True,
        edit=(r'":', '": '),
    ),
    Fault(
        name="cuts-messages",
        that="The end of a message is not read.",
        needs=_HOOKS,
        is_webhook=True,
        edit=_END,
    ),
    Fault(
        name="strips-signatures",
        that="Signatures do not arrive.",
        needs=_HOOKS,
        is_webhook=True,
        remove=_SIGNATURE,
    ),
    Fault(
        name="responds-late",
        that="A message gets its response after 17 s, when 15 s are over.",
        needs=_HOOKS,
        is_webhook=True,
        status="2..",
        delay=17.0,
    ),
    Fault(
        name="fails-after-it-has-processed",
        that="A genuine message is processed and gets a 500.",
        needs=_HOOKS,
        is_webhook=True,
        status="2..",
        becomes=500,
    ),
    Fault(
        name="hangs-up",
        that="After the first message the connection is closed without a response.",
        needs=_HOOKS,
        is_webhook=True,
        skip=1,
        status="2..",
        becomes=0,
    ),
    Fault(
        name="stops-receiving",
        that="Everything after the second message gets a 503.",
        needs=_HOOKS,
        is_webhook=True,
        skip=2,
        respond=503,
    ),
)
