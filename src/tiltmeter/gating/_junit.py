"""The verdict as JUnit XML, which every CI server shows: one test case for each rule and number."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as Xml

from tiltmeter._text import printable
from tiltmeter.errors import InputError
from tiltmeter.gating._verdict import Check, Verdict
from tiltmeter.reports._files import writing

__all__ = ["write_junit"]

_NONCHARACTERS = dict.fromkeys((0xFFFE, 0xFFFF), 0xFFFD)
"""What XML 1.0 does not allow besides control characters and surrogates."""


def write_junit(verdict: Verdict, path: Path) -> None:
    """Write the file whole or not at all; it holds the elements and attributes that both the schema of Ant and that of Jenkins allow.

    What could not be decided counts as a failure, a problem of the run itself as an error.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    root = Xml.Element("testsuites")
    counts = {
        "tests": len(verdict.checks) + len(verdict.problems) + 1,
        "failures": len(verdict.failures) + (not verdict.is_checked),
        "errors": len(verdict.problems),
        "skipped": sum(one.status == "skipped" for one in verdict.checks),
    }
    suite = Xml.SubElement(
        root,
        "testsuite",
        {
            "name": _legal(f"tiltmeter gate {verdict.about['study']}"),
            "package": "tiltmeter",
            "id": "0",
            **{name: str(count) for name, count in counts.items()},
            "time": "0",
            "timestamp": _written(verdict),
            "hostname": "localhost",
        },
    )
    Xml.SubElement(suite, "properties")
    for problem in verdict.problems:
        case = Xml.SubElement(suite, "testcase", {"classname": "run", "name": "can be judged", "time": "0"})
        Xml.SubElement(case, "error", {"message": _legal(problem), "type": "problem"})
    case = Xml.SubElement(suite, "testcase", {"classname": "run", "name": "something was checked", "time": "0"})
    if not verdict.is_checked:
        Xml.SubElement(case, "failure", {"message": _legal(verdict.headline), "type": "unchecked"})
    for check in verdict.checks:
        _add(suite, check, verdict.run)
    for name in ("system-out", "system-err"):
        Xml.SubElement(suite, name)
    with writing(path) as aside:
        Xml.ElementTree(root).write(aside, encoding="utf-8", xml_declaration=True)


def _written(verdict: Verdict) -> str:
    """When the run was written, as the schema wants it: in UTC, which it does not say. The same verdict is the same file."""
    try:
        return datetime.fromisoformat(verdict.about["written"]).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except ValueError:
        raise InputError(f"{verdict.run}/run.json is damaged: 'written' is no time; run the study again to make it anew") from None


def _add(suite: Xml.Element, check: Check, run: str) -> None:
    where = {"classname": _legal(f"{check.model}.{check.part}"), "name": _legal(f"{check.number} [{check.rule}]"), "time": "0"}
    case = Xml.SubElement(suite, "testcase", where)
    if check.status == "skipped":
        Xml.SubElement(case, "skipped")
    elif check.status != "passed":
        failure = Xml.SubElement(case, "failure", {"message": _legal(check.reason), "type": check.status})
        failure.text = _legal(f"{check.model} {check.number}: {check.reason}. The answers behind it: {check.opened_by(run)}")


def _legal(text: str) -> str:
    return printable(text, one_line=True).translate(_NONCHARACTERS)
