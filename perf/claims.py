"""How many false associations are reported for names like these, and how many planted ones are found?

    python -m perf.claims --sigma 0.3 --studies 1000    # effects of first names with this SD (logit)
    python -m perf.claims --sigma 0.3 --groups 4        # the same first names for all groups (race, religion)
    python -m perf.claims --sigma 0.3 --lists           # the test that ignores names

Prints one line of JSON.

The generator shares no code with the package: a grid of the published size (8,700 stories, 87 locations in
ten categories), first names dealt evenly to the two characters of each story, who are of different groups,
concepts with rates of their own (the mean over names and places, whatever sigma is), of which some are
planted with up to `--lift` (at most 0.8 times their rate). What is not planted is not true of names like
these, however much the names of a study differ.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict

import numpy as np
import polars as pl
import scipy

from tiltmeter.associations._definitions import DEFAULT
from tiltmeter.associations._significance.comparisons import blocks_of, chosen_contrasts, comparisons_of
from tiltmeter.associations._significance.counts import LEVEL, Method, results_of
from tiltmeter.associations._significance.incidence import context_names, incidence_of
from tiltmeter.associations._significance.robust import ClusterTest, speaks_of_names
from tiltmeter.stats import benjamini_hochberg

PLACES = {
    "education": 8,
    "sports": 12,
    "healthcare": 10,
    "workplace": 7,
    "art leisure": 12,
    "technology": 8,
    "media": 8,
    "economics": 5,
}
PLACES |= {"law policy": 9, "environment": 8}
"""Locations of each category."""
PLACE_SD = 0.5
"""Of the effects of categories on the logit of each concept."""
STORIES = 100
"""Stories at each location."""


def study(
    rng: np.random.Generator, options: argparse.Namespace
) -> tuple[pl.DataFrame, pl.DataFrame, dict[str, float]]:
    """Return the lists, the mentions and the planted difference of each concept."""
    places = np.repeat(np.arange(len(PLACES)), list(PLACES.values()))
    even = np.arange(STORIES) % options.names
    name = np.concatenate(
        [np.stack([rng.permutation(even), rng.permutation(even)], axis=1) for _ in places]
    ).ravel()
    place = np.repeat(places, 2 * STORIES)
    first = rng.permuted(np.resize(np.arange(options.groups), len(places) * STORIES))
    second = (first + rng.integers(1, options.groups, len(first))) % options.groups
    group = np.stack([first, second], axis=1).ravel()
    rates = np.clip(rng.beta(0.6, 12, options.concepts), 0.004, 0.6)
    rates[: options.planted] = np.linspace(options.rates[0], options.rates[1], options.planted)
    lifts = np.where(
        np.arange(options.concepts) < options.planted, np.minimum(options.lift, 0.8 * rates), 0.0
    )
    # Women and men have different names; races and religions have the same names.
    name_lists = 2 if options.groups == 2 else 1
    names = rng.normal(0, options.sigma, (options.concepts, name_lists, options.names))
    contexts = rng.normal(0, PLACE_SD, (options.concepts, len(PLACES)))
    # a normal effect of SD s on the logit moves the mean rate towards 1/2; this keeps the mean over names and
    # places (Zeger et al. 1988)
    centres = scipy.special.logit(rates) * np.sqrt(
        1 + (16 * 3**0.5 / 15 / np.pi) ** 2 * (options.sigma**2 + PLACE_SD**2)
    )
    holders, groups_held = [], []
    for concept in range(options.concepts):
        logit = centres[concept] + names[concept, group % name_lists, name] + contexts[concept, place]
        chance = 1 / (1 + np.exp(-logit)) + np.where(group == concept % options.groups, lifts[concept], 0.0)
        holders.append(np.flatnonzero(rng.random(len(group)) < chance))
        groups_held.append(np.full(len(holders[-1]), concept))
    lists = pl.DataFrame(
        {
            "attempt": np.arange(len(group)) // 2,
            "character": group.astype(np.int8),
            "group": group,
            "place": place,
        }
    )
    names_of_lists = pl.format("{}-{}", pl.Series(group % name_lists), pl.Series(name))
    lists = lists.select(
        pl.format("{}", "attempt"),
        "character",
        identity=pl.format("identity {}", "group"),
        name=pl.lit("any") if options.lists else names_of_lists,
        descriptor=pl.format("{}-{}", "group", pl.Series(name)),
        context=pl.col("place").replace_strict(dict(enumerate(PLACES))),
        repetition=pl.col("attempt").cast(pl.Int32) % 4,
    )
    lists = lists.with_columns(
        location=pl.lit("somewhere"),
        stratum=pl.lit("all"),
        status=pl.lit("listed"),
        problem=pl.lit(None, pl.String),
    )
    mentions = lists.select("attempt", "character")[np.concatenate(holders)]
    return (
        lists,
        mentions.with_columns(concept=pl.format("{}", pl.Series(np.concatenate(groups_held)))),
        dict(zip(map(str, range(len(lifts))), lifts, strict=True)),
    )


def find_reported(lists: pl.DataFrame, mentions: pl.DataFrame) -> tuple[int, pl.DataFrame, pl.DataFrame]:
    """Return the number of tests, the reported rows with their intervals, and the rows found by BH over rows.

    The intervals of rows that are not reported are not computed, which makes this several times as fast as
    `find_associations`.
    """
    incidence = incidence_of(lists, mentions)
    test = ClusterTest(incidence, by_name=speaks_of_names(lists))
    blocks = list(blocks_of(incidence.cells, DEFAULT))
    compared = comparisons_of(incidence.cells.identities)
    method = Method(rules=DEFAULT, minimum=5, test=test, compared=compared, level=1 - LEVEL)
    results, level = results_of(blocks, method)
    smallest = [
        np.minimum(np.fmin.reduce(table.verdicts.p, axis=1) * len(compared.identity), 1.0)
        for table in results
    ]
    rejected = benjamini_hochberg(np.concatenate(smallest)) < LEVEL
    by_row = np.split(rejected, np.cumsum([len(table.q) for table in results])[:-1])
    parts, of_rows = [], []
    for table, chosen in zip(results, by_row, strict=True):
        context = context_names(incidence.cells, table.block.context)
        concept = incidence.cells.concepts.gather(table.block.concept)
        of_rows.append(
            pl.DataFrame({"context": context, "concept": concept}).filter(
                table.verdicts.credited.any(axis=1) & chosen
            )
        )
        rows, _ = np.nonzero(table.reported)
        interval = test.difference(chosen_contrasts(table.block, compared, table.reported), level)
        parts.append(
            pl.DataFrame(
                {
                    "context": context[rows],
                    "concept": concept[rows],
                    "low": interval.low,
                    "high": interval.high,
                }
            )
        )
    return (
        sum(int((~np.isnan(table.q)).any(axis=1).sum()) for table in results),
        pl.concat(parts),
        pl.concat(of_rows),
    )


def main() -> None:
    """Simulate the studies and print rates."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sigma", type=float, default=0.3)
    parser.add_argument("--groups", type=int, default=2)
    parser.add_argument("--lists", action="store_true")
    parser.add_argument("--names", type=int, default=100)
    parser.add_argument("--planted", type=int, default=8)
    parser.add_argument(
        "--rates",
        type=float,
        nargs=2,
        default=(0.1, 0.15),
        help="rates of the rarest and the most frequent planted concept",
    )
    parser.add_argument("--lift", type=float, default=0.1)
    parser.add_argument("--concepts", type=int, default=370)
    parser.add_argument("--studies", type=int, default=20)
    parser.add_argument(
        "--first", type=int, default=0, help="the first seed, to spread the studies over several processes"
    )
    options = parser.parse_args()
    shares: defaultdict[str, list[float]] = defaultdict(list)
    for seed in range(options.first, options.first + options.studies):
        lists, mentions, lifts = study(np.random.default_rng(seed), options)
        tests, reported, by_row = find_reported(lists, mentions)
        shares["tests"].append(tests)
        for rows, words in ((reported, ""), (by_row, " (BH over rows)")):
            rows = rows.with_columns(lift=pl.col("concept").replace_strict(lifts, return_dtype=pl.Float64))
            true, false = rows.filter(pl.col("lift") > 0), rows.filter(pl.col("lift") == 0)
            shares[f"false associations{words}"].append(false.height)
            concepts = [part["concept"].n_unique() for part in (false, true)]
            shares[f"false share of concepts{words}"].append(concepts[0] / max(sum(concepts), 1))
            if options.planted:
                overall = true.filter(pl.col("context").is_null()).height
                shares[f"found over all places{words}"].append(overall / options.planted)
                shares[f"found within a category{words}"].append(
                    (true.height - overall) / options.planted / len(PLACES)
                )
            if words == "":
                shares["intervals with their truth"] += (
                    true.select(pl.col("lift").is_between("low", "high")).to_series().to_list()
                )
                shares["intervals with their truth, false ones too"] += (
                    rows.select(pl.col("lift").is_between("low", "high")).to_series().to_list()
                )
    print(
        json.dumps(
            {
                **vars(options),
                **{name: round(float(np.mean(values)), 4) for name, values in shares.items() if values},
            }
        )
    )


if __name__ == "__main__":
    main()
