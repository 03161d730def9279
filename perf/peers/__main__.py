"""Install the peers, each in a separate environment: `python -m perf.peers [FOLDER]`.

A peer that cannot be installed is noted in FOLDER/NAME/missing.txt, which `python -m perf` reports. pip's own
settings hold (PIP_FIND_LINKS for a wheel that no index has).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

from perf._tools import ROOT

HOME: Final = Path.home() / ".cache" / "tiltmeter" / "peers"


class Peer(NamedTuple):
    """Pinned packages to install; those of `alone` without their requirements, of which we need few."""

    packages: tuple[str, ...]
    alone: tuple[str, ...] = ()
    python: str | None = None
    """The version it needs where ours is too old."""
    constrained: bool = False
    """Whether our own pins hold, without which its resolver takes minutes."""


PINNED: Final = {
    "genderbench": Peer(("genderbench==1.1.0",), python="3.12"),
    "sagedbias": Peer(
        ("pandas==3.1.1", "scipy==1.17.1", "plotly==7.1.0", "tqdm==4.70.1"), alone=("sagedbias==0.0.13",)
    ),
    "inspect-ai": Peer(("inspect-ai==0.3.285", "openai==3.52.0"), constrained=True),
    "lm-eval": Peer(("lm-eval[api]==0.4.13", "torch==2.13.0")),
    "openai": Peer(("openai==3.52.0",), constrained=True),
}


class NotInstalledError(Exception):
    """A peer cannot be installed; the message says why."""


def interpreter(version: str | None) -> str:
    """Return a Python of at least this version: ours, or one from the path or from pyenv."""
    if version is None or sys.version_info[:2] >= tuple(map(int, version.split("."))):
        return sys.executable
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [
        shutil.which(f"python{version}"),
        *sorted(map(str, root.glob(f"versions/{version}.*/bin/python"))),
    ]
    for candidate in filter(None, candidates):
        if subprocess.run([candidate, "-c", "pass"], capture_output=True, check=False).returncode == 0:
            return candidate
    raise NotInstalledError(f"needs Python {version}, which was not found")


def pip(python: Path, *arguments: str) -> None:
    """Install packages; raise NotInstalledError with the last error of pip."""
    done = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        complaints = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [
            f"pip gave exit status {done.returncode}"
        ]
        raise NotInstalledError(complaints[-1])


def install(peer: Peer, folder: Path) -> None:
    """Create the environment of one peer."""
    subprocess.run([interpreter(peer.python), "-m", "venv", "--clear", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip(
        python, *peer.packages, *(("--constraint", str(ROOT / "constraints.txt")) if peer.constrained else ())
    )
    if peer.alone:
        pip(python, "--no-deps", *peer.alone)


def known(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return the interpreters of the peers in the folder, and why other peers are missing."""
    pythons, missing = {}, {}
    for name in PINNED:
        note, python = folder / name / "missing.txt", folder / name / "bin" / "python"
        if note.exists():
            missing[name] = note.read_text(encoding="utf-8").strip()
        elif python.exists():
            pythons[name] = str(python)
        else:
            missing[name] = "not installed; `python -m perf.peers` does"
    return pythons, missing


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", default=HOME, help=f"where to [default: {HOME}]")
    parser.add_argument("--only", action="append", choices=list(PINNED), help="this one; may be repeated")
    arguments = parser.parse_args()
    for name in arguments.only or PINNED:
        place = arguments.folder / name
        place.mkdir(parents=True, exist_ok=True)
        try:
            install(PINNED[name], place)
            print(f"{name}: {place}")
        except NotInstalledError as error:
            (place / "missing.txt").write_text(f"{error}\n", encoding="utf-8")
            print(f"{name}: {error}")


if __name__ == "__main__":
    main()
