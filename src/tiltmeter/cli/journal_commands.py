"""Journal commands: `tiltmeter journal stats|prune|export|import|check`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from tiltmeter import reports
from tiltmeter.cli import command_options as o
from tiltmeter.engine import upkeep
from tiltmeter.errors import EXIT_INCOMPLETE, EXIT_INPUT, InputError
from tiltmeter.runs.places import journal_of_runs
from tiltmeter.sanitising import printable

journal_app = typer.Typer(help="Manage the response cache, called the journal.", no_args_is_help=True)


@journal_app.command()
def stats(journal: o.Journal = None, output: o.Format = "table") -> None:
    """Show cached responses by model, and the runs using the cache."""
    as_json = o.as_json(output)
    found = upkeep.stats(journal_of_runs(journal))
    if as_json:
        reports.print_json(found)
    else:
        _print_stats(found)


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
    moment = None if before is None else _moment(before)
    _print_pruned(
        upkeep.prune(journal_of_runs(journal), failed=failed, before=moment, model=model, apply=yes, say=_say)
    )


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
    if file != "-":
        o.new_file(Path(file))
    rows = upkeep.export_rows(
        journal_of_runs(journal), sys.stdout.buffer if file == "-" else file, models=model or ()
    )
    _say(f"{rows:,} rows written" if file == "-" else f"{rows:,} rows written to {file}")


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
    done = upkeep.import_rows(source, journal_of_runs(journal))
    failures = f", {done.failed:+,} failures" if done.failed else ""
    typer.echo(f"{done.rows:,} rows read; the journal changed by {done.answers:+,} answers{failures}")


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
        repaired = upkeep.repair(journal_of_runs(journal), say=_say)
        reports.print_json(repaired._asdict() | {"lost": repaired.lost}) if as_json else _say(
            *_repaired_lines(repaired), err=False
        )
        if repaired.lost:
            raise typer.Exit(EXIT_INCOMPLETE)
        return
    found = upkeep.check(journal_of_runs(journal))
    reports.print_json(found) if as_json else _say(*_health_lines(found), err=False)
    if not found.sound:
        raise typer.Exit(EXIT_INPUT if found.state == "unusable" else EXIT_INCOMPLETE)


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


def _print_stats(found: upkeep.Stats) -> None:
    head = f"{found.journal}: {found.answers:,} answers, {found.failed:,} failed, {reports.size(found.size)} on disk, schema {found.schema}"
    _say(head, *([""] if found.models else []), err=False)
    rows = [
        {
            "model": one.name,
            "fingerprint": one.model,
            "answers": one.answers,
            "failed": ", ".join(f"{kind} {number:,}" for kind, number in one.failed.items()) or None,
            "input tokens": one.input_tokens,
            "output tokens": one.output_tokens,
            "unmetered": one.unmetered or None,
            "text": reports.size(one.text_bytes),
            "first": _date(one.first),
            "last": _date(one.last),
        }
        for one in found.models
    ]
    if rows:
        reports.print_rows(rows, prose={"failed": 12}, optional=("first", "unmetered", "text"), lead=2)
    if found.claimants:
        reports.print_rows(
            [{"run": one.process, "state": one.state, "asking": one.claims} for one in found.claimants]
        )


def _print_pruned(pruned: upkeep.Pruned) -> None:
    tokens = f" (which cost {pruned.input_tokens:,} input and {pruned.output_tokens:,} output tokens)"
    what = f"{pruned.answers:,} answers{tokens if pruned.answers else ''}, {pruned.failed:,} failures, {pruned.claims:,} claims of ended runs"
    if pruned.size_after is None:
        typer.echo(f"would remove {what}; nothing was removed. Add --yes to remove them")
        return
    before, after = reports.size(pruned.size_before), reports.size(pruned.size_after)
    typer.echo(f"removed {what}; the journal now takes {after} on disk (before: {before})")
    if pruned.note:
        _say(pruned.note)


def _health_lines(found: upkeep.Health) -> list[str]:
    rows = "" if found.rows is None else f", {found.rows:,} rows"
    if found.readable is not None:
        rows = f", {found.readable:,} of {found.rows:,} rows are readable"
    lines = [f"{found.journal}: {found.state}{rows}"]
    lines += [
        f"  {one.what}: {one.number:,}{f' ({one.example})' if one.example else ''}" for one in found.problems
    ]
    lines += [f"  {note}" for note in found.notes]
    if found.state == "unusable":
        return ["; ".join(line.strip() for line in [*lines, "restore a backup, or choose another --journal"])]
    return lines if found.sound else [*lines, "  to repair it, run tiltmeter journal check --repair"]


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
