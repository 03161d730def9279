"""What a table for readers says, as plain texts; how they are escaped is for each format to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import polars as pl

from tiltmeter.exports._formats import Wanted
from tiltmeter.exports._tables import findings_of, normalised_of
from tiltmeter.reports._missing import not_run
from tiltmeter.reports._words import interval, level_words, mark_words, number, shares, value

__all__ = ["Paper", "findings_paper", "limits", "paper", "summary"]

_WHERE = {"part": "Part", "model": "Model", "metric": "Metric", "subject": "Group", "concept": "Concept", "context": "Context"}
"""What names a finding; a column that says the same or nothing in every row is left out, but for part, model and metric."""
_SMALL = 0.001


class Paper(NamedTuple):
    """A table for readers."""

    headers: list[str]
    rows: list[list[str]]
    texts: int
    """How many columns, from the left, are texts; the others are numbers."""
    notes: list[str]
    """Sentences that must stand with it."""


def paper(wanted: Wanted) -> Paper:
    """The table that is wanted; raises InputError where there is nothing to put on one scale."""
    made = _normalised(*normalised_of(wanted)) if wanted.table == "normalised" else findings_paper(findings_of(wanted))
    return made._replace(notes=[*made.notes, *limits(wanted.run.about)])


def findings_paper(findings: pl.DataFrame) -> Paper:
    """One row per finding: its names, estimate, interval, p, q, mark, attempts and the share of them that was read."""
    rows = findings.with_columns(part=pl.col("study").str.split("/").list.last()).to_dicts()
    names = [name for name in _WHERE if name in ("part", "model", "metric") or findings[name].null_count() < findings.height]
    shown: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "Estimate": value,
        level_words(findings["level"].drop_nulls()).capitalize(): interval,
        "p": lambda row: _probability(row["p"]),
        "q": lambda row: _probability(row["q"]),
        "Mark": mark_words,
        "n": lambda row: f"{row['n'] or 0:,}",
        "Answered": lambda row: shares(row)["answered"],
    }
    cells = [[*(row[name] or "" for name in names), *(cell(row) for cell in shown.values())] for row in rows]
    notes = [
        "Intervals say how far a number could be from that of endlessly many such prompts; p is against the value that means no bias, q is"
        " p with the false-discovery rate over all tested numbers of the model controlled."
    ]
    if findings["mark"].drop_nulls().len():
        notes.append(
            "Marks, best first: healthy, cautionary, critical, catastrophic; “could be” names the tiers the interval reaches; ungraded: too"
            " little could be read, or the interval reaches from none to the worst tier."
        )
    return Paper([*(_WHERE[name] for name in names), *shown], cells, len(names), notes if rows else ["No number could be measured."])


def _normalised(table: pl.DataFrame, average: str) -> Paper:
    models = table.columns[3:]
    cells = [
        [(study or "").rpartition("/")[2], metric, (harm or "").replace("_", " "), *map(number, scores)]
        for study, metric, harm, *scores in table.iter_rows()
    ]
    scale = "Each metric on a scale from 0 (none) to 1 (the most it can show)."
    return Paper(["Part", "Metric", "Harm", *models], cells, 3, [scale, average])


def _probability(chance: float | None) -> str:
    return f"<{_SMALL}" if chance is not None and chance < _SMALL else number(chance)


def summary(about: Mapping[str, Any], model: str | None = None) -> dict[str, str]:
    """What was done, in words, by what it is about: what is missing, study, models, settings, versions."""
    settings = {name: about.get(name) for name in ("limit", "repeats", "system_message", "judge")}
    settings |= about.get("params") or {}
    said = ", ".join(f"{name} {value}" for name, value in settings.items() if value is not None)
    further = f" (and {len(about['problems']) - 1} more, see the notes)" if len(about["problems"]) > 1 else ""
    return {
        **({"Incomplete": f"{about['problems'][0]}{further}"} if about["problems"] else {}),
        "Study": f"{about['title']} ({about['study']}), definition {about['definition']}",
        "Models": model or ", ".join(one["name"] for one in about["models"]),
        "Settings": f"seed {about['seed']}, {about['resamples']} resamples" + (f", {said}" if said else ""),
        "Made": f"with Tiltmeter {about['tiltmeter']}, {about['written'][:10]}",
    }


def limits(about: Mapping[str, Any]) -> list[str]:
    """What a reader must know about what is missing."""
    left_out = not_run(about["parts"])
    said = " ".join(f"Not measured: {', '.join(titles)} ({reason})." for reason, titles in left_out.items())
    problems = [f"Problem: {one}" for one in about["problems"] if str(one).partition(" ")[0] not in about["parts"] or not left_out]
    incomplete = [] if about["complete"] else ["The run is not complete: numbers rest on what was there when it was written."]
    return [*incomplete, *([said] if said else []), *problems]
