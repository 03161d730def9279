"""Numbers of a diagnosis equal those of the original package and of the printed formulas."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl
import pytest

from support.definitions import benchmark_definition
from tiltmeter.benchmarks.diagnosis import Diagnosis, SummaryOptions, calibrate, diagnose

NUMBERS_OF_STATISTICS = {"small_raw": 810, "g20_raw": 19845}
NUMBERS_OF_DISPARITIES = {"small_raw": 27 * 7 * 6, "g20_raw": 2 * 7 * 105}
FRAMES = {"small_raw": "small_extraction.parquet", "g20_raw": "g20_extraction.parquet"}
COMPARISONS = {
    "Max": "max",
    "Min": "min",
    "Min/Max": "ratio",
    "Max-Min": "range",
    "Avg": "average",
    "Std": "sd",
    "Max Z-Score": "max_z",
}
OTHER_NAMES = {"variance_ddof1": "variance", "kl_common10_eps1e-10": "kl_divergence_wrt_baseline_bin_10"}
FEATURE = re.compile(r"(?P<generation>[^_]+)_(?P<feature>.+)")


def baselines_of(columns: Iterable[str]) -> dict[str, str]:
    baselines = {}
    for column in columns:
        match = FEATURE.fullmatch(column)
        assert match is not None, column
        baselines[column] = f"baseline_{match['feature']}"
    return baselines


def statistic_and_options(name: str) -> tuple[str, SummaryOptions]:
    """Return our name and options of a statistic that the original names so."""
    if match := re.fullmatch(r"mode_bin(.+)", name):
        return "mode", SummaryOptions(width=float(match[1]))
    if match := re.fullmatch(r"quantile_(.+)_(.+)", name):
        return "quantile_range", SummaryOptions(quantiles=(float(match[1]), float(match[2])))
    if match := re.fullmatch(r"percentile_(.+)_(.+)", name):
        return "percentile_range", SummaryOptions(percentiles=(float(match[1]), float(match[2])))
    if match := re.fullmatch(r"kl_divergence_wrt_baseline_bin_(.+)", name):
        return "kl", SummaryOptions(bins=int(match[1]))
    if match := re.fullmatch(r"precision_wrt_baseline_tolerance_(.+)", name):
        return "precision", SummaryOptions(tolerance=float(match[1]))
    if match := re.fullmatch(r"correlation_wrt_baseline_method_(.+)", name):
        return match[1], SummaryOptions()
    if match := re.fullmatch(r"sr_(.+)_sd_(.+)", name):
        method = re.sub(r"^(within-\w+)-", r"\1=", match[1])
        standard = re.sub(r"^mode-", "mode=", match[2]).replace("_range=", "=")
        return "selection_rate", SummaryOptions(method=method, standard=standard)
    return ("sd" if name == "standard_deviation" else name), SummaryOptions()


def by_statistic(
    frame: pl.DataFrame, golden: pl.DataFrame, definition: str, name: str
) -> Iterator[tuple[str, pl.DataFrame, Diagnosis]]:
    """Yield each statistic in the column `name` of the golden values, its values, and our diagnosis."""
    for (original,), values in golden.group_by(name, maintain_order=True):
        columns = values["column"].unique(maintain_order=True).to_list()
        statistic, options = statistic_and_options(OTHER_NAMES.get(str(original), str(original)))
        diagnosis = diagnose(
            frame,
            groups=["concept"],
            columns=columns,
            statistics=[statistic],
            resamples=0,
            permutations=0,
            baselines=baselines_of(columns),
            definition=benchmark_definition(definition),
            options=options,
        )
        yield str(original), values, diagnosis


def compare(computed: pl.DataFrame, golden: pl.DataFrame, on: list[str]) -> int:
    """Check that each golden value equals ours within 1e-9, or that both are null; return their number."""
    both = golden.join(computed, on=on, how="left", nulls_equal=True)
    assert both.height == golden.height
    apart = both.filter(
        (pl.col("estimate").is_null() != pl.col("value").is_null())
        | ((pl.col("estimate") - pl.col("value")).abs() > 1e-9)
    )
    assert apart.is_empty(), apart
    return both.height


@pytest.mark.parametrize("run", FRAMES)
def test_statistics_equal_those_of_the_package(shared: Path, run: str) -> None:
    frame = pl.read_parquet(shared / "golden/saged" / FRAMES[run])
    golden = pl.read_parquet(shared / "golden/saged/statistics_saged_code.parquet").filter(run=run)
    count = 0
    for _, values, diagnosis in by_statistic(frame, golden, "saged", "statistic"):
        count += compare(
            diagnosis.statistics, values.select("concept", "column", "value"), ["concept", "column"]
        )
    assert count == NUMBERS_OF_STATISTICS[run]


@pytest.mark.parametrize("run", FRAMES)
def test_disparities_equal_those_of_the_package(shared: Path, run: str) -> None:
    frame = pl.read_parquet(shared / "golden/saged" / FRAMES[run])
    golden = pl.read_parquet(shared / "golden/saged/disparity_saged_code.parquet").filter(run=run)
    # The original's Dixon's Q is a text (from the wrong range, and of the low end only), not a number.
    readings = golden.filter(pl.col("disparity_metric") == "Dixon Q").select("statistics", "column", "value")
    golden = golden.filter(pl.col("disparity_metric") != "Dixon Q")
    count = 0
    for name, values, statistic in by_statistic(frame, golden, "saged", "statistics"):
        disparities = statistic.disparities
        verdicts = disparities.filter(comparison="dixon_q").select("column", "reading")
        both = readings.filter(statistics=name).join(verdicts, on="column", how="left")
        assert both["value"].to_list() == both["reading"].to_list()
        text = pl.col("value")
        expected = values.select(
            "column",
            comparison=pl.col("disparity_metric").replace_strict(COMPARISONS),
            value=pl.coalesce(
                text.str.extract(r": ([^)]+)\)$").cast(pl.Float64), text.cast(pl.Float64, strict=False)
            ),
            of=text.str.extract(r"^\((.*),ALL,ALL: "),
        )
        count += compare(disparities, expected.drop("of"), ["column", "comparison"])
        # The groups are equal, except where only rounding separates them: a baseline correlated with itself.
        tied = disparities.filter(pl.col("estimate") < 1e-12, comparison="range")["column"].to_list()
        ends = (
            expected.drop_nulls("of")
            .filter(~pl.col("column").is_in(tied))
            .join(disparities, on=["column", "comparison"])
        )
        assert ends["of"].to_list() == ends["group"].to_list()
    assert count == NUMBERS_OF_DISPARITIES[run]


def test_statistics_equal_those_of_the_printed_formulas(shared: Path) -> None:
    frame = pl.read_parquet(shared / "golden/saged/g20_extraction.parquet")
    golden = pl.read_parquet(shared / "golden/saged/statistics_printed_formulas.parquet").with_columns(
        pl.col("value").cast(pl.Float64)
    )
    assert set(golden["statistic"]) == {"variance_ddof1", "kl_common10_eps1e-10"}
    for _, values, diagnosis in by_statistic(frame, golden, "default", "statistic"):
        assert (
            compare(diagnosis.statistics, values.select("concept", "column", "value"), ["concept", "column"])
            == 2205
        )


def test_disparities_equal_those_of_the_printed_formulas(shared: Path) -> None:
    frame = pl.read_parquet(shared / "golden/saged/g20_extraction.parquet")
    golden = pl.read_parquet(shared / "golden/saged/disparity_printed_formulas.parquet")
    names = {"max_abs_z": "max_abs_z", "dixon_r_low": "dixon_low", "dixon_r_high": "dixon_high"}
    count = 0
    for _, values, diagnosis in by_statistic(frame, golden, "default", "statistic"):
        expected = values.unpivot(list(names), index="column", variable_name="comparison").with_columns(
            pl.col("comparison").replace_strict(names), pl.col("value").cast(pl.Float64)
        )
        count += compare(diagnosis.disparities, expected, ["column", "comparison"])
    assert count == 210 * 3


def test_calibrated_columns_equal_those_of_the_package(shared: Path) -> None:
    frame = pl.read_parquet(shared / "golden/saged/g20_extraction.parquet")
    columns = [column for column in frame.columns if column.endswith("_cbr_baseline")]
    baselines = baselines_of(column.removesuffix("_cbr_baseline") for column in columns)
    calibrated = calibrate(frame, baselines)
    for column in columns:
        difference = calibrated[column.removesuffix("_cbr_baseline") + "_calibrated"] - frame[column]
        assert difference.abs().max() <= 1e-12  # type: ignore[operator]
    assert len(columns) == 100
