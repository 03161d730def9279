"""Faults that spoil responses: why they cannot be used, and what to do about it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from polars import DataFrame, Series, String, col, lit, when

from tiltmeter.models.thinking_models import THINKING_TOKENS
from tiltmeter.runs.long_prompts import CONTEXT, too_long_words
from tiltmeter.runs.problems import few
from tiltmeter.sanitising import printable, redacted

SPOILED = 0.95
"""Share of the first responses that cannot be used from which on a part is stopped."""
QUOTED = 60
"""Maximum number of characters quoted from a response."""
MOST_OF_ERROR = 300
"""Maximum number of characters quoted from an error."""
FAULTS = "first_responses"
"""Key of the status of a part: by model, what its first responses show if they cannot be used, and whether
the part was stopped."""
FAILED, THINKING, CUT_OFF, ONLY_THINKING, EMPTY, UNREAD = (
    "failed",
    "thinking",
    "cut off",
    "only thinking",
    "empty",
    "unread",
)
"""Why a response cannot be used."""
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
    spoiled, seen
        Numbers of first responses that cannot be used, and of all first responses.
    wanted
        Number of responses that the part requires.
    what
        The reasons with their counts.
    example
        An error or a response, quoted; empty if the reason needs none.
    remedy
        What to do.
    """

    part: str
    kind: str
    spoiled: int
    seen: int
    wanted: int
    what: str
    example: str
    remedy: str

    @property
    def sentence(self) -> str:
        """The fault in words."""
        return f"of the first {self.seen} responses, {self.what}{self.example}"

    def as_document(self) -> dict[str, Any]:
        """Return what run.json says about it."""
        return {
            "kind": self.kind,
            "spoiled": self.spoiled,
            "seen": self.seen,
            "wanted": self.wanted,
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
    blank = col.answer.fill_null("").str.strip_chars() == ""
    thinks = col.thinking.is_not_null()
    has_shown_thinking = col.thinking.fill_null("").str.strip_chars() != ""
    cut = (col.finish_reason == "length").fill_null(False)
    kind = (
        when(col.outcome.is_in(["answered", "refused"]))
        .then(lit(None, String))
        .when(col.status != "ok")
        .then(lit(FAILED))
        .when(blank & cut & thinks)  # line breaks up to the limit are no thinking
        .then(lit(THINKING))
        .when(cut)
        .then(lit(CUT_OFF))
        .when(blank & has_shown_thinking)
        .then(lit(ONLY_THINKING))
        .when(blank)
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
    what, remedy = words_of(responses, kinds, limit), remedy_of(kind, rows, limit, params)
    return Fault(part, kind, spoiled, responses.height, wanted, what, _example(kind, rows), remedy)


def most_frequent(kinds: Series) -> str:
    """Return the most frequent reason (see `reasons`)."""
    counts = kinds.drop_nulls().value_counts(name="count").sort("count", kinds.name, descending=[True, False])
    kind: str = counts.item(0, 0)
    return kind


def words_of(responses: DataFrame, kinds: Series, limit: int | None) -> str:
    """Return in words how many responses cannot be used for each reason, the most frequent first.

    See `fault_of`.
    """
    counts = kinds.drop_nulls().value_counts(name="count").sort("count", kinds.name, descending=[True, False])
    words = [
        f"{count:,} {_what(kind, responses.filter(kinds == kind), limit)}"
        for kind, count in counts.iter_rows()
    ]
    return " and ".join(words)


def _what(kind: str, responses: DataFrame, limit: int | None) -> str:
    """Return what is wrong with responses of one kind, after their number."""
    at_limit = "" if limit is None else f" at the limit of {limit:,} tokens"
    if kind == FAILED:
        names = responses["error"].str.extract("^([^:]*)").unique().drop_nulls().sort()
        return f"failed ({', '.join(names)})"
    return {
        THINKING: f"were cut off{at_limit} while the model was thinking, before any answer",
        CUT_OFF: f"were cut off{at_limit} before they could be read",
        ONLY_THINKING: "have their whole text in the field for thinking",
        EMPTY: "were empty",
        UNREAD: "could not be read",
    }[kind]


def _example(kind: str, responses: DataFrame) -> str:
    """Return an error or a response of this kind, quoted; empty if the reason needs none."""
    if kind == FAILED:
        return f", the last with {_shown(responses['error'][-1], MOST_OF_ERROR)}"
    quoted = _shown(responses["answer"][0], QUOTED) if kind in (UNREAD, CUT_OFF) else ""
    return f", such as {quoted!r}" if quoted else ""


def remedy_of(kind: str, responses: DataFrame, limit: int | None, params: Collection[str]) -> str:
    """Return what to do about responses of one kind; see `fault_of`."""
    more = "a larger --max-tokens" if limit is None else f"--max-tokens {_more(limit, kind)}"
    thinking_off = (
        "turn thinking off with the option of the endpoint (-M reasoning_effort=none, for instance)"
    )
    if kind == FAILED:
        errors = responses["error"].drop_nulls()
        is_long = errors.str.starts_with(f"{CONTEXT}:")
        if is_long.any():
            return too_long_words(errors.filter(is_long), "its prompts")
        passes = errors.str.extract("^([^:]*)").is_in(_PASSING).all()
        return (
            "run the same command again when the endpoint works"
            if passes
            else "correct what the message names"
        )
    if kind == UNREAD:
        others = []
        if "answers" in params:
            others.append("allow only the listed answers with -P answers=constrained")
        if "unread" in params:
            others.append("let a judge read them with -P unread=judge --judge PROVIDER/NAME")
        ways = [
            "ask for English or for short answers with --system-message if they are in another language or form",
            *others,
        ]
        return ", or ".join(ways)
    return {
        THINKING: f"give {more}, or {thinking_off}",
        CUT_OFF: f"give {more}, or ask for short answers with --system-message",
        ONLY_THINKING: f"correct how the server separates thinking from answers (its reasoning parser), or {thinking_off}",
        EMPTY: "check the name of the model, its chat template and its stop texts at the server",
    }[kind]


def _more(limit: int, kind: str) -> int:
    """Return at least four times a limit of tokens, as a power of two, with room for thinking."""
    least = max(4 * limit, 2 * THINKING_TOKENS if kind == THINKING else 0)
    power: int = 2 ** (least - 1).bit_length()
    return power


def _shown(text: str | None, longest: int) -> str:
    """Return the beginning of a foreign text on one line, without credentials."""
    line = printable(redacted(" ".join((text or "").split())), one_line=True)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def sentences(faults: Sequence[Fault]) -> list[str]:
    """Return one sentence for all parts with the same fault: the parts with their counts, the fault and the remedy."""
    by_words: dict[tuple[str, str], list[Fault]] = {}
    for fault in faults:
        by_words.setdefault((fault.what, fault.remedy), []).append(fault)
    joined = []
    for same in by_words.values():
        parts = few([f"{fault.part} ({fault.seen:,} of {fault.wanted:,} responses)" for fault in same])
        each = " each" if len(same) > 1 else ""
        joined.append(
            f"{parts}: {same[0].sentence.replace(' responses,', f' responses{each},', 1)}; {same[0].remedy}"
        )
    return joined


def problems_of(model: str, faults: Sequence[Fault]) -> list[str]:
    """Return the problems of a run whose parts were stopped for these faults."""
    anyway = "to request the others anyway, add --yes (yes=True in Python)"
    return [f"{model}: stopped early: {sentence}; {anyway}" for sentence in sentences(faults)]
