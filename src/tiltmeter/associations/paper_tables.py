"""The tables of the BADF paper: figures of each group, counts by location, and the strongest associations.

They are made from the table `associations` of a run or from released associations (`released.read_released`).
Only associations that are listed count: rows that are `reported`, or released rows that are not `exclusive`.
Associations at a location and those over all locations together are never mixed: the column `scope` is
"location" or "all". The paper has the first kind only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import polars as pl
from polars import DataFrame, Expr, Float64, Int64, Series, String, col, lit, when

from tiltmeter._quantities import confidence, interval, interval_name, number, quantity
from tiltmeter.associations._tables import ASSOCIATIONS
from tiltmeter.blocks import Column, Table
from tiltmeter.schema import Schema, beside, conform
from tiltmeter.study import MethodTable, ReportView

TOP_OF_GROUP: Final = 10
"""Number of associations of each group in the table of the strongest."""
OWNER: Final = ("model", "part")
LOCATION: Final = "location"
"""Scope of associations at one location."""
ALL: Final = "all"
"""Scope of associations over all locations together."""

SUMMARY: Schema = {
    "scope": String,
    "identity": String,
    "count": Int64,
    "mean_score": Float64,
    "min_score": Float64,
    "max_score": Float64,
    "mean_p": Float64,
    "median_p": Float64,
}
"""Columns of `summary`, after those of OWNER that the associations have. Without an association, figures are
null."""

LISTED: Schema = {
    "scope": String,
    "identity": String,
    "against": String,  # the group it is compared with; null: all others
    "rank": Int64,  # from 1, within the scope and, if they are ranked by group, the group
    "context": String,
    "concept": String,
    **{name: ASSOCIATIONS[name] for name in ("count", "lists", "rate", "others_rate")},
    "score": Float64,  # published distinctiveness; in the default definition the difference of the two rates
    "low": Float64,  # interval of the difference; null in the published definitions
    "high": Float64,
    "level": Float64,
    "p": Float64,
    "q": Float64,
}
"""Columns of `top`, after those of OWNER. Columns that the associations lack are null."""


def summary(associations: DataFrame) -> DataFrame:
    """Summarise the associations of each group (Tables 2 and 14 of the paper).

    Parameters
    ----------
    associations
        The table `associations` of a run, or released associations (RELEASED).

    Returns
    -------
    pl.DataFrame
        SUMMARY, one row for each scope and group, including groups without an association.

    Examples
    --------
    >>> import tiltmeter as tm
    >>> run = tm.run("associations/gender", model="sim/biased", limit=20, display="none", out="stories")
    >>> summary(run.table("associations")).filter(scope="all").select("identity", "count").rows()
    [('female', 2), ('male', 2)]
    """
    rows = _with_scope(associations)
    owner = _owner(rows)
    score, p = col.score, col.p
    figures = {
        "count": pl.len().cast(Int64),
        "mean_score": score.mean(),
        "min_score": score.min(),
        "max_score": score.max(),
        "mean_p": p.mean(),
        "median_p": p.median(),
    }
    groups = rows.select(*owner, "scope", "identity").unique().sort(*owner, "scope", "identity")
    measured = rows.filter("listed").group_by(*owner, "scope", "identity").agg(**figures)
    figures_of_groups = beside(groups, measured, *owner, "scope", "identity")
    return figures_of_groups.select(*owner, *SUMMARY).with_columns(col.count.fill_null(0))


def by_location(associations: DataFrame) -> DataFrame:
    """Count the associations of each group at each location (Figures 3, 5 and 6 of the paper).

    Parameters
    ----------
    associations
        As for `summary`.

    Returns
    -------
    pl.DataFrame
        `identity`, `context` (in the order of the associations) and `count`, after the columns of OWNER; no
        rows without locations.
    """
    rows = _with_scope(associations).filter(scope=LOCATION)
    owner = _owner(rows)
    places = rows.select(*owner, "context").unique(maintain_order=True)
    groups = rows.select(*owner, "identity").unique().sort(*owner, "identity")
    how: Literal["inner", "cross"] = "inner" if owner else "cross"
    cells = groups.join(places, on=owner or None, how=how, maintain_order="left_right")
    counts = rows.group_by(*owner, "identity", "context").agg(count=col.listed.sum().cast(Int64))
    filled = beside(cells, counts, *owner, "identity", "context").with_columns(col.count.fill_null(0))
    return filled.select(*owner, "identity", "context", "count")


def top(
    associations: DataFrame, k: int = TOP_OF_GROUP, *, each_identity: bool = False, by: str = "score"
) -> DataFrame:
    """Return the strongest associations of each scope, overall or by group (Tables 15 to 20 of the paper).

    Parameters
    ----------
    associations
        As for `summary`.
    k
        Number of associations.
    each_identity
        Whether to return `k` associations of each group.
    by
        Column to rank by, the largest first: `score` as published, or `low`, the lower end of the interval,
        as reports do. Associations with the same value keep their order.

    Returns
    -------
    pl.DataFrame
        LISTED, after the columns of OWNER.
    """
    rows = _with_scope(associations).filter("listed")
    ranking = [*_owner(rows), "scope"]
    if each_identity:
        ranking.append("identity")
    by_strength = rows.sort(by, descending=True, nulls_last=True, maintain_order=True)
    rank = pl.int_range(1, pl.len() + 1, dtype=Int64).over(ranking)
    ranked = by_strength.sort(ranking, maintain_order=True).with_columns(rank=rank)
    return conform(ranked.filter(col.rank <= k), {**dict.fromkeys(_owner(rows), String), **LISTED})


def _owner(rows: DataFrame) -> list[str]:
    """Return the columns of OWNER that the rows have: released associations have none."""
    return [name for name in OWNER if name in rows.columns]


def _with_scope(associations: DataFrame) -> DataFrame:
    """Add `scope` and `listed` to associations; `concept` becomes the name that reports use."""
    listed: Expr = ~col.exclusive if "exclusive" in associations.columns else col.reported
    name = "label" if "label" in associations.columns else "concept"
    scope = when(col.context.is_null()).then(lit(ALL)).otherwise(lit(LOCATION))
    return associations.with_columns(scope=scope, listed=listed, concept=name)


# -- as tables of a report -------------------------------------------------------------------------

_SUMMARY: Final = (
    "Count: associations listed. Mean, smallest and largest {score}; mean and median p. These are figures of"
    " selected associations, and so descriptive only."
)
SHARE_OF_OTHERS: Final = {
    True: "the same share for the group or groups that it is compared with",
    False: "the same share for the other groups",
}
"""What the column "others" contains, by whether groups are compared with single others."""
_LOCATIONS: Final = (
    "Number of associations listed for each group at each location; those over all locations together are not"
    " included."
)
_TOP: Final = (
    "Up to {k} of each group at single locations and over all locations together, by the lower end of the"
    " interval. Share: of the group's descriptions, those that contain the concept; others: {others}. Only"
    " the strongest of many are listed: intervals are widened for this, and the differences are too large on"
    " average."
)
_PUBLISHED_TOP: Final = (
    "Up to {k} of each group, by the published score. p is not adjusted for the number of tests."
)
_NOT_COUNTED: Final = "associations could not be counted"
_NO_ASSOCIATIONS: Final = "no associations were found"
_NO_LOCATIONS: Final = "there are no locations"
_SCOPES: Final = {LOCATION: "single", ALL: "all"}


def tables_of(view: ReportView) -> Mapping[str, MethodTable]:
    """Return the tables `summary`, `locations` and `top` of the associations in a run.

    Associations are ranked as in reports: by the lower end of the interval in the default definition, and by
    the score in the published ones, whose scores have no interval.
    """
    published = "score" in view.findings["unit"]

    def associations() -> DataFrame:
        columns: Schema = {**dict.fromkeys(OWNER, String), **ASSOCIATIONS, "label": String}
        table = view.table("associations")
        # Without a response that can be used, a run has no such table.
        rows = conform(table, columns) if table.width else DataFrame(schema=columns)
        if published:
            rows = rows.with_columns(lit(None, Float64).alias(name) for name in ("low", "high", "level"))
        return rows

    def reason() -> str:
        return _NO_ASSOCIATIONS if view.table("associations").width else _NOT_COUNTED

    tables = _Tables(
        associations=associations,
        reason=reason,
        owner=[name for name in OWNER if view.findings[name].n_unique() > 1],
        published=published,
    )
    return tables.by_name()


def released_tables(released: DataFrame) -> Mapping[str, MethodTable]:
    """Return the tables `summary`, `locations` and `top` of released associations (RELEASED)."""
    tables = _Tables(associations=lambda: released, reason=lambda: _NO_ASSOCIATIONS, owner=(), published=True)
    return tables.by_name()


@dataclass(frozen=True, slots=True)
class _Tables:
    """The tables of the associations of a run, or of released ones."""

    associations: Callable[[], DataFrame]
    reason: Callable[[], str]
    """Returns why there are no associations."""
    owner: Sequence[str]
    """The columns of OWNER of which the run has more than one value."""
    published: bool
    """Whether the definition is a published one."""

    def by_name(self) -> Mapping[str, MethodTable]:
        """Return the tables by name."""
        return {
            "summary": MethodTable(lambda: summary(self.associations()), self._summary),
            "locations": MethodTable(lambda: by_location(self.associations()), self._locations),
            "top": MethodTable(self._strongest, self._top),
        }

    def _strongest(self) -> DataFrame:
        return top(self.associations(), each_identity=True, by="score" if self.published else "low")

    def _summary(self, rows: DataFrame) -> Table:
        title = "Associations of each group"
        if rows.is_empty():
            return _empty_table(title, self.reason())
        value = "score" if self.published else "difference"
        names = [*self._owners(rows), *_scopes(rows), Column.of(rows, "identity", "group", "name")]
        numbers = [
            Column.of(rows, "count", kind="count"),
            Column(f"mean {value}", self._formatted(rows["mean_score"]), "quantity"),
            Column("smallest", self._formatted(rows["min_score"]), "quantity"),
            Column("largest", self._formatted(rows["max_score"]), "quantity"),
            Column.of(rows, "mean_p", "mean p", "probability"),
            Column.of(rows, "median_p", "median p", "probability"),
        ]
        return Table(title, [*names, *numbers], lead=len(names), note=_SUMMARY.format(score=value))

    def _locations(self, rows: DataFrame) -> Table:
        title = "Associations at each location"
        if rows.is_empty():
            return _empty_table(title, self.reason() if self.associations().is_empty() else _NO_LOCATIONS)
        cells = rows.pivot("identity", index=[*_owner(rows), "context"], values="count", maintain_order=True)
        identities = set(rows["identity"])
        groups = [name for name in cells.columns if name in identities]
        names = [*self._owners(cells), Column.of(cells, "context", "location", "name")]
        counts = [Column.of(cells, group, kind="count") for group in groups]
        totals = cells.select(total=pl.sum_horizontal(groups))
        columns = [*names, *counts, Column.of(totals, "total", kind="count")]
        return Table(title, columns, lead=len(names), note=_LOCATIONS)

    def _top(self, rows: DataFrame) -> Table:
        title = "Strongest associations of each group"
        if rows.is_empty():
            return _empty_table(title, self.reason())
        names = [
            *self._owners(rows),
            Column.of(rows, "identity", "group", "name"),
            Column.of(rows, "concept", kind="name"),
        ]
        if rows["context"].count():
            names.append(Column("location", rows["context"].fill_null("all").to_list(), "name"))
        numbers = _shares(rows)
        if self.published:
            numbers.append(Column("score", self._formatted(rows["score"]), "quantity"))
        else:
            numbers += _differences(rows)
        if rows["p"].count():
            numbers.append(Column.of(rows, "p", kind="probability", rank=1))
        if rows["q"].count():
            numbers.append(Column.of(rows, "q", kind="probability", rank=0))
        note = _PUBLISHED_TOP if self.published else _TOP
        others = SHARE_OF_OTHERS[bool(rows["against"].count())]
        note = note.format(k=TOP_OF_GROUP, others=others)
        return Table(title, [*names, *numbers], lead=len(names), note=note)

    def _owners(self, rows: DataFrame) -> list[Column]:
        """Return the columns of `owner`, even if a single value has an association."""
        return [Column.of(rows, name, kind="name") for name in self.owner]

    def _formatted(self, values: Series) -> list[str]:
        """Format published scores or differences.

        Scores, which are small, have four decimals; differences are in percentage points.
        """
        if self.published:
            return [number(value, 4) for value in values]
        return [quantity(value, unit="difference") for value in values]


def _empty_table(title: str, reason: str) -> Table:
    """Return a table that says why it has no rows."""
    return Table(title, [Column("result", [reason])])


def _scopes(rows: DataFrame) -> list[Column]:
    """Return the column of the scope, unless all rows have the same."""
    if rows["scope"].n_unique() < 2:
        return []
    return [Column("locations", rows["scope"].replace(_SCOPES).to_list(), "name")]


def _shares(rows: DataFrame) -> list[Column]:
    """Return the columns of the shares of a group and of others; none if they are unknown."""
    if not rows["rate"].count():
        return []
    columns = [Column.of(rows, "rate", "share", "percent")]
    if rows["against"].count():
        columns.append(Column("compared with", rows["against"].fill_null("others").to_list(), "name"))
    columns.append(Column.of(rows, "others_rate", "others", "percent"))
    return columns


def _differences(rows: DataFrame) -> list[Column]:
    """Return the columns of the difference and its interval, and of the level if there are several."""
    ends = rows.select("score", "low", "high").rows()
    differences = [quantity(score, low, high, "difference") for score, low, high in ends]
    intervals = [interval(low, high, "difference") for _, low, high in ends]
    levels = rows["level"].unique()
    name = interval_name(levels[0] if levels.len() == 1 else None)
    columns = [Column("difference", differences, "quantity"), Column(name, intervals, "quantity")]
    if levels.len() > 1:
        percents = [None if level is None else confidence(level) for level in rows["level"]]
        columns.append(Column("level", percents, "quantity"))
    return columns
