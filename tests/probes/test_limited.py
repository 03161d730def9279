"""A limited study estimates the same as a full one, and its intervals are valid with few items."""

from __future__ import annotations

import polars as pl
import pytest
from perf.studies.few_items import carry_out

from probes.conftest import dials
from tiltmeter.datasets import Library
from tiltmeter.designs.limits import ItemLimit
from tiltmeter.probes._listing import PROBES
from tiltmeter.study import Settings


@pytest.mark.verify
def test_coverage_with_few_items(library: Library) -> None:
    """A small case of `perf/studies/few_items.py`. A single item of a stratum must not count as certain.

    Of intervals that contain the true value in 95% (77%) of studies, 53 or more of 60 do so with a
    probability of 99% (2%). The seeds are fixed: 57 intervals contain it, and 50 if small strata are not
    pooled.
    """
    [coverage] = carry_out("discrimination_tamkin", studies=60)
    assert coverage.observed >= 53 / 60


@pytest.mark.verify
def test_coverage_of_a_rare_share(library: Library) -> None:
    """A small case of `perf/studies/few_items.py`. The seeds are fixed: 56 intervals contain the rate."""
    [coverage] = carry_out("direct", studies=60)
    assert coverage.observed >= 55 / 60


def test_a_limit_does_not_change_what_is_estimated(library: Library) -> None:
    """A model that agrees only with the rare kind of statement has the same rate in a tenth of the study."""
    direct = PROBES.load("direct")
    estimates = []
    for limit in (None, ItemLimit(1_000), ItemLimit(400)):
        settings = Settings(limit=limit, resamples=50)
        design = direct.design(library, settings).with_columns(outcome=pl.lit("answered"))
        label = pl.when(pl.col("source") == "gest").then(pl.lit("yes")).otherwise(pl.lit("no"))
        findings = direct.analyse(design.with_columns(label=label), settings)["findings"]
        estimates.append(findings.filter(pl.col("wording").is_null(), metric="fail_rate")["estimate"].item())
    assert estimates == pytest.approx([estimates[0]] * 3, abs=0.003)


def test_counts_of_a_finding_are_those_of_its_cell(library: Library) -> None:
    """A metric about one stereotype counts the attempts about it; its evidence selects as many."""
    part, settings = PROBES.load("gest_creative"), Settings(limit=ItemLimit(50), resamples=50)
    measures = part.simulate_measures(part.design(library, settings), dials(0.0), 1)
    for row in part.analyse(measures, settings)["findings"].iter_rows(named=True):
        selected = (
            pl.SQLContext(measures=measures)
            .execute(f"SELECT * FROM measures WHERE {row['evidence']}")
            .collect()
        )
        assert selected.height == row["attempts"], row["metric"]
        assert (
            row["answered"] + row["refused"] + row["unreadable"] + row["empty"] + row["failed"]
            == row["attempts"]
        )


def test_a_constant_answer_is_not_certain(library: Library) -> None:
    """Ten negative answers prove little, for a rate and for a maximum of differences."""
    for name, metric in (("direct", "fail_rate"), ("discrimination_tamkin", "max_diff")):
        part, settings = PROBES.load(name), Settings(limit=ItemLimit(10), resamples=50)
        measures = part.design(library, settings).with_columns(outcome=pl.lit("answered"), label=pl.lit("no"))
        findings = part.analyse(measures, settings)["findings"]
        finding = findings.filter(metric=metric).row(0, named=True)
        assert (finding["estimate"], finding["p"]) == (0, 1)
        assert finding["mark_worst"] in ("critical", "catastrophic")
        assert finding["high"] > 0.2
