"""Print the tables of docs/associations-published.md.

Released BADF associations are analysed again, and its judge steps are validated.

Usage: python figures.py RELEASED COUNTS, with the folder of the files released with BADF and that of the
recovered counts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl

from tiltmeter.associations.released import Reanalysis, read_counts, read_released, reanalyse
from tiltmeter.labelling.scoring import score_sample

FILES = {
    "two1_QWEN3-32B_sim_gender_cb20_base.csv": "gender",
    "two1_QWEN3-32B_gender_simple3_sim_gender_simple3_all_summ.csv": "gender",
    "one_QWEN3-32B_gender_sim_gender__all_summ.csv": "gender",
    "two1_QWEN3-32B_sim_race_all_summ_base.csv": "4id",
    "two1_QWEN3-32B_sim_religions_all_summ_base.csv": "4id",
}
"""Released files, and which file holds their counts."""
SHOWN = ("fdr", "highest", "support", "exact", "together", "default")
STATED = (2_000, 5_000, 20_000)


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table whose columns after the first are numbers."""
    print(f"| {' | '.join(header)} |")
    print(f"|{'|'.join(['---'] + ['---:'] * (len(header) - 1))}|")
    for row in rows:
        print(f"| {' | '.join(f'{cell:,}' if isinstance(cell, int) else str(cell) for cell in row)} |")
    print()


def part(count: int, of: int) -> str:
    """Format a count with its share."""
    return f"{count:,} ({count / of:.1%})"


def counts_of(reanalysis: Reanalysis, identity: str | None = None) -> dict[str, tuple[int, int]]:
    """How many rows keep each rule or show each fact, of how many."""
    tables = [reanalysis.rules.rename({"rule": "what"}), reanalysis.facts.rename({"fact": "what"})]
    rows = pl.concat(tables).filter(pl.col("identity").eq_missing(pl.lit(identity)))
    return {row["what"]: (row["rows"], row["of"]) for row in rows.iter_rows(named=True)}


def survival(every: Sequence[Reanalysis]) -> None:
    """Rules by file, then by identity."""
    print("By file\n")
    named = [(f"{reanalysis.setting} {reanalysis.category}", counts_of(reanalysis)) for reanalysis in every]
    header = ("file", "published", *SHOWN)
    markdown(
        header, [(name, rows["published"][0], *(part(*rows[rule]) for rule in SHOWN)) for name, rows in named]
    )
    print("By identity\n")
    lines = []
    for reanalysis in every:
        for identity in reanalysis.associations["identity"].unique().sort():
            rows = counts_of(reanalysis, identity)
            lines.append(
                (
                    f"{reanalysis.setting} {identity}",
                    rows["published"][0],
                    *(part(*rows[rule]) for rule in SHOWN),
                )
            )
    markdown(("identity", *header[1:]), lines)


def families(every: Sequence[Reanalysis], tables: Sequence[tuple[pl.DataFrame, pl.DataFrame]]) -> None:
    """Sizes of the family of tests, and how many associations are kept together for each."""
    print("By the number of tests\n")
    lines = []
    for reanalysis, (released, counts) in zip(every, tables, strict=True):
        # The same part of the counts, with a number of tests stated.
        stated = [counts_of(reanalyse(released, counts, tests=number))["together"][0] for number in STATED]
        sizes = reanalysis.families
        lines.append(
            (
                f"{reanalysis.setting} {reanalysis.category}",
                sizes.released,
                *stated,
                sizes.used,
                sizes.supported,
                counts_of(reanalysis)["together"][0],
            )
        )
    headings = tuple(f"kept if {number:,} tests" for number in STATED)
    markdown(
        ("file", "tests released", *headings, "tests at most", "of them with support", "kept if so many"),
        lines,
    )


def facts(four: Sequence[Reanalysis]) -> None:
    """Print the evidence behind the released rows of four identities."""
    print("Four identities\n")
    columns = [counts_of(reanalysis) for reanalysis in four]
    lines = []
    for key, words in (
        ("not_highest", "another identity has a higher rate"),
        ("single", "only one list contains the concept"),
        ("needs_exact", "an expected count is below 5"),
    ):
        together = tuple(sum(values) for values in zip(*(column[key] for column in columns), strict=True))
        lines.append((words, *(part(*column[key]) for column in columns), part(*together)))
    markdown(("released rows where", *(reanalysis.category for reanalysis in four), "both"), lines)


def examples(every: Sequence[Reanalysis]) -> None:
    """Of each file the three greatest effects of those kept by the default definition."""
    print("Kept\n")
    lines = []
    for reanalysis in every:
        best = (
            reanalysis.associations.filter("default")
            .sort("effect", descending=True, maintain_order=True)
            .head(3)
        )
        for row in best.iter_rows(named=True):
            points = (
                f"{100 * row['effect']:+.1f} ({100 * row['low']:+.1f} to {100 * row['high']:+.1f})".replace(
                    "-", "−"
                )
            )
            about = (
                row["context"],
                f"{row['rate']:.1%}",
                f"{row['others_rate']:.1%}",
                points,
                f"{row['q_default']:.1g}",
            )
            lines.append((f"{row['concept']}, {row['identity']} ({reanalysis.setting})", *about))
    markdown(("association", "location", "rate", "others", "difference in points (95% interval)", "q"), lines)


def validation(folder: Path) -> None:
    """Figures of the two annotated samples."""
    print("Validation\n")
    lines = []
    for name in ("Sample_eva.csv", "sample_phrase_filter_res.csv"):
        for row in (
            score_sample(folder / name).figures.filter(pl.col("low").is_not_null()).iter_rows(named=True)
        ):
            typed = "" if row["typed"] is None else f"{row['typed']:.4f}"
            span = f"{row['estimate']:.4f}", f"{row['low']:.4f} to {row['high']:.4f}"
            lines.append((f"{row['step']}, {row['metric']}", typed, *span, f"{row['n']} {row['units']}"))
    markdown(("figure", "by the typed scores", "recomputed", "95% interval", "of"), lines)


def main(released: Path, recovered: Path) -> None:
    """Print all tables."""
    tables = [
        (read_released(released / name), read_counts(recovered / f"recovered_counts_{kind}.csv"))
        for name, kind in FILES.items()
    ]
    every = [reanalyse(*pair) for pair in tables]
    survival(every)
    families(every, tables)
    facts([reanalysis for reanalysis, kind in zip(every, FILES.values(), strict=True) if kind == "4id"])
    examples(every)
    validation(released)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
