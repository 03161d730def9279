"""Output of a gate's verdict as JUnit XML, Markdown summary, JSON or text."""

from __future__ import annotations

import dataclasses
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as Xml

from tiltmeter._files.writing import writing
from tiltmeter._sanitising import printable, shortened
from tiltmeter.errors import InputError
from tiltmeter.gating._verdict import Check, Verdict
from tiltmeter.reports import print_text

_NONCHARACTERS = dict.fromkeys((0xFFFE, 0xFFFF), 0xFFFD)
"""Characters other than control characters and surrogates that XML 1.0 does not allow."""


def write_junit(verdict: Verdict, path: Path) -> None:
    """Write the verdict atomically as JUnit XML that conforms to the schemas of both Ant and Jenkins.

    Checks that do not pass count as failures, accepted ones as skipped, and problems of the run as errors.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    root = Xml.Element("testsuites")
    suite = Xml.SubElement(root, "testsuite", _attributes(verdict))
    Xml.SubElement(suite, "properties")
    for problem in verdict.problems:
        case = _add_case(suite, "run", "the run can be checked")
        _add_fault(case, "error", problem, "problem")
    case = _add_case(suite, "run", "at least one check was made")
    if not verdict.is_checked:
        _add_fault(case, "failure", verdict.headline, "unchecked")
    for check in verdict.checks:
        _add_check(suite, check, verdict)
    for name in ("system-out", "system-err"):
        Xml.SubElement(suite, name)
    with writing(path) as temporary:
        Xml.ElementTree(root).write(temporary, encoding="utf-8", xml_declaration=True)


def _attributes(verdict: Verdict) -> dict[str, str]:
    """Return the attributes of the test suite, in the order of the schemas."""
    name = _legal(f"tiltmeter gate {verdict.about['study']}")
    failures = len(verdict.failures)
    if not verdict.is_checked:
        failures += 1
    counts = {
        "tests": len(verdict.checks) + len(verdict.problems) + 1,
        "failures": failures,
        "errors": len(verdict.problems),
        "skipped": len(verdict.accepted),
    }
    attributes = {"name": name, "package": "tiltmeter", "id": "0"}
    attributes |= {kind: str(count) for kind, count in counts.items()}
    attributes |= {"time": "0", "timestamp": _time_written(verdict), "hostname": "localhost"}
    return attributes


def _time_written(verdict: Verdict) -> str:
    """Return the time at which the run was written, in UTC and without an offset, as the schema requires.

    The current time is not used, so that the output is reproducible.
    """
    try:
        written = datetime.fromisoformat(verdict.about["written"])
    except ValueError:
        raise InputError(
            f"{verdict.run}/run.json is damaged: 'written' is not a valid time;"
            " run the study again to recreate it"
        ) from None
    return written.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _add_case(suite: Xml.Element, class_name: str, name: str) -> Xml.Element:
    attributes = {"classname": _legal(class_name), "name": _legal(name), "time": "0"}
    return Xml.SubElement(suite, "testcase", attributes)


def _add_fault(case: Xml.Element, tag: str, message: str, kind: str) -> Xml.Element:
    return Xml.SubElement(case, tag, {"message": _legal(message), "type": kind})


def _add_check(suite: Xml.Element, check: Check, verdict: Verdict) -> None:
    case = _add_case(suite, f"{check.model}.{check.part}", f"{check.number} [{check.rule}]")
    if check in verdict.accepted:
        Xml.SubElement(case, "skipped")
    elif check.status != "passed":
        failure = _add_fault(case, "failure", check.reason, check.status)
        command = check.opened_by(verdict.run)
        failure.text = _legal(f"{check.model} {check.number}: {check.reason}. Show the answers: {command}")


def _legal(text: str) -> str:
    """Return a text with only those characters that XML 1.0 allows."""
    return printable(text, one_line=True).translate(_NONCHARACTERS)


ROWS = 200
"""Maximum number of rows of a summary. GitHub rejects summaries of more than 1 MiB."""
_LENGTH = 151
"""Maximum number of characters of a cell. A character takes up to five bytes."""
_SPECIAL = re.compile(r"(?![,%()=])[!-/:-@\[-`{-~]")
"""Punctuation that may have a special meaning in Markdown, GitHub or HTML."""


def append_summary(verdict: Verdict, path: Path) -> None:
    """Append the verdict to a Markdown file, which is created if necessary.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(_markdown(verdict))
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror}; choose a writable file with --summary"
        ) from error


def _markdown(verdict: Verdict) -> str:
    study = verdict.about["study"]
    lines = [
        f"### Tiltmeter: {_plain(verdict.headline)}",
        "",
        f"{_plain(study)}, run {_plain(verdict.run)}",
        "",
        _plain(verdict.run_headline, _LENGTH * 10),
    ]
    if sentences := (*verdict.problems, *verdict.notes, *verdict.advice):
        lines += ["", *(f"* {_plain(sentence)}" for sentence in sentences[:ROWS])]
    failures = verdict.failures
    checks = failures + [check for check in verdict.checks if check not in failures]
    if checks:
        lines += ["", "| status | model | metric | reason | rule |", "|---|---|---|---|---|"]
    for check in checks[:ROWS]:
        cells = (check.status, check.model, check.number, check.reason, check.rule)
        lines.append(f"| {' | '.join(map(_plain, cells))} |")
    if len(checks) > ROWS:
        lines += ["", f"{len(checks) - ROWS:,} more checks are not shown."]
    return "\n".join(lines) + "\n\n"


def _plain(text: str, longest: int = _LENGTH) -> str:
    """Escape a text with character references, which never start markup or end a table cell in Markdown."""
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", shortened(text, longest))


_DOCUMENT = (
    "run",
    "run_headline",
    "passed",
    "exit_code",
    "headline",
    "problems",
    "notes",
    "advice",
)
"""Attributes of a verdict that are printed as JSON, before its checks."""


def print_verdict(verdict: Verdict, *, as_json: bool = False) -> None:
    """Print the checks that do not pass and the outcome; with `as_json`, print all checks as JSON."""
    if as_json:
        print(_json(verdict))
        return
    lines = [f"PROBLEM    {problem}" for problem in verdict.problems]
    lines += map(_line, verdict.failures)
    lines += [f"note       {note}" for note in verdict.notes]
    lines += map(_line, verdict.accepted)
    for line in [*lines, verdict.headline, *verdict.advice]:
        print_text(line)
    if verdict.failures:
        command = verdict.failures[0].opened_by(verdict.run)
        # Not wrapped as print_text would do, so that the command can be copied.
        print(printable(f"show the answers behind the first of these numbers: {command}", one_line=True))


def _json(verdict: Verdict) -> str:
    """Return the verdict with all its checks as JSON.

    The text is ASCII without control characters, so that names cannot control the terminal.
    """
    document = {name: getattr(verdict, name) for name in _DOCUMENT}
    checks = []
    for check in verdict.checks:
        command = check.opened_by(verdict.run)
        checks.append({**dataclasses.asdict(check), "opened_by": command})
    document["checks"] = checks
    text = json.dumps(document, indent=2, allow_nan=False)
    return text.replace("\x7f", r"\u007f")


def _line(check: Check) -> str:
    return f"{check.status.upper():9}  {check.model}  {check.number}: {check.reason}  [{check.rule}]"
