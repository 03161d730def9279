"""What is wrong with the rows of a journal, asked of its database."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, case, delete, func, not_, or_, select

from tiltmeter.engine._schema import claims, completions, owners
from tiltmeter.engine.upkeep._rows import COLUMNS, LARGEST_NUMBER, LONGEST_TEXT

__all__ = ["Problem", "remove_bad_rows", "row_problems"]


class Problem(NamedTuple):
    """One thing that is wrong with a journal."""

    what: str
    number: int
    """Of rows, or of places in the file."""
    example: str | None = None
    """The key (hex) of one such row, or what the database said."""


def _rules(dialect: str) -> dict[str, Any]:
    row = completions.c
    # In SQLite any column can hold anything.
    wrong_key = func.length(row.key) != 32
    rules: dict[str, Any] = {
        "rows whose key is not 32 bytes": or_(wrong_key, func.typeof(row.key) != "blob") if dialect == "sqlite" else wrong_key,
        "rows without a model": row.model == "",
        "rows whose status is neither ok nor failed": row.status.not_in(["ok", "failed"]),
        "answers that hold nothing": and_(
            row.status == "ok", row.text.is_(None), row.thinking.is_(None), row.refusal.is_(None), row.finish_reason.is_(None)
        ),
        "rows without a time": not_(and_(row.created_at >= 0, row.created_at < 1e300)),
        "rows with a number out of bounds": or_(
            row.latency < 0, *(not_(row[name].between(0, LARGEST_NUMBER)) for name in COLUMNS if str(row[name].type) == "INTEGER")
        ),
        "rows with a text out of bounds": or_(func.length(row.text) > LONGEST_TEXT, func.length(row.thinking) > LONGEST_TEXT),
    }
    if dialect == "sqlite":
        kinds = {"INTEGER": "integer", "FLOAT": "real", "TEXT": "text", "VARCHAR(8)": "text"}
        rules["rows with a value of the wrong kind"] = or_(
            *(func.typeof(row[name]).not_in([kinds[str(row[name].type)], "null"]) for name in COLUMNS if name != "key")
        )
    return rules


def row_problems(connection: Connection) -> list[Problem]:
    """What is wrong with the rows, found in one pass over them; and claims that belong to no run."""
    rules = _rules(connection.dialect.name)
    counted = select(*(func.sum(case((rule, 1), else_=0)).label(f"r{number}") for number, rule in enumerate(rules.values())))
    counts = connection.execute(counted.select_from(completions)).one()
    found = []
    for (what, rule), count in zip(rules.items(), counts, strict=True):
        if count:
            key = connection.execute(select(completions.c.key).where(rule).limit(1)).scalar_one()
            found.append(Problem(what, int(count), key.hex() if isinstance(key, bytes) else repr(key)))
    orphans = connection.execute(select(func.count()).select_from(claims).where(_orphan())).scalar_one()
    return [*found, Problem("claims that belong to no run", int(orphans))] if orphans else found


def remove_bad_rows(connection: Connection) -> int:
    """Remove the rows that `row_problems` finds, which no run can use, and the claims of nobody; gives how many rows went."""
    connection.execute(delete(claims).where(_orphan()))
    return connection.execute(delete(completions).where(or_(*_rules(connection.dialect.name).values()))).rowcount


def _orphan() -> Any:
    return claims.c.owner.not_in(select(owners.c.owner))
