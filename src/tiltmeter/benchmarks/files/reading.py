"""Benchmarks from files: Parquet, CSV and JSON that a user wrote, tiltmeter built or SAGED left.

SAGED itself writes JSON up to the sentences (its tiers keywords, source_finder, scraped_sentences), CSV from there on. A JSON tier is an
object, or a list of objects, with `category` (or `concept`: the compared group), `domain` and `keywords`, a mapping of each keyword to
what is known of it, of which `scraped_sentences` is read, a list of `[sentence, source_tag]`. `prompts` of a keyword, written there by
hand, are prompts of a benchmark. The CSV tiers (split_sentences, questions) are benchmarks with other names of columns.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import polars as pl
from polars import DataFrame, Int32, String, col, lit, when
from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from tiltmeter.benchmarks.benchmark_tables import BENCHMARK, KEYWORDS, SENTENCES
from tiltmeter.benchmarks.files.inspecting import ROW_CHECKS
from tiltmeter.errors import InputError
from tiltmeter.outside_files import json_of, table_of, why
from tiltmeter.paths import is_file
from tiltmeter.records import validated
from tiltmeter.registry import did_you_mean
from tiltmeter.sanitising import not_utf8

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
_NEEDED = ("concept", "prompt")


def read_benchmark(path: str | Path, *, strict: bool = True) -> DataFrame:
    """Return a benchmark with the columns BENCHMARK, in the order of the file.

    Parquet, CSV or JSON (a list of rows, or one row a line). Only `concept` and `prompt` must be there: `key` is then the number of
    the row, `root` the row itself, `kind` "given". Further columns are dropped. Also read: the folder `tiltmeter build` filled,
    SAGED's tiers (see above), and a JSON object of prompts by concept (`{"Chad": ["...", ...]}`) or by concept and keyword.

    Parameters
    ----------
    strict
        False: rows without concept or prompt and repeated keys are let through, for `check_benchmark` to report.

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
    first = 2 if path.suffix.lower() == ".csv" else 1  # a CSV file's first row is below its header
    table = _typed_columns(path, _renamed_columns(path, _rows_of_file(path)), first)
    if table["key"].is_null().all() and table["source_tag"].str.contains(_BRANCH_TAG).any():
        table = _tied_to_roots(table)
    table = _completed_rows(table)
    if strict:
        _refuse_unusable(path, table, first)
    return table.select(list(BENCHMARK))


def _rows_of_file(path: Path) -> DataFrame:
    """The table in a file, before anything is made of it; raises InputError where there is none, or it is damaged."""
    if not is_file(path):
        raise InputError(f"there is no file {path}")
    return table_of(path, dict.fromkeys((".json", ".jsonl", ".ndjson"), _table_of_json))


def load_json(path: Path) -> list[Any] | dict[str, Any]:
    """A JSON file whose outermost value is a list or an object, or the lines of one that is named .jsonl.

    Raises
    ------
    InputError
        It cannot be read; the message names the line that is wrong.
    """
    before = 0
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix.lower() == ".json":
            loaded = json_of(text)
        else:
            loaded = []
            for before, line in enumerate(text.split("\n")):  # noqa: B007 - for the sentence about a damaged line
                loaded += [json_of(line)] if line.strip() else []
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {before + error.lineno} is not valid JSON ({error.msg}); correct that line") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON ({not_utf8(path.read_bytes()) or why(error)})") from error
    if not isinstance(loaded, (list, dict)):
        raise InputError(f"{path}: expected a list or an object, found {json.dumps(loaded)[:60]}")
    return loaded


def _table_of_json(path: Path) -> DataFrame:
    loaded = load_json(path)
    rows: list[Any]
    if _is_tier(loaded):
        rows = [row | {"prompt": prompt, "position": None} for row, prompt in _texts_of(_checked_tier(path, loaded), "prompts")]
        if not rows:
            raise InputError(
                f"{path} holds keywords or sentences of SAGED's, but no prompts yet; name it under 'saged' in a spec "
                "and make prompts of it with tiltmeter build"
            )
    elif isinstance(loaded, dict):
        rows = [row for concept, given in loaded.items() for row in _of_concept(path, concept, given)]
    else:
        rows = loaded
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise InputError(f"{path}: row {number} is not an object such as {{'concept': ..., 'prompt': ...}}")
        if wrong := next((name for name, value in row.items() if isinstance(value, (list, dict))), None):
            raise InputError(f"{path}: row {number}, column {wrong!r} holds a list or an object, not text; give the text itself")
    texts = [{name: value if value is None or isinstance(value, str) else str(value) for name, value in row.items()} for row in rows]
    return DataFrame(texts, schema=dict.fromkeys((name for row in rows for name in row), String))


def _of_concept(path: Path, concept: str, given: object) -> Iterator[dict[str, Any]]:
    by_keyword = given if isinstance(given, dict) else {None: given}
    for keyword, prompts in by_keyword.items():
        if not isinstance(prompts, list) or not all(isinstance(one, str) for one in prompts):
            raise InputError(f"{path}: {concept} must hold a list of prompts, or such a list for each keyword, found {str(prompts)[:60]}")
        yield from ({"concept": concept, "keyword": keyword, "prompt": prompt} for prompt in prompts)


def _renamed_columns(path: Path, table: DataFrame) -> DataFrame:
    """The columns by our names; raises InputError for a needed one that is missing and for one that looks misspelt."""
    given = table.columns
    if {"concept", "category"} <= set(given) and "domain" not in given:
        table = table.rename({"category": "domain"})
    unnamed = {
        name: [alias for alias in aliases if alias in table.columns] for name, aliases in _ALIASES.items() if name not in table.columns
    }
    used = {found[0]: name for name, found in unnamed.items() if found}
    table = table.rename(used)
    for name in _NEEDED:
        if name not in table.columns:
            raise InputError(f"{path} has no column {name!r} ({did_you_mean(name, given, _MISSPELT) if given else 'it has none'})")
    absent = [name for name in BENCHMARK if name not in table.columns]
    for extra in (name for name in table.columns if name not in BENCHMARK):
        if close := difflib.get_close_matches(extra.lower(), absent, 1, _ALMOST):
            raise InputError(f"{path}: unknown column {extra!r}: did you mean {close[0]}? (another column may have any other name)")
    # SAGED's two kinds differ in the name of the column.
    kind = "question" if "questions" in used else "continuation" if "prompts" in used else None
    filled = {name: lit(kind if name == "kind" else None, String) for name in absent}
    return table.with_columns(**filled).select(list(BENCHMARK))


def _typed_columns(path: Path, table: DataFrame, first: int) -> DataFrame:
    """Columns of their types; blank texts are null, prompt and baseline keep their outer spaces."""
    if nested := next((name for name, kind in table.schema.items() if kind.is_nested() or kind == pl.Binary), None):
        raise InputError(f"{path}: the column {nested!r} holds {table.schema[nested]}, not text; give the text itself")
    try:
        texts = table.with_columns(pl.all().cast(String))
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path} cannot be read as text: {why(error)}") from error
    texts = texts.with_columns(when(pl.all().str.strip_chars() != "").then(pl.all()))
    texts = texts.with_columns(pl.exclude("prompt", "baseline").str.strip_chars())
    said = col.keyword_in_prompt.str.to_lowercase()
    read = texts.with_columns(
        keyword_in_prompt=when(said.is_in(_YES)).then(True).when(said.is_in(_NO)).then(False),
        position=col.position.str.replace(r"\.0$", "").cast(Int32, strict=False),
    )
    for name, expected in (("keyword_in_prompt", "true or false"), ("position", "a whole number")):
        wrong = (texts[name].is_not_null() & read[name].is_null()).arg_true()
        if len(wrong):
            raise InputError(f"{path}: row {wrong[0] + first}, column {name!r}: {texts[name][wrong[0]]!r} is not {expected}")
    return read


def _completed_rows(table: DataFrame) -> DataFrame:
    """Everything that follows from the rest: key, root, kind, and of a branch the concept of its root."""
    number = (pl.int_range(pl.len()) + 1).cast(String)
    table = table.with_columns(key=pl.coalesce("key", number), kind=col.kind.fill_null("given"))
    table = table.with_columns(root=pl.coalesce("root", "key"))
    roots = table.unique("key", keep="first", maintain_order=True)
    concept = col.root.replace_strict(roots["key"], roots["concept"], default=None)
    return table.with_columns(branched_from=pl.coalesce("branched_from", when(col.root != col.key).then(concept)))


def _refuse_unusable(path: Path, table: DataFrame, first: int) -> None:
    if table.is_empty():
        raise InputError(f"{path} holds no prompts; a benchmark needs at least one row")
    for _, level, flawed, _, finding in ROW_CHECKS:
        places = table.select(flawed.arg_true()).to_series()
        if level == "problem" and len(places):
            raise InputError(f"{path}: row {places[0] + first} is one {finding}")


# Files of SAGED

_BRANCH_TAG = r"^br_(.*)_cat_(.*)$"
"""How SAGED marks a branch: its root's source tag and concept, written into its own source tag."""


def _with_tag(given: Any) -> Any:
    """A text, alone or in a list with the tag of its source, as a text and a tag."""
    match [given] if isinstance(given, str) else given:
        case [str(text)]:
            return text, None
        case [str(text), str() | None as tag]:
            return text, tag
    raise PydanticCustomError("tagged", "must be a text or [text, source tag]")


_Tagged = Annotated[tuple[str, str | None], BeforeValidator(_with_tag)]


class _TierKeyword(BaseModel):
    scraped_sentences: list[_Tagged] | None = None
    prompts: list[_Tagged] | None = None


def _as_mapping(given: Any) -> Any:
    """Keywords alone, as a list, are a mapping to nothing; what is known of a keyword may be left out."""
    named = {one: None for one in given if isinstance(one, str)} if isinstance(given, list) else given
    return {key: known if isinstance(known, dict) else {} for key, known in named.items()} if isinstance(named, dict) else given


class _TierConcept(BaseModel):
    concept: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)] = Field(
        validation_alias=AliasChoices("concept", "category")
    )
    domain: str | None = None
    keywords: Annotated[dict[str, _TierKeyword], BeforeValidator(_as_mapping)]


class SagedTiers(NamedTuple):
    """What a JSON tier of SAGED holds."""

    keywords: DataFrame
    """Columns KEYWORDS."""
    sentences: DataFrame
    """Columns SENTENCES; `source` is null, since SAGED does not keep where a sentence was found."""


def read_tiers(path: str | Path) -> SagedTiers:
    """Return keywords and sentences of one of SAGED's JSON files.

    Raises
    ------
    InputError
        It is no such file, or a value in it is not of its kind; the message names concept and keyword.
    """
    path = Path(path)
    loaded = load_json(path)
    if not _is_tier(loaded):
        raise InputError(f"{path} is no file of SAGED's: its objects need the keys 'category', 'domain' and 'keywords'")
    tier = _checked_tier(path, loaded)
    keywords = [
        {"domain": item.domain, "concept": item.concept, "keyword": keyword, "kind": "given"} for item in tier for keyword in item.keywords
    ]
    sentences = [row | {"sentence": sentence} for row, sentence in _texts_of(tier, "scraped_sentences")]
    return SagedTiers(DataFrame(keywords, schema=KEYWORDS), DataFrame(sentences, schema=SENTENCES))


def _is_tier(loaded: object) -> bool:
    """Whether this is the content of one of SAGED's JSON files."""
    items = [loaded] if isinstance(loaded, dict) else loaded
    return isinstance(items, list) and bool(items) and all(isinstance(item, dict) and "keywords" in item for item in items)


def _checked_tier(path: Path, loaded: Any) -> list[_TierConcept]:
    items = loaded if isinstance(loaded, list) else [loaded]
    return [validated(item, _TierConcept, f"{path}: item {number}") for number, item in enumerate(items, 1)]


def _texts_of(tier: list[_TierConcept], name: Literal["scraped_sentences", "prompts"]) -> Iterator[tuple[dict[str, Any], str]]:
    """Where each sentence or prompt belongs, and its text."""
    for item in tier:
        for keyword, known in item.keywords.items():
            for position, (text, tag) in enumerate(getattr(known, name) or []):
                about = {"domain": item.domain, "concept": item.concept, "keyword": keyword}
                yield about | {"source_tag": tag, "position": position}, text


def _tied_to_roots(table: DataFrame) -> DataFrame:
    """A table of SAGED's with its branches tied to their roots: `branched_from`, and `root` where it can be found out.

    SAGED notes the root's concept only, in the source tag. The rows of a branch are together and in the order of the roots they were
    made from, so the n-th of a block belongs to the n-th root, if there are as many; in a shuffled or sampled file this is unknown,
    and each row is then its own root.
    """
    tagged = table.drop("root").with_columns(
        branched_from=col.source_tag.str.extract(_BRANCH_TAG, 2),
        source_tag=pl.coalesce(col.source_tag.str.extract(_BRANCH_TAG, 1), "source_tag"),
        key=(pl.int_range(pl.len()) + 1).cast(String),
        folded=col.concept.str.to_lowercase(),
    )
    is_root = col.branched_from.is_null()
    # SAGED lower-cases the names of branches: a concept keeps the name its roots have.
    names = tagged.filter(is_root).select("folded", name="concept").unique("folded", keep="first")
    group = ("branched_from", "concept", "source_tag")
    blocks = (
        tagged.join(names, on="folded", how="left", maintain_order="left")
        .with_columns(concept=pl.coalesce("name", "concept"))
        .with_columns(block=pl.struct(group).rle_id(), turn=pl.int_range(pl.len()).over(group), size=pl.len().over(group))
        .with_columns(whole=col.block.n_unique().over(group) == 1)
    )
    roots = blocks.filter(is_root, "whole").select(col.concept.alias("branched_from"), "source_tag", "turn", "size", root="key")
    tied = blocks.join(roots, on=["branched_from", "source_tag", "turn", "size"], how="left", maintain_order="left")
    tag = pl.concat_str(lit("branch of "), "branched_from", lit(": "), "source_tag")  # as in a branch made here
    return tied.with_columns(
        root=when("whole").then(pl.coalesce("root", "key")).otherwise("key"), source_tag=pl.coalesce(tag, "source_tag")
    ).drop("folded", "name", "block", "turn", "size", "whole")
