"""Decisions that a user has in a table, as responses to a study of decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import polars as pl
from polars import DataFrame, String, col, lit, when

from tiltmeter._files.tables import ROW, UserTable, dates_among
from tiltmeter.decisions._outcome_values import outcome_kind
from tiltmeter.decisions._parts import PLACE, DecisionRows, part_of
from tiltmeter.decisions._suite import suite
from tiltmeter.errors import InputError, check_known
from tiltmeter.importing._doubtful_rows import print_notes, without_keys
from tiltmeter.importing._own_data import OwnData
from tiltmeter.importing._response_tables import Source, read_rows
from tiltmeter.schema import RESPONSES, conform, refuse_alike

MOST_GROUPS: Final = 30
"""Largest number of groups of an attribute."""
FEWEST_GROUPS: Final = 2


@dataclass(frozen=True, slots=True)
class DecisionColumns:
    """The roles of columns in a table of decisions.

    Attributes
    ----------
    outcome
        The decisions: 0 and 1, yes and no, true and false, or numbers. A column of nested objects is named by
        its path: "decision.advance".
    group
        The attributes; each is compared by itself, and each pair of them as intersections.
    item
        What rows have in common that differ in the group only, such as the applicant's file.
    label
        The value that counts as selected, if it is none of 1, yes and true.
    """

    outcome: Sequence[str]
    group: Sequence[str] = ()
    item: str | None = None
    label: str | None = None

    @property
    def are_named(self) -> bool:
        """Whether an option of decisions is given."""
        return bool(self.outcome) or self.item is not None or self.label is not None

    @property
    def flags(self) -> dict[str, list[str]]:
        """The columns by flag."""
        return {
            "--outcome": list(self.outcome),
            "--group": list(self.group),
            "--item": [] if self.item is None else [self.item],
        }


def own_decisions(paths: Sequence[Source], columns: DecisionColumns) -> OwnData:
    """Return the decisions of tables as responses to a study that is made for them.

    Raises
    ------
    InputError
        A column is missing or has two roles, an outcome cannot be read, or an attribute has fewer than two
        groups or more than MOST_GROUPS.
    """
    _check_flags(columns)
    tables = [without_keys(path, _rows_of(path, columns)) for path in paths]
    rows = pl.concat(tables, how="diagonal")
    place = ", ".join(map(str, paths))
    table = UserTable.of(place, rows) if len(paths) == 1 else UserTable(place, rows)
    kinds = {name: outcome_kind(table, name, columns.label) for name in columns.outcome}
    groups = _groups_of(table, columns)
    items = lit(None, String) if columns.item is None else col(columns.item)
    decisions = DecisionRows(rows.select(*groups, PLACE, items.alias("item")), list(columns.group))
    _check_items(decisions, place, columns)
    parts = {name: part_of(name, kind, decisions, is_only=len(kinds) == 1) for name, kind in kinds.items()}
    answers = {part.name: rows[name] for name, part in parts.items()}
    study = suite.of_decisions(list(parts.values()))
    if "model" not in rows.columns:
        rows = rows.with_columns(model=lit(None, String))
    named = {flag.removeprefix("--"): names for flag, names in columns.flags.items() if names}
    numbers = [name for name, kind in kinds.items() if not kind.is_rate]
    if numbers:
        named["numbers"] = numbers
    if columns.label is not None:
        named["label"] = [columns.label]
    return OwnData(paths, study, partial(_responses, answers, rows.select("model")), rows["model"], named)


def _check_flags(columns: DecisionColumns) -> None:
    """Raise InputError if a flag is missing, or a column has two roles."""
    if not columns.group:
        raise InputError("decisions need --group COLUMN, the attribute that they are compared by")
    roles: dict[str, str] = {}
    for flag, names in columns.flags.items():
        for name in names:
            earlier = roles.setdefault(name, flag)
            if earlier != flag:
                raise InputError(f"{earlier} and {flag} name the same column {name!r}; omit one of them")
            if names.count(name) > 1:
                raise InputError(f"{flag} names the column {name!r} twice; name it once")


def _rows_of(path: Source, columns: DecisionColumns) -> DataFrame:
    """Return the columns that have a role, and `model`, as text, with the place of each row."""
    table = read_rows(path)
    names = [name for of_flag in columns.flags.values() for name in of_flag]
    for flag, of_flag in columns.flags.items():
        for name in of_flag:
            check_known(name, table.columns, f"{flag} {name}: {path} has no such column")
    UserTable.of(path, table).demand(names)
    kept = [*names, *(["model"] if "model" in table.columns and "model" not in names else [])]
    texts = table.select(col(name).cast(String).str.strip_chars() for name in kept)
    name = path.name if isinstance(path, Path) else str(path)
    place = pl.format(f"{name}, row {{}}", UserTable.of(path, table).rows[ROW])
    return texts.with_columns(place.alias(PLACE))


def _groups_of(table: UserTable, columns: DecisionColumns) -> list[pl.Expr]:
    """Return the groups of each attribute, null where a cell is empty; print how many are.

    Raise InputError if an attribute cannot be compared.
    """
    groups = []
    for name in columns.group:
        values = table.rows[name]
        names = values.filter(values != "").unique()
        refuse_alike(names, table.place)
        if len(names) < FEWEST_GROUPS:
            same = (
                f"every row has the same {name} ({names[0]})"
                if len(names)
                else f"the column {name!r} is empty"
            )
            raise InputError(f"{table.place}: {same}; at least two groups are needed")
        if len(names) > MOST_GROUPS:
            raise InputError(
                f"{table.place}: the column {name!r} has {len(names):,} different values; --group needs a"
                f" column with at most {MOST_GROUPS} groups, such as ranges of ages (20-29)"
            )
        unknown = int((values.fill_null("") == "").sum())
        if unknown:
            print_notes(f"{table.place}: {unknown:,} rows have no {name} and are not compared by it")
        print_notes(dates_among(table.place, names))
        groups.append(when(col(name) != "").then(col(name)).alias(name))
    return groups


def _check_items(decisions: DecisionRows, place: str, columns: DecisionColumns) -> None:
    """Raise InputError if no item has rows of two groups, so that nothing is matched."""
    if columns.item is None:
        return
    if decisions.table["item"].null_count() or (decisions.table["item"] == "").any():
        raise InputError(f"{place}: a row has no {columns.item}; fill it in, or leave out --item")
    for name in columns.group:
        groups_of_items = decisions.table.drop_nulls(name).group_by("item").agg(col(name).n_unique())
        if (groups_of_items[name] < FEWEST_GROUPS).all():
            raise InputError(
                f"--item {columns.item}: no item has rows of two groups of {name}; name the column that rows"
                " which differ in the group only have in common, or leave it out"
            )


def _responses(
    answers: Mapping[str, pl.Series], models: DataFrame, design: DataFrame, model: str
) -> DataFrame:
    """Return the decisions as responses: those of each part, in the order of the design."""
    tables = []
    for (part,), prompts in design.group_by("part", maintain_order=True):
        rows = models.select(col.model.fill_null(model), answer=answers[str(part)])
        tables.append(rows.with_columns(prompts["prompt_id"], repetition=0))
    return conform(pl.concat(tables), RESPONSES).with_columns(status=lit("ok"))
