"""openapi.yaml says what the specification says, and overlay.yaml takes nothing of it back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import jsonschema_rs
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from invoice_sandbox.openapi.load.documents import load_document
from tests.cases import in_turn
from tests.overlays import apply_overlay

OPENAPI: Final = Path(__file__).parents[1] / "openapi"
BASE: Final[dict[str, Any]] = load_document(OPENAPI / "openapi.yaml")
OVERLAY: Final[dict[str, Any]] = load_document(OPENAPI / "overlay.yaml")
MERGED: Final = apply_overlay(BASE, OVERLAY)
DOCUMENTS: Final = pytest.mark.parametrize(
    "document", [pytest.param(BASE, id="published"), pytest.param(MERGED, id="merged")]
)

METHODS: Final = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}
JSON: Final = "application/json"


class Row(NamedTuple):
    """A row of the specification's table of endpoints, with the operationId that we promise."""

    id: str
    method: str
    path: str
    body: str | None
    success: int
    envelope: str
    errors: tuple[int, ...] = ()
    parameter: tuple[str, str] | None = None


INVOICE, OBJECT, LIST = "InvoiceResponse", "ObjectResponse", "ListResponse"
INPUT, GENERIC = "InvoiceInput", "GenericBody"
FINANCING, KEYS = "/api/financing-requests", "/api/developer/api-keys"
ERP, COUNTRY = "/api/connectors/erp/invoices", "/api/assignment-rules/{country}"
ID_IN_PATH, ID_IN_QUERY, COUNTRY_IN_PATH = ("id", "path"), ("id", "query"), ("country", "path")

ENDPOINTS: Final = (
    Row("listInvoices", "get", "/api/invoices", None, 200, LIST, (401,)),
    Row("createInvoice", "post", "/api/invoices", INPUT, 201, INVOICE, (400,)),
    Row("getInvoice", "get", "/api/invoices/{id}", None, 200, INVOICE, (404,), ID_IN_PATH),
    Row("generateFingerprint", "post", "/api/registry/fingerprint", INPUT, 200, OBJECT, (400,)),
    Row("runVerification", "post", "/api/verification/run", None, 200, OBJECT, (400,)),
    Row("listFinancingRequests", "get", FINANCING, None, 200, LIST),
    Row("createFinancingRequest", "post", FINANCING, GENERIC, 201, OBJECT, (400,)),
    Row("listOffers", "get", "/api/offers", None, 200, LIST),
    Row("createOffer", "post", "/api/offers", GENERIC, 201, OBJECT, (400,)),
    Row("listPartners", "get", "/api/partners", None, 200, LIST),
    Row("routePartners", "post", "/api/partners/route", GENERIC, 200, OBJECT),
    Row("listAuditEvents", "get", "/api/audit-log", None, 200, LIST),
    Row("testWebhook", "post", "/api/webhooks/test", GENERIC, 200, OBJECT),
    Row("listWebhooks", "get", "/api/webhooks", None, 200, OBJECT),
    Row("createWebhook", "post", "/api/webhooks", GENERIC, 201, OBJECT),
    Row("pushErpInvoices", "post", ERP, GENERIC, 202, OBJECT, (400,)),
    Row("getSession", "get", "/api/auth/session", None, 200, OBJECT),
    Row("getAssignmentRules", "get", COUNTRY, None, 200, OBJECT, (), COUNTRY_IN_PATH),
    Row("getHealth", "get", "/api/health", None, 200, OBJECT),
    Row("login", "post", "/api/auth/login", GENERIC, 200, OBJECT, (401,)),
    Row("logout", "post", "/api/auth/logout", None, 200, OBJECT),
    Row("createUploadUrl", "post", "/api/storage/invoices/upload-url", GENERIC, 200, OBJECT),
    Row("listApiKeys", "get", KEYS, None, 200, LIST),
    Row("createApiKey", "post", KEYS, GENERIC, 201, OBJECT, (400,)),
    Row("revokeApiKey", "delete", KEYS, None, 200, OBJECT, (), ID_IN_QUERY),
)

INVOICE_INPUT: Final = {
    "sellerId": "string",
    "debtorId": "string",
    "invoiceNumber": "string",
    "amount": "number",
    "currency": "string",
    "issueDate": "string, format date",
    "dueDate": "string, format date",
}
REQUIRED_INPUT: Final = ("sellerId", "debtorId", "invoiceNumber", "amount", "currency")
IDENTITY: Final = {"id": "string", "registryId": "string", "status": "string"}

SCHEMAS: Final[Mapping[str, tuple[Mapping[str, str], tuple[str, ...]]]] = {
    "InvoiceInput": (INVOICE_INPUT, REQUIRED_INPUT),
    "Invoice": (INVOICE_INPUT | IDENTITY, ()),
    "InvoiceResponse": ({"data": "Invoice", "mode": "string"}, ()),
    "ObjectResponse": ({"data": "free-form object", "mode": "string"}, ()),
    "ListResponse": ({"data": "array of free-form object", "mode": "string"}, ()),
    "ErrorResponse": ({"error": "object", "mode": "string"}, ()),
    "GenericBody": ({}, ()),
}
"""Members with their types, and required members (specification, Resources and Errors)."""

ERROR_MEMBERS: Final = ("code", "message", "requestId")
ERROR_CODES: Final = (
    "invalid_request",
    "authentication_required",
    "insufficient_scope",
    "resource_not_found",
    "rate_limit_exceeded",
)
ERROR_RESPONSES: Final = {400: "BadRequest", 401: "Unauthorized", 404: "NotFound"}


def of_every_row(check: Callable[[Row], None]) -> Callable[[], None]:
    """One test of the whole table, which names the rows for which ``check`` fails."""

    def test() -> None:
        failed = {}
        for row in ENDPOINTS:
            try:
                check(row)
            except AssertionError as error:
                failed[row.id] = str(error)
        assert not failed

    test.__name__, test.__doc__ = check.__name__, check.__doc__
    return test


GENERIC_ROWS: Final = tuple(row for row in ENDPOINTS if row.body == GENERIC)
REFUSABLE: Final = tuple(row for row in GENERIC_ROWS if 400 in row.errors)
"""Generic operations for which the specification lists a 400, so a known member may have a type."""
IGNORANT: Final = tuple(row for row in GENERIC_ROWS if 400 not in row.errors)

ANNOTATIONS: Final = {"description", "examples", "summary", "x-assumption"}


def operations(document: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """Every operation by method and path."""
    return {
        (method, path): item[method]
        for path, item in document["paths"].items()
        for method in METHODS & item.keys()
    }


def operation(document: Mapping[str, Any], row: Row) -> dict[str, Any]:
    """The operation of a row."""
    found: dict[str, Any] = document["paths"][row.path][row.method]
    return found


def resolved(document: Mapping[str, Any], value: Any) -> Any:
    """``value``, or what it refers to when it is a reference."""
    if isinstance(value, dict) and "$ref" in value:
        found: Any = document
        for step in value["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        return found
    return value


def body_schema(document: Mapping[str, Any], row: Row) -> dict[str, Any]:
    """The schema of the operation's JSON body, as it stands at the operation."""
    schema: dict[str, Any] = operation(document, row)["requestBody"]["content"][JSON]["schema"]
    return schema


def problems(document: Mapping[str, Any], schema: Mapping[str, Any], value: Any) -> list[str]:
    """Why ``schema`` rejects ``value``; formats are asserted."""
    whole = {**schema, "components": document["components"]}
    validator = jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
    return [error.message for error in validator.iter_errors(value)]


def type_name(schema: Mapping[str, Any]) -> str:
    """A schema in the words of the specification's tables."""
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    if schema["type"] == "array":
        return f"array of {type_name(schema['items'])}"
    free = "free-form " if schema.get("additionalProperties") is True else ""
    date = f", format {schema['format']}" if "format" in schema else ""
    return f"{free}{schema['type']}{date}"


def keywords(schema: Mapping[str, Any]) -> Iterator[str]:
    """Every keyword of a schema and of its members that could reject a value."""
    for key, value in schema.items():
        if key == "properties":
            for member in value.values():
                yield from keywords(member)
        elif key == "items":
            yield from keywords(value)
        elif key == "allOf":
            for part in value:
                if part.get("additionalProperties") is not True:  # an object of any members
                    yield from keywords(part)
        elif key not in ANNOTATIONS:
            yield key


def without_prose(value: Any) -> Any:
    """``value`` without its descriptions and examples."""
    if isinstance(value, dict):
        return {key: without_prose(one) for key, one in value.items() if key not in ANNOTATIONS}
    return [without_prose(one) for one in value] if isinstance(value, list) else value


def lost(before: Any, after: Any, place: str = "") -> Iterator[str]:
    """Where ``after`` no longer says what ``before`` says; prose may be said anew."""
    if isinstance(after, dict) and before == after.get("allOf", [None])[0]:
        return  # a reference that makes room for other keywords
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key not in after:
                yield f"{place}/{key} is gone"
            elif key != "description":
                yield from lost(value, after[key], f"{place}/{key}")
    elif isinstance(before, list) and isinstance(after, list):
        for index, (old, new) in enumerate(zip(before, after, strict=False)):
            yield from lost(old, new, f"{place}/{index}")
        if len(after) < len(before):
            yield f"{place} is shorter"
    elif before != after:
        yield f"{place} was {before!r} and is {after!r}"


# The published document


@DOCUMENTS
def test_the_document_is_valid_openapi(document: dict[str, Any]) -> None:
    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []


def test_the_contract_is_openapi_3_1_0_of_version_0_1_0() -> None:
    assert (BASE["openapi"], BASE["info"]["version"]) == ("3.1.0", "0.1.0")


@DOCUMENTS
def test_there_are_the_published_operations_and_no_others(document: dict[str, Any]) -> None:
    assert operations(document).keys() == {(row.method, row.path) for row in ENDPOINTS}


@of_every_row
def test_an_operation_is_named_as_promised(row: Row) -> None:
    assert operation(BASE, row)["operationId"] == row.id


@of_every_row
def test_an_operation_returns_the_published_statuses_and_no_others(row: Row) -> None:
    assert operation(BASE, row)["responses"].keys() == {str(row.success), *map(str, row.errors)}


@of_every_row
def test_a_success_response_is_the_published_envelope_as_json(row: Row) -> None:
    content = operation(BASE, row)["responses"][str(row.success)]["content"]
    assert content == {JSON: {"schema": {"$ref": f"#/components/schemas/{row.envelope}"}}}


@of_every_row
def test_an_error_response_is_the_shared_response_of_its_status(row: Row) -> None:
    responses = operation(BASE, row)["responses"]
    for status in row.errors:
        shared = f"#/components/responses/{ERROR_RESPONSES[status]}"
        assert responses[str(status)] == {"$ref": shared}


@of_every_row
def test_a_body_is_required_where_one_is_published_and_absent_elsewhere(row: Row) -> None:
    expected = row.body and {
        "required": True,
        "content": {JSON: {"schema": {"$ref": f"#/components/schemas/{row.body}"}}},
    }
    assert operation(BASE, row).get("requestBody") == expected


@of_every_row
def test_an_operation_has_the_published_parameter_or_none(row: Row) -> None:
    found = without_prose(operation(BASE, row).get("parameters", []))
    one = row.parameter and {"name": row.parameter[0], "in": row.parameter[1]}
    assert found == ([{**one, "required": True, "schema": {"type": "string"}}] if one else [])


@of_every_row
def test_an_operation_has_a_summary_a_description_and_one_declared_tag(row: Row) -> None:
    declared = operation(BASE, row)
    (tag,) = declared["tags"]
    assert tag in {one["name"] for one in BASE["tags"] if one["description"]}
    assert declared["summary"]
    assert declared["description"]


ONE_SPACE: Final = re.compile(r"\s+")
INTRODUCTION: Final = {
    "the sandbox": "returns mock data, does not trigger live financing, payment or partner systems",
    "synthetic data": "is to be used with synthetic entities only",
    "the live environment": "restricted and coming soon; it will have real records and stricter "
    "permissions after partner onboarding",
    "go-live": "Commercial and regulatory onboarding, live credentials with least-privilege "
    "scopes, approved webhook endpoints, validated retry and error handling, KYB/KYC and "
    "screening-provider controls, and partner acceptance testing.",
    "the limit of the sandbox": "120 requests per minute and key; this number is a placeholder",
    "live limits": "Live limits are tiered by partner contract.",
    "a limit that is exceeded": "corresponds to the code `rate_limit_exceeded`",
}
TAGS: Final = {
    "auth": "HTTP-only cookie sessions and tenant-scoped row-level policies",
    "api-keys": "a sandbox prefix followed by the secret. Keys are scoped by action. The secret is "
    "displayed only once, at creation; only a SHA-256 digest of the key is retained.",
    "partners": "never connects to a live partner network",
    "webhooks": "signing secrets and logs are placeholders",
}


@DOCUMENTS
@in_turn("about", INTRODUCTION)
def test_the_introduction_has_what_the_specification_states(
    document: dict[str, Any], about: str
) -> None:
    assert INTRODUCTION[about] in ONE_SPACE.sub(" ", document["info"]["description"])


@DOCUMENTS
@in_turn("name", TAGS)
def test_a_tag_has_what_the_specification_states(document: dict[str, Any], name: str) -> None:
    (tag,) = (one for one in document["tags"] if one["name"] == name)
    assert TAGS[name] in tag["description"]


def test_only_the_codes_that_the_specification_pairs_with_a_status_are_paired() -> None:
    responses = BASE["components"]["responses"]
    paired = {
        name: [code for code in ERROR_CODES if code in response["description"]]
        for name, response in responses.items()
    }
    assert paired == {
        "BadRequest": ["invalid_request"],  # of an invoice without a required field
        "Unauthorized": ["authentication_required"],
        "NotFound": [],
    }
    assert "required invoice field is missing" in responses["BadRequest"]["description"]


def test_an_offer_is_not_said_to_be_on_a_financing_request() -> None:
    (tag,) = (one for one in BASE["tags"] if one["name"] == "offers")
    assert tag["description"] == "Indicative offers."


# Credentials


def test_a_bearer_credential_and_a_key_header_are_alternatives() -> None:
    assert BASE["security"] == [{"bearerAuth": []}, {"apiKeyAuth": []}]
    assert without_prose(BASE["components"]["securitySchemes"]) == {
        "bearerAuth": {"type": "http", "scheme": "bearer"},
        "apiKeyAuth": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }


def test_only_health_departs_from_the_published_security() -> None:
    own = {row.id: operation(BASE, row).get("security") for row in ENDPOINTS}
    assert {name: value for name, value in own.items() if value is not None} == {"getHealth": []}


@of_every_row
def test_a_scope_is_the_same_for_every_way_to_send_a_credential(row: Row) -> None:
    scopes = [scopes for one in operation(MERGED, row)["security"] for scopes in one.values()]
    assert scopes == scopes[:1] * (0 if row.id == "getHealth" else 3)


def test_only_health_and_login_can_be_called_without_a_credential() -> None:
    security = {row.id: operation(MERGED, row)["security"] for row in ENDPOINTS}
    assert {name for name, one in security.items() if not one or {} in one} == {
        "getHealth",
        "login",
    }


def test_a_key_can_be_given_every_scope_that_an_operation_needs_and_no_unknown_one() -> None:
    needed = {
        scope
        for row in ENDPOINTS
        for one in operation(MERGED, row)["security"]
        for scope in one.get("bearerAuth", [])
    }
    create = next(row for row in ENDPOINTS if row.id == "createApiKey")
    offered = body_schema(MERGED, create)["properties"]["scopes"]["items"]["enum"]
    assert sorted(offered) == sorted(
        [*needed, "*", "sandbox:control", "sandbox:read", "workspaces:create"]
    )


# Schemas


def test_there_are_the_published_components_and_no_others() -> None:
    components = BASE["components"]
    assert components.keys() == {"securitySchemes", "schemas", "responses"}
    assert components["schemas"].keys() == SCHEMAS.keys()
    assert set(components["responses"]) == set(ERROR_RESPONSES.values())


@in_turn("name", SCHEMAS)
def test_a_schema_has_the_published_members_and_no_others(name: str) -> None:
    members = BASE["components"]["schemas"][name].get("properties", {})
    assert {member: type_name(one) for member, one in members.items()} == SCHEMAS[name][0]


ALWAYS_SENT: Final[Mapping[str, tuple[str, ...]]] = {
    "Invoice": (*IDENTITY, *REQUIRED_INPUT),
    **dict.fromkeys(("InvoiceResponse", "ObjectResponse", "ListResponse"), ("data", "mode")),
    "ErrorResponse": ("error", "mode"),
}


@pytest.mark.parametrize("name", ALWAYS_SENT)
def test_the_overlay_says_which_members_a_response_always_has(name: str) -> None:
    assert tuple(MERGED["components"]["schemas"][name]["required"]) == ALWAYS_SENT[name]


@in_turn("name", SCHEMAS)
def test_a_schema_requires_the_published_members_and_no_others(name: str) -> None:
    schema = BASE["components"]["schemas"][name]
    assert schema["type"] == "object"
    assert sorted(schema.get("required", [])) == sorted(SCHEMAS[name][1])


def test_a_published_schema_says_nothing_else() -> None:
    known = {"type", "required", "properties", "items", "format", "additionalProperties", "$ref"}
    schemas = BASE["components"]["schemas"]
    assert {key for schema in schemas.values() for key in keywords(schema)} <= known


def test_an_error_has_a_code_a_message_and_a_request_identifier() -> None:
    error = BASE["components"]["schemas"]["ErrorResponse"]["properties"]["error"]
    assert {name: type_name(one) for name, one in error["properties"].items()} == dict.fromkeys(
        ERROR_MEMBERS, "string"
    )
    assert "required" not in error


def test_the_initial_error_codes_are_documented_and_more_may_come() -> None:
    error = BASE["components"]["schemas"]["ErrorResponse"]["properties"]["error"]
    assert [
        code for code in ERROR_CODES if code not in error["properties"]["code"]["description"]
    ] == []
    assert "enum" not in error["properties"]["code"]


@in_turn("name", MERGED["components"]["responses"])
def test_every_shared_response_is_an_error(name: str) -> None:
    content = MERGED["components"]["responses"][name]["content"]
    assert content[JSON]["schema"] == {"$ref": "#/components/schemas/ErrorResponse"}


# The overlay


def test_every_assumption_gives_its_reason_and_the_gap_it_fills() -> None:
    bare = [
        action["target"]
        for action in OVERLAY["actions"]
        if not (action.get("description") and action.get("x-gap"))
    ]
    assert bare == []


def test_no_assumption_removes_anything() -> None:
    removed = [action["target"] for action in OVERLAY["actions"] if "remove" in action]
    assert [target for target in removed if not target.endswith("['$ref']")] == []
    assert list(lost(BASE, MERGED)) == []


@of_every_row
def test_a_published_body_stays_as_required_as_it_was(row: Row) -> None:
    before = operation(BASE, row).get("requestBody", {})
    after = operation(MERGED, row).get("requestBody", {})
    assert after.get("required", False) == before.get("required", False)
    assert after.get("content", {}).keys() == (before or after).get("content", {}).keys()


def test_only_the_verification_run_gets_a_body() -> None:
    before, after = (
        {row.id for row in ENDPOINTS if "requestBody" in operation(document, row)}
        for document in (BASE, MERGED)
    )
    assert after - before == {"runVerification"}


@pytest.mark.parametrize("name", [INPUT, GENERIC])
def test_a_published_body_schema_changes_in_prose_only(name: str) -> None:
    before, after = (document["components"]["schemas"][name] for document in (BASE, MERGED))
    assert without_prose(after) == without_prose(before)


@pytest.mark.parametrize(
    "row", [row for row in ENDPOINTS if row.body == INPUT], ids=lambda row: row.id
)
def test_an_invoice_body_gets_no_further_member(row: Row) -> None:
    assert body_schema(MERGED, row) == body_schema(BASE, row)


@pytest.mark.parametrize("amount", [-1, 0, 0.001, 1e300, 10**40])
def test_any_number_stays_an_amount(amount: float) -> None:
    invoice = {**dict.fromkeys(REQUIRED_INPUT, "x"), "amount": amount}
    assert problems(MERGED, {"$ref": "#/components/schemas/InvoiceInput"}, invoice) == []


@in_turn("row", GENERIC_ROWS, ids=lambda row: row.id)
def test_a_generic_body_only_gets_members_that_may_be_left_out(row: Row) -> None:
    schema = body_schema(MERGED, row)
    assert schema.keys() == {"allOf", "properties"}
    narrowing = {"required", "additionalProperties", "unevaluatedProperties", "dependentRequired"}
    assert narrowing.isdisjoint(keywords(schema))
    assert problems(MERGED, schema, {}) == []
    assert problems(MERGED, schema, {"a member that nobody knows": [None]}) == []


@pytest.mark.parametrize("row", IGNORANT, ids=lambda row: row.id)
def test_a_member_is_untyped_where_no_400_is_published(row: Row) -> None:
    # A password is marked as a secret, which is a remark and no condition.
    assert set(keywords(body_schema(MERGED, row))) <= {"$ref", "format"}


@pytest.mark.parametrize("row", REFUSABLE, ids=lambda row: row.id)
def test_an_impossible_member_is_rejected_where_a_400_is_published(row: Row) -> None:
    schema = body_schema(MERGED, row)
    typed = [name for name, one in schema["properties"].items() if "type" in one]
    assert typed
    assert [name for name in typed if not problems(MERGED, schema, {name: None})] == []


def test_an_erp_invoice_without_a_frame_has_untyped_members() -> None:
    push = next(row for row in ENDPOINTS if row.id == "pushErpInvoices")
    members = body_schema(MERGED, push)["properties"]
    assert {name for name, one in members.items() if list(keywords(one))} == {"invoices"}


OPEN_BY_NATURE: Final = (
    ("pushErpInvoices", "source"),
    ("createApiKey", "name"),
    ("createOffer", "conditions"),
)


@in_turn(("operation_id", "member"), OPEN_BY_NATURE)
@in_turn("value", ["SAP", 7, None, ["x"], {"x": 1}], ids=repr)
def test_any_value_of_an_open_member_is_accepted(
    operation_id: str, member: str, value: Any
) -> None:
    row = next(row for row in ENDPOINTS if row.id == operation_id)
    assert problems(MERGED, body_schema(MERGED, row), {member: value}) == []


def test_the_overlay_names_every_request_that_it_rejects_beyond_the_published_contract() -> None:
    head = ONE_SPACE.sub(" ", (OPENAPI / "overlay.yaml").read_text().partition("overlay:")[0])
    narrowed = {
        row.id for row in GENERIC_ROWS if set(keywords(body_schema(MERGED, row))) > {"$ref"}
    }
    assert narrowed - {"login"} == {"createFinancingRequest", "createOffer"} | {
        "pushErpInvoices",
        "createApiKey",
    }
    assert "financing requests, offers, the ERP push and API keys" in head
    limited = {
        resolved(MERGED, one)["name"]
        for row in ENDPOINTS
        for one in operation(MERGED, row).get("parameters", [])
        if resolved(MERGED, one)["schema"].keys() != {"type"}
    }
    assert limited == {"limit", "createdFrom", "createdTo", "from", "to"}
    assert all(f"`{name}`" in head for name in limited)


@pytest.mark.parametrize("item", [None, 17, "x", [], {"amount": "much"}], ids=repr)
def test_an_item_of_an_erp_batch_is_never_rejected(item: Any) -> None:
    push = next(row for row in ENDPOINTS if row.id == "pushErpInvoices")
    assert problems(MERGED, body_schema(MERGED, push), {"invoices": [item]}) == []


@of_every_row
def test_a_published_parameter_stays_and_a_new_one_is_optional(row: Row) -> None:
    before = operation(BASE, row).get("parameters", [])
    after = [resolved(MERGED, one) for one in operation(MERGED, row).get("parameters", [])]
    assert without_prose(after[: len(before)]) == without_prose(before)
    assert [one["name"] for one in after[len(before) :] if one["required"]] == []


def test_no_header_or_cookie_is_a_parameter() -> None:
    places = {
        resolved(MERGED, one)["in"]
        for row in ENDPOINTS
        for one in operation(MERGED, row).get("parameters", [])
    }
    assert places == {"path", "query"}


@of_every_row
def test_every_response_names_its_request(row: Row) -> None:
    responses = operation(MERGED, row)["responses"].values()
    headers = [resolved(MERGED, one)["headers"]["X-Request-Id"] for one in responses]
    assert all(resolved(MERGED, one)["required"] for one in headers)


@pytest.mark.parametrize(
    ("response", "header"),
    [
        ("Unauthorized", "WWW-Authenticate"),
        ("Forbidden", "WWW-Authenticate"),
        ("MethodNotAllowed", "Allow"),
        ("TooManyRequests", "Retry-After"),
        ("TooManyRequests", "RateLimit"),
    ],
)
def test_an_error_brings_the_header_that_http_wants_with_it(response: str, header: str) -> None:
    assert header in MERGED["components"]["responses"][response]["headers"]


# What an operation may return beyond the published statuses

SCOPELESS: Final = {"getHealth", "login", "getSession", "logout"}
PAGED: Final = {row.id for row in ENDPOINTS if row.envelope == LIST}
REFERRING: Final = {"runVerification", "createFinancingRequest", "createOffer", "revokeApiKey"}
WITH_BODY: Final = {row.id for row in ENDPOINTS if row.body} | {"runVerification"}
EVERYWHERE: Final = {row.id for row in ENDPOINTS}

RESPONSES: Final[Mapping[str, set[str]]] = {
    "400": EVERYWHERE,  # also an unknown name in X-Sandbox-Scenario or Prefer
    "401": EVERYWHERE - {"getHealth"},
    "403": EVERYWHERE - SCOPELESS | {"logout"},  # a logout by another site's page is rejected
    "404": REFERRING | {"getInvoice"},
    "405": EVERYWHERE,
    "409": REFERRING,
    "413": WITH_BODY,
    "415": WITH_BODY,
    "429": EVERYWHERE - {"getHealth"},
}


def test_an_error_status_is_declared_where_it_can_happen_and_nowhere_else() -> None:
    declared = {
        status: {row.id for row in ENDPOINTS if status in operation(MERGED, row)["responses"]}
        for row in ENDPOINTS
        for status in operation(MERGED, row)["responses"]
        if status >= "400"
    }
    assert declared == RESPONSES


@in_turn("name", sorted(PAGED))
def test_a_list_can_be_paged(name: str) -> None:
    row = next(row for row in ENDPOINTS if row.id == name)
    names = {resolved(MERGED, one)["name"] for one in operation(MERGED, row)["parameters"]}
    assert {"limit", "cursor"} <= names
    assert {"Link", "X-Total-Count"} <= operation(MERGED, row)["responses"]["200"]["headers"].keys()


# Examples


@of_every_row
def test_every_operation_shows_a_success_response(row: Row) -> None:
    assert operation(MERGED, row)["responses"][str(row.success)]["content"][JSON]["examples"]


def test_every_error_code_is_shown() -> None:
    shown = {
        example["value"]["error"]["code"]
        for response in MERGED["components"]["responses"].values()
        for example in response["content"][JSON]["examples"].values()
    }
    assert shown == set(ERROR_CODES)


def holders(value: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of the merged document that has a schema and examples of it."""
    if isinstance(value, dict):
        if "schema" in value and value.keys() & {"example", "examples"}:
            yield place, value
        for key, one in value.items():
            yield from holders(one, f"{place}/{key}")
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from holders(one, f"{place}/{index}")


HOLDERS: Final = dict(holders(MERGED))


def test_every_example_is_what_its_schema_says() -> None:
    assert len(HOLDERS) > 100
    wrong = {}
    for place, holder in HOLDERS.items():
        values = {name: one["value"] for name, one in holder.get("examples", {}).items()}
        values |= {"example": holder["example"]} if "example" in holder else {}
        for name, value in values.items():
            if found := problems(MERGED, holder["schema"], value):
                wrong[f"{place} {name}"] = found
    assert not wrong


def test_a_listed_invoice_is_what_an_invoice_is() -> None:
    content = MERGED["paths"]["/api/invoices"]["get"]["responses"]["200"]["content"][JSON]
    listed = [one for example in content["examples"].values() for one in example["value"]["data"]]
    invoice = {"$ref": "#/components/schemas/Invoice"}
    assert listed
    assert [found for one in listed for found in problems(MERGED, invoice, one)] == []


@of_every_row
def test_every_success_example_is_marked_as_mock_data(row: Row) -> None:
    content = operation(MERGED, row)["responses"][str(row.success)]["content"]
    modes = {one["value"]["mode"] for one in content[JSON]["examples"].values()}
    assert modes == {"sandbox_mock"}


@of_every_row
def test_every_link_leads_to_an_operation_and_fills_its_parameters(row: Row) -> None:
    by_id = {one["operationId"]: one for one in operations(MERGED).values()}
    links = operation(MERGED, row)["responses"][str(row.success)].get("links", {})
    for link in links.values():
        target = by_id[link["operationId"]].get("parameters", [])
        required = {one["name"] for one in target if resolved(MERGED, one)["required"]}
        assert link["description"]
        assert link.get("parameters", {}).keys() == required
