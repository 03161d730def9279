"""Measure speed and memory, beside peers in environments of their own; one JSON file, and a page.

    python -m perf.peers                                  install the peers (once) python -m perf --page
    docs/performance.md             everything, some twenty minutes python -m perf journal growth
    some parts python -m perf journal --into performance.json        some parts anew, in place of those
    measured before python -m perf --quick                                tiny sizes, to see that all of it
    works python -m perf --from performance.json --page FILE    the page again, nothing measured python -m
    perf claims                                 what the studies of truth found (perf/studies), nothing
    measured

Parts run one after the other, each in a fresh process. JSON and page say which part failed, if one did, and
the exit status then is 1, as it is where a promise is not kept.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perf._machine import describe, peer_versions
from perf._page import page
from perf._parts import LONG, PARTS
from perf._tools import ROOT
from perf.peers.__main__ import HOME, known
from perf.studies import records


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="minutes")


def run_part(name: str, given: list[str]) -> dict[str, Any]:
    """What one part told, or how it failed, and its seconds."""
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", f"perf.{name}", *given], capture_output=True, text=True, cwd=ROOT, check=False
    )
    seconds = {"written": now(), "seconds": round(time.perf_counter() - begun, 1)}
    failed: dict[str, Any] = {}
    if done.returncode:
        failed = {"failed": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]}
    try:
        whole: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError as error:
        return seconds | ({"failed": f"what it printed is no JSON: {error}"} | failed)
    if (
        "tables" not in whole
    ):  # the long ones tell one object of their own, also where something does not hold
        rows = [
            {"what": name, "told": value if isinstance(value, int | float | str) else json.dumps(value)}
            for name, value in whole.items()
        ]
        whole = {"tables": [{"title": "Output", "rows": rows, "note": ""}]}
    return seconds | whole | failed


def measure(
    names: list[str],
    pythons: dict[str, str],
    missing: dict[str, str],
    *,
    quick: bool,
    postgres: str | None,
    before: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Run the parts.

    What is known of them, of the machine and of the peers, and of the other parts what was measured `before`.

    Raises
    ------
    ValueError
        That was measured on another machine, with other versions of libraries or peers, or in another size;
        nothing is measured then.
    """
    versions, lost = peer_versions(pythons)
    asked = [f"--peer={name}={python}" for name, python in pythons.items() if name in versions]
    told: dict[str, Any] = {
        "written": now(),
        "quick": quick,
        "machine": describe(),
        "peers": versions,
        "missing": missing | lost,
        "parts": {},
    }
    if before is not None:
        for what in ("machine", "peers", "quick"):
            if told[what] != before[what]:
                raise ValueError(f"it has another {what} ({before[what]}, now {told[what]})")
        told["parts"] = {name: {"written": before["written"]} | one for name, one in before["parts"].items()}
    for name in names:
        given = [] if name in LONG else [*asked, *(["--quick"] if quick else [])]
        given += ["--postgres", postgres] if postgres and name == "journal" else []
        print(f"{name} ...", end=" ", file=sys.stderr, flush=True)
        told["parts"][name] = run_part(name, given)
        print(
            f"{told['parts'][name]['seconds']:,.0f} s", told["parts"][name].get("failed", ""), file=sys.stderr
        )
    return told | {
        "parts": {name: told["parts"][name] for name in sorted(told["parts"], key=[*PARTS, *LONG].index)}
    }


def kept(told: dict[str, Any]) -> bool:
    """Whether every part ran and, in full size, every promise that could be measured was kept."""
    parts = told["parts"].values()
    missed = [
        row for one in parts for row in one.get("targets", []) if row["met"] is False and not told["quick"]
    ]
    return not missed and not any("failed" in one for one in parts)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m perf", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"of {', '.join((*PARTS, *LONG))} [default: all that take minutes]",
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes; the figures mean nothing")
    parser.add_argument("--long", action="store_true", help=f"also {' and '.join(LONG)}, which take hours")
    parser.add_argument(
        "--peers",
        type=Path,
        default=HOME,
        metavar="FOLDER",
        help=f"where python -m perf.peers put them [default: {HOME}]",
    )
    parser.add_argument(
        "--peer", action="append", default=[], metavar="NAME=PYTHON", help="an interpreter that has this peer"
    )
    parser.add_argument("--postgres", metavar="URL", help="an empty database, for the part journal")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("performance.json"),
        metavar="FILE",
        help="the JSON [default: %(default)s]",
    )
    parser.add_argument(
        "--into",
        type=Path,
        metavar="FILE",
        help="put the parts into this JSON of the same machine and versions",
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="also write the page")
    parser.add_argument(
        "--from", dest="source", type=Path, metavar="FILE", help="make the page of this JSON; measure nothing"
    )
    given = parser.parse_args()
    if given.parts == ["claims"]:
        print(*records.table(), sep="\n")
        return 0
    if unknown := [name for name in given.parts if name not in (*PARTS, *LONG)]:
        parser.error(f"no part is called {unknown[0]}; there are {', '.join((*PARTS, *LONG))}")
    if wrong := [one for one in given.peer if "=" not in one]:
        parser.error(f"--peer {wrong[0]}: expected NAME=PYTHON")
    if given.source:
        told = json.loads(given.source.read_text(encoding="utf-8"))
    else:
        pythons, missing = known(given.peers)
        own = dict(one.split("=", 1) for one in given.peer)
        missing = {name: reason for name, reason in missing.items() if name not in own}
        names = given.parts or [name for name, part in PARTS.items() if part.usual]
        names += [name for name in LONG if given.long and name not in names]
        try:
            before = json.loads(given.into.read_text(encoding="utf-8")) if given.into else None
            told = measure(
                names, pythons | own, missing, quick=given.quick, postgres=given.postgres, before=before
            )
        except (OSError, ValueError) as error:
            print(f"nothing can be put into {given.into}: {error}; measure everything anew", file=sys.stderr)
            return 2
        (given.into or given.output).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    if given.page:
        given.page.write_text(page(told), encoding="utf-8")
    return 0 if kept(told) else 1


if __name__ == "__main__":
    sys.exit(main())
