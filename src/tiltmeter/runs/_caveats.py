"""Caveats of runs: what a reader must know before believing a number.

Each has a code (see `tiltmeter.errors.Caveat`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import polars as pl
from polars import DataFrame, Expr, String, col

from tiltmeter._sanitising import printable, redacted
from tiltmeter.blocks import MORE_ITEMS, UNGRADED
from tiltmeter.comparisons import shown_differences
from tiltmeter.errors import (
    CAVEATS,
    ConstrainedRefusals,
    MixedDefinitions,
    OneName,
    ServedModels,
    UnconstrainedAnswers,
    Underpowered,
    UnequalMissing,
    Ungraded,
    UnvalidatedJudge,
)
from tiltmeter.runs._opened_run import Run, load
from tiltmeter.runs._problems import unconstrained
from tiltmeter.runs._refusals import changed_refusals
from tiltmeter.runs._served import served_sentences
from tiltmeter.schema import WITH_CONSTRAINED, Schema, metric_name

COLUMNS: Schema = {"code": String, "model": String, "part": String, "number": String, "sentence": String}
"""Columns of `caveats`."""
_EXAMPLES = 3
"""Maximum number of examples in a warning."""


def caveats(runs: Run | str | Path | Sequence[Run | str | Path]) -> DataFrame:
    """Return the caveats of one or more runs (or their folders or names), one row each.

    Returns
    -------
    DataFrame
        `code` (see `tiltmeter.errors.CAVEATS`); the `model`, `part` and `number` concerned (null: all);
        `sentence`.

    Examples
    --------
    >>> import tiltmeter as tm
    >>> run = tm.run("benchmarks/g20", model="sim/fair", limit=2, display="none", out="fair")
    >>> tm.caveats(run).columns
    ['code', 'model', 'part', 'number', 'sentence']
    """
    opened = [load(run) for run in ([runs] if isinstance(runs, (Run, str, Path)) else runs)]
    tables = [table for run in opened for table in _of_run(run)]
    labels = {label for run in opened for label in run.findings["definition"].drop_nulls()}
    definitions = sorted({label.removesuffix(WITH_CONSTRAINED) for label in labels})
    if len(definitions) > 1:
        sentence = f"numbers of the definitions {' and '.join(definitions)} must not be compared"
        tables.append(_of_all(MixedDefinitions.code, sentence))
    return pl.concat([DataFrame(schema=COLUMNS), *tables], how="diagonal")


def _of_run(run: Run) -> list[DataFrame]:
    """Return the caveats of one run."""
    tables = [_of_all("incomplete", problem) for problem in run.problems]
    tables += [_of_all(UnconstrainedAnswers.code, sentence) for sentence in unconstrained(run.folder)]
    tables += [
        DataFrame({"code": [ServedModels.code], "model": [model], "sentence": [sentence]})
        for model, sentence in served_sentences(run.about)
    ]
    for change in changed_refusals(run.folder, run.about):
        row = {"code": ConstrainedRefusals.code, **change._asdict()}
        tables.append(DataFrame([row], schema_overrides={"part": String}))
    tables += _of_marks(run)
    tables.append(_of_unequal_missing(run))
    if judge := run.about.get("judged_by"):
        sentence = (
            f"the judge {judge['name']} read the responses;"
            " its error rate was not measured here (see `tiltmeter validate`)"
        )
        tables.append(_of_all(UnvalidatedJudge.code, sentence))
    if "associations" in run.folder.stages():
        of_one_name = run.table("associations").filter("reported", col.rests_on.is_not_null())
        numbered = of_one_name.with_columns(number=pl.format("{} ({})", "label", "identity"))
        sentences_of_rows = pl.format("{} depends only on {}", "number", "rests_on")
        tables.append(_of_rows(numbered, OneName.code, sentences_of_rows))
    return tables


def _of_marks(run: Run) -> list[DataFrame]:
    """Return the caveats about key findings without a mark, or with a mark that could be nearly any."""
    key = run.findings.filter("key", col.wording.is_null()).with_columns(number=metric_name())
    reason = col.note.fill_null("too little evidence")
    is_wide = (
        (col.mark_best == "healthy")
        & col.mark_worst.is_in(["critical", "catastrophic"])
        & (col.mark != UNGRADED)
    )
    range_of_marks = pl.format("{} to {}", "mark_best", "mark_worst")
    return [
        _of_rows(
            key.filter(mark=UNGRADED),
            Ungraded.code,
            pl.format("{} has no mark: {}", "number", reason),
        ),
        _of_rows(
            key.filter(is_wide),
            Underpowered.code,
            pl.format(f"the interval of {{}} extends from {{}}: {MORE_ITEMS}", "number", range_of_marks),
        ),
    ]


def _of_unequal_missing(run: Run) -> DataFrame:
    """Return the caveats about responses that are missing more often for one group than for another."""
    shown = shown_differences(run.findings).with_columns(number="metric")
    if shown.is_empty():
        return DataFrame()
    sentences = pl.format("{} {} ({})", "model", "note", "part")
    of_tests = _of_rows(shown, UnequalMissing.code, sentences)
    if "grades" not in run.folder.stages():
        return of_tests
    bounded = run.table("grades").filter(col.missing_low.is_not_null(), col.wording.is_null())
    bounded = bounded.join(shown, on=["model", "part"], how="semi").with_columns(number=metric_name())
    ends = [col(name).round(2).cast(String) for name in ("missing_low", "missing_high")]
    words = "with all missing responses counted one way and the other, {} ({}) is {} to {}"
    return pl.concat(
        [of_tests, _of_rows(bounded, UnequalMissing.code, pl.format(words, "number", "part", *ends))]
    )


def _of_all(code: str, sentence: str) -> DataFrame:
    """Return a caveat of a run as a whole."""
    return DataFrame({"code": [code], "sentence": [sentence]})


def _of_rows(rows: DataFrame, code: str, sentence: Expr) -> DataFrame:
    """Return one caveat for each row of a table with `model`, `part` and `number`."""
    return rows.select("model", "part", "number", code=pl.lit(code), sentence=sentence)


def sentences(found: DataFrame) -> dict[str, str]:
    """Return one sentence for each code in a table of caveats."""
    joined = {}
    for (code,), rows in found.group_by("code", maintain_order=True):
        first = rows["sentence"].head(_EXAMPLES)
        sentence = "; ".join(printable(redacted(text), one_line=True) for text in first)
        if rows.height > _EXAMPLES:
            sentence += f"; and {rows.height - _EXAMPLES:,} more"
        joined[str(code)] = sentence
    return joined


def warn_of(run: Run, stacklevel: int) -> None:
    """Issue one warning per code for the caveats of a run."""
    for code, sentence in sentences(caveats(run)).items():
        warnings.warn(f"{run!r}: {sentence} [{code}]", CAVEATS[code], stacklevel=stacklevel + 1)
