"""From a file a user wrote, built or has from SAGED to a benchmark."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import polars as pl

from tiltmeter.benchmarks._tables import BENCHMARK
from tiltmeter.benchmarks.files._raw import Raw, first_line, read_raw
from tiltmeter.benchmarks.files._saged import is_tier, paired, tier_prompts
from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean

__all__ = ["read_benchmark"]

TABLE = "benchmark.parquet"
"""The benchmark in a folder that `tiltmeter build` filled."""
_ALIASES = {
    "concept": ("category", "group"),
    "prompt": ("prompts", "question", "questions"),
    "baseline": ("original_answer",),
    "keyword_in_prompt": ("keywords_containment",),
}
"""What SAGED's files call a column, or a user might."""
_ALMOST = 0.85
"""Likeness from which a further column is taken for a misspelt one; "baselines" reaches 0.94, "target" and "source_tag" 0.5."""
_MISSPELT = 0.6
"""Likeness from which a column may be meant for a needed one; "prompt" and "group" reach 0.55."""
_YES, _NO = ("true", "1", "yes"), ("false", "0", "no")


def read_benchmark(path: str | Path, *, strict: bool = True) -> pl.DataFrame:
    """A benchmark with the columns BENCHMARK, in the order of the file.

    Parquet, CSV or JSON (a list of rows, or one row a line). Only `concept` and `prompt` must be there: `key` is then the number of
    the row, `root` the row itself, `kind` "given". Further columns are let go. Also read: the folder `tiltmeter build` filled,
    SAGED's tiers (see `_saged`), and a JSON object of prompts by concept (`{"Chad": ["...", ...]}`) or by concept and keyword.

    Parameters
    ----------
    strict
        False: rows without concept or prompt and keys that stand twice are let through, for `check_benchmark` to report.

    Raises
    ------
    InputError
        The file cannot be read, lacks a needed column, or a row cannot be used: file, row and column are named.
    """
    path = Path(path)
    if path.is_dir():
        if not (path / TABLE).is_file():
            raise InputError(f"the folder {path} holds no {TABLE}; give the file of the benchmark, or finish tiltmeter build")
        path = path / TABLE
    raw = read_raw(path)
    if not isinstance(raw, Raw):
        raw = Raw(_from_json(path, raw), 1)
    named = _named(path, raw.table)
    table = _typed(path, named, raw.first)
    if named["key"].is_null().all() and table["source_tag"].str.contains("^br_.*_cat_").any():
        table = paired(table)
    table = _complete(table)
    if strict:
        _refuse(path, table, raw.first)
    return table.select(list(BENCHMARK))


def _from_json(path: Path, loaded: list[Any] | dict[str, Any]) -> pl.DataFrame:
    rows: list[Any]
    if is_tier(loaded):
        rows = tier_prompts(path, loaded)
    elif isinstance(loaded, dict):
        rows = [row for concept, given in loaded.items() for row in _of_concept(path, concept, given)]
    else:
        rows = loaded
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise InputError(f"{path}: row {number} is not an object such as {{'concept': ..., 'prompt': ...}}")
        if wrong := next((name for name, value in row.items() if isinstance(value, (list, dict))), None):
            raise InputError(f"{path}: row {number}, column {wrong!r} holds a list or an object, not text; give the text itself")
    columns = dict.fromkeys(name for row in rows for name in row)
    texts = [{name: value if value is None or isinstance(value, str) else str(value) for name, value in row.items()} for row in rows]
    return pl.DataFrame(texts, schema=dict.fromkeys(columns, pl.String))


def _of_concept(path: Path, concept: str, given: object) -> list[dict[str, Any]]:
    by_keyword = given if isinstance(given, dict) else {None: given}
    rows = []
    for keyword, prompts in by_keyword.items():
        if not isinstance(prompts, list) or not all(isinstance(one, str) for one in prompts):
            raise InputError(f"{path}: {concept} must hold a list of prompts, or such a list for each keyword, found {str(prompts)[:60]}")
        rows += [{"concept": concept, "keyword": keyword, "prompt": prompt} for prompt in prompts]
    return rows


def _named(path: Path, table: pl.DataFrame) -> pl.DataFrame:
    """The columns by our names; raises InputError for a needed one that is not there and for one that looks misspelt."""
    if {"concept", "category"} <= set(table.columns) and "domain" not in table.columns:
        table = table.rename({"category": "domain"})
    used = set()
    given = table.columns
    for name, aliases in _ALIASES.items():
        if name not in table.columns and (found := next((alias for alias in aliases if alias in table.columns), None)):
            table = table.rename({found: name})
            used.add(found)
    for name in ("concept", "prompt"):
        if name not in table.columns:
            raise InputError(f"{path} has no column {name!r} ({did_you_mean(name, given, _MISSPELT) if given else 'it has none'})")
    for extra in (name for name in table.columns if name not in BENCHMARK):
        if close := difflib.get_close_matches(extra.lower(), [name for name in BENCHMARK if name not in table.columns], 1, _ALMOST):
            raise InputError(f"{path}: unknown column {extra!r}: did you mean {close[0]}? (another column may have any other name)")
    if "kind" not in table.columns and used & {"prompts", "questions"}:  # SAGED's two kinds are told by the name of the column
        table = table.with_columns(kind=pl.lit("question" if "questions" in used else "continuation"))
    absent = [pl.lit(None, pl.String).alias(name) for name in BENCHMARK if name not in table.columns]
    return table.with_columns(absent).select(list(BENCHMARK))


def _typed(path: Path, table: pl.DataFrame, first: int) -> pl.DataFrame:
    """Columns of their types; blank texts are null, prompt and baseline keep their outer spaces."""
    for name, kind in table.schema.items():
        if kind.is_nested() or kind == pl.Binary:
            raise InputError(f"{path}: the column {name!r} holds {kind}, not text; give the text itself")
    try:
        texts = table.with_columns(pl.all().cast(pl.String))
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path} cannot be read as text: {first_line(error)}") from error
    texts = texts.with_columns(pl.when(pl.all().str.strip_chars() != "").then(pl.all()))
    texts = texts.with_columns(pl.exclude("prompt", "baseline").str.strip_chars())
    said = pl.col("keyword_in_prompt").str.to_lowercase()
    read = texts.with_columns(
        keyword_in_prompt=pl.when(said.is_in(_YES)).then(True).when(said.is_in(_NO)).then(False),
        position=pl.col("position").str.replace(r"\.0$", "").cast(pl.Int32, strict=False),
    )
    for name, expected in (("keyword_in_prompt", "true or false"), ("position", "a whole number")):
        wrong = (texts[name].is_not_null() & read[name].is_null()).arg_true()
        if len(wrong):
            raise InputError(f"{path}: row {wrong[0] + first}, column {name!r}: {texts[name][wrong[0]]!r} is not {expected}")
    return read


def _complete(table: pl.DataFrame) -> pl.DataFrame:
    """Everything that follows from the rest: key, root, kind, and of a branch the concept of its root."""
    number = (pl.int_range(pl.len()) + 1).cast(pl.String)
    table = table.with_columns(key=pl.coalesce("key", number), kind=pl.col("kind").fill_null("given"))
    table = table.with_columns(root=pl.coalesce("root", "key"))
    roots = table.unique("key", keep="first", maintain_order=True).select(pl.col("key").alias("root"), of_root="concept")
    joined = table.join(roots, on="root", how="left", maintain_order="left")
    from_root = pl.when(pl.col("root") != pl.col("key")).then("of_root")
    return joined.with_columns(branched_from=pl.coalesce("branched_from", from_root))


def _refuse(path: Path, table: pl.DataFrame, first: int) -> None:
    if table.is_empty():
        raise InputError(f"{path} holds no prompts; a benchmark needs at least one row")
    for name in ("concept", "prompt"):
        if table[name].null_count():
            raise InputError(
                f"{path}: row {table[name].is_null().arg_true()[0] + first}, column {name!r} is empty; fill it in or take the row out"
            )
    twice = table["key"].is_duplicated()
    if twice.any():
        row = twice.arg_true()[1]
        raise InputError(f"{path}: row {row + first}, column 'key': {table['key'][row]!r} stands twice; give each row a key of its own")
