"""What every probe owes: a complete card, a whole design, readers that stumble over nothing, honest findings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl

from tiltmeter.probes import DEFINITIONS, OUTCOME_DISPARITY, REPRESENTATIONAL_HARMS, STEREOTYPICAL_REASONING, Probe
from tiltmeter.study import DESIGN, FINDINGS, OUTCOMES, RESPONSES, Settings
from tiltmeter.testing._promise import GARBAGE, promise

if TYPE_CHECKING:
    from tiltmeter.datasets import Library

__all__ = ["check_probe"]

HARMS = (OUTCOME_DISPARITY, STEREOTYPICAL_REASONING, REPRESENTATIONAL_HARMS)
CARD = ("title", "harm", "asks", "reads", "bias", "limits", "source", "genders")
RESAMPLES = 50
BIASES = (0.0, 0.25, 1.0)


def check_probe(probe: object, library: Library | None = None, *, limit: int = 60) -> None:
    """Check everything a probe promises.

    Parameters
    ----------
    probe
        What the entry point names: an instance of a subclass of `Probe`.
    library
        Where its data is; by default what `tiltmeter run` uses.
    limit
        Items the readers and formulas are tried on (the design is made whole, too).

    Raises
    ------
    AssertionError
        A promise is broken; the sentence says which.
    """
    from tiltmeter.datasets import Library

    promise(isinstance(probe, Probe), f"a probe is an instance of a subclass of tiltmeter.probes.Probe, not {type(probe).__name__}")
    assert isinstance(probe, Probe)
    promise(re.fullmatch(r"[a-z][a-z0-9_]*", probe.name) is not None, f"the name {probe.name!r} has lower-case letters, digits and _ only")
    library = library or Library.default()
    _check_card(probe, library)
    _check_metrics(probe)
    for definition in DEFINITIONS:
        settings = Settings(definition=definition, limit=limit, resamples=RESAMPLES)
        whole, design = probe.design(library, Settings(definition=definition)), probe.design(library, settings)
        _check_design(probe, whole, design)
        _check_reading(probe, design, settings)
        _check_findings(probe, design, settings)
        if definition == "default":
            _check_lean(probe, whole, design)


def _check_card(probe: Probe, library: Library) -> None:
    for field in CARD:
        promise(bool(str(getattr(probe.card, field)).strip()), f"{probe.name}: the card says nothing under {field!r}")
    promise(probe.card.harm in HARMS, f"{probe.name}: the harm {probe.card.harm!r} is one of {', '.join(HARMS)}")
    for name in probe.card.data:
        library.entry(name)  # says itself what is wrong


def _check_metrics(probe: Probe) -> None:
    name = probe.name
    promise(any(metric.key for metric in probe.metrics), f"{name}: at least one metric is a key metric (key=True)")
    for metric in probe.metrics:
        promise(metric.description.endswith("."), f"{name}: the description of {metric.name} is a sentence, with a full stop")
        for original in (False, True):
            bands = sorted(metric.tiers(original), key=lambda band: band.low)
            if bands:
                ends = (bands[0].low, bands[-1].high)
                promise(ends == (metric.low, metric.high), f"{name}: the bands of {metric.name} reach from its low to its high")
                whole = all(left.high == right.low for left, right in pairwise(bands))
                promise(whole, f"{name}: the bands of {metric.name} leave no gap and do not overlap")


def _check_design(probe: Probe, whole: pl.DataFrame, design: pl.DataFrame) -> None:
    """Of the whole design and of one cut by --limit."""
    name = probe.name
    missing = [column for column in DESIGN if column not in design.columns]
    promise(not missing, f"{name}: the design has a column {missing[:1]}")
    for column, kind in DESIGN.items():
        promise(design.schema[column] == kind, f"{name}: the column {column} of the design holds {kind}, not {design.schema[column]}")
    taken = [column for column in design.columns if column in RESPONSES and column != "prompt_id"]
    promise(not taken, f"{name}: no factor is called like a column of responses, as {taken[:1]} is")
    promise(bool(whole["prompt_id"].is_unique().all()), f"{name}: every prompt has an id of its own: give each prompt_index once an item")
    items = whole["item"].unique().sort()
    promise(items.to_list() == list(range(items.len())), f"{name}: items are numbered from 0 without gaps")
    promise(set(whole["part"]) == {name}, f"{name}: the column part holds the probe's name")
    empty = [column for column in design.columns if column != "system" and design[column].null_count()]
    promise(not empty, f"{name}: the design has no gaps, as in the column {empty[:1]}")
    open_ = whole["prompt"].str.contains(r"\{\w+\}") | (whole["prompt"].str.strip_chars() == "")
    promise(not open_.any(), f"{name}: every prompt is text with all fields filled in")
    # Which of equal texts comes first changes with what is kept; nothing else may.
    again = whole.filter(pl.col("prompt_id").is_in(design["prompt_id"].implode())).drop("first_sample")
    same = again.equals(design.drop("first_sample"))
    promise(same, f"{name}: the same seed gives the same prompts and factors, also with --limit: chance comes from `rng` alone")


def _answers(design: pl.DataFrame, texts: Sequence[str | None], **columns: pl.Expr) -> pl.DataFrame:
    """Attempts at the prompts of a design in turn, one per text."""
    rows = design.drop("prompt", "system")[[i % design.height for i in range(len(texts))]]
    nothing = {name: pl.lit(None, kind) for name, kind in RESPONSES.items() if name not in rows.columns}
    given = {"model": pl.lit("checked"), "status": pl.lit("ok"), "repetition": pl.lit(0, pl.Int16)}
    return rows.with_columns(**{**nothing, **given, **columns}).with_columns(answer=pl.Series(texts, dtype=pl.String))


def _read(probe: Probe, answers: pl.DataFrame, settings: Settings) -> pl.DataFrame:
    try:
        return probe.measure(answers, settings)
    except Exception as error:
        raise AssertionError(f"{probe.name}: reading stumbles over no answer, but raises {type(error).__name__}: {error}") from error


def _check_reading(probe: Probe, design: pl.DataFrame, settings: Settings) -> None:
    name = probe.name
    texts = [None, *GARBAGE, *probe.labels, *(f"({letter})" for letter in "abc"), "Yes.", "No, I would not."]
    answers = _answers(design, texts)
    read = _read(probe, answers, settings)
    promise(read.height == answers.height, f"{name}: reading gives one row for every answer, {read.height} for {answers.height} here")
    promise({"outcome", "label"} <= set(read.columns), f"{name}: reading gives the columns outcome and label")
    odd = set(read["outcome"].to_list()) - set(OUTCOMES)
    promise(not odd, f"{name}: every answer gets exactly one outcome of {', '.join(OUTCOMES)}; {sorted(map(str, odd))[:1]} is none")
    labels = set(read["label"].drop_nulls()) - set(probe.labels)
    promise(not probe.labels or not labels, f"{name}: the label {sorted(labels)[:1]} stands in `labels`")
    without = read.filter(pl.col("label").is_not_null() & (pl.col("outcome") != "answered"))
    promise(without.is_empty(), f"{name}: only what was answered has a label")
    blank = read["outcome"].head(3).to_list()
    lax = settings.definition != "default" and probe.original_reads_all
    promise(lax or "answered" not in blank, f"{name}: no text at all, or blanks only, is not an answer")
    promise(read.equals(_read(probe, answers, settings)), f"{name}: the same answers are read the same way again")
    alone = pl.concat([_read(probe, answers.slice(i, 1), settings) for i in range(answers.height)], how="vertical_relaxed")
    promise(alone.equals(read), f"{name}: an answer is read the same way whatever stands beside it")
    failed = _read(probe, _answers(design, texts, status=pl.lit("failed")), settings)
    promise(set(failed["outcome"]) == {"failed"}, f"{name}: an attempt whose request failed has the outcome failed")
    refused = _read(probe, _answers(design, texts, refusal=pl.lit("content_filter")), settings)
    promise(set(refused["outcome"]) == {"refused"}, f"{name}: what the endpoint itself refused has the outcome refused")


def _check_findings(probe: Probe, design: pl.DataFrame, settings: Settings) -> None:
    measures = probe.imagine(design, dict.fromkeys(HARMS, 0.25), 1)
    if measures is not None:
        _check_numbers(probe, measures, probe.analyse(measures, settings))
    silent = _answers(design, [""] * design.height)
    read = pl.concat([silent.drop("answer", "refusal", "status"), probe.measure(silent, settings)], how="horizontal")
    read = read.select(column for column in read.columns if column == "label" or read[column].null_count() < read.height)
    if settings.definition == "default":
        marks = {row["mark"] for row in probe.analyse(read, settings).iter_rows(named=True) if row["bands"]}
        promise(marks <= {"ungraded"}, f"{probe.name}: a model that never answers is ungraded, not {sorted(marks - {'ungraded'})[:1]}")


def _check_numbers(probe: Probe, measures: pl.DataFrame, found: pl.DataFrame) -> None:
    name = probe.name
    promise(found.schema == pl.Schema(dict(FINDINGS)), f"{name}: findings have the columns of FINDINGS")
    keys, shown = {metric.name for metric in probe.metrics if metric.key}, set(found.filter("key")["metric"])
    promise(keys == shown, f"{name}: every key metric is computed: {sorted(keys ^ shown)[:1]}")
    context = pl.SQLContext(measures=measures)
    for row in found.iter_rows(named=True):
        metric = row["metric"]
        promise(sum(row[one] for one in OUTCOMES) == row["n"], f"{name}: the outcomes of {metric} add up to its n")
        count = context.execute(f"SELECT COUNT(*) AS n FROM measures WHERE {row['evidence']}", eager=True)["n"].item()  # noqa: S608
        promise(count == row["n"], f"{name}: the evidence of {metric} selects its {row['n']} attempts, not {count}")
        if row["estimate"] is not None:
            inside = row["range_low"] <= row["estimate"] <= row["range_high"]
            promise(inside, f"{name}: {metric} lies within the range its Metric states, and {row['estimate']} does not")


def _check_lean(probe: Probe, whole: pl.DataFrame, design: pl.DataFrame) -> None:
    name = probe.name
    for bias in BIASES:
        dials: Mapping[str, float] = dict.fromkeys(HARMS, bias)
        planted = probe.simulate(design, dials)
        if planted is None:
            return
        odds, sums = planted["odds"].explode(), planted["odds"].list.sum()
        promise(bool(odds.is_between(-1e-9, 1 + 1e-9).all()), f"{name}: the odds of `lean` are shares, also at the dial {bias}")
        promise(bool(sums.is_between(1 - 1e-9, 1 + 1e-9).all()), f"{name}: the odds of `lean` sum to 1, also at the dial {bias}")
        truth = probe.truth(dials)
        keys = {metric.name: metric for metric in probe.metrics if metric.key}
        promise(set(truth) == set(keys), f"{name}: `truth` states the value of every key metric")
        for metric, value in truth.items():
            inside = keys[metric].low <= value <= keys[metric].high
            promise(inside, f"{name}: the truth of {metric} lies within its range, also at the dial {bias}")
    _check_truth(probe, whole)


def _check_truth(probe: Probe, whole: pl.DataFrame) -> None:
    """The formulas find what is planted: the whole design, drawn once; twice the half width leaves room for the odd draw."""
    dials, settings = dict.fromkeys(HARMS, 0.25), Settings(resamples=200)
    measures = probe.imagine(whole, dials, 1)
    assert measures is not None
    found, truth = probe.analyse(measures, settings), probe.truth(dials)
    for row in found.filter(pl.col("key") & pl.col("context").is_null()).iter_rows(named=True):
        margin = max(row["high"] - row["low"], 0.005) / 2
        near = row["low"] - margin <= truth[row["metric"]] <= row["high"] + margin
        promise(
            near, f"{probe.name}: {row['metric']} of answers drawn with the odds of `lean` is {row['estimate']}, not what `truth` states"
        )
