"""The user's own texts about groups, as responses to a study of texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import polars as pl
from polars import DataFrame, Float64, col

from tiltmeter._files.tables import ROW, dates_among
from tiltmeter.errors import InputError
from tiltmeter.importing._column_roles import note_common
from tiltmeter.importing._doubtful_rows import (
    errors_as_failures,
    print_notes,
    without_keys,
    words_for_no_value,
)
from tiltmeter.importing._own_data import OwnData
from tiltmeter.importing._response_tables import (
    Source,
    TextColumns,
    read_texts,
    refuse_joined_alike,
    texts_in,
)
from tiltmeter.readers import without_thinking
from tiltmeter.runs._listings import STUDIES
from tiltmeter.runs._resolving import Resolved
from tiltmeter.schema import RESPONSES, conform, refuse_alike

FEWEST_TEXTS: Final = 20
"""Number of texts above which some groups must have several."""
LONGEST_GROUP: Final = 40
"""Number of characters of the name of a group; a column in which every group has more contains texts."""


def own_texts(paths: Sequence[Source], resolved: Resolved, columns: TextColumns) -> OwnData:
    """Return the texts of files or folders as responses to a study for them.

    Parameters
    ----------
    paths
        Tables, and folders with a subfolder of text files for each group.
    resolved
        The method, and its settings.
    columns
        The roles of the columns.

    Raises
    ------
    InputError
        The method does not support texts generated elsewhere, a column is missing or does not look like what
        it is said to be, or there are fewer than two groups.
    """
    paths = [texts_in(path) if isinstance(path, Path) and path.is_dir() else path for path in paths]
    family = resolved.study.name.partition("/")[0]
    suite = STUDIES.load(family)
    if getattr(suite, "of_texts", None) is None:
        raise InputError(
            f"{resolved.study.name} supports only answers to its own prompts; remove --text and --identity"
        )
    for flag in ("location", "name", "baseline", "pair", "feature", "cluster"):
        if getattr(columns, flag) and flag not in suite.reads:
            raise InputError(f"--{flag}: {family} do not use such a column; remove the flag")
    tables = {path: without_keys(path, read_texts(path, columns)) for path in paths}
    place = ", ".join(map(str, paths))
    rows = refuse_joined_alike(pl.concat(tables.values()).drop(ROW), place)
    _check_texts(rows, columns, place)
    with_text = rows.filter(col.text.is_not_null()).select("identity", "text")
    repeated = int(with_text.is_duplicated().sum())
    if repeated:
        print_notes(f"{repeated:,} texts occur more than once; each occurrence is counted")
    print_notes(dates_among(place, rows["identity"].unique()))
    for path, table in tables.items():
        texts = table.select(ROW, answer="text")
        print_notes(words_for_no_value(path, texts), errors_as_failures(path, texts)[1])
    for path in paths:
        note_common(path, columns)
    study = suite.of_texts(rows, resolved.settings.params)
    named = {role: names for role, names in dataclasses.asdict(columns).items() if names}
    return OwnData(paths, study, partial(_text_responses, rows), rows["model"], named)


def _check_texts(rows: DataFrame, columns: TextColumns, place: str) -> None:
    """Raise InputError if the columns of the texts and of their groups do not look like such columns."""
    texts = rows["text"]
    if not columns.feature and not (texts.str.strip_chars().fill_null("") != "").any():
        raise InputError(
            f"{place}: no row has a text in the column {columns.text!r}; name the column"
            " that holds the texts with --text"
        )
    groups = rows["identity"].unique()
    if (groups.str.len_chars() > LONGEST_GROUP).all():
        raise InputError(
            f"{place}: the column of the groups holds whole texts; --group names the column of the groups,"
            " --text that of the texts"
        )
    refuse_alike(groups, place)
    if len(groups) == rows.height > FEWEST_TEXTS:
        raise InputError(
            f"{place}: every text has a group of its own; name the column of the groups with --group"
        )
    are_numbers = texts.drop_nulls().cast(Float64, strict=False).is_not_null().all()
    if texts.count() and are_numbers:
        raise InputError(
            f"{place}: the column {columns.text!r} holds numbers; name the column of the texts, or give"
            f" --feature {columns.text}"
        )
    if len(groups) < 2:
        same = f"{' and '.join(columns.identity)} ({rows['identity'][0]})"
        raise InputError(f"{place}: every row has the same {same}; at least two are needed")


def _text_responses(texts: DataFrame, design: DataFrame, model: str) -> DataFrame:
    """Return the texts as responses to the prompts that the method created for them, row by row."""
    rows = texts.select(col.model.fill_null(model), without_thinking(col.text).alias("answer"))
    rows, _ = errors_as_failures("the texts", rows)
    return conform(rows.with_columns(design["prompt_id"], repetition=0), RESPONSES).with_columns(
        col.status.fill_null("ok")
    )
