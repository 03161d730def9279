"""Functions of all parts: options, fresh processes, peers, peak memory, and the output of a part.

A part prints one JSON object: `tables` (each a title, rows with named cells and a note), `targets` (each the
promised and the measured value) and `missing` (peers that could not be measured, and why).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = [
    "ROOT",
    "Outcome",
    "PeerError",
    "Peers",
    "ask_peer",
    "environment",
    "fresh",
    "options",
    "peak_mib",
    "rounded",
    "table",
    "target",
    "tell",
]

ROOT: Final = Path(__file__).parent.parent
PEERS: Final = Path(__file__).parent / "peers"

Row = dict[str, Any]


class PeerError(Exception):
    """A peer failed; the message is the last line of its error output."""


class Outcome(NamedTuple):
    """The output of a peer, and the seconds of its process from start to end."""

    reported: dict[str, Any]
    seconds: float


class Peers:
    """Interpreters of the peers by name, and the peers that were needed and could not be measured."""

    def __init__(self, peers: Sequence[str]) -> None:
        self._pythons = dict(peer.split("=", 1) for peer in peers)
        self.missing: dict[str, str] = {}

    def python(self, name: str) -> str | None:
        """Return the interpreter that has the peer; without one, None, and the peer is noted as missing."""
        python = self._pythons.get(name)
        if python is None:
            self.missing[name] = "not installed"
        return python

    def ask(self, name: str, script: str, task: Mapping[str, Any], **more: str) -> Outcome | None:
        """Run one of our drivers in the peer's environment.

        If that fails, return None and note the peer as missing.
        """
        python = self.python(name)
        if python is None:
            return None
        try:
            return ask_peer(python, script, task, **more)
        except PeerError as error:
            self.missing[name] = str(error)
            return None


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a measured process: no telemetry, no hub, and further variables."""
    return os.environ | {
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONWARNINGS": "ignore",
        **more,
    }


def ask_peer(python: str, script: str, task: Mapping[str, Any], **more: str) -> Outcome:
    """Run the driver `script` by the interpreter `python`; raise PeerError if it fails or prints nothing."""
    command = [python, "-P", str(PEERS / script), json.dumps(dict(task))]
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=environment(**more), check=False)
    seconds = time.perf_counter() - begun
    if done.returncode or not done.stdout.strip():
        complaints = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise PeerError(complaints[-1][:300])
    return Outcome(json.loads(done.stdout.strip().splitlines()[-1]), seconds)


def fresh(module: str, *arguments: object, **more: str) -> Any:
    """Return the JSON that `python -m perf.MODULE ...` prints; its error output goes to our stderr."""
    command = [sys.executable, "-m", f"perf.{module}", *map(str, arguments)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ | more, check=True
    )
    return json.loads(done.stdout)


def peak_mib() -> float:
    """Return the peak of the resident memory of this process since its start.

    `getrusage` would not do: a child inherits its maximum.
    """
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024


def options(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of all parts."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small sizes, to see that everything works; the figures mean nothing",
    )
    parser.add_argument(
        "--peer", action="append", default=[], metavar="NAME=PYTHON", help="an interpreter that has the peer"
    )
    return parser


def rounded(row: Mapping[str, Any]) -> Row:
    """Round the numbers of a row to three or four significant digits."""
    return {name: _digits(value) if isinstance(value, float) else value for name, value in row.items()}


def _digits(value: float) -> float:
    return round(value) if abs(value) >= 1000 else float(f"{value:.3g}")


def table(title: str, rows: Sequence[Mapping[str, Any]], note: str = "") -> dict[str, Any]:
    """Return one table of the page: rows with named cells, and a note about them."""
    return {"title": title, "rows": [rounded(row) for row in rows], "note": note}


def target(subject: str, value: float | None, least: float) -> Row:
    """Return a target and its measured value; `value` is None if it could not be measured."""
    return {
        "target": subject,
        "at least": least,
        "measured": None if value is None else _digits(value),
        "met": None if value is None else value >= least,
    }


def tell(
    tables: Sequence[Mapping[str, Any]], *, targets: Sequence[Row] = (), peers: Peers | None = None
) -> None:
    """Print the output of a part."""
    print(
        json.dumps(
            {
                "tables": list(tables),
                "targets": list(targets),
                "missing": {} if peers is None else peers.missing,
            }
        )
    )
