"""Acceptance plans: what a client must do, as data, checked when a plan is loaded."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import convert

from invoice_sandbox.base.errors import UserError, suggestion
from invoice_sandbox.openapi.load.documents import load_document, parse_text, pointer_text
from invoice_sandbox.openapi.load.pointers import at_pointer
from invoice_sandbox.openapi.load.text import DocumentError, reject_all
from invoice_sandbox.openapi.schema.file_schema import (
    FileProblem,
    FileSchema,
    Pointer,
    reject_problems,
)
from invoice_sandbox.scenarios.script import resolved, texts

SCHEMA: Final = Path(__file__).with_name("plan.schema.json")
"""The JSON Schema of a plan."""

EVERY: Final = "*"
NONE: Final = "none"

_PLANS: Final = "acceptance"
_WINDOW: Final = "PT60S"
_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
_GIVEN: Final = ("endpoint", "secret")
"""Names that the runner gives a value, beside those of the plan and those that steps keep."""

_PLACE: Final = re.compile(r"\{(/[^}]*)\}")

Rule = Mapping[str, Any]
"""A rule of a plan: ``rule`` in plan.schema.json."""


@dataclass(frozen=True)
class Case:
    """One run of the client: its task, the steps of the operator, and the rules.

    ``then`` are tasks that follow in the same workspace. ``invariants`` are those of the plan that
    hold for the task.
    """

    task: Mapping[str, Any]
    rules: tuple[Rule, ...]
    controls: tuple[Rule, ...] = ()
    then: tuple[Mapping[str, Any], ...] = ()
    name: str = ""
    when: str | None = None
    unless: str | None = None
    clock: str = "live"
    webhooks: tuple[str, ...] = ()
    setup: tuple[Mapping[str, Any], ...] = ()
    during: tuple[Mapping[str, Any], ...] = ()
    ends: Literal["client", "steps"] = "client"
    window: timedelta = timedelta(minutes=1)
    effects: tuple[Rule, ...] = ()
    demands: str | None = None
    review: Mapping[str, Any] | None = None
    probe: str | None = None
    invariants: tuple[Rule, ...] = ()

    def demanded(self, declared: Collection[str]) -> Case:
        """Return the case for a client with these capabilities: its effects are rules if the client
        declares the one that the case demands."""
        if self.demands not in declared:
            return self
        return replace(self, rules=(*self.rules, *self.effects), effects=())


@dataclass(frozen=True)
class Check:
    """A requirement of a plan. ``pointer`` is its place in the file."""

    id: str
    level: str
    proves: str
    specification: str
    cases: tuple[Case, ...]
    pointer: str = ""


@dataclass(frozen=True)
class Plan:
    """A plan; ``digest`` is the SHA-256 of its content.

    ``advice`` is what to do about a broken invariant, ``provoke`` what shows if a client keeps one,
    both by the names of invariants.
    ``search`` are the situations of a search, without ``$`` names of the plan. ``pointers`` are the
    places of operations and event types in the contract, by their names.
    """

    name: str
    purpose: str
    checks: tuple[Check, ...]
    capabilities: Mapping[str, str] = field(default_factory=dict)
    tasks: Mapping[str, str] = field(default_factory=dict)
    asks: Mapping[str, str] = field(default_factory=dict)
    probes: Mapping[str, Case] = field(default_factory=dict)
    invariants: Mapping[str, Rule] = field(default_factory=dict)
    advice: Mapping[str, str] = field(default_factory=dict)
    provoke: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    pointers: Mapping[str, str] = field(default_factory=dict)
    search: tuple[Mapping[str, Any], ...] = ()
    credentials: Mapping[str, Any] | None = None
    preflight: str | None = None
    digest: str = ""

    def words_of(self, task: Mapping[str, Any]) -> str:
        """Return a task in words: its text in ``asks`` with the values of the task."""
        name = task["name"]
        text = self.asks.get(name) or self.tasks.get(name) or f"do the task {name}"
        return _PLACE.sub(lambda match: str(at_pointer(task, match[1])), text.strip())


@dataclass(frozen=True)
class PlanVocabulary:
    """The names of a served project that a plan may use, and their places in its contract.

    ``scenarios`` None: they are not known, and not checked.
    """

    operations: Collection[str]
    events: Collection[str]
    scenarios: Collection[str] | None
    pointers: Mapping[str, str] = field(default_factory=dict)


def plan_of(project: Path) -> Path:
    """Return the only plan of a project. Raises UserError."""
    files = sorted((project / _PLANS).glob("*.yaml"))
    if len(files) != 1:
        found = ", ".join(file.name for file in files) or "none"
        raise UserError(f"choose a plan with --plan; {project / _PLANS} has {found}")
    return files[0]


def vocabulary_of(
    contract: Mapping[str, Any], scenarios: Collection[str] | None = None
) -> PlanVocabulary:
    """Return the vocabulary of a contract."""
    operations = {
        operation["operationId"]: pointer_text(("paths", place, method))
        for place, path_item in contract.get("paths", {}).items()
        for method, operation in path_item.items()
        if method in _METHODS and "operationId" in operation
    }
    events = {
        name: pointer_text(("webhooks", name, "post")) for name in contract.get("webhooks", {})
    }
    return PlanVocabulary([*operations], [*events], scenarios, operations | events)


def load_plan(file: Path, vocabulary: PlanVocabulary) -> Plan:
    """Return the plan in a file. Raises DocumentError with all problems."""
    document = _with_values(load_document(file))
    reject_problems(file, plan_problems(document, file.stem, vocabulary))
    return _plan(document, file.read_bytes(), vocabulary)


def read_plan(content: bytes, name: str, vocabulary: PlanVocabulary) -> Plan:
    """Return the plan in a text; ``name`` is where it is from. Raises DocumentError."""
    try:
        document = _with_values(parse_text(content.decode(), name))
    except UnicodeDecodeError:
        raise DocumentError(name, "it is not UTF-8") from None
    stem = document.get("name", "") if isinstance(document, Mapping) else ""
    reject_all(
        name,
        (
            DocumentError(_in_text(name, problem.pointer), problem.text, problem.advice)
            for problem in plan_problems(document, stem, vocabulary)
        ),
    )
    return _plan(document, content, vocabulary)


def _in_text(name: str, pointer: Pointer) -> str:
    return f"{name} at {pointer_text(pointer)}" if pointer else name


def _plan(document: Mapping[str, Any], content: bytes, vocabulary: PlanVocabulary) -> Plan:
    plan = convert(_with_invariants(document), Plan)
    checks = [replace(check, pointer=f"/checks/{index}") for index, check in enumerate(plan.checks)]
    digest = hashlib.sha256(content).hexdigest()
    return replace(
        plan, checks=tuple(checks), pointers=vocabulary.pointers, digest=f"sha256:{digest}"
    )


def _with_invariants(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a document whose cases and probes have the invariants that hold for them."""
    declared: Mapping[str, Rule] = document.get("invariants", {})

    def completed(case: Mapping[str, Any]) -> Mapping[str, Any]:
        held = [rule for name, rule in declared.items() if name not in case.get("except", ())]
        return {**case, "invariants": held}

    checks = [
        {**check, "cases": [completed(case) for case in check["cases"]]}
        for check in document["checks"]
    ]
    probes = {name: completed(probe) for name, probe in document.get("probes", {}).items()}
    return {**document, "checks": checks, "probes": probes}


def _with_values(document: Any) -> Any:
    """Return the document with the values of the plan in its checks and probes."""
    if not isinstance(document, Mapping) or not isinstance(document.get("values"), Mapping):
        return document
    values, filled = document["values"], ("checks", "probes", "search")
    with_values = {part: resolved(document[part], values) for part in filled if part in document}
    return {**document, **with_values}


def plan_problems(document: Any, name: str, vocabulary: PlanVocabulary) -> list[FileProblem]:
    """Return the problems of a plan that its schema finds, else those that it cannot express."""
    parts = document if isinstance(document, Mapping) else {}
    schema = FileSchema.read(SCHEMA, _names(parts, vocabulary))
    return schema.problems(document) or list(_wrong_names(document, name))


def _names(document: Mapping[str, Any], vocabulary: PlanVocabulary) -> dict[str, Collection[str]]:
    """Return the names that a plan may use: those of the project, and its own."""
    names: dict[str, Collection[str]] = {
        "operation": [EVERY, *vocabulary.operations],
        "event": [EVERY, *vocabulary.events],
    }
    if vocabulary.scenarios is not None:
        names["scenario"] = vocabulary.scenarios
    own = {"capability": "capabilities", "probe": "probes", "task": "tasks"}
    own |= {"invariant": "invariants"}
    for name, part in own.items():
        declared = document.get(part, {})
        if isinstance(declared, Mapping) and (part in document or name != "task"):
            names[name] = declared
    return names


def _wrong_names(document: Mapping[str, Any], name: str) -> Iterator[FileProblem]:
    if document["name"] != name:
        text = f"the name differs from the file name '{name}'"
        yield FileProblem(("name",), text, f"write 'name: {name}'")
    tasks = document.get("tasks", {})
    for task in document.get("asks", {}).keys() - tasks.keys():
        yield FileProblem(("asks", task), f"there is no task '{task}'", suggestion(task, tasks))
    for probe, case in document.get("probes", {}).items():
        yield from _wrong_case(document, case, ("probes", probe))
    ids = set[str]()
    for index, check in enumerate(document["checks"]):
        if check["id"] in ids:
            yield FileProblem(("checks", index, "id"), f"duplicate id '{check['id']}'")
        ids.add(check["id"])
        for number, case in enumerate(check["cases"]):
            yield from _wrong_case(document, case, ("checks", index, "cases", number))


def _wrong_case(
    document: Mapping[str, Any], case: Mapping[str, Any], place: Pointer
) -> Iterator[FileProblem]:
    """Yield the values and marks that the case does not have."""
    steps = [document.get("credentials", {}), *case.get("setup", []), *case.get("during", [])]
    kept = [name for step in steps for name in step.get("keep", {})]
    values = [*_GIVEN, *document.get("values", {}), *kept]
    for pointer, text in texts(case, place):
        if text.startswith("$") and text[1:] not in values:
            advice = suggestion(text[1:], values)
            yield FileProblem(pointer, f"there is no value '{text[1:]}'", advice)
    marks = [step["mark"] for step in case.get("during", []) if "mark" in step]
    for pointer, rule in _rules(case, place):
        for member in {"after", "before"} & rule.keys():
            mark = rule[member]
            if mark not in marks:
                text = f"there is no mark '{mark}'"
                yield FileProblem((*pointer, member), text, suggestion(mark, marks))


def _rules(case: Mapping[str, Any], place: Pointer) -> Iterator[tuple[Pointer, Rule]]:
    """Yield all rules of a case with their places."""
    for part in ("controls", "rules", "effects"):
        for number, rule in enumerate(case.get(part, [])):
            yield (*place, part, number), rule
    for part in ("setup", "during"):
        for number, step in enumerate(case.get(part, [])):
            if "wait" in step:
                yield (*place, part, number, "wait"), step["wait"]
    if "unless" in case.get("review", {}):
        yield (*place, "review", "unless"), case["review"]["unless"]


def listed(value: Any) -> list[Any]:
    """Return a list as it is, and any other value as the only item of a list."""
    return list(value) if isinstance(value, list | tuple) else [value]
