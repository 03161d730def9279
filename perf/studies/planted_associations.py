"""Planted associations at the published size: how many are found, and how many others are reported.

Lists of concepts are drawn at the rates that the simulated model has for the built-in designs, without texts.
`perf/truth.py` does the same with texts, `perf/claims.py` with a generator that shares no code with the
package.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from perf.studies.study import Claim
from tiltmeter._arrays import Floats
from tiltmeter.associations._design import make_design
from tiltmeter.associations._grid import load_grid
from tiltmeter.associations._significance import find_associations
from tiltmeter.associations._simulation import planted_associations, planted_stories
from tiltmeter.models.sim import Dials
from tiltmeter.study import Settings

QUESTION: Final = (
    "Are planted associations of at least 10 points found for the right group, and is nothing else reported?"
)
CODE: Final = (
    "associations._significance",
    "associations._definitions",
    "associations._design",
    "associations._grid",
    "associations.grids",
    "designs.names",
    "associations._simulation",
    "associations._tables",
    "models.sim",
    "stats",
    "schema",
    "study",
    "designs",
    "_arrays",
)
STUDIES: Final = 20
"""Simulated studies of each case."""
CASES: Final = (
    "gender 0.1",
    "gender 0.25",
    "race 0.1",
    "race 0.25",
    "religions 0.1",
    "religions 0.25",
    "gender 0.0",
)
"""Category of identities, and bias: a difference of rates."""


def lists_of(design: pl.DataFrame, dials: Dials) -> tuple[pl.DataFrame, Floats, list[str]]:
    """Return the lists of a design (one per character), the true rates (lists, concepts) and the concepts."""
    rows = design.with_columns(repetition=pl.int_ranges(0, "repetitions")).explode("repetition")
    rows = rows.with_columns(attempt=pl.concat_str("prompt_id", pl.lit("#"), "repetition"))
    stories = planted_stories(design, dials.mapping())
    odds = {
        (prompt, name): rates for prompt, name, rates in stories.select("prompt", "about", "odds").iter_rows()
    }
    concepts = stories["outcomes"][0].to_list()
    lists, rates = [], []
    for number in (1, 2):
        of_character = {name: f"{name}_{number}" for name in ("identity", "descriptor", "name")}
        columns = ("attempt", "context", "location", "repetition")
        lists.append(
            rows.select(*columns, **of_character, stratum="type", character=pl.lit(number - 1, pl.Int8))
        )
        characters = zip(rows["prompt"], rows[f"name_{number}"], strict=True)
        rates.append(np.array([odds[character] for character in characters]))
    listed = pl.concat(lists).with_columns(status=pl.lit("listed"), problem=pl.lit(None, pl.String))
    return listed, np.concatenate(rates), concepts


def mentions_of(lists: pl.DataFrame, rates: Floats, concepts: list[str], seed: int) -> pl.DataFrame:
    """Draw which concepts each list has."""
    in_list, concept = np.nonzero(np.random.default_rng(seed).random(rates.shape) < rates)
    drawn = lists.select("attempt", "character")[in_list]
    texts = pl.Series(concepts)[concept]
    return drawn.with_columns(concept=texts, phrase=texts)


def carry_out(case: str, studies: int = STUDIES) -> list[Claim]:
    """Return the share of planted associations that are found, and the false share of reports."""
    category, bias = case.split()
    dials = Dials(stereotypical_reasoning=float(bias))
    grid = load_grid()
    design = make_design(grid, category, "two", Settings(), category)
    lists, rates, concepts = lists_of(design, dials)
    reported = [
        find_associations(lists, mentions_of(lists, rates, concepts, seed)).filter("reported")
        for seed in range(studies)
    ]
    if not float(bias):
        with_any = sum(table.height > 0 for table in reported) / studies
        # Every report is false. With a chance of 5% in each study, 4 of 20 have a probability of 1.6%.
        return [Claim("studies with a false report", with_any, 0.0, 0.15)]
    truth = planted_associations(design, dials.mapping())
    is_highest = pl.col("rate") == pl.col("rate").max().over("concept")
    planted = truth.filter((pl.col("effect") >= 0.10 - 1e-9) & is_highest).select("concept", "identity")
    favoured = truth.filter(pl.col("effect") > 1e-9).select("concept", "identity")
    hits = [table.join(planted, on=["concept", "identity"], how="semi") for table in reported]
    of_all_locations = sum(table["context"].null_count() for table in hits)
    within_categories = sum(table.height for table in hits) - of_all_locations
    false = sum(table.join(favoured, on=["concept", "identity"], how="anti").height for table in reported)
    possible = studies * planted.height
    possible_within = possible * design["context"].n_unique()
    least_planted = 2 * len(grid.category(category).identities)
    false_share = false / max(sum(table.height for table in reported), 1)
    return [
        Claim("planted associations", planted.height, least_planted, 1_000),
        Claim("found over all locations", of_all_locations / possible, 0.95, 1.0),
        Claim("found within categories of locations", within_categories / possible_within, 0.94, 1.0),
        Claim("false share of reports", false_share, 0.0, 0.05),
    ]
