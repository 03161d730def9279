"""What is read from the responses to a table of prompts: the kinds of outcome (`--outcome`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, NamedTuple

import polars as pl
from polars import DataFrame, Expr, Series, String, col, lit, when

from tiltmeter import readers
from tiltmeter._judging.second_reader import read_with_judge
from tiltmeter.datasets import Library
from tiltmeter.errors import InputError
from tiltmeter.probes._answer_readers import LETTERS, labels_of_letters
from tiltmeter.probes._contract import Odds
from tiltmeter.probes._expected_texts import contains_expected
from tiltmeter.readers.outcomes import decide_outcome, free_texts, verdict
from tiltmeter.schema import REFUSED
from tiltmeter.study import NotRun, Tools

VALUE: Final = "value"
"""Column of a reader's results with the number that is read from an answer."""
UNBIASED_RATE: Final = 0.7
"""Share of the counted answers of the unbiased simulated model."""


class Phrases(NamedTuple):
    """How an outcome is named. `{first}` and `{second}` stand for groups, `{size}` for a distance."""

    title: str
    """What is compared, as the beginning of a title: "Expected answers"."""
    mean: str
    """The share or mean of one group, as the beginning of a sentence: "Share of expected answers"."""
    label: str
    """Short name of a difference; `{compared}` stands for what minus what."""
    of_two: str
    """The difference of two groups as a sentence (see `Metric.sentence`)."""
    of_several: str
    """The largest difference of several groups as a sentence."""
    bias: str
    """What counts as biased behaviour, before "more often to prompts about one group ..."."""


class Quantity(NamedTuple):
    """A share or a mean that is compared between groups."""

    metric: str
    """Name of the share or mean of a group: "expected_rate"."""
    counted: tuple[str, str]
    """Names of two counts of a group: answers of the label and others, or the sum and the number of values.
    """
    value: Expr
    """Value of an attempt, over the measures; null if it does not count."""
    evidence: str
    """SQL condition on the measures that count."""
    mean: str
    """The share or mean as the beginning of a sentence."""
    is_rate: bool = True


class TableOutcome(ABC):
    """An outcome of the responses to a table of prompts."""

    labels: Sequence[str] = ()
    """Labels that a response can have; empty if numbers are read, or whole texts."""
    reads: str
    """What is read, for the card and for annotators."""
    phrases: Phrases
    quantities: Sequence[Quantity]
    """What is compared between groups. The first is that of the key metric."""
    reads_texts: ClassVar[bool] = False
    """Whether any text that is no refusal is an answer."""
    needs_judge: ClassVar[bool] = False

    @abstractmethod
    def read(self, answers: DataFrame, tools: Tools) -> DataFrame:
        """Return `outcome` and `label`, and VALUE if numbers are read, one row per answer."""

    @property
    def counts(self) -> Mapping[str, Expr]:
        """What is summed over the attempts about a group, by name."""
        return {label: col.label == label for label in self.labels}

    def check(self, library: Library) -> None:
        """Raise an error if the outcome cannot be measured here."""
        return

    def odds(self, shift: Expr) -> Odds:
        """Return the probability of each label of the simulated model, if its bias is a shift from 0."""
        return {}

    def reply(self, label: str) -> Expr:
        """Return the simulated model's answer with this label."""
        return lit(label)

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of the values of the simulated model; 1 for labels."""
        return 1.0


# -- shares of labels --------------------------------------------------------------------------------------


class ExpectedAnswers(TableOutcome):
    """Whether the answer is the expected one.

    The expected answers determine how answers are read: as yes or no; as a choice, if they are letters or at
    most five different texts; otherwise an answer counts if it contains the expected text.
    """

    labels = ("expected", "other")

    def __init__(self, expected: Series, label: str | None) -> None:
        answers = expected.unique().sort().to_list()
        self._options = answers
        if set(answers) <= {"yes", "no"}:
            self._kind = "yes or no"
            self.reads = "Yes or no."
        elif len(answers) <= len(LETTERS):
            self._kind = "choice"
            self.reads = f"Which of {', '.join(answers)} is chosen."
            if set(answers) <= set(LETTERS):
                self._options = list(LETTERS[: LETTERS.index(answers[-1]) + 1])
        else:
            self._kind = "text"
            self.reads = "Whether the answer contains the expected text."
        expected_answers = Phrases(
            title="Expected answers",
            mean="Share of expected answers",
            label="expected answers, {compared}",
            of_two="the expected answer is given {size} more often "
            "for [{first}|{second}] than for [{second}|{first}]",
            of_several="the expected answer is given {size} more often for one group than for another",
            bias="Giving the expected answer",
        )
        self.phrases = expected_answers if label is None else labelled(label)
        self.quantities = (share_of("expected_rate", ("expected", "other"), self.phrases.mean),)

    def read(self, answers: DataFrame, tools: Tools) -> DataFrame:
        """See TableOutcome."""
        texts, expected = answers["answer"], answers["expected"]
        if self._kind == "yes or no":
            read = readers.read_yes_no(texts)
        elif self._kind == "choice":
            read = _read_options(texts, self._options)
        else:
            table = answers.select(
                "answer",
                "expected",
                declines=readers.refused(texts),
                blank=texts.fill_null("").str.strip_chars() == "",
            )
            text = when(contains_expected()).then("expected").when(~col.declines).then(lit(""))
            read = verdict(table, text, refused=col.declines)
        is_expected = read["label"] == expected
        labels = {True: "expected", False: "other"}
        return read.with_columns(label=is_expected.replace_strict(labels, return_dtype=String))

    def odds(self, shift: Expr) -> Odds:
        """See TableOutcome."""
        return _two_odds(self.labels, shift)

    def reply(self, label: str) -> Expr:
        """See TableOutcome."""
        if label == "expected":
            return col.expected
        options = ["yes", "no"] if self._kind == "yes or no" else [*self._options, "something else"]
        different = {
            option: next(alternative for alternative in options if alternative != option)
            for option in options
        }
        return col.expected.replace_strict(different)


class YesOrNo(TableOutcome):
    """Whether the answer is yes."""

    labels = ("yes", "no")
    reads = "Yes or no."

    def __init__(self, label: str | None) -> None:
        yes = Phrases(
            title="Answers of yes",
            mean="Share of yes",
            label="yes: {compared}",
            of_two="the answer is yes {size} more often for [{first}|{second}] than for [{second}|{first}]",
            of_several="the answer is yes {size} more often for one group than for another",
            bias="Answering yes",
        )
        self.phrases = yes if label is None else labelled(label)
        self.quantities = (share_of("yes_rate", ("yes", "no"), self.phrases.mean),)

    def read(self, answers: DataFrame, tools: Tools) -> DataFrame:
        """See TableOutcome."""
        return readers.read_yes_no(answers["answer"], "decision")

    def odds(self, shift: Expr) -> Odds:
        """See TableOutcome."""
        return _two_odds(self.labels, shift)


class Acceptance(TableOutcome):
    """Whether a request or a person is accepted."""

    labels = ("accepted", "rejected")
    reads = "Whether the request or the person is accepted or rejected."

    def __init__(self, label: str | None) -> None:
        self.phrases = labelled(label or "accepted")
        self.quantities = (share_of("accepted_rate", ("accepted", "rejected"), self.phrases.mean),)

    def read(self, answers: DataFrame, tools: Tools) -> DataFrame:
        """See TableOutcome."""
        return readers.read_accept(answers["answer"])

    def odds(self, shift: Expr) -> Odds:
        """See TableOutcome."""
        return _two_odds(self.labels, shift)

    def reply(self, label: str) -> Expr:
        """See TableOutcome: e-mails of the simulated model."""
        return lit("accept" if label == "accepted" else "reject")


class Choice(TableOutcome):
    """Which of several options is chosen.

    Raises
    ------
    InputError
        There are fewer than two or more than five options, or the label is none of them.
    """

    def __init__(self, options: Sequence[str], label: str | None) -> None:
        written = "|".join(options)
        lower = [option.lower() for option in options]
        if not 2 <= len(options) <= len(LETTERS) or not all(lower) or len(set(lower)) < len(lower):
            raise InputError(
                f"--outcome choice:{written}: name two to {len(LETTERS)} different options, "
                "such as choice:A|B|C"
            )
        if label is not None and label.lower() not in lower:
            raise InputError(f"--label {label} is none of the options {', '.join(options)}; name one of them")
        chosen = options[0] if label is None else options[lower.index(label.lower())]
        self._options = lower
        if set(lower) <= set(LETTERS):
            self._options = list(LETTERS[: LETTERS.index(max(lower)) + 1])
        self.labels = tuple(options)
        self._label_of = dict(zip(lower, options, strict=True))
        self.reads = f"Which of {', '.join(options)} is chosen."
        self.phrases = Phrases(
            title=f"Choice of {chosen}",
            mean=f"Share of {chosen}",
            label=f"{chosen}: {{compared}}",
            of_two=f"{chosen} is chosen {{size}} more often "
            "for [{first}|{second}] than for [{second}|{first}]",
            of_several=f"{chosen} is chosen {{size}} more often for one group than for another",
            bias=f"Choosing {chosen}",
        )
        ordered = [chosen, *(option for option in options if option != chosen)]
        self.quantities = tuple(
            share_of(f"{slug(option)}_rate", (option, other_than(option)), f"Share of {option}")
            for option in ordered
        )

    def read(self, answers: DataFrame, tools: Tools) -> DataFrame:
        """See TableOutcome."""
        read = _read_options(answers["answer"], self._options)
        labels = read["label"].replace_strict(self._label_of, default=None, return_dtype=String)
        is_other = labels.is_null() & (read["outcome"] == "answered")
        outcome = when(is_other).then(lit("unreadable")).otherwise("outcome")
        return read.with_columns(outcome.alias("outcome"), label=labels)

    @property
    def counts(self) -> Mapping[str, Expr]:
        """See TableOutcome: also the answers with any other label."""
        remaining = {other_than(label): col.label != label for label in self.labels}
        return {**super().counts, **remaining}

    def odds(self, shift: Expr) -> Odds:
        """See TableOutcome: the other options share what is left."""
        chosen, _ = self.quantities[0].counted
        rate = (lit(UNBIASED_RATE) + shift).clip(0.0, 1.0)
        rate_of_other = (1 - rate) / (len(self.labels) - 1)
        return {label: rate if label == chosen else rate_of_other for label in self.labels}


class Judged(TableOutcome):
    """The answer of a judge to a yes-or-no question about each response."""

    labels = ("yes", "no")
    needs_judge = True

    def __init__(self, question: str, label: str | None) -> None:
        if not question:
            raise InputError("--outcome judge: needs a question, such as 'judge:Is the answer polite?'")
        self.reads = question
        yes = Phrases(
            title=f"“{question}”",
            mean="Share of yes of the judge",
            label="yes of the judge: {compared}",
            of_two="the judge says yes {size} more often for [{first}|{second}] than for [{second}|{first}]",
            of_several="the judge says yes {size} more often for one group than for another",
            bias="Giving responses for which the judge says yes",
        )
        self.phrases = yes if label is None else labelled(label)
        self.quantities = (share_of(f"{slug(question)}_rate", ("yes", "no"), self.phrases.mean),)

    def read(self, answers: DataFrame, tools: Tools) -> DataFrame:
        """See TableOutcome."""
        if tools.judge is None:
            raise NotRun("a judge reads the responses; name it with --judge PROVIDER/NAME")
        texts = free_texts(answers)
        is_text = texts["text"].is_not_null()
        questions = answers.filter(is_text).with_columns(
            question=lit(self.reads), allowed=lit(Series([list(self.labels)])).first()
        )
        replies = read_with_judge(tools.judge, questions) if questions.height else Series("label", [], String)
        label = Series("label", [None] * answers.height, String).scatter(is_text.arg_true(), replies)
        is_label = col.label.is_in(list(self.labels))
        outcome = decide_outcome(answered=is_label, refused=col.label == REFUSED)
        table = DataFrame({"label": label, "without": texts["outcome_without_text"]})
        return table.select(outcome=pl.coalesce("without", outcome), label=when(is_label).then("label"))

    def odds(self, shift: Expr) -> Odds:
        """See TableOutcome: none, since texts of the simulated model have nothing to judge."""
        return {}


# -- parts of outcomes -------------------------------------------------------------------------------------


def labelled(label: str) -> Phrases:
    """Return the phrases of an outcome that the user names, such as "invited"."""
    return Phrases(
        title=capitalised(label),
        mean=f"Share {label}",
        label=f"{label}: {{compared}}",
        of_two=f"is {label} {{size}} more often for [{{first}}|{{second}}] than for [{{second}}|{{first}}]",
        of_several=f"is {label} {{size}} more often for one group than for another",
        bias=f"The outcome “{label}”",
    )


def higher(noun: str) -> Phrases:
    """Return the phrases of a number."""
    return Phrases(
        title=capitalised(noun),
        mean=f"Mean {noun}",
        label=f"{noun}: {{compared}}",
        of_two=f"{noun} is {{size}} higher on average "
        "for [{first}|{second}] than for [{second}|{first}]",
        of_several=f"{noun} is {{size}} higher on average for one group than for another",
        bias=f"A higher {noun}",
    )


def share_of(metric: str, labels: tuple[str, str], mean: str) -> Quantity:
    """Return the share of the first label among answers with a label."""
    label, different = labels
    value = when(col.label.is_not_null()).then(col.label == label)
    evidence = (
        "label IS NOT NULL" if different == other_than(label) else f"label IN ('{label}', '{different}')"
    )
    return Quantity(metric=metric, counted=labels, value=value, evidence=evidence, mean=mean)


def mean_of(metric: str, column: str, mean: str) -> Quantity:
    """Return the mean of a column of measures."""
    return Quantity(
        metric=metric,
        counted=("sum", "number"),
        value=col(column),
        evidence=f'"{column}" IS NOT NULL',
        mean=mean,
        is_rate=False,
    )


def sums_of(column: str) -> dict[str, Expr]:
    """Return the sum and the number of the values of a column."""
    return {"sum": col(column), "number": col(column).is_not_null()}


def _two_odds(labels: Sequence[str], shift: Expr) -> Odds:
    """Return the probabilities of two labels."""
    first, second = labels
    rate = (lit(UNBIASED_RATE) + shift).clip(0.0, 1.0)
    return {first: rate, second: 1 - rate}


def _read_options(texts: Series, option_texts: Sequence[str]) -> DataFrame:
    """Read which option is chosen; the label is its text."""
    options = Series([list(option_texts)], dtype=pl.List(String)).new_from_index(0, texts.len())
    read = readers.read_choice(texts, options)
    return read.with_columns(label=labels_of_letters(read["label"], options))


def other_than(label: str) -> str:
    """Return the name of the count of answers with another label."""
    return f"not {label}"


def slug(text: str) -> str:
    """Return a text as part of a metric's name."""
    letters = "".join(letter if letter.isalnum() else "_" for letter in text.lower())
    return "_".join(filter(None, letters.split("_"))) or "option"


def capitalised(text: str) -> str:
    """Return a text with a capital letter at its beginning."""
    return text[:1].upper() + text[1:].replace("_", " ")
