"""Details of one probe: every metric, its method, and the most influential answers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from polars import DataFrame, col

from tiltmeter._quantities import interval, quantity
from tiltmeter.blocks import (
    Block,
    Column,
    Details,
    Kind,
    Response,
    Responses,
    Table,
    Text,
)
from tiltmeter.probes._headlines import Row, graded, plural
from tiltmeter.readers.outcomes import OUTCOMES

NUMBERS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(("metric", "group", "against", "model", "wording"), "name"),
    "estimate": "number",
    "interval": "interval",
    "these items": "interval",
    "as read": "number",
    "interval as read": "interval",
    "mark": "mark",
    **dict.fromkeys(("p", "q"), "probability"),
    **dict.fromkeys(("attempts", *OUTCOMES), "count"),
    "description": "text",
}
ORIGINS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(("metric", "group", "against", "model", "wording"), "name"),
    **dict.fromkeys(("estimand", "method", "note"), "text"),
    **dict.fromkeys(("command", "evidence"), "code"),
}
"""Columns of the tables about one probe, with their kinds."""
OF_ALL_MODELS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(("metric", "group", "against", "wording"), "name"),
    **dict.fromkeys(("description", "estimand", "method"), "text"),
    "evidence": "code",
}
"""Columns of the table of methods if there are more than MOST_MODELS models."""
MOST_MODELS: Final = 3
"""Maximum number of models for which all columns of every metric are shown; with more, there is one column
per model."""
ANSWERS_SHOWN: Final = 3
"""Number of most influential answers shown per metric."""
INFLUENCE: Final = (
    "Influence: change of the metric due to the answer's item (the metric minus its value without that item)."
)


def every_metric(part: str, findings: DataFrame, examples: DataFrame) -> Details:
    """Return all metrics of one probe, their methods, and the most influential answers of key metrics."""
    models = findings["model"].n_unique()
    several = models > 1
    many = models > MOST_MODELS
    ordered = sorted(
        findings.iter_rows(named=True),
        key=lambda row: (_natural(row["metric"]), row["attribute"] or "", row["wording"] is not None),
    )
    rows = [_cells(row, several) for row in ordered]
    blocks: list[Block] = []
    if many:
        by_method = {tuple(row[name] for name in OF_ALL_MODELS): row for row in rows}
        methods = _columns(list(by_method.values()), OF_ALL_MODELS, several)
        blocks += [_of_each_model(rows), Table("Methods", methods)]
    else:
        blocks.append(Table("Every metric", _columns(rows, NUMBERS, several)))
        blocks.append(Table("Methods", _columns(rows, ORIGINS, several)))
    of_part = examples.filter(col.wording.is_null(), part=part)
    answers = _influential_answers(rows, of_part, 1 if many else ANSWERS_SHOWN, several=several)
    if answers:
        blocks += [Text(INFLUENCE, small=True), *answers]
    numbers = findings.select("metric", "attribute", "group", "group_2").n_unique()
    return Details(f"{rows[0]['title']} ({part}): {plural(numbers, 'metric')}", blocks)


def _cells(row: Row, several: bool) -> Row:
    """Return a finding with the cells of the tables about one probe."""
    items = (row["low_items"], row["high_items"])
    interval_read = (row["low_read"], row["high_read"])
    return {
        **row,
        "against": row["group_2"],
        "interval": (row["low"], row["high"]),
        "these items": None if row["low_items"] is None else items,
        "as read": row["value_read"],
        "interval as read": None if row["low_read"] is None else interval_read,
        "mark": graded(row),
        "command": _command(row, several),
    }


def _influential_answers(
    rows: Sequence[Row], examples: DataFrame, number: int, *, several: bool
) -> list[Block]:
    """Return the most influential answers for each metric, at most `number` of each model."""
    fields = ("prompt", "answer", "outcome", "label", "influence", "prompt_id")
    keys = ("model", "metric", "group", "group_2")
    first = examples.group_by(keys, maintain_order=True).head(number)
    by_metric = first.partition_by(keys, as_dict=True)
    blocks: list[Block] = []
    for row in rows:
        answers = by_metric.get(tuple(row[name] for name in keys))
        if row["wording"] is None and answers is not None:
            of_model = f" of {row['model']}" if several else ""
            responses = [Response(*values) for values in answers.select(fields).iter_rows()]
            blocks.append(Responses(f"Most influential answers for {row['metric']}{of_model}", responses))
    return blocks


def _of_each_model(rows: Sequence[Row]) -> Table:
    """Return the estimates and intervals of every metric, with a column for each model."""
    keys = ("metric", "group", "against", "wording")
    cells = {(*(row[key] for key in keys), row["model"]): row for row in rows}
    names = list(dict.fromkeys(tuple(row[key] for key in keys) for row in rows))
    columns = [Column(key, [name[place] for name in names], "name") for place, key in enumerate(keys)]
    for model in dict.fromkeys(row["model"] for row in rows):
        values = [_number(cells.get((*name, model))) for name in names]
        columns.append(Column(model, values, "quantity", whole=True))
    return Table("Every metric", [column for column in columns if any(column.values)], lead=2)


def _number(row: Row | None) -> str | None:
    """Return an estimate with its interval as a text."""
    if row is None or row["estimate"] is None:
        return None
    low, high = row["low"], row["high"]
    unit = row["unit"]
    value = quantity(row["estimate"], low, high, unit)
    if low is None:
        return value
    return f"{value} ({interval(low, high, unit)})"


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts `rate_2` before `rate_10`."""
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in re.findall(r"\d+|\D+", name)]


def _command(row: Row, several: bool) -> str:
    """Return the command that shows the answers behind a number."""
    words = ["tiltmeter", "show", "RUN"]
    for name in ("metric", "part", "model", "group", "wording"):
        if row[name] and (several or name != "model"):
            words += [f"--{name}", row[name]]
    return shlex.join(words)


def _columns(rows: Sequence[Row], kinds: Mapping[str, Kind], several: bool) -> list[Column]:
    """Return the table columns, without empty ones, and without the model if there is only one."""
    columns = []
    for rank, (name, kind) in enumerate(kinds.items()):
        values = [row[name] for row in rows]
        has_value = any(value is not None for value in values)
        if has_value and (several or name != "model"):
            columns.append(Column(name, values, kind, rank))
    return columns
