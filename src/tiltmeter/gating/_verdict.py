"""The verdict of a gate on a run, and the checks on which it rests."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from polars import DataFrame

from tiltmeter.blocks import (
    REPEATED_LOOKS,
    Block,
    Callout,
    Chart,
    Column,
    Heading,
    IntervalRow,
    Intervals,
    Table,
    Text,
)
from tiltmeter.errors import EXIT_GATE, EXIT_OK, EXIT_UNDECIDED
from tiltmeter.reports import Result
from tiltmeter.runs._selecting import NARROW, OF_THE_WHOLE

FAILING: Final = ("failed", "ungraded", "undecided")
"""Status of checks that do not pass, the most serious first."""
PANELS: Final[Mapping[str, str]] = {
    "share": "Shares",
    "difference": "Differences of shares",
    "": "Other values",
}
"""Titles of the panels of the chart of checks, by unit."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of applying one rule to one finding."""

    rule: str
    """The rule: `fail-on critical`, `max gest/stereotype_rate=0.1` or `baseline NAME`."""
    status: str
    """The outcome.

    - "passed", "failed";
    - "undecided": the range of the mark lies on both sides of the rule;
    - "ungraded": there is no estimate or mark;
    - "skipped": there is no estimate or mark, and the rules allow it.
    """
    reason: str
    """One sentence with the estimate and its interval."""
    study: str
    part: str
    model: str
    metric: str
    group: str | None = None
    concept: str | None = None
    context: str | None = None
    wording: str | None = None
    estimate: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def number(self) -> str:
        """Identifier of the finding: `part/metric (group, concept, context, wording)`."""
        name = f"{self.part}/{self.metric}"
        values = [getattr(self, column) for column in OF_THE_WHOLE]
        restrictions = ", ".join(value for value in values if value)
        return f"{name} ({restrictions})" if restrictions else name

    def opened_by(self, run: str) -> str:
        """Return the command that shows the answers on which the finding is based."""
        words = ["tiltmeter", "show", run]
        for column in ("metric", *NARROW):
            value = getattr(self, column)
            if value is not None:
                words += [f"--{column}", value]
        return shlex.join(words)


@dataclass(frozen=True, slots=True)
class Verdict(Result):
    """The outcome of a gate, with all checks.

    Examples
    --------
    >>> import tiltmeter as tm
    >>> run = tm.run("benchmarks/g20", model="sim/fair", limit=2, display="none", out="fair")
    >>> tm.gate(run, maximum={"range_mean_vader_compound": -1}).headline
    'gate failed: 5 failed'
    """

    run: str
    """Location of the run."""
    about: dict[str, Any]
    """Contents of its run.json."""
    checks: Sequence[Check]
    problems: Sequence[str] = ()
    """Problems that prevent the run from passing: it is incomplete or empty, or a model gave no answers."""
    notes: Sequence[str] = ()
    """Notes that do not affect the outcome."""
    barred: int = EXIT_OK
    """Exit status that the problems cause; 0 without problems."""
    allow_undecided: bool = False
    """Whether undecided checks pass."""
    run_headline: str = ""
    """Main result of the run in words, see `Run.headline`."""
    exhausted: Sequence[str] = ()
    """Parts of which all items have been asked, so that a larger run is not possible."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Titles of the parts by name."""
    labels: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Metrics in words, by part and metric."""
    units: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Units of the metrics, by part and metric."""

    @property
    def failures(self) -> list[Check]:
        """Checks that do not pass: first failed, then those without an estimate or mark, then undecided."""
        failing = list(FAILING)
        if self.allow_undecided:
            failing.remove("undecided")
        failures = [check for check in self.checks if check.status in failing]
        return sorted(failures, key=lambda check: failing.index(check.status))

    @property
    def accepted(self) -> list[Check]:
        """Checks without a result that do not prevent the run from passing.

        These are the skipped checks, and the undecided ones if they are allowed.
        """
        failures = self.failures
        return [check for check in self.checks if check.status != "passed" and check not in failures]

    @property
    def is_checked(self) -> bool:
        """Whether any check was not skipped; a gate without such checks does not pass."""
        return any(check.status != "skipped" for check in self.checks)

    @property
    def exit_code(self) -> int:
        """Exit status.

        0 passed, 1 a check failed or nothing was checked, 3 run incomplete or empty, 4 a model gave no
        answers, 5 undecided.
        """
        if self.barred != EXIT_OK:
            return self.barred
        if not self.failures:
            return EXIT_OK if self.is_checked else EXIT_GATE
        only_undecided = all(check.status == "undecided" for check in self.failures)
        return EXIT_UNDECIDED if only_undecided else EXIT_GATE

    @property
    def passed(self) -> bool:
        """Whether the exit status is 0."""
        return self.exit_code == EXIT_OK

    def frame(self) -> DataFrame:
        """Return the checks as a table, one row per check."""
        return DataFrame([asdict(check) for check in self.checks], infer_schema_length=None)

    def blocks(self) -> list[Block]:
        """Return blocks for the headline, the problems, and the checks that do not pass."""
        blocks: list[Block] = [Heading(self.headline)]
        blocks += [Callout(problem) for problem in self.problems]
        failures = self.failures
        if failures:
            numbers = Column("number", [check.number for check in failures])
            reasons = Column("reason", [check.reason for check in failures])
            blocks.append(Table("Not passed", [numbers, reasons]))
        blocks += [Text(sentence) for sentence in (*self.notes, *self.advice)]
        return blocks

    def charts(self) -> list[Chart]:
        """Return a chart of the checked estimates with their intervals, in panels by unit."""
        estimated = [check for check in self.checks if check.estimate is not None]
        if not estimated:
            return []
        several = len({check.model for check in estimated}) > 1
        rows = [self._drawn(check, with_model=several) for check in estimated]
        panels = list(dict.fromkeys(PANELS.values()))
        rows.sort(key=lambda row: panels.index(row.panel))
        chart = Intervals("Checked metrics", rows, names=("metric", "number"), finding=self.headline)
        return [chart]

    def _drawn(self, check: Check, *, with_model: bool) -> IntervalRow:
        """Return a check as a row of the chart, in words where the metric has them."""
        label = self.labels.get((check.part, check.metric))
        restrictions = [check.concept, check.context, check.wording]
        if label is None:
            label = check.metric.replace("_", " ")
            restrictions = [check.group, *restrictions]
        if with_model:
            restrictions.append(check.model)
        title = self.titles.get(check.part, check.part)
        name = ", ".join([f"{title}: {label}", *(value for value in restrictions if value)])
        unit = self.units.get((check.part, check.metric), "")
        panel = PANELS.get(unit, PANELS[""])
        return IntervalRow(panel, name, check.estimate, check.low, check.high, unit=unit)

    @property
    def advice(self) -> list[str]:
        """Sentences about undecided checks that prevent the run from passing.

        They say what can be done, and what it does to the probability of an error.
        """
        undecided = [check for check in self.failures if check.status == "undecided"]
        if not undecided:
            return []
        parts = dict.fromkeys(check.part for check in undecided)
        exhausted = [part for part in parts if part in self.exhausted]
        extensible = [part for part in parts if part not in self.exhausted]
        advice = ["To accept undecided numbers (exit status 5), add --allow-undecided."]
        if exhausted:
            advice.append(f"All items have been asked, and there are no more: {', '.join(exhausted)}.")
        if extensible:
            advice += [
                "Choose the number of items before the next run, with tiltmeter plan:"
                f" {', '.join(extensible)}.",
                REPEATED_LOOKS,
            ]
        return advice

    @property
    def headline(self) -> str:
        """Outcome in one line."""
        counts = Counter(check.status for check in self.checks)
        phrases = [] if self.is_checked else ["nothing could be checked"]
        statuses = [status for status in ("passed", *FAILING, "skipped") if counts[status]]
        phrases += [f"{counts[status]:,} {status}" for status in statuses]
        summary = ", ".join(phrases)
        if self.problems:
            return f"gate not passed: the run cannot be checked ({summary})"
        if self.exit_code == EXIT_OK:
            return f"gate passed: {summary}"
        if self.exit_code == EXIT_UNDECIDED:
            return f"gate undecided: {summary}"
        return f"gate failed: {summary}"
