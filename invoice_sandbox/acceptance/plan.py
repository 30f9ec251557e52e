"""Acceptance plans: what a client must do, as data, checked when a plan is loaded."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.base.clock import parse_duration
from invoice_sandbox.base.errors import UserError, suggestion
from invoice_sandbox.control.client import ControlClient
from invoice_sandbox.openapi.load.documents import (
    load_document,
    parse_text,
    place_of,
    pointer_text,
)
from invoice_sandbox.openapi.load.pointers import at_pointer
from invoice_sandbox.openapi.load.text import DocumentError
from invoice_sandbox.openapi.schema.file_schema import (
    FileProblem,
    Pointer,
    schema_problems,
)
from invoice_sandbox.scenarios.script import resolved

SCHEMA: Final = Path(__file__).with_name("plan.schema.json")
"""The JSON Schema of a plan."""

EVERY: Final = "*"
NONE: Final = "none"

_PLANS: Final = "acceptance"
_WINDOW: Final = "PT60S"
_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_GIVEN: Final = ("endpoint", "secret")
"""Names that the runner gives a value, beside those of the plan and those that steps keep."""

_COUNTS: Final = ("times", "atLeast", "atMost")
_CONDITIONS: Final = ("same", "sameBodyAtMost", "gaps", "within", "pace", "body")
_OF_REQUESTS: Final = (*_COUNTS, *_CONDITIONS)
"""What a rule can say of requests."""

_NEEDS_REQUEST: Final = (
    *("method", "status", "fault", "replayed", "shows", "names", "has", "afterFault", "untilFault"),
    *_CONDITIONS,
)
_PLACE: Final = re.compile(r"\{(/[^}]*)\}")
_STEPS: Final = ("send", "wait", "pause", "mark")

Rule = Mapping[str, Any]
"""A rule of a plan: ``rule`` in plan.schema.json."""


@dataclass(frozen=True)
class Case:
    """One run of the client: its task, the steps of the operator, and the rules."""

    task: Mapping[str, Any]
    rules: tuple[Rule, ...]
    controls: tuple[Rule, ...] = ()
    name: str = ""
    when: str | None = None
    unless: str | None = None
    clock: str = "live"
    webhooks: tuple[str, ...] = ()
    setup: tuple[Mapping[str, Any], ...] = ()
    during: tuple[Mapping[str, Any], ...] = ()
    ends_with_steps: bool = False
    window: timedelta = timedelta(minutes=1)
    review: Mapping[str, Any] | None = None
    probe: str | None = None


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

    ``pointers`` are the places of operations and event types in the contract, by their names.
    """

    name: str
    purpose: str
    checks: tuple[Check, ...]
    capabilities: Mapping[str, str] = field(default_factory=dict)
    tasks: Mapping[str, str] = field(default_factory=dict)
    asks: Mapping[str, str] = field(default_factory=dict)
    probes: Mapping[str, Case] = field(default_factory=dict)
    pointers: Mapping[str, str] = field(default_factory=dict)
    credentials: Mapping[str, Any] | None = None
    preflight: str | None = None
    digest: str = ""

    def words_of(self, task: Mapping[str, Any]) -> str:
        """A task in words: its text in ``asks`` with the values of the task."""
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
    """The only plan of a project. Raises UserError."""
    files = sorted((project / _PLANS).glob("*.yaml"))
    if len(files) != 1:
        found = ", ".join(one.name for one in files) or "none"
        raise UserError(f"choose a plan with --plan; {project / _PLANS} has {found}")
    return files[0]


def served_vocabulary(control: ControlClient) -> PlanVocabulary:
    """The vocabulary of a running server. Raises SandboxError."""
    scenarios = [one["name"] for one in control.ask("GET", "/scenarios")]
    return vocabulary_of(control.whole("GET", "/openapi.json"), scenarios)


def vocabulary_of(
    contract: Mapping[str, Any], scenarios: Collection[str] | None = None
) -> PlanVocabulary:
    """The vocabulary of a contract."""
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
    """The plan in a file. Raises DocumentError for the first problem."""
    document = _with_values(load_document(file))
    for problem in plan_problems(document, file.stem, vocabulary):
        place = place_of(file, problem.pointer)
        raise DocumentError(place, problem.text, problem.advice)
    return _plan(document, file.read_bytes(), vocabulary)


def read_plan(content: bytes, name: str, vocabulary: PlanVocabulary) -> Plan:
    """The plan in a text; ``name`` says where it is from. Raises DocumentError."""
    try:
        document = _with_values(parse_text(content.decode(), name))
    except UnicodeDecodeError:
        raise DocumentError(name, "it is not UTF-8") from None
    stem = document.get("name", "") if isinstance(document, Mapping) else ""
    for problem in plan_problems(document, stem, vocabulary):
        place = f"{name} at {pointer_text(problem.pointer)}" if problem.pointer else name
        raise DocumentError(place, problem.text, problem.advice)
    return _plan(document, content, vocabulary)


def _plan(document: Mapping[str, Any], content: bytes, vocabulary: PlanVocabulary) -> Plan:
    digest = hashlib.sha256(content).hexdigest()
    return Plan(
        name=document["name"],
        purpose=document["purpose"],
        checks=tuple(_check(one, index) for index, one in enumerate(document["checks"])),
        capabilities=document.get("capabilities", {}),
        tasks=document.get("tasks", {}),
        asks=document.get("asks", {}),
        probes={name: _case(one) for name, one in document.get("probes", {}).items()},
        pointers=vocabulary.pointers,
        credentials=document.get("credentials"),
        preflight=document.get("preflight"),
        digest=f"sha256:{digest}",
    )


def _with_values(document: Any) -> Any:
    """The document with the values of the plan in its checks."""
    if not isinstance(document, Mapping) or not isinstance(document.get("values"), Mapping):
        return document
    values, filled = document["values"], ("checks", "probes")
    with_values = {one: resolved(document[one], values) for one in filled if one in document}
    return {**document, **with_values}


def _check(body: Mapping[str, Any], index: int) -> Check:
    return Check(
        id=body["id"],
        level=body["level"],
        proves=body["proves"],
        specification=body["specification"],
        cases=tuple(_case(one) for one in body["cases"]),
        pointer=f"/checks/{index}",
    )


def _case(body: Mapping[str, Any]) -> Case:
    return Case(
        task=body["task"],
        rules=tuple(body["rules"]),
        controls=tuple(body.get("controls", [])),
        name=body.get("name", ""),
        when=body.get("when"),
        unless=body.get("unless"),
        clock=body.get("clock", "live"),
        webhooks=tuple(body.get("webhooks", [])),
        setup=tuple(body.get("setup", [])),
        during=tuple(body.get("during", [])),
        ends_with_steps=body.get("ends") == "steps",
        window=parse_duration(body.get("window", _WINDOW)),
        review=body.get("review"),
        probe=body.get("probe"),
    )


def plan_problems(document: Any, name: str, vocabulary: PlanVocabulary) -> Iterator[FileProblem]:
    """Everything that is wrong with a plan, in the order of the file."""
    wrong = list(schema_problems(document, SCHEMA))
    if wrong:
        yield from wrong
        return
    if document["name"] != name:
        text = f"the name differs from the file name '{name}'"
        yield FileProblem(("name",), text, f"write 'name: {name}'")
    tasks = document.get("tasks", {})
    for name in document.get("asks", {}).keys() - tasks.keys():
        yield FileProblem(("asks", name), f"there is no task '{name}'", suggestion(name, tasks))
    for name, probe in document.get("probes", {}).items():
        yield from _CaseCheck(document, probe, ("probes", name), vocabulary).problems()
    seen: set[str] = set()
    for index, check in enumerate(document["checks"]):
        if check["id"] in seen:
            yield FileProblem(("checks", index, "id"), f"duplicate id '{check['id']}'")
        seen.add(check["id"])
        for number, case in enumerate(check["cases"]):
            place: Pointer = ("checks", index, "cases", number)
            yield from _CaseCheck(document, case, place, vocabulary).problems()


@dataclass(frozen=True)
class _CaseCheck:
    """Checks the names in one case."""

    document: Mapping[str, Any]
    case: Mapping[str, Any]
    place: Pointer
    vocabulary: PlanVocabulary

    def problems(self) -> Iterator[FileProblem]:
        """What is wrong with the case."""
        yield from self._wrong_names()
        for number, event in enumerate(self.case.get("webhooks", [])):
            known = [EVERY, *self.vocabulary.events]
            yield from self._named(("webhooks", number), "event type", event, known)
        for part in ("setup", "during"):
            for number, step in enumerate(self.case.get(part, [])):
                yield from self._wrong_step(step, (part, number))
        for part in ("controls", "rules"):
            for number, rule in enumerate(self.case.get(part, [])):
                yield from self._wrong_rule(rule, (part, number))
        review = self.case.get("review", {})
        if "unless" in review:
            yield from self._wrong_rule(review["unless"], ("review", "unless"))
        yield from self._unknown_values(self.case, ())

    def _wrong_names(self) -> Iterator[FileProblem]:
        places = {"when": "capabilities", "unless": "capabilities", "probe": "probes"}
        for member, part in places.items():
            if member in self.case:
                known = self.document.get(part, {})
                what = "probe" if member == "probe" else "capability"
                yield from self._named((member,), what, self.case[member], known)
        if "tasks" in self.document:
            task = self.case["task"]["name"]
            yield from self._named(("task", "name"), "task", task, self.document["tasks"])

    def _named(
        self, place: Pointer, what: str, word: str, known: Collection[str]
    ) -> Iterator[FileProblem]:
        if word not in known:
            text = f"there is no {what} '{word}'"
            yield FileProblem((*self.place, *place), text, suggestion(word, known))

    def _wrong_step(self, step: Mapping[str, Any], place: Pointer) -> Iterator[FileProblem]:
        given = [one for one in _STEPS if one in step]
        if len(given) != 1:
            text = f"a step has one of {', '.join(_STEPS)}"
            yield FileProblem((*self.place, *place), text)
        for member in ("body", "keep"):
            if member in step and "send" not in step:
                yield FileProblem((*self.place, *place, member), f"'{member}' needs 'send'")
        if "wait" in step:
            yield from self._wrong_rule(step["wait"], (*place, "wait"))
        if step.get("send") == "PUT /sandbox/scenario":
            name = step.get("body", {}).get("name", "")
            where, known = (*place, "body", "name"), self.vocabulary.scenarios
            yield from self._named(where, "scenario", name, known if known is not None else [name])
        if str(step.get("send", "")).startswith("POST /sandbox/faults"):
            operation = step.get("body", {}).get("operation", EVERY)
            known = [EVERY, *self.vocabulary.operations]
            yield from self._named((*place, "body", "operation"), "operation", operation, known)

    def _wrong_rule(self, rule: Rule, place: Pointer) -> Iterator[FileProblem]:
        for word in listed(rule.get("request", [])):
            known = [EVERY, *self.vocabulary.operations]
            yield from self._named((*place, "request"), "operation", word, known)
        if "delivery" in rule:
            known = [EVERY, *self.vocabulary.events]
            word = rule["delivery"]
            yield from self._named((*place, "delivery"), "event type", word, known)
        marks = [one["mark"] for one in self.case.get("during", []) if "mark" in one]
        for member in ("after", "before"):
            if member in rule:
                yield from self._named((*place, member), "mark", rule[member], marks)
        yield from self._incomplete(rule, place)

    def _incomplete(self, rule: Rule, place: Pointer) -> Iterator[FileProblem]:
        if ("request" in rule) == ("delivery" in rule):
            text = "a rule is about either requests or deliveries"
            yield FileProblem((*self.place, *place), text, "add 'request' or 'delivery'")
        for member in _NEEDS_REQUEST:
            if member in rule and "request" not in rule:
                where = (*self.place, *place, member)
                yield FileProblem(where, f"'{member}' needs 'request'", "add it")
        for member in ("kind", "response"):
            if member in rule and "delivery" not in rule:
                where = (*self.place, *place, member)
                yield FileProblem(where, f"'{member}' needs 'delivery'", "add it")
        if "request" in rule and not any(member in rule for member in _OF_REQUESTS):
            text = "the rule has no condition for the requests"
            yield FileProblem((*self.place, *place), text, f"add one of {', '.join(_OF_REQUESTS)}")
        if "delivery" in rule and "response" not in rule:
            text = "the rule has no condition for the deliveries"
            yield FileProblem((*self.place, *place), text, "add 'response'")

    def _unknown_values(self, value: Any, place: Pointer) -> Iterator[FileProblem]:
        if isinstance(value, Mapping):
            for name, one in value.items():
                yield from self._unknown_values(one, (*place, name))
        elif isinstance(value, list):
            for index, one in enumerate(value):
                yield from self._unknown_values(one, (*place, index))
        elif isinstance(value, str) and value.startswith("$"):
            yield from self._named(place, "value", value[1:], self._values())

    def _values(self) -> list[str]:
        credentials = self.document.get("credentials", {})
        steps = [credentials, *self.case.get("setup", []), *self.case.get("during", [])]
        kept = [name for step in steps for name in step.get("keep", {})]
        return [*_GIVEN, *self.document.get("values", {}), *kept]


def listed(value: Any) -> list[Any]:
    """A list as it is, and any other value as the only one of a list."""
    return list(value) if isinstance(value, list | tuple) else [value]
