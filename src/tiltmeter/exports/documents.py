"""Tables of findings for readers: Markdown, and LaTeX for a paper, with what must be known to read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polars import DataFrame

from tiltmeter.blocks import Table
from tiltmeter.exports.exporting import Wanted
from tiltmeter.exports.plain_tables import findings_of, normalised_of
from tiltmeter.probes.presentation import normalised_block
from tiltmeter.reports import latex, markdown, writing
from tiltmeter.reports.words import not_run, table_of
from tiltmeter.runs.plain_findings import findings_table

HOW_TO_READ = (
    "Intervals say how far a number could be from that of endlessly many such prompts; p is against the value that means no bias, q is p"
    " with the false-discovery rate over all tested numbers of the model controlled."
)
WHAT_MARKS_SAY = (
    "Marks, best first: healthy, cautionary, critical, catastrophic; “could be” names the tiers the interval reaches; ungraded: too little"
    " could be read, or the interval reaches from none to the worst tier."
)


def shown_table(wanted: Wanted) -> tuple[Table, list[str]]:
    """The table that is wanted, and sentences that must go with it; raises InputError where there is nothing to put on one scale."""
    findings = findings_of(wanted)
    if wanted.table == "normalised":
        normalised_of(wanted)
        made, notes = table_of(normalised_block(findings, wanted.run.grades)), []
    else:
        made, notes = findings_table("Findings", findings), notes_of(findings)
    return made, [*notes, *([made.note] if made.note else []), *limits(wanted.run.about)]


def notes_of(findings: DataFrame) -> list[str]:
    """How to read a table of these findings."""
    if findings.is_empty():
        return ["No number could be measured."]
    return [HOW_TO_READ, *([WHAT_MARKS_SAY] if findings["mark"].count() else [])]


def write_text(wanted: Wanted, text: str) -> None:
    """Write what is wanted as a text file."""
    with writing(wanted.path) as aside:
        aside.write_text(text, encoding="utf-8", newline="\n")


def write_markdown(wanted: Wanted) -> None:
    """A table of findings with what must be known to read it."""
    made, said = shown_table(wanted)
    about = wanted.run.about
    notes = "".join(f"\nNote: {markdown.text(note)}\n" for note in said)
    write_text(wanted, f"## Tiltmeter: {markdown.text(about['title'])}\n\n{facts(about, wanted.model)}\n{markdown.table(made)}{notes}")


def write_latex(wanted: Wanted) -> None:
    """A `tabular` of findings; what must be known to read it is above it, as comments."""
    made, notes = shown_table(wanted)
    said = [f"{name}: {fact}" for name, fact in summary(wanted.run.about, wanted.model).items()]
    comments = [latex.comment(one) for one in ("Needs \\usepackage{booktabs}.", *said, *notes)]
    write_text(wanted, "\n".join([*comments, latex.tabular(made)]))


def summary(about: Mapping[str, Any], model: str | None = None) -> dict[str, str]:
    """What was done, in words, by what it is about: what is missing, study, models, settings, versions."""
    settings = {name: about.get(name) for name in ("limit", "repeats", "system_message", "judge")}
    settings |= about.get("params") or {}
    said = ", ".join(f"{name} {value}" for name, value in settings.items() if value is not None)
    found = {}
    if problems := about["problems"]:
        further = f" (and {len(problems) - 1} more, see the notes)" if len(problems) > 1 else ""
        found["Incomplete"] = f"{problems[0]}{further}"
    return found | {
        "Study": f"{about['title']} ({about['study']}), definition {about['definition']}",
        "Models": model or ", ".join(one["name"] for one in about["models"]),
        "Settings": f"seed {about['seed']}, {about['resamples']} resamples" + (f", {said}" if said else ""),
        "Made": f"with Tiltmeter {about['tiltmeter']}, {about['written'][:10]}",
    }


def facts(about: Mapping[str, Any], model: str | None = None) -> str:
    """The summary as a list in Markdown."""
    return "".join(f"- {name}: {markdown.text(said)}\n" for name, said in summary(about, model).items())


def limits(about: Mapping[str, Any]) -> list[str]:
    """What a reader must know about what is missing."""
    left_out = not_run(about["parts"])
    said = " ".join(f"Not measured: {', '.join(titles)} ({reason})." for reason, titles in left_out.items())
    problems = [f"Problem: {one}" for one in about["problems"] if str(one).partition(" ")[0] not in about["parts"] or not left_out]
    incomplete = [] if about["complete"] else ["The run is not complete: numbers rest on what was there when it was written."]
    return [*incomplete, *([said] if said else []), *problems]
