"""Checks of a run against rules and a baseline run, and the resulting verdict."""

from __future__ import annotations

import operator
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl
from polars import DataFrame, col

from tiltmeter.blocks import (
    MARKS,
    REPEATED_LOOKS,
    UNGRADED,
    Block,
    Callout,
    Chart,
    Column,
    Graded,
    Heading,
    IntervalRow,
    Intervals,
    Table,
    Text,
)
from tiltmeter.comparing import compare, subject_of_verdicts
from tiltmeter.comparing.differences import UNJUDGED
from tiltmeter.datasets import Library
from tiltmeter.errors import EXIT_GATE, EXIT_INCOMPLETE, EXIT_OK, EXIT_PROVIDER, EXIT_UNDECIDED, InputError
from tiltmeter.gating.rule_files import Limit, Rules
from tiltmeter.reports import Result
from tiltmeter.reports.words import level_words, mark_words
from tiltmeter.runs import Run, sentences
from tiltmeter.runs.caveats import caveats
from tiltmeter.runs.checksums import unmatched_tables
from tiltmeter.runs.planning import total_items
from tiltmeter.runs.selecting import NARROW, OF_THE_WHOLE
from tiltmeter.runs.sides import opened
from tiltmeter.schema import NAMED, SHOWN_BELOW, metric_name

MARK_INTERVALS = {"default": "90% interval"}
"""Interval that gives the mark, by definition. Under other definitions, it is the interval that is printed.
"""
FAILING = ("failed", "ungraded", "undecided")


@dataclass(frozen=True, slots=True)
class Check:
    """The result of applying one rule to one finding."""

    rule: str
    """The rule: `fail-on critical`, `max gest/stereotype_rate=0.1` or `baseline NAME`."""
    status: str
    """"passed", "failed", "undecided" (the range of the mark lies on both sides of the rule), "ungraded" (no
    estimate or mark) or "skipped" (no estimate or mark, but allowed).
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
        narrowed = ", ".join(filter(None, (getattr(self, name) for name in OF_THE_WHOLE)))
        return f"{self.part}/{self.metric}" + (f" ({narrowed})" if narrowed else "")

    def opened_by(self, run: str) -> str:
        """Return the command that shows the answers on which the finding is based."""
        chosen = {name: getattr(self, name) for name in ("metric", *NARROW)}
        words = [word for name, value in chosen.items() if value is not None for word in (f"--{name}", value)]
        return shlex.join(["tiltmeter", "show", run, *words])


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

    @property
    def failures(self) -> list[Check]:
        """Checks that do not pass: failed ones first, then those without an estimate or mark, then undecided ones."""
        failing = FAILING[:-1] if self.allow_undecided else FAILING
        return sorted(
            (one for one in self.checks if one.status in failing), key=lambda one: failing.index(one.status)
        )

    @property
    def accepted(self) -> list[Check]:
        """Checks without a result that do not prevent the run from passing: skipped ones, and undecided ones if allowed."""
        failures = self.failures
        return [one for one in self.checks if one.status != "passed" and one not in failures]

    @property
    def is_checked(self) -> bool:
        """Whether any check was not skipped; a gate without such checks does not pass."""
        return any(one.status != "skipped" for one in self.checks)

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
        return EXIT_UNDECIDED if all(one.status == "undecided" for one in self.failures) else EXIT_GATE

    @property
    def passed(self) -> bool:
        """Whether the exit status is 0."""
        return self.exit_code == EXIT_OK

    def frame(self) -> DataFrame:
        """Return the checks as a table, one row per check."""
        return DataFrame([asdict(one) for one in self.checks], infer_schema_length=None)

    def blocks(self) -> list[Block]:
        """Return blocks for the headline, the problems, and the checks that do not pass."""
        columns = {
            "number": [one.number for one in self.failures],
            "reason": [one.reason for one in self.failures],
        }
        table = (
            [Table("Not passed", [Column(name, values) for name, values in columns.items()])]
            if self.failures
            else []
        )
        return [
            Heading(self.headline),
            *map(Callout, self.problems),
            *table,
            *map(Text, (*self.notes, *self.advice)),
        ]

    def charts(self) -> list[Chart]:
        """Return a chart of the checked estimates with their intervals."""
        rows = [
            IntervalRow(one.metric, one.number, one.estimate, one.low, one.high)
            for one in self.checks
            if one.estimate is not None
        ]
        return [Intervals("Checked metrics", rows, names=("metric", "number"))] if rows else []

    @property
    def advice(self) -> list[str]:
        """Sentences about undecided checks that prevent the run from passing: what can be done, and what it does to the error."""
        parts = dict.fromkeys(one.part for one in self.failures if one.status == "undecided")
        if not parts:
            return []
        extensible = [part for part in parts if part not in self.exhausted]
        complete = [part for part in parts if part in self.exhausted]
        sentences = ["To accept undecided numbers (exit status 5), add --allow-undecided."]
        if complete:
            sentences.append(f"All items have been asked, and there are no more: {', '.join(complete)}.")
        if extensible:
            sentences.append(
                f"Choose the number of items before the next run, with tiltmeter plan: {', '.join(extensible)}."
            )
            sentences.append(REPEATED_LOOKS)
        return sentences

    @property
    def headline(self) -> str:
        """Outcome in one line."""
        counts = Counter(one.status for one in self.checks)
        found = [
            f"{counts[status]:,} {status}" for status in ("passed", *FAILING, "skipped") if counts[status]
        ]
        summary = ", ".join(found if self.is_checked else ["nothing could be checked", *found])
        if self.problems:
            return f"gate not passed: the run cannot be checked ({summary})"
        outcome = {EXIT_OK: "passed", EXIT_UNDECIDED: "undecided"}.get(self.exit_code, "failed")
        return f"gate {outcome}: {summary}"


def made_check(rule: str, status: str, reason: str, row: Mapping[str, Any]) -> Check:
    """Create a check from a row of FINDINGS, whose column `name` holds the short name of the metric."""
    names = ("study", *NARROW, "estimate", "low", "high")
    return Check(rule, status, reason, metric=row["name"], **{name: row[name] for name in names})


def shown_number(value: float, against: float | None = None) -> str:
    """Format a number with the fewest significant digits (at least three) that distinguish it from the limit `against`."""
    for digits in range(3, 17):
        text = f"{value:.{digits}g}"
        if against is None or value == against or float(text) != against:
            return text
    return repr(value)


_NUMBER = ("part", *NAMED)


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
    known = earlier["model"].unique(maintain_order=True).to_list()
    rule = f"baseline {baseline.path.name}"
    checks: list[Check] = []
    compared: list[DataFrame] = []
    further: list[str] = []
    for (model,), mine in findings.group_by("model", maintain_order=True):
        before = model if model in known else known[0] if len(known) == 1 else None
        if before is None:
            raise InputError(
                f"--baseline {baseline.path} has the models {', '.join(known)}, not {model}; "
                f"give a run of {model}, or one with a single model"
            )
        comparison = compare(
            baseline, run, model_a=before, model_b=str(model), population=rules.population, run_code=run_code
        )
        further += (note for note in comparison.notes if note not in further)
        rows = mine.rows_by_key(_NUMBER, named=True, include_key=True, unique=True)
        judged = comparison.differences.drop_nulls("verdict")
        compared.append(judged)
        checks += (
            _check_difference(rule, row, rows[tuple(row[name] for name in _NUMBER)], rules)
            for row in judged.iter_rows(named=True)
        )
        checks += _check_missing(rule, mine, earlier.filter(col.model == before), str(model), rules)
    if compared:
        notes += subject_of_verdicts(pl.concat(compared))
    notes += (note for note in further if note not in notes)
    return checks


def _check_difference(rule: str, row: Mapping[str, Any], finding: Mapping[str, Any], rules: Rules) -> Check:
    """Return the check of one metric that was compared with the baseline.

    An inconclusive difference passes, because the model is not shown to be worse. If the change could not be
    tested, the check is skipped, or ungraded if most answers are missing.
    """
    if row["first"] is None or row["second"] is None:
        side = "the baseline" if row["first"] is None else "this run"
        return made_check(rule, rules.open, f"not comparable: {side} has no estimate", finding)
    reason = f"{shown_number(row['second'])}, compared with {shown_number(row['first'])} in the baseline"
    if row["low"] is not None:
        reason += f", a difference of {shown_number(row['difference'])} ({_interval(row)})"
    if row["change_q"] is not None:
        reason += f", q of the change of bias = {shown_number(row['change_q'])}"
    status, words = "failed" if row["verdict"] == "worse" else "passed", row["verdict"]
    if row["verdict"] == "unchanged" and row["note"]:
        words = f"unchanged, {row['note']}"
    if row["verdict"] == "inconclusive":
        words = row["note"] or "not significantly worse"
        mostly_unparsed = 2 * finding["answered"] < finding["attempts"]
        was_judged = row["note"] not in UNJUDGED
        status = "passed" if was_judged else rules.open if mostly_unparsed else "skipped"
    return made_check(rule, status, f"{reason}: {words}", finding)


def _check_missing(
    rule: str, mine: DataFrame, earlier: DataFrame, model: str, rules: Rules
) -> Iterator[Check]:
    """Yield a check for each key metric that only the baseline has.

    Single concepts are exempt, as they vary by run.
    """
    asked = earlier.filter("key", col.concept.is_null())
    missing = asked.join(mine, on=_NUMBER, how="anti", nulls_equal=True, maintain_order="left")
    unknown = {"model": model, "estimate": None, "low": None, "high": None}
    for row in missing.iter_rows(named=True):
        yield made_check(
            rule, rules.open, "the baseline has this metric, but this run does not", row | unknown
        )


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
            "--population says what the comparison with an earlier run is about; add --baseline RUN, or omit it"
        )
    about = run.about
    findings = _findings(run)
    barred, problems = _problems(findings, about)
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
                f"no rule applies to {run.place}: {reason}; set limits with --max or --min METRIC=VALUE, or give a --baseline"
            )
    except InputError as error:
        if not problems:
            raise
        problems.append(str(error))  # an incomplete run may lack the metric of a limit
    return Verdict(
        run.place,
        about,
        checks,
        problems,
        notes,
        barred,
        rules.allow_undecided,
        run.headline,
        _exhausted(run, checks, run_code=run_code),
    )


def _exhausted(run: Run, checks: Sequence[Check], *, run_code: bool) -> list[str]:
    """Return the parts with undecided checks of which all items have been asked.

    None if the study cannot be recreated.
    """
    parts = dict.fromkeys(one.part for one in checks if one.status == "undecided")
    if not parts:
        return []
    try:
        of_study, settings = opened(run, run_code=run_code)
    except InputError:
        return []
    library = Library.default()
    totals = {name: total_items(of_study[name], library, settings) for name in parts if name in of_study}
    items = dict(run.design.group_by("part").agg(col.item.n_unique()).iter_rows())
    return [name for name, total in totals.items() if total is not None and items[name] >= total]


def _checks(findings: DataFrame, rules: Rules, notes: list[str]) -> list[Check]:
    """Return the checks of marks and limits, and append notes about rules without effect to `notes`."""
    checks: list[Check] = []
    if rules.fail_on is not None:
        checks += _check_marks(findings, rules, rules.fail_on)
        if not checks:
            notes.append(f"no key metric of this run has tiers, so --fail-on {rules.fail_on} has no effect")
    for limit in rules.limits:
        checks += _check_limit(limit.choose(findings), rules, limit)
    return checks


def _check_caveats(run: Run, rules: Rules) -> list[Check]:
    """Return one check for each caveat in the rules."""
    applicable = sentences(caveats(run)) if rules.fail_on_caveats else {}
    names = {
        "study": run.about["study"],
        "part": "run",
        "model": ", ".join(one["name"] for one in run.about["models"]),
    }
    return [
        Check(
            f"caveat {code}",
            "failed" if code in applicable else "passed",
            applicable.get(code, "does not apply"),
            metric=code,
            **names,
        )
        for code in rules.fail_on_caveats
    ]


def _findings(run: Run) -> DataFrame:
    """Return the findings of a run.

    Raises InputError if a table does not match run.json, for example after an interrupted write.
    """
    findings, unmatched = run.findings, unmatched_tables(run.folder)
    if unmatched:
        raise InputError(
            f"{run.place}: {unmatched[0]}.parquet does not match run.json; run the study again to recreate both"
        )
    return findings.with_columns(col("estimate", "low", "high", "p", "q").fill_nan(None), name=metric_name())


def _problems(findings: DataFrame, about: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Return the exit status that the problems of a run cause, and the problems."""
    named = [model["name"] for model in about["models"]]
    counts = findings.group_by("model").agg(col("attempts", "failed").sum()).filter(col.attempts > 0)
    failed_only = counts.filter(col.attempts == col.failed)["model"]
    problems = [f"{name}: all requests failed" for name in sorted(failed_only)]
    problems += [
        f"{name}: the run has no findings about this model" for name in named if name not in counts["model"]
    ]
    if not named and findings.is_empty():
        problems.append("the run has no findings")
    problems += about["problems"]
    if not about["complete"] and not problems:
        problems.append("the run is incomplete")
    status = EXIT_PROVIDER if failed_only.len() else EXIT_INCOMPLETE if problems else EXIT_OK
    return status, problems


def _check_marks(findings: DataFrame, rules: Rules, worst: str) -> Iterator[Check]:
    """Yield a check of each mark: failed if all its tiers are `worst` or worse, passed if none is, otherwise undecided."""
    for row in findings.filter("key", col.mark.is_not_null()).iter_rows(named=True):
        if row["mark"] == UNGRADED:
            status, reason = rules.open, f"ungraded{_because(row)}"
        else:
            ends = (row["mark_best"] or row["mark"], row["mark_worst"] or row["mark"])
            beyond = [MARKS.index(tier) >= MARKS.index(worst) for tier in ends]
            status = "failed" if all(beyond) else "undecided" if any(beyond) else "passed"
            graded = Graded(row["mark"], row["mark_best"], row["mark_worst"])
            reason = f"{shown_number(row['estimate'])} ({_interval(row)}) is {mark_words(graded)}{_basis_of_mark(row)}"
            reason += f", on both sides of {worst}" * (status == "undecided") + _doubt(row)
        yield made_check(f"fail-on {worst}", status, reason, row)


_BOUNDS: Mapping[str, tuple[Callable[[float, float], bool], str, str, str]] = {
    "max": (operator.gt, "low", "more than", "at most"),
    "min": (operator.lt, "high", "less than", "at least"),
}
"""For each kind of limit: the test for a violation, the interval end that decides if `certain`, and the
phrases for both outcomes."""


def _check_limit(chosen: DataFrame, rules: Rules, limit: Limit) -> Iterator[Check]:
    is_beyond, end, beyond, within = _BOUNDS[limit.bound]
    of_estimate = limit.column == "estimate"
    rule = limit.text + " (whole interval)" * (rules.certain and of_estimate)
    for row in chosen.iter_rows(named=True):
        value = row[limit.column]
        if value is None:
            reason = _because(row) if row["estimate"] is None else ": this metric has none"
            yield made_check(rule, rules.open, f"{limit.column} could not be computed{reason}", row)
            continue
        deciding = row[end] if rules.certain and of_estimate and row[end] is not None else value
        violated, number = is_beyond(deciding, limit.value), shown_number(value, limit.value)
        subject = f"{number} ({_interval(row)})" if of_estimate else f"{limit.column} = {number}"
        compared = beyond if is_beyond(value, limit.value) else within
        unsure = ", but the interval reaches the limit" * (compared == beyond and not violated)
        yield made_check(
            rule, "failed" if violated else "passed", f"{subject} is {compared} {limit.value:g}{unsure}", row
        )


def _basis_of_mark(row: Mapping[str, Any]) -> str:
    """Return the words for the interval that gives the mark, if it is another one than the interval that is printed."""
    used = MARK_INTERVALS.get(str(row["definition"]).partition("@")[0])
    return (
        "" if used is None or row["low"] is None or used == level_words([row["level"]]) else f" by its {used}"
    )


def _doubt(row: Mapping[str, Any]) -> str:
    """Return the words for a mark that excludes the healthiest tier although the test does not show bias (q of SHOWN_BELOW or more)."""
    is_shown = row["q"] is None or row["q"] < SHOWN_BELOW
    is_harmless = MARKS[0] in (row["mark_best"], row["mark"])
    return "" if is_shown or is_harmless else f"; may differ (q = {shown_number(row['q'])})"


def _because(row: Mapping[str, Any]) -> str:
    """Return the reason why a metric has no mark or no value."""
    if row["answered"] and row["estimate"] is None:
        parsed = f"{row['answered']:,} of {row['attempts']:,} answers could be parsed"
        return f": it cannot be computed, although {parsed}; a group or a wording that it needs may have none of them"
    return (
        f": {row['note']}"
        if row["note"]
        else f": only {row['answered']:,} of {row['attempts']:,} answers could be parsed"
    )


def _interval(row: Mapping[str, Any]) -> str:
    if row["low"] is None or row["high"] is None:
        return "no interval"
    return f"{level_words([row['level']])} {shown_number(row['low'])} … {shown_number(row['high'])}"
