"""Reading of benchmarks from Parquet, CSV and JSON files written by users, by `tiltmeter build`, or by SAGED.

SAGED writes its first tiers (keywords, source_finder, scraped_sentences) as JSON and the later ones as CSV. A
JSON tier is an object, or a list of objects, with the keys `category` (or `concept`: the compared group),
`domain` and `keywords`, a mapping of keywords to objects. Their `scraped_sentences`, a list of `[sentence,
source_tag]`, are read as sentences; `prompts`, added by hand, are read as the prompts of a benchmark. The CSV
tiers (split_sentences, questions) are benchmarks with different column names.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import polars as pl
from polars import DataFrame, Int32, String, col, lit, when
from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from tiltmeter._files.paths import is_file
from tiltmeter._files.reading import json_of, table_of, why
from tiltmeter._files.records import validated
from tiltmeter._files.tables import ROW, UserTable
from tiltmeter._sanitising import not_utf8
from tiltmeter.benchmarks._files.inspecting import ROW_CHECKS
from tiltmeter.benchmarks._tables import BENCHMARK, KEYWORDS, SENTENCES
from tiltmeter.errors import InputError, did_you_mean

TABLE = "benchmark.parquet"
"""File of the benchmark in the output folder of `tiltmeter build`."""
_ALIASES = {
    "concept": ("category", "group"),
    "prompt": ("prompts", "question", "questions"),
    "baseline": ("original_answer",),
    "keyword_in_prompt": ("keywords_containment",),
}
"""Alternative column names, from SAGED's files or likely to be used."""
_ALMOST = 0.85
"""Similarity from which an additional column counts as misspelt; "baselines" has 0.94, "target" and
"source_tag" have 0.5."""
_MISSPELT = 0.6
"""Similarity from which a column is suggested for a required one; "prompt" and "group" have 0.55."""
_YES = ("true", "1", "yes")
_NO = ("false", "0", "no")
_REQUIRED = ("concept", "prompt")


def read_benchmark(path: str | Path, *, strict: bool = True) -> DataFrame:
    """Read a benchmark.

    Supported are Parquet, CSV and JSON (a list of rows, or one row per line). Only `concept` and `prompt` are
    required; `key` defaults to the number of the row, `root` to the row itself, `kind` to "given". Additional
    columns are dropped. Also supported are the output folder of `tiltmeter build`, SAGED's tiers (see above),
    and a JSON object of prompts by concept (`{"Chad": ["...", ...]}`) or by concept and keyword.

    Parameters
    ----------
    path
        The file or folder.
    strict
        If False, rows without concept or prompt and duplicate keys are accepted, so that `check_benchmark`
        can report them.

    Returns
    -------
    The columns BENCHMARK, in the order of the file.

    Raises
    ------
    InputError
        The file cannot be read, lacks a required column, or has a row that cannot be used; the message names
        file, row and column.
    """
    path = Path(path)
    if path.is_dir():
        if not (path / TABLE).is_file():
            raise InputError(
                f"the folder {path} does not contain {TABLE}; give the benchmark file, "
                "or complete the build with tiltmeter build"
            )
        path = path / TABLE
    rows = _typed_columns(path, _renamed_columns(path, _rows_of_file(path)))
    row_number = (pl.int_range(pl.len()) + 1).cast(String)
    table = rows.with_columns(key=pl.coalesce("key", row_number))
    if rows["key"].is_null().all() and rows["source_tag"].str.contains(_BRANCH_TAG).any():
        table = _tied_to_roots(table)
    table = _completed_rows(table)
    if strict:
        _refuse_unusable(path, table)
    return table.select(list(BENCHMARK))


def _rows_of_file(path: Path) -> DataFrame:
    """Read the unprocessed table of a file; raises InputError if there is no such file or it is damaged."""
    if not is_file(path):
        raise InputError(f"there is no file {path}")
    return table_of(path, dict.fromkeys((".json", ".jsonl", ".ndjson"), _table_of_json))


def load_json(path: Path) -> list[Any] | dict[str, Any]:
    """Load a JSON file with a list or an object, or the lines of a file with another suffix.

    Such suffixes are .jsonl and .ndjson.

    Raises
    ------
    InputError
        The file cannot be read; the message names the invalid line.
    """
    lines_before = 0
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix.lower() == ".json":
            loaded = json_of(text)
        else:
            loaded = []
            for line in text.split("\n"):
                if line.strip():
                    loaded.append(json_of(line))
                lines_before += 1
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except json.JSONDecodeError as error:
        line_number = lines_before + error.lineno
        raise InputError(
            f"{path}, line {line_number} is not valid JSON ({error.msg}); correct that line"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON ({not_utf8(path.read_bytes()) or why(error)})") from error
    if not isinstance(loaded, (list, dict)):
        raise InputError(f"{path}: expected a list or an object, found {json.dumps(loaded)[:60]}")
    return loaded


def _table_of_json(path: Path) -> DataFrame:
    rows = _rows_of_json(path)
    texts = [_texts_of_row(path, number, row) for number, row in enumerate(rows, 1)]
    columns = dict.fromkeys((name for row in texts for name in row), String)
    return DataFrame(texts, schema=columns)


def _rows_of_json(path: Path) -> list[Any]:
    """Return the rows of a JSON file: a list of rows, prompts by concept, or a tier of SAGED."""
    loaded = load_json(path)
    if _is_tier(loaded):
        tier = _checked_tier(path, loaded)
        rows = [row | {"prompt": prompt, "position": None} for row, prompt in _texts_of(tier, "prompts")]
        if not rows:
            raise InputError(
                f"{path} contains keywords or sentences of SAGED, but no prompts; name it under "
                "sources.saged in a spec and create prompts with tiltmeter build"
            )
        return rows
    if isinstance(loaded, dict):
        return [row for concept, prompts in loaded.items() for row in _of_concept(path, concept, prompts)]
    return loaded


def _texts_of_row(path: Path, number: int, row: object) -> dict[str, str | None]:
    """Return a row of a JSON file with all values as texts; raises InputError if it is not flat."""
    if not isinstance(row, dict):
        raise InputError(f"{path}: row {number} is not an object such as {{'concept': ..., 'prompt': ...}}")
    texts = {}
    for name, value in row.items():
        if isinstance(value, (list, dict)):
            raise InputError(f"{path}: row {number}, column {name!r} must be text, not a list or an object")
        texts[name] = value if value is None else str(value)
    return texts


def _of_concept(path: Path, concept: str, prompts: object) -> Iterator[dict[str, Any]]:
    """Yield the rows of a concept, from a list of prompts, or from such a list for each keyword."""
    by_keyword = prompts if isinstance(prompts, dict) else {None: prompts}
    for keyword, texts in by_keyword.items():
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise InputError(
                f"{path}: {concept} must be a list of prompts, or a list for each keyword, "
                f"not {str(texts)[:60]}"
            )
        for text in texts:
            yield {"concept": concept, "keyword": keyword, "prompt": text}


def _renamed_columns(path: Path, table: DataFrame) -> DataFrame:
    """Rename the columns to those of BENCHMARK.

    Raises InputError for missing required columns and for misspelt ones.
    """
    columns = table.columns
    if {"concept", "category"} <= set(columns) and "domain" not in columns:
        table = table.rename({"category": "domain"})
    aliases = _aliases_in(table.columns)
    table = table.rename(aliases)
    for name in _REQUIRED:
        if name not in table.columns:
            hint = did_you_mean(name, columns, _MISSPELT) if columns else "it has no columns"
            raise InputError(f"{path} has no column {name!r} ({hint})")
    absent = [name for name in BENCHMARK if name not in table.columns]
    for name in table.columns:
        if name in BENCHMARK or name == ROW:
            continue
        if close := difflib.get_close_matches(name.lower(), absent, 1, _ALMOST):
            raise InputError(
                f"{path}: unknown column {name!r}; did you mean {close[0]}? "
                "Otherwise rename it to a less similar name"
            )
    defaults = dict.fromkeys(absent, lit(None, String))
    if "kind" in absent:
        defaults["kind"] = lit(_kind_of_prompts(aliases), String)
    table = table.with_columns(**defaults)
    return table.select(*BENCHMARK, *({ROW} & set(columns)))


def _aliases_in(columns: list[str]) -> dict[str, str]:
    """Return the alternative names among columns, with the names of BENCHMARK that they stand for."""
    names = {}
    for name, aliases in _ALIASES.items():
        alias = next((alias for alias in aliases if alias in columns), None)
        if alias is not None and name not in columns:
            names[alias] = name
    return names


def _kind_of_prompts(aliases: Collection[str]) -> str | None:
    """Return the kind of prompts: SAGED's two kinds have different column names."""
    if "questions" in aliases:
        return "question"
    return "continuation" if "prompts" in aliases else None


def _typed_columns(path: Path, table: DataFrame) -> DataFrame:
    """Convert the columns to their types.

    Blank texts become null, prompt and baseline keep leading and trailing spaces.
    """
    UserTable.of(path, table).demand(table.columns)
    try:
        texts = table.with_columns(pl.all().cast(String))
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path} cannot be read as text: {why(error)}") from error
    texts = texts.with_columns(when(pl.all().str.strip_chars() != "").then(pl.all()))
    texts = texts.with_columns(pl.exclude("prompt", "baseline").str.strip_chars())
    lower = col.keyword_in_prompt.str.to_lowercase()
    typed = texts.with_columns(
        keyword_in_prompt=when(lower.is_in(_YES)).then(True).when(lower.is_in(_NO)).then(False),
        position=col.position.str.replace(r"\.0$", "").cast(Int32, strict=False),
    )
    user_table = UserTable.of(path, texts)
    for name, expected in (("keyword_in_prompt", "true or false"), ("position", "a whole number")):
        user_table.refuse(texts[name].is_not_null() & typed[name].is_null(), name, f"is not {expected}")
    return typed


def _completed_rows(table: DataFrame) -> DataFrame:
    """Fill in missing values of root and kind, and of branched_from (the concept of the root)."""
    table = table.with_columns(kind=col.kind.fill_null("given"), root=pl.coalesce("root", "key"))
    roots = table.unique("key", keep="first", maintain_order=True)
    concept = col.root.replace_strict(roots["key"], roots["concept"], default=None)
    concept_of_root = when(col.root != col.key).then(concept)
    return table.with_columns(branched_from=pl.coalesce("branched_from", concept_of_root))


def _refuse_unusable(path: Path, table: DataFrame) -> None:
    """Raise InputError for an empty table, and for the first row that cannot be used."""
    if table.is_empty():
        raise InputError(f"{path} contains no prompts; a benchmark needs at least one row")
    rows = UserTable.of(path, table).rows
    for _, level, flawed, _, finding in ROW_CHECKS:
        if level != "problem":
            continue
        unusable = rows.filter(flawed)
        if unusable.height:
            raise InputError(f"{path}: row {unusable[ROW][0]} is one {finding}")


# Files of SAGED

_BRANCH_TAG = r"^br_(.*)_cat_(.*)$"
"""Source tag of a branch in SAGED: it contains the source tag and the concept of the root."""


def _with_tag(value: Any) -> Any:
    """Convert a text, or a list of a text and its source tag, to a pair of text and tag."""
    match [value] if isinstance(value, str) else value:
        case [str(text)]:
            return text, None
        case [str(text), str() | None as tag]:
            return text, tag
    raise PydanticCustomError("tagged", "must be a text or [text, source tag]")


_Tagged = Annotated[tuple[str, str | None], BeforeValidator(_with_tag)]


class _TierKeyword(BaseModel):
    scraped_sentences: list[_Tagged] | None = None
    prompts: list[_Tagged] | None = None


def _as_mapping(value: Any) -> Any:
    """Convert a list of keywords to a mapping; keywords without an object get an empty one."""
    if isinstance(value, list):
        return {keyword: {} for keyword in value if isinstance(keyword, str)}
    if isinstance(value, dict):
        return {keyword: texts if isinstance(texts, dict) else {} for keyword, texts in value.items()}
    return value


class _TierConcept(BaseModel):
    concept: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)] = Field(
        validation_alias=AliasChoices("concept", "category")
    )
    domain: str | None = None
    keywords: Annotated[dict[str, _TierKeyword], BeforeValidator(_as_mapping)]


class SagedTiers(NamedTuple):
    """Content of a JSON tier of SAGED."""

    keywords: DataFrame
    """Columns KEYWORDS."""
    sentences: DataFrame
    """Columns SENTENCES; `source` is null, since SAGED does not record it."""


def read_tiers(path: str | Path) -> SagedTiers:
    """Read keywords and sentences from a JSON file of SAGED.

    Raises
    ------
    InputError
        The file has another structure, or a value of the wrong type; the message names concept and keyword.
    """
    path = Path(path)
    loaded = load_json(path)
    if not _is_tier(loaded):
        raise InputError(
            f"{path} is not a file of SAGED; its objects must have the keys "
            "'category', 'domain' and 'keywords'"
        )
    tier = _checked_tier(path, loaded)
    keywords = [
        {"domain": item.domain, "concept": item.concept, "keyword": keyword, "kind": "given"}
        for item in tier
        for keyword in item.keywords
    ]
    sentences = [row | {"sentence": sentence} for row, sentence in _texts_of(tier, "scraped_sentences")]
    return SagedTiers(DataFrame(keywords, schema=KEYWORDS), DataFrame(sentences, schema=SENTENCES))


def _is_tier(loaded: object) -> bool:
    """Check whether this is the content of a JSON file of SAGED."""
    items = [loaded] if isinstance(loaded, dict) else loaded
    if not isinstance(items, list) or not items:
        return False
    return all(isinstance(item, dict) and "keywords" in item for item in items)


def _checked_tier(path: Path, loaded: Any) -> list[_TierConcept]:
    items = loaded if isinstance(loaded, list) else [loaded]
    return [validated(item, _TierConcept, f"{path}: item {number}") for number, item in enumerate(items, 1)]


def _texts_of(
    tier: list[_TierConcept], name: Literal["scraped_sentences", "prompts"]
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each sentence or prompt with the values of its other columns."""
    for item in tier:
        for keyword, texts in item.keywords.items():
            for position, (text, tag) in enumerate(getattr(texts, name) or []):
                about = {"domain": item.domain, "concept": item.concept, "keyword": keyword}
                yield about | {"source_tag": tag, "position": position}, text


def _tied_to_roots(table: DataFrame) -> DataFrame:
    """Link the branches of a SAGED table to their roots.

    `branched_from` is filled in, and `root` where it can be determined. SAGED records only the concept of the
    root, in the source tag. The branches of one concept are consecutive and in the order of the roots, so
    that the n-th row of a block belongs to the n-th root, if the numbers are equal. In a shuffled or sampled
    file, roots are unknown, and each row is its own root.
    """
    tagged = table.drop("root").with_columns(
        branched_from=col.source_tag.str.extract(_BRANCH_TAG, 2),
        source_tag=pl.coalesce(col.source_tag.str.extract(_BRANCH_TAG, 1), "source_tag"),
        folded=col.concept.str.to_lowercase(),
    )
    is_root = col.branched_from.is_null()
    # SAGED converts the concepts of branches to lower case; use the spelling of the roots.
    names = tagged.filter(is_root).unique("folded", keep="first", maintain_order=True)
    concept = col.folded.replace_strict(names["folded"], names["concept"], default=col.concept)
    tagged = tagged.with_columns(concept=concept)
    group = ("branched_from", "concept", "source_tag")
    blocks = tagged.with_columns(
        block=pl.struct(group).rle_id(),
        place=pl.int_range(pl.len()).over(group),
        size=pl.len().over(group),
    )
    blocks = blocks.with_columns(consecutive=col.block.n_unique().over(group) == 1)
    roots = blocks.filter(is_root, "consecutive")
    roots = roots.select("source_tag", "place", "size", branched_from="concept", root="key")
    keys = ["branched_from", "source_tag", "place", "size"]
    tied = blocks.join(roots, on=keys, how="left", maintain_order="left")
    tag = pl.concat_str(lit("branch of "), "branched_from", lit(": "), "source_tag")  # as in `branch`
    return tied.with_columns(
        root=when("consecutive").then(pl.coalesce("root", "key")).otherwise("key"),
        source_tag=pl.coalesce(tag, "source_tag"),
    )
