"""What the parts share: options, fresh processes, peers, peaks, and the one form in which a part tells what it found.

A part prints one JSON object: `tables` (each a title, rows with named cells and a note), `targets` (what was
promised and what came out) and `missing` (peers it would have asked, and why it could not).
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
    """A peer could not do what it was asked; the message is the last line it said."""


class Outcome(NamedTuple):
    """What a peer printed, and the seconds of its process from start to end."""

    reported: dict[str, Any]
    seconds: float


class Peers:
    """Pythons of the peers by name; remembers which ones were wanted and could not be asked."""

    def __init__(self, peers: Sequence[str]) -> None:
        self._pythons = dict(peer.split("=", 1) for peer in peers)
        self.missing: dict[str, str] = {}

    def python(self, name: str) -> str | None:
        """The interpreter that has the peer; None, and noted as missing, where there is none."""
        python = self._pythons.get(name)
        if python is None:
            self.missing[name] = "not installed"
        return python

    def ask(self, name: str, script: str, task: Mapping[str, Any], **more: str) -> Outcome | None:
        """Run one of our small drivers in the peer's environment; None, and noted as missing, where that fails."""
        python = self.python(name)
        if python is None:
            return None
        try:
            return ask_peer(python, script, task, **more)
        except PeerError as error:
            self.missing[name] = str(error)
            return None


def environment(**more: str) -> dict[str, str]:
    """The environment of a measured process: no telemetry, no hub, and one of our own choices for each peer."""
    return os.environ | {
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONWARNINGS": "ignore",
        **more,
    }


def ask_peer(python: str, script: str, task: Mapping[str, Any], **more: str) -> Outcome:
    """Run the driver `script` by the interpreter `python`; raises PeerError when it fails or says nothing."""
    command = [python, "-P", str(PEERS / script), json.dumps(dict(task))]
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=environment(**more), check=False)
    seconds = time.perf_counter() - begun
    if done.returncode or not done.stdout.strip():
        complaints = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise PeerError(complaints[-1][:300])
    return Outcome(json.loads(done.stdout.strip().splitlines()[-1]), seconds)


def fresh(module: str, *arguments: object, **more: str) -> Any:
    """What `python -m perf.MODULE ...` prints, read as JSON; its complaints go to our stderr."""
    command = [sys.executable, "-m", f"perf.{module}", *map(str, arguments)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ | more, check=True
    )
    return json.loads(done.stdout)


def peak_mib() -> float:
    """Greatest resident memory of this process since it began.

    Not getrusage: its maximum a child inherits.
    """
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024


def options(description: str | None) -> argparse.ArgumentParser:
    """A parser with what every part understands."""
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
    """Numbers to the three or four digits that mean something."""
    return {name: _digits(value) if isinstance(value, float) else value for name, value in row.items()}


def _digits(value: float) -> float:
    return round(value) if abs(value) >= 1000 else float(f"{value:.3g}")


def table(title: str, rows: Sequence[Mapping[str, Any]], note: str = "") -> dict[str, Any]:
    """One table of the page: rows with named cells, and what a reader must know about it."""
    return {"title": title, "rows": [rounded(row) for row in rows], "note": note}


def target(subject: str, value: float | None, least: float) -> Row:
    """A promise and what came of it; `value` None where it could not be measured."""
    return {
        "target": subject,
        "at least": least,
        "measured": None if value is None else _digits(value),
        "met": None if value is None else value >= least,
    }


def tell(
    tables: Sequence[Mapping[str, Any]], *, targets: Sequence[Row] = (), peers: Peers | None = None
) -> None:
    """Print what a part found."""
    print(
        json.dumps(
            {
                "tables": list(tables),
                "targets": list(targets),
                "missing": {} if peers is None else peers.missing,
            }
        )
    )
