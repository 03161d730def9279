"""Damage drawn from a seeded generator: of bytes, of values in JSON and YAML, of columns of tables."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable
from typing import Any

import polars as pl
import yaml

HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**53, -(2**63), 2**64, 10**40, 0.5, -0.0, 1e308, float("nan"),
    float("inf"), "", " ", "\0", "\x1b[31m", "a\nb", "\u202e", "\ud800", "x" * 5000, "é", "0", "1e999", "-1",
    "null", "yes", "{prompt}", "{nobody}", "../../etc", "a/b", "*", "$", "=1+1", "attachment://x",
    "br_a_cat_b", "<think>", "2024-99-99", [], {}, [[]], [None], {"": None}, {"a": {"b": {"c": []}}},
    ["a", 1, None], [{}], [[[[[[]]]]]], {"name": 1}, "a" * 70, "Emily", ["x"] * 300,
)  # fmt: skip
"""Values of every kind, among them those that readers forget."""
_BYTES = (
    b"\0", b"\xff", b"\xed\xa0\x80", b"\n", b"\r", b'"', b"'", b"{", b"}", b"[", b"]", b",", b":", b"\\",
    b"\x1b[2J", b"<", b"&a [*a]", b"\xef\xbb\xbf", b"- ", b"!!python/object:os.system ", b"? ", b"%",
    b"\\ud800", b"9" * 20, b"1e999", b"\t", b"|",
)  # fmt: skip


def mutated(data: bytes, kind: str, rng: random.Random) -> bytes:
    """Return `data` damaged one or more times: in its format where that is possible, else byte by byte."""
    makers: dict[str, Callable[[bytes, random.Random], bytes]] = {
        "json": _json, "jsonl": _jsonl, "yaml": _yaml, "csv": _csv, "parquet": _parquet, "zip": _zip,
    }  # fmt: skip
    maker = makers.get(kind)
    if maker is not None and rng.random() < 0.7:
        try:
            data = maker(data, rng)
        except (
            Exception,
            pl.exceptions.PanicException,
        ):  # it was damaged before, so that nothing can be made of it
            data = _raw(data, rng)
        if rng.random() < 0.8:
            return data
    return _raw(data, rng)


def _raw(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        at = rng.randrange(len(changed) + 1)
        much = rng.choice((1, 2, 4, 16, 64, 256))
        match rng.randrange(7):
            case 0 if changed:
                changed[at % len(changed)] ^= 1 << rng.randrange(8)
            case 1:
                del changed[at:]
            case 2:
                del changed[at : at + much]
            case 3:
                changed[at:at] = rng.choice(_BYTES) * rng.choice((1, 1, 1, 50))
            case 4:
                changed[at:at] = changed[max(0, at - much) : at] * rng.choice((1, 2, 40))
            case 5:
                changed[at : at + much] = rng.randbytes(much)
            case _:
                place = rng.randrange(len(changed) + 1)
                changed[at : at + much] = changed[place : place + much]
    return bytes(changed[:200_000])


def _damaged(value: Any, rng: random.Random) -> Any:
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        value = _changed(value, rng)
    return value


def _json(data: bytes, rng: random.Random) -> bytes:
    value = _damaged(json.loads(data), rng)
    return json.dumps(value, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def _jsonl(data: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines()
    at = rng.randrange(len(lines))
    lines[at] = _json(lines[at], rng)
    return b"\n".join(lines)


def _yaml(data: bytes, rng: random.Random) -> bytes:
    value = _damaged(yaml.safe_load(data), rng)
    return yaml.safe_dump(
        value, allow_unicode=rng.random() < 0.5, default_flow_style=rng.random() < 0.3
    ).encode("utf-8", "surrogatepass")


def _changed(value: Any, rng: random.Random) -> Any:
    """Replace, remove, double, rename or wrap one value of it."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        by_name = dict(value)
        match rng.randrange(8):
            case 0:
                del by_name[key]
            case 1:
                new_key = rng.choice([value for value in HOSTILE if not isinstance(value, list | dict)])
                by_name = {(new_key if name == key else name): entry for name, entry in value.items()}
            case 2:
                by_name[rng.choice(("extra", "", "\x1b", key if not isinstance(key, str) else key + "s"))] = (
                    rng.choice(HOSTILE)
                )
            case _:
                by_name[key] = _changed(value[key], rng)
        return by_name
    if isinstance(value, list) and value and rng.random() < 0.85:
        at = rng.randrange(len(value))
        match rng.randrange(6):
            case 0:
                return value[:at] + value[at + 1 :]
            case 1:
                return value[: at + 1] + value[at:]
            case _:
                return [*value[:at], _changed(value[at], rng), *value[at + 1 :]]
    match rng.randrange(8):
        case 0:
            return [value]
        case 1:
            return {"a": value}
        case 2 if isinstance(value, str):
            at = rng.randrange(len(value) + 1)
            return (
                value[:at]
                + rng.choice([hostile for hostile in HOSTILE if isinstance(hostile, str)])
                + value[at:]
            )
        case _:
            return rng.choice(HOSTILE)


_TYPES: tuple[Any, ...] = (
    pl.Int8, pl.Int64, pl.UInt64, pl.Float32, pl.Float64, pl.Boolean, pl.Binary, pl.Date, pl.Datetime,
    pl.Duration, pl.Time, pl.Null, pl.Categorical, pl.Decimal(10, 2), pl.List(pl.String), pl.List(pl.Int64),
    pl.Struct({"a": pl.String}), pl.Array(pl.String, 2), pl.String,
)  # fmt: skip


def _table(table: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    name = rng.choice(table.columns)
    match rng.randrange(9):
        case 0:
            return table.drop(name)
        case 1:
            columns = (
                "",
                " ",
                "\x1b[1m",
                name + "s",
                name.upper(),
                "x" * 3000,
                "row",
                "model",
                "text",
                "status",
            )
            return table.rename({name: rng.choice(columns)})
        case 2:
            return table.head(rng.choice((0, 1)))
        case 3:
            return pl.concat([table, table])
        case 4:
            return table.with_columns(pl.lit(None).cast(rng.choice(_TYPES)).alias(name))
        case 5:
            return table.with_columns(pl.col(name).cast(rng.choice(_TYPES), strict=False))
        case 6:
            return table.reverse().with_columns(pl.col(name).shift(1))
        case _:
            at = rng.randrange(max(1, table.height))
            value = rng.choice(
                [hostile for hostile in HOSTILE if isinstance(hostile, str | int | float | None)]
            )
            values = table[name].to_list()
            if values:
                values[at] = value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
            return table.with_columns(pl.Series(name, values, strict=False))


def _csv(data: bytes, rng: random.Random) -> bytes:
    return (
        _table(pl.read_csv(io.BytesIO(data), infer_schema=False), rng)
        .write_csv()
        .encode("utf-8", "surrogatepass")
    )


def _parquet(data: bytes, rng: random.Random) -> bytes:
    table = _table(pl.read_parquet(io.BytesIO(data)), rng)
    target = io.BytesIO()
    table.write_parquet(target, statistics=rng.random() < 0.5)
    return target.getvalue()


def _zip(data: bytes, rng: random.Random) -> bytes:
    target = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as archive,
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as damaged,
    ):
        names = archive.namelist()
        chosen = rng.choice(names)
        for name in names:
            inner = archive.read(name)
            if name == chosen:
                match rng.randrange(6):
                    case 0:
                        continue
                    case 1:
                        name = rng.choice(("samples/x.json", "samples/\x1b.json", "header.json", "../x"))
                    case _:
                        inner = _json(inner, rng) if rng.random() < 0.8 else _raw(inner, rng)
            damaged.writestr(name, inner)
    return target.getvalue()
