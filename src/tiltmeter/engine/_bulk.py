"""SQL that runs thousands of times a second: compiled once by SQLAlchemy for the database at hand, then given to its driver as it is.

Going through SQLAlchemy's execution for each row would cost four times what SQLite itself does with it. PostgreSQL gets its rows
and keys as whole columns (binary arrays), or by COPY where they are many.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final

from sqlalchemy import ClauseElement, Connection, Dialect, Engine, Table, event
from sqlalchemy.exc import DBAPIError

__all__ = ["ForKeys", "ManyRows", "by_keys", "many_rows"]

_SIZES: Final = (16, 128, 900)  # SQLite before 3.32 takes 999 parameters at most
_ARRAY: Final = 10_000
"""Keys in one array for PostgreSQL."""
_COPIED: Final = 1000
"""Rows from which on COPY is quicker than arrays, and worth a temporary table."""
_ALONE: Final = re.compile(r" IN \((\?|%\(keys\)s(?:::\w+)?)\)")


def by_keys(engine: Engine) -> None:
    """Tell PostgreSQL that rows are looked up by their keys: a plan it made for an empty journal would read all of a full one."""

    def tell(connection: Any, _record: object) -> None:
        connection.execute("SET enable_seqscan = off")
        connection.execute("SET jit = off")
        connection.commit()

    if engine.dialect.name == "postgresql":
        event.listen(engine, "connect", tell)


class ManyRows:
    """An INSERT of many rows into SQLite.

    Some dozens of rows go into one statement: the driver gives up the interpreter's lock once a statement, and getting it back
    from a busy event loop takes longer than the insertion.
    """

    def __init__(self, statement: ClauseElement, table: Table, dialect: Dialect) -> None:
        self._one = str(statement.compile(dialect=dialect))
        self._size = _SIZES[-1] // len(table.columns)
        before, values, rest = self._one.partition(" VALUES ")
        row, end, after = rest.partition(")")
        self._many = before + values + ", ".join([row + end] * self._size) + after

    def run(self, connection: Connection, rows: Sequence[Sequence[Any]]) -> None:
        """Insert all `rows`, each in the order of the table's columns."""
        whole = len(rows) - len(rows) % self._size
        for start in range(0, whole, self._size):
            connection.exec_driver_sql(self._many, tuple(chain.from_iterable(rows[start : start + self._size])))
        if whole < len(rows):
            connection.exec_driver_sql(self._one, [tuple(row) for row in rows[whole:]])


class _ManyRowsOfPostgres(ManyRows):
    """The same for PostgreSQL, where no key may come twice among the rows.

    Rows are inserted in the order of their keys, so that two writers never wait for each other in a circle.
    """

    def __init__(self, statement: ClauseElement, table: Table, dialect: Dialect) -> None:
        text = str(statement.compile(dialect=dialect))
        before, after = text[: text.index(" VALUES ")], text[text.index(" ON CONFLICT ") :]
        names = ", ".join(table.columns.keys())
        arrays = ", ".join(f"%(c{number})b::{column.type.compile(dialect)}[]" for number, column in enumerate(table.columns))
        order = " ORDER BY " + ", ".join(table.primary_key.columns.keys())
        self._incoming = f"incoming_{table.name}"
        self._from_arrays = f"{before} SELECT * FROM unnest({arrays}) AS given ({names}){order}{after}"  # noqa: S608 - names of our own
        self._from_copy = f"{before} SELECT {names} FROM {self._incoming}{order}{after}"  # noqa: S608 - names of our own
        self._make = f"CREATE TEMPORARY TABLE {self._incoming} (LIKE {table.name}) ON COMMIT DROP"
        self._copy = f"COPY {self._incoming} ({names}) FROM STDIN"

    def run(self, connection: Connection, rows: Sequence[Sequence[Any]]) -> None:
        """Insert all `rows`, each in the order of the table's columns."""
        if len(rows) >= _COPIED and _may_copy(connection):
            connection.exec_driver_sql(self._make)
            _copy(connection, self._copy, rows)
            connection.exec_driver_sql(self._from_copy)
            connection.exec_driver_sql(f"DROP TABLE {self._incoming}")
            return
        for start in range(0, len(rows), _COPIED):
            columns = zip(*rows[start : start + _COPIED], strict=True)
            connection.exec_driver_sql(self._from_arrays, {f"c{number}": list(column) for number, column in enumerate(columns)})


def many_rows(statement: ClauseElement, table: Table, dialect: Dialect) -> ManyRows:
    """`statement`, an INSERT into all columns of `table` with what follows on a conflict, for many rows."""
    return (ManyRows if dialect.name == "sqlite" else _ManyRowsOfPostgres)(statement, table, dialect)


def _may_copy(connection: Connection) -> bool:
    """Whether the user may make temporary tables, which not every administrator allows."""
    if "may_copy" not in connection.info:
        query = "SELECT has_database_privilege(current_database(), 'TEMPORARY')"
        connection.info["may_copy"] = connection.exec_driver_sql(query).scalar_one()
    return bool(connection.info["may_copy"])


def _copy(connection: Connection, statement: str, rows: Sequence[Sequence[Any]]) -> None:
    """COPY is not known to SQLAlchemy, so what it would do about an error has to be done here."""
    driver: Any = connection.connection.driver_connection
    try:
        with driver.cursor().copy(statement) as copy:
            for row in rows:
                copy.write_row(row)
    except connection.dialect.loaded_dbapi.Error as error:
        broken = bool(driver.closed)
        if broken:
            connection.invalidate(error)
        raise DBAPIError(statement, None, error, connection_invalidated=broken) from error


class ForKeys:
    """A statement about a set of keys of any size; its one parameter, `keys`, stands alone in an IN.

    Widening the text ourselves is quick, where SQLAlchemy takes 40 ms to compile nine hundred parameters.
    """

    def __init__(self, statement: ClauseElement, dialect: Dialect) -> None:
        text = str(statement.compile(dialect=dialect))
        found = _ALONE.search(text)
        assert found is not None
        self._before, self._after = text[: found.start()], text[found.end() :]
        self._sqlite = dialect.name == "sqlite"
        self._texts: dict[int, str] = {}

    def run(self, connection: Connection, keys: Sequence[bytes]) -> Iterator[Any]:
        """Run for all `keys`; one result (rows, where there are any) for every some hundred of them, or some thousand."""
        if not self._sqlite:
            text = f"{self._before} = ANY(%(keys)b::bytea[]){self._after}"
            for start in range(0, len(keys), _ARRAY):
                yield connection.exec_driver_sql(text, {"keys": list(keys[start : start + _ARRAY])})
            return
        for start in range(0, len(keys), _SIZES[-1]):
            chunk = tuple(keys[start : start + _SIZES[-1]])
            size = next(size for size in _SIZES if size >= len(chunk))
            chunk += chunk[-1:] * (size - len(chunk))  # a few sizes only, so that the database prepares a few texts only
            if size not in self._texts:
                self._texts[size] = f"{self._before} IN ({','.join('?' * size)}){self._after}"
            yield connection.exec_driver_sql(self._texts[size], chunk)
