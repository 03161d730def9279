"""What a journal holds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, LargeBinary, cast, func, select

from tiltmeter.engine._schema import completions, meta, models, tables
from tiltmeter.engine.upkeep._living import Claimant, claimants
from tiltmeter.engine.upkeep._open import Place, opened_to_read, reading

__all__ = ["ModelStats", "Stats", "model_names", "size_on_disk", "stats"]


class ModelStats(NamedTuple):
    """What the journal holds of one model."""

    model: str
    """Its fingerprint: what answers are kept under."""
    name: str | None
    """What users call it, where the journal knows."""
    answers: int
    failed: dict[str, int]
    """Failures by kind, the most frequent first."""
    input_tokens: int
    output_tokens: int
    unmetered: int
    """Answers whose tokens are not known."""
    text_bytes: int
    """Of answers and thinking, in UTF-8."""
    first: float
    """When the oldest and the newest row were recorded, in seconds since 1970, UTC."""
    last: float


class Stats(NamedTuple):
    """What a journal holds."""

    journal: str
    schema: int
    answers: int
    failed: int
    size: int
    """Bytes on disk, with indexes and what is free inside; for an SQLite file also its -wal and -shm."""
    models: list[ModelStats]
    """The model with most rows first."""
    claimants: list[Claimant]


def stats(where: str | Path) -> Stats:
    """What the journal at a path or URL holds; one pass over it, added up in the database.

    Raises
    ------
    InputError
        There is no journal, or the database refuses.
    """
    with opened_to_read(where) as place, reading(place.engine) as connection:
        found = sorted(_models(connection), key=lambda one: (-one.answers - sum(one.failed.values()), one.model))
        schema = int(connection.execute(select(meta.c.value).where(meta.c.name == "schema")).scalar_one())
        working = claimants(connection)
        size = size_on_disk(place, connection)
    answers, failed = sum(one.answers for one in found), sum(sum(one.failed.values()) for one in found)
    return Stats(place.shown, schema, answers, failed, size, found, working)


def _models(connection: Connection) -> Iterator[ModelStats]:
    rows = connection.execute(_query(connection)).all()
    names = model_names(connection)
    for model, group in groupby(rows, key=lambda row: row.model):
        of_model = list(group)
        answered = [row for row in of_model if row.status == "ok"]
        failures = sorted((row for row in of_model if row.status != "ok"), key=lambda row: -row.number)
        yield ModelStats(
            model,
            names.get(model),
            answers=sum(row.number for row in answered),
            failed={row.error_kind or "unknown": row.number for row in failures},
            input_tokens=sum(int(row.input_tokens or 0) for row in of_model),
            output_tokens=sum(int(row.output_tokens or 0) for row in of_model),
            unmetered=sum(row.number - row.metered for row in answered),
            text_bytes=sum(int(row.bytes or 0) for row in of_model),
            first=min(row.first for row in of_model),
            last=max(row.last for row in of_model),
        )


def model_names(connection: Connection) -> dict[str, str]:
    """What users call the models, by fingerprint; nothing where the journal is older than its table of names."""
    if not connection.dialect.has_table(connection, models.name):
        return {}
    return {row.fingerprint: row.name for row in connection.execute(select(models.c.fingerprint, models.c.name))}


def _query(connection: Connection) -> Any:
    row = completions.c
    lengths = [func.coalesce(_bytes(column, connection.dialect.name), 0) for column in (row.text, row.thinking)]
    # OFFSET keeps the database from joining the two: SQLite would otherwise carry every text through its sorting.
    slim = (
        select(
            row.model, row.status, row.error_kind, row.input_tokens, row.output_tokens, row.created_at,
            (lengths[0] + lengths[1]).label("bytes"),
        )
        .offset(0)
        .subquery()
    )  # fmt: skip
    grouping = (slim.c.model, slim.c.status, slim.c.error_kind)
    return (
        select(
            *grouping,
            func.count().label("number"),
            func.count(slim.c.output_tokens).label("metered"),
            func.sum(slim.c.input_tokens).label("input_tokens"),
            func.sum(slim.c.output_tokens).label("output_tokens"),
            func.sum(slim.c.bytes).label("bytes"),
            func.min(slim.c.created_at).label("first"),
            func.max(slim.c.created_at).label("last"),
        )
        .group_by(*grouping)
        .order_by(slim.c.model)
    )


def _bytes(column: Any, dialect: str) -> Any:
    return func.length(cast(column, LargeBinary)) if dialect == "sqlite" else func.octet_length(column)


def size_on_disk(place: Place, connection: Connection) -> int:
    """Bytes that a journal takes, with what is free inside."""
    if place.file is None:
        return sum(int(connection.execute(select(func.pg_total_relation_size(table.name))).scalar_one()) for table in tables.sorted_tables)
    beside = [place.file.with_name(place.file.name + ending) for ending in ("", "-wal", "-shm")]
    return sum(path.stat().st_size for path in beside if path.exists())
