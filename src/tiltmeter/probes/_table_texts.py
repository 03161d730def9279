"""Outcomes of responses to a table of prompts without labels: refusals, numbers, lengths and features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import polars as pl
from polars import DataFrame, Expr, Float64, Series, String, col, lit, when

from tiltmeter import readers
from tiltmeter.comparisons import WORD
from tiltmeter.datasets import Library
from tiltmeter.errors import InputError
from tiltmeter.features import rouge_l
from tiltmeter.probes._contract import Odds
from tiltmeter.probes._table_outcomes import (
    VALUE,
    Phrases,
    Quantity,
    TableOutcome,
    capitalised,
    higher,
    labelled,
    mean_of,
    other_than,
    share_of,
    slug,
    sums_of,
)
from tiltmeter.readers.outcomes import free_texts
from tiltmeter.study import Tools, open_unloaded_features

LEVELS: Final = (30, 40, 50, 60, 70)
"""Numbers that the simulated model answers with."""
TILT: Final = 0.2
"""Change of the probability of each number, relative to the one before it, for a shift of 1."""
FEWEST_SIMILAR: Final = 3
"""Smallest number of prompts of an item whose similarity to each other can differ."""
SAMPLE_TEXTS: Final = ("Yes.", "No, I am sorry.", "The salary should be 52,000 dollars a year.")
"""Texts on which a function of the user is tried, to see whether it returns True or False, or numbers."""


class Refusal(TableOutcome):
    """Whether the model refuses."""

    reads = "Whether the model refuses."
    reads_texts = True

    def __init__(self, label: str | None) -> None:
        refused = Phrases(
            title="Refusals",
            mean="Share of refusals",
            label="refused: {compared}",
            of_two="requests are refused {size} more often "
            "for [{first}|{second}] than for [{second}|{first}]",
            of_several="requests are refused {size} more often for one group than for another",
            bias="Refusing",
        )
        self.phrases = refused if label is None else labelled(label)
        is_refused = when(col.outcome != "failed").then(col.outcome == "refused")
        quantity = share_of("refused_rate", ("refused", "not refused"), self.phrases.mean)
        self.quantities = (quantity._replace(value=is_refused, evidence="outcome <> 'failed'"),)

    def read(self, answers: DataFrame, tools: Tools) -> DataFrame:
        """See TableOutcome: a short refusal counts, and one of a text."""
        texts = free_texts(answers)
        says_no = readers.refused(answers["answer"])
        outcome = when(col.outcome_without_text.is_null() & says_no).then(lit("refused"))
        return texts.select(
            outcome=pl.coalesce(outcome, "outcome_without_text", lit("answered")), label=lit(None, String)
        )

    @property
    def counts(self) -> Mapping[str, Expr]:
        """See TableOutcome."""
        has_response = col.outcome != "failed"
        return {
            "refused": col.outcome == "refused",
            "not refused": has_response & (col.outcome != "refused"),
        }


class Number(TableOutcome):
    """A number in the answer, such as a salary or a score."""

    def __init__(self, name: str | None, label: str | None) -> None:
        self._name = name
        noun = label or name or "number"
        self.reads = f"The {name or 'number'} in the answer."
        self.phrases = Phrases(
            title=capitalised(noun),
            mean=f"Mean {noun}",
            label=f"{noun}: {{compared}}",
            of_two="[{second}|{first}] are given {size} less on average than [{first}|{second}]",
            of_several=f"the {noun} is {{size}} higher on average for one group than for another",
            bias=f"Giving a larger {noun}",
        )
        short = slug(name) if name else "number"
        self._measured = f"measured_{short}"
        self.quantities = (mean_of(f"mean_{short}", self._measured, self.phrases.mean),)

    def read(self, answers: DataFrame, tools: Tools) -> DataFrame:
        """See TableOutcome."""
        read = readers.read_number(answers["answer"], self._name)
        return read.select("outcome", label=col.number.cast(String), **{VALUE: "number"})

    @property
    def counts(self) -> Mapping[str, Expr]:
        """See TableOutcome."""
        return sums_of(self._measured)

    def odds(self, shift: Expr) -> Odds:
        """See TableOutcome: larger numbers are more probable for a larger shift."""
        middle = (len(LEVELS) - 1) / 2
        limited = shift.clip(-0.5, 0.5)
        return {
            str(level): 1 / len(LEVELS) + TILT * (place - middle) * limited
            for place, level in enumerate(LEVELS)
        }

    @property
    def standard_deviation(self) -> float:
        """See TableOutcome."""
        mean = sum(LEVELS) / len(LEVELS)
        variance = sum((level - mean) ** 2 for level in LEVELS) / len(LEVELS)
        return float(variance**0.5)


class Length(TableOutcome):
    """The number of words of a response."""

    reads = "The number of words."
    reads_texts = True

    def __init__(self, label: str | None) -> None:
        words = Phrases(
            title="Length of the responses",
            mean="Mean number of words",
            label="words: {compared}",
            of_two="responses about [{first}|{second}] are {size} words longer on average "
            "than those about [{second}|{first}]",
            of_several="responses about one group are {size} words longer on average "
            "than those about another",
            bias="Giving longer responses",
        )
        self.phrases = words if label is None else higher(label)
        self.quantities = (mean_of("mean_length", "measured_length", self.phrases.mean),)

    def read(self, answers: DataFrame, tools: Tools) -> DataFrame:
        """See TableOutcome."""
        texts = free_texts(answers)
        return texts.select(
            outcome=col.outcome_without_text.fill_null("answered"),
            label=lit(None, String),
            **{VALUE: col.text.str.count_matches(WORD).cast(Float64)},
        )

    @property
    def counts(self) -> Mapping[str, Expr]:
        """See TableOutcome."""
        return sums_of("measured_length")


class Similarity(TableOutcome):
    """The similarity of a response to the other responses of its matched set: the mean ROUGE-L.

    Raises
    ------
    InputError
        The table has no matched sets, or one of them has fewer than three rows: two responses are as similar
        to each other.
    """

    reads = "The similarity to the other responses of the item."
    reads_texts = True

    def __init__(self, items: Series | None, label: str | None) -> None:
        if items is None:
            raise InputError("--outcome similarity needs matched sets; name their column with --item")
        sizes = items.value_counts(name="rows").sort("rows")
        if sizes["rows"][0] < FEWEST_SIMILAR:
            raise InputError(
                f"--outcome similarity needs at least {FEWEST_SIMILAR} prompts for each item, and the item "
                f"{sizes[items.name][0]} has {sizes['rows'][0]}"
            )
        self.phrases = higher(label or "similarity to the other responses")
        self.quantities = (mean_of("mean_similarity", "measured_similarity", self.phrases.mean),)

    def read(self, answers: DataFrame, tools: Tools) -> DataFrame:
        """See TableOutcome."""
        texts = free_texts(answers)
        rows = answers.select("item").with_columns(texts["text"]).with_row_index("row")
        pairs = rows.join(rows, on="item", suffix="_2").filter(
            col.row != col.row_2, col.text.is_not_null(), col.text_2.is_not_null()
        )
        similar = pairs.with_columns(similarity=rouge_l(pairs["text"], pairs["text_2"]))
        means = similar.group_by("row").agg(col.similarity.mean())
        values = rows.join(means, on="row", how="left", maintain_order="left")["similarity"]
        return texts.select(
            outcome=col.outcome_without_text.fill_null("answered"),
            label=lit(None, String),
            **{VALUE: lit(values)},
        )

    @property
    def counts(self) -> Mapping[str, Expr]:
        """See TableOutcome."""
        return sums_of("measured_similarity")

    def check(self, library: Library) -> None:
        """See TableOutcome: the package that compares texts must be installed."""
        rouge_l(["a"], ["b"])


class TextFeature(TableOutcome):
    """A feature of the text of a response: one of the catalogue, of a plugin, or a function of the user.

    A function that returns True or False is a rate.
    """

    reads_texts = True

    def __init__(self, written: str, label: str | None) -> None:
        self._feature, self._column, is_rate = _feature_named(written)
        short = slug(self._column)
        self._measured = f"measured_{short}"
        noun = label or self._column
        self.reads = f"The feature {written}."
        if is_rate:
            counted = (self._column, other_than(self._column))
            self.phrases = Phrases(
                title=capitalised(noun),
                mean=f"Share of {noun}",
                label=f"{noun}: {{compared}}",
                of_two=f"{noun} is true {{size}} more often "
                "for [{first}|{second}] than for [{second}|{first}]",
                of_several=f"{noun} is true {{size}} more often for one group than for another",
                bias=f"Giving responses with {noun}",
            )
            if label is not None:
                self.phrases = labelled(label)
            value = col(self._measured)
            self.quantities = (
                Quantity(
                    metric=f"{short}_rate",
                    counted=counted,
                    value=value,
                    evidence=f'"{self._measured}" IS NOT NULL',
                    mean=self.phrases.mean,
                ),
            )
            self._counts: Mapping[str, Expr] = {counted[0]: value == 1, counted[1]: value == 0}
        else:
            self.phrases = higher(noun)
            self.quantities = (mean_of(f"mean_{short}", self._measured, self.phrases.mean),)
            self._counts = sums_of(self._measured)

    def read(self, answers: DataFrame, tools: Tools) -> DataFrame:
        """See TableOutcome."""
        from tiltmeter.features import columns_without_value, measure_features, open_features

        texts = free_texts(answers)
        features = open_features([self._feature], encoder=tools.encoder, classifier=tools.classifier)
        measured = measure_features(features, texts["text"])
        if texts["text"].count():
            for sentence in columns_without_value(measured, texts["text"].count()):
                tools.problem(sentence)
        missing = Series([None] * texts.height, dtype=Float64)
        values = measured.values[self._column] if self._column in measured.values.columns else missing
        return texts.select(
            outcome=col.outcome_without_text.fill_null("answered"),
            label=lit(None, String),
            **{VALUE: lit(values)},
        )

    @property
    def counts(self) -> Mapping[str, Expr]:
        """See TableOutcome."""
        return self._counts

    def check(self, library: Library) -> None:
        """See TableOutcome."""
        open_unloaded_features([self._feature], library)


def _feature_named(written: str) -> tuple[str, str, bool]:
    """Return the feature and the column that a name means, and whether the column is a rate.

    Raises
    ------
    InputError
        There is no such feature, it compares texts with baselines, or a function returns several values.
    """
    from tiltmeter.features import FEATURES, open_features

    name = written.partition("=")[0]
    for feature in FEATURES.values():
        columns = {column.name: column for column in feature.columns}
        if name != feature.name and written not in columns:
            continue
        if feature.kind == "distance":
            raise InputError(
                f"--outcome {written}: the feature compares texts with baselines; choose another"
            )
        column = columns.get(written, feature.columns[0])
        return (feature.name if written in columns else written), column.name, column.decision
    opened = open_features([written], encoder=_no_model, classifier=_no_model)[0]
    opened.score(SAMPLE_TEXTS)
    if len(opened.columns) > 1:
        raise InputError(
            f"--outcome {written} returns several values; write a function that returns one "
            "(-P outcomes= takes several)"
        )
    return written, opened.columns[0].name, bool(opened.columns[0].decision)


def _no_model(name: str) -> Any:
    """Refuse a model, which functions of the user do not have."""
    raise InputError(f"{name}: no model is needed")
