"""Record studies again, all or those named: `PYTHONPATH=tests python tests/recorded/record.py [STUDY...]`.

A file is written only if its content has changed: the bytes of a Parquet file also depend on the version of
Polars, and the order of answers on their times. The data are those of TILTMETER_DATA, or of the folder data
in TILTMETER_SHARED (default: ../shared).
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import polars as pl

from support.recorded import FOLDER, STUDIES, answers_of, carry_out, recorded_findings
from support.recorded_differences import described, differences

TEXT_COLUMNS = ("evidence", "method", "note")
"""Columns of sentences, which are not recorded."""


def main() -> int:
    """Write the changed answers and findings, and return the exit status."""
    names = sys.argv[1:] or list(STUDIES)
    if unknown := set(names) - set(STUDIES):
        print(
            f"there is no recorded study {', '.join(sorted(unknown))}; there are {', '.join(STUDIES)}",
            file=sys.stderr,
        )
        return 2
    shared = os.environ.get("TILTMETER_SHARED", FOLDER.parents[2] / "shared")
    os.environ.setdefault("TILTMETER_DATA", str(Path(shared) / "data"))
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            run, answers = carry_out(name, Path(folder), None)
            findings = run.findings.drop(TEXT_COLUMNS)
        _write_answers(name, answers.sort("model", "digest"))
        _write_findings(name, findings)
    return 0


def _write_answers(name: str, answers: pl.DataFrame) -> None:
    path = FOLDER / f"{name}.answers.parquet"
    if path.is_file() and answers_of(name).sort("model", "digest").equals(answers):
        print(f"{name}: {answers.height:,} answers, unchanged")
        return
    answers.write_parquet(path, compression_level=19)
    print(f"{name}: {answers.height:,} answers, written")


def _write_findings(name: str, findings: pl.DataFrame) -> None:
    path = FOLDER / f"{name}.findings.parquet"
    changes = differences(recorded_findings(name), findings) if path.is_file() else None
    if changes is not None and changes.is_empty():
        print(f"{name}: {findings.height:,} findings, unchanged")
        return
    findings.write_parquet(path, compression_level=19)
    print(f"{name}: {findings.height:,} findings, written")
    if changes is not None:
        print(described(changes))


if __name__ == "__main__":
    sys.exit(main())
