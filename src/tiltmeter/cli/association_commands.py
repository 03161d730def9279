"""Association commands: validate a judge against human annotations, and re-analyse released results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltmeter import reports
from tiltmeter.cli import command_options as o
from tiltmeter.errors import InputError, check_known

if TYPE_CHECKING:
    from polars import DataFrame

    from tiltmeter.associations.released import Families, Reanalysis, Validation


def validate(
    samples: Annotated[
        list[Path],
        typer.Argument(
            metavar="SAMPLE...",
            help="Annotated tables, each with the columns of one step of the study:\n\n"
            "\b\n"
            "extraction: story, character, found, truth (lists)\n"
            "decomposition: story, character, decomposed, decomposed_truth (lists)\n"
            "filter of definitional concepts: concept, truth, found (yes or no)\n"
            "clustering: phrase, gold, concept\n\n"
            "The sheets released with BADF also work.",
            show_default=False,
        ),
    ],
    concepts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Concepts table of a run, for samples that contain only gold clusters."
        ),
    ] = None,
    output: o.Format = "table",
) -> None:
    """Measure the accuracy of a judge, and of the clustering, against human annotations.

    Reports each step, with confidence intervals.
    """
    from tiltmeter.associations.released import validate as validated

    as_json = o.as_json(output)
    found = {sample: validated(sample, concepts=concepts) for sample in samples}
    if as_json:
        reports.print_json([_validated(sample, one) for sample, one in found.items()])
        return
    for sample, one in found.items():
        typer.echo(f"{'' if sample == samples[0] else chr(10)}{sample.name}\n")
        figures = [_figure(row) for row in one.figures.iter_rows(named=True)]
        reports.print_rows(figures, prose={"units": 12, "interval by": 20}, optional=("interval by",), lead=2)
        if not one.disagreements.is_empty():
            typer.echo("Figures stated in the sheet that differ from those computed from its rows:\n")
            reports.print_rows([_rounded(row) for row in one.disagreements.iter_rows(named=True)], lead=2)


def _validated(sample: Path, one: Validation) -> dict[str, Any]:
    from tiltmeter.associations.released import CONFIDENCE

    return {
        "sample": sample.name,
        "level": CONFIDENCE,
        "figures": one.figures,
        "disagreements": one.disagreements,
    }


def _figure(row: dict[str, Any]) -> dict[str, Any]:
    """Format a figure as a table row: counts without decimals, the interval in one cell."""
    from tiltmeter.associations.released import CONFIDENCE

    value, low, high = row["estimate"], row["low"], row["high"]
    return {
        "step": row["step"],
        "metric": row["metric"],
        "value": None
        if value is None
        else f"{value:,.0f}"
        if low is None and value == int(value)
        else f"{value:.4f}",
        f"{100 * CONFIDENCE:g}% interval": None if low is None else f"{low:.4f} … {high:.4f}",
        "typed": None if row["typed"] is None else f"{row['typed']:.4f}",
        "n": row["n"] or None,
        "units": row["units"],
        "interval by": row["interval"],
    }


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {name: f"{value:.4f}" if isinstance(value, float) else value for name, value in row.items()}


def reanalyse(
    released: Annotated[
        Path, typer.Argument(metavar="CSV", help="Associations released with BADF.", show_default=False)
    ],
    counts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Table with the number of lists (character descriptions) per concept and identity,"
            " reconstructed from the release. Needed unless --table is given.",
            show_default=False,
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="Only print a table of the paper, from the released rows alone: summary, locations (counts)"
            " or top (the highest scores of each group).",
            show_default=False,
        ),
    ] = None,
    setting: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Setting (two, single, ...) whose stories to take from the counts"
            " [default: that of the associations].",
        ),
    ] = None,
    category: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Attribute (gender, ...) whose rows to take from the counts (their column category)"
            " [default: that of the associations].",
        ),
    ] = None,
    tests: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Number of tests in the original study, if you know it [default:"
            " the largest possible number].",
        ),
    ] = None,
    examples: Annotated[
        int, typer.Option(min=0, metavar="N", help="Number of retained and rejected associations to show.")
    ] = 5,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            callback=o.new_file,
            metavar="FILE",
            help="Also write all rows with their verdicts (.csv, .jsonl or .parquet).",
        ),
    ] = None,
    output: o.Format = "table",
) -> None:
    """Re-analyse released associations.

    Applies exact tests, false discovery rate control and a minimum support.
    """
    from tiltmeter.associations.released import read_counts, read_released, reanalyse as reanalysed

    as_json = o.as_json(output)
    if table is not None:
        options = {
            "--counts": counts,
            "--setting": setting,
            "--category": category,
            "--tests": tests,
            "--output": out,
        }
        _print_released_table(released, table, options, as_json=as_json)
        return
    if counts is None:
        raise InputError(
            "give the counts behind the released rows with --counts FILE, or print a table"
            " of the paper with --table TABLE"
        )
    found = reanalysed(
        read_released(released), read_counts(counts), setting=setting, category=category, tests=tests
    )
    if out is not None:
        reports.write_table(found.associations, out)
    kept, dropped = _examples(found, examples)
    if as_json:
        document = {"released": released.name} | found._asdict() | {"kept": kept, "not_kept": dropped}
        del document["associations"]
        reports.print_json([document])
        return
    typer.echo(
        f"{released.name}: setting {found.setting}, category"
        f" {found.category}\n{_family_summary(found.families)}\n"
    )
    reports.print_rows(_by_identity(found), prose={"meaning": 30})
    for title, rows in (
        ("Retained associations with the largest effects:", kept),
        ("Rejected associations with the highest scores:", dropped),
    ):
        if not rows.is_empty():
            typer.echo(f"{title}\n")
            reports.print_rows(
                [_association(row) for row in rows.iter_rows(named=True)], prose={"highest": 16}, lead=3
            )
    if out is not None:
        typer.echo(f"all rows with their verdicts written to {out}")


def _print_released_table(released: Path, name: str, options: Mapping[str, object], *, as_json: bool) -> None:
    """Print a table of the paper; raise InputError for an option that applies to the analysis only."""
    from tiltmeter.associations.paper_tables import released_tables
    from tiltmeter.associations.released import read_released

    for option, value in options.items():
        if value is not None:
            raise InputError(
                f"{option} does not apply to --table, which needs the released rows alone; omit it"
            )
    tables = released_tables(read_released(released))
    check_known(name, tables, f"--table {name}: there is no such table of released associations")
    rows = tables[name].rows()
    if as_json:
        reports.print_json(rows.to_dicts())
    else:
        reports.print_blocks([tables[name].present(rows)])


def _family_summary(families: Families) -> str:
    bound = "" if families.bound is None else f" (the mentions allow at most {families.bound:,})"
    used = (
        f"{families.used:,} tests, as stated"
        if families.stated
        else f"{families.used:,} tests, the maximum possible ({families.supported:,} with support)"
    )
    return f"{families.released:,} tests were released{bound}. The false discovery rate is controlled over {used}."


def _by_identity(found: Reanalysis) -> list[dict[str, Any]]:
    """Return one row per rule and fact, with the number of associations that meet it, in total and by identity."""
    from tiltmeter.associations.released import FACTS, RULES

    cells: dict[str, dict[str, str]] = {name: {} for name in (*RULES, *FACTS)}
    for table, name in ((found.rules, "rule"), (found.facts, "fact")):
        for row in table.iter_rows(named=True):
            share = f" ({row['rows'] / row['of']:.1%})" if row["of"] and row[name] != "published" else ""
            cells[row[name]][row["identity"] or "all"] = f"{row['rows']:,}{share}"
    return [{"rule": name, **cells[name], "meaning": words} for name, words in (RULES | FACTS).items()]


def _examples(found: Reanalysis, count: int) -> tuple[DataFrame, DataFrame]:
    from polars import col

    kept, dropped = found.associations.filter("together"), found.associations.filter(~col.together)
    first = kept.sort("effect", descending=True, maintain_order=True).head(count)
    return first, dropped.sort("score", descending=True, maintain_order=True).head(count)


def _association(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "location": row["context"],
        "identity": row["identity"],
        "concept": row["concept"],
        "lists": f"{row['count']:,} of {row['lists']:,}",
        "rate": f"{row['rate']:.1%}",
        "others": f"{row['others_rate']:.1%}",
        "effect (points), 95% interval": f"{100 * row['effect']:+.1f} ({100 * row['low']:+.1f} …"
        f" {100 * row['high']:+.1f})".replace("-", "−"),
        "highest": f"{row['leader'] or 'another' if row['not_highest'] else row['identity']}"
        f" {row['leader_rate']:.1%}",
        "score": f"{row['score']:.4f}",
        "p": f"{row['p']:.2g}",
        "q": "–" if row["q_together"] is None else f"{row['q_together']:.2g}",
    }
