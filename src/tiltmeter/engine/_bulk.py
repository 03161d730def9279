"""SQL that runs thousands of times a second: compiled once by SQLAlchemy for the database at hand, then given to its driver as it is.

Going through SQLAlchemy's execution for each row would cost four times what SQLite itself does with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final

from sqlalchemy import ClauseElement, Connection, Dialect

__all__ = ["ForKeys", "ManyRows"]

_SIZES: Final = (16, 128, 900)  # SQLite before 3.32 takes 999 parameters at most
_ALONE: Final = re.compile(r" IN \((\?|%\(keys\)s(?:::\w+)?)\)")


class ManyRows:
    """An INSERT of many rows; its parameters are called `names`, in the order in which rows hold them.

    Where the driver takes parameters by position (SQLite) some dozens of rows go into one statement: the driver gives up the
    interpreter's lock once a statement, and getting it back from a busy event loop takes longer than the insertion.
    """

    def __init__(self, statement: ClauseElement, names: Sequence[str], dialect: Dialect) -> None:
        compiled: Any = statement.compile(dialect=dialect)
        self._one, self._names = str(compiled), list(names)
        self._positional = compiled.positiontup is not None
        self._size = _SIZES[-1] // len(self._names)
        before, values, rest = self._one.partition(" VALUES ")
        row, end, after = rest.partition(")")
        self._many = before + values + ", ".join([row + end] * self._size) + after

    def run(self, connection: Connection, rows: Sequence[Sequence[Any]]) -> None:
        """Insert all `rows`."""
        if not self._positional:
            if rows:
                connection.exec_driver_sql(self._one, [dict(zip(self._names, row, strict=True)) for row in rows])
            return
        whole = len(rows) - len(rows) % self._size
        for start in range(0, whole, self._size):
            connection.exec_driver_sql(self._many, tuple(chain.from_iterable(rows[start : start + self._size])))
        if whole < len(rows):
            connection.exec_driver_sql(self._one, [tuple(row) for row in rows[whole:]])


class ForKeys:
    """A statement about a set of keys of any size; its one parameter, `keys`, stands alone in an IN.

    Widening the text ourselves is quick, where SQLAlchemy takes 40 ms to compile nine hundred parameters.
    """

    def __init__(self, statement: ClauseElement, dialect: Dialect) -> None:
        compiled: Any = statement.compile(dialect=dialect)
        self._positional = compiled.positiontup is not None
        found = _ALONE.search(str(compiled))
        assert found is not None
        self._before, self._slot, self._after = str(compiled)[: found.start(1)], found.group(1), str(compiled)[found.end(1) :]
        self._texts: dict[int, str] = {}

    def run(self, connection: Connection, keys: Sequence[bytes]) -> Iterator[Any]:
        """Run for all `keys`; one result (rows, where there are any) for every some hundred of them."""
        for start in range(0, len(keys), _SIZES[-1]):
            chunk = tuple(keys[start : start + _SIZES[-1]])
            size = next(size for size in _SIZES if size >= len(chunk))
            chunk += chunk[-1:] * (size - len(chunk))  # a few sizes only, so that the database prepares a few texts only
            if size not in self._texts:
                slots = ",".join(self._slot.replace("keys", f"keys{number}") for number in range(size))
                self._texts[size] = self._before + slots + self._after
            given: Any = chunk if self._positional else {f"keys{number}": key for number, key in enumerate(chunk)}
            yield connection.exec_driver_sql(self._texts[size], given)
