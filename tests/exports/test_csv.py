"""CSV: no text is a formula, every text comes back."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from exports.conftest import exported
from tiltmeter.exports.plain_tables import csv_table

csv.field_size_limit(sys.maxsize)
# All texts a Polars table can hold, and more often than by chance those that matter here.
marks = st.sampled_from([*"=+-@'\",;\t\r\n \u202e＝1x"])
texts = st.one_of(st.text(st.characters(exclude_categories=["Cs"])), st.builds("".join, st.lists(marks)))


def undone(text: str) -> str:
    """The rule of the documentation: take one leading apostrophe away wherever there is one."""
    return text.removeprefix("'")


def written(table: pl.DataFrame) -> str:
    return csv_table(table.lazy()).collect().write_csv(quote_style="non_numeric")


def cells_of(text: str, column: int = 0) -> list[str]:
    return [row[column] for row in csv.reader(io.StringIO(text, newline=""))][1:]


@settings(deadline=None)
@given(st.lists(texts, min_size=1, max_size=5))
def test_texts_come_back_and_none_is_a_formula(cells: list[str]) -> None:
    text = written(pl.DataFrame({"cell": cells}, schema={"cell": pl.String}))
    rows = cells_of(text)
    assert [undone(row) for row in rows] == cells
    for row in rows:
        seen = "".join(one for one in row if one.isprintable() and not one.isspace())
        assert seen[:1] not in tuple("=+-@＝＋－＠"), row
        assert row[:1] not in tuple("\t\r\n")
    again = pl.read_csv(text.encode(), infer_schema=False)
    assert [undone(row) for row in again["cell"]] == cells


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.lists(texts, max_size=3)), min_size=1, max_size=4))
def test_lists_are_json(cells: list[list[str] | None]) -> None:
    text = written(pl.DataFrame({"n": range(len(cells)), "cell": cells}, schema={"n": pl.Int64, "cell": pl.List(pl.String)}))
    assert [json.loads(row) if row else None for row in cells_of(text, 1)] == cells


def test_numbers_and_nothing_stay_what_they_are() -> None:
    table = pl.DataFrame({"a": [-1.5, None], "b": [-3, 4], "=c": ["", None], "d": [True, None]})
    assert written(table) == '"a","b","\'=c","d"\n-1.5,-3,"","true"\n,4,,\n'


@pytest.mark.parametrize("table", ["findings", "responses", "measures", "design", "examples"])
def test_of_a_run(run: Path, table: str) -> None:
    place, same = (exported(run, kind, run.parent / f"out.{kind}", table=table) for kind in ("csv", "parquet"))
    truth = pl.read_parquet(same)
    flat = [name for name, kind in truth.schema.items() if not kind.is_nested()]
    read = pl.read_csv(place, schema_overrides={name: truth.schema[name] for name in flat})
    assert read.columns == truth.columns
    # An apostrophe is there only where the rule set one.
    texts_back = read.select(flat).with_columns(pl.col(pl.String).str.replace("^'", ""))
    assert texts_back.equals(truth.select(flat))


def test_untrusted_texts(evil: Path) -> None:
    truth = pl.read_parquet(evil / "responses.parquet")["answer"].to_list()
    with exported(evil, "csv", table="responses").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [undone(row["answer"]) for row in rows] == truth
    assert {undone(row["model"]) for row in rows} == {"<script>alert(1)</script>", "=cmd|' /C calc'!A0"}
    assert not [row for row in rows if row["answer"].startswith("=") or row["model"].startswith("=")]
