"""The library: every outside file by its name in the catalogue, found or fetched, checked, and read as data."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tiltmeter._paths import default_cache
from tiltmeter.datasets._errors import DataUnavailable, SourceError
from tiltmeter.datasets._store import data_folders, file_flaw, write_atomically
from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean

if TYPE_CHECKING:
    import polars as pl

    from tiltmeter.datasets._catalogue import Catalogue, Entry
    from tiltmeter.datasets._fetch import Fetcher

__all__ = ["Library", "Place", "Where"]

Where = Literal["local", "cache"]


class Place(NamedTuple):
    """A file on this machine that goes by an entry's name; not checked yet."""

    where: Where
    path: Path


class Library:
    """Outside data by name.

    Parameters
    ----------
    catalogue
        What there is; None takes the catalogue that ships with Tiltmeter.
    folders
        Folders of the user's own copies, looked at first.
    cache
        Folder fetched files and shown notices are kept in; made when it is first written to.
    progress
        Called with one line of text before each download, None for silence.
    timeout
        Seconds a source may keep us waiting before the next one is tried.
    """

    def __init__(
        self,
        catalogue: Catalogue | None = None,
        *,
        folders: Sequence[Path] = (),
        cache: Path,
        progress: Callable[[str], None] | None = None,
        timeout: float = 8.0,
    ) -> None:
        if catalogue is None:
            from tiltmeter.datasets._catalogue import load_catalogue

            catalogue = load_catalogue()
        self._catalogue, self._folders, self._cache, self._timeout = catalogue, tuple(folders), cache, timeout
        self._say = progress if progress is not None else lambda line: None
        self._by_name = {entry.name: entry for entry in catalogue.entries}
        self._verified: dict[str, Path] = {}
        self._used: dict[str, Entry] = {}
        self._fetcher: Fetcher | None = None
        self._lock = threading.RLock()

    @classmethod
    def default(cls, progress: Callable[[str], None] | None = None) -> Library:
        """The library the environment describes: TILTMETER_DATA (folders of own copies) and TILTMETER_CACHE.

        Raises
        ------
        InputError
            TILTMETER_DATA names something that is not a folder.
        """
        return cls(folders=data_folders(), cache=default_cache(), progress=progress)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries, in catalogue order."""
        return self._catalogue.entries

    @property
    def cache(self) -> Path:
        """The cache folder; it need not exist."""
        return self._cache

    @property
    def used(self) -> list[Entry]:
        """Entries asked for and had so far, in order of first use."""
        return list(self._used.values())

    def entry(self, name: str) -> Entry:
        """The catalogue entry of `name`.

        Raises
        ------
        InputError
            There is none; the message suggests the closest names.
        """
        if name not in self._by_name:
            raise InputError(f"unknown data file {name!r}: {did_you_mean(name, list(self._by_name))}")
        return self._by_name[name]

    def places(self, name: str) -> list[Place]:
        """Where copies of `name` lie on this machine, in the order they are looked at; unchecked, possibly none."""
        entry = self.entry(name)
        local = [Place("local", path) for folder in self._folders for path in self._spellings(folder, entry) if path.is_file()]
        cached = self._cached_path(name)
        return [*local, Place("cache", cached)] if cached.is_file() else local

    def path(self, name: str) -> Path:
        """A file on this machine that holds exactly what the catalogue says; fetched if need be.

        Size and checksum are verified the first time a library hands a file out.

        Raises
        ------
        DataUnavailable
            No source gave the file.
        InputError
            The name is unknown, a local copy is not the catalogued file, or the cache folder cannot be written to.
        """
        entry = self.entry(name)
        with self._lock:
            if name not in self._verified:
                self._verified[name] = self._kept(entry) or self._fetched(entry)
            self._used.setdefault(name, entry)
            return self._verified[name]

    def text(self, name: str) -> str:
        """The file as text (UTF-8, line ends as "\\n"). Raises what `path` raises."""
        return self.path(name).read_text(encoding="utf-8")

    def lines(self, name: str, strip: bool = False) -> list[str]:
        """The file's lines without their line ends; a final empty one is left out.

        `strip` removes blanks and tabs around each line. Raises what `path` raises.
        """
        # Not str.splitlines: that also breaks at characters that some texts hold within a line (U+0085, U+2028).
        lines = self.text(name).removesuffix("\n").split("\n")
        return [line.strip() for line in lines] if strip else lines

    def csv(self, name: str) -> pl.DataFrame:
        """The file as a table, types inferred from all rows. Raises what `path` raises."""
        import polars as pl

        return pl.read_csv(self.path(name), infer_schema_length=None)

    def json_lines(self, name: str) -> pl.DataFrame:
        """The file (one JSON object per line) as a table, one row per object, in order. Raises what `path` raises."""
        import polars as pl

        return pl.read_ndjson(self.path(name), infer_schema_length=None)

    def literal(self, name: str, variable: str | None = None) -> Any:
        """The value of `variable` in a file of Python source, which is parsed and never executed.

        `variable` may be left out where the file assigns only one.

        Raises
        ------
        InputError
            There is no such variable, or its value is not a plain literal.
        DataUnavailable
            No source gave the file.
        """
        from tiltmeter.datasets._literal import read_literal

        return read_literal(self.text(name), name, variable)

    def retry_sources(self) -> None:
        """Forget which sources failed, so that the next fetch tries them again."""
        with self._lock:
            self._fetcher = None

    def _spellings(self, folder: Path, entry: Entry) -> list[Path]:
        """Where `entry` may lie in a user's folder: by name, as in an unpacked package or a folder of one, or bare if unambiguous."""
        from tiltmeter.datasets._catalogue import PackageSource

        members = [Path(source.member) for source in entry.sources if isinstance(source, PackageSource)]
        names = [Path(entry.name), *members, *(Path(*member.parts[1:]) for member in members)]
        base = Path(entry.name).name
        if sum(Path(other).name == base for other in self._by_name) == 1:
            names.append(Path(base))
        return [folder / name for name in dict.fromkeys(names)]

    def _cached_path(self, name: str) -> Path:
        return self._cache / "datasets" / name

    def _kept(self, entry: Entry) -> Path | None:
        for where, path in self.places(entry.name):
            wrong = file_flaw(path, entry)
            if wrong is None:
                return path
            if where == "local":
                raise InputError(
                    f"{path} {wrong}; put the original of {entry.name} there ({entry.upstream}), or remove the file to have it fetched"
                )
            self._say(f"the cached copy of {entry.name} is damaged and is fetched again")
        return None

    def _fetched(self, entry: Entry) -> Path:
        if self._fetcher is None:
            from tiltmeter.datasets._fetch import Fetcher

            self._fetcher = Fetcher(self._catalogue, self._timeout, self._say)
        reasons = []
        for source in entry.sources:
            try:
                contents = self._fetcher.fetch(entry, source)
            except SourceError as error:
                reasons.append(str(error))
                continue
            self._keep(contents)
            return self._cached_path(entry.name)
        raise DataUnavailable(
            entry.name,
            "; ".join(reasons),
            f"check the network and run `tiltmeter data fetch`, or set TILTMETER_DATA to a folder that holds {entry.name} "
            f"(published at {entry.upstream})",
        )

    def _keep(self, contents: dict[str, bytes]) -> None:
        try:
            for name, data in contents.items():
                write_atomically(self._cached_path(name), data)
        except OSError as error:
            raise InputError(
                f"the cache folder {self._cache} cannot be written to ({error.strerror}); set TILTMETER_CACHE to a folder you may write to"
            ) from error
