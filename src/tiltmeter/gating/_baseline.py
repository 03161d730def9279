"""Checks of the findings of a run against those of an earlier run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl
from polars import DataFrame, col

from tiltmeter.comparing._comparison import compare
from tiltmeter.comparing._difference_blocks import subject_of_verdicts
from tiltmeter.comparing._differences import UNJUDGED
from tiltmeter.errors import InputError
from tiltmeter.gating._checks import check_of_finding, interval_words, shown_number
from tiltmeter.gating._rule_files import Rules
from tiltmeter.gating._verdict import Check
from tiltmeter.runs import Run
from tiltmeter.schema import NAMED

_NUMBER = ("part", *NAMED)

"""Columns that identify a finding of one model."""


def against_baseline(
    run: Run,
    findings: DataFrame,
    baseline: Run,
    earlier: DataFrame,
    rules: Rules,
    notes: list[str],
    *,
    run_code: bool = False,
) -> list[Check]:
    """Return a check for each key metric of the baseline, and append notes on the comparison to `notes`.

    A model is compared with the model of the same name, or with the only model of the baseline. `findings`
    and `earlier` are the findings of the two runs, with short names in `name`. Without `run_code`, no code
    that study.yaml names is run.

    Raises
    ------
    InputError
        The runs cannot be compared, or the choice of models is ambiguous.
    """
    if run.path.resolve() == baseline.path.resolve():
        raise InputError(f"--baseline {baseline.path} is the run itself; give another run to compare with")
    rule = f"baseline {baseline.path.name}"
    checks: list[Check] = []
    verdicts: list[DataFrame] = []
    notes_of_comparisons: dict[str, None] = {}
    for (model,), of_model in findings.group_by("model", maintain_order=True):
        model_before = _model_of_baseline(str(model), baseline, earlier)
        comparison = compare(
            baseline,
            run,
            model_a=model_before,
            model_b=str(model),
            population=rules.population,
            run_code=run_code,
        )
        notes_of_comparisons |= dict.fromkeys(comparison.notes)
        judged = comparison.differences.drop_nulls("verdict")
        verdicts.append(judged)
        by_number = of_model.rows_by_key(_NUMBER, named=True, include_key=True, unique=True)
        for row in judged.iter_rows(named=True):
            finding = by_number[tuple(row[name] for name in _NUMBER)]
            checks.append(_check_difference(rule, row, finding, rules))
        before = earlier.filter(col.model == model_before)
        checks += _check_missing(rule, of_model, before, str(model), rules)
    if verdicts:
        notes += subject_of_verdicts(pl.concat(verdicts))
    notes += [note for note in notes_of_comparisons if note not in notes]
    return checks


def _model_of_baseline(model: str, baseline: Run, earlier: DataFrame) -> str:
    """Return the model of the baseline with which a model is compared.

    Raises
    ------
    InputError
        The baseline has several models, and none of this name.
    """
    models: list[str] = earlier["model"].unique(maintain_order=True).to_list()
    if model in models:
        return model
    if len(models) == 1:
        return models[0]
    raise InputError(
        f"--baseline {baseline.path} has the models {', '.join(models)}, not {model}; "
        f"give a run of {model}, or one with a single model"
    )


def _check_difference(rule: str, row: Mapping[str, Any], finding: Mapping[str, Any], rules: Rules) -> Check:
    """Return the check of one metric that was compared with the baseline.

    An inconclusive difference passes, because the model is not shown to be worse. If the change could not be
    tested, the check is skipped, or ungraded if most answers are missing.
    """
    if row["first"] is None or row["second"] is None:
        side = "the baseline" if row["first"] is None else "this run"
        return check_of_finding(rule, rules.open, f"not comparable: {side} has no estimate", finding)
    reason = f"{shown_number(row['second'])}, compared with {shown_number(row['first'])} in the baseline"
    if row["low"] is not None:
        reason += f", a difference of {shown_number(row['difference'])} ({interval_words(row)})"
    if row["change_q"] is not None:
        reason += f", q of the change of bias = {shown_number(row['change_q'])}"
    verdict, note = row["verdict"], row["note"]
    if verdict == "inconclusive":
        outcome = note or "not significantly worse"
    elif verdict == "unchanged" and note:
        outcome = f"unchanged, {note}"
    else:
        outcome = verdict
    is_untested = verdict == "inconclusive" and note in UNJUDGED
    if is_untested:
        mostly_unparsed = 2 * finding["answered"] < finding["attempts"]
        status = rules.open if mostly_unparsed else "skipped"
    else:
        status = "failed" if verdict == "worse" else "passed"
    return check_of_finding(rule, status, f"{reason}: {outcome}", finding)


def _check_missing(
    rule: str, findings: DataFrame, earlier: DataFrame, model: str, rules: Rules
) -> Iterator[Check]:
    """Yield a check for each key metric that only the baseline has.

    Single concepts are exempt, as they vary by run.
    """
    expected = earlier.filter("key", col.concept.is_null())
    missing = expected.join(findings, on=_NUMBER, how="anti", nulls_equal=True, maintain_order="left")
    reason = "the baseline has this metric, but this run does not"
    without_estimate = {"model": model, "estimate": None, "low": None, "high": None}
    for row in missing.iter_rows(named=True):
        yield check_of_finding(rule, rules.open, reason, row | without_estimate)
