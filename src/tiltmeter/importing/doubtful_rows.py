"""Rows of imported tables that may mean something else than they say: error messages, words for no value, rows too many."""

from __future__ import annotations

from typing import Final

import polars as pl
from polars import DataFrame, Expr, Series, String, col, when

from tiltmeter.files.tables import ROW, UserTable
from tiltmeter.sanitising import shortened

_STATUS: Final = r"(?:4(?:0[0-9]|1[0-8]|2[0-9]|3[01]|51)|5(?:0[0-9]|1[01]|2[0-9]|30|98|99))"
_REASONS: Final = (
    r"too many requests|bad gateway|service (?:temporarily )?unavailable|gateway time-?out"
    r"|internal server error|bad request|unauthorized"
    r"|forbidden|not found|request time-?out|payment required|overloaded|client error|server error"
)
_CLASSES: Final = (
    r"RateLimitError|APIError|APIStatusError|APIConnectionError|APITimeoutError|InternalServerError"
    r"|BadRequestError|AuthenticationError"
    r"|PermissionDeniedError|NotFoundError|ServiceUnavailableError|OverloadedError|ContextWindowExceededError"
    r"|HTTPStatusError|HTTPError"
    r"|ConnectionError|ConnectTimeout|ReadTimeout|ReadTimeoutError|TimeoutError|Timeout|JSONDecodeError"
    r"|ClientError|ServerError"
    r"|ThrottlingException|ResourceExhausted|ServiceUnavailable|DeadlineExceeded|MaxRetryError"
    r"|RemoteProtocolError"
)
_PHRASES: Final = (
    r"rate limit (?:exceeded|reached)|rate_limit_exceeded|insufficient_quota|quota exceeded"
    r"|you exceeded your current quota"
    r"|(?:request|connection|read|operation) timed out|time-?out(?: error)?|connection (?:error|reset|refused"
    r"|aborted)"
    r"|error communicating with|upstream connect error|max retries exceeded|context_length_exceeded"
    r"|invalid api key|incorrect api key"
    r"|api (?:call|request) failed|request failed"
)
_PREFIX: Final = (
    r"\[?(?:fatal |api |http |request )?(?:error|exception|failed)\]?(?: code| status)?\s*[:\-]?\s*"
)
_ERROR: Final = "|".join(
    (
        rf"{_PREFIX}\(?(?:http )?(?:status )?(?:code:? )?{_STATUS}\b",
        rf"(?:http(?:/[0-9.]+)? (?:error |status )?(?:code )?:? ?)?{_STATUS}(?:[:,\s-]+)(?:{_REASONS})\b",
        rf"http(?:/[0-9.]+)? (?:error |status )?(?:code )?:? ?{_STATUS}\b",
        rf"(?:{_PREFIX})?(?:[a-z_]\w*\.)*(?:{_CLASSES})\b\s*(?:[:(]|$)",
        rf"{_PREFIX}(?:{_REASONS}|{_PHRASES})\b",
        rf"(?:{_REASONS}|{_PHRASES})[.!]?\s*$",
        r"(?:error|exception|\[error\]|<error>)[.!:]?\s*$",
        r"you exceeded your current quota|rate limit reached for|upstream connect error"
        r"|error communicating with openai",
        r"traceback \(most recent call last\)",
        r"""\{\s*["'](?:error|errors|detail)["']\s*:""",
        rf"(?:<!doctype html|<html)[^\n]*(?:\n[^\n]*)?{_STATUS} (?:{_REASONS})",
    )
)
_IS_ERROR: Final = rf"(?is)^\s*(?:{_ERROR})"
LONGEST_ERROR: Final = 5_000
"""Number of characters up to which an answer may be an error message."""

_NO_VALUE: Final = (
    "nan",
    "null",
    "n/a",
    "na",
    "none",
    "#n/a",
    "<na>",
    "nil",
    "undefined",
    "#value!",
    "#ref!",
    "#name?",
    "#div/0!",
)
_SHOWN: Final = 5
_LONGEST: Final = 60


def is_error(answer: Expr) -> Expr:
    """Return whether a whole answer is the error message of an endpoint or a program, not a text of a model."""
    return (answer.str.contains(_IS_ERROR) & (answer.str.len_chars() <= LONGEST_ERROR)).fill_null(False)


def errors_as_failures(place: object, rows: DataFrame) -> tuple[DataFrame, str | None]:
    """Return responses in which error messages are failures (`status`, `error`), and a note about them; None if there are none.

    Parameters
    ----------
    rows
        A table with the column `answer`, and perhaps `status` and `error`.
    """
    wrong = is_error(col.answer)
    errors = UserTable.of(place, rows).rows.filter(wrong)
    if errors.is_empty():
        return rows, None
    first = shortened(errors["answer"][0].strip(), _LONGEST)
    status = col.status if "status" in rows.columns else pl.lit(None, String)
    error = col.error if "error" in rows.columns else pl.lit(None, String)
    message = pl.lit("imported: ") + col.answer.str.strip_chars().str.slice(0, 200).str.replace_all(
        r"\s+", " "
    )
    failed = rows.with_columns(
        status=when(wrong).then(pl.lit("failed")).otherwise(status),
        error=when(wrong).then(message).otherwise(error),
        answer=when(~wrong).then(col.answer),
    )
    counted = (
        "1 answer is an error message"
        if errors.height == 1
        else f"{errors.height:,} answers are error messages"
    )
    what = "it counts as failed" if errors.height == 1 else "they count as failed"
    return failed, f"{place}: {counted} ({_rows(errors[ROW])}: {first!r}); {what}"


def words_for_no_value(place: object, rows: DataFrame) -> str | None:
    """Return a note about texts (`answer`) such as "NaN" or "N/A", which are counted as texts; None if there are none."""
    words = UserTable.of(place, rows).rows.filter(
        col.answer.str.strip_chars().str.to_lowercase().is_in(_NO_VALUE)
    )
    if words.is_empty():
        return None
    kinds = ", ".join(repr(word) for word in words["answer"].unique(maintain_order=True).head(_SHOWN))
    counted = "1 text is" if words.height == 1 else f"{words.height:,} texts are"
    return f"{place}: {counted} {kinds} ({_rows(words[ROW])}) and counted as texts; leave cells without a text empty"


def surplus_rows(places: list[str], surplus: DataFrame) -> str | None:
    """Return a note about responses beyond those that the study asks for; None if there are none.

    Parameters
    ----------
    places
        Names of the files.
    surplus
        The rows: `model`, `prompt_id`, `file` (index of `places`) and `ROW`.
    """
    if surplus.is_empty():
        return None
    prompts = surplus.select("model", "prompt_id").n_unique()
    files = "; ".join(
        f"{places[file]}, {_rows(rows[ROW])}"
        for (file,), rows in surplus.group_by("file", maintain_order=True)
    )
    subject = "1 prompt has" if prompts == 1 else f"{prompts:,} prompts have"
    rows = "1 row" if surplus.height == 1 else f"{surplus.height:,} rows"
    return (
        f"{subject} more responses than the study asks for ({rows} too many: {files}); each counts as a"
        " further repetition. If files were joined by mistake, remove these rows; if they are repetitions,"
        " number them in a column repetition"
    )


def _rows(numbers: Series) -> str:
    """Return row numbers in words: "row 3", "rows 3, 4, 9, ..."."""
    shown = ", ".join(str(number) for number in numbers.head(_SHOWN))
    return f"row{'s' if len(numbers) > 1 else ''} {shown}{', ...' if len(numbers) > _SHOWN else ''}"
