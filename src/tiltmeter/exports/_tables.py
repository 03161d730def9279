"""The tables of a run by name, lazily."""

from __future__ import annotations

import polars as pl

from tiltmeter.errors import InputError
from tiltmeter.exports._formats import Wanted
from tiltmeter.registry import did_you_mean
from tiltmeter.reports import average_note, normalised_table

__all__ = ["findings_of", "normalised_of", "scan"]

_OWN = ("design", "responses", "measures", "findings")


def scan(wanted: Wanted) -> pl.LazyFrame:
    """The table that is wanted, every row of it; raises InputError where the run has none of that name."""
    run, name = wanted.run, wanted.table
    if name == "normalised":
        return normalised_of(wanted)[0].lazy()
    if name == "examples":
        lazy = run.examples.lazy()
    elif name in _OWN:
        lazy = run.folder.scan(name)
    elif name in (stages := run.folder.stages()):
        lazy = stages[name]
    else:
        known = [*_OWN, "normalised", "examples", *stages]
        raise InputError(f"{run.place} has no table {name!r}: {did_you_mean(name, list(dict.fromkeys(known)))}")
    if wanted.model is None:
        return lazy
    if "model" not in lazy.collect_schema():
        raise InputError(f"--table {name} says nothing about single models; leave out --model")
    return lazy.filter(pl.col("model") == wanted.model)


def findings_of(wanted: Wanted) -> pl.DataFrame:
    """The findings to be shown to readers: the key ones, or every one."""
    findings = wanted.run.findings
    if wanted.model is not None:
        findings = findings.filter(pl.col("model") == wanted.model)
    return findings if wanted.every else findings.filter(pl.col("key"))


def normalised_of(wanted: Wanted) -> tuple[pl.DataFrame, str]:
    """Key metrics of the models side by side, and a sentence about their average; raises InputError where none has a normalised score."""
    findings = wanted.run.findings
    if wanted.model is not None:
        findings = findings.filter(pl.col("model") == wanted.model)
    table = normalised_table(findings)
    if table.height <= 1:  # nothing but the average
        raise InputError(f"no metric of {wanted.run.place} has a normalised score: only probes are put on one scale; use --table findings")
    return table, average_note(findings)
