"""Import of responses and texts generated elsewhere into a run folder."""

from tiltmeter.importing._column_roles import (
    PossibleColumns,
    columns_in,
    may_hold_own_texts,
    possible_columns,
)
from tiltmeter.importing._dispatch import study_of_file
from tiltmeter.importing._evaluation_logs import MARK, output_of
from tiltmeter.importing._own_data import OwnData
from tiltmeter.importing._own_decisions import DecisionColumns, own_decisions
from tiltmeter.importing._own_texts import own_texts
from tiltmeter.importing._released_answers import is_released
from tiltmeter.importing._response_tables import Source, TableInMemory, TextColumns
from tiltmeter.importing._responses import analyse_responses
from tiltmeter.importing._sources import check_columns, has_columns, run_of, sources_of
from tiltmeter.importing._stored_runs import analyse_run, refuse_own_texts
from tiltmeter.importing._text_languages import language_of_texts
from tiltmeter.importing._verifying import Verification, verify_run

__all__ = [
    "MARK",
    "DecisionColumns",
    "OwnData",
    "PossibleColumns",
    "Source",
    "TableInMemory",
    "TextColumns",
    "Verification",
    "analyse_responses",
    "analyse_run",
    "check_columns",
    "columns_in",
    "has_columns",
    "is_released",
    "language_of_texts",
    "may_hold_own_texts",
    "output_of",
    "own_decisions",
    "own_texts",
    "possible_columns",
    "refuse_own_texts",
    "run_of",
    "sources_of",
    "study_of_file",
    "verify_run",
]
