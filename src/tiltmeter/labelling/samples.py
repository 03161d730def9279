"""Labels of a random sample of a run: what people, or a judge, read in the responses.

They measure how well rules, classifiers or a judge read, and correct the estimates of probes. The labels are
the file `labels.csv` in the run folder, one row for each sampled row and annotator.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl
from polars import DataFrame, Int64, Series, String, col, lit, when

from tiltmeter.errors import InputError, check_known
from tiltmeter.files.writing import only_writer, writable, writing
from tiltmeter.judging.second_reader import read_with_judge
from tiltmeter.models import Model, Sampling
from tiltmeter.reports.files import csv_table
from tiltmeter.runs import Asking, Resolved, Run
from tiltmeter.runs.asking import RunJudge
from tiltmeter.runs.folder import LABELS_FILE
from tiltmeter.runs.reading_quality import ROW, impossible_size, labels_of
from tiltmeter.runs.sides import Side, SideView, document_of, models_of, opened
from tiltmeter.runs.stage_store import read_table
from tiltmeter.runs.study_run import RunInProgress
from tiltmeter.schema import LABELS, REFUSED, TO_LABEL, UNCLEAR, StageTable, beside, conform, labels_meant
from tiltmeter.study import Study

UNREAD_SHARE = 0.25
"""Smallest share of unread rows in a sample, if there are as many."""
SHOWN = ("question", "allowed", "prompt", "answer")
JUDGE = "judge "
"""Beginning of the names of annotators that are judges."""
REMEDY = "make the run folder writable, in which labels are stored"


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
    lots, is_unread = Series("lot", np.random.default_rng(seed).random(rows.height)), col.read.is_null()
    stratum = pl.format(
        "{}, {}", col.group.fill_null("all"), when(is_unread).then(lit("unread")).otherwise(lit("read"))
    )
    table = rows.with_columns(lots, stratum=stratum).filter(col.outcome != "failed")
    table = table.with_columns(stratum_size=pl.len().over("stratum").cast(Int64))
    unread = table["read"].null_count()
    wanted = n * max(UNREAD_SHARE, unread / max(table.height, 1))
    quota = when(is_unread).then(wanted).otherwise(n - min(wanted, unread)) / max(
        table["group"].n_unique(), 1
    )
    return table.filter(col.lot.rank("ordinal").over("stratum") <= quota.ceil()).sort("lot").drop("lot")


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
    for given, known, what in ((part, run.about["parts"], "part"), (model, models_of(run), "model")):
        if given is not None:
            check_known(given, known, f"{run.place} has no {what} {given!r}")
    rows, seed = _rows_of(run, part=part, model=model, run_code=run_code), run.about["seed"]
    chosen = [draw_rows(mine, n, seed) for _, mine in rows.group_by("model", "part", maintain_order=True)]
    drawn = pl.concat([rows.clear(), *chosen], how="diagonal")
    if drawn.is_empty():
        raise InputError(f"{run.place} has no responses with labels to check; choose another part or run")
    for table, text in (("design", "prompt"), ("responses", "answer")):
        drawn = run.folder.beside(drawn, table, text)
    return conform(drawn, LABELS, further=True).select(*LABELS, *SHOWN)


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
    parts, found = (
        opened(run, run_code=run_code)[0],
        [DataFrame(schema={"model": String, "part": String, **TO_LABEL})],
    )
    for name in models_of(run) if model is None else [model]:
        side = Side(run, name)
        for one in side.parts:
            if one not in parts or part not in (None, one):
                continue
            measures = side.measures(one)
            if of is not None:
                measures = measures.join(
                    of.filter(model=name, part=one), on=["prompt_id", "repetition"], how="semi"
                )
            if measures.height:
                rows = parts[one].to_label(SideView(side, one, measures))
                found.append(rows.select(lit(name).alias("model"), lit(one).alias("part"), pl.all()))
    return pl.concat(found)


def filled_in(labels: DataFrame | str | Path) -> DataFrame:
    """Return a filled-in sample from a table or a CSV file; raises InputError if the file is not one."""
    sheet = StageTable(
        {**LABELS, "answer": pl.String},
        required=("model", "part", "prompt_id", "repetition", "stratum", "stratum_size"),
    )
    return labels if isinstance(labels, DataFrame) else read_table(Path(labels), sheet)


def write_sample(rows: DataFrame, path: Path) -> None:
    """Write a sample as a CSV file to be filled in."""
    with writing(path) as aside:
        shown = rows.select(*SHOWN, *LABELS).with_columns(col.allowed.list.join(" | "))
        csv_table(shown.lazy()).collect().write_csv(aside)


def add_labels(
    run: Run,
    given: DataFrame,
    annotator: str,
    *,
    replace: bool = True,
    replacing: str | None = None,
    run_code: bool = False,
) -> DataFrame:
    """Add the labels of one annotator to a run, in place of earlier ones for the same rows.

    Parameters
    ----------
    given
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
    rows = (
        conform(given, LABELS, further=True)
        .with_columns(col.label.str.strip_chars())
        .filter(col.label.fill_null("") != "")
    )
    if rows.is_empty():
        raise InputError("the sample has no label; fill in its column label")
    if (twice := rows.group_by(ROW, maintain_order=True).len().filter(col.len > 1)).height:
        row = twice.row(0, named=True)
        raise InputError(
            f"the sample has {row['len']} labels of {row['prompt_id']} (repetition {row['repetition']}); give it one row"
        )
    # A stratum has at most all rows that can be labelled: a response has several (its phrases or features),
    # but never 1,000.
    if not rows["stratum_size"].is_between(1, 1000 * run.about["tables"]["measures"]["rows"]).all():
        raise InputError(
            "the column stratum_size of the sample does not fit this run; fill in only the column label"
        )
    if wrong_size := impossible_size(rows):
        raise InputError(
            f"{wrong_size}; restore the columns of the sample, and fill in only the column label"
        )
    sizes = rows.group_by("model", "part", "stratum", maintain_order=True).agg(
        col.stratum_size.unique().sort()
    )
    if (several := sizes.filter(col.stratum_size.list.len() > 1)).height:
        row = several.row(0, named=True)
        shown = " and ".join(str(size) for size in row["stratum_size"][:2])
        raise InputError(
            f"the stratum {row['stratum']!r} of {row['part']} has a stratum_size of {shown} in the sample; restore the columns of the "
            "sample, and fill in only the column label"
        )
    if "answer" in rows.columns:
        # A spreadsheet may change spaces and cut long texts, so that only a majority of other answers is a
        # sign of another run.
        squeezed = (text.str.replace_all(r"[\s']+", "") for text in (col.answer, col.now))
        same = (
            run.folder.beside(rows, "responses", col.answer.alias("now"))
            .drop_nulls(["answer", "now"])
            .select(pl.Expr.eq(*squeezed))
        )
        if same.height and same.to_series().mean() < 0.5:  # type: ignore[operator]
            raise InputError(
                "the answers of the sample are not those of this run; label a sample of this run"
            )
    known = _rows_of(run, rows, run_code=run_code).select(*ROW, "allowed", "meaning")
    rows = beside(rows.select(LABELS.keys()), known, *ROW)
    number = (col.allowed.list.len() == 0) & col.label.cast(pl.Float64, strict=False).is_not_null()
    free = number | (col.label.is_in([REFUSED, UNCLEAR]) & col.allowed.is_not_null())
    rows = rows.with_columns(
        annotator=lit(annotator), meant=pl.coalesce(when(free).then("label"), labels_meant(rows))
    )
    if (wrong := rows.filter(col.meant.is_null())).height:
        row = wrong.row(0, named=True)
        if row["allowed"] is None:
            raise InputError(
                f"the run has no response to label with prompt_id {row['prompt_id']}; the sample is of another run"
            )
        allowed = ", ".join([*(row["allowed"] or ["a number"]), REFUSED, UNCLEAR])
        raise InputError(f"the label {row['label']!r} of {row['prompt_id']} is not one of {allowed}")
    rows = conform(rows.with_columns(label="meant"), LABELS)
    with writable(run.path, REMEDY), only_writer(run.path, run.place):
        earlier = labels_of(run.folder)
        kept = earlier.join(rows, on=[*ROW, "annotator"], how="anti", nulls_equal=True)
        replaced = earlier.join(rows, on=[*ROW, "annotator"], how="semi", nulls_equal=True)
        if not replace and replaced.filter(col.label.ne_missing(lit(replacing, String))).height:
            raise InputError(
                f"this response has a label by {annotator}, given at another time or in another window; it was kept"
            )
        with writing(run.path / LABELS_FILE) as aside:
            csv_table(pl.concat([kept, rows]).lazy()).collect().write_csv(aside)
    return rows


def judge_labels(
    run: Run, rows: DataFrame, judge: tuple[Model, Sampling], asking: Asking, *, run_code: bool = False
) -> None:
    """Let a judge label rows of `sample`; unusable answers of the judge are left out."""
    with asking.open() as asker:
        labels = read_with_judge(RunJudge(*judge, asker), rows)
    rows = rows.with_columns(labels)
    if not rows["label"].count():
        print(
            f"note: the judge {judge[0].name} gave no usable label; name another judge, or let people label the sample",
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
    about, (parts, settings) = run.about, opened(run, run_code=run_code)
    mine = [
        parts[name]
        for name in about["parts"]
        if name in parts and any("labels" in stage.tables for stage in parts[name].stages)
    ]
    if not mine:
        return run
    study = Study(name=about["study"], title=about["title"], parts=mine)
    with Asking().open() as asker, writable(run.path, REMEDY), only_writer(run.path, run.place):
        inputs = document_of(run).get("inputs") or {}
        again = RunInProgress(run.folder, Resolved(study, settings, Sampling(), inputs), asker, None)
        again.became, again.problems = about["parts"], run.problems
        again.analyse(again.parts, kept=("measures",))
        problems = list(dict.fromkeys(again.problems))
        tables = {
            "tables": run.folder.sizes(),
            "parts": again.became,
            "problems": problems,
            "complete": not problems,
        }
        run.folder.write_json(about | tables)
    return run
