"""Every row of a design is looked at before anything is asked: a wrong name in one slot spoils a whole study unnoticed."""

from __future__ import annotations

import polars as pl

from tiltmeter.associations.grid._grid import Category, Grid
from tiltmeter.errors import InputError
from tiltmeter.study import Settings

__all__ = ["check_design"]

_CELL = ("wording", "type", "pair", "location")


def check_design(design: pl.DataFrame, grid: Grid, settings: Settings) -> None:
    """Look at every row of the design of one category and setting.

    Each descriptor belongs to its identity, type and pair, the two identities and names differ, each location belongs to its category,
    the texts hold both descriptors and the location, every cell has its planned number of stories, and the orders are balanced.

    Parameters
    ----------
    design
        As `make_design` gives.
    settings
        Those it was made with.

    Raises
    ------
    InputError
        Something is wrong; the message names the grid's file and the first row.
    """
    if design.is_empty():
        raise InputError(f"{grid.place}: the design has no prompts")
    category = grid.category(design["category"][0])
    alone = design["setting"][0] == "single"
    place = f"{grid.place}: category {category.name}"
    for slot in (1,) if alone else (1, 2):
        _check_slot(design, category, slot, place)
    if not alone:
        same = pl.col("identity_1") == pl.col("identity_2")
        _refuse(design, same, pl.format("both characters are {}", "identity_1"), place)
        _refuse(design, pl.col("name_1") == pl.col("name_2"), pl.format("both characters are called {}", "name_1"), place)
    _check_pairs(design, category, place, alone=alone)
    _check_locations(design, grid, place)
    _check_texts(design, place, alone=alone)
    _check_counts(design, grid, category, settings, place, alone=alone)


def _refuse(rows: pl.DataFrame, wrong: pl.Expr, sentence: pl.Expr, place: str) -> None:
    """Raises about the first row for which `wrong` holds."""
    found = rows.filter(wrong).head(1)
    if not found.is_empty():
        said = found.select(pl.format("prompt {}: {}", "prompt_id", sentence)).item()
        raise InputError(f"{place}: {said}")


def _check_slot(design: pl.DataFrame, category: Category, slot: int, place: str) -> None:
    """Is the descriptor one of the category, with its own identity, name and type?"""
    known = pl.DataFrame(
        [{f"descriptor_{slot}": one.text, "_identity": one.identity, "_name": one.name, "_type": one.type} for one in category.descriptors]
    )
    rows = design.join(known, on=f"descriptor_{slot}", how="left", maintain_order="left")
    said = pl.col(f"descriptor_{slot}").fill_null("(nobody)")
    _refuse(rows, pl.col("_identity").is_null(), pl.format("{} is no descriptor of the category", said), place)
    for what, given in (("_identity", f"identity_{slot}"), ("_name", f"name_{slot}"), ("_type", "type")):
        found = pl.col(given).fill_null("(none)")
        sentence = pl.format(f"{{}} stands for the {what[1:]} {{}}, but the row says {{}}", said, what, found)
        _refuse(rows, pl.col(given).ne_missing(pl.col(what)), sentence, place)


def _check_pairs(design: pl.DataFrame, category: Category, place: str, *, alone: bool) -> None:
    """Do the characters stand in the pair, in the order the row says?"""
    known = pl.DataFrame([{"type": p.first.type, "pair": p.name, "_1": p.first.text, "_2": p.second.text} for p in category.pairs])
    rows = design.join(known, on=("type", "pair"), how="left", maintain_order="left")
    _refuse(rows, pl.col("_1").is_null(), pl.format("{} is no pair of the type {}", "pair", "type"), place)
    if alone:
        foreign = (pl.col("descriptor_1") != pl.col("_1")) & (pl.col("descriptor_1") != pl.col("_2"))
    else:
        straight = (pl.col("descriptor_1") == pl.col("_1")) & (pl.col("descriptor_2") == pl.col("_2"))
        turned = (pl.col("descriptor_1") == pl.col("_2")) & (pl.col("descriptor_2") == pl.col("_1"))
        foreign = ~pl.when(pl.col("order") == 0).then(straight).otherwise((pl.col("order") == 1) & turned).fill_null(False)
    _refuse(rows, foreign, pl.format("the characters are not those of the pair {} in the order the row says", "pair"), place)


def _check_locations(design: pl.DataFrame, grid: Grid, place: str) -> None:
    known = pl.DataFrame([{"location": one, "_context": context} for context, places in grid.locations.items() for one in places])
    rows = design.join(known, on="location", how="left", maintain_order="left")
    foreign = pl.col("_context").ne_missing(pl.col("context")) | pl.col("_context").is_null()
    _refuse(rows, foreign, pl.format("{} is no location of {}", pl.col("location"), pl.col("context")), place)


def _check_texts(design: pl.DataFrame, place: str, *, alone: bool) -> None:
    """Does the model read what the factors say?"""
    told = pl.coalesce("source_prompt", "prompt")
    for column in ("descriptor_1", "location") if alone else ("descriptor_1", "descriptor_2", "location"):
        _refuse(design, ~told.str.contains(pl.col(column), literal=True), pl.format("its text does not hold {}", column), place)
    patched = pl.col("source_prompt").is_not_null()
    once = pl.col("source_prompt").str.count_matches(pl.col("source_span"), literal=True) == 1
    _refuse(design, patched & ~once.fill_null(False), pl.lit("the span does not stand exactly once in the source prompt"), place)


def _check_counts(design: pl.DataFrame, grid: Grid, category: Category, settings: Settings, place: str, *, alone: bool) -> None:
    """Has every cell its planned number of stories, in balanced orders, and is every cell there?"""
    cell = (*_CELL, "descriptor_1") if alone else _CELL
    planned = settings.repeats or category.stories
    repetitions = pl.col("repetitions").cast(pl.Int64)
    cells = design.group_by(cell, maintain_order=True).agg(
        pl.col("prompt_id").first(),
        items=pl.col("item").n_unique(),
        stories=repetitions.sum(),
        turned=repetitions.filter(pl.col("order") == 1).sum(),
    )
    sentence = pl.format(f"{{}} stories at the {{}} for {{}}, but {planned} are planned", "stories", "location", "pair")
    _refuse(cells, pl.col("stories") != planned, sentence, place)
    _refuse(cells, pl.col("items") != 1, pl.format("the item of {} at the {} has two numbers", "pair", "location"), place)
    if not alone:
        uneven = (2 * pl.col("turned") - planned).abs() > planned % 2 if settings.definition == "default" else pl.col("turned") > 0
        sentence = pl.format(f"{{}} of the {planned} stories at the {{}} are in the order opposite to {{}}", "turned", "location", "pair")
        _refuse(cells, uneven, sentence, place)
    twice = pl.col("prompt_id").is_duplicated()
    _refuse(design, twice, pl.lit("its identifier is not its own"), place)
    full = len(category.pairs) * sum(map(len, grid.locations.values())) * design["wording"].n_unique() * (2 if alone else 1)
    if settings.limit is None and cells.height != full:
        raise InputError(f"{place}: the design has {cells.height:,} of {full:,} cells")
