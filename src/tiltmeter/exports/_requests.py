"""What an export is asked to write."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tiltmeter import runs


class ExportRequest(NamedTuple):
    """A validated export request, which is passed to a writer."""

    run: runs.Run
    path: Path
    """Output file or folder; for a service, the run folder."""
    table: str
    every: bool
    """Whether to export all findings instead of the key findings."""
    model: str | None
    """Name of the only model to export; None exports all models."""
    format: str
