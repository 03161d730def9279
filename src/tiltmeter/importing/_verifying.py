"""Verification of a run: its tables are compared with run.json, and computed again from its responses.

No model is called. What a judge answered is taken as it is stored in the run.
"""

from __future__ import annotations

import copy
import dataclasses
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import polars as pl
from polars import DataFrame, Series, col

from tiltmeter._files.paths import is_file
from tiltmeter.datasets import Library
from tiltmeter.errors import EXIT_GATE, EXIT_OK, InputError
from tiltmeter.importing._stored_runs import DECISIONS, OWN_TEXTS
from tiltmeter.models import Sampling
from tiltmeter.runs import Asking, Resolved, Run, RunFolder, refuse_code, resolve_stored
from tiltmeter.runs._attempts import make_design
from tiltmeter.runs._checksums import unmatched_tables
from tiltmeter.runs._folder import LABELS_FILE, STAGES, reading
from tiltmeter.runs._problems import count_responses
from tiltmeter.runs._sides import document_of, opened
from tiltmeter.runs._study_run import RunInProgress
from tiltmeter.schema import NAMED
from tiltmeter.study import Part, Stage, Study

_TOLERANCE: Final = 1e-9
"""Numbers whose difference is at most this share of them are equal: other processors round differently."""
_NEAR_ZERO: Final = 1e-12
"""Numbers whose difference is at most this are equal, except p and q values: a difference of equal rates may
be 1e-17 instead of 0."""
_PROBABILITY: Final = re.compile(r"(.*_)?[pq](_.*)?")
"""Names of columns of p and q values, of which very small ones are printed."""
_IDENTIFYING: Final = ("model", "part", *NAMED, "prompt_id", "repetition")
"""Columns that say in a message which row differs."""
_DESCRIBED: Final = ("parts", "models", "scored", "judged_by")
"""Keys that run.json describes in more detail than study.yaml."""
_PACKAGES: Final = ("polars", "numpy", "scipy")


@dataclass(frozen=True)
class Verification:
    """The result of `tiltmeter.verify`.

    Attributes
    ----------
    place
        The location of the run.
    unmatched
        Names of the tables that do not match the checksums in run.json.
    differences
        The first difference of each table that differs when it is computed again, one sentence each.
    rows
        The number of rows of each table that was computed again.
    as_stored
        Names of the tables that were not computed again.
    remarks
        What else a reader should know, one sentence each.
    """

    place: str
    unmatched: tuple[str, ...]
    differences: tuple[str, ...]
    rows: Mapping[str, int]
    as_stored: tuple[str, ...]
    remarks: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether all tables match run.json, and all tables that were computed again are equal."""
        return not self.unmatched and not self.differences

    @property
    def exit_code(self) -> int:
        """The exit status of the command: 0 if everything is equal, otherwise 1."""
        return EXIT_OK if self.equal else EXIT_GATE

    def frame(self) -> DataFrame:
        """Return one row per table of the run.

        Returns
        -------
        DataFrame
            The columns `table`, `rows`, `matches_run_json`, and `computed_again`: "equal", "different" or
            null.
        """
        names = dict.fromkeys([*self.rows, *self.as_stored, *self.unmatched])
        rows = [
            {
                "table": name,
                "rows": self.rows.get(name),
                "matches_run_json": name not in self.unmatched,
                "computed_again": self._outcome_of(name),
            }
            for name in names
        ]
        kinds = {
            "table": pl.String,
            "rows": pl.Int64,
            "matches_run_json": pl.Boolean,
            "computed_again": pl.String,
        }
        return DataFrame(rows, schema=kinds)

    def _outcome_of(self, table: str) -> str | None:
        """Return whether a table that was computed again is equal or different; None for others."""
        if table not in self.rows:
            return None
        different = {sentence.partition(":")[0] for sentence in self.differences}
        return "different" if table in different else "equal"

    def sentences(self) -> list[str]:
        """Return the result in words: what differs, or that nothing does, and what was not computed again."""
        sentences = [f"{name}.parquet does not match its checksum in run.json" for name in self.unmatched]
        sentences += self.differences
        if not sentences:
            count = len(self.rows) + len(self.as_stored)
            sentences.append(
                f"all {count} tables match run.json, and {len(self.rows)} of them were"
                " computed again with equal content"
            )
        if self.as_stored:
            sentences.append(f"not computed again: {', '.join(self.as_stored)}")
        return [*sentences, *self.remarks]


def verify_run(run: Run, *, run_code: bool = False) -> Verification:
    """Check the tables of a run against the checksums in run.json, and its numbers against its responses.

    Everything from the prompts to the findings is computed again from the responses, the labels, and
    study.yaml, in a temporary folder. The prompts are taken as stored if the study has none of its own (own
    texts, logs, analyses of another run), and so are the tables of stages that asked a judge, and measures of
    own texts with features. The responses themselves are not checked: the journal has them under their
    `request_id`.

    Parameters
    ----------
    run_code
        Whether code that study.yaml names (FILE.py:NAME, MODULE:FUNCTION) may be run.

    Raises
    ------
    InputError
        study.yaml names code and `run_code` is False; the study of the run cannot be recreated, for example
        because one of its files is missing; or a table is not usable.
    """
    if not run_code:
        refuse_code(run.path)
    run.folder.whole()
    unmatched = unmatched_tables(run.folder)
    resolved, study = _resolved(run, run_code=run_code)
    differences: list[str] = []
    rows: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="tiltmeter-verify-", ignore_cleanup_errors=True) as place:
        again = RunFolder(Path(place) / "run")
        as_stored = _copied(run, resolved.study.parts, again.path)
        problems, became = _computed(run, resolved, again)
        designed: dict[str, DataFrame] = {}
        if not _is_of_own_data(run) and not _has_other_prompts(run):
            with_all_parts = dataclasses.replace(resolved, study=study)
            designed = _designed(run, with_all_parts, Path(place) / "design")
        differences += _unknown_rows(run, [part.name for part in study.parts])
        differences += _changed_files(run, resolved, run_code=run_code)
        differences += _differing_settings(run)
        differences += _differing_counts(run, became)
        if designed:
            design = pl.concat(designed.values(), how="diagonal_relaxed")
            stored = run.design.filter(pl.col("part").is_in(list(designed)))
            rows["design"] = design.height
            differences += _difference("design", _without_empty(stored), _without_empty(design))
        for name, size in again.sizes().items():
            if name not in ("design", "responses", *as_stored):
                rows[name] = size["rows"]
                differences += _difference(name, _table(run.folder, name), _table(again, name))
    remarks = [f"while computing again: {problem}" for problem in problems if problem not in run.problems]
    versions = _other_versions(run) if differences else None
    if versions is not None:
        remarks.append(versions)
    return Verification(
        place=run.place,
        unmatched=tuple(unmatched),
        differences=tuple(differences),
        rows=rows,
        as_stored=tuple(name for name in run.about["tables"] if name not in rows),
        remarks=tuple(remarks),
    )


def _is_of_own_data(run: Run) -> bool:
    """Return whether a run is about the user's own texts or decisions, which no study recreates."""
    study = str(run.about["study"])
    return study == DECISIONS or study.partition("/")[2] == OWN_TEXTS


def _resolved(run: Run, *, run_code: bool) -> tuple[Resolved, Study]:
    """Return the study of a run with those of its parts that have responses, and the study with all parts."""
    if _is_of_own_data(run):
        parts, settings = opened(run, run_code=run_code)
        study = Study(name=run.about["study"], title=run.about["title"], parts=list(parts.values()))
        resolved = Resolved(study, settings, Sampling())
    else:
        resolved = resolve_stored(run.path, run_code=run_code)
    answered = run.folder.scan("responses").filter(pl.col("status") != "missing").select("prompt_id")
    names = (
        run.folder.scan("design")
        .join(answered, on="prompt_id", how="semi")
        .select(pl.col("part").unique())
        .collect()["part"]
        .to_list()
    )
    answered_parts = [part for part in resolved.study.parts if part.name in names]
    of_answers = dataclasses.replace(
        resolved,
        study=dataclasses.replace(resolved.study, parts=answered_parts),
        inputs=document_of(run).get("inputs") or {},
    )
    return of_answers, resolved.study


def _copied(run: Run, parts: Sequence[Part], folder: Path) -> list[str]:
    """Copy what numbers are computed from to another folder.

    Return the names of the tables that are taken as stored.
    """
    (folder / STAGES).mkdir(parents=True)
    for table in ("design", "responses"):
        shutil.copyfile(run.folder.table_path(table), folder / f"{table}.parquet")
    if is_file(run.path / LABELS_FILE):
        shutil.copyfile(run.path / LABELS_FILE, folder / LABELS_FILE)
    copied: list[str] = []
    for stage in _stages_taken_as_stored(parts, run):
        record = run.path / STAGES / f"{stage.name}.json"
        if not is_file(record):
            raise InputError(
                f"{run.place} has no file {STAGES}/{record.name}, which describes tables"
                " that are needed; run it again"
            )
        shutil.copyfile(record, folder / STAGES / record.name)
        for table in stage.tables:
            name = table if table == "measures" else f"{STAGES}/{table}"
            if is_file(run.folder.table_path(name)):
                shutil.copyfile(run.folder.table_path(name), folder / f"{name}.parquet")
                copied.append(name)
    return copied


def _stages_taken_as_stored(parts: Sequence[Part], run: Run) -> list[Stage]:
    """Return the stages of the parts that are not carried out again, each once."""
    stages = {stage.name: stage for part in parts for stage in part.stages if _is_taken_as_stored(stage, run)}
    return list(stages.values())


def _is_taken_as_stored(stage: Stage, run: Run) -> bool:
    """Return whether a stage is not carried out again.

    Such a stage asked a judge, or it measured a table of texts that is not in the run.
    """
    asked_judge = stage.asks and run.about.get("judged_by") is not None
    return asked_judge or (stage.name == "measures" and run.about["study"] == f"benchmarks/{OWN_TEXTS}")


def _computed(run: Run, resolved: Resolved, folder: RunFolder) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Carry out the stages in another folder; return the problems, and the counts of responses by part."""
    parts = copy.deepcopy(run.about["parts"])
    sizes = (
        folder.scan("design")
        .group_by("part")
        .agg(prompts=pl.len(), attempts=pl.col("repetitions").cast(pl.Int64).sum())
        .collect()
    )
    for name, prompts, attempts in sizes.iter_rows():
        entry = parts.setdefault(name, {"status": "not run"})
        entry |= {"prompts": prompts, "attempts": attempts}
    for name in set(parts) - set(sizes["part"]):
        parts[name] |= {"prompts": 0, "attempts": 0}
    # Also parts that run.json calls not run: their results may have been removed.
    for part in resolved.study.parts:
        parts[part.name]["status"] = "run"
    units = {counts["unit"] for part in parts.values() for counts in part.get("responses", {}).values()}
    stages = _stages_taken_as_stored(resolved.study.parts, run)
    with Asking().open() as asker:
        again = RunInProgress(folder, resolved, asker, None)
        again.became = parts
        again.analyse(again.parts, kept=[stage.name for stage in stages])
        if units:
            models = [str(model["name"]) for model in run.about["models"]]
            count_responses(folder, again.became, models, by_prompt="prompts" in units)
    return again.problems, again.became


def _has_other_prompts(run: Run) -> bool:
    """Return whether the prompts of a run are not those of its study.

    Such a run scores another run again, or logs that have their own prompts.
    """
    if "scored" in run.about:
        return True
    design = run.folder.scan("design")
    if "wording" not in design.collect_schema():
        return False
    return "log" in design.select(pl.col("wording").unique()).collect()["wording"]


def _designed(run: Run, resolved: Resolved, place: Path) -> dict[str, DataFrame]:
    """Return the prompts of each part that the run has prompts of, made again.

    Parts whose data are not available are left out.
    """
    names = run.folder.scan("design").select(col.part.unique()).collect()["part"].to_list()
    parts = [part for part in resolved.study.parts if part.name in names]
    resolved = dataclasses.replace(resolved, study=dataclasses.replace(resolved.study, parts=parts))
    place.mkdir()
    folder = RunFolder(place)
    became = make_design(resolved, Library.default(), folder)
    design = folder.read("design")
    return {name: design.filter(part=name) for name, entry in became.items() if entry["status"] == "run"}


def _without_empty(table: DataFrame) -> DataFrame:
    """Return a table without the columns that are null in all rows, such as factors of parts left out."""
    return table.select(column for column in table if column.null_count() < table.height)


def _table(folder: RunFolder, name: str) -> DataFrame:
    path = folder.table_path(name)
    if not is_file(path):
        return DataFrame()
    with reading(path):
        return pl.read_parquet(path, glob=False)


def _unknown_rows(run: Run, parts: Sequence[str]) -> list[str]:
    """Return sentences about prompts of unknown parts, and responses to unknown prompts."""
    design = run.folder.scan("design")
    unknown = design.filter(~col.part.is_in(parts)).collect()
    sentences = []
    if unknown.height:
        names = ", ".join(unknown["part"].unique(maintain_order=True))
        sentences.append(
            f"design: {unknown.height:,} prompts are of parts that the study does not have ({names})"
        )
    responses = (
        run.folder.scan("responses").select("prompt_id").join(design, on="prompt_id", how="anti").collect()
    )
    if responses.height:
        row = responses["prompt_id"][0]
        sentences.append(
            f"responses: {responses.height:,} responses are to prompts that"
            f" design does not have, such as {row}"
        )
    return sentences


def _changed_files(run: Run, resolved: Resolved, *, run_code: bool) -> list[str]:
    """Return a sentence for each input file of the study whose content is not that of the run."""
    if _is_of_own_data(run):
        return []
    digests = resolve_stored(run.path, run_code=run_code).inputs
    return [
        f"inputs: {path} is not the file that the run used"
        for path, digest in digests.items()
        if resolved.inputs.get(path, digest) != digest
    ]


def _differing_settings(run: Run) -> list[str]:
    """Return a sentence for each setting in run.json that contradicts study.yaml or another one."""
    document, about = document_of(run), run.about
    pairs = {key: (document[key], about[key]) for key in document if key in about and key not in _DESCRIBED}
    if "models" in document:
        pairs["models"] = (_names(document["models"]), _names(about["models"]))
    if "parts" in document:
        pairs["parts"] = (sorted(document["parts"]), sorted(about["parts"]))
    sentences = [
        f"run.json: {key} is {stated} there, and {written} in study.yaml"
        for key, (written, stated) in pairs.items()
        if written != stated
    ]
    if about.get("judged_by") is not None and document.get("judge") is None:
        sentences.append("run.json: it names a judge, and study.yaml names none")
    if about["complete"] and about["problems"]:
        sentences.append("run.json: it says that the run is complete, and lists problems")
    not_run = [name for name, part in about["parts"].items() if part["status"] != "run"]
    if about["complete"] and not_run:
        sentences.append(
            f"run.json: it says that the run is complete, and that {', '.join(not_run)} was not run"
        )
    return sentences


def _names(models: Sequence[Mapping[str, Any]]) -> list[str]:
    return [str(model.get("name")) for model in models]


def _differing_counts(run: Run, became: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a sentence for the first part whose numbers of prompts or responses contradict run.json.

    Parameters
    ----------
    became
        The numbers by part, counted again.
    """
    is_complete = run.about["complete"]
    for name, entry in run.about["parts"].items():
        stored, again = entry.get("responses"), became[name].get("responses")
        if entry["status"] == "run" and not became[name]["prompts"]:
            return [
                f"run.json: it says that the part {name} was run, and design.parquet has no prompts of it"
            ]
        if stored and stored != again:
            return [
                f"run.json: the numbers of responses of {name} are {stored} there,"
                f" and {again} in responses.parquet"
            ]
        counts = (stored or {}).values()
        if is_complete and any(count["found"] < count["wanted"] for count in counts):
            return [f"run.json: it says that the run is complete, and responses of {name} are missing"]
    return []


def _difference(name: str, stored: DataFrame, again: DataFrame) -> list[str]:
    """Return a sentence about the first difference between a table and the one computed again, if any."""
    if stored.columns != again.columns:
        missing = [column for column in again.columns if column not in stored.columns]
        added = [column for column in stored.columns if column not in again.columns]
        return [f"{name}: columns missing in the run: {missing}; columns only in the run: {added}"]
    if stored.height != again.height:
        return [f"{name}: {stored.height:,} rows in the run, {again.height:,} computed again"]
    is_different = DataFrame({column: unequal(stored[column], again[column]) for column in stored.columns})
    first_rows = {column.name: int(column.arg_max() or 0) for column in is_different if column.any()}
    if not first_rows:
        return []
    column, row = min(first_rows.items(), key=lambda entry: entry[1])
    identifying = [again[key][row] for key in _IDENTIFYING if key in again.columns and key != column]
    identity = ", ".join(str(value) for value in identifying if value is not None)
    values = f"is {stored[column][row]} in the run and {again[column][row]} computed again"
    count = is_different.select(pl.any_horizontal(pl.all()).sum()).item()
    return [
        f"{name}: the column {column} of row {row + 1} ({identity}) {values};"
        f" {count:,} of {stored.height:,} rows differ"
    ]


def unequal(stored: Series, again: Series) -> Series:
    """Return for each row whether two columns differ; numbers may differ by rounding."""
    if stored.dtype != again.dtype:
        return Series([True] * stored.len(), dtype=pl.Boolean)
    if not stored.dtype.is_float():
        return stored.ne_missing(again)
    least = 0.0 if _PROBABILITY.fullmatch(stored.name) else _NEAR_ZERO
    larger = pl.select(pl.max_horizontal(stored.abs(), again.abs())).to_series()
    near = (stored - again).abs() <= (_TOLERANCE * larger).clip(lower_bound=least)
    return stored.ne_missing(again) & ~near.fill_null(value=False)


def _other_versions(run: Run) -> str | None:
    """Return a sentence if the run was computed with other versions than those installed."""
    recorded = {"tiltmeter": str(run.about["tiltmeter"]), **run.about["packages"]}
    changes = [
        f"{name} {recorded[name]}, not {version(name)}"
        for name in ("tiltmeter", *_PACKAGES)
        if recorded.get(name) != version(name)
    ]
    if not changes:
        return None
    return f"the run was computed with {', '.join(changes)}; other versions may give other numbers"
