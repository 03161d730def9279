"""Texts somebody else wrote or generated, with who each is about: analysed by a method that needs no prompts of its own."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from tiltmeter import registry
from tiltmeter._paths import sha256
from tiltmeter.errors import EXIT_INCOMPLETE, EXIT_OK, InputError, ProviderError
from tiltmeter.measures import without_thinking
from tiltmeter.registry import did_you_mean
from tiltmeter.runs import _steps as steps
from tiltmeter.runs._folder import RunFolder
from tiltmeter.runs._load import Run
from tiltmeter.runs._own import NOBODY, Asking
from tiltmeter.runs._resolve import Resolved
from tiltmeter.runs._run import Clock, RunResult, default_folder, describe, judged_by, problems_of, read_answers
from tiltmeter.runs._tables import read_columns
from tiltmeter.study import RESPONSES

if TYPE_CHECKING:
    from tiltmeter.datasets import Library

__all__ = ["TextColumns", "analyse_texts"]


@dataclasses.dataclass(frozen=True, slots=True)
class TextColumns:
    """Which columns of the user's tables hold what; several identity columns are taken together ("Asian, female").

    Attributes
    ----------
    text
        The texts; None where only values of features are given.
    location, name
        Where a text plays and who it is about (associations).
    baseline, pair
        The text each one is compared with, and what the same prompt for several groups shares (benchmarks).
    feature
        Values measured elsewhere (benchmarks).
    """

    text: str | None
    identity: Sequence[str]
    location: str | None = None
    name: str | None = None
    baseline: str | None = None
    pair: Sequence[str] = ()
    feature: Sequence[str] = ()


def analyse_texts(
    paths: Sequence[Path],
    resolved: Resolved,
    columns: TextColumns,
    *,
    library: Library,
    model: str,
    asking: Asking = NOBODY,
    out: str | Path | None = None,
    command: str | None = None,
) -> RunResult:
    """Measure and analyse texts from files.

    Parameters
    ----------
    paths
        CSV, JSONL or Parquet tables, read one after the other.
    resolved
        A study whose method can read texts of others; only its settings count.
    model
        Who wrote the texts, where the tables have no column `model`.

    Raises
    ------
    InputError
        The method reads no texts of others, a file or column cannot be used, or there are not at least two identities.
    """
    family = resolved.study.name.partition("/")[0]
    suite = registry.load("studies", family)
    of_texts = getattr(suite, "of_texts", None)
    if of_texts is None:
        raise InputError(f"{resolved.study.name} reads answers to its own prompts only; leave --text and --identity out")
    for flag in ("location", "name", "baseline", "pair", "feature"):
        if getattr(columns, flag) and flag not in suite.reads:
            raise InputError(f"--{flag}: {family} do not use such a column; leave the flag out")
    if twice := [path for path in paths if list(paths).count(path) > 1]:
        raise InputError(f"{twice[0]} is given twice; give it once")
    rows = pl.concat([_read(path, columns) for path in paths])
    named = ", ".join(map(str, paths))
    if not columns.feature and not (rows["text"].str.strip_chars().fill_null("") != "").any():
        raise InputError(f"{named}: no row has a text in the column {columns.text!r}; name the column that holds the texts with --text")
    if rows["identity"].n_unique() < 2:
        raise InputError(
            f"{named}: every row has the same {' and '.join(columns.identity)} ({rows['identity'][0]}); at least two are needed"
        )
    if again := int(rows.filter(pl.col("text").is_not_null()).select("identity", "text").is_duplicated().sum()):
        print(f"note: {again:,} texts stand there more than once; each counts as often as it stands there", file=sys.stderr)
    study = of_texts(rows, resolved.settings.params)
    inputs = {**resolved.inputs, **{str(path): sha256(path) for path in paths}}
    resolved = dataclasses.replace(resolved, study=study, inputs=inputs)
    names = rows["model"].fill_null(model)
    chosen = {name: value for name, value in dataclasses.asdict(columns).items() if value}
    document = resolved.as_document() | {"models": [{"name": model}], "responses": [str(path) for path in paths], "columns": chosen}
    folder = RunFolder.at(out or default_folder(document, [path.stem for path in paths]))
    with folder.filling(document), asking.open() as (judge, engine):
        became = steps.make_design(resolved, library, folder)
        result = RunResult(Run(folder), problems_of(became))
        if result.problems:  # one part only: nothing can be said without it
            raise ProviderError("; ".join(result.problems))
        with folder.table("responses", RESPONSES) as add:
            add(_responses(folder.read("design"), rows["text"], names))
        clock = Clock()
        read_answers(folder, resolved, study.parts, library, judge, result, clock, became, engine)
        about = {
            "models": [{"name": name} for name in names.unique(maintain_order=True)],
            "judged_by": judged_by(judge),
            "engine": engine.name,
        }
        folder.write_json(describe(resolved, library, folder, command, became, result.problems) | about | {"seconds": clock.seconds})
    result.exit_code = EXIT_INCOMPLETE if result.problems else EXIT_OK
    return result


def _values(table: pl.DataFrame, names: Sequence[str], path: Path) -> dict[str, pl.Series]:
    """Columns of numbers, NaN as missing."""
    found = {}
    for name in names:
        values = table[name].cast(pl.Float64, strict=False)
        if wrong := (values.is_null() & table[name].is_not_null()).arg_true().to_list():
            raise InputError(
                f"--feature {name}: {path}, row {wrong[0] + 1}: {table[name][wrong[0]]!r} is no number; mend it, or leave it empty"
            )
        found[f"value:{name}"] = values.fill_nan(None)
    return found


def _responses(design: pl.DataFrame, text: pl.Series, model: pl.Series) -> pl.DataFrame:
    made = design.select("prompt_id").with_columns(model=model, answer=text, repetition=pl.lit(0), status=pl.lit("ok"))
    made = made.with_columns(without_thinking(pl.col("answer")))
    return made.select((pl.col(n) if n in made.columns else pl.lit(None)).cast(kind).alias(n) for n, kind in RESPONSES.items())


def _read(path: Path, columns: TextColumns) -> pl.DataFrame:
    """`text`, `identity`, `location`, `name`, `model`, `prompt` of one file; rows without a text or an identity are an error."""
    table = read_columns(path)
    wanted: Mapping[str, str | None] = {
        "text": columns.text,
        "location": columns.location,
        "name": columns.name,
        "baseline": columns.baseline,
    }
    several = (("identity", columns.identity), ("pair", columns.pair), ("feature", columns.feature))
    for flag, column in (*wanted.items(), *((flag, one) for flag, given in several for one in given)):
        if column is not None and column not in table.columns:
            raise InputError(f"--{flag} {column}: {path} has no such column; {did_you_mean(column, table.columns)}")
        if column is not None and (table.schema[column].is_nested() or table.schema[column] == pl.Binary):
            raise InputError(f"--{flag} {column}: this column of {path} holds {table.schema[column]}, not text; give the text itself")
    plain = [name for name, kind in table.schema.items() if not kind.is_nested() and kind != pl.Binary]
    optional = {name: name if name in plain else None for name in ("model", "prompt")}
    text = {name: pl.col(column).cast(pl.String) if column else pl.lit(None, pl.String) for name, column in {**wanted, **optional}.items()}
    identity = pl.concat_str([pl.col(one).cast(pl.String).str.strip_chars() for one in columns.identity], separator=", ")
    pair = pl.concat_str([pl.col(one).cast(pl.String) for one in columns.pair], separator=", ") if columns.pair else pl.lit(None, pl.String)
    rows = table.select(identity=identity, pair=pair, **text, **_values(table, columns.feature, path))
    empty = rows.select((pl.col("identity").is_null() | (pl.col("identity") == "")).arg_true()).to_series()
    if empty.len():
        raise InputError(f"{path}: row {empty[0] + 1} has no {' or '.join(columns.identity)}; fill it in or take the row out")
    return rows
