"""Rows computed from texts are cached, by several processes, and never read from a file of another kind."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from support.programs import start_code
from tiltmeter.errors import InputError
from tiltmeter.models._text_models import RowCache, TextStore, text_keys


def lengths(texts: Sequence[str], batch_size: int) -> NDArray[np.float32]:
    return np.array(
        [[len(text), len(text.encode("utf-8", "surrogatepass")), 0.1] for text in texts], dtype=np.float32
    )


def refused(texts: Sequence[str], batch_size: int) -> NDArray[np.float32]:
    raise AssertionError(f"computed again: {texts}")


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=4), max_size=30))
def test_rows_come_in_order_whatever_the_texts(texts: list[str]) -> None:
    rows = RowCache("m", lengths, None, 4).rows(texts)
    assert (rows.shape, str(rows.dtype)) == ((len(texts), 3), "float32")
    if texts:
        assert (rows == lengths(texts, 4)).all()


def test_each_text_is_computed_once_by_each_model(tmp_path: Path) -> None:
    path = tmp_path / "in" / "a folder" / "kept.sqlite"
    texts = ["a", "bb", "a", "\ud800", "", "ü"]
    first = RowCache("m", lengths, path, 2).rows(texts)
    assert (RowCache("m", refused, path, 2).rows(texts[::-1]) == first[::-1]).all()
    for model, text in (("m", [*texts, "new"]), ("other", ["a"])):
        with pytest.raises(AssertionError, match="computed again"):
            RowCache(model, refused, path, 2).rows(text)


def test_longer_texts_come_first_and_batches_shrink_to_what_fits() -> None:
    batches: list[tuple[list[str], int]] = []

    def tight(texts: Sequence[str], batch_size: int) -> NDArray[np.float32]:
        batches.append((list(texts), batch_size))
        if batch_size > 2:
            raise RuntimeError("CUDA out of memory")
        return lengths(texts, batch_size)

    cache = RowCache("m", tight, None, 8)
    assert (cache.rows(["a", "ccc", "bb"]) == lengths(["a", "ccc", "bb"], 1)).all()
    assert batches == [(["ccc", "bb", "a"], size) for size in (8, 4, 2)]
    cache.rows(["d"])
    assert batches[-1] == (["d"], 2)


def test_an_interruption_costs_the_last_chunk_only(tmp_path: Path) -> None:
    texts = [f"{number:05}" for number in range(10_000)]
    path, done = tmp_path / "kept.sqlite", 0

    def interrupted(texts: Sequence[str], batch_size: int) -> NDArray[np.float32]:
        nonlocal done
        if done:
            raise KeyboardInterrupt
        done = len(texts)
        return lengths(texts, batch_size)

    with pytest.raises(KeyboardInterrupt):
        RowCache("m", interrupted, path, 2).rows(texts)
    assert len(list(TextStore(path).read(text_keys("m", texts)))) == done > 1000


@pytest.mark.parametrize(
    "content", [b"just some text, long enough to be read " * 50, b"SQLite format 3\0" + b"\xff" * 4000]
)
def test_a_file_that_is_something_else_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "kept.sqlite"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"kept\.sqlite cannot be used .*: remove the file"):
        RowCache("m", lengths, path, 2).rows(["a"])
    assert path.read_bytes() == content


def test_another_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "kept.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE mine (a)")
    for use in (lambda: list(TextStore(path).read([b"k"])), lambda: TextStore(path).write([(b"k", b"v")])):
        with pytest.raises(InputError, match="is a database of another program"):
            use()


def test_rows_of_different_length_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "kept.sqlite"
    TextStore(path).write(zip(text_keys("m", ["a", "b"]), (b"\0" * 12, b"\0" * 8), strict=True))
    with pytest.raises(InputError, match="rows of different lengths"):
        RowCache("m", lengths, path, 2).rows(["a", "b"])


def test_a_cache_in_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be used"):
        TextStore(tmp_path / "file" / "kept.sqlite").write([(b"k", b"v")])


WRITER = """
    import sys
    from pathlib import Path
    from tiltmeter.models._text_models import TextStore
    store = TextStore(Path(sys.argv[1]))
    for start in range(0, 2000, 100):
        store.write((f"{number}".encode(), b"v" * 40) for number in range(start, start + 150))
    print(sum(1 for _ in store.read([f"{number}".encode() for number in range(2050)])))
"""


def test_several_processes_share_a_file(tmp_path: Path) -> None:
    running = [start_code(WRITER, tmp_path / "kept.sqlite") for _ in range(4)]
    assert [process.communicate(timeout=60)[0] for process in running] == ["2050\n"] * 4


def test_many_rows_are_kept_in_seconds(tmp_path: Path) -> None:
    store, keys = (
        TextStore(tmp_path / "kept.sqlite"),
        text_keys("m", [str(number) for number in range(20_000)]),
    )
    begun = time.process_time()
    store.write((key, b"v" * 1536) for key in keys)
    assert sum(1 for _ in store.read(keys)) == 20_000
    assert time.process_time() - begun < 6
