"""sagedbias: its diagnoser alone, on a frame of features; the rest of the package wants spaCy and more."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
import time
from pathlib import Path
from types import ModuleType

import pandas as pd


def main() -> None:
    task = json.loads(sys.argv[1])
    package = ModuleType("saged")
    package.__path__ = [
        str(Path(folder) / "saged") for folder in sys.path if (Path(folder) / "saged").is_dir()
    ]
    sys.modules["saged"] = package
    diagnoser = importlib.import_module("saged._diagnoser").DisparityDiagnoser
    frame = pd.read_csv(task["frame"])
    begun = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        diagnosis = diagnoser(
            frame,
            features=task["features"],
            generations=task["generations"],
            target_groups=None,
            group_type="category",
        )
        for name, options in task["calls"]:
            getattr(diagnosis, name)(**options)
        diagnosis.statistics_disparity()
    print(json.dumps({"seconds": time.perf_counter() - begun}))


if __name__ == "__main__":
    main()
