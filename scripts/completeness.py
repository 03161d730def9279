"""Fail if too few public symbols have known types; --list prints those without and the public modules.

A module is public if no part of its name begins with an underscore.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PACKAGE = "tiltmeter"
SOURCE = Path(__file__).parents[1] / "src"
LEAST = 0.97
"""Smallest accepted share of public symbols with a known type."""


def completeness() -> dict[str, Any]:
    """Return what `pyright --verifytypes` reports about the types of the package."""
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson"]
    command += ["--verifytypes", PACKAGE, "--ignoreexternal"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    report: dict[str, Any] = json.loads(done.stdout)["typeCompleteness"]
    return report


def is_known(symbol: dict[str, Any]) -> bool:
    """Return whether every part of the type of a symbol is known."""
    return symbol["isTypeKnown"] and not symbol["isTypeAmbiguous"]


def main() -> int:
    """Print the share of known types; return 1 if it is too small."""
    report = completeness()
    modules = [module["name"] for module in report["modules"]]
    public = [name for name in modules if not any(part.startswith("_") for part in name.split("."))]
    score = report["completenessScore"]
    print(f"{score:.1%} of the symbols of {len(public)} public modules have known types")
    if "--list" in sys.argv:
        print(*public, sep="\n")
        for symbol in report["symbols"]:
            if not is_known(symbol):
                print(symbol["name"], *(note["message"] for note in symbol["diagnostics"]), sep="\n    ")
    if score < LEAST:
        print(f"at least {LEAST:.0%} are needed: see scripts/completeness.py --list", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
