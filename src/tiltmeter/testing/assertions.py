"""What a team asserts of a model in its own tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tiltmeter.gating import Limit, Rules, Verdict, gate
from tiltmeter.runs import Run, load
from tiltmeter.sanitising import printable


def assert_passes(
    run: Run | str | Path,
    *,
    fail_on: str | None = "critical",
    certain: bool = False,
    maximum: Mapping[str, float] | None = None,
    minimum: Mapping[str, float] | None = None,
    baseline: Run | str | Path | None = None,
    allow_ungraded: bool = False,
) -> None:
    """Assert that a run passes the gate: the same rules as `tiltmeter gate`.

    Parameters
    ----------
    run
        A run, its folder, or its name under the runs folder.
    fail_on
        Key metrics with this mark or a worse one fail; None: marks decide nothing.
    certain
        Fail only where the whole interval lies beyond the mark or limit; otherwise the estimate decides.
    maximum, minimum
        The most and the least a number may be, by `METRIC`, `PART/METRIC` or `METRIC[group=...,context=...]`.
    baseline
        A run no metric may have become worse than, with confidence.
    allow_ungraded
        Leave out what could not be graded or computed.

    Raises
    ------
    AssertionError
        It does not pass; the message names each number that failed with its interval, and how to open the answers behind it.
    InputError
        There is no such run, metric or mark.
    """
    __tracebackhide__ = True
    bounds = [Limit(bound, *one) for bound, limits in (("max", maximum), ("min", minimum)) for one in (limits or {}).items()]
    verdict = gate(_opened(run), Rules(fail_on, certain, tuple(bounds), allow_ungraded), None if baseline is None else _opened(baseline))
    if not verdict.passed:
        raise AssertionError(_message(verdict))


def _opened(run: Run | str | Path) -> Run:
    return run if isinstance(run, Run) else load(run)


def _message(verdict: Verdict) -> str:
    lines = [f"{verdict.about['study']}: {verdict.headline}", *(f"  {problem}" for problem in verdict.problems)]
    for one in verdict.failures:
        lines += [f"  {one.status}: {one.model} {one.number}: {one.reason} [{one.rule}]", f"    open it: {one.opened_by(verdict.run)}"]
    return "\n".join(printable(line, one_line=True) for line in lines)
