"""Released BADF results: the paper's tables, exactly; the counts behind them, completed; mistakes in files, named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tiltmeter.associations.released import by_location, read_counts, read_released, summary, top
from tiltmeter.errors import InputError

SETS = ["base__gender", "base__race", "base__religions", "negative__gender", "single__gender"]
HEADER = "Location Category,Demographic Identity,Phrase,Score,P-Value,Prompt Response"


def golden(shared: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((shared / "golden" / "badf" / f"{name}.json").read_text())
    return found


def released(shared: Path, name: str) -> pl.DataFrame:
    return read_released(shared / "data" / "badf" / golden(shared, name)["file"])


@pytest.mark.parametrize("name", SETS)
def test_published_summaries(shared: Path, name: str) -> None:
    expected, table = golden(shared, name), released(shared, name)
    assert table.height == expected["rows"]
    found = {row.pop("identity"): row for row in summary(table).to_dicts()}
    assert set(found) == set(expected["identities"])
    for identity, figures in expected["identities"].items():
        figures = {key: value for key, value in figures.items() if not key.startswith("paper")}
        assert figures.pop("count") == found[identity].pop("count")
        assert found[identity] == pytest.approx(figures, rel=1e-12, abs=0)


@pytest.mark.parametrize("name", SETS)
def test_published_top_tens(shared: Path, name: str) -> None:
    expected, table = golden(shared, name), released(shared, name)
    columns = {"context": "location", "concept": "phrase", "score": "score", "p": "p"}
    overall = top(table).select("context", "identity", "concept", "score", "p")
    assert overall.rename({"context": "location", "concept": "phrase"}).to_dicts() == expected["top10"]
    each = top(table, each_identity=True)
    for identity, rows in expected["top10_by_identity"].items():
        mine = each.filter(pl.col("identity") == identity).select(*columns).rename(columns)
        assert mine.to_dicts() == rows
    assert each.height == 10 * len(expected["top10_by_identity"])


@pytest.mark.parametrize("name", SETS)
def test_published_counts_by_location(shared: Path, name: str) -> None:
    expected = golden(shared, name)["by_identity_location"]
    cells = {(who, where): count for who, counts in expected.items() for where, count in counts.items()}
    found = by_location(released(shared, name)).select("identity", "context", "count").rows()
    assert {(who, where): count for who, where, count in found} == cells


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join((HEADER, *lines)) + "\n")
    return path


def test_exclusive_rows_are_no_associations(tmp_path: Path) -> None:
    file = write(tmp_path / "r.csv", "media,female,calm,0.2,0.01,NO", "media,male,a man,0.9,0.001,YES", "law,male,tall,0.1,0.04,no")
    table = read_released(file)
    assert table["exclusive"].to_list() == [False, True, False]
    assert summary(table).select("identity", "count", "max_score").rows() == [("female", 1, 0.2), ("male", 1, 0.1)]
    assert top(table)["concept"].to_list() == ["calm", "tall"]
    assert by_location(table).rows() == [("female", "media", 1), ("female", "law", 0), ("male", "media", 0), ("male", "law", 1)]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("media,female,calm,much,0.01,NO", "row 3, column 'Score': 'much' is not a number of at least 0"),
        ("media,female,calm,nan,0.01,NO", "row 3, column 'Score'"),
        ("media,female,calm,inf,0.01,NO", "row 3, column 'Score'"),
        ("media,female,calm,-0.1,0.01,NO", "row 3, column 'Score'"),
        ("media,female,calm,0.1,1.01,NO", "row 3, column 'P-Value': '1.01' is not a number from 0 to 1"),
        ("media,female,calm,0.1,,NO", "row 3, column 'P-Value'"),
        ("media,female,calm,0.1,0.01,maybe", "row 3, column 'Prompt Response': 'maybe' is neither YES nor NO"),
        ("media,,calm,0.1,0.01,NO", "row 3, column 'Demographic Identity': '' is empty"),
        ("media,male,tall,0.1,0.01,NO", "row 3 says again what row 2 says"),
        ("media,male,tall,0.1,0.01,NO,more", "cannot be read"),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(InputError, match=r".") as caught:
        read_released(write(tmp_path / "r.csv", "media,male,tall,0.1,0.02,NO", line))
    assert said in str(caught.value)
    assert "r.csv" in str(caught.value)


def test_a_file_that_is_not_one(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "short.csv").write_text(HEADER.replace("Score", "Scores") + "\na,b,c,0.1,0.1,NO\n")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00\x01\x02")
    write(tmp_path / "header.csv")
    for name, said in (
        ("none.csv", "there is no file"),
        ("empty.csv", "cannot be read"),
        ("short.csv", "has no column 'Score': did you mean Scores"),
        ("bytes.csv", r"bytes\.csv"),
        ("header.csv", "holds no rows"),
        ("", "there is no file"),
    ):
        with pytest.raises(InputError, match=said):
            read_released(tmp_path / name)


def test_recovered_counts_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "c.csv"
    race = "setting,cat,loc,id,phrase,a,min,max,total,n,p\nbase,race,media,x,calm,9,0,4,9,10,0.01\n"
    gender = "setting,cat,loc,id,phrase,a,c,n_lists,p\nbase,gender,media,x,calm,9.5,0,10,0.01\n"
    for text, said in ((race, "'count': 9 does not fit together with the least, greatest"), (gender, r"'a': '9\.5' is not a whole number")):
        file.write_text(text)
        with pytest.raises(InputError, match=r"c\.csv, row 2, column " + said):
            read_counts(file)
