"""Exports for model hubs: a section and metadata for a model card, and a dataset folder with its card."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import yaml
from polars import DataFrame, col

from tiltmeter.blocks import Column, Table
from tiltmeter.errors import InputError
from tiltmeter.exports._documents import facts, limits, notes_of, write_text
from tiltmeter.exports._plain_tables import findings_of
from tiltmeter.exports._requests import ExportRequest
from tiltmeter.reports import _markdown as markdown
from tiltmeter.runs import RunFolder
from tiltmeter.runs._folder import STAGES, reading
from tiltmeter.runs._plain_findings import findings_table
from tiltmeter.schema import NAMED, beside, metric_name

HOW_TO_SPEAK = (
    "These results describe what a model associates with groups of people in its answers to these prompts. "
    "They do not describe people. "
    "A model that shows no bias here may still have biases that these prompts do not measure."
)


def front_matter(metadata: Mapping[str, Any]) -> str:
    """Return metadata as YAML front matter; external texts become safely quoted scalars."""
    text = yaml.safe_dump(dict(metadata), sort_keys=False, allow_unicode=False, width=1_000_000)
    return f"---\n{text}---\n"


_COLUMNS_OF_SOURCES = {
    "Data": "title",
    "Licence": "licence",
    "Origin": "origin",
    "Version": "version",
    "Cite": "citation",
}
"""Fields of the external data of a run, by the title of their column."""


def sources_section(about: Mapping[str, Any]) -> str:
    """Return a section on the external data of a run, or "" if it used none.

    The section has the origin, the licence, the restriction and the citation of each source.
    """
    sources = about["data"]
    if not sources:
        return ""
    columns = [
        Column(title, [str(source.get(field) or "") for source in sources])
        for title, field in _COLUMNS_OF_SOURCES.items()
    ]
    table = markdown.table(Table("", columns))
    return f"## External data\n\n{_restriction(sources)}{table}\n"


def _restriction(sources: Sequence[Mapping[str, Any]]) -> str:
    """Return a paragraph about sources that must not be redistributed, or "" if there is none."""
    restricted = [source for source in sources if source.get("restricted")]
    if not restricted:
        return ""
    titles = [f"{source.get('title') or source['name']} ({source['restricted']})" for source in restricted]
    return (
        f"**Restricted redistribution:** some prompts are based on {markdown.text('; '.join(titles))}. "
        "Check whether you may publish them.\n\n"
    )


_ARGUMENTS = (
    "low",
    "high",
    "level",
    "p",
    "q",
    "attempts",
    "answered",
    "mark",
    "mark_best",
    "mark_worst",
    "group",
    "group_2",
    "concept",
    "context",
    "wording",
)
"""Columns of a finding that are arguments of its metric in the metadata of a card."""


def write_card(request: ExportRequest) -> None:
    """Write a model card.

    It has front matter with one result per computed finding, and a section with intervals, marks and
    limitations.

    Raises
    ------
    InputError
        The run has several models and none was chosen.
    """
    about = request.run.about
    names = [model["name"] for model in about["models"]]
    if request.model is None and len(names) > 1:
        raise InputError(f"a model card describes one model; choose one with --model: {', '.join(names)}")
    name = request.model or names[0]
    findings = _described(findings_of(request._replace(model=name)), request.run.grades)
    write_text(request, _metadata(name, findings, about) + _section(name, findings, about))


def _metadata(name: str, findings: DataFrame, about: Mapping[str, Any]) -> str:
    """Return the front matter of a model card, with the computed findings as results (`model-index`).

    It is written without huggingface_hub, which is not part of the base installation; a test reads it with
    `huggingface_hub.ModelCard`.
    """
    results = []
    computed = findings.filter(col.estimate.is_finite())
    for (study, part), of_part in computed.group_by("study", "part", maintain_order=True):
        title = about["parts"].get(str(part), {}).get("title", str(part))
        dataset = {"type": f"{study}/{part}", "name": title, "config": about["definition"]}
        metrics = [_metric(finding) for finding in of_part.iter_rows(named=True)]
        task = {"type": "text-generation", "name": "Bias"}
        results.append({"task": task, "dataset": dataset, "metrics": metrics})
    metadata: dict[str, Any] = {"tags": ["tiltmeter"]}
    if results:
        metadata["model-index"] = [{"name": name, "results": results}]
    return front_matter(metadata)


def _metric(finding: Mapping[str, Any]) -> dict[str, Any]:
    """Return a finding as a metric of the metadata."""
    arguments = {name: finding[name] for name in _ARGUMENTS if not _is_missing(finding[name])}
    return {
        "type": finding["name"],
        "value": finding["estimate"],
        "name": finding["description"] or finding["name"],
        "args": arguments,
    }


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def _described(findings: DataFrame, grades: DataFrame) -> DataFrame:
    """Add `name` (the short name) and `description` (null without a description) to findings."""
    keys = ["model", "part", *NAMED]
    joined = beside(findings, grades.select(*keys, "description"), *keys)
    return joined.with_columns(name=metric_name())


def _section(name: str, findings: DataFrame, about: Mapping[str, Any]) -> str:
    """Return the section of a model card about bias."""
    notes = [*notes_of(findings), *_limitations(findings), *limits(about)]
    list_of_notes = "".join(f"- Note: {markdown.text(note)}\n" for note in notes)
    described = findings.drop_nulls("description").unique(["part", "name"], maintain_order=True)
    meanings = [
        Column.of(described, "part", "Part"),
        Column.of(described, "name", "Metric"),
        Column.of(described, "description", "Meaning"),
    ]
    table = markdown.table(findings_table("Findings", findings))
    sources = sources_section(about).replace("## ", "### ", 1)
    return (
        f"\n## Bias\n\n{facts(about, name)}\n{HOW_TO_SPEAK}\n\n{table}\n"
        f"### Meaning of the metrics\n\n{markdown.table(Table('', meanings))}\n"
        f"### Limitations\n\n{list_of_notes}{_reproduction(about, '###')}\n"
        f"{sources}"
    )


def _limitations(findings: DataFrame) -> list[str]:
    """Return sentences about metrics without a mark or a value, and attempts without a parsed answer."""
    metrics = findings.height
    limitations = []
    if ungraded := findings.filter(mark="ungraded").height:
        limitations.append(
            f"{ungraded} of {metrics} metrics could not be graded;"
            " they need more items or more parsed answers."
        )
    if not_computed := findings.filter(col.estimate.is_null() | col.estimate.is_nan()).height:
        limitations.append(
            f"{not_computed} of {metrics} metrics could not be computed and are not in the metadata."
        )
    attempts = findings["attempts"].sum()
    if unparsed := (findings["attempts"] - findings["answered"]).sum():
        limitations.append(
            f"Over all metrics, {unparsed:,} of {attempts:,} attempts have no parsed answer"
            " (refused, unreadable, empty or failed)."
        )
    return limitations


_CARD = "README.md"
_MAIN_TABLES = ("findings", "responses", "measures", "design")
_DESCRIPTIONS = {
    "findings": "one row per metric: estimate, interval, p, q, mark, counts and definition",
    "responses": "one row per model and attempt, with the answer",
    "measures": "one row per model and attempt, with the parsed answer",
    "design": "one row per prompt, with the experimental factors",
    "examples": "the most influential answers of each key metric",
}


def write_dataset(request: ExportRequest) -> None:
    """Write a dataset folder.

    It has a card (README.md), run.json, study.yaml, and unmodified copies of all Parquet tables. The folder
    can be opened with `datasets.load_dataset(FOLDER, "findings")` and `tiltmeter.load(FOLDER)`.
    """
    target = request.path
    try:
        if target.exists() and not _is_replaceable(target):
            raise InputError(f"{target} exists and was not written by Tiltmeter; choose a new folder with -o")
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".dataset.") as temporary:
            new = Path(temporary) / "new"
            _fill(new, request)
            if target.exists():
                target.replace(Path(temporary) / "old")
            new.replace(target)
    except OSError as error:
        raise InputError(
            f"cannot write {target}: {error.strerror or error}; choose a writable folder"
        ) from error


def _is_replaceable(target: Path) -> bool:
    """Return True if the folder is empty or contains only an earlier export."""
    if not target.is_dir():
        return False
    names = {path.relative_to(target).as_posix() for path in target.rglob("*")}
    if not names:
        return True
    names_of_export = {_CARD, "run.json", "study.yaml", STAGES}
    foreign = {name for name in names - names_of_export if not name.endswith(".parquet")}
    card = target / _CARD
    if foreign or not card.is_file():
        return False
    return "\n- tiltmeter\n" in card.read_text(encoding="utf-8", errors="replace")


def _tables(folder: RunFolder) -> dict[str, Path]:
    """Return the paths of all tables by configuration name.

    The findings, which are the default, come first.
    """
    tables = {name: folder.table_path(name) for name in _MAIN_TABLES}
    for path in sorted((folder.path / STAGES).glob("*.parquet")):
        tables.setdefault(path.stem, path)
    return tables


def _fill(target: Path, request: ExportRequest) -> None:
    """Write the card and copies of the files of a run to a new folder."""
    folder = request.run.folder
    folder.whole()
    target.mkdir()
    places = {}
    for name, path in _tables(folder).items():
        place = path.relative_to(folder.path)
        (target / place).parent.mkdir(exist_ok=True)
        if _count_rows(folder, name):  # the Hugging Face Hub cannot open tables without rows
            places[name] = place.as_posix()
        shutil.copyfile(path, target / place)
    for name in ("run.json", "study.yaml"):
        shutil.copyfile(folder.path / name, target / name)
    (target / _CARD).write_text(_card(request, places), encoding="utf-8", newline="\n")


def _count_rows(folder: RunFolder, table: str) -> int:
    """Count the rows of a table; raises InputError if it is damaged."""
    with reading(folder.path):
        count: int = folder.any_table(table).select(pl.len()).collect().item()
    return count


def _card(request: ExportRequest, places: Mapping[str, str]) -> str:
    """Return the card of a dataset.

    Parameters
    ----------
    places
        Paths of the tables within the dataset, by name.
    """
    about = request.run.about
    tables = "".join(f"- `{name}`: {_DESCRIPTIONS.get(name, 'a table of the method')}\n" for name in places)
    findings = findings_of(request)
    notes = [*notes_of(findings), *limits(about)]
    paragraphs_of_notes = "".join(f"\nNote: {markdown.text(note)}\n" for note in notes)
    key_findings = markdown.table(findings_table("Findings", findings))
    return (
        f"{_metadata_of_dataset(about, places)}\n"
        f"# Tiltmeter: {markdown.text(about['title'])}\n\n{facts(about)}\n"
        "Prompts, answers and findings of a measurement of bias. "
        "Answers are unedited model responses and may be offensive.\n"
        f"{HOW_TO_SPEAK}\n\n"
        f"## Tables\n\n{tables}\n"
        f"## Key findings\n\n{key_findings}{paragraphs_of_notes}\n"
        f"{sources_section(about)}\n"
        "## Licence\n\nPrompts are under the licences of the data they are based on. "
        "Answers are subject to the models' terms of use.\n"
        f"{_reproduction(about, '##')}"
    )


def _metadata_of_dataset(about: Mapping[str, Any], places: Mapping[str, str]) -> str:
    """Return the front matter of the card of a dataset, in which each table is a configuration."""
    configs = []
    for name, place in places.items():
        config: dict[str, Any] = {"config_name": name, "data_files": place}
        if name == "findings":
            config["default"] = True
        configs.append(config)
    return front_matter(
        {
            "pretty_name": f"Tiltmeter: {about['title']}",
            "license": "other",
            "license_name": "as-stated-for-each-source",
            "license_link": _CARD,
            "tags": ["tiltmeter", "bias", "fairness", "evaluation"],
            "configs": configs,
        }
    )


def _reproduction(about: Mapping[str, Any], level: str) -> str:
    """Return a section with the command that reproduces the run, or "" if it is unknown."""
    command = about.get("command")
    if not command:
        return ""
    return f"\n{level} Reproduce\n\n{markdown.fenced(str(command))}\n"
