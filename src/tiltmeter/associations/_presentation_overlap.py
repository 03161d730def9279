"""Report blocks of the associations that models and settings share."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl
from polars import DataFrame, String, col, lit

from tiltmeter.associations._presentation_rows import (
    NAME_COLUMNS,
    OWNER_COLUMNS,
    TOP_OF_PLACE,
    names_of,
    numbers_of,
)
from tiltmeter.blocks import Block, Column, Details, Heading, Heatmap, Kind, Table, Text, columns_of

_SHARED: Final = (
    "Associations of two models or settings: shared, and specific to one. A missing association may also have"
    " been too weak to be detected with this number of stories. Overlap is the number of shared associations"
    " divided by the number found in either."
)


def present_overlap(findings: DataFrame, associations: DataFrame) -> list[Block]:
    """Compare models and settings with the same groups.

    Their blocks show the number of shared associations, and the strongest that only one of them has.
    """
    groups_of_owner = (
        findings.filter(col.concept.is_null())
        .group_by(list(OWNER_COLUMNS), maintain_order=True)
        .agg(col.group.unique().sort())
    )
    blocks: list[Block] = []
    for _, rows in groups_of_owner.group_by("group", maintain_order=True):
        owners = []
        for model, part in rows.select(list(OWNER_COLUMNS)).iter_rows():
            of_owner = associations.filter(model=model, part=part)
            names = frozenset(of_owner.select(NAME_COLUMNS).iter_rows())
            owners.append(_Owner(model, part, of_owner, names))
        blocks += _compare(owners)
    if not blocks:
        return []
    return [Heading("Shared associations"), Text(_SHARED), *blocks]


@dataclass(frozen=True, slots=True, eq=False)
class _Owner:
    """A model and part with its associations."""

    model: str
    part: str
    associations: DataFrame
    names: frozenset[tuple[str, ...]]
    """The group, concept and context of each association."""

    def label(self, owners: Sequence[_Owner]) -> str:
        """Return the model and the part, each only if they differ between the owners."""
        names = []
        if len({owner.model for owner in owners}) > 1:
            names.append(self.model)
        if len({owner.part for owner in owners}) > 1:
            names.append(self.part)
        return " · ".join(names)


def _compare(owners: Sequence[_Owner]) -> list[Block]:
    """Compare each two owners that share a model or a part; no blocks if no two do."""
    pairs, specific = [], []
    for first, second in itertools.combinations(owners, 2):
        if first.model != second.model and first.part != second.part:
            continue
        only_first = _only(first, second, owners)
        only_second = _only(second, first, owners)
        specific += [only_first.head(TOP_OF_PLACE), only_second.head(TOP_OF_PLACE)]
        pairs.append(
            {
                "first": first.label(owners),
                "second": second.label(owners),
                "shared": len(first.names & second.names),
                "only first": only_first.height,
                "only second": only_second.height,
                "overlap": _overlap(first, second),
            }
        )
    if not pairs:
        return []
    columns = columns_of(DataFrame(pairs, schema=_PAIR_COLUMNS), _PAIR_KINDS)
    blocks: list[Block] = [Table("Associations shared by two models or settings", columns, lead=2)]
    if len(owners) > 2:
        labels = [owner.label(owners) for owner in owners]
        overlap = [[_overlap(first, second) for second in owners] for first in owners]
        about = (
            "Share of the associations of either that both have; –: neither has any, or both are the same."
        )
        blocks.append(Heatmap("Overlap of associations", labels, labels, overlap, about=about))
    rows = pl.concat(specific)
    if rows.height:
        blocks.append(_of_one_only(rows))
    return blocks


_PAIR_COLUMNS: Final = {
    "first": String,
    "second": String,
    "shared": pl.Int64,
    "only first": pl.Int64,
    "only second": pl.Int64,
    "overlap": pl.Float64,
}
"""Columns of the table of two models or settings."""
_PAIR_KINDS: Final[dict[str, Kind]] = {
    "shared": "count",
    "only first": "count",
    "only second": "count",
    "overlap": "number",
}


def _overlap(first: _Owner, second: _Owner) -> float | None:
    """Return the share of the associations of either that both have.

    None for an owner itself, and if neither has any.
    """
    either = first.names | second.names
    if first is second or not either:
        return None
    return len(first.names & second.names) / len(either)


def _only(first: _Owner, second: _Owner, owners: Sequence[_Owner]) -> DataFrame:
    """Return the associations that the first has and the second lacks."""
    only = first.associations.join(
        second.associations, on=NAME_COLUMNS, how="anti", nulls_equal=True, maintain_order="left"
    )
    labels = {"only in": lit(first.label(owners)), "not in": lit(second.label(owners))}
    return only.with_columns(**labels)


def _of_one_only(rows: DataFrame) -> Details:
    """Return the strongest associations that only one of two models or settings has."""
    columns = [Column.of(rows, "only in"), Column.of(rows, "not in")]
    columns += names_of(rows, without=("model",))
    columns.append(numbers_of(rows)[0])
    table = Table("The strongest associations of one only", columns, lead=5)
    return Details("Associations of one model or setting only", [table])
