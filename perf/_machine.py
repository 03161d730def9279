"""The machine and the software that were measured."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = ["describe", "peer_versions"]

OURS = ("tiltmeter", "polars", "numpy", "scipy", "sqlalchemy", "aiohttp")


def describe() -> dict[str, Any]:
    """Return the processor, memory, system, Python and versions of the packages that do the work."""
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": _processor(),
        "cores": cores,
        "memory, GiB": round(memory, 1),
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        **{name: _version(name) for name in OURS},
    }


def _processor() -> str:
    lines = (
        Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if Path("/proc/cpuinfo").exists()
        else []
    )
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return (named or [platform.processor() or platform.machine()])[0]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def peer_versions(pythons: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the versions of the peers and of their Pythons, and why others cannot be measured."""
    code = (
        "import sys; from importlib.metadata import version; print(version(sys.argv[1]), 'on Python', "
        "sys.version.split()[0])"
    )
    versions, missing = {}, {}
    for name, python in pythons.items():
        try:
            done = subprocess.run([python, "-c", code, name], capture_output=True, text=True, check=False)
        except OSError as error:
            missing[name] = f"{python}: {error.strerror}"
            continue
        if done.returncode:
            missing[name] = f"not found by {Path(python).name} of the environment given"
        else:
            versions[name] = done.stdout.strip()
    return versions, missing
