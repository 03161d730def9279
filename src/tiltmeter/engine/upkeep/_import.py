"""Taking rows of a file or of another journal into a journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy.engine import make_url

from tiltmeter._paths import is_file
from tiltmeter._text import redacted
from tiltmeter.engine._journal import open_journal
from tiltmeter.engine._row import Row
from tiltmeter.engine.upkeep._export import LINES, PARQUET
from tiltmeter.engine.upkeep._open import file_of, opened_to_read, reading, said
from tiltmeter.engine.upkeep._reading import lines_tables, parquet_tables
from tiltmeter.engine.upkeep._rows import BATCH, batches
from tiltmeter.engine.upkeep._rules import row_problems
from tiltmeter.engine.upkeep._stats import model_names
from tiltmeter.errors import InputError

__all__ = ["Imported", "import_rows"]

_SQLITE = b"SQLite format 3\0"


class _Source(NamedTuple):
    """Where rows come from."""

    batches: Callable[[], Iterator[Sequence[Any]]]
    """Gives the rows, checked, from the beginning at each call."""
    names: dict[str, str]
    """What users call the models, by fingerprint."""


class Imported(NamedTuple):
    """What became of an import."""

    rows: int
    """Read."""
    answers: int
    """More in the journal than before (a run at work on it meanwhile adds its own)."""
    failed: int
    """More failures than before; fewer, where answers took their place."""


def import_rows(source: str | Path, journal: str | Path) -> Imported:
    """Take the rows of `source` into a journal, which is made when it is missing.

    An answer already there is never replaced, a failure is. Every row is checked before the first is taken in. Rows are taken in
    in batches, each of them a transaction: a run may be at work on the journal meanwhile, and what was cut off is done again to
    the same effect. The memory needed does not depend on the number of rows.

    Parameters
    ----------
    source
        NAME.parquet or NAME.jsonl as `export_rows` writes them, an SQLite journal, or the URL of a journal.

    Raises
    ------
    InputError
        The source cannot be read or holds a row that no journal can hold (named); or the journal cannot be written.
    """
    with _opened(source, journal) as found:
        for _ in found.batches():  # all of it is checked before anything is written
            pass
        with open_journal(journal) as target:
            before, rows = target.counts(), 0
            for batch in found.batches():
                target.record([Row._make(row) for row in batch])
                rows += len(batch)
            for fingerprint, name in found.names.items():
                target.name_model(fingerprint, name)
            after = target.counts()
    return Imported(rows, after["ok"] - before["ok"], after["failed"] - before["failed"])


@contextmanager
def _opened(source: str | Path, journal: str | Path) -> Iterator[_Source]:
    if not ("://" in str(source) or _is_sqlite(Path(source))):
        path = Path(source)
        tables = {**dict.fromkeys(PARQUET, parquet_tables), **dict.fromkeys(LINES, lines_tables)}.get(path.suffix.lower())
        if not is_file(path):
            raise InputError(f"cannot import {redacted(str(source))}: there is no such file")
        if tables is None:
            raise InputError(f"{path}: neither a journal nor a file that ends in .parquet or .jsonl")
        yield _Source(lambda: (frame.rows() for frame in tables(path)), {})
        return
    if _same(source, journal):
        raise InputError("the journal to import from and the one to import into are the same; give another with --journal")
    with opened_to_read(source) as place:
        with reading(place.engine) as connection:
            problems = row_problems(connection)
            names = model_names(connection)
        if any(problem.example is not None for problem in problems):
            said_of = "; ".join(f"{problem.number:,} {problem.what}" for problem in problems)
            raise InputError(f"journal {place.shown}: {said_of}; run tiltmeter journal check --repair on it first; nothing was imported")

        def rows() -> Iterator[Sequence[Any]]:
            with said(place.shown), reading(place.engine, batch=BATCH) as connection:
                yield from batches(connection)

        yield _Source(rows, names)


def _is_sqlite(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def _same(source: str | Path, journal: str | Path) -> bool:
    one, other = file_of(source), file_of(journal)
    if one is not None and other is not None:
        return one.exists() and other.exists() and one.samefile(other)
    if one is not None or other is not None:
        return False
    places = [make_url(str(where)) for where in (source, journal)]
    return len({(url.host, url.port, url.database) for url in places}) == 1
