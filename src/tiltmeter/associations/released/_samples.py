"""Annotated samples in the released and in our own formats, read into one shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import polars as pl

from tiltmeter.associations.released._rows import ROW, demand, no_repeats, numbers, place, read_rows
from tiltmeter.errors import InputError

__all__ = ["CLUSTERS", "DECISIONS", "LISTED", "TYPED", "Sample", "read_sample"]

_Schema = Mapping[str, pl.DataType | type[pl.DataType]]

LISTED: _Schema = {
    "row": pl.UInt32,
    "story": pl.String,
    "character": pl.String,
    "step": pl.String,  # "extraction" or "decomposition"
    "found": pl.List(pl.String),  # by the judge
    "truth": pl.List(pl.String),  # as corrected by a person
}
DECISIONS: _Schema = {"row": pl.UInt32, "concept": pl.String, "truth": pl.Boolean, "found": pl.Boolean, "right": pl.Boolean}
"""`right` is what the sheet says of the decision; null where it says nothing."""
CLUSTERS: _Schema = {"row": pl.UInt32, "phrase": pl.String, "gold": pl.String, "concept": pl.String}
TYPED: _Schema = {"row": pl.UInt32, "story": pl.String, "step": pl.String, "metric": pl.String, "typed": pl.String}
"""Numbers typed into a sheet, as they stand there; story null for those about the whole sample."""

_STEPS = {"extraction": ("found", "truth"), "decomposition": ("decomposed", "decomposed_truth")}
_RELEASED_LISTS = {"extraction": ("1_summ", "1_ans"), "decomposition": ("2_summ_combine", "2_ans")}
_RELEASED_SCORES = {
    "recall_1": ("extraction", "recall"),
    "precision_1": ("extraction", "precision"),
    "accuracy_2": ("decomposition", "accuracy"),
}
_RELEASED_TOTALS = {
    "recall": ("extraction", "recall"),
    "precision": ("extraction", "precision"),
    "accuracy": ("decomposition", "accuracy"),
    "homogeneity": ("unifying", "homogeneity"),
    "completeness": ("unifying", "completeness"),
    "v-measure": ("unifying", "v_measure"),
}
_ANSWERS = {"yes": True, "true": True, "no": False, "false": False}


def _empty(schema: _Schema) -> pl.DataFrame:
    return pl.DataFrame(schema=schema)


def _shaped(table: pl.DataFrame, schema: _Schema) -> pl.DataFrame:
    return table.select(pl.col(name).cast(kind) for name, kind in schema.items())


@dataclass(frozen=True)
class Sample:
    """What a sample file holds: one of lists, decisions or clusters, and the numbers typed beside them."""

    path: Path
    lists: pl.DataFrame = field(default_factory=lambda: _empty(LISTED))
    decisions: pl.DataFrame = field(default_factory=lambda: _empty(DECISIONS))
    clusters: pl.DataFrame = field(default_factory=lambda: _empty(CLUSTERS))
    typed: pl.DataFrame = field(default_factory=lambda: _empty(TYPED))


def read_sample(path: Path, concepts: Path | None = None) -> Sample:
    """The sample in `path`; its kind is known by its columns.

    Released sheets: `1_summ`, `2_summ_combine`, `1_ans`, `2_ans` (lists before and after decomposition, by the judge and
    corrected; a line a character, "name: phrase; phrase") with typed scores; or `gt`, `filter_res` (YES or NO) with the typed tally
    `RES`. Our own tables: `story`, `character` with `found`, `truth` or `decomposed`, `decomposed_truth` or all four (a list, or
    text with ";" between phrases); `concept`, `truth`, `found` (yes or no); `phrase`, `gold` and `concept` (or the concept of each
    phrase from the table `concepts` of a run).

    Raises
    ------
    InputError
        The columns are none of these, or a value cannot be read; file, row and column are named.
    """
    table = read_rows(path)
    there = set(table.columns)
    if there & {"1_summ", "1_ans"}:
        sample = _released_lists(path, table)
    elif there & {"gt", "filter_res"}:
        demand(path, table, ("phrase", "gt", "filter_res"))
        sample = _released_filter(path, table)
    elif "gold" in there:
        sample = Sample(path, clusters=_clusters(path, table, concepts))
    elif "story" in there:
        sample = _own_lists(path, table)
    elif "concept" in there:
        demand(path, table, ("truth", "found"))
        sample = Sample(path, decisions=_decisions(path, table, "concept", "truth", "found"))
    else:
        raise InputError(
            f"{path} is no annotated sample: give the columns story, character, found, truth (lists), "
            "or concept, truth, found (yes or no), or phrase, gold, concept (clusters)"
        )
    if concepts is not None and sample.clusters.is_empty():
        raise InputError(f"--concepts goes with a sample of phrases and gold clusters, which {path} is not")
    return sample


def _phrases(text: pl.Expr) -> pl.Expr:
    """Text with ";" between phrases as a list of them, trimmed."""
    return _trimmed(text.str.split(";"))


def _trimmed(phrases: pl.Expr) -> pl.Expr:
    trimmed = phrases.list.eval(pl.element().cast(pl.String).str.replace_all(r"\s+", " ").str.strip_chars())
    return trimmed.list.eval(pl.element().filter(pl.element().is_not_null() & (pl.element() != "")))


def _released_lists(path: Path, table: pl.DataFrame) -> Sample:
    demand(path, table, ("prompt", *(name for pair in _RELEASED_LISTS.values() for name in pair), *_RELEASED_SCORES))
    # The annotated stories end at the first row without a prompt; below it stand totals, in any columns.
    ended = (table["prompt"].str.strip_chars() == "").cum_max()
    stories, totals = table.filter(~ended).with_columns(story=pl.format("row {}", ROW)), table.filter(ended)
    if stories.is_empty():
        raise InputError(f"{place(path, table[ROW][0], 'prompt')} is empty: the stories come first")
    lists = [
        _by_character(path, stories, found).join(
            _by_character(path, stories, truth), on=["row", "story", "character"], how="full", coalesce=True, maintain_order="left_right"
        )
        for found, truth in _RELEASED_LISTS.values()
    ]
    named = [
        one.select("row", "story", "character", pl.lit(step).alias("step"), found=pl.col(pair[0]), truth=pl.col(pair[1]))
        for one, (step, pair) in zip(lists, _RELEASED_LISTS.items(), strict=True)
    ]
    nothing = pl.lit([], pl.List(pl.String))
    whole = pl.concat(named).with_columns(pl.col("found", "truth").fill_null(nothing))
    return Sample(path, lists=_shaped(whole, LISTED), typed=_typed_scores(path, stories, totals))


def _by_character(path: Path, stories: pl.DataFrame, column: str) -> pl.DataFrame:
    """One row per line "name: phrase; phrase" of `column`: row, story, character and the phrases."""
    lines = (
        stories.select("row", "story", line=pl.col(column).str.split("\n")).explode("line").with_columns(pl.col("line").str.strip_chars())
    )
    lines = lines.filter(pl.col("line") != "")
    unnamed = lines.filter(~pl.col("line").str.contains(":", literal=True))
    if not unnamed.is_empty():
        raise InputError(
            f"{place(path, unnamed['row'][0], column)}: the line {unnamed['line'][0][:60]!r} names no character before a colon"
        )
    parts = pl.col("line").str.splitn(":", 2)
    named = lines.select(
        "row",
        "story",
        character=parts.struct.field("field_0").str.strip_chars(),
        phrases=_phrases(parts.struct.field("field_1")),
    )
    twice = named.filter(pl.struct("row", "character").is_first_distinct().not_())
    if not twice.is_empty():
        raise InputError(f"{place(path, twice['row'][0], column)}: {twice['character'][0]!r} has two lists")
    return named.rename({"phrases": column})


def _typed_scores(path: Path, stories: pl.DataFrame, totals: pl.DataFrame) -> pl.DataFrame:
    """Typed scores of every story, and those of the whole sample from the rows below."""
    scores = []
    for column, (step, metric) in _RELEASED_SCORES.items():
        numbers(path, stories, column, low=0, high=1)
        scores.append(stories.select(ROW, "story", step=pl.lit(step), metric=pl.lit(metric), typed=pl.col(column).str.strip_chars()))
    rows: list[dict[str, object]] = []
    texts = [name for name, kind in totals.schema.items() if kind == pl.String]
    below = totals.select(ROW, *(totals[name].str.strip_chars() for name in texts)).rows(named=True)
    # A row of words such as "recall" has its numbers in the row below.
    for words, values in pairwise(below):
        for column in texts:
            if (known := _RELEASED_TOTALS.get(words[column].lower())) and values[column]:
                numbers(path, totals.filter(pl.col(ROW) == values[ROW]), column, low=0, high=1)
                rows.append({"row": values[ROW], "story": None, "step": known[0], "metric": known[1], "typed": values[column]})
    return pl.concat([*(_shaped(one, TYPED) for one in scores), pl.DataFrame(rows, schema=TYPED)])


def _released_filter(path: Path, table: pl.DataFrame) -> Sample:
    # The last row of the sheet has nothing but the sum of its tally.
    decided = pl.col("phrase").str.strip_chars() != ""
    rows, totals = table.filter(decided), table.filter(~decided)
    if rows.is_empty():
        raise InputError(f"{path} holds no decision: column 'phrase' is empty in every row")
    decisions = _decisions(path, rows, "phrase", "gt", "filter_res")
    if "RES" not in table.columns:
        return Sample(path, decisions=decisions)
    tally = numbers(path, rows, "RES", low=0, high=1, whole=True)
    decisions = decisions.with_columns(right=tally.cast(pl.Boolean))
    totals = totals.filter(pl.col("RES").str.strip_chars() != "")
    numbers(path, totals, "RES", low=0, high=float("inf"), whole=True)
    about = {"story": pl.lit(None, pl.String), "step": pl.lit("exclusivity"), "metric": pl.lit("decisions right")}
    return Sample(path, decisions=decisions, typed=_shaped(totals.select(ROW, **about, typed=pl.col("RES").str.strip_chars()), TYPED))


def _decisions(path: Path, table: pl.DataFrame, concept: str, truth: str, found: str) -> pl.DataFrame:
    answers = {}
    for column in (truth, found):
        answers[column] = table[column].str.strip_chars().str.to_lowercase().replace_strict(_ANSWERS, default=None, return_dtype=pl.Boolean)
        odd = table.filter(answers[column].is_null())
        if not odd.is_empty():
            raise InputError(f"{place(path, odd[ROW][0], column)}: {odd[column][0]!r} is neither yes nor no")
    return table.select(
        ROW,
        concept=pl.col(concept).str.strip_chars(),
        truth=pl.lit(answers[truth]),
        found=pl.lit(answers[found]),
        right=pl.lit(None, pl.Boolean),
    )


def _own_lists(path: Path, table: pl.DataFrame) -> Sample:
    demand(path, table, ("story", "character"))
    no_repeats(path, table, ["story", "character"])
    steps = {step: pair for step, pair in _STEPS.items() if set(pair) & set(table.columns)}
    for pair in steps.values() or [_STEPS["extraction"]]:
        demand(path, table, pair, lists=True)
    parts = []
    for step, pair in steps.items():
        cells = {name: _cell(path, table, column) for name, column in zip(("found", "truth"), pair, strict=True)}
        parts.append(_shaped(table.select(ROW, "story", "character", pl.lit(step).alias("step"), **cells), LISTED))
    return Sample(path, lists=pl.concat(parts))


def _cell(path: Path, table: pl.DataFrame, column: str) -> pl.Expr:
    kind = table.schema[column]
    if kind == pl.String:
        return _phrases(pl.col(column))
    if isinstance(kind, pl.List) and kind.inner in (pl.String, pl.Null):
        return _trimmed(pl.col(column).cast(pl.List(pl.String)).fill_null(pl.lit([], pl.List(pl.String))))
    raise InputError(f"{path}, column {column!r} holds neither text nor lists of text")


def _clusters(path: Path, table: pl.DataFrame, concepts: Path | None) -> pl.DataFrame:
    demand(path, table, ("phrase", "gold"))
    if concepts is not None:
        named = read_rows(concepts)
        demand(concepts, named, ("phrase", "concept"))
        no_repeats(concepts, named, ["phrase"])
        table = table.drop("concept", strict=False).join(named.select("phrase", "concept"), on="phrase", how="left", maintain_order="left")
        lost = table.filter(pl.col("concept").is_null())
        if not lost.is_empty():
            raise InputError(f"{place(path, lost[ROW][0], 'phrase')}: {lost['phrase'][0]!r} is no phrase of {concepts}")
    elif "concept" not in table.columns:
        raise InputError(
            f"{path} has no column 'concept': add the concept each phrase was given, or give a run's table with --concepts FILE"
        )
    no_repeats(path, table, ["phrase"])
    for column in ("phrase", "gold", "concept"):
        empty = table.filter(pl.col(column).str.strip_chars() == "")
        if not empty.is_empty():
            raise InputError(f"{place(path, empty[ROW][0], column)} is empty")
    return _shaped(table, CLUSTERS)
