"""Numbers of a diagnosis, its rate of false findings, and the mean over all prompts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose
from scipy.stats import kstest

from tiltmeter.benchmarks.diagnosis import (
    DEFAULT_STATISTICS,
    SAGED,
    Diagnosis,
    SummaryOptions,
    calibrate,
    decompose,
    diagnose,
    overall_means,
)
from tiltmeter.errors import InputError
from tiltmeter.stats import STATISTICS

STUDIES = 200
MANY = [f"x{at}" for at in range(STUDIES)]


def diagnosis_of(frame: pl.DataFrame, columns: Sequence[str] = ("x0",), **more: Any) -> Diagnosis:
    """Diagnose the means of groups, without resamples, unless other options are given."""
    defaults: dict[str, Any] = {
        "groups": ["group"],
        "statistics": ["mean"],
        "resamples": 0,
        "permutations": 0,
    }
    return diagnose(frame, columns=columns, **defaults | more)


def paired(groups: int, units: int, columns: int, seed: int = 0) -> pl.DataFrame:
    """Return values without an effect of the group; the rows of a unit are correlated."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(columns, 1, units)) + rng.normal(size=(columns, groups, units))
    named = {f"x{number}": column.ravel() for number, column in enumerate(values)}
    names = [f"g{group:02}" for group in range(groups)]
    return pl.DataFrame(
        {"group": np.repeat(names, units), "root": np.tile(np.arange(units), groups), **named}
    )


def test_a_diagnosis_of_figure_6_of_the_paper_has_its_numbers() -> None:
    frame = pl.DataFrame({"fruit": ["Apple", "Apple", "Pear", "Pear"], "x": [0.5, 0.75, 0.25, 0.2]})
    diagnosis = diagnosis_of(
        frame, ["x"], groups=["fruit"], statistics=["mean", "selection_rate"], resamples=50, permutations=50
    )
    assert_allclose(diagnosis.statistics.filter(statistic="mean")["estimate"], [0.625, 0.225])
    assert_allclose(diagnosis.statistics.filter(statistic="selection_rate")["estimate"], [1.0, 0.0])
    by_name = {
        row["statistic"] + " " + row["comparison"]: row
        for row in diagnosis.disparities.drop_nulls("estimate").to_dicts()
    }
    assert by_name["mean range"]["estimate"] == pytest.approx(0.4)
    assert by_name["selection_rate ratio"]["estimate"] == 0.0
    assert (by_name["mean max"]["group"], by_name["mean min"]["group"]) == ("Apple", "Pear")
    rates = diagnosis.groups.filter(statistic="selection_rate")
    assert rates["impact_ratio"].to_list() == [1.0, 0.0]
    assert not rates["below_four_fifths"].any()  # two answers each show nothing


@pytest.mark.parametrize("unit", ["root", None])
def test_permutation_p_is_uniform_without_an_effect(unit: str | None) -> None:
    frame = paired(5, 30, STUDIES, seed=4)
    if unit is None:  # without pairing, rows must be independent
        rng = np.random.default_rng(8)
        frame = frame.with_columns(
            pl.Series(f"x{at}", rng.normal(size=frame.height)) for at in range(STUDIES)
        )
    disparities = diagnosis_of(
        frame, MANY, unit=unit, statistics=["mean", "sd"], permutations=499
    ).disparities
    for statistic, comparison in product(("mean", "sd"), ("range", "sd", "max_abs_z", "dixon_q")):
        p = disparities.filter(statistic=statistic, comparison=comparison)["p"].to_numpy()
        assert len(p) == STUDIES
        assert kstest(p, "uniform").pvalue > 0.01, (statistic, comparison)


@pytest.mark.parametrize(
    ("groups", "units"), [(3, 20), (8, 40), pytest.param(21, 75, marks=pytest.mark.verify)]
)
def test_four_fifths_is_not_flagged_without_cause(groups: int, units: int) -> None:
    frame = paired(groups, units, STUDIES, seed=groups)
    group_rows = diagnosis_of(
        frame, MANY, unit="root", statistics=["selection_rate"], resamples=300, permutations=300
    ).groups
    flagged = group_rows.group_by("column").agg(pl.col("below_four_fifths").any())["below_four_fifths"].sum()
    assert flagged <= 0.05 * STUDIES
    assert (group_rows["impact_high"] >= group_rows["impact_ratio"]).all()


def test_a_planted_effect_is_detected_and_calibration_removes_it() -> None:
    frame = paired(8, 75, 1, seed=2).rename({"x0": "noise"})
    hit = pl.col("group") == "g03"
    frame = frame.with_columns(baseline_x=pl.col("noise") + pl.when(hit).then(-2.0).otherwise(0.0))
    frame = frame.with_columns(
        m_x=pl.col("baseline_x") + pl.Series(np.random.default_rng(1).normal(0, 0.3, frame.height))
    )
    baselines = {"m_x": "baseline_x", "baseline_x": "baseline_x"}
    frame = calibrate(frame, baselines)
    options: dict[str, Any] = {
        "statistics": ["mean", "selection_rate"],
        "resamples": 200,
        "permutations": 200,
    }
    diagnosis = diagnosis_of(
        frame, ["baseline_x", "m_x", "m_x_calibrated"], baselines=baselines, unit="root", **options
    )
    means = diagnosis.disparities.filter(statistic="mean")
    spread = means.filter(comparison="range")
    assert spread["p"].to_list()[:2] == [pytest.approx(1 / 201)] * 2
    assert spread["p"][2] > 0.01
    assert spread.filter(column="m_x")["low"].item() < 2.0 < spread.filter(column="m_x")["high"].item() + 1e-9
    assert set(means.filter(column="m_x")["reading"]) == {"concentrated"}
    assert set(means.filter(column="m_x_calibrated")["reading"]) == {"none"}
    assert means.filter(comparison="max_abs_z", column="m_x")["group"].item() == "g03"
    assert diagnosis.groups.filter("outlier", statistic="mean", column="m_x")["group"].to_list() == ["g03"]
    assert diagnosis.groups.filter("below_four_fifths", column="m_x")["group"].to_list() == ["g03"]
    parts = (
        decompose(diagnosis.disparities, baselines)
        .filter(statistic="mean", comparison="range", column="m_x")
        .row(0, named=True)
    )
    assert parts["raw"] == pytest.approx(parts["contextual"] + parts["model"])
    assert parts["tool"] > 1.5 > 0.3 > parts["model"]
    apart = paired(6, 50, 1).with_columns(x0=pl.col("x0") + pl.col("group").str.slice(1).cast(pl.Int64))
    assert set(diagnosis_of(apart, unit="root", permutations=99).disparities["reading"]) == {"dispersed"}


def test_a_diagnosis_does_not_depend_on_other_columns_and_statistics() -> None:
    frame = paired(4, 20, 3)
    options: dict[str, Any] = {"unit": "root", "resamples": 60, "permutations": 60}
    alone = diagnosis_of(frame, ["x1"], statistics=["sd"], **options)
    beside = diagnosis_of(frame, ["x0", "x1", "x2"], statistics=["mean", "sd"], **options)
    for table_alone, table_beside in zip(alone, beside, strict=True):
        assert table_alone.drop("q", strict=False).equals(
            table_beside.filter(column="x1", statistic="sd").drop("q", strict=False)
        )


def test_intervals_cover_the_mean_of_a_group() -> None:
    rows = diagnosis_of(paired(3, 60, STUDIES, seed=11), MANY, unit="root", resamples=300).statistics
    covered = ((rows["low"] <= 0) & (rows["high"] >= 0)).mean()
    assert isinstance(covered, float)
    assert 0.90 < covered < 0.98


def independent(sizes: Sequence[int], sd: float, columns: int, seed: int) -> pl.DataFrame:
    """Return values without an effect of the group; the last group has the standard deviation `sd`."""
    scales = np.repeat([1.0] * (len(sizes) - 1) + [sd], sizes)
    values = np.random.default_rng(seed).standard_normal((columns, sum(sizes))) * scales
    group = np.repeat([f"g{at}" for at in range(len(sizes))], sizes)
    return pl.DataFrame({"group": group, **{f"x{at}": row for at, row in enumerate(values)}})


@pytest.mark.parametrize("n", [8, 12, 24])
def test_intervals_of_few_values_cover_the_mean(n: int) -> None:
    frame = independent([n] * 5, 1.0, 400, n)
    rows = diagnosis_of(frame, frame.columns[1:], resamples=500).statistics
    covered = ((rows["low"] <= 0) & (rows["high"] >= 0)).mean()
    assert isinstance(covered, float)
    assert 0.935 < covered < 0.97


UNLIKE = [([40] * 5 + [8], 3.0), ([40] * 5 + [8], 1 / 3), ([12] * 6, 3.0), ([12] * 6, 1.0)]


@pytest.mark.parametrize(
    ("studies", "least", "most"),
    [(300, 0.015, 0.09), pytest.param(2000, 0.03, 0.07, marks=pytest.mark.verify)],
)  # three standard errors
@pytest.mark.parametrize(("sizes", "sd"), UNLIKE)
def test_groups_that_differ_only_in_size_and_spread_are_rarely_called_different(
    sizes: list[int], sd: float, studies: int, least: float, most: float
) -> None:
    frame = independent(sizes, sd, studies, int(10 * sd))
    diagnosis = diagnosis_of(frame, frame.columns[1:], resamples=200, permutations=399)
    tested = diagnosis.disparities.filter(comparison="range")
    assert least <= (tested["p"] < 0.05).mean() <= most  # type: ignore[operator]
    assert ((tested["low"] > 0) == (tested["p"] < 1 - 0.95)).all()
    assert (diagnosis.groups["p"] < 0.05).mean() <= most  # type: ignore[operator]
    claimed = diagnosis.groups.with_columns(place=pl.col("p").rank("max").over("column")).filter(
        pl.col("p") * len(sizes) < 0.05 * pl.col("place")
    )
    assert claimed["column"].n_unique() <= most * studies


@pytest.mark.parametrize("groups", [2, 6])
def test_pairs_with_unlike_noise_are_rarely_called_different(groups: int) -> None:
    rng = np.random.default_rng(groups)
    scales = np.array([1.0] * (groups - 1) + [3.0])[:, None]
    values = rng.standard_normal((300, groups, 12)) * scales + 2 * rng.standard_normal((300, 1, 12))
    frame = (
        paired(groups, 12, 1)
        .select("group", "root")
        .with_columns(pl.Series(f"x{at}", study.ravel()) for at, study in enumerate(values))
    )
    diagnosis = diagnosis_of(
        frame, [f"x{at}" for at in range(300)], unit="root", resamples=200, permutations=399
    )
    p = diagnosis.disparities.filter(comparison="range")["p"]
    assert 0.015 <= (p < 0.05).mean() <= 0.095  # type: ignore[operator]
    assert (diagnosis.groups["p"] < 0.05).mean() <= 0.075  # type: ignore[operator]


def test_one_small_noisy_group_does_not_hide_the_others() -> None:
    sizes, shifts = [9_000, 2_000, 1_500, 100], [0.0, 0.03, -0.03, 0.0]
    frame = independent(sizes, 2.0, 3, 1).with_columns(
        pl.col(f"x{at}") * 0.3 + np.repeat(shifts, sizes) for at in range(3)
    )
    options: dict[str, Any] = {
        "resamples": 200,
        "permutations": 200,
        "statistics": ["mean", "selection_rate", "median"],
    }
    diagnosis = diagnosis_of(frame, ["x0", "x1", "x2"], **options)
    spread = diagnosis.disparities.filter(statistic="mean", comparison="range")
    assert (spread["q"] < 0.01).all()
    assert (spread["low"] > 0).all()
    assert (spread["low"] < 0.06).all()
    rows = diagnosis.groups.filter(statistic="mean")
    significant = rows.filter(pl.col("q") < 0.05)
    assert significant["group"].unique().sort().to_list() == ["g1", "g2"]
    assert (significant["difference"].sign() == significant["difference_low"].sign()).all()
    mean_of_group = frame.filter(pl.col("group") == "g1")["x0"].to_numpy().mean()
    mean_of_others = frame.filter(pl.col("group") != "g1")["x0"].to_numpy().mean()
    assert rows.filter(column="x0", group="g1")["difference"].item() == pytest.approx(
        mean_of_group - mean_of_others
    )
    as_package = diagnosis_of(frame, ["x0"], definition=SAGED, **options)
    assert as_package.groups["difference"].null_count() == as_package.groups.height
    assert as_package.disparities.filter(statistic="mean", comparison="range")["p"].item() > 0.01


def test_values_that_do_not_vary_are_no_difference() -> None:
    frame = pl.DataFrame(
        {
            "group": ["a", "b", "c"] * 8,
            "root": [at // 3 for at in range(24)],
            "x0": [at // 3 / 10 for at in range(24)],
        }
    )
    for unit in (None, "root"):
        same = diagnosis_of(frame.with_columns(x0=pl.lit(0.1)), unit=unit, resamples=50, permutations=50)
        assert same.disparities.filter(comparison="range")["p"].to_list() == [1.0]
    diagnosis = diagnosis_of(frame, unit="root", resamples=50, permutations=50)
    assert diagnosis.disparities.filter(comparison="range")["p"].to_list() == [1.0]
    assert (diagnosis.groups["p"] > 0.9).all()
    rare = pl.DataFrame({"group": np.repeat(["a", "b", "c"], 12), "x0": [0.0] * 24 + [0.0] * 6 + [1.0] * 6})
    interval = diagnosis_of(rare, resamples=50).statistics.row(0, named=True)
    assert (interval["low"], interval["high"]) == (0.0, pytest.approx(1 - 0.025 ** (1 / 12)))


def test_several_grouping_columns_are_one_level() -> None:
    frame = paired(4, 10, 1).with_columns(
        role=pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.lit("a")).otherwise(pl.lit("b"))
    )
    diagnosis = diagnosis_of(frame, groups=["group", "role"])
    assert (
        diagnosis.statistics.select("group", "role").height
        == diagnosis.statistics.select("group", "role").unique().height
        == 8
    )
    assert diagnosis.disparities.filter(comparison="max")["group"].item() in {
        f"g{at:02} / {role}" for at in range(4) for role in "ab"
    }


def test_statistics_that_cannot_be_computed_are_null_with_a_note() -> None:
    frame = pl.DataFrame(
        {
            "group": ["a", "a", "a", "b", "b", "c", "d", "d"],
            "missing": [None] * 8,
            "constant": [0.5] * 8,
            "lone": [1.0, 2, 3, None, None, None, float("nan"), None],
            "negative": [-1.0, -2, 0, 1, 1, 3, 2, 5],
        }
    )
    options: dict[str, Any] = {"statistics": list(STATISTICS), "resamples": 40, "permutations": 40}
    diagnosis = diagnosis_of(frame, frame.columns[1:], baselines={"negative": "constant"}, **options)
    assert diagnosis.statistics.filter(column="missing")["estimate"].null_count() == 4 * len(STATISTICS)
    assert diagnosis.statistics.filter(column="missing", statistic="mean")["missing"].to_list() == [
        3,
        2,
        1,
        2,
    ]
    row = diagnosis.statistics.filter(column="constant", statistic="mean", group="c").row(0, named=True)
    assert (row["estimate"], row["low"], row["high"], row["n"]) == (0.5, None, None, 1)
    disparities = diagnosis.disparities
    assert disparities.filter(column="missing")["note"].null_count() == 0
    assert set(disparities.filter(column="missing", statistic="mean")["note"]) == {"no value in any group"}
    assert disparities.filter(column="lone", statistic="mean", comparison="range")["note"].to_list() == [
        "only one group has a value"
    ]
    z_of_constant = disparities.filter(column="constant", statistic="mean", comparison="max_abs_z")
    assert z_of_constant["note"].to_list() == ["all groups are equal"]
    assert (
        disparities.filter(column="negative", statistic="mean", comparison="ratio")["note"]
        .item()
        .startswith("a ratio requires")
    )
    assert disparities.filter(column="lone", statistic="kl")["note"].unique().to_list() == [
        "needs the column's baseline"
    ]
    few = "no interval and no test: at least two groups with 5 values each are needed"
    assert set(disparities.filter(pl.col("estimate").is_not_null())["note"]) == {few}
    assert disparities.filter(
        pl.col("estimate").is_null(), pl.col("note").is_in([None, few], nulls_equal=True)
    ).is_empty()
    numbers = disparities.select(pl.col(pl.Float64)).unpivot()["value"].drop_nulls()
    assert numbers.is_finite().all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": ["same"]}, "all rows have the same group in same"),
        ({"groups": ["nowhere"]}, "no column 'nowhere'"),
        ({"groups": ["gap"]}, "1 rows have no value in the column 'gap'"),
        ({"columns": ["group"]}, "must be numeric, not String"),
        ({"columns": []}, "columns is empty; give at least one"),
        ({"statistics": ["mode", "mode"]}, "statistics contains duplicates: mode, mode"),
        ({"statistics": ["middle"]}, "no statistic 'middle'"),
        ({"level": 95}, "between 0 and 1"),
        ({"resamples": -1}, "at least 0"),
        ({"baselines": {"x": "y"}}, "no column 'y'"),
    ],
)
def test_mistakes_in_the_arguments_of_diagnose_are_named_in_one_sentence(
    change: dict[str, object], message: str
) -> None:
    frame = pl.DataFrame({"group": ["a", "b"], "same": ["a", "a"], "gap": ["a", None], "x": [1.0, 2.0]})
    options: dict[str, Any] = {"columns": ["x"], "resamples": 5, "permutations": 5} | change
    with pytest.raises(InputError, match=message) as error:
        diagnosis_of(frame, **options)
    assert "\n" not in str(error.value)


def test_incomplete_units_and_units_of_one_group_have_intervals() -> None:
    frame = paired(3, 12, 1).filter(pl.int_range(pl.len()) % 7 != 0)
    nested = paired(3, 12, 1).with_columns(root=pl.int_range(pl.len()))
    for measurements in (frame, nested):
        diagnosis = diagnosis_of(measurements, unit="root", resamples=100, permutations=20)
        assert diagnosis.statistics.filter(pl.col("low") < pl.col("high")).height == 3, "each has an interval"


def test_every_statistic_can_be_requested_by_name() -> None:
    assert set(DEFAULT_STATISTICS) <= set(STATISTICS)
    options, baselines = SummaryOptions(standard="median", method="smaller"), {"x0": "x1"}
    every: dict[str, Any] = {
        "statistics": list(STATISTICS),
        "resamples": 30,
        "permutations": 30,
        "options": options,
    }
    diagnosis = diagnosis_of(paired(3, 20, 2), baselines=baselines, unit="root", **every)
    assert diagnosis.statistics.select("estimate", "low").null_count().row(0) == (0, 0)


def means(table: pl.DataFrame, columns: list[str], *, unit: str | None, resamples: int) -> pl.DataFrame:
    return overall_means(table, columns, group="group", unit=unit, level=0.95, resamples=resamples, seed=7)


def same_prompts(units: int, effect: float, seed: int) -> pl.DataFrame:
    """Return values of two groups for the same prompts: the value of each prompt plus little noise."""
    rng = np.random.default_rng(seed)
    base = rng.normal(effect, 1, units)
    rows = [
        {"group": group, "root": i, "x": base[i] + rng.normal(0, 0.01)}
        for i in range(units)
        for group in ("a", "b")
    ]
    return pl.DataFrame(rows)


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.one_of(st.none(), st.floats(-5, 5))), min_size=1, max_size=30
    )
)
def test_the_overall_mean_is_that_of_the_values_that_are_not_missing(
    rows: list[tuple[str, float | None]],
) -> None:
    table = pl.DataFrame(rows, schema={"group": pl.String, "x": pl.Float64}, orient="row").with_columns(
        none=pl.lit(None, pl.Float64)
    )
    mean_rows = means(table, ["x", "none"], unit=None, resamples=20)
    assert mean_rows["column"].to_list() == ["x", "none"]
    assert mean_rows["estimate"].to_list() == pytest.approx([table["x"].mean(), None])
    assert mean_rows.row(1)[1:] == (None, None, None)
    values = [value for _, value in rows if value is not None]
    groups = len({group for group, _ in rows})
    if len(values) - groups + 1 < 5:  # rows are drawn within groups, which costs a degree of freedom each
        assert mean_rows.row(0)[2:] == (None, None)
    else:
        slack = 1e-9
        assert min(values) - slack <= mean_rows["low"][0] <= mean_rows["high"][0] <= max(values) + slack


def test_a_group_of_fewer_than_five_values_has_no_interval_and_no_test() -> None:
    rng = np.random.default_rng(5)
    groups = ["few"] * 4 + ["enough"] * 5 + ["many"] * 30
    frame = pl.DataFrame({"group": groups, "x0": rng.normal(size=39)})
    options: dict[str, Any] = {
        "resamples": 100,
        "permutations": 100,
        "statistics": ["mean", "median", "selection_rate"],
    }
    diagnosis = diagnosis_of(frame, **options)
    few = diagnosis.statistics.filter(group="few")
    assert few["estimate"].null_count() == 0
    assert few["low"].null_count() == few["high"].null_count() == 3
    assert set(few["note"]) == {"no interval: at least 5 values are needed, this group has 4"}
    enough = diagnosis.statistics.filter(pl.col("group") != "few")
    assert enough["low"].null_count() == 0
    assert enough["note"].null_count() == enough.height
    apart = diagnosis.groups.filter(group="few")
    assert apart["difference"].null_count() == 0
    assert (
        apart.select("difference_low", "difference_high", "p", "q", "impact_low", "impact_high")
        .null_count()
        .row(0)
        == (3,) * 6
    )
    of_all = diagnosis.disparities.filter(comparison="range")
    assert of_all["p"].null_count() == 0, "two groups have five values"
    fewer = diagnosis_of(frame.filter(pl.col("group") != "many"), **options).disparities.filter(
        comparison="range"
    )
    assert fewer["estimate"].null_count() == 0
    assert fewer.select("low", "high", "p", "q").null_count().row(0) == (3,) * 4
    assert set(fewer["note"]) == {
        "no interval and no test: at least two groups with 5 values each are needed"
    }
    published = diagnosis_of(frame, definition=SAGED, **options)
    assert published.statistics["low"].null_count() == 0
    assert published.statistics["note"].null_count() == published.statistics.height


def test_a_ratio_of_0_has_an_interval_with_an_upper_end_above_0() -> None:
    """No value of one group reaches the standard, in the data and in every resample.

    The resamples therefore do not show how rare such a value is.
    """
    frame = pl.DataFrame(
        {"group": ["a"] * 12 + ["b"] * 12, "root": [*range(12)] * 2, "x0": [0.0] * 12 + [1.0] * 11 + [0.0]}
    )
    diagnosis = diagnosis_of(
        frame, unit="root", statistics=["selection_rate"], resamples=300, permutations=300
    )
    ratio = diagnosis.disparities.filter(comparison="ratio").row(0, named=True)
    assert (ratio["estimate"], ratio["low"]) == (0.0, 0.0)
    bound = 1 - 0.025 ** (1 / 12)  # Clopper and Pearson, of 12 values
    assert ratio["high"] == pytest.approx(bound / (11 / 12), rel=0.01)


def test_the_interval_of_paired_rows_is_that_of_the_units() -> None:
    """Paired rows are drawn together: the interval is that of the means of prompts, not of the rows."""
    table = same_prompts(100, 0.0, 1)
    interval = means(table, ["x"], unit="root", resamples=2000)
    means_of_prompts = table.group_by("root").agg(pl.col("x").mean())["x"].to_numpy()
    half = 1.96 * means_of_prompts.std() / 10
    assert (interval["high"] - interval["low"]).item() / 2 == pytest.approx(half, rel=0.08)
    apart = means(table, ["x"], unit=None, resamples=2000)
    assert (apart["high"] - apart["low"]).item() / 2 == pytest.approx(half / np.sqrt(2), rel=0.08)


def test_intervals_of_the_overall_mean_contain_it_at_the_stated_rate() -> None:
    studies = [same_prompts(40, 0.3, seed) for seed in range(200)]
    table = (
        studies[0]
        .select("group", "root")
        .with_columns(pl.Series(f"x{at}", study["x"]) for at, study in enumerate(studies))
    )
    intervals = means(table, [f"x{at}" for at in range(200)], unit="root", resamples=300)
    inside = ((intervals["low"] <= 0.3) & (intervals["high"] >= 0.3)).mean()
    assert isinstance(inside, float)
    assert 0.90 <= inside <= 0.985


def test_without_resamples_there_is_no_interval_and_equal_seeds_give_equal_ones() -> None:
    table = same_prompts(20, 0.0, 3)
    assert means(table, ["x"], unit="root", resamples=0).row(0)[2:] == (None, None)
    first = means(table, ["x"], unit="root", resamples=100)
    assert means(table, ["x"], unit="root", resamples=100).equals(first)
    # Without pairs each group is drawn within itself: all resamples agree, and only the exact bound of 99
    # degrees of freedom is left.
    apart = pl.DataFrame({"group": ["a"] * 50 + ["b"] * 50, "x": [0.0] * 50 + [10.0] * 50})
    bound = 10 * (1 - 0.025 ** (1 / 99))
    assert means(apart, ["x"], unit=None, resamples=50).row(0) == (
        "x",
        5.0,
        pytest.approx(5 - bound),
        pytest.approx(5 + bound),
    )
