"""The formats there are, by name. Nothing is imported to list them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tiltmeter.runs import Run

__all__ = ["FORMATS", "Format", "Wanted"]


class Wanted(NamedTuple):
    """What a writer is asked for."""

    run: Run
    path: Path
    """The file or folder to make; for a service, the run folder."""
    table: str
    every: bool
    """Every finding, not only the key ones."""
    model: str | None
    """Only this model; None: all of them."""


class Format(NamedTuple):
    """One format.

    `writer` is "module:function"; the function takes a `Wanted`, makes what is wanted whole or not at all, and returns where it is:
    one path, or one address for each thing a service was given.
    """

    writer: str
    makes: str
    """What comes out, in a few words."""
    suffix: str | None
    """Of the file's name; empty for a folder, None for a service, which is given no path."""
    tables: tuple[str, ...] | None = ("findings",)
    """What it can be asked for, the first being the default; None: any table."""
    one_model: bool = True
    """Whether it can be narrowed to one model."""


_HERE = "tiltmeter.exports"

FORMATS: Mapping[str, Format] = {
    "csv": Format(f"{_HERE}._plain:write_csv", "a table, formulas made harmless", ".csv", tables=None),
    "json": Format(f"{_HERE}._plain:write_json", "a table as a list of objects", ".json", tables=None),
    "jsonl": Format(f"{_HERE}._plain:write_jsonl", "a table, one object a line", ".jsonl", tables=None),
    "parquet": Format(f"{_HERE}._plain:write_parquet", "a table, typed and compressed", ".parquet", tables=None),
    "markdown": Format(f"{_HERE}._markdown:write_markdown", "a table to read", ".md", tables=("findings", "normalised")),
    "latex": Format(f"{_HERE}._latex:write_latex", "a table for a paper (booktabs)", ".tex", tables=("findings", "normalised")),
    "huggingface": Format(f"{_HERE}._huggingface:write_dataset", "a dataset folder with its card", "", one_model=False),
    "modelcard": Format(f"{_HERE}._modelcard:write_card", "a section and metadata for a model card", ".md"),
    "mlflow": Format(f"{_HERE}._mlflow:log_run", "an MLflow run for each model", None),
    "wandb": Format(f"{_HERE}._wandb:log_run", "a Weights & Biases run for each model", None),
}
"""Name to format; another one is another entry."""
