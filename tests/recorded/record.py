"""Record studies anew, all or those named: `PYTHONPATH=tests TILTMETER_DATA=FOLDER python tests/recorded/record.py [STUDY...]`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from support.recorded import FOLDER, STUDIES, carry_out

LEFT_OUT = ("evidence", "method", "note")
"""Columns that hold words."""


def main() -> None:
    """Write the answers and the findings of each study."""
    for name in sys.argv[1:] or STUDIES:
        with tempfile.TemporaryDirectory() as folder:
            run, answers = carry_out(name, Path(folder), None)
            answers.write_parquet(FOLDER / f"{name}.answers.parquet", compression_level=19)
            run.findings.drop(LEFT_OUT).write_parquet(FOLDER / f"{name}.findings.parquet", compression_level=19)
            print(f"{name}: {answers.height:,} answers, {run.findings.height:,} findings")


if __name__ == "__main__":
    main()
