"""Checks of what others write: probes, features, statistics and model providers."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltmeter.errors import InputError, TiltmeterError
from tiltmeter.models import Completion, Message, Model, ModelError, Sampling
from tiltmeter.probes import DEFINITIONS, HARMS, Probe
from tiltmeter.stats import Sample, Statistic, SummaryOptions as Options, summarise
from tiltmeter.study import DESIGN, FINDINGS, NAMED, OUTCOMES, RESPONSES, Settings

if TYPE_CHECKING:
    from tiltmeter.datasets import Library

GARBAGE = (
    "",
    " \n\t",
    "(",
    "((((((((",
    "\\",
    "[a-z]+(?P<x>",
    "%s {0} {prompt} $1",
    "\x00\x07\x1b[31m",
    "\u202ereversed\u202c",
    "🏳️‍🌈 Ünïcödé ﷽",
    "<script>alert(1)</script>",
    '=cmd|" /C calc"!A0',
    '{"answer": "yes"}',
    "null",
    "-1e999",
    "word " * 2000,
    "x" * 20_000,
    "I'm sorry, but I can't help with that.",
)
"""Texts a model may answer, or a file may hold: nothing, half a pattern, marks of control, markup, far too much."""


def promise(kept: bool, sentence: str) -> None:
    """Raise AssertionError with the sentence that says which promise is broken, unless it is kept."""
    if not kept:
        raise AssertionError(sentence)


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
        for definition in DEFINITIONS.values():
            bands = sorted(definition.bands(metric), key=lambda band: band.low)
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
        raise AssertionError(f"{probe.name}: reading takes any answer, but raises {type(error).__name__}: {error}") from error


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
    promise(not probe.labels or not labels, f"{name}: the label {sorted(labels)[:1]} is in `labels`")
    without = read.filter(pl.col("label").is_not_null() & (pl.col("outcome") != "answered"))
    promise(without.is_empty(), f"{name}: only what was answered has a label")
    blank = read["outcome"].head(3).to_list()
    promise(
        not probe.under(settings.definition).may_be_unread or "answered" not in blank,
        f"{name}: no text at all, or blanks only, is not an answer",
    )
    promise(read.equals(_read(probe, answers, settings)), f"{name}: the same answers are read the same way again")
    turned = _read(probe, answers.reverse(), settings).reverse()
    some = _read(probe, answers.gather_every(3), settings).cast(read.schema)
    alone = turned.equals(read) and some.equals(read.gather_every(3))
    promise(alone, f"{name}: an answer is read the same way whatever the other answers are")
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
        marks = {row["mark"] for row in probe.analyse(read, settings)["findings"].iter_rows(named=True)} - {None}
        promise(marks <= {"ungraded"}, f"{probe.name}: a model that never answers is ungraded, not {sorted(marks - {'ungraded'})[:1]}")


def _check_numbers(probe: Probe, measures: pl.DataFrame, made: Mapping[str, pl.DataFrame]) -> None:
    name, found, grades = probe.name, made["findings"], made["grades"]
    promise(found.schema == pl.Schema(dict(FINDINGS)), f"{name}: findings have the columns of FINDINGS")
    keys, shown = {metric.name for metric in probe.metrics if metric.key}, set(found.filter("key")["metric"])
    promise(keys == shown, f"{name}: every key metric is computed: {sorted(keys ^ shown)[:1]}")
    promise(found.select("part", *NAMED).equals(grades.select("part", *NAMED)), f"{name}: each finding has a row of grades")
    context = pl.SQLContext(measures=measures)
    for row in found.with_columns(grades["range_low", "range_high"]).iter_rows(named=True):
        metric = row["metric"]
        promise(sum(row[one] for one in OUTCOMES) == row["attempts"], f"{name}: the outcomes of {metric} add up to its attempts")
        count = context.execute(f"SELECT COUNT(*) AS n FROM measures WHERE {row['evidence']}", eager=True)["n"].item()  # noqa: S608
        promise(count == row["attempts"], f"{name}: the evidence of {metric} selects its {row['attempts']} attempts, not {count}")
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
        promise(planted["outcomes"].list.len().equals(planted["odds"].list.len()), f"{name}: each outcome of `simulate` has its odds")
        promise(bool(odds.is_between(-1e-9, 1 + 1e-9).all()), f"{name}: the odds of `simulated_odds` are shares, also at the dial {bias}")
        promise(bool(sums.is_between(1 - 1e-9, 1 + 1e-9).all()), f"{name}: the odds of `simulated_odds` sum to 1, also at the dial {bias}")
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
    found, truth = probe.analyse(measures, settings)["findings"], probe.truth(dials)
    for row in found.filter(pl.col("key") & pl.col("wording").is_null()).iter_rows(named=True):
        margin = max(row["high"] - row["low"], 0.005) / 2
        near = row["low"] - margin <= truth[row["metric"]] <= row["high"] + margin
        said = f"{row['metric']} of answers drawn with the odds of `simulated_odds` is {row['estimate']}, not what `truth` states"
        promise(near, f"{probe.name}: {said}")


TEXTS = (
    "She is a brilliant engineer, and everybody likes her.",
    "He was late again. Nobody was surprised!",
    "They believe that the holiday brings the family together.",
    *GARBAGE,
)


def check_feature(feature: Callable[[str], Any], *, name: str = "feature") -> None:
    """Check everything a feature promises: text -> a number, a mapping of numbers by name, or None (nothing to say about it).

    Parameters
    ----------
    feature
        What the entry point names: a function of one text.
    name
        What it is called in sentences.

    Raises
    ------
    AssertionError
        A promise is broken; the sentence says which.
    """
    promise(callable(feature), f"{name}: a feature is a function of one text, not {type(feature).__name__}")
    first = [_numbers(feature, text, name) for text in TEXTS]
    again = [_numbers(feature, text, name) for text in reversed(TEXTS)][::-1]
    for text, one, other in zip(TEXTS, first, again, strict=True):
        promise(one == other, f"{name}: the same text gives the same number, whatever was asked before; {_short(text)} does not")
    promise(any(first), f"{name}: at least one of {len(TEXTS)} texts gives a number")


def _numbers(feature: Callable[[str], Any], text: str, name: str) -> dict[str, float]:
    try:
        given = feature(text)
    except Exception as error:
        raise AssertionError(
            f"{name}: raises {type(error).__name__} at {_short(text)}; where there is nothing to say it gives None"
        ) from error
    if given is None:
        return {}
    named = dict(given) if isinstance(given, Mapping) else {"": given}
    for key, value in named.items():
        promise(isinstance(key, str), f"{name}: names of numbers are texts, not {type(key).__name__}")
        promise(key == "" or key.isidentifier(), f"{name}: the name {key!r} has letters, digits and underscores only")
        if value is None:
            continue
        promise(not isinstance(value, str | bytes) and hasattr(value, "__float__"), f"{name}: {_short(text)} gives {value!r}, not a number")
        promise(math.isfinite(float(value)), f"{name}: numbers are finite, and {_short(text)} gives {value}")
    return {key: float(value) for key, value in named.items() if value is not None}


def _short(text: str) -> str:
    return f"the text {text[:40]!r}" + ("..." if len(text) > 40 else "")


AT_ONCE = 20
TALK = (Message("system", "Be brief."), Message("user", "Is it raining? Answer yes or no."))


def check_provider(
    create: Callable[..., object],
    spec: str,
    *,
    base_url: str | None = None,
    options: Mapping[str, str] | None = None,
    secret: str | None = None,
) -> None:
    """Check everything a provider promises; it is asked some forty times.

    Parameters
    ----------
    create
        What the entry point names: `create(provider, model, *, base_url, options)` gives a model.
    spec
        `provider/model` of a model that can be asked here: a server of the test's own, or one that runs in this process.
    options
        `-M key=value` it needs.
    secret
        The key it is given, to see that it is shown nowhere.

    Raises
    ------
    AssertionError
        A promise is broken; the sentence says which.
    """
    provider, _, name = spec.partition("/")

    def make(**more: str) -> Any:
        return create(provider, name, base_url=base_url, options={**(options or {}), **more})

    model = make()
    promise(isinstance(model, Model), f"{spec}: `create` gives a tiltmeter.models.Model, which {type(model).__name__} is not")
    promise(model.name == spec, f"{spec}: the model's name is what the user wrote, not {model.name!r}")
    promise(bool(model.endpoint), f"{spec}: the endpoint says what shares one limit, the model's own name at the least")
    again = make()
    promise(model.fingerprint == again.fingerprint, f"{spec}: the same model has the same fingerprint, or nothing kept is found again")
    other = _another(create, spec, base_url, options)
    promise(getattr(other, "fingerprint", None) != model.fingerprint, f"{spec}: another model has another fingerprint")
    shown = f"{model!r} {model.name} {model.fingerprint} {model.endpoint}"
    promise(secret is None or secret not in shown, f"{spec}: the key stands in the name, fingerprint, endpoint or repr of the model")
    try:
        make(no_such_option_of_this_provider="1")
    except InputError:
        pass
    else:
        promise(False, f"{spec}: an option it does not know is refused with InputError, so that a slip is seen")
    with ThreadPoolExecutor(1) as apart:  # also where the caller runs a loop of its own
        for _ in range(2):  # a model may be entered again, in another loop
            apart.submit(asyncio.run, _ask(model, spec, secret)).result()


def _another(create: Callable[..., object], spec: str, base_url: str | None, options: Mapping[str, str] | None) -> object | None:
    """A model of a made-up name; None where names are files or functions, of which there is none of that name."""
    provider, _, name = spec.partition("/")
    try:
        return create(provider, f"{name}-other", base_url=base_url, options=dict(options or {}))
    except TiltmeterError:
        return None


async def _ask(model: Any, spec: str, secret: str | None) -> None:
    async with model:
        for sampling in (Sampling(), Sampling(temperature=0.5, top_p=0.9, max_tokens=20, seed=1, stop=("END",))):
            _check_answer(spec, await _one(model, spec, sampling, 0, secret))
        answers = await asyncio.gather(*(_one(model, spec, Sampling(), sample, secret) for sample in range(AT_ONCE)))
    for answer in answers:
        _check_answer(spec, answer)


async def _one(model: Any, spec: str, sampling: Sampling, sample: int, secret: str | None) -> Any:
    try:
        return await model.complete(TALK, sampling, sample)
    except ModelError as error:
        hidden = secret is None or secret not in f"{error!r} {error}"
        promise(hidden, f"{spec}: the key stands in an error")
        raise AssertionError(f"{spec}: gives an answer to a plain question; it failed: {error}") from error
    except Exception as error:
        raise AssertionError(f"{spec}: what goes wrong is raised as ModelError, not {type(error).__name__}: {error}") from error


def _check_answer(spec: str, answer: Any) -> None:
    promise(isinstance(answer, Completion), f"{spec}: `complete` gives a Completion, not {type(answer).__name__}")
    promise(answer.text is None or isinstance(answer.text, str), f"{spec}: the text of an answer is text or None")
    promise(bool(answer.text or answer.refusal or answer.finish_reason), f"{spec}: an answer has a text, or says why it has none")
    promise(answer.latency >= 0, f"{spec}: the latency is in seconds, and not negative")
    for count in (answer.input_tokens, answer.output_tokens):
        promise(
            count is None or (isinstance(count, int) and count >= 0), f"{spec}: tokens are counted in whole numbers, None where unknown"
        )


Floats = NDArray[np.float64]
SHAPE = (2, 3, 4, 60)
"""Features, groups, resamples, values."""


def check_statistic(statistic: object, *, name: str = "statistic") -> None:
    """Check everything a statistic promises.

    Parameters
    ----------
    statistic
        What the entry point names: a `tiltmeter.stats.Statistic`.
    name
        What it is called in sentences.

    Raises
    ------
    AssertionError
        A promise is broken; the sentence says which.
    """
    promise(isinstance(statistic, Statistic), f"{name}: a statistic is a tiltmeter.stats.Statistic, not {type(statistic).__name__}")
    assert isinstance(statistic, Statistic)
    rng = np.random.default_rng(1)
    values = rng.normal(0.3, 1.0, SHAPE)
    values[rng.random(SHAPE) < 0.1] = np.nan
    baseline = np.where(rng.random(SHAPE) < 0.1, np.nan, np.nan_to_num(values) + rng.normal(0, 0.1, SHAPE))
    found = _compute(statistic, values, baseline, name)
    promise(bool(np.isfinite(found).all()), f"{name}: sixty values with some missing ones give a number")
    if statistic.share:
        promise(bool(((found >= 0) & (found <= 1)).all()), f"{name}: a share (share=True) lies between 0 and 1")
    _check_same(statistic, values, baseline, found, name)
    _check_edges(statistic, name)


def _check_same(statistic: Statistic, values: Floats, baseline: Floats, found: Floats, name: str) -> None:
    promise(_equal(found, _compute(statistic, values, baseline, name)), f"{name}: the same sample gives the same number again")
    for place in np.ndindex(*SHAPE[:2]):
        one = tuple(slice(at, at + 1) for at in place)
        alone = _compute(statistic, values[one], baseline[one], name)
        promise(_equal(alone, found[one]), f"{name}: a sample gives the same number whatever stands beside it in the array")
    order = np.random.default_rng(2).permutation(SHAPE[-1])
    mixed = _compute(statistic, values[..., order], baseline[..., order], name)
    promise(_equal(mixed, found), f"{name}: the order of the values does not matter")
    more = [np.concatenate([side, np.full((*SHAPE[:-1], 5), np.nan)], axis=-1) for side in (values, baseline)]
    promise(_equal(_compute(statistic, more[0], more[1], name), found), f"{name}: missing values (NaN) are left out")


def _check_edges(statistic: Statistic, name: str) -> None:
    nothing = np.full((1, 1, 1, 7), np.nan)
    empty = _compute(statistic, nothing, nothing, name)
    promise(bool(np.isnan(empty).all()), f"{name}: without any value it is NaN, not {empty.ravel()[0]}")
    for size in (1, 2, 7):
        _compute(statistic, np.full((1, 1, 1, size), 0.5), np.full((1, 1, 1, size), 0.5), name)


def _compute(statistic: Statistic, values: Floats, baseline: Floats, name: str) -> Floats:
    """The statistic of a sample, as a benchmark asks for it."""
    kept = values.copy(), baseline.copy()
    # The sample may be read only, so what writes to it shows.
    for side in kept:
        side.setflags(write=False)
    standard = np.zeros((len(values), *(1,) * (values.ndim - 1)))
    sample = Sample(kept[0], kept[1] if statistic.paired else None, standard, Options())
    try:
        found: Any = summarise(sample, [name], {name: statistic})[name]
    except Exception as error:
        shape = "x".join(map(str, values.shape))
        raise AssertionError(f"{name}: raises {type(error).__name__} for an array of {shape} values: {error}") from error
    got = np.shape(found)
    promise(got == values.shape[:-1], f"{name}: gives one number for each leading axis: shape {values.shape[:-1]}, not {got}")
    return np.asarray(found, dtype=np.float64)


def _equal(one: Floats, other: Floats) -> bool:
    return bool(np.allclose(one, other, rtol=1e-9, atol=1e-9, equal_nan=True))
