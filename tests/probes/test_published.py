"""The published figures of 12 models: tiers, marks and the 240 cells of the paper's Table 2."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support.published import ORDER, scaled, touched
from tiltmeter.errors import InputError
from tiltmeter.probes import SUITE, Metric, average_note, normalised_table, read_published
from tiltmeter.probes._definitions import GENDERBENCH
from tiltmeter.probes._listing import PROBES
from tiltmeter.schema import FINDINGS, GRADES


def probe_of(column: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", column.partition(".")[0]).lower()


def metric_of(column: str) -> Metric:
    metrics: tuple[Metric, ...] = PROBES.load(probe_of(column)).metrics
    return next(metric for metric in metrics if metric.name == column.partition(".")[2])


def test_normalised_values_equal_table_2_of_the_paper(
    published: dict[str, Any], tables: dict[str, pl.DataFrame]
) -> None:
    table = normalised_table(tables["findings"].sample(fraction=1, shuffle=True, seed=1), tables["grades"])
    models = list(published[ORDER[0]]["ci95"])
    assert (len(models), table.height) == (12, 20)
    names = [f"{row['part']}.{row['metric']}" for row in table.head(19).iter_rows(named=True)]
    assert names == [f"{probe_of(column)}.{column.partition('.')[2]}" for column in ORDER]
    for model in models:
        cells = [scaled(column, *published[column]["ci95"][model]) for column in ORDER]
        assert table[f"{model} (published)"].to_list() == pytest.approx([*cells, sum(cells) / 19], abs=1e-12)


def test_columns_of_published_results(published: dict[str, Any], tables: dict[str, pl.DataFrame]) -> None:
    findings, grades = tables["findings"], tables["grades"]
    assert (findings.schema, grades.schema, set(findings["definition"])) == (
        dict(FINDINGS),
        dict(GRADES),
        {"published"},
    )
    for column, figures in published.items():
        own_rows = findings.filter(part=probe_of(column), metric=column.partition(".")[2])
        for row in own_rows.iter_rows(named=True):
            low, high = figures["ci95"][row["model"].removesuffix(" (published)")]
            assert (row["low"], row["high"], row["mark"]) == (low, high, touched(figures["marks"], low, high))


def test_key_metrics_are_the_papers_19() -> None:
    key_metrics = {
        (name, metric.name) for name in SUITE for metric in PROBES.load(name).metrics if metric.key
    }
    assert key_metrics == {(probe_of(column), column.partition(".")[2]) for column in ORDER}


def test_tiers_are_the_published_ones(published: dict[str, Any]) -> None:
    for column, figures in published.items():
        tiers: dict[str, list[list[float]]] = {}
        for band in GENDERBENCH.bands(metric_of(column)):
            tiers.setdefault(band.mark, []).append([band.low, band.high])
        assert tiers.keys() == figures["marks"].keys()
        for mark, ranges in figures["marks"].items():
            assert sorted(tiers[mark]) == [pytest.approx(ends) for ends in sorted(ranges)], (column, mark)


def test_a_metric_that_one_model_lacks_is_in_no_average(
    published: dict[str, Any], tables: dict[str, pl.DataFrame]
) -> None:
    findings = tables["findings"].filter(
        (pl.col("model") != "gpt-4o (published)") | (pl.col("metric") != "fail_rate")
    )
    table = normalised_table(findings, tables["grades"])
    for model in ("gpt-4o", "phi-4"):
        cells = [
            scaled(column, *published[column]["ci95"][model])
            for column in ORDER
            if not column.endswith(".fail_rate")
        ]
        assert table[f"{model} (published)"][-1] == pytest.approx(sum(cells) / 18, abs=1e-12)
    note = average_note(findings, tables["grades"])
    assert "18 of 19 key metrics" in note
    assert "(excluded: direct/fail_rate)" in note


def test_an_average_needs_a_metric_that_is_graded_for_every_model(tables: dict[str, pl.DataFrame]) -> None:
    ungraded = tables["findings"].with_columns(mark=pl.lit("ungraded"))
    assert (
        average_note(ungraded, tables["grades"]) == "No average: no metric is graded for every model shown."
    )
    assert normalised_table(ungraded, tables["grades"]).row(-1)[3:] == (None,) * 12


GOOD: dict[str, Any] = {"ci95": {"m": [0.1, 0.2]}, "marks": {"healthy": [[0, 1]]}}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "does not contain published results: the file: Invalid JSON"),
        ("[]", "does not contain published results: the file"),
        ("{}", "does not contain published results: the file"),
        (json.dumps({"Direkt.fail_rate": GOOD}), "did you mean direct"),
        (json.dumps({"Direct.fail_rat": GOOD}), "did you mean fail_rate"),
        (json.dumps({"Direct.fail_rate": {"ci95": {}}}), "Direct.fail_rate.marks: Field required"),
        (
            json.dumps({"Direct.fail_rate": GOOD | {"ci95": {"m": [0.2, 0.1]}}}),
            "ci95.m: Value error, the smaller",
        ),
        (
            json.dumps({"Direct.fail_rate": GOOD | {"ci95": {"m": "0.2"}}}),
            "ci95.m: Input should be a valid array",
        ),
        (json.dumps({"Direct.fail_rate": GOOD | {"marks": {"fine": [[0, 1]]}}}), "Input should be 'healthy'"),
        (
            '{"Direct.fail_rate": {"ci95": {"m": [NaN, 1]}, "marks": {"healthy": [[0, 1]]}}}',
            "Input should be a finite number",
        ),
    ],
)
def test_files_without_published_results_are_refused(content: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "published.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(words)) as raised:
        read_published(path)
    assert str(path) in str(raised.value)


def test_a_folder_and_a_missing_file_are_refused_and_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    for path, words in ((tmp_path, "it is a folder"), (tmp_path / "none.json", "No such file")):
        with pytest.raises(InputError, match=words):
            read_published(path)
    marked = tmp_path / "marked.json"
    marked.write_text("\ufeff" + json.dumps({"Direct.fail_rate": GOOD}), encoding="utf-8")
    assert read_published(marked)["findings"]["model"].to_list() == ["m (published)"]
