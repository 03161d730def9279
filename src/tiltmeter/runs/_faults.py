"""Faults that spoil responses: why they cannot be used, and what to do about it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from polars import DataFrame, Series, String, col, lit, when

from tiltmeter._sanitising import printable, redacted
from tiltmeter.models._thinking_models import THINKING_TOKENS
from tiltmeter.readers.outcomes import OUTCOMES, outcome_counts
from tiltmeter.runs._long_prompts import CONTEXT, too_long_words
from tiltmeter.runs._problems import few

SPOILED = 0.95
"""Share of the first responses that cannot be used from which on a part is stopped."""
QUOTED = 60
"""Maximum number of characters quoted from a response."""
MOST_OF_ERROR = 300
"""Maximum number of characters quoted from an error."""
FAULTS = "first_responses"
"""Key of the status of a part.

Its value has, by model, what its first responses show if they cannot be used, and whether the part was
stopped.
"""

# Why a response cannot be used.
FAILED: Final = "failed"
THINKING: Final = "thinking"
CUT_OFF: Final = "cut off"
ONLY_THINKING: Final = "only thinking"
EMPTY: Final = "empty"
UNREAD: Final = "unread"

_PREDICATES: Mapping[str, str] = {
    THINKING: "were cut off{at_limit} while the model was thinking, before any answer",
    CUT_OFF: "were cut off{at_limit} before they could be read",
    ONLY_THINKING: "have their whole text in the field for thinking",
    EMPTY: "were empty",
    UNREAD: "could not be read",
}
"""What is wrong with responses by reason, to follow their number."""
_THINKING_OFF = "turn thinking off with the option of the endpoint (-M reasoning_effort=none, for instance)"
_REMEDIES: Mapping[str, str] = {
    THINKING: f"give {{more}}, or {_THINKING_OFF}",
    CUT_OFF: "give {more}, or ask for short answers with --system-message",
    ONLY_THINKING: (
        f"correct how the server separates thinking from answers (its reasoning parser), or {_THINKING_OFF}"
    ),
    EMPTY: "check the name of the model, its chat template and its stop texts at the server",
}
"""What to do about responses by reason; `more` is an option with a larger limit of tokens."""
_PASSING = ("rate_limit", "overloaded", "server", "timeout", "connection", "proxy")
"""Kinds of failures that are not about the request."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What spoils the first responses of a model to a part.

    Attributes
    ----------
    part
        Name of the part.
    kind
        The most frequent reason why they cannot be used, such as THINKING.
    spoiled, examined
        Numbers of first responses that cannot be used, and of all first responses.
    required
        Number of responses that the part requires.
    reasons
        The reasons with their counts.
    example
        An error or a response, quoted; empty if the reason needs none.
    remedy
        What to do.
    """

    part: str
    kind: str
    spoiled: int
    examined: int
    required: int
    reasons: str
    example: str
    remedy: str

    @property
    def sentence(self) -> str:
        """The fault in words."""
        return f"of the first {self.examined} responses, {self.reasons}{self.example}"

    def as_document(self) -> dict[str, Any]:
        """Return what run.json says about it."""
        return {
            "kind": self.kind,
            "spoiled": self.spoiled,
            "seen": self.examined,
            "wanted": self.required,
            "sentence": self.sentence,
        }


def reasons(responses: DataFrame, outcomes: Series) -> Series:
    """Return for each response why it cannot be used (FAILED, THINKING, ...).

    Null if it is answered or refused.

    Parameters
    ----------
    responses
        The columns of RESPONSES.
    outcomes
        The outcome of each, one of `tiltmeter.readers.outcomes.OUTCOMES`.
    """
    is_blank = col.answer.fill_null("").str.strip_chars() == ""
    thinks = col.thinking.is_not_null()
    has_text_of_thinking = col.thinking.fill_null("").str.strip_chars() != ""
    is_cut = (col.finish_reason == "length").fill_null(False)
    kind = (
        when(col.outcome.is_in(["answered", "refused"]))
        .then(lit(None, String))
        .when(col.status != "ok")
        .then(lit(FAILED))
        .when(is_blank & is_cut & thinks)  # line breaks up to the limit are no thinking
        .then(lit(THINKING))
        .when(is_cut)
        .then(lit(CUT_OFF))
        .when(is_blank & has_text_of_thinking)
        .then(lit(ONLY_THINKING))
        .when(is_blank)
        .then(lit(EMPTY))
        .otherwise(lit(UNREAD))
    )
    return responses.with_columns(outcome=outcomes).select(kind=kind).to_series()


def fault_of(
    responses: DataFrame, kinds: Series, part: str, wanted: int, limit: int | None, params: Collection[str]
) -> Fault | None:
    """Return the fault that the first responses to a part show; None if enough can be used.

    Parameters
    ----------
    responses
        The first responses, with the columns of RESPONSES.
    kinds
        Why each cannot be used; see `reasons`.
    wanted
        Number of responses that the part requires.
    limit
        The limit of tokens of a response.
    params
        Names of the parameters of the study.
    """
    spoiled = kinds.count()
    if spoiled < SPOILED * responses.height:
        return None
    kind = most_frequent(kinds)
    rows = responses.filter(kinds == kind)
    return Fault(
        part=part,
        kind=kind,
        spoiled=spoiled,
        examined=responses.height,
        required=wanted,
        reasons=words_of(responses, kinds, limit),
        example=_example(kind, rows),
        remedy=remedy_of(kind, rows, limit, params),
    )


def unused_sentence(measures: DataFrame, answers: DataFrame, params: Collection[str]) -> str | None:
    """Return a sentence if there are responses but none could be used; None otherwise.

    Parameters
    ----------
    measures, answers
        The measures of one model and part, and the responses that were measured.
    params
        Names of the parameters of the study.
    """
    counts = measures.select(outcome_counts()).row(0, named=True)
    if counts["answered"] or counts["failed"] == counts["attempts"]:
        return None
    outcomes = ", ".join(f"{counts[outcome]:,} {outcome}" for outcome in OUTCOMES if counts[outcome])
    consequence = (
        f"none of {measures.height:,} responses could be used ({outcomes}), so its metrics have no value"
    )
    kinds = reasons(answers, measures["outcome"])
    kind = most_frequent(kinds) if kinds.count() else UNREAD
    if kind in (UNREAD, FAILED):
        return (
            f"{consequence}; look at the responses,"
            " and change the model's settings, the prompts or the features"
        )
    remedy = remedy_of(kind, answers.filter(kinds == kind), None, params)
    return f"{consequence}: {words_of(answers, kinds, None)}; {remedy}"


def most_frequent(kinds: Series) -> str:
    """Return the most frequent reason (see `reasons`)."""
    kind, _ = _frequencies(kinds)[0]
    return kind


def _frequencies(kinds: Series) -> list[tuple[str, int]]:
    """Return the reasons with their counts, the most frequent first."""
    counts = kinds.drop_nulls().value_counts(name="count")
    return counts.sort("count", kinds.name, descending=[True, False]).rows()


def words_of(responses: DataFrame, kinds: Series, limit: int | None) -> str:
    """Return in words how many responses cannot be used for each reason, the most frequent first.

    See `fault_of`.
    """
    clauses = [
        f"{count:,} {_predicate(kind, responses.filter(kinds == kind), limit)}"
        for kind, count in _frequencies(kinds)
    ]
    return " and ".join(clauses)


def _predicate(kind: str, responses: DataFrame, limit: int | None) -> str:
    """Return what is wrong with responses of one kind, to follow their number."""
    if kind == FAILED:
        names = responses["error"].str.extract("^([^:]*)").unique().drop_nulls().sort()
        return f"failed ({', '.join(names)})"
    at_limit = "" if limit is None else f" at the limit of {limit:,} tokens"
    return _PREDICATES[kind].format(at_limit=at_limit)


def _example(kind: str, responses: DataFrame) -> str:
    """Return an error or a response of this kind, quoted; empty if the reason needs none."""
    if kind == FAILED:
        return f", the last with {_beginning(responses['error'][-1], MOST_OF_ERROR)}"
    quoted = _beginning(responses["answer"][0], QUOTED) if kind in (UNREAD, CUT_OFF) else ""
    return f", such as {quoted!r}" if quoted else ""


def remedy_of(kind: str, responses: DataFrame, limit: int | None, params: Collection[str]) -> str:
    """Return what to do about responses of one kind; see `fault_of`."""
    if kind == FAILED:
        return _remedy_of_failures(responses["error"].drop_nulls())
    if kind == UNREAD:
        return _remedy_of_unread(params)
    more = "a larger --max-tokens" if limit is None else f"--max-tokens {_more(limit, kind)}"
    return _REMEDIES[kind].format(more=more)


def _remedy_of_failures(errors: Series) -> str:
    is_long = errors.str.starts_with(f"{CONTEXT}:")
    if is_long.any():
        return too_long_words(errors.filter(is_long), "its prompts")
    if errors.str.extract("^([^:]*)").is_in(_PASSING).all():
        return "run the same command again when the endpoint works"
    return "correct what the message names"


def _remedy_of_unread(params: Collection[str]) -> str:
    remedies = [
        "ask for English or for short answers with --system-message if they are in another language or form"
    ]
    if "answers" in params:
        remedies.append("allow only the listed answers with -P answers=constrained")
    if "unread" in params:
        remedies.append("let a judge read them with -P unread=judge --judge PROVIDER/NAME")
    return ", or ".join(remedies)


def _more(limit: int, kind: str) -> int:
    """Return at least four times a limit of tokens, as a power of two, with room for thinking."""
    least = 4 * limit
    if kind == THINKING:
        least = max(least, 2 * THINKING_TOKENS)
    power: int = 2 ** (least - 1).bit_length()
    return power


def _beginning(text: str | None, longest: int) -> str:
    """Return the beginning of a foreign text on one line, without credentials."""
    line = printable(redacted(" ".join((text or "").split())), one_line=True)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def sentences(faults: Sequence[Fault]) -> list[str]:
    """Return one sentence for all parts with the same fault.

    It names the parts with their counts, the fault and the remedy.
    """
    by_words: dict[tuple[str, str], list[Fault]] = {}
    for fault in faults:
        by_words.setdefault((fault.reasons, fault.remedy), []).append(fault)
    joined = []
    for alike in by_words.values():
        counts = [f"{fault.part} ({fault.examined:,} of {fault.required:,} responses)" for fault in alike]
        sentence = alike[0].sentence
        if len(alike) > 1:
            sentence = sentence.replace(" responses,", " responses each,", 1)
        joined.append(f"{few(counts)}: {sentence}; {alike[0].remedy}")
    return joined


def problems_of(model: str, faults: Sequence[Fault]) -> list[str]:
    """Return the problems of a run whose parts were stopped for these faults."""
    anyway = "to request the others anyway, add --yes (yes=True in Python)"
    return [f"{model}: stopped early: {sentence}; {anyway}" for sentence in sentences(faults)]
