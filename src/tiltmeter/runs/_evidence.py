"""The responses behind a finding, selected by the condition that it records."""

from __future__ import annotations

from polars import LazyFrame

from tiltmeter._sanitising import printable
from tiltmeter.errors import InputError
from tiltmeter.runs._conditions import ConditionError, parsed_condition
from tiltmeter.runs._folder import RunFolder, reading

_QUOTED = 200
"""Maximum number of characters of a condition in an error message."""


def resting_on(folder: RunFolder, condition: str, measures: LazyFrame) -> LazyFrame:
    """Return the rows of `measures` that a finding's `evidence` selects.

    A condition may contain comparisons and sub-queries over the run's own tables only; see
    `tiltmeter.runs._conditions`.

    Raises
    ------
    InputError
        The condition contains anything else, or cannot be applied to these tables.
    """
    tables = {**folder.stages(), "measures": measures}
    try:
        with reading(folder.path):
            return measures.filter(parsed_condition(condition, tables, "measures"))
    except ConditionError as error:
        quoted = printable(condition, one_line=True)[:_QUOTED]
        reason = printable(str(error), one_line=True)[:_QUOTED]
        raise InputError(
            f"{folder.path}: the evidence of a finding is not a valid condition on the tables of this run"
            f" and was not evaluated ({reason}): {quoted}"
        ) from None
