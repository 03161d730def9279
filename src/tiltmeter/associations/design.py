"""The design: every pair at every location, in both orders, as prompts; every row is checked before anything is asked."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
from polars import DataFrame, Expr, String, col, lit, when

from tiltmeter.associations.definitions import rules_of
from tiltmeter.associations.grid import BUILT_IN_LANGUAGE, Category, Grid
from tiltmeter.errors import InputError
from tiltmeter.prompt_templates import Wording, check_templates, fill, wordings
from tiltmeter.study import DESIGN, Settings, conform
from tiltmeter.subsampling import first_samples, keep_limit

VECTORS = "⟦X⟧"
"""Marks in the prompt of the open box where the model puts as many placeholder tokens as the source's span has."""

FACTORS = {
    "category": String,
    "setting": String,
    "context": String,  # location category
    "location": String,
    "type": String,  # group of descriptors that are paired
    "pair": String,  # "Emily-John", whatever the order
    "order": pl.Int8,  # 0: the characters are named as in `pair`; 1: the other way round; null: one character
    "identity_1": String,  # of the character that is named first in this prompt
    "descriptor_1": String,
    "name_1": String,
    "identity_2": String,  # of the second one; null: there is none
    "descriptor_2": String,
    "name_2": String,
    "stratum": String,  # of which --limit keeps a share: location category and type
    "source_prompt": String,  # open box: whose hidden states are taken
    "source_span": String,  # the substring of it whose states replace VECTORS
    "answer_opening": String,  # what the answer is made to begin with
}
"""Columns of a design beside those of every design."""

_SOURCE, _TARGET, _OPENING = "open_box_source", "open_box_target", "open_box_opening"
_CHARACTERS = tuple(f"{field}_{slot}" for slot in (1, 2) for field in ("name", "descriptor", "identity"))
_HOME = Path(__file__).with_name("wordings.yaml")
_PLACEHOLDERS = re.compile(r"\{\w+\}.*\{\w+\}", re.DOTALL)


def make_design(grid: Grid, category: str, setting: str, settings: Settings, name: str) -> DataFrame:
    """One row per prompt: the columns of DESIGN and FACTORS.

    An item is a pair at a location (with one character: a member of a pair at a location). Its stories are asked for in both orders
    equally often, so that position and identity are not confounded; of an odd number, one order has one more, alternating over
    pairs and locations. `--limit` counts pairs at locations in every setting. The published definitions keep their one order.

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
        There is no such category or wording, or the design does not keep what it promises (see `check_design`).
    """
    found = grid.category(category)
    templates = _templates_of(grid, setting, settings.params.get("wording"))
    cells = keep_limit(_cells_of(grid, found), settings.limit, settings.seed, name)
    rows = _rows_of(cells.join(_orders_of(found), on=["pair", "type"]), settings.repeats or found.stories, setting, settings)
    made = (
        pl.concat([rows.with_columns(wording=lit(wording), **_texts(setting, one)) for wording, one in templates.items()])
        .sort("item", "prompt_index", maintain_order=True)
        .with_columns(
            category=lit(category),
            setting=lit(setting),
            part=lit(name),
            system=lit(settings.system_message, dtype=String),
            prompt_id=pl.concat_str(lit(name), "item", "prompt_index", "wording", separator="/"),
        )
        .with_columns(first_sample=first_samples("source_prompt"))
    )
    design = conform(made, {**DESIGN, **FACTORS})
    check_design(design, grid, settings)
    return design


def _cells_of(grid: Grid, category: Category) -> DataFrame:
    """One row per pair and location: `item`, `stratum`, and `turn` (0 or 1, alternating over pairs and locations)."""
    return (
        DataFrame([(pair.name, pair.first.type) for pair in category.pairs], schema=["pair", "type"], orient="row")
        .with_row_index("pair_number")
        .join(_locations_of(grid).with_row_index("place_number"), how="cross", maintain_order="left_right")
        .with_row_index("item")
        .with_columns(
            turn=(col.pair_number + col.place_number) % 2,
            stratum=pl.concat_str("context", "type", separator="/"),
        )
        .drop("pair_number", "place_number")
    )


def _orders_of(category: Category) -> DataFrame:
    """Both orders of each pair: `pair`, `type`, `order`, and the characters named first and second."""
    rows = [(pair.name, a.type, order, *a[:3], *b[:3]) for pair in category.pairs for order, (a, b) in enumerate((pair, pair[::-1]))]
    return DataFrame(rows, schema=["pair", "type", "order", *_CHARACTERS], schema_overrides={"order": pl.Int8}, orient="row")


def _locations_of(grid: Grid) -> DataFrame:
    rows = [(context, place) for context, places in grid.locations.items() for place in places]
    return DataFrame(rows, schema=["context", "location"], orient="row")


def _rows_of(both: DataFrame, stories: int, setting: str, settings: Settings) -> DataFrame:
    """Both characters in a prompt for each order that has stories, or each character in a prompt of its own."""
    order = col.order
    if setting == "single":
        second = dict.fromkeys(_CHARACTERS[3:], lit(None, String))
        alone = {"item": 2 * col.item + order, "order": lit(None), "prompt_index": lit(0), "repetitions": lit(stories)}
        return both.with_columns(**alone, **second)
    share = when(order == 0).then(stories).otherwise(0)
    if rules_of(settings.definition).counterbalanced:
        share = stories // 2 + when(col.turn == order).then(stories % 2).otherwise(0)
    return both.with_columns(prompt_index=order, repetitions=share).filter(col.repetitions > 0)


# -- wording ----------------------------------------------------------------------------------------------------------


def _texts(setting: str, templates: Wording) -> dict[str, Expr]:
    """What is sent to the model."""
    fields = {"first": col.descriptor_1, "second": col.descriptor_2, "location": col.location}
    if setting != "open_box":
        nothing = dict.fromkeys(("source_prompt", "source_span", "answer_opening"), lit(None, String))
        return {"prompt": fill(templates[setting], fields), **nothing}
    # From the first placeholder to the last: the two characters, where they are, and the words between.
    span = _PLACEHOLDERS.search(templates[_SOURCE])
    assert span is not None  # _templates_of has seen to it
    return {
        "prompt": fill(templates[_TARGET], {"vectors": lit(VECTORS)}),
        "source_prompt": fill(templates[_SOURCE], fields),
        "source_span": fill(span.group(), fields),
        "answer_opening": lit(templates[_OPENING]),
    }


def _templates_of(grid: Grid, setting: str, choice: str | None) -> dict[str, Wording]:
    """The templates of a setting, by the name of the wording: those chosen, else the grid's own, else the built-in ones.

    Parameters
    ----------
    choice
        `-P wording=`: the name of a built-in wording, or a file.

    Raises
    ------
    InputError
        A template is missing, or has other placeholders than the built-in one; or the grid is in another language than the wording.
    """
    built_in, chosen = (wordings("stories", one, _HOME) for one in ("all", choice))
    roles = (_SOURCE, _TARGET, _OPENING) if setting == "open_box" else (setting,)
    place: str | None = choice
    if choice not in built_in and chosen.items() <= built_in.items():
        if grid.wording is not None:
            model = next(iter(built_in.values()))
            own = {role: text for role, text in grid.wording.items() if role in roles or role not in model}
            check_templates(grid.place, "wording", own, [{role: model[role] for role in roles}])
            chosen, place = {"own": own}, grid.place
        elif grid.language != BUILT_IN_LANGUAGE:
            raise InputError(
                f"{grid.place}: the language is {grid.language!r}, but the built-in wordings are {BUILT_IN_LANGUAGE!r}; "
                f"add the key 'wording' with the template {roles[0]!r}, or give -P wording=FILE"
            )
    if setting == "open_box" and any(templates[_TARGET].count("{vectors}") > 1 for templates in chosen.values()):
        raise InputError(f"{place}: the template {_TARGET} must hold the placeholder {{vectors}} exactly once")
    return chosen


# -- every row is checked ---------------------------------------------------------------------------------------------


def check_design(design: DataFrame, grid: Grid, settings: Settings) -> None:
    """Check every row of the design of one category and setting: a wrong name in one slot spoils a whole study unnoticed.

    The characters are those of a pair of the grid (so that their identities differ, and each descriptor has its own identity, name and
    type), in the order the row says; each location belongs to its category, the texts hold both descriptors and the location, every cell
    has its planned number of stories, and the orders are balanced.

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
    name, alone = design["category"][0], design["setting"][0] == "single"
    category, place = grid.category(name), f"{grid.place}: category {name}"
    pairs = _orders_of(category)
    if alone:
        pairs = pairs.drop("order", *_CHARACTERS[3:])
    said = pl.concat_str(_CHARACTERS, separator=", ", ignore_nulls=True)
    order = "its characters ({}) are not those of the pair {} of the type {} in the order the row says"
    text, span = pl.coalesce("source_prompt", "prompt"), col.source_span
    spans = col.source_prompt.str.count_matches(span, literal=True)
    locations = _locations_of(grid)
    checks = [
        (design.join(pairs, on=pairs.columns, how="anti", maintain_order="left"), pl.format(order, said, "pair", "type")),
        (
            design.join(locations, on=locations.columns, how="anti", maintain_order="left"),
            pl.format("{} is no location of {}", "location", "context"),
        ),
        *(
            (design.filter(~text.str.contains(col(column), literal=True)), pl.format("its text does not hold {}", column))
            for column in ("descriptor_1", "descriptor_2", "location")
        ),
        (design.filter(spans != 1), lit("the span is not exactly once in the source prompt")),
        _unplanned_cells(design, settings.repeats or category.stories, counterbalanced=rules_of(settings.definition).counterbalanced),
    ]
    for wrong, sentence in checks:
        for first in wrong.head(1).select(pl.format("prompt {}: {}", "prompt_id", sentence)).to_series():
            raise InputError(f"{place}: {first}")
    full = len(category.pairs) * locations.height * design["wording"].n_unique() * (2 if alone else 1)
    cells = design["item", "wording"].n_unique()
    if settings.limit is None and cells != full:
        raise InputError(f"{place}: the design has {cells:,} of {full:,} cells")


def _unplanned_cells(design: DataFrame, planned: int, *, counterbalanced: bool) -> tuple[DataFrame, Expr]:
    """The cells without their planned number of stories in balanced orders, and the sentence that says so."""
    repetitions, order = col.repetitions, col.order
    cells = design.group_by("item", "wording", "location", "pair", maintain_order=True).agg(
        col.prompt_id.first(), stories=repetitions.sum(), turned=repetitions.filter(order == 1).sum(), alone=order.is_null().any()
    )
    uneven = (2 * col.turned - planned).abs() > planned % 2 if counterbalanced else col.turned > 0
    orders = "in both orders equally often" if counterbalanced else "all in the order of the pair"
    sentence = f"{{}} stories at the {{}} for {{}}, {{}} of them in the opposite order, but {planned} are planned, {orders}"
    wrong = cells.filter((col.stories != planned) | (uneven & ~col.alone))
    return wrong, pl.format(sentence, "stories", "location", "pair", "turned")
