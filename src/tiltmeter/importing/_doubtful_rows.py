"""Rows of imported tables that may not be answers: error messages, words for no value, surplus rows, keys."""

from __future__ import annotations

import sys
from typing import Final

import polars as pl
from polars import DataFrame, Expr, Series, String, col, selectors as cs, when

from tiltmeter._files.tables import ROW, UserTable
from tiltmeter._sanitising import shortened
from tiltmeter.importing._response_tables import Source
from tiltmeter.models._key_masking import column_without_keys

_STATUS: Final = r"(?:4(?:0[0-9]|1[0-8]|2[0-9]|3[01]|51)|5(?:0[0-9]|1[01]|2[0-9]|30|98|99))"
_REASONS: Final = (
    r"too many requests|bad gateway|service (?:temporarily )?unavailable|gateway time-?out"
    r"|internal server error|bad request|unauthorized|forbidden|not found|request time-?out"
    r"|payment required|overloaded|client error|server error"
)
_CLASSES: Final = (
    r"RateLimitError|APIError|APIStatusError|APIConnectionError|APITimeoutError|InternalServerError"
    r"|BadRequestError|AuthenticationError|PermissionDeniedError|NotFoundError|ServiceUnavailableError"
    r"|OverloadedError|ContextWindowExceededError|HTTPStatusError|HTTPError|ConnectionError|ConnectTimeout"
    r"|ReadTimeout|ReadTimeoutError|TimeoutError|Timeout|JSONDecodeError|ClientError|ServerError"
    r"|ThrottlingException|ResourceExhausted|ServiceUnavailable|DeadlineExceeded|MaxRetryError"
    r"|RemoteProtocolError"
)
_PHRASES: Final = (
    r"rate limit (?:exceeded|reached)|rate_limit_exceeded|insufficient_quota|quota exceeded"
    r"|you exceeded your current quota"
    r"|(?:request|connection|read|operation) timed out|time-?out(?: error)?"
    r"|connection (?:error|reset|refused|aborted)"
    r"|error communicating with|upstream connect error|max retries exceeded|context_length_exceeded"
    r"|invalid api key|incorrect api key|api (?:call|request) failed|request failed"
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
_LONGEST_MESSAGE: Final = 200
"""Number of characters of an error message that are kept."""
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
_ROWS_IN_NOTE: Final = 5
"""Maximum number of rows or words quoted in a note."""
_LONGEST_QUOTE: Final = 60


def is_error(answer: Expr) -> Expr:
    """Return whether an answer is the error message of an endpoint or a program, not a text of a model."""
    is_message = answer.str.contains(_IS_ERROR) & (answer.str.len_chars() <= LONGEST_ERROR)
    return is_message.fill_null(False)


def errors_as_failures(place: object, rows: DataFrame) -> tuple[DataFrame, str | None]:
    """Return responses in which error messages are failures, and a note about them; None without any.

    Parameters
    ----------
    rows
        A table with the column `answer`, and perhaps `status` and `error`, which failures get.
    """
    is_failure = is_error(col.answer)
    errors = UserTable.of(place, rows).rows.filter(is_failure)
    if errors.is_empty():
        return rows, None
    status = col.status if "status" in rows.columns else pl.lit(None, String)
    error = col.error if "error" in rows.columns else pl.lit(None, String)
    status = when(is_failure).then(pl.lit("failed")).otherwise(status)
    message = col.answer.str.strip_chars().str.slice(0, _LONGEST_MESSAGE).str.replace_all(r"\s+", " ")
    error = when(is_failure).then(pl.lit("imported: ") + message).otherwise(error)
    failed = rows.with_columns(status=status, error=error, answer=when(~is_failure).then(col.answer))
    if errors.height == 1:
        counted, outcome = "1 answer is an error message", "it counts as failed"
    else:
        counted, outcome = f"{errors.height:,} answers are error messages", "they count as failed"
    example = shortened(errors["answer"][0].strip(), _LONGEST_QUOTE)
    return failed, f"{place}: {counted} ({_row_numbers(errors[ROW])}: {example!r}); {outcome}"


def words_for_no_value(place: object, rows: DataFrame) -> str | None:
    """Return a note about texts such as "NaN" or "N/A", which are counted as texts; None without any.

    Parameters
    ----------
    rows
        A table with the texts in the column `answer`.
    """
    is_word = col.answer.str.strip_chars().str.to_lowercase().is_in(_NO_VALUE)
    words = UserTable.of(place, rows).rows.filter(is_word)
    if words.is_empty():
        return None
    kinds = words["answer"].unique(maintain_order=True).head(_ROWS_IN_NOTE)
    quoted = ", ".join(repr(kind) for kind in kinds)
    counted = "1 text is" if words.height == 1 else f"{words.height:,} texts are"
    return (
        f"{place}: {counted} {quoted} ({_row_numbers(words[ROW])}) and counted as texts;"
        " leave cells without a text empty"
    )


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
    by_file = surplus.group_by("file", maintain_order=True)
    files = "; ".join(f"{places[file]}, {_row_numbers(rows[ROW])}" for (file,), rows in by_file)
    subject = "1 prompt has" if prompts == 1 else f"{prompts:,} prompts have"
    rows = "1 row" if surplus.height == 1 else f"{surplus.height:,} rows"
    return (
        f"{subject} more responses than the study asks for ({rows} too many: {files}); each counts as a"
        " further repetition. If files were joined by mistake, remove these rows; if they are repetitions,"
        " number them in a column repetition"
    )


def _row_numbers(numbers: Series) -> str:
    """Return row numbers in words: "row 3", "rows 3, 4, 9, ..."."""
    listed = ", ".join(str(number) for number in numbers.head(_ROWS_IN_NOTE))
    if len(numbers) > _ROWS_IN_NOTE:
        listed += ", ..."
    return f"row {listed}" if len(numbers) == 1 else f"rows {listed}"


def without_keys(path: Source, rows: DataFrame) -> DataFrame:
    """Return rows in which the keys of the environment are masked in every text; print a note about them."""
    texts = rows.select(cs.string().exclude("prompt_id")).get_columns()
    masked = [column_without_keys(column) for column in texts]
    count = 0
    for before, after in zip(texts, masked, strict=True):
        if after is not before:
            count += int((after != before).sum())
    if count == 0:
        return rows
    values = "1 value contains" if count == 1 else f"{count:,} values contain"
    print_notes(f"{path}: {values} a key from the environment, which is replaced by ***")
    return rows.with_columns(masked)


def print_notes(*notes: str | None) -> None:
    """Print notes on stderr; None is no note."""
    for note in filter(None, notes):
        print(f"note: {note}", file=sys.stderr)
