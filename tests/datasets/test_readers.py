"""Reading files as text, lines, tables and literals; nothing in them is ever run."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, strategies as st

from support.data_sources import SAMPLE, MakeLibrary, record
from tiltmeter.datasets import Library
from tiltmeter.datasets._library import read_literal
from tiltmeter.errors import InputError

Reader = Callable[[str, bytes], Library]


@pytest.fixture
def holding(library: MakeLibrary, tmp_path: Path) -> Reader:
    """A library that holds one file of the given content."""

    def make(name: str, data: bytes) -> Library:
        (tmp_path / name).write_bytes(data)
        return library(record(name, data), folders=[tmp_path])

    return make


def test_unknown_names_get_a_suggestion(holding: Reader) -> None:
    with pytest.raises(InputError, match=r"unknown data file 'word.csv': did you mean words\.csv\?"):
        holding("words.csv", SAMPLE).path("word.csv")


def test_tables_are_read_with_their_types(holding: Reader) -> None:
    assert holding("words.csv", SAMPLE).csv("words.csv").rows() == [("nurse", 0.2), ("smith", 0.8)]
    data = b"n\n" + b"1\n" * 500 + b"1.5\n"
    assert holding("n.csv", data).csv("n.csv")["n"].sum() == 501.5, "types are inferred from all rows"
    table = holding("a.jsonl", b'{"a": 1, "b": {"c": ["x", "y"]}}\n{"a": 2, "b": {"c": ["z"]}}\n').json_lines(
        "a.jsonl"
    )
    assert table.to_dicts() == [{"a": 1, "b": {"c": ["x", "y"]}}, {"a": 2, "b": {"c": ["z"]}}]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\r\ntwo", ["one", "two"]),
        (b"one\n\ntwo\n", ["one", "", "two"]),
        ("a\u2028b\u0085c\n".encode(), ["a\u2028b\u0085c"]),
        (b" one\t\ntwo ", [" one\t", "two "]),
    ],
)
def test_lines_of_a_file_are_read(holding: Reader, data: bytes, lines: list[str]) -> None:
    files = holding("a.txt", data)
    assert files.lines("a.txt") == lines
    assert files.lines("a.txt", strip=True) == [line.strip() for line in lines]


def test_used_files_are_remembered_in_order(library: MakeLibrary, tmp_path: Path) -> None:
    names = ["a.txt", "b.txt", "c.txt"]
    for name in names:
        (tmp_path / name).write_bytes(SAMPLE)
    files = library(*(record(name, SAMPLE) for name in names), folders=[tmp_path])
    for name in ("c.txt", "a.txt", "c.txt"):
        files.text(name)
    assert [entry.name for entry in files.used] == ["c.txt", "a.txt"]


EVIL = """
import pathlib
pathlib.Path({marker!r}).write_text("run")
def f(): return 1
safe = {{"a": [1, 2.5, None, True, ("x",)]}}
typed: list[int] = [1]
call = __import__("pathlib").Path({marker!r}).write_text("run")
formatted = f"{{safe}}"
comprehension = [x for x in range(9)]
attribute = safe.__class__
repeated = "a" * 10**9
"""


def test_only_literals_are_read_and_nothing_is_run(holding: Reader, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    files = holding("evil.py", EVIL.format(marker=str(marker)).encode())
    assert files.literal("evil.py", "safe") == {"a": [1, 2.5, None, True, ("x",)]}
    assert files.literal("evil.py", "typed") == [1]
    for variable in ("call", "formatted", "comprehension", "attribute", "repeated", "f"):
        with pytest.raises(
            InputError,
            match=rf"evil\.py does not assign a literal to '{variable}' .*Tiltmeter never executes data",
        ):
            files.literal("evil.py", variable)
    assert not marker.exists()


@pytest.mark.parametrize(
    "source", ["x = (", "x = \0", "x = " + "(" * 500 + ")" * 500, "x = " + "-" * 100_000 + "1"]
)
def test_a_file_that_is_no_python_is_refused(source: str) -> None:
    with pytest.raises(InputError, match=r"bad\.py"):
        read_literal(source, "bad.py", "x")


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=5), inner, max_size=4)
        | st.tuples(inner, inner)
    ),
    max_leaves=12,
)


@given(values)
def test_any_literal_comes_back_as_it_was(value: Any) -> None:
    assert read_literal(f"import os\nx = {value!r}\n", "any.py", "x") == value


@given(st.text())
def test_any_text_without_the_name_is_refused(source: str) -> None:
    assume("x" not in unicodedata.normalize("NFKC", source))  # as Python reads names
    with pytest.raises(InputError, match=r"any\.py"):
        read_literal(source, "any.py", "x")
