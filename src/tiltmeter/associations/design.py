"""The grid of descriptors and locations, and the design made from it: prompts for every pair at every location, in both orders.

The built-in grid is stored in `grids/`; a user's file has the same format. Every row of a design is checked
before the first request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain, combinations, product
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import polars as pl
from polars import DataFrame, Expr, String, col, lit, when
from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator

from tiltmeter.arrays import Index, Objects
from tiltmeter.associations.definitions import rules_of
from tiltmeter.designs.subsampling import first_samples, keep_limit
from tiltmeter.designs.wordings import Wording, check_templates, fill, wordings
from tiltmeter.errors import InputError, check_known
from tiltmeter.files.records import Filled, Line, Record, read_record
from tiltmeter.files.yaml import packaged_yaml
from tiltmeter.schema import DESIGN, conform
from tiltmeter.study import Settings

ALIGNED = "aligned"
"""Pair the first descriptor of an identity with the first of every other identity, the second with the
second, and so on."""
WITHIN_TYPE = "within type"
"""Pair every descriptor with every descriptor of another identity in the same type."""

BUILT_IN_LANGUAGE = "en"
"""The language of the built-in wordings."""

_GRIDS = Path(__file__).with_name("grids")
_CATEGORIES = ("gender", "race", "religions")


class Descriptor(NamedTuple):
    """A character of a story."""

    name: str
    """The name used in the story: "Zhang"."""
    text: str
    """The text used in the prompt: "Zhang, an Asian (male)"; it contains the name."""
    identity: str
    type: str
    """The group of descriptors within which pairs are formed."""


class Pair(NamedTuple):
    """Two descriptors of one type and of different identities, in grid order."""

    first: Descriptor
    second: Descriptor

    @property
    def name(self) -> str:
        """The name of the pair, such as "Emily-John"; unique within the type."""
        return f"{self.first.name}-{self.second.name}"


def _named_text(given: Any) -> Any:
    """Return a descriptor as name and text; the name of a plain text is the part before the first comma."""
    if isinstance(given, str):
        return {"name": given.partition(",")[0], "text": given}
    if isinstance(given, dict) and given.keys() == {"name", "text"}:
        return given
    raise ValueError(
        "each descriptor must be a text such as 'Jim, white race', or a mapping with the keys name and text"
    )


def _by_context(given: Any) -> Any:
    """Return locations by category; a plain list becomes one category."""
    return {"places": given} if isinstance(given, list) else given


def _lower_case(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", name):
        raise ValueError(
            f"must consist of lower-case letters, digits, - and _, such as 'age_group', not {name!r}"
        )
    return name


def _check_unique(
    what: str, values: Iterable[str], remedy: str = "remove one, or use different names"
) -> None:
    """Raise ValueError if a value is given twice, ignoring case."""
    seen: set[str] = set()
    for value in values:
        if value.casefold() in seen:
            raise ValueError(f"the {what} {value!r} is given twice; {remedy}")
        seen.add(value.casefold())


class NamedText(Record):
    """A descriptor in a file."""

    name: Line
    text: Line

    @model_validator(mode="after")
    def _check_name(self) -> NamedText:
        if self.name not in self.text:
            raise ValueError(
                f"the name {self.name!r} is not part of the text {self.text!r}; the text must contain it"
            )
        return self


_NamedTexts = Filled[
    list[Annotated[NamedText, BeforeValidator(_named_text, json_schema_input_type=str | NamedText)]]
]


FIRST_NAMES: Mapping[str, list[str]] = packaged_yaml(Path(__file__).with_name("names.yaml"))
"""Built-in lists of first names."""


class DealtNames(Record):
    """First names to assign at random to an identity, and the template of the descriptor."""

    names: Line | Filled[list[Line]]
    """A list of names, or the name of a built-in list: "women" or "men"."""
    text: Line = "{name}"
    """Template of the descriptor; contains {name} once."""

    @property
    def known(self) -> list[str]:
        """The names, with a built-in list resolved."""
        return FIRST_NAMES[self.names] if isinstance(self.names, str) else self.names

    @model_validator(mode="after")
    def _check_names(self) -> DealtNames:
        if isinstance(self.names, str) and self.names not in FIRST_NAMES:
            raise ValueError(
                f"there is no built-in list of names {self.names!r}; use {' or '.join(FIRST_NAMES)}, or give the names themselves"
            )
        _check_unique("name", self.known)
        if self.text.count("{name}") != 1:
            raise ValueError(f"the text {self.text!r} must contain {{name}} exactly once")
        return self


class Category(Record):
    """A category: identities that are compared with each other."""

    title: Line | None = None
    pairing: Literal["aligned", "within type"] = "within type"
    stories: Annotated[int, Field(ge=1, le=10_000)] = 10
    """Number of stories for each pair and location."""
    types: Filled[dict[Line, Filled[dict[Line, _NamedTexts]]]]
    """Descriptors by type and identity."""
    dealt: Filled[dict[Line, Filled[dict[Line, DealtNames]]]] | None = None
    """First names by type and identity, for the default definition; None: it uses the descriptors of `types`,
    like the others."""

    @property
    def identities(self) -> tuple[str, ...]:
        """Names of the identities, in grid order."""
        return tuple(dict.fromkeys(chain.from_iterable(self.types.values())))

    @property
    def descriptors(self) -> list[Descriptor]:
        """All descriptors, in grid order."""
        return [one for groups in self._groups() for group in groups for one in group]

    @property
    def pairs(self) -> list[Pair]:
        """All pairs, in grid order; each is combined with every location."""
        if self.pairing == ALIGNED:
            return [
                Pair(*pair)
                for groups in self._groups()
                for row in zip(*groups, strict=True)
                for pair in combinations(row, 2)
            ]
        return [
            Pair(*pair)
            for groups in self._groups()
            for two in combinations(groups, 2)
            for pair in product(*two)
        ]

    def _groups(self) -> list[list[list[Descriptor]]]:
        """Return descriptors grouped by type, then identity."""
        return [
            [
                [Descriptor(one.name, one.text, identity, kind) for one in given]
                for identity, given in members.items()
            ]
            for kind, members in self.types.items()
        ]

    @model_validator(mode="after")
    def _check_types(self) -> Category:
        _check_unique("identity", self.identities)
        _check_unique("descriptor", (one.text for one in self.descriptors), "keep only one of them")
        if self.dealt is not None and {kind: set(one) for kind, one in self.dealt.items()} != {
            kind: set(one) for kind, one in self.types.items()
        }:
            raise ValueError("dealt must have the same types and identities as types")
        for kind, members in self.types.items():
            if len(members) < 2:
                raise ValueError(
                    f"types.{kind} has only one identity ({next(iter(members))}); a comparison needs at least two"
                )
            if self.pairing == ALIGNED and len({len(given) for given in members.values()}) > 1:
                counts = ", ".join(f"{identity} {len(given)}" for identity, given in members.items())
                needs = f"aligned pairing needs the same number of descriptors for each identity ({counts})"
                raise ValueError(f"types.{kind}: {needs}; add some or set pairing: {WITHIN_TYPE}")
            names = (one.name for one in chain.from_iterable(members.values()))
            _check_unique("name", names, "the characters of a story need different names")
        return self


def _built_in(name: str, key: str) -> Any:
    return packaged_yaml(_GRIDS / f"{name}.yaml")[key]


class Grid(Record):
    """A grid: categories of identities, and the locations of their stories."""

    categories: Filled[dict[Annotated[str, AfterValidator(_lower_case)], Category]]
    language: Line = BUILT_IN_LANGUAGE
    """The language of the descriptors, the locations and the wording."""
    locations: Annotated[
        Filled[dict[Line, Filled[list[Line]]]],
        BeforeValidator(_by_context, json_schema_input_type=dict[str, list[str]] | list[str]),
    ] = Field(default_factory=lambda: _built_in("locations", "locations"))
    """Locations by location category; a plain list is one category."""
    wording: Filled[dict[str, str]] | None = None
    """Prompt templates by setting; None: the built-in wordings."""
    _place: str = PrivateAttr("the built-in grid")

    @property
    def place(self) -> str:
        """The source of the grid, for messages."""
        return self._place

    def category(self, name: str) -> Category:
        """Return a category by name; raise InputError for an unknown one."""
        check_known(name, self.categories, f"{self.place} has no category {name!r}")
        return self.categories[name]

    @model_validator(mode="after")
    def _check_locations(self) -> Grid:
        _check_unique("location", chain.from_iterable(self.locations.values()))
        return self


@cache
def _built_in_grid() -> Grid:
    return Grid.model_validate(
        {"categories": {name: _built_in(name, "categories")[name] for name in _CATEGORIES}}
    )


def load_grid(path: str | Path | None = None) -> Grid:
    """Return the built-in grid, or read one from a file.

    Parameters
    ----------
    path
        A YAML file in the format of those in `grids/`: `categories`, and optionally `language`, `locations`
        (default: the built-in ones) and `wording` (templates by setting). None: the built-in grid.

    Raises
    ------
    InputError
        The file cannot be read or is invalid; the message names the file, the key and the remedy.
    """
    if path is None:
        return _built_in_grid()
    grid = read_record(Path(path), "grid", Grid)
    grid._place = str(path)
    return grid


# The design

VECTORS = "⟦X⟧"
"""Marker in the target prompt of the open-box setting; the model replaces it by as many placeholder tokens as
the source span has."""

FACTORS = {
    "category": String,
    "setting": String,
    "context": String,  # location category
    "location": String,
    "type": String,  # group of descriptors that are paired
    "pair": String,  # "Emily-John", whatever the order
    "order": pl.Int8,  # 0: the characters are named as in `pair`; 1: in reverse order; null: only one character
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

_SOURCE, _TARGET, _OPENING = "open_box_source", "open_box_target", "open_box_opening"
_FIRST, _SECOND = (
    tuple(f"{field}_{slot}" for field in ("name", "descriptor", "identity")) for slot in (1, 2)
)
_CHARACTERS = (*_FIRST, *_SECOND)
_HOME = Path(__file__).with_name("wordings.yaml")
_PLACEHOLDERS = re.compile(r"\{\w+\}.*\{\w+\}", re.DOTALL)


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
    found = grid.category(category)
    templates = _templates_of(grid, setting, settings.params.get("wording"))
    cells = _cells_of(grid, found, settings.repeats or found.stories)
    stories = kept = keep_limit(cells, settings.limit, settings.seed, name)
    if _deals_names(found, settings):
        # Names are dealt for the whole design, so that a limited design is a subset of it.
        dealt = _deal_names(cells, _people_of(found, settings), settings.seed)
        stories = dealt.join(kept, on="item", how="semi", maintain_order="left")
    rows = _prompts_of(stories, setting, settings)
    made = (
        pl.concat(
            [
                rows.with_columns(wording=lit(wording), **_texts(setting, one))
                for wording, one in templates.items()
            ]
        )
        .sort("item", "prompt_index", maintain_order=True)
        .with_columns(
            category=lit(category),
            setting=lit(setting),
            part=lit(name),
            system=lit(settings.system_message, dtype=String),
            prompt_id=pl.concat_str(lit(name), "item", "prompt_index", "wording", separator="/"),
        )
    )
    design = conform(made, {**DESIGN, **FACTORS}).with_columns(first_sample=first_samples("source_prompt"))
    check_design(design, grid, settings)
    return design


def _cells_of(grid: Grid, category: Category, stories: int) -> DataFrame:
    """Return one row per pair and location.

    The columns are `item`, `stratum`, those of `_pairs_of` and `_locations_of`, `turn` (0 or 1, alternating
    over pairs and locations), `repetitions` (of both orders together), and `story` (null: the characters are
    the same in all stories).
    """
    return (
        _pairs_of(category)
        .with_row_index("pair_number")
        .join(_locations_of(grid).with_row_index("place_number"), how="cross", maintain_order="left_right")
        .with_row_index("item")
        .with_columns(
            turn=(col.pair_number + col.place_number) % 2,
            stratum=pl.concat_str("context", "type", separator="/"),
            repetitions=lit(stories),
            story=lit(None, pl.Int64),
        )
    )


def _pairs_of(category: Category) -> DataFrame:
    """Return `pair`, `type`, and the characters of each pair in the order of the grid."""
    rows = [(pair.name, pair.first.type, *pair.first[:3], *pair.second[:3]) for pair in category.pairs]
    return DataFrame(rows, schema=["pair", "type", *_CHARACTERS], orient="row")


def _both_orders(pairs: DataFrame) -> DataFrame:
    """Return the rows in the `order` 0, with the characters as they are, and in the order 1, with the characters exchanged."""
    turned = pairs.with_columns(**dict(zip(_CHARACTERS, (*_SECOND, *_FIRST), strict=True)))
    return pl.concat(
        rows.with_columns(order=lit(order, pl.Int8)) for order, rows in enumerate((pairs, turned))
    )


def _locations_of(grid: Grid) -> DataFrame:
    return DataFrame(list(grid.locations.items()), schema=["context", "location"], orient="row").explode(
        "location"
    )


def _prompts_of(stories: DataFrame, setting: str, settings: Settings) -> DataFrame:
    """Return one row per prompt: both characters, once for each order with stories, or each character in its own prompt."""
    both, order, number = _both_orders(stories), col.order, col.repetitions
    if setting == "single":
        nothing = {"order": lit(None), **dict.fromkeys(_SECOND, lit(None, String))}
        return both.with_columns(item=2 * col.item + order, prompt_index=col.story.fill_null(0), **nothing)
    share = when(order == 0).then(number).otherwise(0)
    if rules_of(settings.definition).counterbalanced:
        share = number // 2 + when(col.turn == order).then(number % 2).otherwise(0)
    return both.with_columns(prompt_index=pl.coalesce("story", "order"), repetitions=share).filter(number > 0)


def _deals_names(category: Category, settings: Settings) -> bool:
    """Return whether first names are assigned at random; raise InputError for an unknown `-P names=`."""
    chosen = settings.params.get("names", "dealt")
    check_known(chosen, ("dealt", "grid"), f"-P names={chosen}")
    return chosen == "dealt" and rules_of(settings.definition).deals_names and category.dealt is not None


def _people_of(category: Category, settings: Settings) -> DataFrame:
    """Return all possible characters of a category: `type`, `name`, `descriptor`, `identity`."""
    if not _deals_names(category, settings):
        people = DataFrame(
            category.descriptors, schema=["name", "descriptor", "identity", "type"], orient="row"
        )
    else:
        members = [
            (kind, identity, given.known, given.text)
            for kind, them in (category.dealt or {}).items()
            for identity, given in them.items()
        ]
        dealt = DataFrame(members, schema=["type", "identity", "name", "descriptor"], orient="row").explode(
            "name"
        )
        people = dealt.with_columns(col.descriptor.str.replace("{name}", col("name"), literal=True))
    return people.select("type", "name", "descriptor", "identity")


def _deal_names(cells: DataFrame, people: DataFrame, seed: int) -> DataFrame:
    """Return one row per story: two characters with different names, assigned at random and with equal frequency within an identity.

    The columns are those of `cells`, with the numbers of the stories at a cell as `story` (0, 1, ...).
    """
    plan = cells.with_columns(story=pl.int_ranges("repetitions")).explode("story")
    plan = plan.with_columns(repetitions=lit(1), turn=(col.turn + col.story) % 2)
    people, rng = people.with_row_index("person"), np.random.default_rng(seed)
    dealt = np.empty((plan.height, 2), dtype=np.intp)
    for (kind, identity), them in people.group_by("type", "identity", maintain_order=True):
        rows, sides = np.nonzero(
            plan.select((col("identity_1", "identity_2") == identity) & (col.type == kind)).to_numpy()
        )
        rounds = [rng.permutation(them["person"].to_numpy()) for _ in range(-(-len(rows) // them.height))]
        dealt[rows, sides] = np.concatenate(rounds)[: len(rows)]
    stream = plan.select(pl.struct("type", "identity_1").rank("dense")).to_series().to_numpy()
    _separate_equal_names(dealt, people["name"].to_numpy(), stream)
    for side in (1, 2):
        plan = plan.with_columns(
            *people[dealt[:, side - 1]].select(col("name", "descriptor").name.suffix(f"_{side}"))
        )
    return plan.with_columns(pair=pl.format("{}-{}", "name_1", "name_2"))


def _separate_equal_names(dealt: Index, names: Objects, stream: Index) -> None:
    """Exchange first characters, in place, so that no story has two characters with the same name.

    Parameters
    ----------
    dealt
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
    first, second = names[dealt].T
    for row in np.flatnonzero(first == second):
        others = np.flatnonzero((stream == stream[row]) & (second != first[row]) & (first != second[row]))
        if not len(others):
            raise InputError(
                f"the grid assigns the name {first[row]!r} to both characters of a story; give each identity more names"
            )
        other = others[np.searchsorted(others, row) % len(others)]
        for column in (dealt[:, 0], first):
            column[[row, other]] = column[[other, row]]


# -- wording ----------------------------------------------------------------------------------------------------------


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
    """Return the templates of a setting by wording name: those chosen, else those of the grid, else the built-in ones.

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
                f"{grid.place}: the language is {grid.language!r}, but the built-in wordings are in {BUILT_IN_LANGUAGE!r}; "
                f"add the key 'wording' with the template {roles[0]!r}, or give -P wording=FILE"
            )
    if setting == "open_box" and any(
        templates[_TARGET].count("{vectors}") > 1 for templates in chosen.values()
    ):
        raise InputError(
            f"{place}: the template {_TARGET} must contain the placeholder {{vectors}} exactly once"
        )
    return chosen


# -- checks of every row ----------------------------------------------------------------------------------------------


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
    name, alone = design["category"][0], design["setting"][0] == "single"
    category, locations = grid.category(name), _locations_of(grid)
    place, planned = f"{grid.place}: category {name}", settings.repeats or category.stories
    people = _people_of(category, settings)
    first, second = (_is_among(people, ("type", *columns)) for columns in (_FIRST, _SECOND))
    in_order = (
        when(col.order == 0)
        .then(pl.format("{}-{}", "name_1", "name_2"))
        .otherwise(pl.format("{}-{}", "name_2", "name_1"))
    )
    is_pair = (
        second & (col.identity_1 != col.identity_2) & (col.name_1 != col.name_2) & (col.pair == in_order)
    )
    is_balanced = (2 * col.turned - planned).abs() <= planned % 2
    orders = "equally divided between both orders"
    if not rules_of(settings.definition).counterbalanced:
        is_balanced, orders = col.turned == 0, "all in the order of the pair"
    stories = f"{{}} stories at the {{}} for {{}}, {{}} of them in the opposite order, but {planned} are planned, {orders}"
    said = pl.concat_str(_CHARACTERS, separator=", ", ignore_nulls=True)
    text, span = pl.coalesce("source_prompt", "prompt"), col.source_span
    shown = ("descriptor_1", "descriptor_2", "location")
    checks = [
        (
            (first & (lit(alone) | is_pair)).fill_null(False),
            pl.format(
                "its characters ({}) are not those of the pair {} of the type {} in the order of the row",
                said,
                "pair",
                "type",
            ),
        ),
        (
            _is_among(locations, locations.columns),
            pl.format("{} is not a location of {}", "location", "context"),
        ),
        *(
            (text.str.contains(col(one), literal=True), pl.format("its text does not contain {}", one))
            for one in shown
        ),
        (
            col.source_prompt.str.count_matches(span, literal=True) == 1,
            lit("the source prompt does not contain the span exactly once"),
        ),
        (
            (col.stories == planned) & (lit(alone) | is_balanced),
            pl.format(stories, "stories", "location", "pair", "turned"),
        ),
    ]
    number = col.repetitions.cast(pl.Int64)
    numbers = {"stories": number.sum(), "turned": number.filter(col.order == 1).sum()}
    counted = design.with_columns(
        **{key: one.over("item", "wording", "location") for key, one in numbers.items()}
    )
    for right, sentence in checks:
        for wrong in (
            counted.filter(~right)
            .head(1)
            .select(pl.format("prompt {}: {}", "prompt_id", sentence))
            .to_series()
        ):
            raise InputError(f"{place}: {wrong}")
    full = len(category.pairs) * locations.height * design["wording"].n_unique() * (2 if alone else 1)
    cells = design["item", "wording"].n_unique()
    if settings.limit is None and cells != full:
        raise InputError(f"{place}: the design has only {cells:,} of {full:,} cells")


def _is_among(rows: DataFrame, columns: Sequence[str]) -> Expr:
    """Return whether the values of these columns are a row of a table, in the order of its columns."""
    values = pl.struct(col(one).alias(name) for one, name in zip(columns, rows.columns, strict=True))
    return values.is_in(rows.to_struct().implode())
