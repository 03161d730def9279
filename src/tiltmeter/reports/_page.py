"""One self-contained HTML page: no script, no network, everything a reader needs to trust or doubt a number."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from tiltmeter._text import printable
from tiltmeter.reports._concepts import concept_views, overlaps, split
from tiltmeter.reports._files import writing
from tiltmeter.reports._groups import group_views, of_groups
from tiltmeter.reports._normalised import normalised_table
from tiltmeter.reports._shown import Shown
from tiltmeter.reports._strip import Strip, strip
from tiltmeter.reports._words import MARK_LETTERS, interval, level_words, mark_words, number, percent, shares

__all__ = ["write_page"]

HARMS = {
    "outcome_disparity": "Outcome disparity",
    "stereotypical_reasoning": "Stereotypical reasoning",
    "representational_harms": "Representational harms",
}


NAMED = 6
"""Metrics to look at first, at most."""


def write_page(runs: Sequence[Shown], path: Path) -> Path:
    """Write the page about one or more runs.

    Parameters
    ----------
    runs
        For each run its findings and the content of its run.json.
    path
        The page to write; replaced whole.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folder = Path(__file__).with_name("templates")
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if isinstance(value, str) else value,  # text of a model or a file: no controls
    )
    environment.globals.update(number=number, interval=interval, percent=percent, shares=shares, mark_words=mark_words)
    environment.globals.update(letters=MARK_LETTERS, harms=HARMS, level_words=level_words, quote=shlex.quote)
    shown = [_run(i, one.findings, one.about) for i, one in enumerate(runs, 1)]
    text = environment.get_template("page.html.j2").render(
        runs=shown, side_by_side=_side_by_side(runs), overlaps=overlaps(pl.concat([one.findings for one in runs]))
    )
    with writing(path) as aside:
        aside.write_text(text, encoding="utf-8")
    return path


def _run(number_of_run: int, findings: pl.DataFrame, about: Mapping[str, Any]) -> dict[str, Any]:
    models = [_model(str(model[0]), mine, about) for model, mine in findings.group_by("model", maintain_order=True)]
    return {"number": number_of_run, "about": about, "models": models, "sampling": _sampling(about)}


def _side_by_side(runs: Sequence[Shown]) -> dict[str, Any] | None:
    """Normalised key metrics of all models of the page; None where there is one model only, or where definitions differ."""
    findings = pl.concat([one.findings for one in runs])
    findings = split(findings.filter(~of_groups(findings)))[1]
    models = findings["model"].unique(maintain_order=True).to_list()
    if (
        len(models) < 2
        or findings["definition"].n_unique() > 1
        or findings.select("model", "study", "metric", "context").is_duplicated().any()
    ):
        return None
    return {"models": models, "rows": normalised_table(findings).to_dicts()}


def _sampling(about: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in about.get("sampling", {}).items() if value not in (None, [], {})}


def _model(name: str, findings: pl.DataFrame, about: Mapping[str, Any]) -> dict[str, Any]:
    about_groups = findings.filter(of_groups(findings))
    about_concepts, findings = split(findings.filter(~of_groups(findings)))
    titles = {part: one.get("title", part) for part, one in about["parts"].items()}
    rows = [row | {"part": row["study"].rpartition("/")[2]} for row in findings.to_dicts()]
    rows = [row | {"title": titles.get(row["part"], row["part"])} for row in rows]
    graded = [row for row in rows if row["key"] and row["context"] is None]
    by_harm = [{"harm": harm, "rows": [_with_strip(row) for row in graded if row["harm"] == harm]} for harm in _harms(graded)]
    whole = itertools.groupby((row for row in rows if row["context"] is None), key=lambda row: row["study"])
    probes = [
        {"study": study, "rows": sorted(mine, key=_natural), "whole": max(mine, key=lambda row: row["n"])}
        for study, mine in ((study, list(rows)) for study, rows in whole)
    ]
    marks = [row["mark"] for row in graded if row["mark"]]
    counts = {mark: marks.count(mark) for mark in MARK_LETTERS}
    worst = [row for mark in ("catastrophic", "critical") for row in graded if row["mark"] == mark]
    wordings = [row for row in rows if row["context"] is not None]
    return {
        "name": name,
        "concepts": concept_views(about_concepts),
        "groups": group_views(about_groups),
        "by_harm": by_harm,
        "probes": probes,
        "counts": counts,
        "graded": len(marks),
        "worst": worst[:NAMED],
        "more": len(worst[NAMED:]),
        "wordings": wordings,
    }


def _natural(row: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Sorts `rate_2` before `rate_10`."""
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in re.split(r"(\d+)", row["metric"])]


def _harms(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    found = dict.fromkeys(str(row["harm"]) for row in rows)
    return [harm for harm in HARMS if harm in found] + [harm for harm in found if harm not in HARMS]


def _with_strip(row: dict[str, Any]) -> dict[str, Any]:
    drawn: Strip | None = strip(row)
    return row | {"strip": drawn}
