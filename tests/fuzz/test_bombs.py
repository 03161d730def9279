"""Small files of very large contents: refused, or read, within seconds and a few hundred megabytes."""

from __future__ import annotations

import io
import json
import zipfile
from functools import cache
from itertools import product
from pathlib import Path

import polars as pl
import pytest

from support.fuzzing import TARGETS, Target, examine

pytestmark = pytest.mark.verify


_OF_KIND = {
    kind: [name for name, target in TARGETS.items() if target.kind == kind]
    for kind in ("json", "yaml", "csv", "parquet", "zip")
}


def _laughs() -> bytes:
    """Nine lists of nine aliases each: nine to the ninth when written out."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    return "\n".join(lines).encode()


def _under(key: str) -> bytes:
    return _laughs() + f"\n{key}: *a8\n".encode()


YAML = {
    "aliases": _laughs(),
    "aliases in a study": _under("study") + b"parts: *a8\nparams: {a: *a8}\n",
    "aliases in a grid": _under("categories") + b"locations: {a: *a8}\n",
    "aliases in a benchmark": _under("concepts") + b"name: *a8\ndomain: d\n",
    "an alias of itself": b"study: &a [*a]\ncategories: *a\nmodels: *a\n"
    b"name: *a\nidentities: *a\nroles: *a\n",
    "itself as a mapping": b"&a\nstudy: x\nmodels: *a\nChad: *a\ncategories: *a\nidentities: *a\n",
    "deep": b"[" * 100_000,
    "deep, closed": b"study: " + b"[" * 900 + b"]" * 900,
    "a whole number without end": b"study: " + b"9" * 100_000,
    "a date that is none": b"study: 2024-99-99\nmodels: 2024-99-99\n",
    "a number in base 16 that is none": b"study: 0x_\nmodels: 0x_\n",
    "merged": b"a: &a {x: 1}\nstudy: {<<: [" + b"*a," * 400 + b"*a]}\n",
    "long": b"study: " + b"x" * 100_000,
    "many keys": b"\n".join(b"k%d: 1" % i for i in range(800)),
    "a tag": b"study: !!python/object/apply:os.system ['true']",
    "two documents": b"study: a\n---\nstudy: b\n",
}
JSON = {
    "deep": b"[" * 100_000,
    "deep, closed": b"[" * 5_000 + b"]" * 5_000,
    "deep objects": b'{"a":' * 50_000,
    "a whole number without end": b'{"choices": ' + b"9" * 100_000 + b"}",
    "a long text": b'{"a": "' + b"x" * 500_000 + b'"}',
    "many keys": json.dumps({f"k{i}": i for i in range(10_000)}).encode(),
    "many lists": b"[" + b"[]," * 50_000 + b"[]]",
    "quotation marks": b'{"' + b'\\"' * 200_000,
    "infinite": b'{"a": Infinity, "b": -Infinity, "c": NaN, "d": 1e999}',
}


def _table(columns: int) -> bytes:
    return (",".join(f"c{i}" for i in range(columns)) + "\n" + ",".join("1" * columns) + "\n").encode()


CSV = {
    "very many columns": _table(5_000),
    "one long line": b"prompt,answer\n" + b"x" * 1_000_000,
    "one long quoted text": b'prompt,answer\n"' + b"x\n" * 100_000,
    "lines of nothing": b"prompt,answer\n" + b"\n" * 100_000,
    "commas": b"," * 5_000 + b"\n" + b"," * 5_000,
}


def _claiming() -> bytes:
    """A table whose metadata say that it has 2^31 - 1 rows (100 is C8 01 in them)."""
    target = io.BytesIO()
    pl.DataFrame({"prompt": ["a"] * 100, "answer": ["b"] * 100, "prompt_id": ["p"] * 100}).write_parquet(
        target, compression="uncompressed"
    )
    archive = target.getvalue()
    footer = archive.rindex(b"\x19\x4c") if b"\x19\x4c" in archive else len(archive) // 2
    return archive[:footer] + archive[footer:].replace(b"\xc8\x01", b"\xfe\xff\xff\xff\x0f")


PARQUET = {
    "rows that are not there": _claiming(),
    "nothing": b"",
    "no metadata": b"PAR1" + b"\0" * 1000 + b"PAR1",
    "a footer longer than the file": b"PAR1" + b"\0" * 100 + b"\xff\xff\xff\x7fPAR1",
}


def _zip_of(*members: tuple[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return target.getvalue()


@cache
def _cases() -> list[tuple[str, str, bytes]]:
    blanks = _zip_of(("header.json", b'{"eval": {"model": "m"}}'), ("samples/1.json", b" " * 300 * 2**20))
    many = _zip_of(*((f"samples/{i}.json", b"{}") for i in range(1_500)))
    zips = {"300 megabytes of blanks": blanks, "many members": many, "empty": b"PK\x05\x06" + b"\0" * 18}
    bombs = {"json": JSON, "yaml": YAML, "csv": CSV, "parquet": PARQUET, "zip": zips}
    cases = []
    for kind, names in _OF_KIND.items():
        for name, (bomb, content) in product(names, bombs[kind].items()):
            cases.append((name, bomb, content))
    return cases


@pytest.mark.parametrize("name", sorted({name for names in _OF_KIND.values() for name in names}))
def test_a_small_file_of_very_large_contents_is_bounded(name: str, tmp_path: Path) -> None:
    target: Target = TARGETS[name]
    for number, (_, bomb, data) in enumerate(case for case in _cases() if case[0] == name):
        folder = tmp_path / str(number)
        folder.mkdir()
        finding = examine(target, data, folder)
        assert finding is None, f"{bomb}: {finding}"
