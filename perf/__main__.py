"""Measure speed and memory, compared with peers in separate environments; write a JSON file and a page.

    python -m perf.peers                                  install the peers (once)
    python -m perf --page docs/performance.md             all parts, some twenty minutes
    python -m perf journal growth                         some parts
    python -m perf journal --into performance.json        some parts again, which replace earlier results
    python -m perf --quick                                tiny sizes, to check that everything works
    python -m perf --from performance.json --page FILE    write the page again, without measuring
    python -m perf claims                                 print the record of the studies (perf/studies)

Parts run one after the other, each in a fresh process. The JSON file and the page name parts that failed. The
exit status is 1 if a part failed or a target was not met.
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


def run_part(name: str, arguments: list[str]) -> dict[str, Any]:
    """Return the output of one part, or how it failed, and its seconds."""
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", f"perf.{name}", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    seconds = {"written": now(), "seconds": round(time.perf_counter() - begun, 1)}
    failed: dict[str, Any] = {}
    if done.returncode:
        failed = {"failed": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]}
    try:
        output: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError as error:
        return seconds | ({"failed": f"what it printed is no JSON: {error}"} | failed)
    if "tables" not in output:  # the long parts print an object without tables, also when they fail
        rows = [
            {"what": name, "value": value if isinstance(value, int | float | str) else json.dumps(value)}
            for name, value in output.items()
        ]
        output = {"tables": [{"title": "Output", "rows": rows, "note": ""}]}
    return seconds | output | failed


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

    Return their outputs, the machine and the peers, and the outputs of other parts in `before`.

    Raises
    ------
    ValueError
        `before` was measured on another machine, with other versions of libraries or peers, or in another
        size; then nothing is measured.
    """
    versions, lost = peer_versions(pythons)
    peers = [f"--peer={name}={python}" for name, python in pythons.items() if name in versions]
    report: dict[str, Any] = {
        "written": now(),
        "quick": quick,
        "machine": describe(),
        "peers": versions,
        "missing": missing | lost,
        "parts": {},
    }
    if before is not None:
        for key in ("machine", "peers", "quick"):
            if report[key] != before[key]:
                raise ValueError(f"it has another {key} ({before[key]}, now {report[key]})")
        report["parts"] = {
            name: {"written": before["written"]} | measured for name, measured in before["parts"].items()
        }
    for name in names:
        arguments = [] if name in LONG else [*peers, *(["--quick"] if quick else [])]
        arguments += ["--postgres", postgres] if postgres and name == "journal" else []
        print(f"{name} ...", end=" ", file=sys.stderr, flush=True)
        report["parts"][name] = run_part(name, arguments)
        print(
            f"{report['parts'][name]['seconds']:,.0f} s",
            report["parts"][name].get("failed", ""),
            file=sys.stderr,
        )
    return report | {
        "parts": {name: report["parts"][name] for name in sorted(report["parts"], key=[*PARTS, *LONG].index)}
    }


def is_met(report: dict[str, Any]) -> bool:
    """Whether every part ran and, in full size, every target that could be measured was met."""
    parts = report["parts"].values()
    missed = [
        row
        for part in parts
        for row in part.get("targets", [])
        if row["met"] is False and not report["quick"]
    ]
    return not missed and not any("failed" in part for part in parts)


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
    arguments = parser.parse_args()
    if arguments.parts == ["claims"]:
        print(*records.table(), sep="\n")
        return 0
    if unknown := [name for name in arguments.parts if name not in (*PARTS, *LONG)]:
        parser.error(f"no part is called {unknown[0]}; there are {', '.join((*PARTS, *LONG))}")
    if malformed := [peer for peer in arguments.peer if "=" not in peer]:
        parser.error(f"--peer {malformed[0]}: expected NAME=PYTHON")
    if arguments.source:
        report = json.loads(arguments.source.read_text(encoding="utf-8"))
    else:
        pythons, missing = known(arguments.peers)
        interpreters = dict(peer.split("=", 1) for peer in arguments.peer)
        missing = {name: reason for name, reason in missing.items() if name not in interpreters}
        names = arguments.parts or [name for name, part in PARTS.items() if part.usual]
        names += [name for name in LONG if arguments.long and name not in names]
        try:
            before = json.loads(arguments.into.read_text(encoding="utf-8")) if arguments.into else None
            report = measure(
                names,
                pythons | interpreters,
                missing,
                quick=arguments.quick,
                postgres=arguments.postgres,
                before=before,
            )
        except (OSError, ValueError) as error:
            print(
                f"nothing can be put into {arguments.into}: {error}; measure all parts again", file=sys.stderr
            )
            return 2
        (arguments.into or arguments.output).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if arguments.page:
        arguments.page.write_text(page(report), encoding="utf-8")
    return 0 if is_met(report) else 1


if __name__ == "__main__":
    sys.exit(main())
