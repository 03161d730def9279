"""Examples of a range of means: answers that widen it, by exactly the stated influence."""

from __future__ import annotations

from itertools import product

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings as hypothesis_settings, strategies as st

from benchmarks.conftest import Ran
from support.definitions import benchmark_definition
from tiltmeter.benchmarks._parts import Answers
from tiltmeter.benchmarks._tables import FURTHER
from tiltmeter.datasets import Library
from tiltmeter.schema import EXAMPLES, FINDINGS, conform, metric_name
from tiltmeter.study import NO_TOOLS, Settings


class Measured(Answers):
    """Answers that are already measured."""

    name, title = "measured", "Measured"

    def design(self, library: Library, settings: Settings) -> pl.DataFrame:
        raise NotImplementedError


PART = Measured()


def measured(seed: int, groups: int) -> pl.DataFrame:
    """Draw values at random, some missing, some equal; two generations, each prompt asked twice."""
    rng = np.random.default_rng(seed)
    rows = [
        (f"{role}/{group}/{prompt}", repeat, role, f"group {group}", f"{group}/{prompt}")
        for role, group, prompt, repeat in product(("none", "sailor"), range(groups), range(2), range(2))
    ]
    table = pl.DataFrame(
        rows, schema=["prompt_id", "repetition", "generation", "subject", "prompt_key"], orient="row"
    )
    values = np.where(
        rng.random(table.height) < 0.2,
        np.nan,
        rng.choice([rng.normal(size=table.height), np.ones(table.height)]),
    )
    return table.with_columns(
        pl.Series("value:score", values).fill_nan(None),
        repetition=pl.col("repetition").cast(pl.Int16),
        model=pl.lit("m"),
        item=pl.col("prompt_key").rank("dense").cast(pl.Int32),
        root="prompt_key",
        outcome=pl.lit("answered"),
    )


def findings(measures: pl.DataFrame, settings: Settings) -> pl.DataFrame:
    return PART.analyse(measures, pl.DataFrame(schema=FURTHER), settings, NO_TOOLS)["findings"]


def ranges(measures: pl.DataFrame, settings: Settings) -> dict[str | None, float | None]:
    rows = findings(measures, settings).filter(metric_name() == "range_mean_score")
    return dict(rows.select("context", "estimate").iter_rows())


@pytest.mark.verify
@pytest.mark.parametrize("definition", ["default", "saged"])
@hypothesis_settings(max_examples=4)
@given(seed=st.integers(0, 2**32 - 1), groups=st.integers(2, 4))
def test_influence_is_the_difference_of_two_analyses(definition: str, seed: int, groups: int) -> None:
    settings = Settings(
        definition=benchmark_definition(definition), resamples=2, params={"statistics": "mean"}
    )
    measures = measured(seed, groups).with_row_index("row")
    examples = PART.examples(measures, findings(measures, settings), settings)
    assert dict(examples.schema) == dict(EXAMPLES)
    assert examples["group"].null_count() == examples.height, "the finding is about no single group"
    range_of = ranges(measures, settings)
    influences: dict[str, dict[int, float]] = {"none": {}, "sailor": {}}
    for row, generation in measures.drop_nulls("value:score").select("row", "generation").iter_rows():
        without = measures.with_columns(
            pl.when(pl.col("row") != row).then("value:score").alias("value:score")
        )
        before, after = range_of[generation], ranges(without, settings)[generation]
        if before is not None and after is not None and before - after > 1e-12:
            influences[generation][row] = before - after
    rows = examples.join(measures, on=["prompt_id", "repetition"], maintain_order="left")
    assert (rows["context"] == rows["generation"]).all()
    for generation, influence_of in influences.items():
        own_rows = rows.filter(context=generation)
        assert own_rows.height == min(5, len(influence_of))
        assert own_rows["influence"].to_list() == pytest.approx(
            [influence_of[row] for row in own_rows["row"]], abs=1e-9
        )
        assert own_rows["influence"].to_list() == pytest.approx(
            sorted(own_rows["influence"], reverse=True), abs=1e-9
        )
        # Both groups that are farthest apart, where answers of both have an influence.
        ends = measures.filter(pl.col("row").is_in(list(influence_of)))["subject"].unique()
        assert set(own_rows["subject"]) == set(ends)
        for subject in ends:
            rows_of_subject = measures.filter(subject=subject)["row"]
            unshown = set(rows_of_subject) & set(influence_of) - set(own_rows["row"])
            largest_unshown = max((influence_of[row] for row in unshown), default=0.0)
            smallest_shown = own_rows.filter(subject=subject)["influence"].to_numpy().min()
            assert largest_unshown <= smallest_shown + 1e-9


def test_the_examples_of_a_generation_do_not_depend_on_other_generations() -> None:
    settings = Settings(resamples=2)
    measures = measured(1, 4)
    examples = PART.examples(measures, findings(measures, settings), settings)
    assert PART.examples(measures, findings(measures, settings), settings).equals(examples)
    alone = measures.filter(generation="sailor")
    examples_alone = PART.examples(alone, findings(alone, settings), settings)
    assert examples_alone["context"].null_count() == examples_alone.height
    assert examples_alone.drop("context").equals(examples.filter(context="sailor").drop("context"))


def test_of_answers_with_equal_influence_the_most_extreme_come_first() -> None:
    """A second group is so close that leaving out any answer makes it the end of the range."""
    values = {"far": [5.0, 9.0, 9.0, 5.0, 9.0, 5.0, 9.0, 9.0], "near": [7.4] * 8, "low": [0.0] * 8}
    rows = [
        (f"{group}/{i}", group, value)
        for group, values_of_group in values.items()
        for i, value in enumerate(values_of_group)
    ]
    measures = pl.DataFrame(rows, schema=["prompt_id", "subject", "value:score"], orient="row").with_columns(
        repetition=pl.lit(0, pl.Int16), generation=pl.lit("none"), prompt_key="prompt_id"
    )
    named = {
        "metric": "disparity",
        "feature": "score",
        "statistic": "mean",
        "comparison": "range",
        "calibrated": False,
    }
    finding = conform(pl.DataFrame({"key": True, "estimate": 7.5, **named}), FINDINGS)
    examples = PART.examples(measures, finding, Settings())
    assert examples.select(*named).unique().to_dicts() == [named]
    chosen = examples.join(measures, on="prompt_id", maintain_order="left").select(
        "subject", "value:score", "influence"
    )
    assert chosen.rows() == [("far", 9.0, pytest.approx(0.1))] * 5


def test_the_examples_of_a_run_have_the_texts_of_their_responses(ran: Ran) -> None:
    command = "run benchmarks/g20 -m sim/biased --limit 4 -P roles=none,diplomat --display none --out run"
    run = ran(*command.split())
    examples = run.examples.filter(
        metric_name() == "range_mean_vader_compound_calibrated", context="diplomat"
    )
    assert 0 < examples.height <= 5
    assert (examples["outcome"] == "answered").all()
    calibrated = pl.col("without names:vader_compound")
    means = (
        run.measures.filter(generation="diplomat").group_by("subject").agg(calibrated.mean()).sort(calibrated)
    )
    ends = set(means["subject"].gather([0, -1]))
    assert all(any(end in row["prompt"] for end in ends) for row in examples.iter_rows(named=True))
    first = examples.row(0, named=True)
    assert (
        first["answer"]
        == run.responses.filter(prompt_id=first["prompt_id"], repetition=first["repetition"])["answer"].item()
    )
    ranges = {f"range_mean_vader_{score}_calibrated" for score in ("compound", "positive", "negative")}
    assert set(run.examples.select(metric_name()).to_series()) == ranges
