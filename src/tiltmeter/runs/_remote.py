"""Run folders at a URL: written locally and uploaded with run.json last, and downloaded table by table.

run.json marks a complete run: it lists each table with its sha256. An upload removes the old run.json first
and writes the new one after everything that it lists. A reader starts from run.json and rejects tables that
do not match it. Two machines that write the same run at the same time are not synchronised: their tables
belong to the same study, and a reader detects a table that does not match.

Downloaded tables are cached under their checksum, not with a caching file system of fsspec: those identify a
file by its path and leave the part of an interrupted download under the name of the whole file, so the
checksum, another attempt and the removal of unusable copies would have to be added to them.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from hashlib import sha256 as digest_of
from pathlib import Path
from typing import Any

from polars import LazyFrame

from tiltmeter._files.paths import default_cache, is_file, sha256
from tiltmeter._files.writing import IN_CACHE, only_writer, writable, writing
from tiltmeter._sanitising import printable, redacted
from tiltmeter.errors import InputError
from tiltmeter.runs._folder import ERRORS, STAGES, TABLES, RunFolder, study_text

PATIENCE = (0.3, 1.0, 2.0)
"""Seconds to wait before each new attempt to read a table or document that does not match the others."""
_TABLE = re.compile(rf"({'|'.join(TABLES)}|{STAGES}/[^/\\.\x00][^/\\\x00]*)")
"""Valid names of tables: run.json is untrusted, and the names in it become local paths."""
_EXTRA = 'pip install "tiltmeter[storage]"'
_PACKAGES = {
    **dict.fromkeys(("s3", "s3a"), _EXTRA),
    **dict.fromkeys(("gs", "gcs"), "pip install gcsfs"),
    **dict.fromkeys(("az", "abfs", "abfss"), "pip install adlfs"),
}
"""Commands that install the package of a protocol. These stores have no folders; their buckets must exist and
are not created."""


class Store:
    """The objects under one URL, accessed through fsspec.

    Raises
    ------
    InputError
        The protocol is not supported. All methods also raise it for errors of the store or the network.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        protocol = url.partition("://")[0]
        self._has_folders = protocol not in _PACKAGES
        try:
            from fsspec.core import url_to_fs
            from fsspec.implementations.dirfs import DirFileSystem
        except ModuleNotFoundError:
            raise InputError(f"{url} needs fsspec: {_EXTRA}") from None
        try:
            system, root = url_to_fs(url)
        except ImportError as error:
            remedy = _PACKAGES.get(protocol, error)
            raise InputError(f"{url} needs a package that is not installed: {remedy}") from None
        except Exception as error:
            raise InputError(f"cannot open {url}: {_reason(error)}; check the URL") from error
        self._system = DirFileSystem(root.rstrip("/"), system)

    def names(self, folder: str = "") -> list[str]:
        """Return the names directly under the URL or one of its folders (folders end with a slash).

        Empty if nothing exists there.
        """
        entries: list[dict[str, Any]] = []
        with self._calling("read"), suppress(FileNotFoundError):
            entries = self._system.ls(folder, detail=True)
        names = []
        for entry in entries:
            path = str(entry["name"])
            if path.strip("/") == folder and not entry.get("size"):
                continue  # an empty object with which some tools mark a folder
            name = path.rstrip("/").rpartition("/")[2] or "."
            is_folder = entry.get("type") == "directory"
            names.append(f"{name}/" if is_folder else name)
        return names

    def read(self, name: str) -> bytes | None:
        """Return the content of a small object, or None if it does not exist."""
        with self._calling("read", name), suppress(FileNotFoundError):
            return bytes(self._system.cat_file(name))
        return None

    def put(self, path: Path, name: str) -> None:
        """Upload a file; an existing object with that name is replaced."""
        with self._calling("write", name):
            if self._has_folders:
                self._system.makedirs(name.rpartition("/")[0], exist_ok=True)
            self._system.put_file(str(path), name)

    def fetch(self, name: str, path: Path) -> str | None:
        """Download an object to a file.

        Return the sha256 of the file, or None if the object does not exist.
        """
        with self._calling("read", name):
            try:
                self._system.get_file(name, str(path))
            except FileNotFoundError:
                return None
        return sha256(path)

    def remove(self, name: str) -> None:
        """Remove an object if it exists."""
        with self._calling("write", name), suppress(FileNotFoundError):
            self._system.rm_file(name)

    @contextmanager
    def _calling(self, verb: str, name: str = "") -> Iterator[None]:
        """Convert errors of the block to InputError; `verb` is "read" or "write".

        The packages of the protocols raise unrelated kinds of exceptions, so a block contains only calls of
        the store.
        """
        try:
            # A cached listing lacks objects that another process has written since.
            self._system.fs.invalidate_cache()
            yield
        except Exception as error:
            place = f"{self.url}/{name}" if name else self.url
            raise InputError(f"cannot {verb} {place}: {_reason(error)}; {_remedy(error, verb)}") from error


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and not (error.strerror or str(error).strip()):
        return "no such bucket or folder"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    line = next(iter(text.strip().splitlines()), "")
    return printable(redacted(line or type(error).__name__), one_line=True)[:300].rstrip(". ")


def _remedy(error: Exception, verb: str) -> str:
    if isinstance(error, PermissionError) or "credential" in f"{type(error).__name__} {error}".lower():
        return "check the credentials for this protocol and their permissions"
    if isinstance(error, FileNotFoundError):
        return "create the bucket, or check the URL"
    if verb == "write":
        return (
            "run the same command again when the store is available:"
            " it resumes without repeating requests to the model"
        )
    return "try again when the store is available"


class RemoteFolder(RunFolder):
    """A run folder at a URL; `path` is the local folder with copies of its files."""

    def __init__(self, path: Path, url: str) -> None:
        super().__init__(path)
        self._store = Store(url)

    def named(self, path: Path) -> str:
        """See `RunFolder`."""
        if not path.is_relative_to(self.path):
            return str(path)
        return f"{self.place}/{path.relative_to(self.path).as_posix()}"

    @property
    def place(self) -> str:
        """See `RunFolder`."""
        return self._store.url

    def hand_over(self, path: Path) -> None:
        """See `RunFolder`."""
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file():
                self._store.put(file, file.relative_to(self.path).as_posix())


class UploadedFolder(RemoteFolder):
    """A run that is written locally and uploaded when it is complete.

    Parameters
    ----------
    url
        As returned by `place_of`.
    """

    def __init__(self, url: str) -> None:
        super().__init__(_home(url) / "work" / _name(url), url)

    @contextmanager
    def filling(self, document: Mapping[str, Any]) -> Iterator[None]:
        """Fill the folder and upload it; see `RunFolder.filling`.

        If the upload fails, running the same command again repeats it.
        """
        text = study_text(document)
        self._refuse_other(text)
        study = self.path / "study.yaml"
        with ExitStack() as stack:
            with writable(self.path, IN_CACHE):
                stack.enter_context(only_writer(self.path.parent, self.place))
            if not is_file(study) or study.read_bytes() != text.encode():
                # The working folder has another study, which was removed from the store.
                shutil.rmtree(self.path, ignore_errors=True)
            with super().filling(document):
                # Uploaded first, so that a store without write access is detected before any request to a
                # model.
                is_resumed = self._store.read("study.yaml") is not None
                self._store.put(study, "study.yaml")
                try:
                    yield
                except BaseException:
                    if not is_resumed:
                        with suppress(InputError):  # the first error is the one to report
                            self._store.remove("study.yaml")
                    raise
            if is_file(self.path / "run.json"):  # otherwise there is no run to upload
                self._refuse_other(text)
                self._upload()

    def _refuse_other(self, text: str) -> None:
        study = self._store.read("study.yaml")
        if study is not None and study != text.encode():
            raise InputError(
                f"{self.place} contains a run with other settings (see its study.yaml);"
                " choose another place with --out or remove it"
            )
        if study is None and (names := self._store.names()):
            raise InputError(
                f"{self.place} is not empty and not a run folder (it contains {names[0]});"
                " choose another place with --out"
            )

    def _upload(self) -> None:
        files = [f"{name}.parquet" for name in self.read_json()["tables"]]
        if is_file(self.path / ERRORS):
            files.append(ERRORS)
        self._store.remove("run.json")
        for name in files:
            self._store.put(self.path / name, name)
        stored = [ERRORS, *(f"{STAGES}/{name}" for name in self._store.names(STAGES))]
        for name in stored:
            if name not in files:  # of an earlier state of the run
                self._store.remove(name)
        self._store.put(self.path / "run.json", "run.json")


class FetchedFolder(RemoteFolder):
    """A remote run in the state in which it was opened; tables are downloaded on access and verified."""

    @classmethod
    def find(cls, url: str) -> FetchedFolder | None:
        """Return the run at a URL, or None if there is none.

        Raises
        ------
        InputError
            The run is being written, or cannot be read.
        """
        store = Store(url)
        for _ in _attempts():
            about, study = store.read("run.json"), store.read("study.yaml")
            if about is not None and study is not None and store.read("run.json") == about:
                return cls._opened(url, about, study)
            if about is None:
                break
        if about is not None or "study.yaml" in store.names():
            raise InputError(
                f"{url}: this run is being written, or its upload was interrupted;"
                " try again, or repeat its command"
            )
        return None

    @classmethod
    def _opened(cls, url: str, about: bytes, study: bytes) -> FetchedFolder:
        state = digest_of(about + b"\0" + study).hexdigest()[:16]
        folder = cls(_home(url) / state / _name(url), url)
        with writable(folder.path, IN_CACHE):
            folder.path.mkdir(parents=True, exist_ok=True)
            for name, content in (("run.json", about), ("study.yaml", study)):
                if not (folder.path / name).is_file():
                    folder.write_text(name, content.decode("utf-8", errors="replace"))
        return folder

    def table_path(self, table: str) -> Path:
        """Return the local path of a table; download it if necessary."""
        path = super().table_path(table)
        entry = self.read_json()["tables"].get(table)
        if not path.exists() and entry and _TABLE.fullmatch(table):
            cached = self._cached(table, entry["sha256"])
            with writing(path, IN_CACHE) as temporary:
                shutil.copyfile(cached, temporary)
        return path

    def stages(self) -> dict[str, LazyFrame]:
        """See `RunFolder`."""
        self._fetch_all(f"{STAGES}/")
        return super().stages()

    def whole(self) -> Path:
        """See `RunFolder`."""
        self._fetch_all("")
        return self.path

    def _fetch_all(self, prefix: str) -> None:
        for table in self.read_json()["tables"]:
            if table.startswith(prefix):
                self.table_path(table)

    def _cached(self, table: str, checksum: str) -> Path:
        """Return the path of a table in the cache, which is indexed by checksum.

        Download the table unless it is cached.
        """
        # The digest of the checksum, because run.json is untrusted and the name becomes a local path.
        path = _home(self.place) / "tables" / digest_of(checksum.encode()).hexdigest()
        if not is_file(path):
            with writing(path, IN_CACHE) as temporary:
                self._download(table, checksum, temporary)
        return path

    def _download(self, table: str, checksum: str, path: Path) -> None:
        """Download a table to a file; raise InputError if it never matches its checksum."""
        name = f"{table}.parquet"
        for _ in _attempts():
            if self._store.fetch(name, path) == checksum:
                return
        raise InputError(
            f"{self.place}/{name} does not match run.json: the run is being rewritten,"
            " or its upload was interrupted; try again, or repeat its command to finish it"
        )


def _attempts() -> Iterator[None]:
    """Yield once immediately, and again after each waiting time."""
    yield
    for wait in PATIENCE:
        time.sleep(wait)
        yield


def readers_of_runs(url: str) -> dict[str, Callable[[], bytes | None]]:
    """Return a function that reads run.json for each folder directly under a URL.

    These functions raise InputError as `Store` does.
    """
    store = Store(url)
    folders = sorted(name.rstrip("/") for name in store.names() if name.endswith("/"))
    return {folder: partial(store.read, f"{folder}/run.json") for folder in folders}


def _home(url: str) -> Path:
    """Return the cache folder of a run, with its working folder and its downloaded tables."""
    return default_cache() / "runs" / digest_of(url.encode()).hexdigest()[:24]


def _name(url: str) -> str:
    """Return the last part of a URL, which is the name of the run, as a valid folder name."""
    return re.sub(r'[\x00-\x1f<>:"|*\\]', "_", url.rpartition("/")[2])[:120]
