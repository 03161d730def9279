"""Labels of a random sample of a run: what people, or a judge, read in the responses.

They measure how well rules, classifiers or a judge read, and correct the estimates of probes. The labels are
the file `labels.csv` in the run folder, one row for each sampled row and annotator.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from polars import DataFrame, Int64, Series, String, col, lit, when

from tiltmeter._files.writing import only_writer, writable, writing
from tiltmeter._judging.second_reader import read_with_judge
from tiltmeter.errors import InputError, check_known
from tiltmeter.models import Model, Sampling
from tiltmeter.reports._files import csv_table
from tiltmeter.runs import Asking, Resolved, Run
from tiltmeter.runs._asking import RunJudge
from tiltmeter.runs._folder import LABELS_FILE
from tiltmeter.runs._reading_quality import ROW, impossible_size, labels_of
from tiltmeter.runs._sides import Side, SideView, document_of, models_of, opened
from tiltmeter.runs._stage_store import read_table
from tiltmeter.runs._study_run import RunInProgress
from tiltmeter.schema import LABELS, REFUSED, TO_LABEL, UNCLEAR, StageTable, beside, conform, labels_meant
from tiltmeter.study import Part, Study

UNREAD_SHARE: Final = 0.25
"""Smallest share of unread rows in a sample, if there are as many."""
TEXT_COLUMNS: Final = ("question", "allowed", "prompt", "answer")
"""Columns of a sample that the annotator reads."""
JUDGE: Final = "judge "
"""Beginning of the names of annotators that are judges."""
REMEDY: Final = "make the run folder writable, in which labels are stored"
LABELS_OF_RESPONSE: Final = 1000
"""A response has several labels (of its phrases or features), but never so many."""
SHEET: Final = StageTable(
    {**LABELS, "answer": String},
    required=("model", "part", "prompt_id", "repetition", "stratum", "stratum_size"),
)
"""Columns of a filled-in sample."""


def draw_rows(rows: DataFrame, n: int, seed: int) -> DataFrame:
    """Draw rows at random from strata: groups, each with read and unread rows.

    Groups have equal shares, and unread rows at least UNREAD_SHARE. A larger `n` extends the sample of a
    smaller one.

    Parameters
    ----------
    rows
        What can be labelled: `group`, `read`, `outcome` and any other columns.
    n
        Number of rows.
    seed
        Random seed.

    Returns
    -------
    DataFrame
        About `n` rows in random order, with `stratum` and `stratum_size`.
    """
    is_unread = col.read.is_null()
    state = when(is_unread).then(lit("unread")).otherwise(lit("read"))
    stratum = pl.format("{}, {}", col.group.fill_null("all"), state)
    lots = Series("lot", np.random.default_rng(seed).random(rows.height))
    table = rows.with_columns(lots, stratum=stratum).filter(col.outcome != "failed")
    table = table.with_columns(stratum_size=pl.len().over("stratum").cast(Int64))
    unread = table["read"].null_count()
    unread_quota = n * max(UNREAD_SHARE, unread / max(table.height, 1))
    read_quota = n - min(unread_quota, unread)
    groups = max(table["group"].n_unique(), 1)
    quota = when(is_unread).then(unread_quota).otherwise(read_quota) / groups
    is_drawn = col.lot.rank("ordinal").over("stratum") <= quota.ceil()
    return table.filter(is_drawn).sort("lot").drop("lot")


def sample(
    run: Run, n: int, part: str | None = None, model: str | None = None, *, run_code: bool = False
) -> DataFrame:
    """Draw the rows of a run that are to be labelled, in random order.

    There are up to about `n` for each part and model.

    The same arguments give the same sample.

    Parameters
    ----------
    run_code
        Whether code that study.yaml of the run names may be run.

    Returns
    -------
    DataFrame
        LABELS with null `annotator` and `label`, and `question`, `allowed` (List(String); empty: a number),
        `prompt` and `answer`.

    Raises
    ------
    InputError
        The run has no such part or model, nothing in it can be labelled, or study.yaml names code and
        `run_code` is False.
    """
    if part is not None:
        check_known(part, run.about["parts"], f"{run.place} has no part {part!r}")
    if model is not None:
        check_known(model, models_of(run), f"{run.place} has no model {model!r}")
    rows = _rows_of(run, part=part, model=model, run_code=run_code)
    samples = [rows.clear()]
    for _, rows_of_part in rows.group_by("model", "part", maintain_order=True):
        samples.append(draw_rows(rows_of_part, n, run.about["seed"]))
    drawn = pl.concat(samples, how="diagonal")
    if drawn.is_empty():
        raise InputError(f"{run.place} has no responses with labels to check; choose another part or run")
    drawn = run.folder.beside(drawn, "design", "prompt")
    drawn = run.folder.beside(drawn, "responses", "answer")
    return conform(drawn, LABELS, further=True).select(*LABELS, *TEXT_COLUMNS)


def _rows_of(
    run: Run,
    of: DataFrame | None = None,
    *,
    part: str | None = None,
    model: str | None = None,
    run_code: bool = False,
) -> DataFrame:
    """Return what can be labelled in a part, a model or the responses in `of` (LABELS).

    The columns are TO_LABEL with `model` and `part`.
    """
    parts, _ = opened(run, run_code=run_code)
    tables = [DataFrame(schema={"model": String, "part": String, **TO_LABEL})]
    for model_name in models_of(run) if model is None else [model]:
        side = Side(run, model_name)
        for part_name in side.parts:
            if part_name not in parts or part not in (None, part_name):
                continue
            measures = side.measures(part_name)
            if of is not None:
                responses = of.filter(model=model_name, part=part_name)
                measures = measures.join(responses, on=["prompt_id", "repetition"], how="semi")
            if measures.height:
                rows = parts[part_name].to_label(SideView(side, part_name, measures))
                owner = {"model": lit(model_name), "part": lit(part_name)}
                tables.append(rows.with_columns(**owner).select("model", "part", *rows.columns))
    return pl.concat(tables)


def filled_in(labels: DataFrame | str | Path) -> DataFrame:
    """Return a filled-in sample from a table or a CSV file; raises InputError if the file is not one."""
    return labels if isinstance(labels, DataFrame) else read_table(Path(labels), SHEET)


def write_sample(rows: DataFrame, path: Path) -> None:
    """Write a sample as a CSV file to be filled in."""
    with writing(path) as aside:
        sheet = rows.select(*TEXT_COLUMNS, *LABELS).with_columns(col.allowed.list.join(" | "))
        csv_table(sheet.lazy()).collect().write_csv(aside)


def add_labels(
    run: Run,
    labels: DataFrame,
    annotator: str,
    *,
    replace: bool = True,
    replacing: str | None = None,
    run_code: bool = False,
) -> DataFrame:
    """Add the labels of one annotator to a run, in place of earlier ones for the same rows.

    Parameters
    ----------
    labels
        Rows of `sample` with a `label`: an allowed answer, "refused" or "unclear". Rows without one are
        ignored.
    replace
        Whether earlier labels of this annotator for the same rows are replaced.
    replacing
        If `replace` is False: the stored label that is replaced all the same.
    run_code
        Whether code that study.yaml of the run names may be run.

    Returns
    -------
    DataFrame
        The labels as they are stored (columns LABELS).

    Raises
    ------
    InputError
        A label is not allowed, or the folder cannot be written; or `replace` is False and a row has another
        label of this annotator.
    """
    if run.place != str(run.path):
        raise InputError(f"{run.place} is not on this machine; copy the run folder here to add labels to it")
    if not annotator.strip():
        raise InputError("the name of the annotator is empty; give one with --annotator")
    rows = _labelled_rows(labels)
    _check_rows(run, rows)
    rows = _with_meanings(run, rows, annotator, run_code=run_code)
    with writable(run.path, REMEDY), only_writer(run.path, run.place):
        stored = labels_of(run.folder)
        key = [*ROW, "annotator"]
        retained = stored.join(rows, on=key, how="anti", nulls_equal=True)
        replaced = stored.join(rows, on=key, how="semi", nulls_equal=True)
        is_changed = replaced.filter(col.label.ne_missing(lit(replacing, String))).height > 0
        if is_changed and not replace:
            raise InputError(
                f"this response has a label by {annotator}, given at another time or in another window; "
                "it was kept"
            )
        with writing(run.path / LABELS_FILE) as aside:
            csv_table(pl.concat([retained, rows]).lazy()).collect().write_csv(aside)
    return rows


def _labelled_rows(labels: DataFrame) -> DataFrame:
    """Return the rows of a sample that have a label; raise InputError if there are none, or a row twice."""
    rows = conform(labels, LABELS, further=True).with_columns(col.label.str.strip_chars())
    rows = rows.filter(col.label.fill_null("") != "")
    if rows.is_empty():
        raise InputError("the sample has no label; fill in its column label")
    repeated = rows.group_by(ROW, maintain_order=True).len().filter(col.len > 1)
    if repeated.height:
        row = repeated.row(0, named=True)
        raise InputError(
            f"the sample has {row['len']} labels of {row['prompt_id']} (repetition {row['repetition']}); "
            "give it one row"
        )
    return rows


def _check_rows(run: Run, rows: DataFrame) -> None:
    """Raise InputError if the labelled rows are not those of a sample of this run."""
    largest = LABELS_OF_RESPONSE * run.about["tables"]["measures"]["rows"]
    if not rows["stratum_size"].is_between(1, largest).all():
        raise InputError(
            "the column stratum_size of the sample does not fit this run; fill in only the column label"
        )
    problem = impossible_size(rows)
    if problem is not None:
        raise InputError(f"{problem}; restore the columns of the sample, and fill in only the column label")
    strata = rows.group_by("model", "part", "stratum", maintain_order=True)
    sizes = strata.agg(col.stratum_size.unique().sort())
    contradictory = sizes.filter(col.stratum_size.list.len() > 1)
    if contradictory.height:
        row = contradictory.row(0, named=True)
        first, second = row["stratum_size"][:2]
        raise InputError(
            f"the stratum {row['stratum']!r} of {row['part']} has a stratum_size of {first} and {second} "
            "in the sample; restore the columns of the sample, and fill in only the column label"
        )
    if "answer" in rows.columns:
        _check_answers(run, rows)


def _check_answers(run: Run, rows: DataFrame) -> None:
    """Raise InputError if most answers of a sample are not those of the run.

    A spreadsheet may change spaces and cut long texts, so that only a majority of other answers is a sign of
    another run.
    """
    both = run.folder.beside(rows, "responses", col.answer.alias("now")).drop_nulls(["answer", "now"])
    spaces = r"[\s']+"
    is_same = col.answer.str.replace_all(spaces, "") == col.now.str.replace_all(spaces, "")
    if both.height and both.select(is_same.mean()).item() < 0.5:
        raise InputError("the answers of the sample are not those of this run; label a sample of this run")


def _with_meanings(run: Run, rows: DataFrame, annotator: str, *, run_code: bool) -> DataFrame:
    """Return the labels that the answers of an annotator stand for (columns LABELS).

    Raises
    ------
    InputError
        A row is not of this run, or its label is not allowed.
    """
    possible = _rows_of(run, rows, run_code=run_code).select(*ROW, "allowed", "meaning")
    rows = beside(rows.select(LABELS.keys()), possible, *ROW)
    is_number = (col.allowed.list.len() == 0) & col.label.cast(pl.Float64, strict=False).is_not_null()
    is_without_meaning = col.label.is_in([REFUSED, UNCLEAR]) & col.allowed.is_not_null()
    stated = when(is_number | is_without_meaning).then("label")
    rows = rows.with_columns(annotator=lit(annotator), meant=pl.coalesce(stated, labels_meant(rows)))
    invalid = rows.filter(col.meant.is_null())
    if invalid.height:
        row = invalid.row(0, named=True)
        if row["allowed"] is None:
            raise InputError(
                f"the run has no response to label with prompt_id {row['prompt_id']}; "
                "the sample is of another run"
            )
        allowed = ", ".join([*(row["allowed"] or ["a number"]), REFUSED, UNCLEAR])
        raise InputError(f"the label {row['label']!r} of {row['prompt_id']} is not one of {allowed}")
    return conform(rows.with_columns(label="meant"), LABELS)


def judge_labels(
    run: Run, rows: DataFrame, judge: tuple[Model, Sampling], asking: Asking, *, run_code: bool = False
) -> None:
    """Let a judge label rows of `sample`; unusable answers of the judge are left out."""
    with asking.open() as asker:
        labels = read_with_judge(RunJudge(*judge, asker), rows)
    rows = rows.with_columns(labels)
    if not rows["label"].count():
        print(
            f"note: the judge {judge[0].name} gave no usable label; name another judge, "
            "or let people label the sample",
            file=sys.stderr,
        )
        return
    add_labels(run, rows, f"{JUDGE}{judge[0].name}", run_code=run_code)


def reanalyse(run: Run, *, run_code: bool = False) -> Run:
    """Compute the findings of a run again from its measures, with its labels.

    No model is called, and measures are kept.

    The findings of parts that labels do not correct (associations and benchmarks) are left as they are.

    Parameters
    ----------
    run_code
        Whether code that study.yaml of the run names may be run.

    Raises
    ------
    InputError
        study.yaml names code and `run_code` is False, or the study of the run cannot be recreated.
    """
    about = run.about
    parts, settings = opened(run, run_code=run_code)
    corrected = [parts[name] for name in about["parts"] if name in parts and _uses_labels(parts[name])]
    if not corrected:
        return run
    study = Study(name=about["study"], title=about["title"], parts=corrected)
    with Asking().open() as asker, writable(run.path, REMEDY), only_writer(run.path, run.place):
        inputs = document_of(run).get("inputs") or {}
        again = RunInProgress(run.folder, Resolved(study, settings, Sampling(), inputs), asker, None)
        again.became, again.problems = about["parts"], run.problems
        again.analyse(again.parts, kept=("measures",))
        problems = list(dict.fromkeys(again.problems))
        changes = {
            "tables": run.folder.sizes(),
            "parts": again.became,
            "problems": problems,
            "complete": not problems,
        }
        run.folder.write_json(about | changes)
    return run


def _uses_labels(part: Part) -> bool:
    """Return whether labels correct the findings of a part."""
    return any("labels" in stage.tables for stage in part.stages)
