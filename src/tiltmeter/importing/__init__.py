"""Import of responses and texts generated elsewhere into a run folder."""

from tiltmeter.importing._evaluation_logs import MARK, output_of
from tiltmeter.importing._response_tables import Source, TableInMemory, TextColumns
from tiltmeter.importing._responses import analyse_responses
from tiltmeter.importing._sources import check_columns, has_columns, run_of, sources_of
from tiltmeter.importing._stored_runs import analyse_run, refuse_own_texts
from tiltmeter.importing._verifying import Verification, verify_run

__all__ = [
    "MARK",
    "Source",
    "TableInMemory",
    "TextColumns",
    "Verification",
    "analyse_responses",
    "analyse_run",
    "check_columns",
    "has_columns",
    "output_of",
    "refuse_own_texts",
    "run_of",
    "sources_of",
    "verify_run",
]
