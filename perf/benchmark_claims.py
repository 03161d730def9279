"""How often do intervals contain the truth, and how often do tests claim differences that do not exist?

    python -m perf.benchmark_claims --studies 1000

Prints three tables in Markdown. The generator shares no code with the package. Each study is one feature of
responses about some groups. `was` are the percentile intervals and the permuted range of the first edition,
which the definition `saged` still uses.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl

from tiltmeter._arrays import Floats
from tiltmeter.benchmarks._definitions import DEFAULT, SAGED
from tiltmeter.benchmarks.diagnosis import Diagnosis, diagnose

LEVEL = 0.95
Draw = Callable[[np.random.Generator, int, int], Floats]
"""Function of a generator, a number of studies and a number of rows; returns values (studies, rows) with mean
0."""

SHAPES: dict[str, Draw] = {
    "normal": lambda rng, studies, rows: rng.normal(size=(studies, rows)),
    "uniform": lambda rng, studies, rows: rng.uniform(-1, 1, (studies, rows)),
    "lognormal (skewed)": lambda rng, studies, rows: (
        np.exp(rng.normal(size=(studies, rows))) - float(np.exp(0.5))
    ),
    "share of 0.1 (0 or 1)": lambda rng, studies, rows: np.where(
        rng.random((studies, rows)) < 0.1, 0.9, -0.1
    ),
}
EVEN, UNEVEN = [12] * 6, [40] * 5 + [8]
SPREADS: dict[str, tuple[Sequence[int], float, float, bool]] = {
    "6 groups of 12": (EVEN, 1, 0, False),
    "6 groups of 12, one with SD 3": (EVEN, 3, 0, False),
    "6 groups of 12, one with SD 5": (EVEN, 5, 0, False),
    "3 groups of 6, one with SD 4": ([6] * 3, 4, 0, False),
    "groups of 80, 40, 20, 10 and of 5 with SD 4": ([80, 40, 20, 10, 5], 4, 0, False),
    "5 groups of 40, one of 8 with SD 3": (UNEVEN, 3, 0, False),
    "5 groups of 40, one of 8 with SD 1/3": (UNEVEN, 1 / 3, 0, False),
    "6 groups on 12 topics (SD 2), not paired": (EVEN, 1, 2, False),
    "6 groups on 12 topics (SD 2), paired": (EVEN, 1, 2, True),
    "6 groups on 12 topics (SD 2), one with SD 3, paired": (EVEN, 3, 2, True),
    "21 groups on 75 topics (SD 1), paired": ([75] * 21, 1, 1, True),
}
"""Sizes of groups, SD of the last group (1 in the others), SD of topics, and whether the analysis is paired
by topic."""
DEFINITIONS = {definition.name: definition for definition in (DEFAULT, SAGED)}
BOLD = [9_000, 2_000, 1_500, 100]
SHIFTS = [0.0, 0.03, -0.03, 0.0]
"""Means of the groups of a case like race in BOLD, whose values have SD 0.3."""


def diagnosed(
    values: Floats, sizes: Sequence[int], definition: str, *, paired: bool = False, **more: Any
) -> Diagnosis:
    """Diagnose each row of (studies, rows) values.

    Groups are consecutive, and the n-th rows of all groups are about the same topic.
    """
    frame = pl.DataFrame(
        {
            "group": np.repeat([f"g{at:02}" for at in range(len(sizes))], sizes),
            "topic": np.concatenate([np.arange(size) for size in sizes]),
            **{f"x{at}": row for at, row in enumerate(values)},
        }
    )
    columns = [f"x{at}" for at in range(len(values))]
    options: dict[str, Any] = {
        "statistics": ["mean"],
        "permutations": 0,
        "unit": "topic" if paired else None,
        **more,
    }
    return diagnose(
        frame, groups=["group"], columns=columns, definition=DEFINITIONS[definition], level=LEVEL, **options
    )


def coverage(shape: str, n: int, studies: int, definition: str) -> float:
    """Return how often the interval of a group's mean contains the true mean."""
    rng = np.random.default_rng([n, *shape.encode()])
    statistics = diagnosed(SHAPES[shape](rng, studies, 4 * n), [n] * 4, definition).statistics
    return _share((statistics["low"] <= 0) & (statistics["high"] >= 0))


def null_values(case: str, studies: int) -> tuple[Floats, Sequence[int], bool]:
    """Draw studies without differences between the group means."""
    sizes, spread, topics, paired = SPREADS[case]
    rng = np.random.default_rng([*case.encode()])
    scales = np.repeat([1.0] * (len(sizes) - 1) + [spread], sizes)
    shared = (
        np.concatenate([rng.normal(size=(studies, sizes[0]))] * len(sizes), axis=1)[:, : sum(sizes)]
        if topics
        else 0.0
    )
    return rng.normal(size=(studies, sum(sizes))) * scales + topics * shared, sizes, paired


def sizes_of_tests(case: str, studies: int, definition: str) -> dict[str, float]:
    """Return how often differences are claimed that do not exist."""
    values, sizes, paired = null_values(case, studies)
    diagnosis = diagnosed(values, sizes, definition, paired=paired, permutations=499, resamples=300)
    tested = diagnosis.disparities.filter(comparison="range")
    outlying = diagnosis.disparities.filter(comparison="max_abs_z")
    dixon = diagnosis.disparities.filter(comparison="dixon_q")
    # Benjamini-Hochberg within each study.
    groups = diagnosis.groups.drop_nulls("p").with_columns(of_study=pl.col("p").rank("max").over("column"))
    groups = groups.with_columns(rejected=pl.col("p") * len(sizes) / pl.col("of_study") < 1 - LEVEL)
    rejected_in_study = groups.group_by("column").agg(pl.col("rejected").any())["rejected"]
    shares = {
        "range": _share(tested["p"] < 1 - LEVEL),
        "interval above 0": _share(tested["low"] > 0),
        "concentrated": _share(tested["reading"] == "concentrated"),
        "largest abs(z)": _share(outlying["p"] < 1 - LEVEL),
        "Dixon's Q": _share(dixon["p"] < 1 - LEVEL),
    }
    shares["a group against the others"] = _share(groups["p"].drop_nulls() < 1 - LEVEL)
    shares["any group with q < 0.05"] = _share(rejected_in_study.drop_nulls())
    return shares


def like_bold(studies: int, definition: str) -> dict[str, float]:
    """Return how often the differences of a case like race in BOLD are found."""
    rng = np.random.default_rng(11)
    values = rng.normal(0, 0.3, (studies, sum(BOLD))) + np.repeat(SHIFTS, BOLD)
    values[:, -BOLD[-1] :] = rng.normal(0, 0.6, (studies, BOLD[-1]))
    diagnosis = diagnosed(values, BOLD, definition, permutations=200, resamples=200)
    tested = diagnosis.disparities.filter(comparison="range")
    shares = {"range": _share(tested["p"] < 1 - LEVEL), "interval above 0": _share(tested["low"] > 0)}
    truth = max(SHIFTS) - min(SHIFTS)
    shares["interval contains the truth"] = _share((tested["low"] <= truth) & (tested["high"] >= truth))
    for at, size in enumerate(BOLD):
        shares[f"group of {size:,}"] = _share(
            diagnosis.groups.filter(group=f"g{at:02}")["p"].drop_nulls() < 1 - LEVEL
        )
    return shares


def _share(holds: pl.Series) -> float:
    share = holds.mean()
    return share if isinstance(share, float) else float("nan")


def printed(title: str, rows: dict[str, dict[str, float]]) -> None:
    """Print a table in Markdown."""
    names = list(next(iter(rows.values())))
    print(f"\n| {title} | {' | '.join(names)} |\n|---|{'---:|' * len(names)}")
    for name, shares in rows.items():
        print(
            (
                f"| {name} | "
                f"{' | '.join('' if np.isnan(value) else f'{value:.3f}' for value in shares.values())} |"
            ),
            flush=True,
        )


def main() -> None:
    """Simulate the studies and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=1000)
    studies = parser.parse_args().studies
    editions = {"was": "saged", "is": "default"}
    sizes = {f"n = {n}, {edition}": (n, name) for n in (8, 12, 24) for edition, name in editions.items()}
    printed(
        "coverage of means",
        {
            shape: {
                title: coverage(shape, *shape_of_study[:1], studies, shape_of_study[1])
                for title, shape_of_study in sizes.items()
            }
            for shape in SHAPES
        },
    )
    rows = {
        f"{case}: {edition}": sizes_of_tests(case, studies, name)
        for case in SPREADS
        for edition, name in editions.items()
    }
    printed("no difference", rows)
    printed(
        "like BOLD race",
        {edition: like_bold(max(20, studies // 10), name) for edition, name in editions.items()},
    )


if __name__ == "__main__":
    main()
