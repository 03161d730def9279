"""Checks of a run against rules and a baseline run, and the resulting verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polars import DataFrame, col

from tiltmeter.datasets import Library
from tiltmeter.errors import EXIT_INCOMPLETE, EXIT_OK, EXIT_PROVIDER, InputError
from tiltmeter.gating._baseline import against_baseline
from tiltmeter.gating._checks import check_limit, check_marks, check_missing
from tiltmeter.gating._rule_files import Rules
from tiltmeter.gating._verdict import Check, Verdict
from tiltmeter.runs import Run, sentences
from tiltmeter.runs._caveats import caveats
from tiltmeter.runs._checksums import unmatched_tables
from tiltmeter.runs._planning import total_items
from tiltmeter.runs._presenting import labels_of, titles_of, units_of
from tiltmeter.runs._sides import opened
from tiltmeter.schema import metric_name


def gate(run: Run, rules: Rules, baseline: Run | None = None, *, run_code: bool = False) -> Verdict:
    """Check the findings and run.json of a run against rules.

    A run does not pass if it is incomplete or empty, or if one of its models gave no answers.

    Parameters
    ----------
    run
        The run to check.
    rules
        The rules.
    baseline
        Run to compare with; metrics that are significantly worse fail (see `tiltmeter.comparing`).
    run_code
        Whether code that study.yaml of either run names may be run; if not, their prompts are not paired.

    Raises
    ------
    InputError
        `rules.population` is True without a baseline, a limit names a metric that the run does not have, no
        rule applies to the run, or its files are inconsistent.
    """
    if rules.population and baseline is None:
        raise InputError(
            "--population says what the comparison with an earlier run is about;"
            " add --baseline RUN, or omit it"
        )
    findings = _findings(run)
    barred, problems = _problems(findings, run.about)
    earlier = DataFrame()
    if baseline is not None:
        earlier = _findings(baseline)
        _, faults = _problems(earlier, baseline.about)
        problems += [f"baseline {baseline.path.name}: {fault}" for fault in faults]
        barred = barred or (EXIT_INCOMPLETE if faults else EXIT_OK)
    checks: list[Check] = []
    notes: list[str] = []
    try:
        checks += _checks(findings, rules, notes)
        checks += _check_caveats(run, rules)
        if baseline is not None:
            checks += against_baseline(run, findings, baseline, earlier, rules, notes, run_code=run_code)
        if not checks:
            reason = "its key metrics have no tiers" if rules.fail_on else "marks are ignored"
            raise InputError(
                f"no rule applies to {run.place}: {reason};"
                " set limits with --max or --min METRIC=VALUE, or give a --baseline"
            )
    except InputError as error:
        if not problems:
            raise
        problems.append(str(error))  # an incomplete run may lack the metric of a limit
    return Verdict(
        run=run.place,
        about=run.about,
        checks=checks,
        problems=problems,
        notes=notes,
        barred=barred,
        allow_undecided=rules.allow_undecided,
        run_headline=run.headline,
        exhausted=_exhausted(run, checks, run_code=run_code),
        titles=titles_of(run),
        labels=labels_of(run),
        units=units_of(findings, run.grades),
    )


def _exhausted(run: Run, checks: Sequence[Check], *, run_code: bool) -> list[str]:
    """Return the parts with undecided checks of which all items have been asked.

    None if the study cannot be recreated.
    """
    names = dict.fromkeys(check.part for check in checks if check.status == "undecided")
    if not names:
        return []
    try:
        parts, settings = opened(run, run_code=run_code)
    except InputError:
        return []
    library = Library.default()
    items_of_run = dict(run.design.group_by("part").agg(col.item.n_unique()).iter_rows())
    exhausted = []
    for name in names:
        total = total_items(parts[name], library, settings) if name in parts else None
        if total is not None and items_of_run[name] >= total:
            exhausted.append(name)
    return exhausted


def _checks(findings: DataFrame, rules: Rules, notes: list[str]) -> list[Check]:
    """Return the checks of marks and limits, and append notes about rules without effect to `notes`."""
    checks: list[Check] = []
    if rules.fail_on is not None:
        checks += check_marks(findings, rules, rules.fail_on)
        if not checks:
            notes.append(f"no key metric of this run has tiers, so --fail-on {rules.fail_on} has no effect")
    if rules.missing_gap is not None:
        checks += check_missing(findings, rules.missing_gap)
    for limit in rules.limits:
        checks += check_limit(limit.choose(findings), rules, limit)
    return checks


def _check_caveats(run: Run, rules: Rules) -> list[Check]:
    """Return one check for each caveat in the rules."""
    if not rules.fail_on_caveats:
        return []
    reasons = sentences(caveats(run))
    models = ", ".join(model["name"] for model in run.about["models"])
    return [
        Check(
            rule=f"caveat {code}",
            status="failed" if code in reasons else "passed",
            reason=reasons.get(code, "does not apply"),
            study=run.about["study"],
            part="run",
            model=models,
            metric=code,
        )
        for code in rules.fail_on_caveats
    ]


def _findings(run: Run) -> DataFrame:
    """Return the findings of a run, with the short name of their metric in `name`.

    Raises InputError if a table does not match run.json, for example after an interrupted write.
    """
    findings = run.findings
    unmatched = unmatched_tables(run.folder)
    if unmatched:
        raise InputError(
            f"{run.place}: {unmatched[0]}.parquet does not match run.json;"
            " run the study again to recreate both"
        )
    numbers = col("estimate", "low", "high", "p", "q").fill_nan(None)
    return findings.with_columns(numbers, name=metric_name())


def _problems(findings: DataFrame, about: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Return the exit status that the problems of a run cause, and the problems."""
    models = [model["name"] for model in about["models"]]
    counts = findings.group_by("model").agg(col("attempts", "failed").sum()).filter(col.attempts > 0)
    without_answers = sorted(counts.filter(col.attempts == col.failed)["model"])
    without_findings = [name for name in models if name not in counts["model"]]
    problems = [f"{name}: all requests failed" for name in without_answers]
    problems += [f"{name}: the run has no findings about this model" for name in without_findings]
    if not models and findings.is_empty():
        problems.append("the run has no findings")
    problems += about["problems"]
    if not about["complete"] and not problems:
        problems.append("the run is incomplete")
    if without_answers:
        return EXIT_PROVIDER, problems
    return EXIT_INCOMPLETE if problems else EXIT_OK, problems
