"""The design of a grid: prompts for every pair at every location, in both orders.

Every row of a design is checked before the first request.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from polars import DataFrame, Expr, String, col, lit, when

from tiltmeter._arrays import Index, Objects
from tiltmeter.associations._definitions import definition_of
from tiltmeter.associations._grid import BUILT_IN_LANGUAGE, Category, Grid
from tiltmeter.designs.subsampling import first_samples, keep_limit
from tiltmeter.designs.wordings import Wording, check_templates, fill, wordings
from tiltmeter.errors import InputError, check_known
from tiltmeter.schema import DESIGN, conform
from tiltmeter.study import Settings

VECTORS: Final = "⟦X⟧"
"""Marker in the target prompt of the open-box setting; the model replaces it by as many placeholder tokens as
the source span has."""

FACTORS: Final = {
    "category": String,
    "setting": String,
    "context": String,  # location category
    "location": String,
    "type": String,  # group of descriptors that are paired
    "pair": String,  # "Emily-John", whatever the order
    # 0: the characters are named as in `pair`; 1: in reverse order; null: only one character.
    "order": pl.Int8,
    "identity_1": String,  # of the character named first in this prompt
    "descriptor_1": String,
    "name_1": String,
    "identity_2": String,  # of the second character; null: only one
    "descriptor_2": String,
    "name_2": String,
    "stratum": String,  # location category and type; --limit keeps a share of each
    "source_prompt": String,  # open box: the prompt whose hidden states are used
    "source_span": String,  # its substring whose hidden states replace VECTORS
    "answer_opening": String,  # open box: the prefilled beginning of the response
}
"""Columns of these designs in addition to DESIGN."""

_SOURCE: Final = "open_box_source"
_TARGET: Final = "open_box_target"
_OPENING: Final = "open_box_opening"
_FIRST: Final = ("name_1", "descriptor_1", "identity_1")
_SECOND: Final = ("name_2", "descriptor_2", "identity_2")
_CHARACTERS: Final = (*_FIRST, *_SECOND)
_WORDINGS: Final = Path(__file__).with_name("wordings.yaml")
_PLACEHOLDERS: Final = re.compile(r"\{\w+\}.*\{\w+\}", re.DOTALL)


def make_design(grid: Grid, category: str, setting: str, settings: Settings, name: str) -> DataFrame:
    """Return the design with one row per prompt and the columns of DESIGN and FACTORS.

    An item is a pair at a location (in the setting "single": a member of a pair at a location). Both orders
    of a pair are prompted equally often, so that position and identity are not confounded. With an odd number
    of stories, one order has one more, alternating over pairs and locations. `--limit` counts pairs at
    locations in every setting. The published definitions use one order only.

    Parameters
    ----------
    setting
        "two", "single", "balanced", "negative" or "open_box".
    settings
        `repeats` overrides the grid's number of stories for each pair and location.
    name
        The name of the part.

    Raises
    ------
    InputError
        The category or wording is unknown, or the design is inconsistent (see `check_design`).
    """
    members = grid.category(category)
    templates = _templates_of(grid, setting, settings.params.get("wording"))
    cells = _cells_of(grid, members, settings.repeats or members.stories)
    stories = limited = keep_limit(cells, settings.limit, settings.seed, name)
    if _assigns_names(members, settings):
        # Names are assigned for the whole design, so that a limited design is a subset of it.
        with_names = _assign_names(cells, _people_of(members, settings), settings.seed)
        stories = with_names.join(limited, on="item", how="semi", maintain_order="left")
    rows = _prompts_of(stories, setting, settings)
    by_wording = [
        rows.with_columns(wording=lit(wording), **_texts(setting, templates_of_wording))
        for wording, templates_of_wording in templates.items()
    ]
    prompts = pl.concat(by_wording).sort("item", "prompt_index", maintain_order=True)
    prompts = prompts.with_columns(
        category=lit(category),
        setting=lit(setting),
        part=lit(name),
        system=lit(settings.system_message, dtype=String),
        prompt_id=pl.concat_str(lit(name), "item", "prompt_index", "wording", separator="/"),
    )
    design = conform(prompts, {**DESIGN, **FACTORS})
    design = design.with_columns(first_sample=first_samples("source_prompt"))
    check_design(design, grid, settings)
    return design


def _cells_of(grid: Grid, category: Category, stories: int) -> DataFrame:
    """Return one row per pair and location.

    The columns are `item`, `stratum`, those of `_pairs_of` and `_locations_of`, `turn` (0 or 1, alternating
    over pairs and locations), `repetitions` (of both orders together), and `story` (null: the characters are
    the same in all stories).
    """
    pairs = _pairs_of(category).with_row_index("pair_number")
    locations = _locations_of(grid).with_row_index("place_number")
    cells = pairs.join(locations, how="cross", maintain_order="left_right").with_row_index("item")
    return cells.with_columns(
        turn=(col.pair_number + col.place_number) % 2,
        stratum=pl.concat_str("context", "type", separator="/"),
        repetitions=lit(stories),
        story=lit(None, pl.Int64),
    )


def _pairs_of(category: Category) -> DataFrame:
    """Return `pair`, `type`, and the characters of each pair in the order of the grid."""
    rows = [(pair.name, pair.first.type, *pair.first[:3], *pair.second[:3]) for pair in category.pairs]
    return DataFrame(rows, schema=["pair", "type", *_CHARACTERS], orient="row")


def _both_orders(pairs: DataFrame) -> DataFrame:
    """Return the rows in both orders.

    In the `order` 0, the characters are as they are; in the order 1, they are exchanged.
    """
    exchange = dict(zip(_CHARACTERS, (*_SECOND, *_FIRST), strict=True))
    in_order = pairs.with_columns(order=lit(0, pl.Int8))
    exchanged = pairs.with_columns(order=lit(1, pl.Int8), **exchange)
    return pl.concat([in_order, exchanged])


def _locations_of(grid: Grid) -> DataFrame:
    """Return one row per location, with its category as `context`."""
    locations = DataFrame(list(grid.locations.items()), schema=["context", "location"], orient="row")
    return locations.explode("location")


def _prompts_of(stories: DataFrame, setting: str, settings: Settings) -> DataFrame:
    """Return one row per prompt.

    A prompt has both characters, once for each order with stories. In the setting "single", each character
    has a prompt of its own.
    """
    both = _both_orders(stories)
    if setting == "single":
        absent = dict.fromkeys(_SECOND, lit(None, String))
        return both.with_columns(
            item=2 * col.item + col.order,
            prompt_index=col.story.fill_null(0),
            order=lit(None),
            **absent,
        )
    count = col.repetitions
    if definition_of(settings).counterbalanced:
        count = count // 2 + when(col.turn == col.order).then(count % 2).otherwise(0)
    else:
        count = when(col.order == 0).then(count).otherwise(0)
    prompts = both.with_columns(prompt_index=pl.coalesce("story", "order"), repetitions=count)
    return prompts.filter(col.repetitions > 0)


def _assigns_names(category: Category, settings: Settings) -> bool:
    """Return whether first names are assigned at random; raise InputError for an unknown `-P names=`."""
    source = settings.params.get("names", "dealt")
    check_known(source, ("dealt", "grid"), f"-P names={source}")
    return source == "dealt" and definition_of(settings).deals_names and category.dealt is not None


def _people_of(category: Category, settings: Settings) -> DataFrame:
    """Return all possible characters of a category: `type`, `name`, `descriptor`, `identity`."""
    if category.dealt is None or not _assigns_names(category, settings):
        people = DataFrame(
            category.descriptors, schema=["name", "descriptor", "identity", "type"], orient="row"
        )
    else:
        rows = [
            (kind, identity, names.resolved, names.text)
            for kind, members in category.dealt.items()
            for identity, names in members.items()
        ]
        lists = DataFrame(rows, schema=["type", "identity", "name", "descriptor"], orient="row")
        descriptor = col.descriptor.str.replace("{name}", col("name"), literal=True)
        people = lists.explode("name").with_columns(descriptor)
    return people.select("type", "name", "descriptor", "identity")


def _assign_names(cells: DataFrame, people: DataFrame, seed: int) -> DataFrame:
    """Return one row per story, with two characters of different names.

    Names are assigned at random and with equal frequency within an identity. The columns are those of
    `cells`, with the numbers of the stories at a cell as `story` (0, 1, ...).
    """
    stories = cells.with_columns(story=pl.int_ranges("repetitions")).explode("story")
    stories = stories.with_columns(repetitions=lit(1), turn=(col.turn + col.story) % 2)
    people = people.with_row_index("person")
    rng = np.random.default_rng(seed)
    assigned = np.empty((stories.height, 2), dtype=np.intp)
    for (kind, identity), members in people.group_by("type", "identity", maintain_order=True):
        is_member = (col("identity_1", "identity_2") == identity) & (col.type == kind)
        rows, sides = np.nonzero(stories.select(is_member).to_numpy())
        rounds = math.ceil(len(rows) / members.height)
        order = np.concatenate([rng.permutation(members["person"].to_numpy()) for _ in range(rounds)])
        assigned[rows, sides] = order[: len(rows)]
    stream = stories.select(pl.struct("type", "identity_1").rank("dense")).to_series().to_numpy()
    _separate_equal_names(assigned, people["name"].to_numpy(), stream)
    for side in (1, 2):
        characters = people[assigned[:, side - 1]]
        columns = characters.select(col("name", "descriptor").name.suffix(f"_{side}"))
        stories = stories.with_columns(*columns)
    return stories.with_columns(pair=pl.format("{}-{}", "name_1", "name_2"))


def _separate_equal_names(assigned: Index, names: Objects, stream: Index) -> None:
    """Exchange first characters, in place, so that no story has two characters with the same name.

    Parameters
    ----------
    assigned
        The numbers of both characters, shape (stories, 2).
    names
        The name of each character, shape (people,).
    stream
        Characters are only exchanged between stories with the same label, shape (stories,).

    Raises
    ------
    InputError
        There are too few names.
    """
    first, second = names[assigned].T
    for row in np.flatnonzero(first == second):
        is_candidate = (stream == stream[row]) & (second != first[row]) & (first != second[row])
        candidates = np.flatnonzero(is_candidate)
        if not len(candidates):
            raise InputError(
                f"the grid assigns the name {first[row]!r} to both characters of a story; "
                "give each identity more names"
            )
        partner = candidates[np.searchsorted(candidates, row) % len(candidates)]
        for column in (assigned[:, 0], first):
            column[[row, partner]] = column[[partner, row]]


# -- wording ---------------------------------------------------------------------------------------


def _texts(setting: str, templates: Wording) -> dict[str, Expr]:
    """Return the expressions of the texts that are sent to the model."""
    fields = {"first": col.descriptor_1, "second": col.descriptor_2, "location": col.location}
    if setting != "open_box":
        return {"prompt": fill(templates[setting], fields)}
    # The span from the first placeholder to the last: both characters, the location and the words in between.
    span = _PLACEHOLDERS.search(templates[_SOURCE])
    assert span is not None  # checked by _templates_of
    return {
        "prompt": fill(templates[_TARGET], {"vectors": lit(VECTORS)}),
        "source_prompt": fill(templates[_SOURCE], fields),
        "source_span": fill(span.group(), fields),
        "answer_opening": lit(templates[_OPENING]),
    }


def _templates_of(grid: Grid, setting: str, choice: str | None) -> dict[str, Wording]:
    """Return the templates of a setting by wording name.

    These are those chosen by the user, else those of the grid, else the built-in ones.

    Parameters
    ----------
    choice
        `-P wording=`: the name of a built-in wording, or a file.

    Raises
    ------
    InputError
        A template is missing, its placeholders differ from those of the built-in one, or the grid and the
        wording differ in language.
    """
    built_in = wordings("stories", "all", _WORDINGS)
    chosen = wordings("stories", choice, _WORDINGS)
    roles = (_SOURCE, _TARGET, _OPENING) if setting == "open_box" else (setting,)
    place: str | None = choice
    is_default = choice not in built_in and chosen.items() <= built_in.items()
    if is_default and grid.wording is not None:
        standard = next(iter(built_in.values()))
        templates = {
            role: text for role, text in grid.wording.items() if role in roles or role not in standard
        }
        check_templates(grid.place, "wording", templates, [{role: standard[role] for role in roles}])
        chosen = {"own": templates}
        place = grid.place
    elif is_default and grid.language != BUILT_IN_LANGUAGE:
        raise InputError(
            f"{grid.place}: the language is {grid.language!r}, but the built-in wordings are in "
            f"{BUILT_IN_LANGUAGE!r}; add the key 'wording' with the template {roles[0]!r}, "
            "or give -P wording=FILE"
        )
    if setting == "open_box":
        for wording in chosen.values():
            if wording[_TARGET].count("{vectors}") > 1:
                raise InputError(
                    f"{place}: the template {_TARGET} must contain the placeholder {{vectors}} exactly once"
                )
    return chosen


# -- checks of every row ---------------------------------------------------------------------------


def check_design(design: DataFrame, grid: Grid, settings: Settings) -> None:
    """Check every row of the design of one category and setting.

    The characters must be a pair of the grid (with different identities, and the identity, name and type of
    their descriptors), in the order stated in the row. Each location must belong to its category, the texts
    must contain both descriptors and the location, every cell must have its planned number of stories, and
    the orders must be balanced.

    Parameters
    ----------
    design
        A design from `make_design`.
    settings
        The settings it was made with.

    Raises
    ------
    InputError
        A check fails; the message names the file of the grid and the first row.
    """
    if design.is_empty():
        raise InputError(f"{grid.place}: the design has no prompts")
    category = grid.category(design["category"][0])
    planned = settings.repeats or category.stories
    is_single = design["setting"][0] == "single"
    place = f"{grid.place}: category {design['category'][0]}"
    checks = [
        _check_of_pair(_people_of(category, settings), is_single=is_single),
        _check_of_location(_locations_of(grid)),
        *_checks_of_text(),
        _check_of_counts(planned, settings, is_single=is_single),
    ]
    count = col.repetitions.cast(pl.Int64)
    cell = ("item", "wording", "location")
    rows = design.with_columns(
        stories=count.sum().over(cell), exchanged=count.filter(col.order == 1).sum().over(cell)
    )
    for check in checks:
        failed = rows.filter(~check.is_met)
        if not failed.is_empty():
            sentence = pl.format("prompt {}: {}", "prompt_id", check.sentence)
            raise InputError(f"{place}: {failed.head(1).select(sentence).item()}")
    prompts_of_cell = 2 if is_single else 1
    wording_count = design["wording"].n_unique()
    planned_cells = len(category.pairs) * _locations_of(grid).height * wording_count * prompts_of_cell
    cells = design["item", "wording"].n_unique()
    if settings.limit is None and cells != planned_cells:
        raise InputError(f"{place}: the design has only {cells:,} of {planned_cells:,} cells")


class _Check(NamedTuple):
    """A condition that each row of a design must meet, and the sentence about a row that does not."""

    is_met: Expr
    sentence: Expr


def _check_of_pair(people: DataFrame, *, is_single: bool) -> _Check:
    """Check that the characters of a row are a pair of the grid, in the order of the row."""
    is_first = _is_among(people, ("type", *_FIRST))
    is_second = _is_among(people, ("type", *_SECOND))
    differ = (col.identity_1 != col.identity_2) & (col.name_1 != col.name_2)
    in_order = pl.format("{}-{}", "name_1", "name_2")
    exchanged = pl.format("{}-{}", "name_2", "name_1")
    is_named = col.pair == when(col.order == 0).then(in_order).otherwise(exchanged)
    is_pair = is_second & differ & is_named
    characters = pl.concat_str(_CHARACTERS, separator=", ", ignore_nulls=True)
    sentence = pl.format(
        "its characters ({}) are not those of the pair {} of the type {} in the order of the row",
        characters,
        "pair",
        "type",
    )
    return _Check((is_first & (lit(is_single) | is_pair)).fill_null(False), sentence)


def _check_of_location(locations: DataFrame) -> _Check:
    """Check that the location of a row belongs to its category."""
    sentence = pl.format("{} is not a location of {}", "location", "context")
    return _Check(_is_among(locations, locations.columns), sentence)


def _checks_of_text() -> list[_Check]:
    """Check that a text contains the descriptors and the location, and a source prompt its span."""
    text = pl.coalesce("source_prompt", "prompt")
    checks = [
        _Check(text.str.contains(col(name), literal=True), pl.format("its text does not contain {}", name))
        for name in ("descriptor_1", "descriptor_2", "location")
    ]
    has_one_span = col.source_prompt.str.count_matches(col.source_span, literal=True) == 1
    checks.append(_Check(has_one_span, lit("the source prompt does not contain the span exactly once")))
    return checks


def _check_of_counts(planned: int, settings: Settings, *, is_single: bool) -> _Check:
    """Check that a cell has its planned number of stories, in the planned orders."""
    if definition_of(settings).counterbalanced:
        is_balanced = (2 * col.exchanged - planned).abs() <= planned % 2
        orders = "equally divided between both orders"
    else:
        is_balanced = col.exchanged == 0
        orders = "all in the order of the pair"
    sentence = (
        "{} stories at the {} for {}, {} of them in the opposite order, "
        f"but {planned} are planned, {orders}"
    )
    return _Check(
        (col.stories == planned) & (lit(is_single) | is_balanced),
        pl.format(sentence, "stories", "location", "pair", "exchanged"),
    )


def _is_among(rows: DataFrame, columns: Sequence[str]) -> Expr:
    """Return whether the values of these columns are a row of a table, in the order of its columns."""
    fields = [col(column).alias(name) for column, name in zip(columns, rows.columns, strict=True)]
    return pl.struct(fields).is_in(rows.to_struct().implode())
