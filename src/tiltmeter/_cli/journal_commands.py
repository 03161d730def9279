"""Journal commands: `tiltmeter journal stats|prune|export|import|check`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from tiltmeter import reports
from tiltmeter._cli import command_options as o
from tiltmeter._sanitising import printable
from tiltmeter.engine import upkeep
from tiltmeter.errors import EXIT_INCOMPLETE, EXIT_INPUT, InputError
from tiltmeter.runs._places import journal_of_runs

journal_app = typer.Typer(help="Manage the response cache, called the journal.", no_args_is_help=True)


@journal_app.command()
def stats(journal: o.Journal = None, output: o.Format = "table") -> None:
    """Show cached responses by model, and the runs using the cache."""
    as_json = o.as_json(output)
    statistics = upkeep.stats(journal_of_runs(journal))
    if as_json:
        reports.print_json(statistics)
    else:
        _print_stats(statistics)


@journal_app.command()
def prune(
    failed: Annotated[bool, typer.Option("--failed", help="Delete only failed requests.")] = False,
    before: Annotated[
        str | None,
        typer.Option(
            "--before",
            metavar="DATE",
            help="Delete only rows recorded before this date, such as 2026-01-31 (UTC).",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="NAME",
            help="Delete only rows of this model: provider/name, or the fingerprint shown by stats.",
        ),
    ] = None,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Delete the rows; without this option, only show what would be deleted."),
    ] = False,
    journal: o.Journal = None,
) -> None:
    """Delete cached responses that match all filters, and stale locks of runs that have ended.

    Without a filter, delete only the locks.
    """
    pruned = upkeep.prune(
        journal_of_runs(journal),
        failed=failed,
        before=None if before is None else _moment(before),
        model=model,
        apply=yes,
        say=_say,
    )
    _print_pruned(pruned)


@journal_app.command("export")
def export_journal(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="NAME.parquet or NAME.jsonl; - for JSON Lines on standard output.",
            show_default=False,
        ),
    ],
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            metavar="NAME",
            help="Export only rows of this model; repeat for several [default: all].",
        ),
    ] = None,
    journal: o.Journal = None,
) -> None:
    """Export the cache to a file, with all columns."""
    models = model or ()
    if file == "-":
        rows = upkeep.export_rows(journal_of_runs(journal), sys.stdout.buffer, models=models)
        _say(f"{rows:,} rows written")
        return
    o.new_file(Path(file))
    rows = upkeep.export_rows(journal_of_runs(journal), file, models=models)
    _say(f"{rows:,} rows written to {file}")


@journal_app.command("import")
def import_journal(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|JOURNAL",
            help="An exported NAME.parquet or NAME.jsonl, or another journal (file or URL).",
            show_default=False,
        ),
    ],
    journal: o.Journal = None,
) -> None:
    """Import rows from a file or another cache.

    Existing responses are kept; only failures are overwritten.
    """
    imported = upkeep.import_rows(source, journal_of_runs(journal))
    failures = f", {imported.failed:+,} failures" if imported.failed else ""
    typer.echo(f"{imported.rows:,} rows read; the journal changed by {imported.answers:+,} answers{failures}")


@journal_app.command()
def check(
    repair: Annotated[
        bool, typer.Option("--repair", help="Recover all readable rows, and keep the damaged file.")
    ] = False,
    journal: o.Journal = None,
    output: o.Format = "table",
) -> None:
    """Check the cache's integrity.

    Exit status 3 if it needs a repair or was partly recovered, 2 if it is unreadable.
    """
    as_json = o.as_json(output)
    if repair:
        _repair(journal, as_json=as_json)
        return
    health = upkeep.check(journal_of_runs(journal))
    if as_json:
        reports.print_json(health)
    else:
        _say(*_health_lines(health), err=False)
    if not health.sound:
        raise typer.Exit(EXIT_INPUT if health.state == "unusable" else EXIT_INCOMPLETE)


def _repair(journal: str | None, *, as_json: bool) -> None:
    repaired = upkeep.repair(journal_of_runs(journal), say=_say)
    if as_json:
        reports.print_json(repaired._asdict() | {"lost": repaired.lost})
    else:
        _say(*_repaired_lines(repaired), err=False)
    if repaired.lost:
        raise typer.Exit(EXIT_INCOMPLETE)


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"--before {text!r} is not a date; write it as 2026-01-31 or 2026-01-31T18:00+01:00"
        ) from None


def _say(*lines: str, err: bool = True) -> None:
    for line in lines:
        typer.echo(printable(line, one_line=True), err=err)


def _print_stats(statistics: upkeep.Stats) -> None:
    _say(
        f"{statistics.journal}: {statistics.answers:,} answers, {statistics.failed:,} failed,"
        f" {reports.size(statistics.size)} on disk, schema {statistics.schema}",
        err=False,
    )
    if statistics.models:
        typer.echo()
        rows = [_row_of_model(model) for model in statistics.models]
        reports.print_rows(rows, prose={"failed": 12}, optional=("first", "unmetered", "text"), lead=2)
    if statistics.claimants:
        reports.print_rows(
            [
                {"run": claimant.process, "state": claimant.state, "asking": claimant.claims}
                for claimant in statistics.claimants
            ]
        )


def _row_of_model(model: upkeep.ModelStats) -> dict[str, Any]:
    """Return the row of a model in the table of cached responses."""
    failures = ", ".join(f"{kind} {number:,}" for kind, number in model.failed.items())
    return {
        "model": model.name,
        "fingerprint": model.model,
        "answers": model.answers,
        "failed": failures or None,
        "input tokens": model.input_tokens,
        "output tokens": model.output_tokens,
        "unmetered": model.unmetered or None,
        "text": reports.size(model.text_bytes),
        "first": _date(model.first),
        "last": _date(model.last),
    }


def _print_pruned(pruned: upkeep.Pruned) -> None:
    answers = f"{pruned.answers:,} answers"
    if pruned.answers:
        tokens = f"{pruned.input_tokens:,} input and {pruned.output_tokens:,} output tokens"
        answers += f" (which cost {tokens})"
    removed = f"{answers}, {pruned.failed:,} failures, {pruned.claims:,} claims of ended runs"
    if pruned.size_after is None:
        typer.echo(f"would remove {removed}; nothing was removed. Add --yes to remove them")
        return
    before, after = reports.size(pruned.size_before), reports.size(pruned.size_after)
    typer.echo(f"removed {removed}; the journal now takes {after} on disk (before: {before})")
    if pruned.note:
        _say(pruned.note)


def _health_lines(health: upkeep.Health) -> list[str]:
    lines = [f"{health.journal}: {health.state}{_rows_in_words(health)}"]
    for problem in health.problems:
        example = f" ({problem.example})" if problem.example else ""
        lines.append(f"  {problem.what}: {problem.number:,}{example}")
    lines += [f"  {note}" for note in health.notes]
    if health.state == "unusable":
        reasons = [line.strip() for line in lines]
        return ["; ".join([*reasons, "restore a backup, or choose another --journal"])]
    if not health.sound:
        lines.append("  to repair it, run tiltmeter journal check --repair")
    return lines


def _rows_in_words(health: upkeep.Health) -> str:
    if health.readable is not None:
        return f", {health.readable:,} of {health.rows:,} rows are readable"
    return "" if health.rows is None else f", {health.rows:,} rows"


def _repaired_lines(repaired: upkeep.Repaired) -> list[str]:
    lines = [f"{repaired.journal}: was {repaired.was}; now contains {repaired.rows:,} rows"]
    if repaired.claimed is not None:
        lines.append(
            f"  recovered {repaired.rows:,} of the {repaired.claimed:,} rows expected in the file (fewer rows"
            " existed if it was pruned)"
        )
    if repaired.removed:
        lines.append(f"  removed {repaired.removed:,} rows that no run can use")
    if repaired.corrected:
        lines.append(
            f"  kept {repaired.corrected:,} answers without their token counts, which were not valid"
        )
    if repaired.aside is not None:
        lines.append(f"  the damaged file is kept as {repaired.aside}")
    return lines


def _date(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):  # a row that Tiltmeter did not write
        return "?"
