"""Assertions about models for use in tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tiltmeter._sanitising import printable
from tiltmeter.gating import Limit, Rules, Verdict, gate
from tiltmeter.runs import Run, load


def assert_passes(
    run: Run | str | Path,
    *,
    fail_on: str | None = "critical",
    certain: bool = False,
    maximum: Mapping[str, float] | None = None,
    minimum: Mapping[str, float] | None = None,
    baseline: Run | str | Path | None = None,
    population: bool = False,
    allow_ungraded: bool = False,
    allow_undecided: bool = False,
    missing_gap: float | None = 0.1,
) -> None:
    """Assert that a run passes a gate with the rules of `tiltmeter gate`.

    Parameters
    ----------
    run
        A run, its folder, or its name under the runs folder.
    fail_on
        Fail if all tiers of a key metric's mark are this one or worse; undecided if only some are. None
        ignores marks.
    certain
        If True, a limit fails only if the whole interval is beyond it, not just the estimate.
    maximum, minimum
        Upper and lower limits by name: `METRIC`, `PART/METRIC` or `METRIC[group=...,context=...]`.
    baseline
        Run to compare with. Fail if a metric is significantly worse than in this earlier run.
    population
        If True, a metric is worse if its bias on questions, names and wordings like these is larger than in
        the baseline; if False, its bias on these.
    allow_ungraded
        If True, skip metrics that could not be graded or computed, instead of failing.
    allow_undecided
        If True, metrics whose mark lies on both sides of `fail_on` pass.
    missing_gap
        Fail if the share of refused, unreadable, empty or failed responses is shown to differ between groups
        by more than this. None ignores missing responses.

    Raises
    ------
    AssertionError
        The run does not pass; the message lists each failed check with its interval and the command that
        shows the answers.
    InputError
        The run, a metric or a mark does not exist.
    """
    __tracebackhide__ = True
    limits = [Limit("max", name, value) for name, value in (maximum or {}).items()]
    limits += [Limit("min", name, value) for name, value in (minimum or {}).items()]
    rules = Rules(
        fail_on=fail_on,
        certain=certain,
        limits=tuple(limits),
        allow_ungraded=allow_ungraded,
        allow_undecided=allow_undecided,
        missing_gap=missing_gap,
        population=population,
    )
    verdict = gate(_opened(run), rules, None if baseline is None else _opened(baseline))
    if not verdict.passed:
        raise AssertionError(_message(verdict))


def _opened(run: Run | str | Path) -> Run:
    return run if isinstance(run, Run) else load(run)


def _message(verdict: Verdict) -> str:
    lines = [f"{verdict.about['study']}: {verdict.headline}"]
    lines += [f"  {problem}" for problem in verdict.problems]
    for check in verdict.failures:
        lines += [
            f"  {check.status}: {check.model} {check.number}: {check.reason} [{check.rule}]",
            f"    show the answers: {check.opened_by(verdict.run)}",
        ]
    return "\n".join(printable(line, one_line=True) for line in lines)
