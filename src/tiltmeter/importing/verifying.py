"""Verification of a run: its tables are compared with the checksums in run.json, and with what computing them again gives.

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

from tiltmeter.datasets import Library
from tiltmeter.errors import EXIT_GATE, EXIT_OK, InputError
from tiltmeter.files.paths import is_file
from tiltmeter.importing.stored_runs import OWN_TEXTS
from tiltmeter.models import Sampling
from tiltmeter.runs import Asking, Resolved, Run, RunFolder, refuse_code, resolve_stored
from tiltmeter.runs.attempts import make_design
from tiltmeter.runs.checksums import unmatched_tables
from tiltmeter.runs.folder import LABELS_FILE, STAGES, reading
from tiltmeter.runs.problems import count_responses
from tiltmeter.runs.sides import document_of, opened
from tiltmeter.runs.study_run import RunInProgress
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
        """Return one row per table: `table`, `rows`, `matches_run_json` and `computed_again` ("equal", "different" or null)."""
        different = {sentence.partition(":")[0] for sentence in self.differences}
        tables = dict.fromkeys([*self.rows, *self.as_stored, *self.unmatched])
        rows = [
            {
                "table": name,
                "rows": self.rows.get(name),
                "matches_run_json": name not in self.unmatched,
                "computed_again": ("different" if name in different else "equal")
                if name in self.rows
                else None,
            }
            for name in tables
        ]
        kinds = {
            "table": pl.String,
            "rows": pl.Int64,
            "matches_run_json": pl.Boolean,
            "computed_again": pl.String,
        }
        return DataFrame(rows, schema=kinds)

    def sentences(self) -> list[str]:
        """Return the result in words: what differs, or that nothing does, and what was not computed again."""
        changed = [f"{name}.parquet does not match its checksum in run.json" for name in self.unmatched]
        result = [*changed, *self.differences]
        if not result:
            count = len(self.rows) + len(self.as_stored)
            result = [
                f"all {count} tables match run.json, and {len(self.rows)} of them were computed again with equal content"
            ]
        if self.as_stored:
            result.append(f"not computed again: {', '.join(self.as_stored)}")
        return [*result, *self.remarks]


def verify_run(run: Run, *, run_code: bool = False) -> Verification:
    """Check a run: its tables against the checksums in run.json, and its numbers against those computed again.

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
    resolved, own_texts, whole = _resolved(run, run_code=run_code)
    with tempfile.TemporaryDirectory(prefix="tiltmeter-verify-", ignore_cleanup_errors=True) as place:
        again = RunFolder(Path(place) / "run")
        kept = _copied(run, resolved.study.parts, again.path)
        problems, became = _computed(run, resolved, again)
        designed = (
            {}
            if own_texts or _has_other_prompts(run)
            else _designed(run, dataclasses.replace(resolved, study=whole), Path(place) / "design")
        )
        stored_again = again.sizes()
        differences = [
            *_unknown_rows(run, [part.name for part in whole.parts]),
            *_changed_files(run, resolved, run_code=run_code),
            *_differing_settings(run),
            *_differing_counts(run, became),
        ]
        rows: dict[str, int] = {}
        if designed:
            stored = run.design.filter(pl.col("part").is_in(list(designed)))
            made = pl.concat([designed[part] for part in designed], how="diagonal_relaxed")
            rows["design"] = made.height
            differences += _difference(
                "design", stored.select(pl.exclude(_empty(stored))), made.select(pl.exclude(_empty(made)))
            )
        for name in stored_again:
            if name in ("design", "responses") or name in kept:
                continue
            rows[name] = stored_again[name]["rows"]
            differences += _difference(name, _table(run.folder, name), _table(again, name))
    as_stored = [name for name in run.about["tables"] if name not in rows]
    remarks = [f"while computing again: {problem}" for problem in problems if problem not in run.problems]
    if differences and (other := _other_versions(run)):
        remarks.append(other)
    return Verification(
        run.place, tuple(unmatched), tuple(differences), rows, tuple(as_stored), tuple(remarks)
    )


def _resolved(run: Run, *, run_code: bool) -> tuple[Resolved, bool, Study]:
    """Return the study of a run with those of its parts that have responses, whether it is about own texts, and the whole study."""
    own_texts = str(run.about["study"]).partition("/")[2] == OWN_TEXTS
    if own_texts:
        by_name, settings = opened(run, run_code=run_code)
        resolved = Resolved(
            Study(name=run.about["study"], title=run.about["title"], parts=list(by_name.values())),
            settings,
            Sampling(),
        )
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
    study = dataclasses.replace(
        resolved.study, parts=[part for part in resolved.study.parts if part.name in names]
    )
    return (
        Resolved(study, resolved.settings, resolved.sampling, document_of(run).get("inputs") or {}),
        own_texts,
        resolved.study,
    )


def _copied(run: Run, parts: Sequence[Part], folder: Path) -> list[str]:
    """Copy what numbers are computed from to another folder.

    Return the names of the tables that are taken as stored.
    """
    (folder / STAGES).mkdir(parents=True)
    for table in ("design", "responses"):
        shutil.copyfile(run.folder.table_path(table), folder / f"{table}.parquet")
    if is_file(run.path / LABELS_FILE):
        shutil.copyfile(run.path / LABELS_FILE, folder / LABELS_FILE)
    kept: list[str] = []
    for stage in {
        stage.name: stage for part in parts for stage in part.stages if _is_taken_as_stored(stage, run)
    }.values():
        record = run.path / STAGES / f"{stage.name}.json"
        if not is_file(record):
            raise InputError(
                f"{run.place} has no file {STAGES}/{stage.name}.json, which describes tables that are needed; run it again"
            )
        shutil.copyfile(record, folder / STAGES / record.name)
        for table in stage.tables:
            name = table if table == "measures" else f"{STAGES}/{table}"
            if is_file(run.folder.table_path(name)):
                shutil.copyfile(run.folder.table_path(name), folder / f"{name}.parquet")
                kept.append(name)
    return kept


def _is_taken_as_stored(stage: Stage, run: Run) -> bool:
    """Return whether a stage is not carried out again: it asked a judge, or it measured a table of texts that is not in the run."""
    asked_judge = stage.asks and run.about.get("judged_by") is not None
    return asked_judge or (stage.name == "measures" and run.about["study"] == f"benchmarks/{OWN_TEXTS}")


def _computed(run: Run, resolved: Resolved, folder: RunFolder) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Carry out the stages in another folder; return the problems, and the counts of responses by part."""
    kept = [
        stage.name
        for part in resolved.study.parts
        for stage in part.stages
        if _is_taken_as_stored(stage, run)
    ]
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
    for (
        part
    ) in resolved.study.parts:  # also those that run.json calls not run: their results may have been removed
        parts[part.name]["status"] = "run"
    units = {counts["unit"] for part in parts.values() for counts in part.get("responses", {}).values()}
    with Asking().open() as asker:
        again = RunInProgress(folder, resolved, asker, None)
        again.became = parts
        again.analyse(again.parts, kept=kept)
        if units:
            models = [str(model["name"]) for model in run.about["models"]]
            count_responses(folder, again.became, models, by_prompt="prompts" in units)
    return again.problems, again.became


def _has_other_prompts(run: Run) -> bool:
    """Return whether the prompts of a run are not those of its study: it scores another run again, or logs that have their own prompts."""
    if "scored" in run.about:
        return True
    design = run.folder.scan("design")
    return (
        "wording" in design.collect_schema()
        and "log" in design.select(pl.col("wording").unique()).collect()["wording"]
    )


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


def _empty(table: DataFrame) -> list[str]:
    """Return the columns that are null in all rows, such as factors of parts that were left out."""
    return [name for name in table.columns if table[name].null_count() == table.height]


def _table(folder: RunFolder, name: str) -> DataFrame:
    path = folder.table_path(name)
    if not is_file(path):
        return DataFrame()
    with reading(path):
        return pl.read_parquet(path, glob=False)


def _unknown_rows(run: Run, parts: Sequence[str]) -> list[str]:
    """Return sentences about prompts of parts that the study does not have, and responses to prompts that the run does not have."""
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
            f"responses: {responses.height:,} responses are to prompts that design does not have, such as {row}"
        )
    return sentences


def _changed_files(run: Run, resolved: Resolved, *, run_code: bool) -> list[str]:
    """Return a sentence for each input file of the study whose content is not that of the run."""
    is_of_texts = resolved.study.name.partition("/")[2] == OWN_TEXTS
    now = {} if is_of_texts else resolve_stored(run.path, run_code=run_code).inputs
    noted = resolved.inputs
    return [
        f"inputs: {path} is not the file that the run used"
        for path, digest in now.items()
        if noted.get(path, digest) != digest
    ]


def _differing_settings(run: Run) -> list[str]:
    """Return a sentence for each setting in run.json that is not that of study.yaml, or is contradicted there."""
    document, about = document_of(run), run.about
    pairs = {key: (document[key], about[key]) for key in document if key in about and key not in _DESCRIBED}
    if "models" in document:
        pairs["models"] = (_names(document["models"]), _names(about["models"]))
    if "parts" in document:
        pairs["parts"] = (sorted(document["parts"]), sorted(about["parts"]))
    different = {key: values for key, values in pairs.items() if values[0] != values[1]}
    sentences = [
        f"run.json: {key} is {now} there, and {written} in study.yaml"
        for key, (written, now) in different.items()
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
    """Return a sentence for the first part whose number of responses is not the one in run.json, or that has no prompts."""
    for name, entry in run.about["parts"].items():
        stored, again = entry.get("responses"), became[name].get("responses")
        if entry["status"] == "run" and not became[name]["prompts"]:
            return [
                f"run.json: it says that the part {name} was run, and design.parquet has no prompts of it"
            ]
        if stored and stored != again:
            return [
                f"run.json: the numbers of responses of {name} are {stored} there, and {again} in responses.parquet"
            ]
        if (
            stored
            and run.about["complete"]
            and any(counts["found"] < counts["wanted"] for counts in stored.values())
        ):
            return [f"run.json: it says that the run is complete, and responses of {name} are missing"]
    return []


def _difference(name: str, stored: DataFrame, again: DataFrame) -> list[str]:
    """Return a sentence about the first difference between a table of the run and the one computed again.

    None if they are equal.
    """
    if stored.columns != again.columns:
        missing = [column for column in again.columns if column not in stored.columns]
        added = [column for column in stored.columns if column not in again.columns]
        return [f"{name}: columns missing in the run: {missing}; columns only in the run: {added}"]
    if stored.height != again.height:
        return [f"{name}: {stored.height:,} rows in the run, {again.height:,} computed again"]
    different = {column: unequal(stored[column], again[column]) for column in stored.columns}
    first_rows = {column: differs.arg_max() for column, differs in different.items() if differs.any()}
    if not first_rows:
        return []
    column, row = min(first_rows.items(), key=lambda entry: int(entry[1] or 0))
    row = int(row or 0)
    identified = {key: again[key][row] for key in _IDENTIFYING if key in again.columns and key != column}
    named = ", ".join(str(value) for value in identified.values() if value is not None)
    count = sum(pl.select(pl.any_horizontal(*different.values())).to_series()) if different else 0
    values = f"is {stored[column][row]} in the run and {again[column][row]} computed again"
    return [
        f"{name}: the column {column} of row {row + 1} ({named}) {values}; {count:,} of {stored.height:,} rows differ"
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
    noted = {"tiltmeter": str(run.about["tiltmeter"]), **run.about["packages"]}
    other = [
        f"{name} {noted[name]}, not {version(name)}"
        for name in ("tiltmeter", *_PACKAGES)
        if noted.get(name) != version(name)
    ]
    return (
        f"the run was computed with {', '.join(other)}; other versions may give other numbers"
        if other
        else None
    )
