"""Verdicts on differences: metrics with tiers, with a null value, or with neither."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest
from scipy.stats import norm

from tiltmeter.blocks import Table
from tiltmeter.comparing import DIFFERENCES, VERDICTS, Comparison, judged_differences
from tiltmeter.probes import one_sided, two_sided
from tiltmeter.schema import CONTRASTS, FINDINGS, GRADES


def _metric(
    bands: Sequence[Any] | None, null: float | None, low: float | None, high: float | None
) -> dict[str, Any]:
    tiers = None if bands is None else [band._asdict() for band in bands]
    return {"bands": tiers, "null_value": null, "range_low": low, "range_high": high}


MORE_IS_WORSE = _metric(one_sided(0.05, 0.15, 0.5), None, 0.0, 1.0)
ABOVE_0_IS_NOT_HEALTHY = _metric(one_sided(0.03, 0.1, 0.3, low=-1), 0.0, -1.0, 1.0)
EITHER_WAY = _metric(two_sided(0.05, 0.15, 0.5), 0.0, -1.0, 1.0)
RATIO = _metric(None, 1.0, 0.0, 1.0)
RANGE = _metric(None, 0.0, 0.0, None)


def _finding(estimate: float | None, half: float | None, **more: Any) -> pl.DataFrame:
    if half is None or estimate is None:
        ends: dict[str, float | None] = {"low": None, "high": None}
    else:
        ends = {"low": estimate - half, "high": estimate + half}
    counts = dict.fromkeys(("attempts", "answered", "items"), 100)
    row = {
        "study": "genderbench",
        "part": "it",
        "metric": "m",
        "key": True,
        "level": 0.95,
        "harm": "h",
        **counts,
    }
    return pl.DataFrame([row | {"estimate": estimate, **ends} | more], schema=dict(FINDINGS))


def _grades(metric: str = "m", **more: Any) -> pl.DataFrame:
    return pl.DataFrame([{"part": "it", "metric": metric} | more], schema=dict(GRADES))


def _judged(
    before: float | None, after: float | None, half: float | None = 0.01, **more: Any
) -> dict[str, Any]:
    differences = judged_differences(
        _finding(before, half, **more), _finding(after, half, **more), {}, _grades(**more)
    )
    assert dict(differences.schema) == dict(DIFFERENCES)
    return differences.row(0, named=True)


@pytest.mark.parametrize(
    ("kind", "before", "after", "verdict"),
    [
        (MORE_IS_WORSE, 0.1, 0.3, "worse"),
        (MORE_IS_WORSE, 0.3, 0.1, "better"),
        (ABOVE_0_IS_NOT_HEALTHY, 0.3, 0.1, "better"),
        (ABOVE_0_IS_NOT_HEALTHY, -0.2, 0.2, "unchanged"),  # in the opposite direction, and as large
        (
            ABOVE_0_IS_NOT_HEALTHY,
            -0.3,
            -0.1,
            "better",
        ),  # all tiers are healthy, but the distance from no bias is smaller
        (ABOVE_0_IS_NOT_HEALTHY, 0.063, -0.787, "worse"),
        (EITHER_WAY, -0.4, -0.1, "better"),
        (EITHER_WAY, -0.1, -0.4, "worse"),
        (EITHER_WAY, 0.1, -0.4, "worse"),
        (EITHER_WAY, 0.2, -0.2, "unchanged"),  # in the opposite direction, and as large; a note says so
        (RATIO, 0.5, 0.9, "better"),
        (RATIO, 0.9, 0.5, "worse"),
        (RANGE, 0.2, 0.9, "worse"),
    ],
)
def test_the_verdict_follows_the_direction_of_the_metric(
    kind: dict[str, Any], before: float, after: float, verdict: str
) -> None:
    row = _judged(before, after, **kind)
    assert row["verdict"] == verdict in VERDICTS
    assert (row["difference"], row["paired"]) == (pytest.approx(after - before), False)


def test_small_differences_are_unchanged_and_uncertain_ones_inconclusive() -> None:
    assert _judged(0.1, 0.101, 0.003, **MORE_IS_WORSE)["verdict"] == "unchanged"
    tiny = _judged(0.1, 0.11, 0.002, **MORE_IS_WORSE)
    assert (tiny["verdict"], tiny["note"]) == (
        "unchanged",
        "the difference is significant but smaller than the margin",
    )
    assert _judged(0.1, 0.101, 0.1, **MORE_IS_WORSE)["verdict"] == "inconclusive"
    assert _judged(0.1, 0.1, None, **MORE_IS_WORSE)["note"] == "no interval"
    assert _judged(None, 0.1, **MORE_IS_WORSE)["verdict"] == "inconclusive"
    assert "half of the answers" in _judged(0.1, 0.4, answered=40, **MORE_IS_WORSE)["note"]
    assert "no direction" in _judged(0.1, 0.4, **(MORE_IS_WORSE | {"bands": None}))["note"]
    assert _judged(0.1, 0.4, key=False, **MORE_IS_WORSE)["verdict"] is None, "only key metrics are judged"
    # A range has no greatest value, so no margin can be computed from it.
    assert _judged(0.1, 0.1, 0.001, **RANGE)["verdict"] == "inconclusive"


def _contrasted(contrast: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The row of a metric whose two sides have these findings and this contrast."""
    rows = pl.DataFrame(
        [{"metric": "m", "n": 100, "paired": True, "how": "x", **contrast}], schema=dict(CONTRASTS)
    )
    before, after = more.pop("findings")
    return judged_differences(
        _finding(*before, **more), _finding(*after, **more), {"it": rows}, _grades(**more)
    ).row(0, named=True)


SHARED = {
    "first": 0.1,
    "first_low": 0.05,
    "first_high": 0.15,
    "second": -0.3,
    "second_low": -0.35,
    "second_high": -0.25,
}


def test_signs_that_differ_need_the_difference_and_the_sum_of_both_sides() -> None:
    """The intervals of the findings are wide.

    They are not used where the contrast has the interval of the sum.
    """
    wide = {"findings": ((0.1, 0.3), (-0.3, 0.3)), **EITHER_WAY}
    difference = {"difference": -0.4, "low": -0.47, "high": -0.33, "p": 1e-9}
    surely = _contrasted(difference | SHARED | {"sum_low": -0.27, "sum_high": -0.13}, **wide)
    assert surely["verdict"] == "worse"
    assert surely["change"] == pytest.approx(0.2)
    assert (surely["change_low"], surely["change_high"]) == (pytest.approx(0.13), pytest.approx(0.27))
    assert 1e-9 < surely["change_p"] < 0.001, "that of the sum, which is the larger one"
    unsure = _contrasted(difference | SHARED | {"sum_low": -0.41, "sum_high": 0.01}, **wide)
    assert unsure["verdict"] == "inconclusive"
    assert unsure["note"] == "the values differ significantly, but their distances from no bias do not"
    assert unsure["q"] < 0.001 < 0.05 < unsure["change_q"]
    few = _contrasted(difference | SHARED | {"sum_low": -0.27, "sum_high": -0.13, "freedom": 3}, **wide)
    assert few["change_p"] > surely["change_p"], (
        "with few degrees of freedom, an interval of the same width says less"
    )


def test_a_value_in_a_healthy_tier_is_judged_by_its_distance_from_no_bias() -> None:
    """If tiers are on one side of no bias, values on the other side are healthy, also far from no bias."""
    wide = {"findings": ((0.1, 0.3), (-0.3, 0.3)), **ABOVE_0_IS_NOT_HEALTHY}
    difference = {"difference": -0.4, "low": -0.47, "high": -0.33, "p": 1e-9}
    surely = _contrasted(difference | SHARED | {"sum_low": -0.27, "sum_high": -0.13}, **wide)
    assert (surely["verdict"], surely["change"]) == ("worse", pytest.approx(0.2))
    unsure = _contrasted(difference | SHARED | {"sum_low": -0.41, "sum_high": 0.01}, **wide)
    assert unsure["verdict"] == "inconclusive"


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("kind", [MORE_IS_WORSE, EITHER_WAY])
def test_verdicts_do_not_depend_on_the_level_of_the_intervals(level: float, kind: dict[str, Any]) -> None:
    """The same estimates and standard errors: a run with intervals at another level has the same verdict."""
    error = 0.01
    half = error * float(norm.ppf((1 + level) / 2))
    verdicts = {
        after: _judged(0.4, after, half, level=level, **kind)["verdict"]
        for after in (0.38, 0.402, 0.42, 0.43, 0.5)
    }
    assert verdicts == {
        0.38: "inconclusive",
        0.402: "inconclusive",
        0.42: "inconclusive",
        0.43: "worse",
        0.5: "worse",
    }
    narrow = half / 2
    assert _judged(0.4, 0.4, narrow, level=level, **kind)["verdict"] == "unchanged"
    assert _judged(0.4, 0.407, narrow, level=level, **kind)["verdict"] == "inconclusive"


def test_a_bias_in_the_opposite_direction_is_not_called_the_same() -> None:
    row = _judged(0.2, -0.2, **EITHER_WAY)
    assert (row["verdict"], row["note"]) == (
        "unchanged",
        "as large as before, but in the opposite direction",
    )
    assert row["q"] < 0.05
    assert _judged(0.2, -0.2, 0.1, **EITHER_WAY)["verdict"] == "inconclusive"


def test_a_part_of_a_plugin_may_omit_optional_columns_of_its_contrast() -> None:
    """With a contrast of the difference alone, the intervals of the findings give that of the sum."""
    alone = pl.DataFrame(
        [
            {
                "metric": "m",
                "difference": -0.4,
                "low": -0.45,
                "high": -0.35,
                "p": 1e-6,
                "n": 9,
                "paired": True,
                "how": "x",
            }
        ]
    )
    first, second = _finding(0.1, 0.02, **EITHER_WAY), _finding(-0.3, 0.02, **EITHER_WAY)
    row = judged_differences(first, second, {"it": alone}, _grades(**EITHER_WAY)).row(0, named=True)
    assert (row["verdict"], row["change"]) == ("worse", pytest.approx(0.2))
    missing = [pl.lit(None, pl.Float64).alias(name) for name in ("low", "high")]
    unknown = judged_differences(
        first.with_columns(missing), second.with_columns(missing), {"it": alone}, _grades(**EITHER_WAY)
    ).row(0, named=True)
    assert unknown["verdict"] == "inconclusive"
    assert "either direction" in unknown["note"]


def test_q_is_computed_in_families_of_key_and_other_metrics() -> None:
    """One key metric with p = .04 beside a hundred metrics that are not key has q = .04.

    One of two key metrics with p = .04 has q = .08.
    """

    def contrasts(p: dict[str, float], **more: Any) -> pl.DataFrame:
        same = {"difference": 0.2, "low": 0.1, "high": 0.3, "n": 9, "paired": True, "how": "x", **more}
        return pl.DataFrame(
            [{"metric": name, "p": p_value, **same} for name, p_value in p.items()], schema=dict(CONTRASTS)
        )

    def sides(names: dict[str, bool]) -> pl.DataFrame:
        return pl.concat(
            [_finding(0.1, 0.01, **MORE_IS_WORSE, metric=name, key=key) for name, key in names.items()]
        )

    graded = pl.concat([_grades(name, **MORE_IS_WORSE) for name in ("m", "k")])
    not_key = {f"other{i}": False for i in range(100)}
    p = {"m": 0.04, **dict.fromkeys(not_key, 0.9)}

    def judged(names: dict[str, bool], table: pl.DataFrame) -> pl.DataFrame:
        return judged_differences(sides(names), sides(names), {"it": table}, graded)

    rows = judged({"m": True, **not_key}, contrasts(p)).filter(metric="m")
    assert rows.select("q", "verdict").row(0) == (pytest.approx(0.04), "worse")
    two = judged({"m": True, "k": True}, contrasts({"m": 0.04, "k": 0.9}))
    assert two.select("q", "verdict").rows() == [
        (pytest.approx(0.08), "inconclusive"),
        (pytest.approx(0.9), "inconclusive"),
    ]
    concepts = contrasts({"rate": 0.01}, concept="kind", group="female")
    third = judged({"m": True}, pl.concat([contrasts({"m": 0.04}), concepts]))
    assert third.filter(concept="kind").select("q", "verdict", "key").row(0) == (
        pytest.approx(0.01),
        None,
        False,
    )


def test_the_q_of_a_verdict_is_over_the_metrics_with_a_direction() -> None:
    """A metric without a better direction is not in the family of tests.

    The verdict depends on `change_q`, which is shown next to it.
    """
    no_direction = MORE_IS_WORSE | {"bands": None}
    sides = pl.concat(
        [_finding(0.1, 0.01, metric="m", **MORE_IS_WORSE), _finding(0.1, 0.01, metric="k", **no_direction)]
    )
    grades = pl.concat([_grades("m", **MORE_IS_WORSE), _grades("k", **no_direction)])
    same = {"difference": 0.2, "low": 0.1, "high": 0.3, "n": 9, "paired": True, "how": "x"}
    rows = pl.DataFrame(
        [{"metric": name, "p": p, **same} for name, p in {"m": 0.04, "k": 0.9}.items()],
        schema=dict(CONTRASTS),
    )
    differences = judged_differences(sides, sides, {"it": rows}, grades)
    comparison = Comparison({"run": "a", "model": "one"}, {"run": "b", "model": "other"}, differences)
    (table,) = [block for block in comparison.blocks() if isinstance(block, Table)]
    columns = {column.name: column.values for column in table.columns}
    assert columns["verdict"] == ["worse", "inconclusive: no direction is defined as better"]
    assert columns["q"] == [pytest.approx(0.08), pytest.approx(0.9)]
    assert columns["q of change"] == [pytest.approx(0.04), None]
