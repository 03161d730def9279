"""What a run says of one model, for its card on the Hugging Face hub: `model-index` metadata and a section to read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import polars as pl

from tiltmeter.errors import InputError
from tiltmeter.exports._card import HOW_TO_SPEAK, front_matter, sources
from tiltmeter.exports._formats import Wanted
from tiltmeter.exports._markdown import fenced, markdown_table, text
from tiltmeter.exports._paper import Paper, findings_paper, limits, summary
from tiltmeter.exports._tables import findings_of
from tiltmeter.reports._files import writing

__all__ = ["write_card"]

_ARGS = ("low", "high", "level", "p", "q", "n", "answered", "mark", "mark_low", "mark_high", "subject", "concept", "context")


def write_card(wanted: Wanted) -> list[str]:
    """Front matter with one result per finding that has a value, then a section with interval, marks, and limits.

    Raises
    ------
    InputError
        The run has several models and none was chosen.
    """
    about = wanted.run.about
    names = [one["name"] for one in about["models"]]
    if wanted.model is None and len(names) > 1:
        raise InputError(f"a model card is about one model; choose with --model: {', '.join(names)}")
    name = wanted.model or names[0]
    findings = findings_of(wanted._replace(model=name))
    with writing(wanted.path) as aside:
        aside.write_text(_metadata(name, findings, about) + _section(name, findings, about), encoding="utf-8", newline="\n")
    return [str(wanted.path)]


def _metadata(name: str, findings: pl.DataFrame, about: Mapping[str, Any]) -> str:
    results = []
    for (study,), mine in findings.group_by("study", maintain_order=True):
        metrics = [_metric(row) for row in mine.iter_rows(named=True) if row["estimate"] is not None and math.isfinite(row["estimate"])]
        if metrics:
            part = about["parts"].get(str(study).rpartition("/")[2], {})
            dataset = {"type": str(study), "name": part.get("title", str(study)), "config": about["definition"]}
            results.append({"task": {"type": "text-generation", "name": "Bias"}, "dataset": dataset, "metrics": metrics})
    index = {"model-index": [{"name": name, "results": results}]} if results else {}
    return front_matter({"tags": ["tiltmeter"], **index})


def _metric(row: Mapping[str, Any]) -> dict[str, Any]:
    args = {key: row[key] for key in _ARGS if row[key] is not None and not (isinstance(row[key], float) and not math.isfinite(row[key]))}
    return {"type": row["metric"], "value": row["estimate"], "name": row["description"] or row["metric"], "args": args}


def _section(name: str, findings: pl.DataFrame, about: Mapping[str, Any]) -> str:
    shown = findings_paper(findings)
    facts = "".join(f"- {what}: {text(said)}\n" for what, said in summary(about, name).items())
    notes = "".join(f"- Note: {text(note)}\n" for note in [*shown.notes, *_doubts(findings), *limits(about)])
    command = f"\n### How to repeat it\n\n{fenced(str(about['command']))}\n" if about.get("command") else ""
    return (
        f"\n## Bias\n\n{facts}\n{HOW_TO_SPEAK}\n\n{markdown_table(shown)}\n### What the metrics say\n\n"
        f"{markdown_table(_meanings(findings))}\n### Limits\n\n{notes}{command}\n{sources(about).replace('## ', '### ', 1)}"
    )


def _meanings(findings: pl.DataFrame) -> Paper:
    told = findings.filter(pl.col("description").is_not_null()).unique(["study", "metric"], maintain_order=True)
    rows = [[study.rpartition("/")[2], *said] for study, *said in told.select("study", "metric", "description").iter_rows()]
    return Paper(["Part", "Metric", "What it says"], rows, 3, [])


def _doubts(findings: pl.DataFrame) -> list[str]:
    ungraded = findings.filter(pl.col("mark") == "ungraded").height
    missing = findings.filter(pl.col("estimate").is_null() | pl.col("estimate").is_nan()).height
    lost, all_ = findings.select((pl.col("n") - pl.col("answered")).sum().alias("lost"), pl.col("n").sum()).row(0)
    said = [
        (ungraded, f"{ungraded} of {findings.height} numbers could not be graded: more items or readable answers are needed."),
        (missing, f"{missing} of {findings.height} numbers could not be computed and are not among the metadata."),
        (lost, f"Over all numbers, {lost:,} of {all_:,} attempts gave no readable answer (refused, unreadable, empty or failed)."),
    ]
    return [sentence for count, sentence in said if count]
