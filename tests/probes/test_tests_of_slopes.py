"""Differences of slopes are tested without the bounds of the slopes, only where there is a value."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType, SimpleNamespace
from typing import Any

import polars as pl
import pytest

from tiltmeter.datasets import Library
from tiltmeter.designs.limits import ItemLimit
from tiltmeter.probes._listing import PROBES
from tiltmeter.probes._metrics import Metric
from tiltmeter.study import Settings

pytestmark = pytest.mark.usefixtures("workplace")  # the data of the probes

STUDIES = 6
IS_DIFFERENCE = pl.col("published").str.ends_with("diff_regression")


@cache
def measures_of_study(seed: int, limit: int, bias: float, wording: str | None = "plain") -> pl.DataFrame:
    """Return the responses of the simulated model to the applications of one study."""
    probe = PROBES.load("hiring_an")
    settings = Settings(
        limit=ItemLimit(limit), seed=seed, params=MappingProxyType({"wording": wording} if wording else {})
    )
    measures: pl.DataFrame = probe.simulate_measures(
        probe.design(Library.default(), settings), {"outcome_disparity": bias}, seed
    )
    return measures


def findings_of_study(seed: int, limit: int, bias: float, wording: str | None = "plain") -> pl.DataFrame:
    settings = Settings(seed=seed, resamples=100)
    measures = measures_of_study(seed, limit, bias, wording)
    findings: pl.DataFrame = PROBES.load("hiring_an").analyse(measures, settings)["findings"]
    return findings


def test_the_slopes_of_a_fair_model_rarely_differ_in_any_cell() -> None:
    """With the standard errors of bounded slopes, 12% of these p-values are below 5%."""
    p = pl.concat(
        findings_of_study(seed, 60, 0.0).filter(IS_DIFFERENCE)["p"] for seed in range(STUDIES)
    ).drop_nulls()
    assert p.len() > 5 * STUDIES
    assert (p < 0.05).sum() <= 2


def test_each_wording_has_the_same_test() -> None:
    rows = findings_of_study(1, 300, 0.3, wording=None).filter(published="diff_regression")
    assert rows["wording"].n_unique() > 5
    tested = rows.drop_nulls("p")["method"].to_list()
    assert tested
    assert all("p: that of the slopes without bounds" in method for method in tested)


def test_the_slopes_without_bounds_are_no_findings() -> None:
    """Else their p-values would count twice: as those of the slopes, and among the tests of the model."""
    assert not [name for name in findings_of_study(1, 60, 0.3)["metric"] if "unbounded" in name]
    probe, measures = PROBES.load("hiring_an"), measures_of_study(1, 60, 0.3)
    view: Any = SimpleNamespace(measures=measures)
    contrasts = probe.contrast(view, view, Settings(resamples=50))
    assert contrasts is not None
    assert not [name for name in contrasts["metric"] if "unbounded" in name]


def test_a_difference_without_a_value_has_no_p() -> None:
    findings = [
        findings_of_study(seed, limit, 0.3).filter(IS_DIFFERENCE) for limit in (3, 5, 6) for seed in range(3)
    ]
    without = pl.concat(findings).filter(pl.col("estimate").is_null())
    assert without.height
    assert without["p"].is_null().all()


def test_a_difference_has_no_p_where_the_test_points_to_the_other_side() -> None:
    probe = PROBES.load("hiring_an")
    measures = measures_of_study(0, 8, 0.3)
    (slope,) = (
        probe.analyse(measures, Settings(resamples=50))["findings"]
        .filter(published="diff_regression")
        .to_dicts()
    )
    of_gender = measures.with_columns(accepted=(pl.col("label") == "yes").cast(pl.Float64)).group_by("gender")
    lines = dict(of_gender.agg(pl.cov("accepted", "score") / pl.var("score")).rows())
    assert slope["estimate"] * (lines["male"] - lines["female"]) < 0
    assert slope["p"] is None


def test_a_metric_is_tested_by_one_of_its_probe() -> None:
    with pytest.raises(TypeError, match="share is tested by 'ratio', which is not among the `metrics`"):

        class Untested(type(PROBES.load("hiring_an"))):  # type: ignore[misc]
            metrics = (Metric("share", "A share.", tested_by="ratio"),)
