"""Checks of what others write: probes, features, statistics and model providers."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from polars import DataFrame, Series, String, col, lit

from tiltmeter.arrays import Floats
from tiltmeter.errors import InputError, TiltmeterError
from tiltmeter.models import Completion, Message, Model, ModelError, Sampling
from tiltmeter.probes import DEFINITIONS, HARMS, Probe
from tiltmeter.runs.folder import without_foreign
from tiltmeter.stats import Sample, Statistic, SummaryOptions as Options, summarise
from tiltmeter.study import OUTCOMES, RESPONSES, Settings

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


Promise = Callable[[object, str], None]
"""Raises AssertionError with a sentence that says which promise is broken, unless it is kept."""


def _promises_of(name: str) -> Promise:
    """What `name` promises: sentences begin with it."""

    def promise(kept: object, sentence: str) -> None:
        if not kept:
            raise AssertionError(f"{name}: {sentence}")

    return promise


@contextmanager
def _raising_nothing(promise: Promise, said: str) -> Iterator[None]:
    """Break a promise where the block raises: "raises ValueError", followed by what is `said` of it."""
    try:
        yield
    except Exception as error:
        promise(False, f"raises {type(error).__name__} {said}: {error}")


CARD = ("title", "harm", "asks", "reads", "bias", "limits", "source", "genders")
RESAMPLES = 50
BIASES = (0.0, 0.25, 1.0)


def check_probe(probe: Any, library: Library | None = None, *, limit: int = 60) -> None:
    """Check everything a probe promises, apart from what `Probe` itself does for all probes.

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

    promise, library = _promises_of(getattr(probe, "name", "probe")), library or Library.default()
    promise(isinstance(probe, Probe), f"a probe is an instance of a subclass of tiltmeter.probes.Probe, not {type(probe).__name__}")
    promise(re.fullmatch(r"[a-z][a-z0-9_]*", probe.name), "the name has lower-case letters, digits and _ only")
    _check_card(probe, promise, library)
    for definition in DEFINITIONS:
        settings = Settings(definition=definition, limit=limit, resamples=RESAMPLES)
        whole, design = probe.design(library, Settings(definition=definition)), probe.design(library, settings)
        _check_design(promise, whole, design)
        _check_reading(probe, promise, design, settings)
        _check_findings(probe, promise, design, settings)
        if definition == "default":
            _check_lean(probe, promise, whole, design)


def _check_card(probe: Probe, promise: Promise, library: Library) -> None:
    for field in CARD:
        promise(str(getattr(probe.card, field)).strip(), f"the card says nothing under {field!r}")
    promise(probe.card.harm in HARMS, f"the harm {probe.card.harm!r} is one of {', '.join(HARMS)}")
    for name in probe.card.data:
        library.entry(name)  # says itself what is wrong
    promise(any(metric.key for metric in probe.metrics), "at least one metric is a key metric (key=True)")
    for metric in probe.metrics:
        promise(metric.description.endswith("."), f"the description of {metric.name} is a sentence, with a full stop")


def _check_design(promise: Promise, whole: DataFrame, design: DataFrame) -> None:
    """Of the whole design and of one cut by --limit."""
    taken = [column for column in design.columns if column in RESPONSES and column != "prompt_id"]
    promise(not taken, f"no factor is called like a column of responses, as {taken[:1]} is")
    promise(whole["prompt_id"].is_unique().all(), "every prompt has an id of its own: give each prompt_index once an item")
    items = whole["item"].unique().sort()
    promise(items.to_list() == list(range(items.len())), "items are numbered from 0 without gaps")
    empty = [column for column in design.columns if column != "system" and design[column].null_count()]
    promise(not empty, f"the design has no gaps, as in the column {empty[:1]}")
    open_ = whole["prompt"].str.contains(r"\{\w+\}") | (whole["prompt"].str.strip_chars() == "")
    promise(not open_.any(), "every prompt is text with all fields filled in")
    # Which of equal texts comes first changes with what is kept; nothing else may.
    again = whole.filter(col.prompt_id.is_in(design["prompt_id"].implode())).drop("first_sample")
    same = again.equals(design.drop("first_sample"))
    promise(same, "the same seed gives the same prompts and factors, also with --limit: chance comes from `rng` alone")


def _answers(design: DataFrame, texts: Sequence[str | None]) -> DataFrame:
    """Attempts at the prompts of a design in turn, one per text."""
    rows = design.drop("prompt", "system")[[i % design.height for i in range(len(texts))]]
    nothing = {name: lit(None, kind) for name, kind in RESPONSES.items() if name not in rows.columns}
    given = {"model": lit("checked"), "status": lit("ok"), "repetition": lit(0, pl.Int16)}
    return rows.with_columns(**{**nothing, **given}).with_columns(answer=Series(texts, dtype=String))


def _check_reading(probe: Probe, promise: Promise, design: DataFrame, settings: Settings) -> None:
    texts = [None, *GARBAGE, *probe.labels, *(f"({letter})" for letter in "abc"), "Yes.", "No, I would not."]
    answers = _answers(design, texts)
    with _raising_nothing(promise, "although reading takes any answer"):
        read = probe.measure(answers, settings)
    promise(read.height == answers.height, f"reading gives one row for every answer, {read.height} for {answers.height} here")
    promise({"outcome", "label"} <= set(read.columns), "reading gives the columns outcome and label")
    odd = set(read["outcome"].to_list()) - set(OUTCOMES)
    promise(not odd, f"every answer gets exactly one outcome of {', '.join(OUTCOMES)}; {sorted(map(str, odd))[:1]} is none")
    labels = set(read["label"].drop_nulls()) - set(probe.labels)
    promise(not probe.labels or not labels, f"the label {sorted(labels)[:1]} is in `labels`")
    without = read.filter(col.label.is_not_null() & (col.outcome != "answered"))
    promise(without.is_empty(), "only what was answered has a label")
    blank = read["outcome"].head(3).to_list()
    promise(
        not probe.under(settings.definition).may_be_unread or "answered" not in blank,
        "no text at all, or blanks only, is not an answer",
    )
    promise(read.equals(probe.measure(answers, settings)), "the same answers are read the same way again")
    turned = probe.measure(answers.reverse(), settings).reverse()
    some = probe.measure(answers.gather_every(3), settings).cast(read.schema)
    alone = turned.equals(read) and some.equals(read.gather_every(3))
    promise(alone, "an answer is read the same way whatever the other answers are")


def _check_findings(probe: Probe, promise: Promise, design: DataFrame, settings: Settings) -> None:
    measures = probe.simulate_measures(design, dict.fromkeys(HARMS, 0.25), 1)
    if measures is not None:
        _check_numbers(probe, promise, measures, probe.analyse(measures, settings))
    silent = _answers(design, [""] * design.height)
    read = without_foreign(pl.concat([silent.drop("answer", "refusal", "status"), probe.measure(silent, settings)], how="horizontal"))
    if settings.definition == "default":
        marks = {row["mark"] for row in probe.analyse(read, settings)["findings"].iter_rows(named=True)} - {None}
        promise(marks <= {"ungraded"}, f"a model that never answers is ungraded, not {sorted(marks - {'ungraded'})[:1]}")


def _check_numbers(probe: Probe, promise: Promise, measures: DataFrame, made: Mapping[str, DataFrame]) -> None:
    found, grades = made["findings"], made["grades"]
    keys, shown = {metric.name for metric in probe.metrics if metric.key}, set(found.filter("key")["metric"])
    promise(keys == shown, f"every key metric is computed: {sorted(keys ^ shown)[:1]}")
    context = pl.SQLContext(measures=measures)
    for row in found.with_columns(grades["range_low", "range_high"]).iter_rows(named=True):
        metric = row["metric"]
        count = context.execute(f"SELECT COUNT(*) AS n FROM measures WHERE {row['evidence']}", eager=True)["n"].item()  # noqa: S608
        promise(count == row["attempts"], f"the evidence of {metric} selects its {row['attempts']} attempts, not {count}")
        if row["estimate"] is not None:
            inside = row["range_low"] <= row["estimate"] <= row["range_high"]
            promise(inside, f"{metric} lies within the range its Metric states, and {row['estimate']} does not")


def _check_lean(probe: Probe, promise: Promise, whole: DataFrame, design: DataFrame) -> None:
    for bias in BIASES:
        dials: Mapping[str, float] = dict.fromkeys(HARMS, bias)
        planted = probe.simulate(design, dials)
        if planted is None:
            return
        odds, sums = planted["odds"].explode(), planted["odds"].list.sum()
        promise(odds.is_between(-1e-9, 1 + 1e-9).all(), f"the odds of `simulated_odds` are shares, also at the dial {bias}")
        promise(sums.is_between(1 - 1e-9, 1 + 1e-9).all(), f"the odds of `simulated_odds` sum to 1, also at the dial {bias}")
        truth = probe.true_values(dials)
        keys = {metric.name: metric for metric in probe.metrics if metric.key}
        promise(set(truth) == set(keys), "`true_values` states the value of every key metric")
        for metric, value in truth.items():
            inside = keys[metric].low <= value <= keys[metric].high
            promise(inside, f"the truth of {metric} lies within its range, also at the dial {bias}")
    _check_truth(probe, promise, whole)


def _check_truth(probe: Probe, promise: Promise, whole: DataFrame) -> None:
    """The formulas find what is planted: the whole design, drawn once; twice the half width leaves room for the odd draw."""
    dials, settings = dict.fromkeys(HARMS, 0.25), Settings(resamples=200)
    measures = probe.simulate_measures(whole, dials, 1)
    assert measures is not None
    found, truth = probe.analyse(measures, settings)["findings"], probe.true_values(dials)
    for row in found.filter(col.key & col.wording.is_null()).iter_rows(named=True):
        margin = max(row["high"] - row["low"], 0.005) / 2
        near = row["low"] - margin <= truth[row["metric"]] <= row["high"] + margin
        said = f"{row['metric']} of answers drawn with the odds of `simulated_odds` is {row['estimate']}, not what `true_values` states"
        promise(near, said)


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
    promise = _promises_of(name)
    promise(callable(feature), f"a feature is a function of one text, not {type(feature).__name__}")
    first = {text: _numbers(feature, promise, text) for text in TEXTS}
    for text in reversed(TEXTS):
        same = first[text] == _numbers(feature, promise, text)
        promise(same, f"the same text gives the same number, whatever was asked before; {_short(text)} does not")
    promise(any(first.values()), f"at least one of {len(TEXTS)} texts gives a number")


def _numbers(feature: Callable[[str], Any], promise: Promise, text: str) -> dict[str, float]:
    with _raising_nothing(promise, f"at {_short(text)}, where None would mean that there is nothing to say"):
        given = feature(text)
    if given is None:
        return {}
    named = dict(given) if isinstance(given, Mapping) else {"": given}
    for key, value in named.items():
        promise(isinstance(key, str), f"names of numbers are texts, not {type(key).__name__}")
        promise(key == "" or key.isidentifier(), f"the name {key!r} has letters, digits and underscores only")
        if value is None:
            continue
        promise(not isinstance(value, str | bytes) and hasattr(value, "__float__"), f"{_short(text)} gives {value!r}, not a number")
        promise(math.isfinite(float(value)), f"numbers are finite, and {_short(text)} gives {value}")
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

    def make(named: str = name, **more: str) -> Any:
        return create(provider, named, base_url=base_url, options={**(options or {}), **more})

    promise = _promises_of(spec)
    model = make()
    promise(isinstance(model, Model), f"`create` gives a tiltmeter.models.Model, which {type(model).__name__} is not")
    promise(model.name == spec, f"the model's name is what the user wrote, not {model.name!r}")
    promise(model.endpoint, "the endpoint says what shares one limit, the model's own name at the least")
    again = make()
    promise(model.fingerprint == again.fingerprint, "the same model has the same fingerprint, or nothing kept is found again")
    with suppress(TiltmeterError):  # names are files or functions, of which there is none of that name
        promise(make(f"{name}-other").fingerprint != model.fingerprint, "another model has another fingerprint")
    shown = f"{model!r} {model.name} {model.fingerprint} {model.endpoint}"
    promise(secret is None or secret not in shown, "the key appears in the name, fingerprint, endpoint or repr of the model")
    try:
        make(no_such_option_of_this_provider="1")
    except InputError:
        pass
    else:
        promise(False, "an option it does not know is refused with InputError, so that a slip is seen")
    with ThreadPoolExecutor(1) as apart:  # also where the caller runs a loop of its own
        for _ in range(2):  # a model may be entered again, in another loop
            apart.submit(asyncio.run, _ask(model, promise, secret)).result()


async def _ask(model: Any, promise: Promise, secret: str | None) -> None:
    async with model:
        for sampling in (Sampling(), Sampling(temperature=0.5, top_p=0.9, max_tokens=20, seed=1, stop=("END",))):
            await _check_answer(model, promise, sampling, 0, secret)
        await asyncio.gather(*(_check_answer(model, promise, Sampling(), sample, secret) for sample in range(AT_ONCE)))


async def _check_answer(model: Any, promise: Promise, sampling: Sampling, sample: int, secret: str | None) -> None:
    answer: Any = None
    try:
        answer = await model.complete(TALK, sampling, sample)
    except ModelError as error:
        promise(secret is None or secret not in f"{error!r} {error}", "the key appears in an error")
        promise(False, f"gives an answer to a plain question; it failed: {error}")
    except Exception as error:
        promise(False, f"what goes wrong is raised as ModelError, not {type(error).__name__}: {error}")
    promise(isinstance(answer, Completion), f"`complete` gives a Completion, not {type(answer).__name__}")
    promise(answer.text is None or isinstance(answer.text, str), "the text of an answer is text or None")
    promise(answer.text or answer.refusal or answer.finish_reason, "an answer has a text, or says why it has none")
    promise(answer.latency >= 0, "the latency is in seconds, and not negative")
    for count in (answer.input_tokens, answer.output_tokens):
        promise(count is None or (isinstance(count, int) and count >= 0), "tokens are counted in whole numbers, None where unknown")


SHAPE = (2, 3, 4, 60)
"""Features, groups, resamples, values."""


def check_statistic(statistic: Any, *, name: str = "statistic") -> None:
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
    promise = _promises_of(name)
    promise(isinstance(statistic, Statistic), f"a statistic is a tiltmeter.stats.Statistic, not {type(statistic).__name__}")
    rng = np.random.default_rng(1)
    values = rng.normal(0.3, 1.0, SHAPE)
    values[rng.random(SHAPE) < 0.1] = np.nan
    baseline = np.where(rng.random(SHAPE) < 0.1, np.nan, np.nan_to_num(values) + rng.normal(0, 0.1, SHAPE))
    compute = partial(_compute, statistic, promise)
    found = compute(values, baseline)
    promise(np.isfinite(found).all(), "sixty values with some missing ones give a number")
    if statistic.share:
        promise(((found >= 0) & (found <= 1)).all(), "a share (share=True) lies between 0 and 1")
    _check_same(compute, promise, values, baseline)
    nothing = np.full((1, 1, 1, 7), np.nan)
    empty = compute(nothing, nothing)
    promise(np.isnan(empty).all(), f"without any value it is NaN, not {empty.ravel()[0]}")
    for size in (1, 2, 7):
        compute(np.full((1, 1, 1, size), 0.5), np.full((1, 1, 1, size), 0.5))


def _check_same(compute: Callable[[Floats, Floats], Floats], promise: Promise, values: Floats, baseline: Floats) -> None:
    found = compute(values, baseline)
    promise(_equal(found, compute(values, baseline)), "the same sample gives the same number again")
    for place in np.ndindex(*SHAPE[:2]):
        one = tuple(slice(at, at + 1) for at in place)
        alone = compute(values[one], baseline[one])
        promise(_equal(alone, found[one]), "a sample gives the same number whatever is beside it in the array")
    order = np.random.default_rng(2).permutation(SHAPE[-1])
    mixed = compute(values[..., order], baseline[..., order])
    promise(_equal(mixed, found), "the order of the values does not matter")
    more = [np.pad(side, [(0, 0)] * 3 + [(0, 5)], constant_values=np.nan) for side in (values, baseline)]
    promise(_equal(compute(*more), found), "missing values (NaN) are left out")


def _compute(statistic: Statistic, promise: Promise, values: Floats, baseline: Floats) -> Floats:
    """The statistic of a sample, as a benchmark asks for it."""
    kept = values.copy(), baseline.copy()
    # The sample may be read only, so what writes to it shows.
    for side in kept:
        side.setflags(write=False)
    standard = np.zeros((len(values), *(1,) * (values.ndim - 1)))
    sample = Sample(kept[0], kept[1] if statistic.paired else None, standard, Options())
    with _raising_nothing(promise, f"for an array of {'x'.join(map(str, values.shape))} values"):
        found: Any = summarise(sample, ["checked"], {"checked": statistic})["checked"]
    got = np.shape(found)
    promise(got == values.shape[:-1], f"gives one number for each leading axis: shape {values.shape[:-1]}, not {got}")
    return np.asarray(found, dtype=np.float64)


def _equal(one: Floats, other: Floats) -> bool:
    return bool(np.allclose(one, other, rtol=1e-9, atol=1e-9, equal_nan=True))
