"""Every published operation has a handler of this project, and every handler an operation."""

from __future__ import annotations

import ast

from invoice_sandbox.base.ids import snake_case
from invoice_sandbox.project.code import handler_functions, operation_names
from invoice_sandbox.project.loader import default_project, load_project
from tests.support import Running
from tests.test_control_contract import FUNCTIONS


def test_every_published_operation_has_a_handler(server: Running) -> None:
    project = server.sandbox.engine.project
    without = [one for one in project.contract.operations if one not in project.handlers]
    assert without == []


def test_the_well_known_operations_are_published(server: Running) -> None:
    names = (
        "listInvoices createInvoice getInvoice generateFingerprint runVerification "
        "listFinancingRequests createFinancingRequest listOffers createOffer listPartners "
        "routePartners listAuditEvents testWebhook listWebhooks createWebhook pushErpInvoices "
        "getSession getAssignmentRules getHealth login logout createUploadUrl listApiKeys "
        "createApiKey revokeApiKey"
    )
    assert set(server.sandbox.engine.project.contract.operations) == set(names.split())


def test_every_handler_is_an_operation_of_the_contract_or_of_the_control_api() -> None:
    folder = default_project()
    project = load_project(folder)
    names = {
        *operation_names(project.contract.document),
        *operation_names(project.control.document),
    }
    assert set(handler_functions(folder / "handlers")) <= names


def test_every_control_operation_of_the_project_has_a_handler(server: Running) -> None:
    project = server.sandbox.engine.project
    assert FUNCTIONS.isdisjoint(project.handlers)
    assert set(project.control.operations) == FUNCTIONS | (
        project.handlers.keys() - project.contract.operations.keys()
    )


def test_a_handler_is_in_the_module_of_its_tag() -> None:
    project = load_project(default_project())
    operations = {**project.contract.operations, **project.control.operations}
    tags = {snake_case(operations[one].id): operations[one].tag for one in project.handlers}
    modules = {
        name: file.stem
        for name, (_, file) in handler_functions(default_project() / "handlers").items()
    }
    assert modules == {name: snake_case(tag) for name, tag in tags.items()}


def test_a_handler_module_has_handlers_and_nothing_else_of_its_own() -> None:
    for file in sorted((default_project() / "handlers").glob("[!_]*.py")):
        body = ast.parse(file.read_text()).body
        assert not [one for one in body if isinstance(one, ast.AsyncFunctionDef | ast.ClassDef)], (
            file
        )
        functions = [one for one in body if isinstance(one, ast.FunctionDef)]
        assert functions
        assert not [one.name for one in functions if one.name.startswith("_")], file
