"""Finished cases of a study that takes long, so that it can be interrupted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from perf.studies.study import Claim


class Progress:
    """A file with one line of JSON for each finished case; without a path, nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def finished(self, fingerprint: str) -> dict[str, tuple[list[Claim], float]]:
        """Return the claims and seconds of the cases that were carried out with this code, by case."""
        if self._path is None or not self._path.is_file():
            return {}
        rows = [json.loads(line) for line in self._path.read_text(encoding="utf-8").splitlines()]
        outcomes = [row for row in rows if row["fingerprint"] == fingerprint]
        return {
            row["case"]: ([Claim(**claim) for claim in row["claims"]], row["seconds"]) for row in outcomes
        }

    def add(self, fingerprint: str, case: str, claims: Sequence[Claim], seconds: float) -> None:
        """Add a finished case."""
        if self._path is None:
            return
        row = {
            "fingerprint": fingerprint,
            "case": case,
            "claims": [asdict(claim) for claim in claims],
            "seconds": seconds,
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
