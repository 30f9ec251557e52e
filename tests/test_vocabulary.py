"""README, docs, CHANGELOG and the code use the standard words of the field."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.openapi.load.documents import load_document
from tests.cases import in_turn

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / ".github").rglob("*.md")),
    ROOT / "llms.txt",
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "docs" / "ci-workflow.yml",
]

INSTEAD: Final = {
    r"levers?": "control API, control endpoint",
    r"answer(s|ed|ing)?": "response; respond, return",
    r"refus(e|es|ed|ing|als?)": "reject; error",
    r"kinds?": "type",
    r"stor(y|ies)": "scenario, scenario run, steps",
    r"tells?|told|telling": "report, return, show",
    r"says?|said|saying": "report, return, show",
    r"mend(s|ed|ing)?": "fix, repair",
    r"h(old|olds|eld) against": "validate against, compare with",
    r"rooms?|houses?": "package, module",
    r"ways? of (a|the) request": "request pipeline",
    r"befalls?|spoil(s|t|ed)?|wrong on purpose": "fault injection, injected fault",
    r"own words": "declared error responses",
    r"doors?": "access policy",
    r"alone": "standalone mode; only",
    r"anyone|guests?": "anonymous caller",
    r"wish(es|ed)?": "options",
    r"rehears(al|als|e|es|ed)": "simulation, simulate",
    r"worlds?": "vocabulary",
    r"moments?": "step; time",
    r"scenes?": "step view",
    r"touch(es|ed|ing)?|covering|recording marks?": "coverage hit, coverage",
    r"near(est)?": "suggestion; closest",
    r"reckon(s|ed|ing)?": "calculate",
    r"prices? of (a|the) partner": "pricing",
    r"grounds?": "state, fuzz state",
    r"makers?|what others (made|have made)": "provider, third-party documents",
    r"knows? nothing (of|about)": "is not supported",
}
"""Words that are not used, as patterns, and what to write instead."""

_WORD: Final = re.compile(
    r"\b(?=\w)(?:" + "|".join(f"(?P<p{n}>{one})" for n, one in enumerate(INSTEAD)) + r")\b",
    re.IGNORECASE,
)
_ADVICE: Final = {f"p{n}": instead for n, instead in enumerate(INSTEAD.values())}

_FENCE: Final = re.compile(r"^```.*?^```$|^    \S.*$", re.MULTILINE | re.DOTALL)
_NOT_PROSE: Final = re.compile(r"`[^`\n]+`|\]\([^)]*\)|<!--.*?-->")
_PROMISED: Final = re.compile(r"--kind\b|\bkind=|\"?\bkind\"?(?=:|  )", re.IGNORECASE)
"""A member of faults whose name is promised: in JSON, in an option, and in a column title."""

_IN_MESSAGE: Final = re.compile(r"\bkind (?=')|\{\w+\}")
"""That member before a value in an error message, and the place of a value."""


def found(text: str) -> Iterator[tuple[int, str, str]]:
    """The line, the word, and what to write instead, for each word that is not used.

    Inline code, link targets and comments are not prose. In code blocks the promised names pass.
    """
    code = _FENCE.sub(lambda block: _PROMISED.sub(_blank, block.group()), text)
    code = _ERROR_OF_A_DELIVERY.sub(_blank, code)
    prose = _NOT_PROSE.sub(_blank, code)
    for match in _WORD.finditer(prose):
        yield prose.count("\n", 0, match.start()) + 1, match.group(), _ADVICE[match.lastgroup or ""]


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match.group())


@in_turn("page", PAGES, ids=lambda one: one.name)
def test_a_page_uses_the_words_of_the_field(page: Path) -> None:
    wrong = [
        f"{page.name}:{line}: '{word}' (write: {instead})"
        for line, word, instead in sorted(found(page.read_text()))
    ]
    assert wrong == []


def texts_of(value: Any, key: str = "") -> Iterator[str]:
    """The sentences of a contract, schema or scenario; not its examples and names on the wire.

    ``x-gap`` quotes the specification.
    """
    if isinstance(value, Mapping):
        for name, one in value.items():
            if name not in {"example", "examples", "x-gap"}:
                yield from texts_of(one, name)
    elif isinstance(value, list):
        for one in value:
            yield from texts_of(one, key)
    elif isinstance(value, str) and " " in value:
        yield value


def messages_of(source: str, *, with_docstrings: bool = False) -> Iterator[tuple[int, str]]:
    """The line and the text of each string that has a space, without docstrings by default."""
    tree = ast.parse(source)
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    left_out = set() if with_docstrings else docstrings
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and " " in node.value
            and id(node) not in left_out
        ):
            yield node.lineno, _IN_MESSAGE.sub(_blank, node.value)


CONTRACTS: Final = [
    *sorted((ROOT / "openapi").glob("*.yaml")),
    *sorted((ROOT / "scenarios").glob("*.yaml")),
    *sorted((ROOT / "fixtures").glob("*.*")),
    ROOT / "conventions.yaml",
    ROOT / "invoice_sandbox" / "control" / "openapi.yaml",
    *sorted((ROOT / "invoice_sandbox").rglob("*.schema.json")),
]


@in_turn("file", CONTRACTS, ids=lambda one: one.name)
def test_a_contract_uses_the_words_of_the_field(file: Path) -> None:
    texts = texts_of(load_document(file))
    wrong = [f"'{word}' (write: {why}): {one}" for one in texts for _, word, why in found(one)]
    assert wrong == []


def test_messages_and_help_use_the_words_of_the_field() -> None:
    wrong = []
    for file in sources():
        name = file.relative_to(ROOT).as_posix()
        if file.suffix == ".py":
            for line, text in messages_of(file.read_text(), with_docstrings="/cli/" in name):
                wrong += [f"{name}:{line}: {one}" for _, one, _ in found(text)]
    assert wrong == []


CODE: Final = ("invoice_sandbox", "handlers", "domain", "scenarios", "fixtures")
TEXTS: Final = (ROOT / "openapi" / "overlay.yaml", ROOT / "openapi" / "sandbox.yaml")

IN_CODE: Final = re.compile(
    r"\b(levers?|stor(?:y|ies)|tells?|told|telling|refus(?:e|es|ed|ing|als?)|mend(?:s|ed|ing)?"
    r"|answer(?:s|ed|ing)?|befalls?|spoil(?:s|t|ed)?|reckon(?:s|ed|ing)?|wish(?:es|ed)?"
    r"|near(?:est)?|rehears\w+|guests?|own words|h(?:old|olds|eld) against|touched|covering)\b",
    re.IGNORECASE,
)


def sources() -> Iterator[Path]:
    """The Python and YAML files of engine and project, without the copies that a build makes."""
    for folder in CODE:
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in {".py", ".yaml", ".html"} and "shipped_project" not in file.parts:
                yield file
    yield from TEXTS


_ERROR_OF_A_DELIVERY: Final = re.compile(r"ConnectionRefusedError|(?<![a-z])refused\b(?=[\"}]|  )")


def in_code(text: str) -> list[str]:
    """Words that are not used, also as parts of identifiers."""
    text = _ERROR_OF_A_DELIVERY.sub("", text)
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).replace("_", " ")
    return [match.group().lower() for match in IN_CODE.finditer(words)]


def test_the_code_uses_the_words_of_the_field() -> None:
    wrong = []
    for file in sources():
        name = file.relative_to(ROOT).as_posix()
        lines = enumerate(file.read_text().splitlines(), 1)
        wrong += [f"{name}:{n}: {word}" for n, line in lines for word in in_code(line)]
    assert wrong == []
