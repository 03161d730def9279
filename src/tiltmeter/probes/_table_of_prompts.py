"""Tables of prompts: the columns, the attributes with their groups, and the checks of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

import polars as pl
from polars import DataFrame, Expr, Float64, Int64, String, col, selectors as cs
from pydantic import ConfigDict

from tiltmeter._files.records import Record
from tiltmeter._files.tables import ROW, UserTable
from tiltmeter.comparisons import attribute_in_words
from tiltmeter.errors import InputError, check_known
from tiltmeter.models._base import ALLOWED
from tiltmeter.probes._contract import SYSTEM_FIELD
from tiltmeter.probes._table_roles import TableRoles
from tiltmeter.readers.outcomes import READING_RULE
from tiltmeter.schema import DESIGN, MEASURES, RESPONSES, refuse_alike

GROUP: Final = "group"
"""Column of a design with the group of a prompt."""
EXPECTED: Final = "expected"
"""Column of a design with the expected answer of a prompt."""
SUFFIX: Final = "_of_table"
"""End of the name of a factor whose column has the name of a column of a design or of measures."""
RESERVED: Final = frozenset(
    {
        *DESIGN,
        *RESPONSES,
        *MEASURES,
        GROUP,
        EXPECTED,
        ALLOWED,
        READING_RULE,
        "stratum",
        "second_reader",
        "source_prompt",
        "source_span",
        "answer_opening",
        "rule",
        "options",
    }
)
"""Columns of designs and measures, which a factor of the table must not replace."""
REQUIRED_COLUMNS: Final = ("prompt", GROUP, EXPECTED)
"""Columns of a table without options."""
BETWEEN_GROUPS: Final = ", "
"""Separator of the groups in the name of an intersection: "Black, women"."""
FEWEST_EXPECTED_LIKE: Final = 0.8
"""Similarity of a column's name to `expected` from which it is taken for a misspelling."""


class ProbeRow(Record):
    """One row of the table."""

    model_config = ConfigDict(extra="allow", frozen=True)

    prompt: str
    group: str
    """The group that the prompt is about."""
    expected: str | None = None
    """The expected answer."""
    item: str | int | None = None
    """Identifier shared by the prompts that differ in the group only."""
    system: str | None = None
    """The system message of the prompt."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute that the prompts of a table vary, with its groups.

    Parameters
    ----------
    name
        The name of the column, or those of several separated by commas: "race", "race,gender".
    group
        The group of a prompt, as an expression over the factors of the table.
    names
        The groups, in the order of the table.
    """

    name: str
    group: Expr
    names: tuple[str, ...]

    @property
    def words(self) -> str:
        """The attribute in words: "race", "race and gender"."""
        return attribute_in_words(self.name)


@dataclass(frozen=True, slots=True)
class TableOfPrompts:
    """A checked table of prompts.

    Parameters
    ----------
    rows
        `prompt`; EXPECTED, `item` and SYSTEM_FIELD where the table has them; and the factors.
    attributes
        The attributes that are compared.
    source
        Origin of the table, for messages.
    """

    rows: DataFrame
    attributes: tuple[Attribute, ...]
    source: str

    @classmethod
    def of(cls, table: DataFrame, source: str, roles: TableRoles) -> TableOfPrompts:
        """Check a table, and return what is used of it.

        Raises
        ------
        InputError
            A column is missing, a cell is empty, an attribute has fewer than two groups, or a prompt is about
            several groups.
        """
        columns = _Columns.of(table, source, roles)
        UserTable.of(source, table).demand(columns.named, rest=columns.requirement)
        texts = dict.fromkeys(name for name in columns.texts if name is not None)
        stripped = table.drop(ROW, strict=False).with_columns(
            col(name).cast(String).str.strip_chars() for name in texts
        )
        filled = [*columns.texts, *([columns.item] if columns.item else [])]
        checked = stripped.select(list(dict.fromkeys(name for name in filled if name is not None)))
        UserTable.of(source, _numbered(table, checked)).refuse_empty(checked.columns)
        factors = _factors(stripped, columns)
        rows = stripped.select(*columns.used(stripped), **factors)
        groups = {name: _group_of(columns.names_of(name)) for name in columns.attributes}
        attributes = [_attribute(name, group, rows, source) for name, group in groups.items()]
        _refuse_several_groups(rows, attributes, source)
        if roles.attributes or roles.item:
            _refuse_unmatched(rows, attributes, source)
        return cls(rows, tuple(attributes), source)

    @property
    def has_expected(self) -> bool:
        """Whether the table has expected answers."""
        return EXPECTED in self.rows.columns

    @property
    def has_items(self) -> bool:
        """Whether rows belong together as matched sets."""
        return "item" in self.rows.columns

    def prompts_about(self, attribute: Attribute) -> DataFrame:
        """Return the rows of a design (see `Probe.prompts`) whose groups are those of an attribute.

        Independent rows are sampled in proportion to the combinations of all attributes, so that a limit
        selects the same rows for each attribute.
        """
        rows = self.rows.rename({"prompt": "_prompt"}).with_columns(attribute.group.alias(GROUP))
        if [of_attribute.name for of_attribute in self.attributes] == [GROUP]:
            rows = rows.drop(f"{GROUP}{SUFFIX}")  # the same
        if self.has_items:
            numbered = rows.with_columns(item=col.item.rank("dense").cast(pl.Int32) - 1)
            return numbered.sort("item", maintain_order=True)
        if len(self.attributes) == 1:
            return rows.with_columns(stratum=GROUP)
        cells = [of_attribute.group for of_attribute in self.attributes]
        return rows.with_columns(stratum=pl.concat_str(cells, separator=BETWEEN_GROUPS))


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a table by their role."""

    columns: Sequence[str]
    attributes: Mapping[str, tuple[str, ...]]
    """The columns of each attribute, by its name."""
    item: str | None
    expected: str | None
    system: str | None
    requirement: str
    """End of the message about a missing column."""

    @classmethod
    def of(cls, table: DataFrame, source: str, roles: TableRoles) -> _Columns:
        """Return the columns that the options name, and those with the usual names."""
        names = [name for name in table.columns if name != ROW]
        usual = {name: name if name in names else None for name in ("item", EXPECTED, "system")}
        item = roles.item or usual["item"]
        expected = roles.expected or usual[EXPECTED]
        _refuse_misspelt(names, source, roles, item, expected)
        if roles.attributes:
            requirement = ""
            attributes = {name: _columns_of(name, names) for name in roles.attributes}
        else:
            requirement = f"; a table of prompts has the columns {', '.join(REQUIRED_COLUMNS)}"
            if GROUP not in names:
                requirement += ", or name the column of the group with --group"
            attributes = {GROUP: (GROUP,)}
        of_names = {BETWEEN_GROUPS.strip().join(columns): columns for columns in attributes.values()}
        return cls(names, of_names, item, expected, roles.system or usual["system"], requirement)

    @property
    def named(self) -> list[str]:
        """The columns that must exist."""
        of_attributes = [column for names in self.attributes.values() for column in names]
        columns = [name for name in (self.expected, self.item, self.system) if name is not None]
        return list(dict.fromkeys(["prompt", *of_attributes, *columns]))

    @property
    def texts(self) -> list[str | None]:
        """The columns whose values are texts that must not be empty."""
        of_attributes = [column for columns in self.attributes.values() for column in columns]
        return ["prompt", *of_attributes, self.expected]

    def used(self, table: DataFrame) -> list[Expr]:
        """Return the columns of a design that are no factors of the table."""
        chosen = [col.prompt]
        if self.expected is not None:
            chosen.append(col(self.expected).str.to_lowercase().alias(EXPECTED))
        if self.item is not None:
            chosen.append(col(self.item).alias("item"))
        if self.system is not None:
            message = col(self.system).cast(String)
            is_blank = message.str.strip_chars() == ""
            chosen.append(pl.when(~is_blank).then(message).alias(SYSTEM_FIELD))
        return chosen

    def factor_of(self, column: str) -> str:
        """Return the name of the factor of a column."""
        is_reserved = column in RESERVED or column.startswith("_") or ":" in column
        if not is_reserved:
            return column
        name = column.replace(":", "_").strip("_") + SUFFIX
        while name in self.columns:
            name += SUFFIX
        return name

    def names_of(self, attribute: str) -> list[str]:
        """Return the factors of an attribute."""
        return [self.factor_of(column) for column in self.attributes[attribute]]


def _refuse_misspelt(
    names: Sequence[str], source: str, roles: TableRoles, item: str | None, expected: str | None
) -> None:
    """Raise InputError if a column seems to be a misspelt `item` or `expected`."""
    similar = [] if item is not None else [("item", name) for name in get_close_matches("item", names)]
    if expected is None and not roles.outcomes:
        matches = get_close_matches(EXPECTED, names, cutoff=FEWEST_EXPECTED_LIKE)
        similar += [(EXPECTED, name) for name in matches]
    of_attributes = {column for attribute in roles.attributes for column in _columns_of(attribute, names)}
    for usual, name in similar:
        if name not in of_attributes:
            raise InputError(
                f"{source}: the column {name!r} is not known: did you mean {usual}? Rename or remove it"
            )


def _columns_of(attribute: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of an attribute: one with this name, or those separated by commas."""
    if attribute in names:
        return (attribute,)
    columns = [column.strip() for column in attribute.split(",")]
    if not all(columns) or len(set(columns)) < len(columns):
        raise InputError(f"--group {attribute}: name each column once, separated by commas")
    for column in columns:
        check_known(column, names, f"--group {attribute}: the table has no column {column!r}")
    return tuple(columns)


def _numbered(table: DataFrame, rows: DataFrame) -> DataFrame:
    """Return rows with the row numbers of the table that they are from, if it has any."""
    return rows.with_columns(table[ROW]) if ROW in table.columns else rows


def _factors(table: DataFrame, columns: _Columns) -> dict[str, Expr]:
    """Return the columns of the table that are kept as factors, by the name of the factor.

    Numbers keep their kind; dates, and texts of a closed list, are texts. Lists and objects are left out.
    """
    is_plain = cs.string() | cs.numeric() | cs.boolean() | cs.temporal() | cs.categorical() | cs.enum()
    of_attributes = {column for names in columns.attributes.values() for column in names}
    in_other_roles = {"prompt", columns.item, columns.expected, columns.system} - of_attributes
    factors: dict[str, Expr] = {}
    for name in table.select(is_plain - cs.duration()).columns:
        if name in in_other_roles:
            continue
        kind = table.schema[name]
        value = col(name)
        if kind.is_integer():
            value = value.cast(Int64)
        elif kind.is_numeric():
            value = value.cast(Float64)
        elif kind != pl.Boolean:
            value = value.cast(String)
        factors[columns.factor_of(name)] = value
    return factors


def _group_of(factors: Sequence[str]) -> Expr:
    """Return the group of a prompt, over the factors of its attribute."""
    return pl.concat_str([col(name) for name in factors], separator=BETWEEN_GROUPS)


def _attribute(name: str, group: Expr, rows: DataFrame, source: str) -> Attribute:
    """Return an attribute with its groups; raise InputError if there are fewer than two."""
    groups = rows.select(group.alias(GROUP))[GROUP]
    if groups.n_unique() < 2:
        of_attribute = "" if name == GROUP else f" of {name} ({groups[0]})"
        raise InputError(
            f"{source}: all rows have the same group{of_attribute}; at least two groups are needed"
        )
    refuse_alike(groups, source)
    return Attribute(name, group, tuple(groups.unique(maintain_order=True)))


def _refuse_several_groups(rows: DataFrame, attributes: Sequence[Attribute], source: str) -> None:
    """Raise InputError if the same prompt, with the same system message, is about several groups."""
    sent = ["prompt", SYSTEM_FIELD] if SYSTEM_FIELD in rows.columns else ["prompt"]
    for attribute in attributes:
        ambiguous = rows.filter(attribute.group.n_unique().over(sent) > 1)
        if not ambiguous.is_empty():
            of_attribute = "" if attribute.name == GROUP else f" of {attribute.name}"
            raise InputError(
                f"{source}: the prompt {ambiguous['prompt'][0]!r} is given for several groups{of_attribute}; "
                "a prompt must name its group"
            )


def _refuse_unmatched(rows: DataFrame, attributes: Sequence[Attribute], source: str) -> None:
    """Raise InputError for an item with one group only, or a group with one item only."""
    if "item" not in rows.columns:
        return
    for attribute in attributes:
        cells = rows.select("item", attribute.group.alias(GROUP))
        of_items = cells.group_by("item", maintain_order=True).agg(
            col.group.n_unique().alias("groups"), col.group.first()
        )
        alone = of_items.filter(col.groups < 2)
        if not alone.is_empty():
            item, _, group = alone.row(0)
            raise InputError(
                f"{source}: the item {item!r} has rows of one group of {attribute.name} only ({group}); "
                "add the "
                "others, remove these rows, or leave out the column of the items"
            )
        of_groups = cells.group_by(GROUP, maintain_order=True).agg(
            col.item.n_unique().alias("items"), col.item.first()
        )
        single = of_groups.filter(col("items") < 2)
        if not single.is_empty():
            group, _, item = single.row(0)
            raise InputError(
                f"{source}: all rows of the group {group!r} of {attribute.name} have the same item "
                f"({item}); a "
                "group needs several items"
            )
