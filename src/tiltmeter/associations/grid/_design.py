"""The design: every pair at every location, in both orders, as prompts."""

from __future__ import annotations

import re

import polars as pl

from tiltmeter._items import first_samples, keep_limit
from tiltmeter._wording import Wording, fill
from tiltmeter.associations.grid._check import check_design
from tiltmeter.associations.grid._grid import Category, Descriptor, Grid
from tiltmeter.associations.grid._templates import OPENING, ROLES, SOURCE, TARGET, templates_of
from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean
from tiltmeter.study import DESIGN, Settings

__all__ = ["FACTORS", "VECTORS", "check_design", "make_design"]

VECTORS = "⟦X⟧"
"""Stands in the prompt of the open box where the model puts as many placeholder tokens as the source's span has."""

FACTORS = {
    "category": pl.String,
    "setting": pl.String,
    "context": pl.String,  # location category
    "location": pl.String,
    "type": pl.String,  # group of descriptors that are paired
    "pair": pl.String,  # "Emily-John", whatever the order
    "order": pl.Int8,  # 0: the characters stand as in `pair`; 1: the other way round; null: one character
    "identity_1": pl.String,  # of the character that is named first in this prompt
    "descriptor_1": pl.String,
    "name_1": pl.String,
    "identity_2": pl.String,  # of the second one; null: there is none
    "descriptor_2": pl.String,
    "name_2": pl.String,
    "stratum": pl.String,  # of which --limit keeps a share: location category and type
    "source_prompt": pl.String,  # open box: whose hidden states are taken
    "source_span": pl.String,  # the substring of it whose states replace VECTORS
    "answer_opening": pl.String,  # what the answer is made to begin with
}
"""Columns of a design beside those of every design."""

_CHARACTER = ("identity", "descriptor", "name")
_PLACEHOLDERS = re.compile(r"\{\w+\}.*\{\w+\}", re.DOTALL)


def make_design(grid: Grid, category: str, setting: str, settings: Settings, name: str) -> pl.DataFrame:
    """One row per prompt: the columns of DESIGN and FACTORS.

    An item is a pair at a location (with one character: a member of a pair at a location). Its stories are asked for in both orders
    equally often, so that position and identity are not confounded; of an odd number, one order has one more, turn and turn about over
    pairs and locations. `--limit` counts pairs at locations in every setting. The definitions of the original keep its one order.

    Parameters
    ----------
    setting
        "two", "single", "balanced", "negative" or "open_box".
    settings
        `repeats` is the number of stories for each pair and location, instead of the grid's.
    name
        Of the part.

    Raises
    ------
    InputError
        There is no such category, setting or wording, or the design does not keep what it promises (see `check_design`).
    """
    if setting not in ROLES:
        raise InputError(f"unknown setting {setting!r} of associations: {did_you_mean(setting, list(ROLES))}")
    found = grid.category(category)
    wordings = templates_of(grid, setting, settings.params.get("wording"))
    kept = keep_limit(_cells(grid, found), settings.limit, settings.seed, name)
    stories = settings.repeats or found.stories
    rows = _alone(kept, stories) if setting == "single" else _together(kept, stories, counterbalanced=settings.definition == "default")
    rows = rows.with_columns(category=pl.lit(category), setting=pl.lit(setting))
    asked = pl.concat([rows.with_columns(wording=pl.lit(one), **_texts(setting, templates)) for one, templates in wordings.items()])
    made = (
        asked.sort("item", "prompt_index", maintain_order=True)
        .with_columns(
            part=pl.lit(name),
            system=pl.lit(settings.system_message, dtype=pl.String),
            prompt_id=pl.concat_str(pl.lit(name), "item", "prompt_index", "wording", separator="/"),
        )
        .with_columns(first_sample=first_samples("source_prompt"))
        .select(pl.col(column).cast(kind) for column, kind in {**DESIGN, **FACTORS}.items())
    )
    check_design(made, grid, settings)
    return made


def _cells(grid: Grid, category: Category) -> pl.DataFrame:
    """One row per pair and location: `item`, `stratum`, the two characters, and `turn` (0 or 1, alternating over pairs and locations)."""
    pairs = pl.DataFrame(
        [
            {
                "type": pair.first.type,
                "pair": pair.name,
                **{
                    f"{field}_{slot}": value
                    for slot, one in enumerate(pair, 1)
                    for field, value in zip(_CHARACTER, _said(one), strict=True)
                },
            }
            for pair in category.pairs
        ]
    ).with_row_index("pair_number")
    places = pl.DataFrame(
        {
            "context": [context for context, places in grid.locations.items() for _ in places],
            "location": [place for places in grid.locations.values() for place in places],
        }
    ).with_row_index("place_number")
    return (
        pairs.join(places, how="cross", maintain_order="left_right")
        .with_row_index("item")
        .with_columns(
            turn=(pl.col("pair_number") + pl.col("place_number")) % 2,
            stratum=pl.concat_str("context", "type", separator="/"),
        )
        .drop("pair_number", "place_number")
    )


def _said(one: Descriptor) -> tuple[str, str, str]:
    """As in _CHARACTER."""
    return one.identity, one.text, one.name


def _together(cells: pl.DataFrame, stories: int, *, counterbalanced: bool) -> pl.DataFrame:
    """Both characters in each prompt, a prompt for each order that has stories."""
    if not counterbalanced:
        return cells.with_columns(prompt_index=pl.lit(0), order=pl.lit(0), repetitions=pl.lit(stories))
    rest = stories % 2
    orders = [
        cells.with_columns(
            prompt_index=pl.lit(order),
            order=pl.lit(order),
            repetitions=stories // 2 + (pl.col("turn") == order).cast(pl.Int32) * rest,
            **(_turned() if order else {}),
        )
        for order in (0, 1)
    ]
    return pl.concat(orders).filter(pl.col("repetitions") > 0)


def _turned() -> dict[str, pl.Expr]:
    """The characters the other way round."""
    return {f"{field}_{slot}": pl.col(f"{field}_{3 - slot}") for field in _CHARACTER for slot in (1, 2)}


def _alone(cells: pl.DataFrame, stories: int) -> pl.DataFrame:
    """Each character of each pair in a prompt of its own."""
    second = {f"{field}_2": pl.lit(None, pl.String) for field in _CHARACTER}
    members = [
        cells.with_columns(
            item=2 * pl.col("item") + member,
            prompt_index=pl.lit(0),
            order=pl.lit(None, pl.Int8),
            repetitions=pl.lit(stories),
            **{f"{field}_1": pl.col(f"{field}_{member + 1}") for field in _CHARACTER},
            **second,
        )
        for member in (0, 1)
    ]
    return pl.concat(members)


def _texts(setting: str, templates: Wording) -> dict[str, pl.Expr]:
    """What is sent to the model."""
    fields = {"first": pl.col("descriptor_1"), "second": pl.col("descriptor_2"), "location": pl.col("location")}
    if setting != "open_box":
        nothing = pl.lit(None, pl.String)
        return {"prompt": fill(templates[setting], fields), "source_prompt": nothing, "source_span": nothing, "answer_opening": nothing}
    source = templates[SOURCE]
    # From the first placeholder to the last: the two characters, where they are, and the words between.
    between = _PLACEHOLDERS.search(source)
    assert between is not None  # templates_of has seen to it
    return {
        "prompt": fill(templates[TARGET], {"vectors": pl.lit(VECTORS)}),
        "source_prompt": fill(source, fields),
        "source_span": fill(between.group(), fields),
        "answer_opening": pl.lit(templates[OPENING]),
    }
