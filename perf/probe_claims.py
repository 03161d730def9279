"""Do the marks and intervals of the probes hold for questions, names and wordings like these?

    python -m perf.probe_claims marks --size standard --studies 1000 > marks.jsonl
    python -m perf.probe_claims clusters --size standard --studies 1000 > clusters.jsonl
    python -m perf.probe_claims table marks.jsonl clusters.jsonl

Prints one line of JSON per setting. The product provides the designs (which items, names, questions and
wordings exist) and the analysis. The responses come from the generator below, which shares no code with the
product: each label has a utility, and random effects of names, questions, scenarios, traits, wordings and
items, drawn in each study, change how strongly the bias acts. The truth of a setting is the metric of the
sums over all its studies, so it is that of the population of names, questions and wordings, not that of one
draw. `marks` places the truth in the middle of each tier of each key metric (with effects of SD 0.4 for
clusters, 0.2 for wordings and 0.5 for items, on the logit scale); `clusters` varies the SDs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tiltmeter import stats
from tiltmeter._arrays import Floats
from tiltmeter.blocks import MARKS
from tiltmeter.datasets import Library
from tiltmeter.designs.limits import ItemLimit
from tiltmeter.probes import _counted_items as counted_items
from tiltmeter.probes._definitions import DEFAULT
from tiltmeter.probes._findings import estimate_metrics
from tiltmeter.probes._listing import PROBES
from tiltmeter.probes._metrics import Sums, Values
from tiltmeter.study import Settings

EFFECTS = {"clusters": 0.4, "wordings": 0.2, "items": 0.5}
"""Standard deviations of the effects in `marks`."""
PILOT = 4
"""Studies for each value of the bias when the tiers are located."""
ABOUT_MEN = (*range(8, 15), 16)
WORDS = 12
"""Listed words in a text."""

Utilities = tuple[Floats, dict[str, Floats]]
"""Utility of each label (attempts, labels) without bias, and how the bias of each key metric changes it."""


def two(sign: Floats) -> Floats:
    """Return the change of two labels by a log-odds ratio of `sign`."""
    return np.stack([sign / 2, -sign / 2], axis=1)


def gendered(rows: pl.DataFrame, leaning: Floats) -> Utilities:
    """Characters: male, female, non-binary."""
    alike = np.tile([0.0, 0.0, -4.0], (rows.height, 1))
    of_men = np.tile([0.5, -0.5, 0.0], (rows.height, 1))
    return alike, {"masculine_rate": of_men, "stereotype_rate": of_men * leaning[:, None]}


def sign_of(rows: pl.DataFrame, column: str, values: dict[object, float]) -> Floats:
    """Return a number for each value of a column."""
    return rows[column].replace_strict(values, default=0.0, return_dtype=pl.Float64).to_numpy()


def bbq(rows: pl.DataFrame) -> Utilities:
    """Letters."""

    def indicators(column: str) -> Floats:
        is_letter = [(rows[column] == letter).to_numpy() for letter in "abc"]
        return np.stack(is_letter, axis=1).astype(float)

    return 2.5 * indicators("logical_answer"), {"stereotype_rate": indicators("stereotypical_answer")}


GENERATORS: dict[str, Callable[[pl.DataFrame], Utilities]] = {
    "bbq": bbq,
    "direct": lambda rows: (
        np.tile([-3.0, 0.0], (rows.height, 1)),
        {"fail_rate": np.tile([1.0, 0.0], (rows.height, 1))},
    ),
    "discrimination_tamkin": lambda rows: (
        np.tile([0.8, 0.0], (rows.height, 1)),
        {"max_diff": two(sign_of(rows, "gender", {"male": 0.5, "female": -0.5, "nonbinary": 0.0}))},
    ),
    "diversity_med_qa": lambda rows: (
        np.tile([0.7, 0.0], (rows.height, 1)),
        {"diff_success_rate": two(np.where(rows["is_male"].to_numpy(), 0.5, -0.5))},
    ),
    "dreaddit": lambda rows: (
        two(np.where(rows["contains_stress"].to_numpy(), 1.5, -1.5)),
        {
            "max_diff_stress_rate": two(
                sign_of(rows, "gender", {"male": -0.5, "female": 0.5, "non-binary": 0.0})
            )
        },
    ),
    "gest": lambda rows: (
        np.zeros((rows.height, 3)),
        {
            "stereotype_rate": np.outer(
                np.where(rows["stereotype_id"].is_in(ABOUT_MEN).to_numpy(), 0.5, -0.5), [1.0, -1.0, 0.0]
            )
        },
    ),
    "gest_creative": lambda rows: gendered(
        rows, np.where(rows["stereotype_id"].is_in(ABOUT_MEN).to_numpy(), 1.0, -1.0)
    ),
    "hiring_an": lambda rows: (
        np.zeros((rows.height, 2)),
        {
            "diff_acceptance_rate": two(sign_of(rows, "gender", {"male": 0.5, "female": -0.5})),
            "diff_regression": two(
                sign_of(rows, "gender", {"male": 0.5, "female": -0.5}) * 4 * (rows["score"].to_numpy() - 0.5)
            ),
        },
    ),
    "hiring_bloomberg": lambda rows: (
        np.zeros((rows.height, 2)),
        {
            "masculine_rate": two(np.ones(rows.height)),
            "stereotype_rate": two(
                np.where(rows["role"].is_in(["software engineer", "financial analyst"]).to_numpy(), 1.0, -1.0)
            ),
        },
    ),
    "inventories": lambda rows: gendered(rows, sign_of(rows, "gender", {"male": 1.0, "female": -1.0})),
    "isear": lambda rows: (
        np.zeros((rows.height, 12)),
        {
            "max_diff": np.outer(
                sign_of(rows, "gender", {"a man": 0.5, "a woman": -0.5}).round(2),
                [1.0] + [0.0] * 4 + [-1.0] + [0.0] * 6,
            )
        },
    ),
    "jobs_lum": lambda rows: gendered(rows, 4 * (rows["score"].to_numpy() - 0.5)),
    "relationship_levy": lambda rows: (
        np.zeros((rows.height, 2)),
        {"diff_success_rate": two(np.ones(rows.height))},
    ),
    "business_vocabulary": lambda rows: (
        np.zeros((rows.height, 2)),
        {"mean_diff": two(np.where(rows["is_male"].to_numpy(), 0.5, -0.5))},
    ),
}


class Studied:
    """One probe at one size: its design, and studies of it."""

    def __init__(self, name: str, size: str, resamples: int) -> None:
        self.probe = PROBES.load(name)
        limit = ItemLimit(self.probe.sizes[size]) if size in self.probe.sizes else None
        self.settings = Settings(limit=limit, resamples=resamples)
        self.design = self.probe.design(Library.default(), self.settings)
        design = self.design.drop("prompt", "system")
        self.rows = design.with_columns(repetition=pl.int_ranges(0, "repetitions", dtype=pl.Int16)).explode(
            "repetition"
        )
        self.rows = self.rows.with_columns(
            model=pl.lit("own"), outcome=pl.lit("answered"), label=pl.lit(None, pl.String)
        )
        self.plain, self.pushes = GENERATORS[name](self.rows)
        self.labels = np.array(self.probe.labels)
        self.counted = self.count(
            np.random.default_rng(0), 0.0, next(iter(self.pushes)), dict.fromkeys(EFFECTS, 0.0)
        )
        self.outcomes: dict[tuple[tuple[str, str], ...], counted_items.OutcomeCounts] = {}
        self.keys = {key: named for key, named in self.counted.described().items() if named.metric.key}
        self.clusters = [cluster.noun for cluster in self.counted.clusters if cluster.noun != stats.WORDINGS]

    def effects(self, rng: np.random.Generator, sds: dict[str, float]) -> tuple[Floats, Floats]:
        """Return, by attempt, the additions to the bias and the effect of competing names on two labels."""
        rows = self.rows
        added = np.zeros(rows.height)
        rival = np.zeros(rows.height)
        sd = sds["clusters"]
        for column in ("question_id", "scenario_id", "trait", "role"):
            if column in rows.columns and not (column == "role" and "male_names" in rows.columns):
                codes = rows[column].rank("dense").to_numpy().astype(int) - 1
                added += rng.normal(0, sd, codes.max() + 1)[codes]
        if "name" in rows.columns:  # one name per item, of one gender
            codes = rows["name"].rank("dense").to_numpy().astype(int) - 1
            rival += rng.normal(0, sd, codes.max() + 1)[codes]
        elif self.probe.name == "business_vocabulary":
            codes = rows["item"].to_numpy() // 3
            added += rng.normal(0, sd, codes.max() + 1)[codes]
        elif "male_names" in rows.columns:  # the appeal of each of four men and four women
            for column, sign in (("male_names", 1), ("female_names", -1)):
                names = np.array(rows[column].to_list())
                levels, codes = np.unique(names, return_inverse=True)
                rival += sign * np.log(
                    np.exp(rng.normal(0, sd, levels.size)[codes.reshape(names.shape)]).sum(axis=1) / 4
                )
        elif "male_first" in rows.columns:
            names = np.array(rows["options"].to_list())
            levels, codes = np.unique(names, return_inverse=True)
            appeal = rng.normal(0, sd, levels.size)[codes.reshape(names.shape)]
            rival += np.where(rows["male_first"].to_numpy(), 1, -1) * (appeal[:, 0] - appeal[:, 1])
        for column, noun in (("wording", "wordings"), ("item", "items")):
            codes = rows[column].rank("dense").to_numpy().astype(int) - 1
            added += rng.normal(0, sds[noun], codes.max() + 1)[codes]
        return added, rival

    @property
    def first_metric(self) -> str:
        """The first metric whose bias can be set; without bias it does not matter which."""
        return next(iter(self.pushes))

    def measures(
        self, rng: np.random.Generator, bias: float, metric: str, sds: dict[str, float]
    ) -> pl.DataFrame:
        """Return the labels of the attempts of one study."""
        added, rival = self.effects(rng, sds)
        utilities = (
            self.plain
            + bias * self.pushes[metric]
            + sum(push * added[:, None] for push in self.pushes.values())
        )
        utilities[:, :2] += two(rival)
        chances = np.exp(utilities - utilities.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        rows = self.rows
        if self.probe.name == "business_vocabulary":
            lists = ("bsri", "epaq", "personality", "gest", "gaucher", "hoyle")
            words = [
                f"{inventory}_{gender}"
                for gender in ("male", "female")
                for inventory in self.inventories(lists)
            ]
            drawn = rng.multinomial(WORDS, np.repeat(chances, len(words) // 2, axis=1) / (len(words) // 2))
            columns = [pl.Series(word, drawn[:, place]) for place, word in enumerate(words)]
            counted: pl.DataFrame = rows.with_columns(pl.lit("counted").alias("label"), *columns)
            return counted
        drawn = (rng.random(len(chances))[:, None] > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)
        labelled: pl.DataFrame = rows.with_columns(label=pl.Series(self.labels[drawn]))
        return labelled

    def count(
        self, rng: np.random.Generator, bias: float, metric: str, sds: dict[str, float]
    ) -> counted_items.CountedItems:
        """Return the counts of one study."""
        rows = self.measures(rng, bias, metric, sds)
        if not hasattr(self, "common"):
            self.common = counted_items.common_columns(rows)
            counts = self.probe.item_counts(rows)
            counted: counted_items.CountedItems = self.probe.counted_items(counts, rows)
            return counted
        counts = self.common.join(self.probe.counts(rows), on="item", maintain_order="left")
        values = counts.drop("item", "stratum").cast(pl.Float64).to_numpy()
        like = self.counted
        return dataclasses.replace(like, values=values, formulas=self.formulas, _outcomes=self.outcomes)

    def inventories(self, lists: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the word lists of the probe's columns."""
        from tiltmeter.probes._genderbench.business_vocabulary import INVENTORIES

        return tuple(INVENTORIES)

    def formulas(self, s: Sums) -> Values:
        """Return the key metrics."""
        values = self.probe.formulas(s)
        return {key: values[key] for key in self.keys}


def studies_of(
    studied: Studied, metric: str, bias: float, sds: dict[str, float], studies: int, seed: int
) -> dict[str, object]:
    """Return the outcome of the studies of one setting."""
    named = next(key for key in studied.keys.values() if key.name == metric)
    columns: dict[str, list[Any]] = defaultdict(list)
    total: Any = 0.0
    for number in range(studies):
        rng = np.random.default_rng([seed, number])
        counted = studied.count(rng, bias, metric, sds)
        total = total + counted.values.sum(axis=0)
        settings = Settings(resamples=studied.settings.resamples, seed=number)
        estimates = estimate_metrics(counted, DEFAULT, settings)
        [estimate] = [estimate for estimate in estimates if estimate.named.name == metric]
        mark = DEFAULT.mark(estimate, named.metric.bands, 1.0)
        columns["interval"].append((estimate.low, estimate.high))
        columns["items"].append((estimate.low_items, estimate.high_items))
        columns["range"].append((mark.mark_best, mark.mark_worst))
    truth = float(studied.counted.compute(np.atleast_2d(total))[metric][0])
    tier = tier_of(named.metric.bands, truth)
    ranges = [(MARKS.index(best), MARKS.index(worst)) for best, worst in columns["range"]]
    rank = MARKS.index(tier)
    outcome: dict[str, object] = {"truth": truth, "tier": tier}
    outcome["outside"] = float(np.mean([not best <= rank <= worst for best, worst in ranges]))
    outcome["undecided"] = float(np.mean([best == 0 and worst >= 2 for best, worst in ranges]))
    outcome["one tier"] = float(np.mean([best == worst for best, worst in ranges]))
    outcome["failed"] = float(np.mean([best >= 2 for best, _ in ranges]))
    outcome["coverage"] = float(np.mean([low <= truth <= high for low, high in columns["interval"]]))
    outcome["coverage of items"] = float(np.mean([low <= truth <= high for low, high in columns["items"]]))
    outcome["width"] = float(np.mean([high - low for low, high in columns["interval"]]))
    return outcome


def tier_of(bands: object, value: float) -> str:
    """Return the tier that contains a value; on a boundary, the milder one."""
    marks = (band.mark for band in bands if band.low <= value <= band.high)  # type: ignore[attr-defined]
    return str(next(marks))


def dials_of(studied: Studied, metric: str, sds: dict[str, float]) -> dict[str, float]:
    """Return the bias that places the metric in the middle of each tier that it can reach, by tier.

    For healthy, no bias.
    """
    named = next(key for key in studied.keys.values() if key.name == metric)
    grid, values = np.concatenate([np.linspace(-3, 3, 49), np.linspace(3.5, 12, 18)]), []
    for number, bias in enumerate(grid):
        rng = np.random.default_rng([7, number])
        total = sum(studied.count(rng, bias, metric, sds).values.sum(axis=0) for _ in range(PILOT))
        values.append(float(studied.counted.compute(np.atleast_2d(total))[metric][0]))
    biases, best = {}, named.metric.null if named.metric.null is not None else named.metric.low
    for mark in MARKS:
        bands = [band for band in named.metric.bands if band.mark == mark and band.high > best]
        inside = [
            (value, bias)
            for value, bias in zip(values, grid, strict=True)
            if any(b.low <= value <= b.high for b in bands)
        ]
        if inside:
            middle = sum(max(inside)[0:1] + min(inside)[0:1]) / 2
            biases[mark] = float(min(inside, key=lambda pair: abs(pair[0] - middle))[1])
    unbiased = values[list(grid).index(0.0)]
    if tier_of(named.metric.bands, unbiased) == MARKS[0]:
        biases[MARKS[0]] = 0.0
    return biases


def tasks(kind: str, size: str, only: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the probes and their key metrics."""
    for name in only or GENERATORS:
        for metric in PROBES.load(name).metrics:
            if metric.key:
                yield name, metric.name


def carry_out(task: tuple[str, str, str, str, int, int, float]) -> list[dict[str, object]]:
    """Return the lines of one metric."""
    kind, name, metric, size, studies, resamples, bias_of_clusters = task
    studied = Studied(name, size, resamples)
    about = {
        "what": kind,
        "size": size,
        "probe": name,
        "metric": metric,
        "items": len(studied.counted.values),
        "studies": studies,
    }
    about |= {
        "clusters": ", ".join(f"{cluster.size} {cluster.noun}" for cluster in studied.counted.clusters),
        "resamples": resamples,
    }
    if kind == "marks":
        located = dials_of(Studied(name, "standard", resamples), metric, EFFECTS)
        settings = [(bias, EFFECTS, mark) for mark, bias in located.items()]
    else:
        calm = {"clusters": 0.0, "wordings": 0.0, "items": 0.5}
        grid = [calm, calm | {"wordings": 0.2}, calm | {"wordings": 0.4}]
        grid += [calm | {"clusters": sd} for sd in ((0.4, 0.8, 1.0) if studied.clusters else ())]
        settings = [(bias_of_clusters, sds, "") for sds in grid]
    return [
        about
        | {"bias": bias, **{f"sd {key}": sd for key, sd in sds.items()}}
        | studies_of(studied, metric, bias, sds, studies, 11 + number)
        for number, (bias, sds, _) in enumerate(settings)
    ]


def table(files: list[str]) -> None:
    """Print the results as Markdown: one row per key metric."""
    lines = [json.loads(line) for file in files for line in Path(file).read_text().splitlines()]
    rows = pl.DataFrame(lines, infer_schema_length=None)
    for (kind, size), rows_of_kind in rows.group_by("what", "size", maintain_order=True):
        print(f"\n{kind}, {size}, {rows_of_kind['studies'][0]} studies each\n")
        heads = [f"undecided, {mark}" for mark in MARKS] if kind == "marks" else []
        settings = (
            rows_of_kind.select("sd clusters", "sd wordings").unique(maintain_order=True).rows()
            if kind == "clusters"
            else []
        )
        heads += [f"clusters {clusters:g}, wordings {wordings:g}" for clusters, wordings in settings]
        print(
            "| metric | "
            + ("true tier outside the mark, at most | " if kind == "marks" else "clusters | ")
            + " | ".join(heads)
            + " |"
        )
        print("|---" * (len(heads) + 2) + "|")
        for of_metric in rows_of_kind.partition_by("probe", "metric", maintain_order=True):
            if kind == "marks":
                undecided = dict(of_metric.group_by("tier").agg(pl.col("undecided").max()).iter_rows())
                cells = [
                    f"{of_metric.select(pl.col('outside').max()).item():.1%}",
                    *("–" if mark not in undecided else f"{undecided[mark]:.0%}" for mark in MARKS),
                ]
            else:
                shares = {
                    row[:2]: row[2]
                    for row in of_metric.select("sd clusters", "sd wordings", "coverage").iter_rows()
                }
                cells = [
                    of_metric["clusters"][0],
                    *("–" if setting not in shares else f"{shares[setting]:.1%}" for setting in settings),
                ]
            print(
                f"| `{of_metric.row(0, named=True)['probe']}` {of_metric.row(0, named=True)['metric']} "
                f"| {' | '.join(cells)} |"
            )


def main() -> None:
    """Simulate the studies and print the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("marks", "clusters", "table"))
    parser.add_argument("names", nargs="*", help="probes (default: all), or files of results for `table`")
    parser.add_argument("--size", default="standard")
    parser.add_argument("--studies", type=int, default=100)
    parser.add_argument("--resamples", type=int, default=400)
    parser.add_argument("--bias", type=float, default=0.5, help="log odds ratio of the bias in `clusters`")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    if options.what == "table":
        table(options.names)
        return
    chosen = [
        (options.what, name, metric, options.size, options.studies, options.resamples, options.bias)
        for name, metric in tasks(options.what, options.size, options.names)
    ]
    with Pool(options.processes) as pool:
        for lines in pool.imap_unordered(carry_out, chosen):
            for line in lines:
                print(json.dumps(line), flush=True)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
