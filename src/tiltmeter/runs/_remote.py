"""Run folders elsewhere: filled here by the code that fills any folder, published with run.json last, and fetched table by table.

run.json is the mark of a whole run: it names each table with its sha256. Publishing removes the old one first and puts the new one when
everything it speaks of is there; a reader starts from it and takes no table that does not match it.
"""

from __future__ import annotations

import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256 as digest_of
from pathlib import Path
from typing import Any

import polars as pl

from tiltmeter._damage import json_of
from tiltmeter._lock import only_writer
from tiltmeter._paths import default_cache, is_file, sha256
from tiltmeter.errors import InputError
from tiltmeter.runs._folder import ERRORS, STAGES, TABLES, RunFolder, study_text, writing
from tiltmeter.runs._remote_claim import Claim, claimed, is_claim
from tiltmeter.runs._remote_store import Store

__all__ = ["FetchedFolder", "PublishedFolder", "documents"]

KEPT = 24 * 3600.0
"""Seconds for which what was fetched of an older state of a run stays, counted from when it was last opened."""
PATIENCE = (0.3, 1.0, 2.0)
"""Seconds to wait before a table or document that does not fit the others is looked at again."""
_TABLE = re.compile(rf"({'|'.join(TABLES)}|{STAGES}/[^/\\.\x00][^/\\\x00]*)")
"""Names of tables; run.json was written by others, and what it names becomes a path here."""


class _Elsewhere(RunFolder):
    """A run folder whose home is a URL; `path` holds what of it is here."""

    def __init__(self, path: Path, store: Store) -> None:
        super().__init__(path)
        self._store = store

    def named(self, path: Path) -> str:
        """See `RunFolder`."""
        return self._store.under(path.relative_to(self.path).as_posix()) if path.is_relative_to(self.path) else str(path)

    @property
    def place(self) -> str:
        """See `RunFolder`."""
        return self._store.url

    def hand_over(self, path: Path) -> None:
        """See `RunFolder`."""
        for one in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if one.is_file():
                self._store.put(one, one.relative_to(self.path).as_posix())


class PublishedFolder(_Elsewhere):
    """A run that is filled here and published there.

    Parameters
    ----------
    url
        As `place_of` gives it.
    """

    def __init__(self, url: str) -> None:
        self._home = _home(url)
        super().__init__(self._home / "work" / _name(url), Store(url))

    @contextmanager
    def filling(self, document: Mapping[str, Any]) -> Iterator[None]:
        """Fill the folder and publish it; see `RunFolder.filling`.

        If publishing fails, what was filled stays here, and the same command publishes it.
        """
        text = study_text(document)
        with ExitStack() as stack:
            self._refuse_other(text)  # before anything is touched, and again when nobody else can change it
            with _caching(self._home):
                held = stack.enter_context(only_writer(self._home, self.place))
                owner = _owner(self._home)
            claim = stack.enter_context(claimed(self._store, owner, alone=held))
            self._refuse_other(text)
            self._forget_other(text)
            with super().filling(document):
                yield
            if is_file(self.path / "run.json"):  # without one there is no run
                self._publish(claim)

    def _refuse_other(self, text: str) -> None:
        study = self._store.read("study.yaml")
        if study is not None and study != text.encode():
            raise InputError(
                f"{self.place} holds a run with other settings (see its study.yaml); choose another place with --out or remove it"
            )
        if study is None and (strange := [name for name in self._store.names() if not is_claim(name)]):
            raise InputError(f"{self.place} is not empty and not a run folder (it holds {strange[0]}); choose another place with --out")

    def _forget_other(self, text: str) -> None:
        """What is here of another study was removed there, and its answers are in the journal."""
        study = self.path / "study.yaml"
        if not is_file(study) or study.read_bytes() != text.encode():
            shutil.rmtree(self.path, ignore_errors=True)

    def _publish(self, claim: Claim) -> None:
        about = self.read_json()
        tables = [f"{name}.parquet" for name in about["tables"]]
        claim.check()
        self._store.remove("run.json")
        errors = [ERRORS] if is_file(self.path / ERRORS) else []
        if not errors:
            self._store.remove(ERRORS)
        for name in ("study.yaml", *errors, *tables):
            claim.check()
            with writing(self.path / name):
                self._store.put(self.path / name, name)
        for name in self._store.tables(STAGES):
            if name not in tables:  # of an earlier state of the run
                self._store.remove(name)
        claim.check()
        self._store.write("run.json", (self.path / "run.json").read_bytes())


class FetchedFolder(_Elsewhere):
    """A run as it stood there when it was opened; a table is fetched when it is asked for, and checked."""

    @classmethod
    def find(cls, url: str) -> FetchedFolder | None:
        """The run at a URL, None where there is none.

        Raises
        ------
        InputError
            It is being written, or cannot be read.
        """
        store = Store(url)
        for wait in (*PATIENCE, None):
            about, study = store.read("run.json"), store.read("study.yaml")
            if about is not None and study is not None and store.read("run.json") == about:
                return cls._opened(store, about, study)
            if about is None or wait is None:
                break
            time.sleep(wait)
        names = store.names()
        if about is not None or "study.yaml" in names or any(is_claim(name) for name in names):
            raise InputError(f"{url}: this run is being written, or its writing was cut off; try again, or run its command again to end it")
        return None

    @classmethod
    def _opened(cls, store: Store, about: bytes, study: bytes) -> FetchedFolder:
        home = _home(store.url)
        state = home / digest_of(about + b"\0" + study).hexdigest()[:16]
        folder = cls(state / _name(store.url), store)
        with _caching(state):
            folder.path.mkdir(parents=True, exist_ok=True)
            state.touch()
            for name, content in (("run.json", about), ("study.yaml", study)):
                if not (folder.path / name).is_file():
                    folder.write_text(name, content.decode("utf-8", errors="replace"))
        _forget(home, but=state)
        return folder

    def table_path(self, table: str) -> Path:
        """Where a table lives, fetched if it is not here yet."""
        path = super().table_path(table)
        noted = self.read_json()["tables"].get(table)
        if not path.exists() and isinstance(noted, dict) and _TABLE.fullmatch(table):
            with _caching(path):
                path.parent.mkdir(exist_ok=True)
                if not self._have(table, path, str(noted.get("sha256"))):
                    self._fetch(table, path, str(noted.get("sha256")))
        return path

    def stages(self) -> dict[str, pl.LazyFrame]:
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

    def _have(self, table: str, path: Path, wanted: str) -> bool:
        """Take a table from another state of the run that is here; whether there is one that matches."""
        for state in self.path.parent.parent.iterdir():
            other = state / self.path.name / f"{table}.parquet"
            if not is_file(other):
                continue
            with _aside(path) as aside, suppress(OSError):
                try:
                    aside.hardlink_to(other)
                except OSError:
                    shutil.copyfile(other, aside)
                if sha256(aside) == wanted:
                    aside.replace(path)
                    return True
        return False

    def _fetch(self, table: str, path: Path, wanted: str) -> None:
        name = f"{table}.parquet"
        for wait in (*PATIENCE, None):
            with _aside(path) as aside:
                if self._store.fetch(name, aside) == wanted:
                    aside.replace(path)
                    return
            if wait is not None:
                time.sleep(wait)
        raise InputError(
            f"{self._store.under(name)} is not the table its run.json speaks of: the run is being written anew, or that was "
            "cut off; try again, or run its command again to end it"
        )


def documents(url: str) -> list[tuple[str, dict[str, Any]]]:
    """Name and run.json of each run one level under a URL; what is no JSON is left out. Raises InputError as `Store` does."""
    store = Store(url)
    places = {f"{name}run.json": name.rstrip("/") for name in store.names() if name.endswith("/")}
    found = []
    for place, content in store.read_all(list(places)).items():
        with suppress(ValueError, RecursionError):
            found.append((places[place], json_of(content)))
    return sorted(found, key=lambda one: one[0])


def _home(url: str) -> Path:
    """What is here of a run: the folder it is filled in, and what was fetched of its states."""
    return default_cache() / "runs" / digest_of(url.encode()).hexdigest()[:24]


def _name(url: str) -> str:
    """The last part of a URL, by which a run is called; a name a folder can have."""
    return re.sub(r'[\x00-\x1f<>:"|*\\]', "_", url.rpartition("/")[2])[:120]


def _owner(home: Path) -> str:
    """A name for the working folder that no other one has."""
    path = home / "owner"
    if not path.is_file():
        path.write_text(secrets.token_hex(8), encoding="utf-8")
    return path.read_text(encoding="utf-8")


@contextmanager
def _caching(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"cannot write {place}: {error.strerror or error}; make room there, or set TILTMETER_CACHE to a folder you may write to"
        ) from error


@contextmanager
def _aside(path: Path) -> Iterator[Path]:
    """A name beside `path` that nobody else uses; nothing is left there."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fetched.") as folder:
        yield Path(folder) / path.name


def _forget(home: Path, but: Path) -> None:
    """Remove older states that nobody opened for a while."""
    with suppress(OSError):
        for state in home.iterdir():
            if state.name != "work" and state.is_dir() and state != but and time.time() - state.stat().st_mtime > KEPT:
                shutil.rmtree(state, ignore_errors=True)
