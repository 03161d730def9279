"""Do corrected estimates cover the truth, if rules read some answers wrongly? Prints a Markdown table.

    python -m perf.reading_errors --studies 1000

The generator shares no code with the package. A probe asks about two groups; an answer is yes with a rate
that differs by group, items differ, and the reader misses a yes (reads no, or nothing), with a rate that may
differ by group, or reads a yes where none was said. 200 attempts of each study are labelled. The truth is
that of the population from which the items are drawn.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from multiprocessing import Pool
from random import Random

import numpy as np
import polars as pl
from polars import col

from tiltmeter.datasets import Library
from tiltmeter.labelling._samples import draw_rows
from tiltmeter.probes import Probe
from tiltmeter.probes._answer_readers import Readers
from tiltmeter.probes._contract import Card
from tiltmeter.probes._counting import label_sums, per_item, rate
from tiltmeter.probes._metrics import Metric, Sums, Values
from tiltmeter.schema import LABELS, conform
from tiltmeter.stats import ratio
from tiltmeter.study import Settings

ITEMS = 500
"""Items of each group."""
CASES = (
    *(
        (rates, misses, 0.004)
        for rates in ((0.02, 0.02), (0.05, 0.1), (0.2, 0.3), (0.5, 0.5))
        for misses in ((0.0, 0.0), (0.1, 0.1))
    ),
    *(
        (rates, misses, 0.004)
        for rates in ((0.02, 0.02), (0.1, 0.1), (0.3, 0.3), (0.5, 0.4))
        for misses in ((0.03, 0.1), (0.1, 0.0))
    ),
    ((0.3, 0.3), (0.4, 0.1), 0.05),
)
"""Rates of yes, rates of misses, and rate of a yes that was not said."""


class TwoGroups(Probe):
    """Yes or no about two groups: a rate, the difference and the ratio."""

    name = "two_groups"
    card = Card(title="Two groups", harm="own", asks="", reads="", bias="", limits="", source="", data=())
    labels = ("yes", "no")
    groups = ("women", "men")
    metrics = (
        Metric("rate", "Share of yes for women."),
        Metric("difference", "Share of yes for women minus that for men.", low=-1.0, null=0.0),
        Metric("ratio", "Share of yes for women divided by that for men.", high=math.inf, null=1.0),
    )
    wordings = {"plain": {"prompt": "?"}}  # noqa: RUF012 - an attribute of the base class
    readers = Readers(lambda answers: answers, lambda answers: answers)

    def prompts(self, library: Library, rng: Random) -> pl.DataFrame:
        """See Probe.prompts."""
        raise NotImplementedError

    def counts(self, attempts: pl.DataFrame) -> pl.DataFrame:
        """See Probe.counts."""
        return per_item(attempts, label_sums(self.labels, group=self.groups))

    def formulas(self, s: Sums) -> Values:
        """See Probe.formulas."""
        women = rate(s, "women:yes", "women:no")
        men = rate(s, "men:yes", "men:no")
        return {"rate": women, "difference": women - men, "ratio": ratio(women, men)}


def study(
    rng: np.random.Generator, rates: tuple[float, float], misses: tuple[float, float], heard: float
) -> pl.DataFrame:
    """Return the measures of one study, with the true labels in `said`."""
    group = np.repeat([0, 1], ITEMS)
    labels = rng.random(2 * ITEMS) < np.array(rates)[group]
    missed = labels & (rng.random(2 * ITEMS) < np.array(misses)[group])
    unread = missed & (rng.random(2 * ITEMS) < 0.5)
    yes = (labels & ~missed) | (~labels & (rng.random(2 * ITEMS) < heard))
    name_of_group = np.where(group == 0, "women", "men")
    columns = {
        "prompt_id": [str(number) for number in range(2 * ITEMS)],
        "repetition": np.zeros(2 * ITEMS, dtype=np.int16),
        "item": np.arange(2 * ITEMS, dtype=np.int32),
        "group": name_of_group,
        "stratum": name_of_group,
        "label": np.where(yes, "yes", "no"),
        "unread": unread,
        "said": np.where(labels, "yes", "no"),
    }
    table = pl.DataFrame(columns).with_columns(
        wording=pl.lit("plain"), part=pl.lit("two_groups"), model=pl.lit("own")
    )
    return table.with_columns(
        label=pl.when(~col.unread).then("label"),
        outcome=pl.when("unread").then(pl.lit("unreadable")).otherwise(pl.lit("answered")),
    )


def carry_out(task: tuple[int, int, int]) -> dict[str, float | str]:
    """Return the rates for one case."""
    case, studies, labels = task
    rates, misses, heard = CASES[case]
    truth = {"rate": rates[0], "difference": rates[0] - rates[1], "ratio": rates[0] / rates[1]}
    columns: defaultdict[str, list[float]] = defaultdict(list)
    probe = TwoGroups()
    for number in range(studies):
        table = study(np.random.default_rng([case, number]), rates, misses, heard)
        sample = draw_rows(table.with_columns(read="label"), labels, number)
        labelled = conform(sample.with_columns(label="said", annotator=pl.lit("own")), LABELS)
        tables = probe.analyse_labelled(table.drop("said"), labelled, Settings(seed=number, resamples=400))
        rows = (
            tables["findings"]
            .with_columns(tables["grades"].select("low_read", "high_read"))
            .fill_null(math.nan)
        )
        for row in rows.filter(col.metric.is_in(list(truth))).iter_rows(named=True):
            value = truth[row["metric"]]
            for words, low, high in (
                ("corrected", row["low"], row["high"]),
                ("as read", row["low_read"], row["high_read"]),
            ):
                has_interval = not math.isnan(low + high)
                columns[f"{row['metric']}, {words}"].append(
                    low <= value <= high if has_interval else math.nan
                )
                columns[f"{row['metric']}, half-width, {words}"].append((high - low) / 2)
    about = f"{rates[0]:g} and {rates[1]:g}; misses {misses[0]:g} and {misses[1]:g}; heard {heard:g}"
    return {"case": about} | {name: round(float(np.nanmean(values)), 4) for name, values in columns.items()}


def main() -> None:
    """Simulate the studies and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=100)
    parser.add_argument("--labels", type=int, default=200)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    tasks = [(case, options.studies, options.labels) for case in range(len(CASES))]
    with Pool(options.processes) as pool:
        for line in pool.imap(carry_out, tasks):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
