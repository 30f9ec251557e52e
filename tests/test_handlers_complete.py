"""Every published operation has a handler of this project, and every handler an operation."""

from __future__ import annotations

from invoice_sandbox.control.functions import CONTROL_FUNCTIONS
from invoice_sandbox.coverage.control import COVERAGE_FUNCTIONS
from invoice_sandbox.project.loader import (
    default_project,
    handler_functions,
    load_project,
    operation_names,
)
from tests.support import Running


def test_no_operation_is_answered_from_the_contract_alone(server: Running) -> None:
    project = server.sandbox.engine.project
    without = [one for one in project.contract.operations if one not in project.handlers]
    assert without == []


def test_the_well_known_operations_are_all_there(server: Running) -> None:
    names = (
        "listInvoices createInvoice getInvoice generateFingerprint runVerification "
        "listFinancingRequests createFinancingRequest listOffers createOffer listPartners "
        "routePartners listAuditEvents testWebhook listWebhooks createWebhook pushErpInvoices "
        "getSession getAssignmentRules getHealth login logout createUploadUrl listApiKeys "
        "createApiKey revokeApiKey"
    )
    assert set(server.sandbox.engine.project.contract.operations) == set(names.split())


def test_every_handler_is_an_operation_of_the_contract_or_of_the_levers() -> None:
    folder = default_project()
    project = load_project(folder)
    names = {
        *operation_names(project.contract.document),
        *operation_names(project.control.document),
    }
    assert set(handler_functions(folder / "handlers")) <= names


def test_every_lever_of_the_project_has_a_handler(server: Running) -> None:
    project = server.sandbox.engine.project
    assert {**CONTROL_FUNCTIONS, **COVERAGE_FUNCTIONS}.keys().isdisjoint(project.handlers)
    assert set(project.control.operations) == {**CONTROL_FUNCTIONS, **COVERAGE_FUNCTIONS}.keys() | (
        project.handlers.keys() - project.contract.operations.keys()
    )


def test_a_handler_stands_in_the_module_of_its_tag() -> None:
    folder = default_project()
    project = load_project(folder)
    tags = {one.id: one.tag for one in project.contract.operations.values()}
    modules = {
        name: file.stem for name, (_, file) in handler_functions(folder / "handlers").items()
    }
    names = operation_names(project.contract.document)
    homes = {tags[names[name]]: module for name, module in modules.items() if name in names}
    assert all(homes[tags[names[name]]] == modules[name] for name in modules if name in names)
