"""Exports for model hubs: a section and metadata for a model card, and a dataset folder with a dataset card."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import yaml
from polars import DataFrame, col

from tiltmeter.blocks import Column, Table
from tiltmeter.errors import InputError
from tiltmeter.exports.documents import facts, limits, notes_of, write_text
from tiltmeter.exports.plain_tables import findings_of
from tiltmeter.exports.requests import ExportRequest
from tiltmeter.reports import markdown
from tiltmeter.runs import RunFolder
from tiltmeter.runs.folder import STAGES, reading
from tiltmeter.runs.plain_findings import findings_table
from tiltmeter.schema import NAMED, beside, metric_name

HOW_TO_SPEAK = (
    "These results describe what a model associates with groups of people in its answers to these prompts. They do not describe people."
    " A model that shows no bias here may still have biases that these prompts do not measure."
)


def front_matter(metadata: Mapping[str, Any]) -> str:
    """Return metadata as YAML front matter; external texts become safely quoted scalars."""
    return (
        f"---\n{yaml.safe_dump(dict(metadata), sort_keys=False, allow_unicode=False, width=1_000_000)}---\n"
    )


def sources(about: Mapping[str, Any]) -> str:
    """Return a section on the external data of a run (origin, licence, restriction, citation), or "" if it used no external data."""
    data = about["data"]
    if not data:
        return ""
    fields = {
        "Data": "title",
        "Licence": "licence",
        "Origin": "origin",
        "Version": "version",
        "Cite": "citation",
    }
    restricted = [
        f"{entry.get('title') or entry['name']} ({entry['restricted']})"
        for entry in data
        if entry.get("restricted")
    ]
    warning = (
        f"**Restricted redistribution:** some prompts are based on {markdown.text('; '.join(restricted))}. "
        "Check whether you may publish them.\n\n"
        if restricted
        else ""
    )
    cells = [Column(name, [str(entry.get(field) or "") for entry in data]) for name, field in fields.items()]
    return f"## External data\n\n{warning}{markdown.table(Table('', cells))}\n"


_ARGS = (
    "low", "high", "level", "p", "q", "attempts", "answered", "mark", "mark_best", "mark_worst",
    "group", "group_2", "concept", "context", "wording"
)  # fmt: skip


def write_card(wanted: ExportRequest) -> None:
    """Write a model card: front matter with one result per computed finding, and a section with intervals, marks and limitations.

    Raises
    ------
    InputError
        The run has several models and none was chosen.
    """
    about = wanted.run.about
    names = [one["name"] for one in about["models"]]
    if wanted.model is None and len(names) > 1:
        raise InputError(f"a model card describes one model; choose one with --model: {', '.join(names)}")
    name = wanted.model or names[0]
    findings = _described(findings_of(wanted._replace(model=name)), wanted.run.grades)
    write_text(wanted, _metadata(name, findings, about) + _section(name, findings, about))


def _metadata(name: str, findings: DataFrame, about: Mapping[str, Any]) -> str:
    results = []
    for (study, part), mine in findings.filter(col.estimate.is_finite()).group_by(
        "study", "part", maintain_order=True
    ):
        title = about["parts"].get(str(part), {}).get("title", str(part))
        dataset = {"type": f"{study}/{part}", "name": title, "config": about["definition"]}
        metrics = [_metric(row) for row in mine.iter_rows(named=True)]
        results.append(
            {"task": {"type": "text-generation", "name": "Bias"}, "dataset": dataset, "metrics": metrics}
        )
    index = {"model-index": [{"name": name, "results": results}]} if results else {}
    return front_matter({"tags": ["tiltmeter"], **index})


def _metric(row: Mapping[str, Any]) -> dict[str, Any]:
    args = {
        key: row[key]
        for key in _ARGS
        if row[key] is not None and not (isinstance(row[key], float) and not math.isfinite(row[key]))
    }
    return {
        "type": row["name"],
        "value": row["estimate"],
        "name": row["description"] or row["name"],
        "args": args,
    }


def _described(findings: DataFrame, grades: DataFrame) -> DataFrame:
    """Add `name` (the short name) and `description` (null without a description) to findings."""
    keys = ["model", "part", *NAMED]
    joined = beside(findings, grades.select(*keys, "description"), *keys)
    return joined.with_columns(name=metric_name())


def _section(name: str, findings: DataFrame, about: Mapping[str, Any]) -> str:
    notes = "".join(
        f"- Note: {markdown.text(note)}\n"
        for note in [*notes_of(findings), *_limitations(findings), *limits(about)]
    )
    described = findings.drop_nulls("description").unique(["part", "name"], maintain_order=True)
    meanings = [
        Column.of(described, field, title)
        for title, field in (("Part", "part"), ("Metric", "name"), ("Meaning", "description"))
    ]
    return (
        f"\n## Bias\n\n{facts(about, name)}\n{HOW_TO_SPEAK}\n\n{markdown.table(findings_table('Findings', findings))}\n"
        f"### Meaning of the metrics\n\n{markdown.table(Table('', meanings))}\n### Limitations\n\n{notes}{_reproduction(about, '###')}\n"
        f"{sources(about).replace('## ', '### ', 1)}"
    )


def _limitations(findings: DataFrame) -> list[str]:
    ungraded = findings.filter(mark="ungraded").height
    missing = findings.filter(col.estimate.is_null() | col.estimate.is_nan()).height
    lost, all_ = findings.select((col.attempts - col.answered).sum().alias("lost"), col.attempts.sum()).row(0)
    limitations = [
        (
            ungraded,
            f"{ungraded} of {findings.height} metrics could not be graded; they need more items or more parsed answers.",
        ),
        (
            missing,
            f"{missing} of {findings.height} metrics could not be computed and are not in the metadata.",
        ),
        (
            lost,
            f"Over all metrics, {lost:,} of {all_:,} attempts have no parsed answer (refused, unreadable, empty or failed).",
        ),
    ]
    return [sentence for count, sentence in limitations if count]


_CARD = "README.md"
_OWN = ("findings", "responses", "measures", "design")
_ABOUT = {
    "findings": "one row per metric: estimate, interval, p, q, mark, counts and definition",
    "responses": "one row per model and attempt, with the answer",
    "measures": "one row per model and attempt, with the parsed answer",
    "design": "one row per prompt, with the experimental factors",
    "examples": "the most influential answers of each key metric",
}


def write_dataset(wanted: ExportRequest) -> None:
    """Write a dataset folder with a card (README.md), run.json, study.yaml, and unmodified copies of all Parquet tables.

    The folder can be opened with `datasets.load_dataset(FOLDER, "findings")` and `tiltmeter.load(FOLDER)`.
    """
    target = wanted.path
    try:
        if target.exists() and not _replaceable(target):
            raise InputError(f"{target} exists and was not written by Tiltmeter; choose a new folder with -o")
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".dataset.") as temporary:
            new = Path(temporary) / "new"
            _fill(new, wanted)
            if target.exists():
                target.replace(Path(temporary) / "old")
            new.replace(target)
    except OSError as error:
        raise InputError(
            f"cannot write {target}: {error.strerror or error}; choose a writable folder"
        ) from error


def _replaceable(target: Path) -> bool:
    """Return True if the folder is empty or contains only an earlier export."""
    if not target.is_dir():
        return False
    names = {one.relative_to(target).as_posix() for one in target.rglob("*")}
    ours = {_CARD, "run.json", "study.yaml", STAGES}
    foreign = {name for name in names - ours if not name.endswith(".parquet")}
    card = target / _CARD
    return not names or (
        not foreign
        and card.is_file()
        and "\n- tiltmeter\n" in card.read_text(encoding="utf-8", errors="replace")
    )


def _tables(folder: RunFolder) -> dict[str, Path]:
    """Return the paths of all tables by configuration name.

    The findings, which are the default, come first.
    """
    own = {name: folder.table_path(name) for name in _OWN}
    return own | {
        path.stem: path for path in sorted((folder.path / STAGES).glob("*.parquet")) if path.stem not in own
    }


def _fill(target: Path, wanted: ExportRequest) -> None:
    folder = wanted.run.folder
    folder.whole()
    target.mkdir()
    configs = {}
    for name, path in _tables(folder).items():
        place = path.relative_to(folder.path)
        (target / place).parent.mkdir(exist_ok=True)
        if _rows(folder, name):  # the Hugging Face Hub cannot open tables without rows
            configs[name] = place.as_posix()
        shutil.copyfile(path, target / place)
    for name in ("run.json", "study.yaml"):
        shutil.copyfile(folder.path / name, target / name)
    (target / _CARD).write_text(_card(wanted, configs), encoding="utf-8", newline="\n")


def _rows(folder: RunFolder, table: str) -> int:
    """Count the rows of a table; raises InputError if it is damaged."""
    with reading(folder.path):
        counted: int = folder.any_table(table).select(pl.len()).collect().item()
    return counted


def _card(wanted: ExportRequest, configs: Mapping[str, str]) -> str:
    about = wanted.run.about
    metadata = {
        "pretty_name": f"Tiltmeter: {about['title']}",
        "license": "other",
        "license_name": "as-stated-for-each-source",
        "license_link": _CARD,
        "tags": ["tiltmeter", "bias", "fairness", "evaluation"],
        "configs": [
            {"config_name": name, "data_files": place} | ({"default": True} if name == "findings" else {})
            for name, place in configs.items()
        ],
    }
    tables = "".join(f"- `{name}`: {_ABOUT.get(name, 'a table of the method')}\n" for name in configs)
    key = findings_of(wanted)
    notes = "".join(f"\nNote: {markdown.text(note)}\n" for note in [*notes_of(key), *limits(about)])
    return (
        f"{front_matter(metadata)}\n# Tiltmeter: {markdown.text(about['title'])}\n\n{facts(about)}\n"
        "Prompts, answers and findings of a measurement of bias. Answers are unedited model responses and may be offensive.\n"
        f"{HOW_TO_SPEAK}\n\n## Tables\n\n{tables}\n## Key findings\n\n{markdown.table(findings_table('Findings', key))}{notes}\n"
        f"{sources(about)}\n"
        "## Licence\n\nPrompts are under the licences of the data they are based on. Answers are subject to the models' terms of use.\n"
        + _reproduction(about, "##")
    )


def _reproduction(about: Mapping[str, Any], level: str) -> str:
    """Return a section with the command that reproduces the run, or "" if it is unknown."""
    command = about.get("command")
    return f"\n{level} Reproduce\n\n{markdown.fenced(str(command))}\n" if command else ""
