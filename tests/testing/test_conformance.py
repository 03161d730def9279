"""The suites pass for our own plugins, and name the rule that a broken plugin breaks."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from support.adder import InProcess
from support.misbehaving import MisbehavingServer
from tiltmeter.datasets import Library
from tiltmeter.errors import InputError
from tiltmeter.models import Completion, Message, Sampling
from tiltmeter.models._base import ALLOWED
from tiltmeter.models._function import create as create_function
from tiltmeter.models._http import create as create_http
from tiltmeter.models.sim import create as create_sim
from tiltmeter.probes._genderbench.inventories import Inventories
from tiltmeter.stats import STATISTICS, Sample, Statistic
from tiltmeter.study import NO_TOOLS, Settings, Tools
from tiltmeter.testing import check_feature, check_probe, check_provider, check_statistic

SECRET = "sk-geheim-0123456789abcdef"


@pytest.fixture
def library(shared: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    monkeypatch.setenv("TILTMETER_DATA", str(shared / "data"))
    return Library.default()


class Spoilt(Inventories):
    """A probe with a fault and the wordings of the real probe."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__module__ = Inventories.__module__


class Careless(Spoilt):
    card = dataclasses.replace(Inventories.card, limits=" ")


class Unseeded(Spoilt):
    def prompts(self, library: Library, rng: random.Random) -> pl.DataFrame:
        table = super().prompts(library, rng)
        return table.with_columns(source=pl.Series([str(random.random()) for _ in range(table.height)]))


class Twice(Spoilt):
    def prompts(self, library: Library, rng: random.Random) -> pl.DataFrame:
        return super().prompts(library, rng).with_columns(item=pl.lit(0), prompt_index=pl.lit(0))


class Short(Spoilt):
    def measure(self, answers: pl.DataFrame, settings: Settings, tools: Tools = NO_TOOLS) -> pl.DataFrame:
        return super().measure(answers, settings, tools).head(1)


class Reader(Spoilt):
    """A probe whose reading is changed by `change`."""

    change: Callable[[pl.DataFrame], pl.DataFrame]

    def read(self, answers: pl.DataFrame) -> pl.DataFrame:
        return type(self).change(super().read(answers))


def as_of_neighbours(read: pl.DataFrame) -> pl.DataFrame:
    filled = read.with_columns(label=pl.col("label").fill_null(strategy="forward"))
    is_labelled = pl.col("label").is_not_null()
    return filled.with_columns(outcome=pl.when(is_labelled).then(pl.lit("answered")).otherwise("outcome"))


def stumble(read: pl.DataFrame) -> pl.DataFrame:
    raise ValueError("unbalanced parenthesis")


def reading(change: Callable[[pl.DataFrame], pl.DataFrame]) -> Inventories:
    return type("Reading", (Reader,), {"change": staticmethod(change)})()  # type: ignore[no-any-return]


class Odd(Spoilt):
    def simulated_odds(self, dials: Mapping[str, float]) -> Mapping[str, pl.Expr]:
        return {name: value * 0.9 for name, value in super().simulated_odds(dials).items()}


class Boastful(Spoilt):
    def true_values(self, dials: Mapping[str, float]) -> dict[str, float]:
        return {name: value / 2 for name, value in super().true_values(dials).items()}


def labelled(label: str) -> Callable[[pl.DataFrame], pl.DataFrame]:
    return lambda read: read.with_columns(label=pl.when(pl.col("outcome") == "answered").then(pl.lit(label)))


BROKEN_PROBES = {
    "the field 'limits' of the card must not be empty": Careless(),
    "use only `rng` for randomness": Unseeded(),
    "prompt ids must be unique": Twice(),
    "must return one row per answer": Short(),
    "every outcome must be one of": reading(lambda read: read.with_columns(outcome=pl.lit("maybe"))),
    "must be listed in `labels`": reading(labelled("neither")),
    "only attempts with the outcome answered may have a label": reading(
        lambda read: read.with_columns(outcome=pl.lit("unreadable"), label=pl.lit("male"))
    ),
    "blank text must not have the outcome answered": reading(
        lambda read: read.with_columns(outcome=pl.lit("answered"), label=pl.lit("male"))
    ),
    "must not depend on the other answers": reading(as_of_neighbours),
    "parsing must accept any answer": reading(stumble),
    "the probabilities of `simulated_odds` must sum to 1": Odd(),
    "but `true_values` returns": Boastful(),
    "an instance of a subclass of": Inventories,
}


@pytest.mark.parametrize("message", BROKEN_PROBES)
def test_the_rule_that_a_broken_probe_breaks_is_named(message: str, library: Library) -> None:
    with pytest.raises(AssertionError, match=re.escape(message)):
        check_probe(BROKEN_PROBES[message], library)


def always(messages: list[dict[str, str]]) -> str:
    return "yes"


def test_our_providers_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    check_provider(create_sim, "sim/mild")
    check_provider(create_function, f"python/{always.__module__}:always")
    for variable in ("TILTMETER_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(variable, SECRET)
    with MisbehavingServer() as server:
        check_provider(create_http, "compatible/org/m", base_url=server.url, secret=SECRET)
        check_provider(create_http, "anthropic/m", base_url=server.url, secret=SECRET)


async def test_a_provider_can_be_checked_where_a_loop_runs() -> None:
    check_provider(create_sim, "sim/mild")


class Parrot(InProcess):
    """A model whose faults a test chooses."""

    endpoint = "parrot"

    def __init__(self, name: str, fingerprint: str, answer: Callable[[], Any]) -> None:
        self.name = name
        self.fingerprint = fingerprint
        self.answer = answer

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Any:
        return self.answer()


def parrot(
    answer: Callable[[], Any] = lambda: Completion("yes"),
    name: str = "{}",
    mark: Callable[[str], str] = str,
    lax: bool = False,
) -> Callable[..., object]:
    def create(
        provider: str, model: str, *, base_url: str | None = None, options: Mapping[str, str] | None = None
    ) -> Parrot:
        if options and not lax:
            raise InputError("there are no options")
        return Parrot(name.format(f"{provider}/{model}"), mark(f"{provider}/{model}"), answer)

    return create


def raising() -> Completion:
    raise RuntimeError("not what was agreed on")


BROKEN_PROVIDERS = {
    "the name of the model must be the one that the user wrote": parrot(name="parrot"),
    "the same model must have the same fingerprint": parrot(mark=lambda name: str(random.random())),
    "different models must have different fingerprints": parrot(mark=lambda name: "parrot"),
    "unknown options must raise InputError": parrot(lax=True),
    "failures must be raised as ModelError, not RuntimeError": parrot(raising),
    "`complete` must return a Completion, not str": parrot(lambda: "yes"),
    "the latency must be in seconds": parrot(lambda: Completion("yes", latency=-1)),
    "an answer without text must have": parrot(lambda: Completion(None)),
    "the API key must not appear in the name": parrot(mark=lambda name: f"{name} {SECRET}"),
    "must return a tiltmeter.models.Model, not int": lambda *_, **__: 1,
}


def constrained(*answers: str) -> Callable[..., object]:
    """A provider whose model returns `answers` to the first prompts with a list, and "yes" to all others."""
    remaining = [*answers]

    class Listed(Parrot):
        constrains = True

        async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Any:
            has_list = any(message.role == ALLOWED for message in messages)
            return Completion(remaining.pop(0) if has_list and remaining else "yes")

    def create(
        provider: str, model: str, *, base_url: str | None = None, options: Mapping[str, str] | None = None
    ) -> Parrot:
        model_without_list = parrot()(provider, model, base_url=base_url, options=options)
        assert isinstance(model_without_list, Parrot)
        return Listed(model_without_list.name, model_without_list.fingerprint, model_without_list.answer)

    return create


@pytest.mark.parametrize(
    "answer",
    ['{"answer": "maybe"}', '{"answer": 3}', '{"answer": ["yes"]}', '{"label": "yes"}', "{}", '["yes"]'],
)
@pytest.mark.parametrize("first", ['{"answer": "yes"}', "yes"])
def test_an_answer_of_a_provider_that_is_not_on_the_list_is_named(first: str, answer: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(f"with one of the allowed answers, not {answer!r}")):
        check_provider(constrained(first, answer), "parrot/polly")


def test_providers_with_answers_on_the_list_and_free_answers_pass() -> None:
    """Free answers are allowed, because an endpoint may reject the list."""
    check_provider(constrained('{"answer": "refuse"}', '{"answer": "yes"}', "Yes.", "3"), "parrot/polly")


@pytest.mark.parametrize("message", BROKEN_PROVIDERS)
def test_the_rule_that_a_broken_provider_breaks_is_named(message: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(message)):
        check_provider(BROKEN_PROVIDERS[message], "parrot/polly", secret=SECRET)


def test_a_parrot_without_faults_passes() -> None:
    check_provider(parrot(), "parrot/polly", secret=SECRET)


@pytest.mark.parametrize("name", STATISTICS)
def test_our_statistics_pass(name: str) -> None:
    check_statistic(STATISTICS[name], name=name)


def overwriting(sample: Sample) -> Any:
    sample.values[np.isnan(sample.values)] = 0.0
    return sample.values.mean(axis=-1)


BROKEN_STATISTICS = {
    "a sample of 60 values, some of them missing, must give a finite number": Statistic(
        lambda sample: sample.values.mean(axis=-1)
    ),
    "missing values (NaN) must be ignored": Statistic(
        lambda sample: np.where(np.isnan(sample.values), 0.0, sample.values).mean(axis=-1)
    ),
    "the order of the values must not matter": Statistic(
        lambda sample: np.nan_to_num(sample.values[..., 0]) + sample.count
    ),
    "must not depend on other samples": Statistic(lambda sample: sample.mean - sample.mean.mean()),
    "the result must have the shape": Statistic(lambda sample: sample.values[0]),
    "a share (share=True) must be between 0 and 1": Statistic(lambda sample: sample.count, share=True),
    "the statistic of no values must be NaN": Statistic(lambda sample: sample.count),
    "raises AssertionError for an array": Statistic(lambda sample: sample.pairs[0].sum(axis=-1)),
    "raises ValueError for an array": Statistic(overwriting),
    "not function": lambda sample: sample.mean,
}


@pytest.mark.parametrize("message", BROKEN_STATISTICS)
def test_the_rule_that_a_broken_statistic_breaks_is_named(message: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(message)):
        check_statistic(BROKEN_STATISTICS[message])


def test_features_that_keep_the_rules_pass() -> None:
    check_feature(len)
    check_feature(lambda text: {"words": len(text.split()), "letters": None if not text else len(text)})
    check_feature(lambda text: None if len(text) < 10 else 0.5)


BROKEN_FEATURES: dict[str, Callable[[str], Any]] = {
    "the same text must always give the same number": lambda text: random.random(),
    "raises ZeroDivisionError for the text ''": lambda text: text.count(" ") / len(text),
    "numbers must be finite": lambda text: float("inf"),
    "values must be numbers": lambda text: "much",
    "the name 'a b' must consist of letters": lambda text: {"a b": 1},
    "at least one of": lambda text: None,
}


@pytest.mark.parametrize("message", BROKEN_FEATURES)
def test_the_rule_that_a_broken_feature_breaks_is_named(message: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(message)):
        check_feature(BROKEN_FEATURES[message])
