"""The verdict in the terminal: one line for each thing that does not pass; or as JSON."""

from __future__ import annotations

import dataclasses
import json
import re

from tiltmeter._text import printable
from tiltmeter.gating._verdict import Verdict
from tiltmeter.reports import print_text

__all__ = ["print_verdict"]


def print_verdict(verdict: Verdict, *, as_json: bool = False) -> None:
    """Print what does not pass and why, then the outcome; as JSON everything that was looked at."""
    if as_json:
        print(_json(verdict))
        return
    lines = [f"PROBLEM    {problem}" for problem in verdict.problems]
    lines += [f"{one.status.upper():9}  {one.model}  {one.number}: {one.reason}  [{one.rule}]" for one in verdict.failures]
    lines += [f"note       {note}" for note in verdict.notes]
    lines += [f"SKIPPED    {one.model}  {one.number}: {one.reason}  [{one.rule}]" for one in verdict.checks if one.status == "skipped"]
    for line in [*lines, verdict.headline]:
        print_text(line)
    if verdict.failures:
        print(printable(f"the answers behind the first: {verdict.failures[0].opened_by(verdict.run)}", one_line=True))


def _json(verdict: Verdict) -> str:
    """ASCII only, so that no terminal obeys a name."""
    shown = {name: getattr(verdict, name) for name in ("run", "passed", "exit_code", "headline", "problems", "notes")}
    checks = [{**dataclasses.asdict(one), "opened_by": one.opened_by(verdict.run)} for one in verdict.checks]
    text = json.dumps({**shown, "checks": checks}, indent=2, allow_nan=False)
    return re.sub("\x7f", r"\\u007f", text)
