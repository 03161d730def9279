"""Known vulnerabilities of the packages in constraints.txt, asked of the advisory database by pip-audit.

    python .ci/audit.py [--required] [constraints.txt]

Exit status 0: every package was looked up and none has a known vulnerability that is not in ACCEPTED below.
1: one has. Where the advisory database cannot be asked (a build machine without the internet) that is said, in capitals, and the
status is 0, or 1 with `--required` (or AUDIT=required in the environment), which is how a release is built. AUDIT_OSV_URL names a
mirror of the advisory database of osv.dev.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ACCEPTED: dict[str, str] = {}
"""Advisories that do not concern Tiltmeter, by their id, each with the reason."""


def look_up(constraints: Path) -> tuple[list[dict[str, Any]], str]:
    """Return what pip-audit reported for each package, and the error if it could not run."""
    command = [str(Path(sys.executable).parent / "pip-audit"), "--requirement", str(constraints), "--no-deps", "--disable-pip"]
    if mirror := os.environ.get("AUDIT_OSV_URL"):
        command += ["--vulnerability-service", "osv", "--osv-url", mirror]
    command += ["--format", "json", "--progress-spinner", "off", *(f"--ignore-vuln={one}" for one in ACCEPTED)]
    told = subprocess.run(command, capture_output=True, check=False, text=True)
    try:
        found: list[dict[str, Any]] = json.loads(told.stdout)["dependencies"]
    except (ValueError, KeyError):
        return [], next(iter(told.stderr.strip().splitlines()[-1:]), f"pip-audit ended with status {told.returncode}")
    return found, ""


def main() -> int:
    """Look up, say what came out, and give the exit status."""
    required = "--required" in sys.argv[1:] or os.environ.get("AUDIT") == "required"
    files = [one for one in sys.argv[1:] if not one.startswith("--")] or ["constraints.txt"]
    found, failure = look_up(Path(files[0]))
    bad = [one for one in found if one.get("vulns")]
    missed = [one for one in found if "skip_reason" in one]
    for one in bad:
        print(f"{one['name']} {one['version']}: {', '.join(advisory['id'] for advisory in one['vulns'])}")
    looked_up = len(found) - len(missed)
    print(f"audit: {looked_up} packages looked up, {len(bad)} with a known vulnerability")
    if missed or not looked_up:
        reason = failure or "the advisory database could not be asked, or does not know them"
        print(f"NOT AUDITED: {len(missed) or 'all'} packages ({reason})")
    return 1 if bad or (required and (missed or not looked_up)) else 0


if __name__ == "__main__":
    sys.exit(main())
