"""Published results of other models, shown for comparison with those of a run."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from polars import DataFrame
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError

from tiltmeter._files.records import Filled
from tiltmeter._files.yaml import content_of
from tiltmeter.errors import InputError, check_known
from tiltmeter.probes._definitions import GENDERBENCH, PUBLISHED
from tiltmeter.probes._estimates import marks_between
from tiltmeter.probes._listing import PROBES
from tiltmeter.probes._metrics import Band, NamedMetric
from tiltmeter.schema import FINDINGS, GRADES, ITEMS_LIKE_THESE, conform

STRUCTURE: Final = '{"Probe.metric": {"ci95": {MODEL: [low, high]}, "marks": {MARK: [[low, high]]}}}'


def _ordered(ends: tuple[float, float]) -> tuple[float, float]:
    if ends[0] > ends[1]:
        raise ValueError("the smaller number must come first")
    return ends


Ends = Annotated[tuple[FiniteFloat, FiniteFloat], AfterValidator(_ordered)]


class PublishedMetric(BaseModel):
    """Intervals by model, and the ranges of values of each mark."""

    model_config = ConfigDict(strict=True)
    ci95: dict[str, Ends]
    marks: dict[Literal["healthy", "cautionary", "critical", "catastrophic"], list[Ends]] = Field(
        min_length=1
    )


def read_published(path: Path) -> dict[str, DataFrame]:
    """Read published intervals as findings, for comparison in a report.

    Parameters
    ----------
    path
        JSON file of GenderBench's leaderboard: for each metric ("JobsLum.masculine_rate"), `ci95` (model ->
        [low, high]) and `marks` (mark -> ranges of values).

    Returns
    -------
    Tables `findings` and `grades`, one row per metric and model, with the model name "MODEL (published)". The
    estimate is the midpoint of the interval, the mark is the best one whose range overlaps the interval (the
    rule of the publication), and `definition` is PUBLISHED. Source: GenderBench 1.1, report of the
    leaderboard.

    Raises
    ------
    InputError
        The file cannot be read, has the wrong structure, or names an unknown metric; the message names the
        place.
    """
    shape = TypeAdapter(Filled[dict[str, PublishedMetric]])
    try:
        content = shape.validate_json(content_of(path, "published results").removeprefix(BOM_UTF8))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise InputError(
            f"{path} does not contain published results: {where}: {first['msg']}; the expected structure is "
            f"{STRUCTURE}"
        ) from error
    rows = [row for column, published in content.items() for row in _rows_of_metric(path, column, published)]
    table = DataFrame(rows, schema_overrides={"bands": GRADES["bands"]}, infer_schema_length=None)
    return {"findings": conform(table, FINDINGS), "grades": conform(table, GRADES)}


def _rows_of_metric(path: Path, column: str, published: PublishedMetric) -> list[dict[str, Any]]:
    """Return the columns of FINDINGS and GRADES for one metric, one row per model."""
    class_name, _, metric_name = column.partition(".")
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", class_name).lower()
    try:
        probe = PROBES.load(name)
    except InputError as error:
        raise InputError(f"{path}: {column!r}: {error}") from error
    metrics = {metric.name: metric for metric in probe.metrics}
    check_known(metric_name, metrics, f"{path}: {column!r}: {name} has no metric {metric_name!r}")
    metric = metrics[metric_name]
    bands = [Band(mark, *ends) for mark, ranges in published.marks.items() for ends in ranges]
    shared: Mapping[str, Any] = {
        "study": probe.study,
        "part": name,
        **probe.under(GENDERBENCH).columns_of(NamedMetric(metric.name, metric, {})),
        "level": 0.95,
        "estimand": ITEMS_LIKE_THESE,
        "method": "as published",
        "definition": PUBLISHED,
        **probe.described(metric, bands),
    }
    rows = []
    for model, (low, high) in published.ci95.items():
        middle = (low + high) / 2
        marks = marks_between(bands, low, high)
        row = {
            **shared,
            "model": f"{model} ({PUBLISHED})",
            "estimate": middle,
            "low": low,
            "high": high,
            "normalised": metric.normalised(middle),
            "mark": marks[0] if marks else "ungraded",
        }
        rows.append(row)
    return rows
