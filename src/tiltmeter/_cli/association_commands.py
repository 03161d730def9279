"""Association commands: re-analyse released results, and the old name of `label SAMPLE --score`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltmeter import reports
from tiltmeter._cli import command_options as o
from tiltmeter.errors import InputError, check_known

if TYPE_CHECKING:
    from polars import DataFrame

    from tiltmeter.associations.released import Families, Reanalysis


def validate(
    samples: Annotated[
        list[Path],
        typer.Argument(
            metavar="SAMPLE...",
            help="Annotated tables; see `tiltmeter label --help`.",
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
    """Old name of `tiltmeter label SAMPLE --score`, for several samples. It will be removed."""
    from tiltmeter._cli.sample_scores import print_scores

    as_json = o.as_json(output)
    typer.echo("note: validate will be removed; use: tiltmeter label SAMPLE --score", err=True)
    print_scores(samples, concepts=concepts, as_json=as_json)


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
    reanalysis = reanalysed(
        read_released(released), read_counts(counts), setting=setting, category=category, tests=tests
    )
    if out is not None:
        reports.write_table(reanalysis.associations, out)
    retained, rejected = _examples(reanalysis, examples)
    if as_json:
        document = {"released": released.name, **reanalysis._asdict(), "kept": retained, "not_kept": rejected}
        del document["associations"]
        reports.print_json([document])
        return
    typer.echo(f"{released.name}: setting {reanalysis.setting}, category {reanalysis.category}")
    typer.echo(f"{_family_summary(reanalysis.families)}\n")
    reports.print_rows(_by_identity(reanalysis), prose={"meaning": 30})
    _print_associations("Retained associations with the largest effects:", retained)
    _print_associations("Rejected associations with the highest scores:", rejected)
    if out is not None:
        typer.echo(f"all rows with their verdicts written to {out}")


def _print_associations(title: str, associations: DataFrame) -> None:
    """Print associations as a table under a title, if there are any."""
    if associations.is_empty():
        return
    typer.echo(f"{title}\n")
    rows = [_association(association) for association in associations.iter_rows(named=True)]
    reports.print_rows(rows, prose={"highest": 16}, lead=3)


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
    if families.stated:
        basis = "as stated"
    else:
        basis = f"the maximum possible ({families.supported:,} with support)"
    return (
        f"{families.released:,} tests were released{bound}."
        f" The false discovery rate is controlled over {families.used:,} tests, {basis}."
    )


def _by_identity(reanalysis: Reanalysis) -> list[dict[str, Any]]:
    """Return one row per rule and fact, with the associations that meet it, in total and by identity."""
    from tiltmeter.associations.released import FACTS, RULES

    meanings = RULES | FACTS
    cells: dict[str, dict[str, str]] = {name: {} for name in meanings}
    for table, column in ((reanalysis.rules, "rule"), (reanalysis.facts, "fact")):
        for row in table.iter_rows(named=True):
            has_share = row["of"] and row[column] != "published"
            share = f" ({row['rows'] / row['of']:.1%})" if has_share else ""
            cells[row[column]][row["identity"] or "all"] = f"{row['rows']:,}{share}"
    return [{"rule": name, **cells[name], "meaning": meaning} for name, meaning in meanings.items()]


def _examples(reanalysis: Reanalysis, count: int) -> tuple[DataFrame, DataFrame]:
    """Return retained associations with the largest effects, and rejected ones with the highest scores."""
    from polars import col

    retained = reanalysis.associations.filter("together")
    rejected = reanalysis.associations.filter(~col.together)
    return (
        retained.sort("effect", descending=True, maintain_order=True).head(count),
        rejected.sort("score", descending=True, maintain_order=True).head(count),
    )


def _association(row: dict[str, Any]) -> dict[str, Any]:
    """Format an association as a row of a table."""
    interval = f"{100 * row['low']:+.1f} … {100 * row['high']:+.1f}"
    leader = row["identity"]
    if row["not_highest"]:
        leader = row["leader"] or "another"
    return {
        "location": row["context"],
        "identity": row["identity"],
        "concept": row["concept"],
        "lists": f"{row['count']:,} of {row['lists']:,}",
        "rate": f"{row['rate']:.1%}",
        "others": f"{row['others_rate']:.1%}",
        "effect (points), 95% interval": f"{100 * row['effect']:+.1f} ({interval})".replace("-", "−"),
        "highest": f"{leader} {row['leader_rate']:.1%}",
        "score": f"{row['score']:.4f}",
        "p": f"{row['p']:.2g}",
        "q": "–" if row["q_together"] is None else f"{row['q_together']:.2g}",
    }
