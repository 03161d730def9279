"""A folder elsewhere through fsspec: few operations, in constant memory, and every failure one sentence naming the URL."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tiltmeter._text import printable, redacted
from tiltmeter.errors import InputError

__all__ = ["Store"]

BLOCK = 16 * 2**20
"""Bytes of a table in memory at once; stores take up to 10,000 such parts."""
_EXTRA = 'pip install "tiltmeter[storage]"'
_PACKAGES = {
    **dict.fromkeys(("s3", "s3a"), _EXTRA),
    **dict.fromkeys(("gs", "gcs"), "pip install gcsfs"),
    **dict.fromkeys(("az", "abfs", "abfss"), "pip install adlfs"),
}
"""What brings a protocol's package. These stores know no folders: only a bucket must be there, and that is never made here."""


class Store:
    """The objects under one URL.

    Parameters
    ----------
    url
        As `place_of` gives it.

    Raises
    ------
    InputError
        Nothing here speaks the protocol. Every method raises it, too, for whatever the store or the way to it refuses.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        protocol = url.partition("://")[0]
        self._has_folders = protocol not in _PACKAGES
        try:
            from fsspec.core import url_to_fs
        except ModuleNotFoundError:
            raise InputError(f"{url} needs fsspec: {_EXTRA}") from None
        try:
            self._system, self._root = url_to_fs(url)
        except ImportError as error:
            raise InputError(f"{url} needs a package that is not installed: {_PACKAGES.get(protocol, error)}") from None
        except Exception as error:
            raise InputError(f"cannot open {url}: {_said(error)}; mend the URL") from error
        self._root = self._root.rstrip("/")

    def under(self, name: str) -> str:
        """The URL of an object."""
        return f"{self.url}/{name}"

    def names(self) -> list[str]:
        """Names directly under the URL, those of folders with a slash at their end; none where nothing is there."""
        return [name for name, _ in self._entries("")]

    def tables(self, folder: str) -> list[str]:
        """Names of the objects in one folder under the URL."""
        return [f"{folder}/{name}" for name, is_folder in self._entries(folder) if not is_folder]

    def _entries(self, folder: str) -> list[tuple[str, bool]]:
        path = self._path(folder) if folder else self._root
        with self._doing("read"):
            try:
                found = self._system.ls(path, detail=True)
            except FileNotFoundError:
                return []
        entries = []
        for one in found:
            name = str(one["name"]).rstrip("/")
            if name.strip("/") == path.strip("/"):  # the mark some tools make for an empty folder, or an object where a folder should be
                if one.get("type") == "file" and one.get("size"):
                    entries.append((".", False))
                continue
            is_folder = one.get("type") == "directory"
            entries.append((name.rpartition("/")[2] + "/" * is_folder, is_folder))
        return entries

    def read(self, name: str) -> bytes | None:
        """A small object, None where there is none."""
        with self._doing("read", name):
            try:
                content: bytes = self._system.cat_file(self._path(name))
            except FileNotFoundError:
                return None
        return content

    def read_all(self, names: Sequence[str]) -> dict[str, bytes]:
        """Small objects, several at a time where the protocol can; those that cannot be read are left out."""
        paths = {self._path(name).strip("/"): name for name in names}
        if not paths:
            return {}
        with self._doing("read"):
            found = self._system.cat([self._path(name) for name in names], on_error="omit")
        if isinstance(found, bytes):  # what fsspec makes of a list of one
            return {names[0]: found}
        return {paths[str(path).strip("/")]: content for path, content in found.items()}

    def write(self, name: str, content: bytes) -> None:
        """Put a small object whole."""
        with self._doing("write", name):
            self._make_folder(name)
            self._system.pipe_file(self._path(name), content)

    def put(self, path: Path, name: str) -> None:
        """Put a file of any size; it appears when all of it is there, on every store that promises so of its objects."""
        if path.stat().st_size < BLOCK:
            self.write(name, path.read_bytes())
            return
        with path.open("rb") as source, self._doing("write", name):
            self._make_folder(name)
            target = self._system.open(self._path(name), "wb", block_size=BLOCK)
            try:
                shutil.copyfileobj(source, target, BLOCK)
            except BaseException:
                with suppress(Exception):  # not every protocol can; without run.json nobody takes what is there for a run
                    target.discard()
                    target.closed = True  # or the collector would close it, which makes an object of what was sent so far
                raise
            target.close()

    def fetch(self, name: str, path: Path) -> str | None:
        """Write an object to a file; the sha256 of what came, None where there is no such object. Raises OSError for the file."""
        digest = hashlib.sha256()
        with path.open("wb") as target:
            for block in self._blocks(name):
                digest.update(block)
                target.write(block)
        return digest.hexdigest() if path.stat().st_size else None

    def _blocks(self, name: str) -> Iterator[bytes]:
        with self._doing("read", name):
            try:
                source = self._system.open(self._path(name), "rb", block_size=BLOCK)
            except FileNotFoundError:
                return
        try:
            while True:
                with self._doing("read", name):
                    try:
                        block = source.read(BLOCK)
                    except FileNotFoundError:  # some stores ask when the first byte is read
                        return
                if not block:
                    return
                yield block
        finally:
            source.close()

    def remove(self, name: str) -> None:
        """Remove an object; it need not be there."""
        with self._doing("write", name):
            try:
                self._system.rm_file(self._path(name))
            except FileNotFoundError:
                return

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _make_folder(self, name: str) -> None:
        if self._has_folders:
            self._system.makedirs(self._path(name).rpartition("/")[0], exist_ok=True)

    @contextmanager
    def _doing(self, what: str, name: str = "") -> Iterator[None]:
        """Each protocol's package has errors of its own, of no common kind; nothing but calls of the store stands in such a block."""
        try:
            self._system.invalidate_cache()  # an object that another process put is not in a listing kept from before
            yield
        except Exception as error:
            place = self.url if name.startswith(".") or not name else self.under(name)  # who writes is nothing the user knows of
            raise InputError(f"cannot {what} {place}: {_said(error)}; {_remedy(error, what)}") from error


def _said(error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and not (error.strerror or str(error).strip()):
        return "there is no such bucket or folder"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    line = next(iter(text.strip().splitlines()), "")
    return printable(redacted(line or type(error).__name__), one_line=True)[:300].rstrip(". ")


def _remedy(error: Exception, what: str) -> str:
    if isinstance(error, PermissionError) or "credential" in f"{type(error).__name__} {error}".lower():
        return "check the credentials this protocol's tools use, and what they may do there"
    if isinstance(error, FileNotFoundError):
        return "make the bucket, or mend the URL"
    if what == "write":
        return "run the same command again when the store can be reached: it goes on without asking a model twice"
    return "try again when the store can be reached"
