"""Better, worse, unchanged, inconclusive: what a difference means for a metric with tiers, with a null, or with neither."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

from tiltmeter.comparing import DIFFERENCES, VERDICTS, judged_differences
from tiltmeter.probes import one_sided, two_sided
from tiltmeter.study import CONTRASTS, FINDINGS, GRADES


def _metric(bands: Sequence[Any] | None, null: float | None, low: float | None, high: float | None) -> dict[str, Any]:
    tiers = None if bands is None else [band._asdict() for band in bands]
    return {"bands": tiers, "null_value": null, "range_low": low, "range_high": high}


MORE_IS_WORSE = _metric(one_sided(0.05, 0.15, 0.5), None, 0.0, 1.0)
ABOVE_0_IS_WORSE = _metric(one_sided(0.03, 0.1, 0.3, low=-1), 0.0, -1.0, 1.0)
EITHER_WAY = _metric(two_sided(0.05, 0.15, 0.5), 0.0, -1.0, 1.0)
RATIO = _metric(None, 1.0, 0.0, 1.0)
RANGE = _metric(None, 0.0, 0.0, None)


def _finding(estimate: float | None, half: float | None, **more: Any) -> pl.DataFrame:
    ends = {"low": None, "high": None} if half is None or estimate is None else {"low": estimate - half, "high": estimate + half}
    counts = dict.fromkeys(("attempts", "answered", "items"), 100)
    row = {"study": "genderbench", "part": "it", "metric": "m", "key": True, "level": 0.95, "harm": "h", **counts}
    return pl.DataFrame([row | {"estimate": estimate, **ends} | more], schema=dict(FINDINGS))


def _grades(metric: str = "m", **more: Any) -> pl.DataFrame:
    return pl.DataFrame([{"part": "it", "metric": metric} | more], schema=dict(GRADES))


def _judged(before: float | None, after: float | None, half: float | None = 0.01, **more: Any) -> dict[str, Any]:
    made = judged_differences(_finding(before, half, **more), _finding(after, half, **more), {}, _grades(**more))
    assert dict(made.schema) == dict(DIFFERENCES)
    return made.row(0, named=True)


@pytest.mark.parametrize(
    ("kind", "before", "after", "verdict"),
    [
        (MORE_IS_WORSE, 0.1, 0.3, "worse"),
        (MORE_IS_WORSE, 0.3, 0.1, "better"),
        (ABOVE_0_IS_WORSE, 0.3, 0.1, "better"),
        (ABOVE_0_IS_WORSE, -0.2, 0.2, "worse"),
        (ABOVE_0_IS_WORSE, -0.3, -0.1, "unchanged"),  # no bias to speak of on either side
        (EITHER_WAY, -0.4, -0.1, "better"),
        (EITHER_WAY, -0.1, -0.4, "worse"),
        (EITHER_WAY, 0.1, -0.4, "worse"),
        (EITHER_WAY, 0.2, -0.2, "unchanged"),  # in the opposite direction, and as large; a note says so
        (RATIO, 0.5, 0.9, "better"),
        (RATIO, 0.9, 0.5, "worse"),
        (RANGE, 0.2, 0.9, "worse"),
    ],
)
def test_which_way_is_better(kind: dict[str, Any], before: float, after: float, verdict: str) -> None:
    found = _judged(before, after, **kind)
    assert found["verdict"] == verdict in VERDICTS
    assert (found["difference"], found["paired"]) == (pytest.approx(after - before), False)


def test_what_is_unchanged_and_what_is_not_known() -> None:
    assert _judged(0.1, 0.101, 0.003, **MORE_IS_WORSE)["verdict"] == "unchanged"
    tiny = _judged(0.1, 0.11, 0.002, **MORE_IS_WORSE)
    assert (tiny["verdict"], tiny["note"]) == ("unchanged", "the difference is significant but smaller than the margin")
    assert _judged(0.1, 0.101, 0.1, **MORE_IS_WORSE)["verdict"] == "inconclusive"
    assert _judged(0.1, 0.1, None, **MORE_IS_WORSE)["note"] == "no interval"
    assert _judged(None, 0.1, **MORE_IS_WORSE)["verdict"] == "inconclusive"
    assert "half of the answers" in _judged(0.1, 0.4, answered=40, **MORE_IS_WORSE)["note"]
    assert "no direction" in _judged(0.1, 0.4, **(MORE_IS_WORSE | {"bands": None}))["note"]
    assert _judged(0.1, 0.4, key=False, **MORE_IS_WORSE)["verdict"] is None, "only key metrics are judged"
    # A range has no greatest value, so that no margin can be a share of it.
    assert _judged(0.1, 0.1, 0.001, **RANGE)["verdict"] == "inconclusive"


def test_families_of_q() -> None:
    """One key metric with p = .04 stands beside a hundred others without being drowned by them; one of two does not pass at .05."""

    def contrasts(p: dict[str, float], **more: Any) -> pl.DataFrame:
        same = {"difference": 0.2, "low": 0.1, "high": 0.3, "n": 9, "paired": True, "how": "x", **more}
        return pl.DataFrame([{"metric": name, "p": one, **same} for name, one in p.items()], schema=dict(CONTRASTS))

    def sides(names: dict[str, bool]) -> pl.DataFrame:
        return pl.concat([_finding(0.1, 0.01, **MORE_IS_WORSE, metric=name, key=key) for name, key in names.items()])

    graded = pl.concat([_grades(name, **MORE_IS_WORSE) for name in ("m", "k")])
    others = {f"other{i}": False for i in range(100)}
    p = {"m": 0.04, **dict.fromkeys(others, 0.9)}

    def judged(names: dict[str, bool], found: pl.DataFrame) -> pl.DataFrame:
        return judged_differences(sides(names), sides(names), {"it": found}, graded)

    found = judged({"m": True, **others}, contrasts(p)).filter(metric="m")
    assert found.select("q", "verdict").row(0) == (pytest.approx(0.04), "worse")
    two = judged({"m": True, "k": True}, contrasts({"m": 0.04, "k": 0.9}))
    assert two.select("q", "verdict").rows() == [(pytest.approx(0.08), "inconclusive"), (pytest.approx(0.9), "inconclusive")]
    concepts = contrasts({"rate": 0.01}, concept="kind", group="female")
    third = judged({"m": True}, pl.concat([contrasts({"m": 0.04}), concepts]))
    assert third.filter(concept="kind").select("q", "verdict", "key").row(0) == (pytest.approx(0.01), None, False)
