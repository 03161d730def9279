"""Conformance checks for plugins: probes, features, statistics and model providers."""

from __future__ import annotations

import asyncio
import json
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
from tiltmeter.models.base import ALLOWED
from tiltmeter.probes import DEFINITIONS, HARMS, Probe
from tiltmeter.readers.outcomes import OUTCOMES
from tiltmeter.runs.conditions import ConditionError, parsed_condition
from tiltmeter.runs.folder import without_foreign
from tiltmeter.schema import RESPONSES
from tiltmeter.stats import Sample, Statistic, SummaryOptions as Options, summarise
from tiltmeter.study import Settings

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
"""Adversarial texts: empty and blank texts, unbalanced patterns, control characters, markup and very long
texts."""


Requirement = Callable[[object, str], None]
"""A function of a condition and a message that raises AssertionError with the message if the condition is
false."""


def _requirement_of(name: str) -> Requirement:
    """Return a function that checks a requirement and prefixes its message with `name`."""

    def require(met: object, sentence: str) -> None:
        if not met:
            raise AssertionError(f"{name}: {sentence}")

    return require


@contextmanager
def _raising_nothing(require: Requirement, circumstance: str) -> Iterator[None]:
    """Report an exception raised in the block as a violated requirement: "raises ValueError", followed by `circumstance`."""
    try:
        yield
    except Exception as error:
        require(False, f"raises {type(error).__name__} {circumstance}: {error}")


CARD = ("title", "harm", "asks", "reads", "bias", "limits", "source", "genders")
RESAMPLES = 50
BIASES = (0.0, 0.25, 1.0)


def check_probe(probe: Any, library: Library | None = None, *, limit: int = 60) -> None:
    """Check that a probe meets all requirements that `Probe` does not enforce itself.

    Parameters
    ----------
    probe
        The object of the entry point: an instance of a subclass of `Probe`.
    library
        Library with the probe's data; by default, the library of `tiltmeter run`.
    limit
        Number of items used to test parsing and formulas. (The design is also tested in full.)

    Raises
    ------
    AssertionError
        A requirement is not met; the message says which one.
    """
    from tiltmeter.datasets import Library

    require, library = _requirement_of(getattr(probe, "name", "probe")), library or Library.default()
    require(
        isinstance(probe, Probe),
        f"a probe must be an instance of a subclass of tiltmeter.probes.Probe, not {type(probe).__name__}",
    )
    require(
        re.fullmatch(r"[a-z][a-z0-9_]*", probe.name),
        "the name must consist of lower-case letters, digits and _",
    )
    _check_card(probe, require, library)
    for definition in DEFINITIONS:
        settings = Settings(definition=definition, limit=limit, resamples=RESAMPLES)
        full, design = probe.design(library, Settings(definition=definition)), probe.design(library, settings)
        _check_design(require, full, design)
        _check_reading(probe, require, design, settings)
        _check_findings(probe, require, design, settings)
        if definition == "default":
            _check_simulation(probe, require, full, design)


def _check_card(probe: Probe, require: Requirement, library: Library) -> None:
    for field in CARD:
        require(str(getattr(probe.card, field)).strip(), f"the field {field!r} of the card must not be empty")
    require(probe.card.harm in HARMS, f"the harm {probe.card.harm!r} must be one of {', '.join(HARMS)}")
    for name in probe.card.data:
        library.entry(name)  # raises a descriptive error itself
    require(
        any(metric.key for metric in probe.metrics), "at least one metric must be a key metric (key=True)"
    )
    for metric in probe.metrics:
        require(
            metric.description.endswith("."),
            f"the description of {metric.name} must be a sentence that ends with a full stop",
        )


def _check_design(require: Requirement, full: DataFrame, design: DataFrame) -> None:
    """Check the full design, and the design limited by --limit."""
    taken = [column for column in design.columns if column in RESPONSES and column != "prompt_id"]
    require(not taken, f"factors must not have the names of columns of RESPONSES, such as {taken[:1]}")
    require(
        full["prompt_id"].is_unique().all(),
        "prompt ids must be unique; use each prompt_index only once per item",
    )
    items = full["item"].unique().sort()
    require(items.to_list() == list(range(items.len())), "items must be numbered from 0 without gaps")
    empty = [column for column in design.columns if column != "system" and design[column].null_count()]
    require(not empty, f"the design must not contain nulls, as in the column {empty[:1]}")
    unfilled = full["prompt"].str.contains(r"\{\w+\}") | (full["prompt"].str.strip_chars() == "")
    require(not unfilled.any(), "prompts must be non-empty texts without unfilled placeholders")
    # first_sample depends on which of several identical prompts are kept; nothing else may change.
    same = (
        full.filter(col.prompt_id.is_in(design["prompt_id"].implode()))
        .drop("first_sample")
        .equals(design.drop("first_sample"))
    )
    require(
        same,
        "the same seed must give the same prompts and factors, also with --limit; use only `rng` for randomness",
    )


def _answers(design: DataFrame, texts: Sequence[str | None]) -> DataFrame:
    """Create one attempt per text, cycling through the prompts of a design."""
    rows = design.drop("prompt", "system")[[i % design.height for i in range(len(texts))]]
    nothing = {name: lit(None, kind) for name, kind in RESPONSES.items() if name not in rows.columns}
    given = {"model": lit("checked"), "status": lit("ok"), "repetition": lit(0, pl.Int16)}
    return rows.with_columns(**{**nothing, **given}).with_columns(answer=Series(texts, dtype=String))


def _check_reading(probe: Probe, require: Requirement, design: DataFrame, settings: Settings) -> None:
    answers = _answers(
        design,
        [None, *GARBAGE, *probe.labels, *(f"({letter})" for letter in "abc"), "Yes.", "No, I would not."],
    )
    with _raising_nothing(require, "although parsing must accept any answer"):
        read = probe.measure(answers, settings)
    require(
        read.height == answers.height,
        f"parsing must return one row per answer, not {read.height} for {answers.height}",
    )
    require({"outcome", "label"} <= set(read.columns), "parsing must return the columns outcome and label")
    unknown = set(read["outcome"].to_list()) - set(OUTCOMES)
    require(
        not unknown,
        f"every outcome must be one of {', '.join(OUTCOMES)}, not {sorted(map(str, unknown))[:1]}",
    )
    labels = set(read["label"].drop_nulls()) - set(probe.labels)
    require(not probe.labels or not labels, f"the label {sorted(labels)[:1]} must be listed in `labels`")
    without = read.filter(col.label.is_not_null() & (col.outcome != "answered"))
    require(without.is_empty(), "only attempts with the outcome answered may have a label")
    blank = read["outcome"].head(3).to_list()
    require(
        not probe.under(settings.definition).may_be_unread or "answered" not in blank,
        "an empty or blank text must not have the outcome answered",
    )
    require(read.equals(probe.measure(answers, settings)), "parsing must be deterministic")
    reversed_ = probe.measure(answers.reverse(), settings).reverse()
    some = probe.measure(answers.gather_every(3), settings).cast(read.schema)
    independent = reversed_.equals(read) and some.equals(read.gather_every(3))
    require(independent, "the parsing of an answer must not depend on the other answers")


def _check_findings(probe: Probe, require: Requirement, design: DataFrame, settings: Settings) -> None:
    measures = probe.simulate_measures(design, dict.fromkeys(HARMS, 0.25), 1)
    if measures is not None:
        _check_numbers(probe, require, measures, probe.analyse(measures, settings))
    silent = _answers(design, [""] * design.height)
    read = without_foreign(
        pl.concat(
            [silent.drop("answer", "refusal", "status"), probe.measure(silent, settings)], how="horizontal"
        )
    )
    if settings.definition == "default":
        marks = {row["mark"] for row in probe.analyse(read, settings)["findings"].iter_rows(named=True)} - {
            None
        }
        require(
            marks <= {"ungraded"},
            f"a model that never answers must be ungraded, not {sorted(marks - {'ungraded'})[:1]}",
        )


def _check_numbers(
    probe: Probe, require: Requirement, measures: DataFrame, tables: Mapping[str, DataFrame]
) -> None:
    found, grades = tables["findings"], tables["grades"]
    keys, computed = (
        {metric.name for metric in probe.metrics if metric.key},
        set(found.filter("key")["metric"]),
    )
    require(keys == computed, f"every key metric must be computed, including {sorted(keys ^ computed)[:1]}")
    for row in found.with_columns(grades["range_low", "range_high"]).iter_rows(named=True):
        metric = row["metric"]
        try:
            count = measures.filter(
                parsed_condition(row["evidence"], {"measures": measures.lazy()}, "measures")
            ).height
        except ConditionError as error:
            require(False, f"the evidence of {metric} must be a condition on its attempts: {error}")
        require(
            count == row["attempts"],
            f"the evidence of {metric} must select its {row['attempts']} attempts, not {count}",
        )
        if row["estimate"] is not None:
            inside = row["range_low"] <= row["estimate"] <= row["range_high"]
            require(inside, f"{metric} must be within the range of its Metric, but is {row['estimate']}")


def _check_simulation(probe: Probe, require: Requirement, full: DataFrame, design: DataFrame) -> None:
    for bias in BIASES:
        dials: Mapping[str, float] = dict.fromkeys(HARMS, bias)
        planted = probe.simulate(design, dials)
        if planted is None:
            return
        odds, sums = planted["odds"].explode(), planted["odds"].list.sum()
        require(
            odds.is_between(-1e-9, 1 + 1e-9).all(),
            f"the probabilities of `simulated_odds` must be between 0 and 1, also with bias {bias}",
        )
        require(
            sums.is_between(1 - 1e-9, 1 + 1e-9).all(),
            f"the probabilities of `simulated_odds` must sum to 1, also with bias {bias}",
        )
        truth = probe.true_values(dials)
        keys = {metric.name: metric for metric in probe.metrics if metric.key}
        require(set(truth) == set(keys), "`true_values` must return the value of every key metric")
        for metric, value in truth.items():
            inside = keys[metric].low <= value <= keys[metric].high
            require(inside, f"the true value of {metric} must be within its range, also with bias {bias}")
    _check_truth(probe, require, full)


def _check_truth(probe: Probe, require: Requirement, full: DataFrame) -> None:
    """Check that the formulas recover planted values in one simulation of the full design.

    The tolerance is twice the interval.
    """
    dials, settings = dict.fromkeys(HARMS, 0.25), Settings(resamples=200)
    measures = probe.simulate_measures(full, dials, 1)
    assert measures is not None
    found, truth = probe.analyse(measures, settings)["findings"], probe.true_values(dials)
    for row in found.filter(col.key & col.wording.is_null()).iter_rows(named=True):
        margin = max(row["high"] - row["low"], 0.005) / 2
        near = row["low"] - margin <= truth[row["metric"]] <= row["high"] + margin
        value = truth[row["metric"]]
        require(
            near,
            f"{row['metric']} is {row['estimate']} for answers simulated with `simulated_odds`, but `true_values` returns {value}",
        )


TEXTS = (
    "She is a brilliant engineer, and everybody likes her.",
    "He was late again. No one was surprised!",
    "They believe that the holiday brings the family together.",
    *GARBAGE,
)


def check_feature(feature: Callable[[str], Any], *, name: str = "feature") -> None:
    """Check that a feature maps texts to a number, a mapping of numbers by name, or None (not applicable).

    Parameters
    ----------
    feature
        The object of the entry point: a function of one text.
    name
        Name of the feature in messages.

    Raises
    ------
    AssertionError
        A requirement is not met; the message says which one.
    """
    require = _requirement_of(name)
    require(callable(feature), f"a feature must be a function of one text, not {type(feature).__name__}")
    first = {text: _numbers(feature, require, text) for text in TEXTS}
    for text in reversed(TEXTS):
        same = first[text] == _numbers(feature, require, text)
        require(same, f"the same text must always give the same numbers, but {_short(text)} does not")
    require(any(first.values()), f"at least one of the {len(TEXTS)} test texts must give a number")


def _numbers(feature: Callable[[str], Any], require: Requirement, text: str) -> dict[str, float]:
    with _raising_nothing(require, f"for {_short(text)}; return None if the feature is not applicable"):
        result = feature(text)
    if result is None:
        return {}
    named = dict(result) if isinstance(result, Mapping) else {"": result}
    for key, value in named.items():
        require(isinstance(key, str), f"names of numbers must be strings, not {type(key).__name__}")
        require(
            key == "" or key.isidentifier(),
            f"the name {key!r} must consist of letters, digits and underscores",
        )
        if value is None:
            continue
        require(
            not isinstance(value, str | bytes) and hasattr(value, "__float__"),
            f"values must be numbers, but {_short(text)} gives {value!r}",
        )
        require(math.isfinite(float(value)), f"numbers must be finite, but {_short(text)} gives {value}")
    return {key: float(value) for key, value in named.items() if value is not None}


def _short(text: str) -> str:
    return f"the text {text[:40]!r}" + ("..." if len(text) > 40 else "")


AT_ONCE = 20
TALK = (Message("system", "Be brief."), Message("user", "Is it raining? Answer yes or no."))
LIST = ("no", "yes", "refuse")
"""Allowed answers to TALK, for models that accept lists."""


def check_provider(
    create: Callable[..., object],
    spec: str,
    *,
    base_url: str | None = None,
    options: Mapping[str, str] | None = None,
    secret: str | None = None,
) -> None:
    """Check that a provider meets all requirements; the model receives about forty requests.

    Parameters
    ----------
    create
        The object of the entry point: a function `create(provider, model, *, base_url, options)` that returns
        a model.
    spec
        Name `provider/model` of a model that is available during the test, on a test server or in this
        process.
    base_url
        Base URL of the test server.
    options
        Model options (`-M key=value`) that the provider needs.
    secret
        API key of the provider, to check that it is never exposed.

    Raises
    ------
    AssertionError
        A requirement is not met; the message says which one.
    """
    provider, _, name = spec.partition("/")

    def make(named: str = name, **more: str) -> Any:
        return create(provider, named, base_url=base_url, options={**(options or {}), **more})

    require = _requirement_of(spec)
    model = make()
    require(
        isinstance(model, Model), f"`create` must return a tiltmeter.models.Model, not {type(model).__name__}"
    )
    require(
        model.name == spec, f"the name of the model must be the one that the user wrote, not {model.name!r}"
    )
    require(
        model.endpoint, "the endpoint must not be empty; it identifies the models that share a rate limit"
    )
    again = make()
    require(
        model.fingerprint == again.fingerprint,
        "the same model must have the same fingerprint, so that cached responses are found",
    )
    with suppress(TiltmeterError):  # if names are files or functions, this model does not exist
        require(
            make(f"{name}-other").fingerprint != model.fingerprint,
            "different models must have different fingerprints",
        )
    public = f"{model!r} {model.name} {model.fingerprint} {model.endpoint}"
    require(
        secret is None or secret not in public,
        "the API key must not appear in the name, fingerprint, endpoint or repr of the model",
    )
    try:
        make(no_such_option_of_this_provider="1")
    except InputError:
        pass
    else:
        require(False, "unknown options must raise InputError, so that typing errors are reported")
    with ThreadPoolExecutor(1) as executor:  # works even if the caller runs an event loop
        for _ in range(2):  # a model may be entered again in another event loop
            executor.submit(asyncio.run, _ask(model, require, secret)).result()


async def _ask(model: Any, require: Requirement, secret: str | None) -> None:
    async with model:
        for sampling in (
            Sampling(),
            Sampling(temperature=0.5, top_p=0.9, max_tokens=20, seed=1, stop=("END",)),
        ):
            await _check_answer(model, require, sampling, 0, secret)
        await asyncio.gather(
            *(_check_answer(model, require, Sampling(), sample, secret) for sample in range(AT_ONCE))
        )
        if getattr(model, "constrains", False):
            allowed = Message(ALLOWED, json.dumps(LIST))
            answers = [
                await _check_answer(model, require, Sampling(), sample, secret, (*TALK, allowed))
                for sample in range(2)
            ]
            wrong = [
                answer.text for answer in answers if not (_is_free(answer.text) or _is_on_list(answer.text))
            ]
            shown = repr(wrong[0]) if wrong else ""
            require(
                not wrong,
                f'the text of a constrained answer must be {{"answer": ...}} with one of the allowed answers, not {shown}',
            )


def _is_free(text: str | None) -> bool:
    """Return whether an answer was not constrained: any text but a JSON object or a JSON list.

    An endpoint may reject the list.
    """
    try:
        return not isinstance(json.loads(text or ""), dict | list)
    except ValueError:
        return True


def _is_on_list(text: str | None) -> bool:
    """Return whether an answer is an object with one of LIST."""
    answer = json.loads(text or "")
    return isinstance(answer, dict) and answer.get("answer") in LIST


async def _check_answer(
    model: Any,
    require: Requirement,
    sampling: Sampling,
    sample: int,
    secret: str | None,
    talk: Sequence[Message] = TALK,
) -> Completion:
    answer: Any = None
    try:
        answer = await model.complete(talk, sampling, sample)
    except ModelError as error:
        require(
            secret is None or secret not in f"{error!r} {error}",
            "the API key must not appear in error messages",
        )
        require(False, f"the model must answer a simple question, but failed: {error}")
    except Exception as error:
        require(False, f"failures must be raised as ModelError, not {type(error).__name__}: {error}")
    require(
        isinstance(answer, Completion), f"`complete` must return a Completion, not {type(answer).__name__}"
    )
    require(
        answer.text is None or isinstance(answer.text, str), "the text of an answer must be a string or None"
    )
    require(
        answer.text or answer.refusal or answer.finish_reason,
        "an answer without text must have a refusal or a finish reason",
    )
    require(answer.latency >= 0, "the latency must be in seconds and not negative")
    for count in (answer.input_tokens, answer.output_tokens):
        require(
            count is None or (isinstance(count, int) and count >= 0),
            "token counts must be non-negative integers, or None if unknown",
        )
    return answer  # type: ignore[no-any-return]


SHAPE = (2, 3, 4, 60)
"""Shape (features, groups, resamples, values) of test arrays."""


def check_statistic(statistic: Any, *, name: str = "statistic") -> None:
    """Check that a statistic meets all requirements.

    Parameters
    ----------
    statistic
        The object of the entry point: a `tiltmeter.stats.Statistic`.
    name
        Name of the statistic in messages.

    Raises
    ------
    AssertionError
        A requirement is not met; the message says which one.
    """
    require = _requirement_of(name)
    require(
        isinstance(statistic, Statistic),
        f"a statistic must be a tiltmeter.stats.Statistic, not {type(statistic).__name__}",
    )
    rng = np.random.default_rng(1)
    values = rng.normal(0.3, 1.0, SHAPE)
    values[rng.random(SHAPE) < 0.1] = np.nan
    baseline = np.where(rng.random(SHAPE) < 0.1, np.nan, np.nan_to_num(values) + rng.normal(0, 0.1, SHAPE))
    compute = partial(_compute, statistic, require)
    found = compute(values, baseline)
    require(
        np.isfinite(found).all(), "a sample of 60 values, some of them missing, must give a finite number"
    )
    if statistic.share:
        require(((found >= 0) & (found <= 1)).all(), "a share (share=True) must be between 0 and 1")
    _check_same(compute, require, values, baseline)
    nothing = np.full((1, 1, 1, 7), np.nan)
    empty = compute(nothing, nothing)
    require(np.isnan(empty).all(), f"the statistic of no values must be NaN, not {empty.ravel()[0]}")
    for size in (1, 2, 7):
        compute(np.full((1, 1, 1, size), 0.5), np.full((1, 1, 1, size), 0.5))


def _check_same(
    compute: Callable[[Floats, Floats], Floats], require: Requirement, values: Floats, baseline: Floats
) -> None:
    found = compute(values, baseline)
    require(_equal(found, compute(values, baseline)), "the statistic must be deterministic")
    for place in np.ndindex(*SHAPE[:2]):
        one = tuple(slice(at, at + 1) for at in place)
        alone = compute(values[one], baseline[one])
        require(
            _equal(alone, found[one]),
            "the statistic of a sample must not depend on other samples in the array",
        )
    order = np.random.default_rng(2).permutation(SHAPE[-1])
    mixed = compute(values[..., order], baseline[..., order])
    require(_equal(mixed, found), "the order of the values must not matter")
    more = [np.pad(side, [(0, 0)] * 3 + [(0, 5)], constant_values=np.nan) for side in (values, baseline)]
    require(_equal(compute(*more), found), "missing values (NaN) must be ignored")


def _compute(statistic: Statistic, require: Requirement, values: Floats, baseline: Floats) -> Floats:
    """Compute the statistic of a sample in the same way as a benchmark."""
    kept = values.copy(), baseline.copy()
    # Make the sample read-only, so that writing to it raises an error.
    for side in kept:
        side.setflags(write=False)
    standard = np.zeros((len(values), *(1,) * (values.ndim - 1)))
    sample = Sample(kept[0], kept[1] if statistic.paired else None, standard, Options())
    with _raising_nothing(require, f"for an array of shape {'x'.join(map(str, values.shape))}"):
        found: Any = summarise(sample, ["checked"], {"checked": statistic})["checked"]
    got = np.shape(found)
    require(got == values.shape[:-1], f"the result must have the shape {values.shape[:-1]}, not {got}")
    return np.asarray(found, dtype=np.float64)


def _equal(one: Floats, other: Floats) -> bool:
    return bool(np.allclose(one, other, rtol=1e-9, atol=1e-9, equal_nan=True))
