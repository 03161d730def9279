"""The mean over all prompts: what it is, its interval, and what it does with missing values and paired rows."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from tiltmeter.benchmarks.diagnosis import overall_means


def means(table: pl.DataFrame, columns: list[str], *, unit: str | None, resamples: int) -> pl.DataFrame:
    return overall_means(table, columns, group="group", unit=unit, level=0.95, resamples=resamples, seed=7)


def paired(units: int, effect: float, seed: int) -> pl.DataFrame:
    """Two groups asked the same prompts; `x` is the prompt's own value plus little noise, so rows of a prompt say the same."""
    rng = np.random.default_rng(seed)
    base = rng.normal(effect, 1, units)
    rows = [{"group": group, "root": i, "x": base[i] + rng.normal(0, 0.01)} for i in range(units) for group in ("a", "b")]
    return pl.DataFrame(rows)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.one_of(st.none(), st.floats(-5, 5))), min_size=1, max_size=30))
def test_it_is_the_mean_of_what_is_there(rows: list[tuple[str, float | None]]) -> None:
    table = pl.DataFrame(rows, schema={"group": pl.String, "x": pl.Float64}, orient="row").with_columns(none=pl.lit(None, pl.Float64))
    found = means(table, ["x", "none"], unit=None, resamples=20)
    assert found["column"].to_list() == ["x", "none"]
    assert found["estimate"].to_list() == pytest.approx([table["x"].mean(), None])
    assert found.row(1)[1:] == (None, None, None)
    known = [value for _, value in rows if value is not None]
    if known:
        slack = 1e-9
        assert min(known) - slack <= found["low"][0] <= found["high"][0] <= max(known) + slack


def test_intervals_are_those_of_the_units() -> None:
    """Paired rows are drawn together: the interval is that of the prompts' own means, not that of twice as many rows."""
    table = paired(100, 0.0, 1)
    found = means(table, ["x"], unit="root", resamples=2000)
    own = table.group_by("root").agg(pl.col("x").mean())["x"].to_numpy()
    half = 1.96 * own.std() / 10
    assert (found["high"] - found["low"]).item() / 2 == pytest.approx(half, rel=0.08)
    apart = means(table, ["x"], unit=None, resamples=2000)
    assert (apart["high"] - apart["low"]).item() / 2 == pytest.approx(half / np.sqrt(2), rel=0.08)


def test_the_truth_is_inside_as_often_as_it_says() -> None:
    studies = [paired(40, 0.3, seed) for seed in range(200)]
    table = studies[0].select("group", "root").with_columns(pl.Series(f"x{at}", study["x"]) for at, study in enumerate(studies))
    found = means(table, [f"x{at}" for at in range(200)], unit="root", resamples=300)
    inside = ((found["low"] <= 0.3) & (found["high"] >= 0.3)).mean()
    assert isinstance(inside, float)
    assert 0.90 <= inside <= 0.985


def test_rows_of_few_groups_stay_in_their_numbers() -> None:
    """Without pairs each group is drawn within itself, so that a difference between groups adds nothing to the interval."""
    table = pl.DataFrame({"group": ["a"] * 50 + ["b"] * 50, "x": [0.0] * 50 + [10.0] * 50})
    found = means(table, ["x"], unit=None, resamples=50)
    assert found.row(0) == ("x", 5.0, 5.0, 5.0)


def test_no_resamples_no_interval_and_the_same_seed_the_same() -> None:
    table = paired(20, 0.0, 3)
    bare = means(table, ["x"], unit="root", resamples=0)
    assert bare.row(0)[2:] == (None, None)
    twice = [means(table, ["x"], unit="root", resamples=100) for _ in range(2)]
    assert twice[0].equals(twice[1])
