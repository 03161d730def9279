"""Known vulnerabilities of the packages in constraints.txt, asked of the advisory database by pip-audit.

    python .ci/audit.py [--may-skip] [constraints.txt]

Exit status 0: every package was looked up and none has a known vulnerability that is not in ACCEPTED below.
1: one has, or a package was not looked up. The advisory database needs the network. With `--may-skip` (or
AUDIT=may-skip in the environment), which is for build machines without the internet, packages that were not
looked up are counted and skipped. A release is built without it. AUDIT_OSV_URL names a mirror of the advisory
database of osv.dev.
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
    command = [
        str(Path(sys.executable).parent / "pip-audit"),
        "--requirement",
        str(constraints),
        "--no-deps",
        "--disable-pip",
    ]
    if mirror := os.environ.get("AUDIT_OSV_URL"):
        command += ["--vulnerability-service", "osv", "--osv-url", mirror]
    command += [
        "--format",
        "json",
        "--progress-spinner",
        "off",
        *(f"--ignore-vuln={one}" for one in ACCEPTED),
    ]
    told = subprocess.run(command, capture_output=True, check=False, text=True)
    try:
        found: list[dict[str, Any]] = json.loads(told.stdout)["dependencies"]
    except (ValueError, KeyError):
        return [], next(
            iter(told.stderr.strip().splitlines()[-1:]), f"pip-audit ended with status {told.returncode}"
        )
    return found, ""


def main() -> int:
    """Look up, say what came out, and give the exit status."""
    may_skip = "--may-skip" in sys.argv[1:] or os.environ.get("AUDIT") == "may-skip"
    files = [one for one in sys.argv[1:] if not one.startswith("--")] or ["constraints.txt"]
    found, failure = look_up(Path(files[0]))
    vulnerable = [one for one in found if one.get("vulns")]
    missed = [one for one in found if "skip_reason" in one]
    for one in vulnerable:
        print(f"{one['name']} {one['version']}: {', '.join(advisory['id'] for advisory in one['vulns'])}")
    looked_up = len(found) - len(missed)
    incomplete = bool(missed) or not looked_up
    if looked_up:
        print(f"audit: {looked_up} packages looked up, {len(vulnerable)} with a known vulnerability")
    if incomplete:
        skipped = "SKIPPED" if may_skip else "NOT AUDITED"
        reason = (
            failure
            or "the advisory database, which needs the network, could not be asked or does not know them"
        )
        print(f"{skipped}: {len(missed) or 'all'} packages were not looked up ({reason})")
    return 1 if vulnerable or (incomplete and not may_skip) else 0


if __name__ == "__main__":
    sys.exit(main())
