"""What a user has instead of responses to prompts of a study: texts about groups, or decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from polars import DataFrame, Series

from tiltmeter.importing._response_tables import Source
from tiltmeter.study import Study


class OwnData(NamedTuple):
    """Rows of the user's tables as responses to a study that is made for them."""

    sources: Sequence[Source]
    """The tables."""
    study: Study
    responses: Callable[[DataFrame, str], DataFrame]
    """Function from the design of the study, and the name of the model of rows without one, to RESPONSES."""
    models: Series
    """The column `model` of the rows; null where they have none."""
    columns: Mapping[str, Any]
    """The columns that have a role, for study.yaml."""
