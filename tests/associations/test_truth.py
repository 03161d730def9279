"""Planted associations of at least 10 points are found under the right identity, others are not reported: 20 seeds at the published size.

Lists are drawn here at the rates the simulated model has for the built-in designs, without the detour over texts; that texts give
the very same lists is shown in test_whole.py. `perf/truth.py` does all of it with texts.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tiltmeter.associations.design import load_grid, make_design
from tiltmeter.associations.planted_concepts import planted_associations, planted_stories
from tiltmeter.associations.significance import find_associations
from tiltmeter.models.sim import Dials
from tiltmeter.study import Settings

pytestmark = pytest.mark.verify

SEEDS = 20


def lists_of(design: pl.DataFrame, dials: Dials) -> tuple[pl.DataFrame, np.ndarray, list[str]]:
    """LISTS of a whole design and, for each, the true rates of all concepts."""
    rows = design.with_columns(repetition=pl.int_ranges(0, "repetitions")).explode("repetition")
    rows = rows.with_columns(attempt=pl.concat_str("prompt_id", pl.lit("#"), "repetition"))
    plans = planted_stories(design, dials.mapping())
    odds = {(prompt, name): said for prompt, name, said in plans.select("prompt", "about", "odds").iter_rows()}
    concepts = plans["outcomes"][0].to_list()
    assert plans["outcomes"].n_unique() == 1
    parts, rates = [], []
    for i in (1, 2):
        own = {name: f"{name}_{i}" for name in ("identity", "descriptor", "name")}
        parts.append(rows.select("attempt", "context", "location", "repetition", **own, stratum="type", character=pl.lit(i - 1, pl.Int8)))
        names = zip(rows["prompt"], rows[f"name_{i}"], strict=True)
        rates.append(np.array([odds[pair] for pair in names]))
    lists = pl.concat(parts).with_columns(status=pl.lit("listed"), problem=pl.lit(None, pl.String))
    return lists, np.concatenate(rates), concepts


def mentions_of(lists: pl.DataFrame, rates: np.ndarray, concepts: list[str], seed: int) -> pl.DataFrame:
    chosen, which = np.nonzero(np.random.default_rng(seed).random(rates.shape) < rates)
    drawn = lists.select("attempt", "character")[chosen]
    return drawn.with_columns(concept=pl.Series(concepts)[which], phrase=pl.Series(concepts)[which])


@pytest.mark.parametrize("bias", [0.10, 0.25])
@pytest.mark.parametrize("category", ["gender", "race", "religions"])
def test_planted_associations_are_found_and_others_are_not(category: str, bias: float) -> None:
    grid, dials = load_grid(), Dials(stereotypical_reasoning=bias)
    design = make_design(grid, category, "two", Settings(), category)
    lists, rates, concepts = lists_of(design, dials)
    truth = planted_associations(design, dials.mapping())
    highest = pl.col("rate") == pl.col("rate").max().over("concept")
    top = truth.filter((pl.col("effect") >= 0.10 - 1e-9) & highest).select("concept", "identity")
    assert top.height >= 2 * len(grid.category(category).identities)
    leaning = truth.filter(pl.col("effect") > 1e-9).select("concept", "identity")
    found_overall = found_within = reported = wrong = 0
    for seed in range(SEEDS):
        found = find_associations(lists, mentions_of(lists, rates, concepts, seed)).filter("reported")
        hits = found.join(top, on=["concept", "identity"], how="semi")
        found_overall += hits["context"].null_count()
        found_within += hits.height - hits["context"].null_count()
        reported += found.height
        wrong += found.join(leaning, on=["concept", "identity"], how="anti").height
    assert found_overall >= 0.95 * SEEDS * top.height
    assert (
        found_within >= 0.94 * SEEDS * top.height * design["context"].n_unique()
    )  # names and the choice of what is reported cost about a point
    assert wrong <= 0.05 * reported


def test_nothing_is_reported_beyond_the_nominal_level_where_nothing_is_planted() -> None:
    design = make_design(load_grid(), "gender", "two", Settings(), "gender")
    lists, rates, concepts = lists_of(design, Dials())
    assert np.ptp(rates) == 0
    runs = [find_associations(lists, mentions_of(lists, rates, concepts, seed)).filter("reported").height for seed in range(SEEDS)]
    # With no true association every report is false, and the chance of any in a study is at most 5%: 4 of 20 studies has p = 0.016.
    assert sum(number > 0 for number in runs) <= 3
