"""Output of a gate's verdict as JUnit XML, Markdown summary, JSON or text."""

from __future__ import annotations

import dataclasses
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as Xml

from tiltmeter.errors import InputError
from tiltmeter.files.writing import writing
from tiltmeter.gating.gate_check import Check, Verdict
from tiltmeter.reports import print_text
from tiltmeter.sanitising import printable, shortened

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
    counts = {
        "tests": len(verdict.checks) + len(verdict.problems) + 1,
        "failures": len(verdict.failures) + (not verdict.is_checked),
        "errors": len(verdict.problems),
        "skipped": len(verdict.accepted),
    }
    about = {"name": _legal(f"tiltmeter gate {verdict.about['study']}"), "package": "tiltmeter", "id": "0"}
    about |= {name: str(count) for name, count in counts.items()}
    about |= {"time": "0", "timestamp": _written(verdict), "hostname": "localhost"}
    suite = Xml.SubElement(root, "testsuite", about)
    Xml.SubElement(suite, "properties")
    for problem in verdict.problems:
        _fault(_case(suite, "run", "the run can be checked"), "error", problem, "problem")
    case = _case(suite, "run", "at least one check was made")
    if not verdict.is_checked:
        _fault(case, "failure", verdict.headline, "unchecked")
    for check in verdict.checks:
        _add(suite, check, verdict)
    for name in ("system-out", "system-err"):
        Xml.SubElement(suite, name)
    with writing(path) as temporary:
        Xml.ElementTree(root).write(temporary, encoding="utf-8", xml_declaration=True)


def _written(verdict: Verdict) -> str:
    """Return the time at which the run was written, in UTC and without an offset, as the schema requires.

    The current time is not used, so that the output is reproducible.
    """
    try:
        return datetime.fromisoformat(verdict.about["written"]).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except ValueError:
        raise InputError(
            f"{verdict.run}/run.json is damaged: 'written' is not a valid time; run the study again to recreate it"
        ) from None


def _case(suite: Xml.Element, of: str, name: str) -> Xml.Element:
    return Xml.SubElement(suite, "testcase", {"classname": _legal(of), "name": _legal(name), "time": "0"})


def _fault(case: Xml.Element, tag: str, message: str, kind: str) -> Xml.Element:
    return Xml.SubElement(case, tag, {"message": _legal(message), "type": kind})


def _add(suite: Xml.Element, check: Check, verdict: Verdict) -> None:
    case = _case(suite, f"{check.model}.{check.part}", f"{check.number} [{check.rule}]")
    if check in verdict.accepted:
        Xml.SubElement(case, "skipped")
    elif check.status != "passed":
        failure = _fault(case, "failure", check.reason, check.status)
        failure.text = _legal(
            f"{check.model} {check.number}: {check.reason}. Show the answers: {check.opened_by(verdict.run)}"
        )


def _legal(text: str) -> str:
    return printable(text, one_line=True).translate(_NONCHARACTERS)


ROWS = 200
_LENGTH = 151
"""Maximum number of rows, and of characters per cell. GitHub rejects summaries of more than 1 MiB; a
character takes up to five bytes."""
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
        lines += ["", *(f"* {_plain(line)}" for line in sentences[:ROWS])]
    checks = verdict.failures + [one for one in verdict.checks if one not in verdict.failures]
    if checks:
        lines += ["", "| status | model | metric | reason | rule |", "|---|---|---|---|---|"]
    for one in checks[:ROWS]:
        cells = (one.status, one.model, one.number, one.reason, one.rule)
        lines.append(f"| {' | '.join(map(_plain, cells))} |")
    if len(checks) > ROWS:
        lines += ["", f"{len(checks) - ROWS:,} more checks are not shown."]
    return "\n".join(lines) + "\n\n"


def _plain(text: str, longest: int = _LENGTH) -> str:
    """Escape a text with character references, which never start markup or end a table cell in Markdown."""
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", shortened(text, longest))


def print_verdict(verdict: Verdict, *, as_json: bool = False) -> None:
    """Print the checks that do not pass and the outcome; with `as_json`, print all checks as JSON."""
    if as_json:
        document = {
            name: getattr(verdict, name)
            for name in (
                "run",
                "run_headline",
                "passed",
                "exit_code",
                "headline",
                "problems",
                "notes",
                "advice",
            )
        }
        checks = [
            {**dataclasses.asdict(one), "opened_by": one.opened_by(verdict.run)} for one in verdict.checks
        ]
        text = json.dumps({**document, "checks": checks}, indent=2, allow_nan=False)
        print(text.replace("\x7f", r"\u007f"))  # ASCII only, so that names cannot control the terminal
        return
    lines = [f"PROBLEM    {problem}" for problem in verdict.problems]
    lines += map(_line, verdict.failures)
    lines += [f"note       {note}" for note in verdict.notes]
    lines += map(_line, verdict.accepted)
    for line in [*lines, verdict.headline]:
        print_text(line)
    for sentence in verdict.advice:
        print_text(sentence)
    for first in verdict.failures[:1]:
        print(
            printable(
                f"show the answers behind the first of these numbers: {first.opened_by(verdict.run)}",
                one_line=True,
            )
        )


def _line(one: Check) -> str:
    return f"{one.status.upper():9}  {one.model}  {one.number}: {one.reason}  [{one.rule}]"
