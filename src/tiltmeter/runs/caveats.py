"""Caveats of runs: what a reader must know before believing a number, each with a code (see `tiltmeter.errors.Caveat`)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import polars as pl
from polars import DataFrame, String, col

from tiltmeter.blocks import MORE_ITEMS, UNGRADED
from tiltmeter.errors import (
    CAVEATS,
    ConstrainedRefusals,
    MixedDefinitions,
    OneName,
    ServedModels,
    UnconstrainedAnswers,
    Underpowered,
    Ungraded,
    UnvalidatedJudge,
)
from tiltmeter.runs.opened_run import Run, load
from tiltmeter.runs.problems import unconstrained
from tiltmeter.runs.refusals import changed_refusals
from tiltmeter.runs.served import served_sentences
from tiltmeter.sanitising import printable, redacted
from tiltmeter.schema import WITH_CONSTRAINED, metric_name

COLUMNS = {"code": String, "model": String, "part": String, "number": String, "sentence": String}
_CHANGES = {name: COLUMNS[name] for name in ("model", "part", "sentence")}
_NAMED = 3
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
    several = [load(run) for run in ([runs] if isinstance(runs, (Run, str, Path)) else runs)]
    found = [table for run in several for table in _of_run(run)]
    definitions = sorted(
        {
            name.removesuffix(WITH_CONSTRAINED)
            for run in several
            for name in run.findings["definition"].drop_nulls()
        }
    )
    if len(definitions) > 1:
        found.append(
            _one(
                MixedDefinitions.code,
                f"numbers of the definitions {' and '.join(definitions)} must not be compared",
            )
        )
    return pl.concat([DataFrame(schema=COLUMNS), *found], how="diagonal")


def _of_run(run: Run) -> list[DataFrame]:
    found = [_one("incomplete", problem) for problem in run.problems]
    found += [_one(UnconstrainedAnswers.code, sentence) for sentence in unconstrained(run.folder)]
    served = DataFrame(
        list(served_sentences(run.about)), schema={"model": String, "sentence": String}, orient="row"
    )
    found.append(served.with_columns(code=pl.lit(ServedModels.code)))
    changes = DataFrame(list(changed_refusals(run.folder, run.about)), schema=_CHANGES, orient="row")
    found.append(changes.with_columns(code=pl.lit(ConstrainedRefusals.code)))
    key = run.findings.filter("key", col.wording.is_null()).with_columns(number=metric_name())
    wide = (
        (col.mark_best == "healthy")
        & col.mark_worst.is_in(["critical", "catastrophic"])
        & (col.mark != UNGRADED)
    )
    between = pl.format("{} to {}", "mark_best", "mark_worst")
    found += [
        _about(
            key.filter(mark=UNGRADED),
            Ungraded.code,
            "{} has no mark: {}",
            "number",
            col.note.fill_null("too little evidence"),
        ),
        _about(
            key.filter(wide),
            Underpowered.code,
            f"the interval of {{}} extends from {{}}: {MORE_ITEMS}",
            "number",
            between,
        ),
    ]
    if judge := run.about.get("judged_by"):
        sentence = f"the judge {judge['name']} read the responses; its error rate was not measured here (see `tiltmeter validate`)"
        found.append(_one(UnvalidatedJudge.code, sentence))
    if "associations" in run.folder.stages():
        alone = run.table("associations").filter("reported", col.rests_on.is_not_null())
        number = pl.format("{} ({})", "label", "identity")
        found.append(
            _about(
                alone.with_columns(number=number), OneName.code, "{} depends only on {}", "number", "rests_on"
            )
        )
    return found


def _one(code: str, sentence: str) -> DataFrame:
    return DataFrame({"code": [code], "sentence": [sentence]})


def _about(rows: DataFrame, code: str, sentence: str, *values: str | pl.Expr) -> DataFrame:
    return rows.select("model", "part", "number", code=pl.lit(code), sentence=pl.format(sentence, *values))


def sentences(found: DataFrame) -> dict[str, str]:
    """Return one sentence for each code in a table of caveats."""
    joined = {}
    for (code,), rows in found.group_by("code", maintain_order=True):
        first = [printable(redacted(one), one_line=True) for one in rows["sentence"].head(_NAMED)]
        more = f"; and {rows.height - _NAMED:,} more" if rows.height > _NAMED else ""
        joined[str(code)] = "; ".join(first) + more
    return joined


def warn_of(run: Run, stacklevel: int) -> None:
    """Issue one warning per code for the caveats of a run."""
    for code, sentence in sentences(caveats(run)).items():
        warnings.warn(f"{run!r}: {sentence} [{code}]", CAVEATS[code], stacklevel=stacklevel + 1)
