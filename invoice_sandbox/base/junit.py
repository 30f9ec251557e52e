"""Reports as JUnit XML, which every CI reads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final
from xml.etree import ElementTree

_COUNTED: Final = {"failure": "failures", "error": "errors", "skipped": "skipped"}
_NOT_IN_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Case:
    """One test. Its ``outcome`` is failure, error or skipped; none: it has passed."""

    name: str
    outcome: str = ""
    message: str = ""
    text: str = ""


def junit_xml(tool: str, suites: Mapping[str, Sequence[Case]]) -> str:
    """The suites by name, each with its cases."""
    root = ElementTree.Element("testsuites", {"name": tool, **_counts([*chain(*suites.values())])})
    for name, cases in suites.items():
        suite = ElementTree.SubElement(root, "testsuite", {"name": name, **_counts(cases)})
        for one in cases:
            names = {"classname": name, "name": one.name}
            case = ElementTree.SubElement(suite, "testcase", names)
            if one.outcome:
                message = {"message": _printable(one.message)}
                ElementTree.SubElement(case, one.outcome, message).text = _printable(one.text)
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body}\n'


def _counts(cases: Sequence[Case]) -> dict[str, str]:
    outcomes = [one.outcome for one in cases]
    counts = {word: str(outcomes.count(outcome)) for outcome, word in _COUNTED.items()}
    return {"tests": str(len(cases)), **counts}


def _printable(text: str) -> str:
    return _NOT_IN_XML.sub(lambda match: ascii(match.group())[1:-1], text)
