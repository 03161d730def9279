"""The tables of the BADF paper: figures of each group, counts by location, and the strongest associations.

They are made from the table `associations` of a run or from released associations (`released.read_released`).
Only associations that are listed count: rows that are `reported`, or released rows that are not `exclusive`.
Associations at a location and those over all locations together are never mixed: the column `scope` is
"location" or "all". The paper has the first kind only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import polars as pl
from polars import DataFrame, Expr, Float64, Int64, Series, String, col, lit, when

from tiltmeter.associations.tables import ASSOCIATIONS
from tiltmeter.blocks import Column, Table
from tiltmeter.quantities import confidence, interval, number, quantity
from tiltmeter.schema import Schema, beside, conform
from tiltmeter.study import MethodTable, ReportView

TOP = 10
"""Number of associations of each group in the table of the strongest."""
OWNER = ("model", "part")
LOCATION, ALL = "location", "all"
"""Scopes: associations at one location, and associations over all locations together."""

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
    associations: DataFrame, k: int = TOP, *, each_identity: bool = False, by: str = "score"
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
    among = [*_owner(rows), "scope", *(["identity"] if each_identity else [])]
    by_strength = rows.sort(by, descending=True, nulls_last=True, maintain_order=True)
    rank = pl.int_range(1, pl.len() + 1, dtype=Int64).over(among)
    ranked = by_strength.sort(among, maintain_order=True).with_columns(rank=rank).filter(col.rank <= k)
    return conform(ranked, {**dict.fromkeys(_owner(rows), String), **LISTED})


def _owner(rows: DataFrame) -> list[str]:
    """Return the columns of OWNER that the rows have: released associations have none."""
    return [name for name in OWNER if name in rows.columns]


def _with_scope(associations: DataFrame) -> DataFrame:
    """Add `scope` and `listed` to associations; `concept` becomes the name that reports use."""
    listed: Expr = ~col.exclusive if "exclusive" in associations.columns else col.reported
    name = "label" if "label" in associations.columns else "concept"
    scope = when(col.context.is_null()).then(lit(ALL)).otherwise(lit(LOCATION))
    return associations.with_columns(scope=scope, listed=listed, concept=name)


# -- as tables of a report ----------------------------------------------------------------------------------------------

_SUMMARY = (
    "Count: associations listed. Mean, smallest and largest {score}; mean and median p. These are figures of"
    " selected associations, and so descriptive only."
)
SHARE_OF_OTHERS = {
    True: "the same share for the group or groups that it is compared with",
    False: "the same share for the other groups",
}
"""What the column "others" contains, by whether groups are compared with single others."""
_LOCATIONS = "Number of associations listed for each group at each location; those over all locations together are not included."
_TOP = {
    False: "Up to {k} of each group at single locations and over all locations together, by the lower end of the interval. Share: of the"
    " group's descriptions, those that contain the concept; others: {others}. Only"
    " the strongest of many are listed: intervals are widened for this, and the differences are too large on"
    " average.",
    True: "Up to {k} of each group, by the published score. p is not adjusted for the number of tests.",
}
"""Note by whether the definition is a published one."""
_NOT_COUNTED = "associations could not be counted"
_NO_ASSOCIATIONS = "no associations were found"
_NO_LOCATIONS = "there are no locations"
_SCOPES = {LOCATION: "single", ALL: "all"}


def tables_of(view: ReportView) -> Mapping[str, MethodTable]:
    """Return the tables `summary`, `locations` and `top` of the associations in a run.

    Associations are ranked as in reports: by the lower end of the interval in the default definition, and by
    the score in the published ones, whose scores have no interval.
    """
    published = "score" in view.findings["unit"]
    several = [name for name in OWNER if view.findings[name].n_unique() > 1]

    def associations() -> DataFrame:
        columns: Schema = {**dict.fromkeys(OWNER, String), **ASSOCIATIONS, "label": String}
        found = view.table("associations")
        # Without a response that can be used, a run has no such table.
        rows = conform(found, columns) if found.width else DataFrame(schema=columns)
        if published:
            rows = rows.with_columns(lit(None, Float64).alias(name) for name in ("low", "high", "level"))
        return rows

    def reason() -> str:
        return _NO_ASSOCIATIONS if view.table("associations").width else _NOT_COUNTED

    return _tables(associations, several, reason, published=published)


def released_tables(released: DataFrame) -> Mapping[str, MethodTable]:
    """Return the tables `summary`, `locations` and `top` of released associations (RELEASED)."""
    return _tables(lambda: released, (), lambda: _NO_ASSOCIATIONS, published=True)


def _tables(
    associations: Callable[[], DataFrame],
    several: Sequence[str],
    reason: Callable[[], str],
    *,
    published: bool,
) -> Mapping[str, MethodTable]:
    """Return the tables by name.

    `several` has the columns of OWNER of which the run has more than one value, and `reason` returns why
    there are no associations.
    """

    def strongest() -> DataFrame:
        return top(associations(), each_identity=True, by="score" if published else "low")

    def presented(
        title: str, rows: DataFrame, present: Callable[[str, DataFrame], Table], why: str | None = None
    ) -> Table:
        """Return the rows as a table, or one that says why there are none."""
        return (
            Table(title, [Column("result", [why or reason()])]) if rows.is_empty() else present(title, rows)
        )

    def summary_table(rows: DataFrame) -> Table:
        return presented(
            "Associations of each group",
            rows,
            lambda title, rows: _summary_table(title, rows, several, published),
        )

    def location_table(rows: DataFrame) -> Table:
        why = None if associations().is_empty() else _NO_LOCATIONS
        return presented(
            "Associations at each location",
            rows,
            lambda title, rows: _location_table(title, rows, several),
            why,
        )

    def top_table(rows: DataFrame) -> Table:
        return presented(
            "Strongest associations of each group",
            rows,
            lambda title, rows: _top_table(title, rows, several, published),
        )

    return {
        "summary": MethodTable(lambda: summary(associations()), summary_table),
        "locations": MethodTable(lambda: by_location(associations()), location_table),
        "top": MethodTable(strongest, top_table),
    }


def _owners(rows: DataFrame, several: Sequence[str]) -> list[Column]:
    """Return the columns of OWNER of which the run has several values, even if a single one has an association."""
    return [Column.of(rows, name, kind="name") for name in several]


def _scopes(rows: DataFrame) -> list[Column]:
    """Return the column of the scope, unless all rows have the same."""
    if rows["scope"].n_unique() < 2:
        return []
    return [Column("locations", rows["scope"].replace(_SCOPES).to_list(), "name")]


def _written(values: Series, published: bool) -> list[str]:
    """Format published scores, which are small, with four decimals, and differences in percentage points."""
    return [number(value, 4) if published else quantity(value, unit="difference") for value in values]


def _summary_table(title: str, rows: DataFrame, several: Sequence[str], published: bool) -> Table:
    value = "score" if published else "difference"
    names = [*_owners(rows, several), *_scopes(rows), Column.of(rows, "identity", "group", "name")]
    numbers = [
        Column.of(rows, "count", kind="count"),
        Column(f"mean {value}", _written(rows["mean_score"], published), "quantity"),
        Column("smallest", _written(rows["min_score"], published), "quantity"),
        Column("largest", _written(rows["max_score"], published), "quantity"),
        Column.of(rows, "mean_p", "mean p", "probability"),
        Column.of(rows, "median_p", "median p", "probability"),
    ]
    return Table(title, [*names, *numbers], lead=len(names), note=_SUMMARY.format(score=value))


def _location_table(title: str, rows: DataFrame, several: Sequence[str]) -> Table:
    cells = rows.pivot("identity", index=[*_owner(rows), "context"], values="count", maintain_order=True)
    groups = [name for name in cells.columns if name in set(rows["identity"])]
    names = [*_owners(cells, several), Column.of(cells, "context", "location", "name")]
    totals = cells.select(total=pl.sum_horizontal(groups)) if groups else DataFrame({"total": []})
    total = Column.of(totals, "total", kind="count")
    columns = [*names, *(Column.of(cells, group, kind="count") for group in groups), total]
    return Table(title, columns, lead=len(names), note=_LOCATIONS)


def _top_table(title: str, rows: DataFrame, several: Sequence[str], published: bool) -> Table:
    levels = rows["level"].unique()
    numbers = []
    if rows["rate"].count():
        numbers.append(Column.of(rows, "rate", "share", "percent"))
        if rows["against"].count():
            numbers.append(Column("compared with", rows["against"].fill_null("others").to_list(), "name"))
        numbers.append(Column.of(rows, "others_rate", "others", "percent"))
    if published:
        numbers.append(Column("score", _written(rows["score"], published), "quantity"))
    else:
        ends = rows.select("score", "low", "high").rows()
        differences = [quantity(score, low, high, "difference") for score, low, high in ends]
        numbers.append(Column("difference", differences, "quantity"))
        name = (
            f"{confidence(levels[0])} interval" if levels.len() == 1 and levels[0] is not None else "interval"
        )
        numbers.append(Column(name, [interval(low, high, "difference") for _, low, high in ends], "quantity"))
        if levels.len() > 1:
            written = [None if level is None else confidence(level) for level in rows["level"]]
            numbers.append(Column("level", written, "quantity"))
    ranks = {"p": 1, "q": 0}
    numbers += [
        Column.of(rows, name, kind="probability", rank=rank)
        for name, rank in ranks.items()
        if rows[name].count()
    ]
    names = [
        *_owners(rows, several),
        Column.of(rows, "identity", "group", "name"),
        Column.of(rows, "concept", kind="name"),
    ]
    if rows["context"].count():
        names.append(Column("location", rows["context"].fill_null("all").to_list(), "name"))
    return Table(
        title,
        [*names, *numbers],
        lead=len(names),
        note=_TOP[published].format(k=TOP, others=SHARE_OF_OTHERS[bool(rows["against"].count())]),
    )
