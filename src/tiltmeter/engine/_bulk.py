"""SQL that runs thousands of times a second: compiled once by SQLAlchemy for the database at hand, then given to its driver as it is.

Going through SQLAlchemy's execution for each row would cost four times what SQLite itself does with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from sqlalchemy import BindParameter, ClauseElement, Connection, Dialect, LargeBinary, bindparam
from sqlalchemy.engine import CursorResult

__all__ = ["ForKeys", "ManyRows"]

_SIZES: Final = (16, 128, 900)  # SQLite before 3.32 takes 999 parameters at most


class _Compiled:
    """Statement text in the driver's own way of writing parameters."""

    def __init__(self, statement: ClauseElement, dialect: Dialect) -> None:
        compiled: Any = statement.compile(dialect=dialect)
        self.sql = str(compiled)
        self.order: list[str] | None = compiled.positiontup

    def arrange(self, names: Sequence[str], values: Sequence[Any]) -> Any:
        """One set of values, given in the order of `names`, as the driver wants it."""
        if self.order is None or self.order == names:
            return tuple(values) if self.order is not None else dict(zip(names, values, strict=True))
        by_name = dict(zip(names, values, strict=True))
        return tuple(by_name[name] for name in self.order)


class ManyRows:
    """A statement run once for each of many rows; its parameters are called `names`, in the order in which rows hold them."""

    def __init__(self, statement: ClauseElement, names: Sequence[str], dialect: Dialect) -> None:
        self._names = list(names)
        self._compiled = _Compiled(statement, dialect)

    def run(self, connection: Connection, rows: Sequence[Sequence[Any]]) -> None:
        """Run for all `rows`."""
        if rows:
            connection.exec_driver_sql(self._compiled.sql, [self._compiled.arrange(self._names, row) for row in rows])


class ForKeys:
    """A statement about a set of keys of any size; `build` is given the parameters to put into its IN."""

    def __init__(self, build: Callable[[list[BindParameter[bytes]]], ClauseElement], dialect: Dialect) -> None:
        self._build, self._dialect = build, dialect
        self._compiled: dict[int, _Compiled] = {}

    def run(self, connection: Connection, keys: Sequence[bytes]) -> Iterator[CursorResult[Any]]:
        """Run for all `keys`, one result for every some hundred of them."""
        for start in range(0, len(keys), _SIZES[-1]):
            chunk = list(keys[start : start + _SIZES[-1]])
            size = next(size for size in _SIZES if size >= len(chunk))
            names = [f"k{number}" for number in range(size)]
            if size not in self._compiled:
                self._compiled[size] = _Compiled(self._build([bindparam(name, type_=LargeBinary) for name in names]), self._dialect)
            compiled = self._compiled[size]
            chunk += chunk[-1:] * (size - len(chunk))  # a few sizes only, so that texts are compiled and prepared once
            yield connection.exec_driver_sql(compiled.sql, compiled.arrange(names, chunk))
