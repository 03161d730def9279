"""The library: every outside file by its name in the catalogue, found or fetched, checked, and read as data."""

from __future__ import annotations

import ast
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from tiltmeter.datasets.catalogue import SourceError, flaw
from tiltmeter.errors import EXIT_INCOMPLETE, InputError, TiltmeterError
from tiltmeter.paths import default_cache
from tiltmeter.registry import check_known
from tiltmeter.safe_writing import IN_CACHE, writing

if TYPE_CHECKING:
    from polars import DataFrame

    from tiltmeter.datasets.catalogue import Catalogue, Entry
    from tiltmeter.datasets.fetching import Fetcher

ENCODERS: Final = ("all-MiniLM-L6-v2",)
"""Sentence encoders in the catalogue, the default first; their files are entries `ENCODER/FILE`."""


class DataUnavailable(TiltmeterError):
    """No source gave the file: what needs it is not run, everything else may go on.

    Attributes
    ----------
    name
        The file's name in the catalogue.
    reason
        What each source answered, in short, in the order they were tried.
    remedy
        What the user can do about it, one sentence.
    """

    exit_code = EXIT_INCOMPLETE

    def __init__(self, name: str, reason: str, remedy: str) -> None:
        super().__init__(f"{name} cannot be had ({reason}); {remedy}")
        self.name, self.reason, self.remedy = name, reason, remedy


def file_flaw(path: Path, entry: Entry) -> str | None:
    """What is wrong with the file at `path`, in a few words; None when it is the file `entry` describes."""
    try:
        return flaw(path.read_bytes(), entry)
    except OSError as error:
        return f"cannot be read ({error.strerror})"


class Place(NamedTuple):
    """A file on this machine that goes by an entry's name; not checked yet."""

    where: Literal["local", "cache"]
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
            from tiltmeter.datasets.catalogue import load_catalogue

            catalogue = load_catalogue()
        self._catalogue, self._folders, self._timeout = catalogue, tuple(folders), timeout
        self.entries, self.cache = catalogue.entries, cache
        self._say = progress if progress is not None else lambda line: None
        self._by_name = {entry.name: entry for entry in catalogue.entries}
        self._verified: dict[str, Path] = {}
        self.used: list[Entry] = []
        """Entries asked for and had so far, in order of first use."""
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
        folders = [Path(part).expanduser() for part in os.environ.get("TILTMETER_DATA", "").split(os.pathsep) if part.strip()]
        if wrong := next((folder for folder in folders if not folder.is_dir()), None):
            raise InputError(
                f"TILTMETER_DATA names {wrong}, which is not a folder; name the folder that holds your copies of the data, or unset it"
            )
        return cls(folders=folders, cache=default_cache(), progress=progress)

    def entry(self, name: str) -> Entry:
        """The catalogue entry of `name`.

        Raises
        ------
        InputError
            There is none; the message suggests the closest names.
        """
        check_known(name, self._by_name, f"unknown data file {name!r}")
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
                self.used.append(entry)
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

    def csv(self, name: str) -> DataFrame:
        """The file as a table, types inferred from all rows. Raises what `path` raises."""
        import polars as pl

        return pl.read_csv(self.path(name), infer_schema_length=None)

    def json_lines(self, name: str) -> DataFrame:
        """The file (one JSON object per line) as a table, one row per object, in order. Raises what `path` raises."""
        import polars as pl

        return pl.read_ndjson(self.path(name), infer_schema_length=None)

    def literal(self, name: str, variable: str) -> Any:
        """The value of `variable` in a file of Python source; see `read_literal`. Raises what `path` raises."""
        return read_literal(self.text(name), name, variable)

    def retry_sources(self) -> None:
        """Forget which sources failed, so that the next fetch tries them again."""
        with self._lock:
            self._fetcher = None

    def _spellings(self, folder: Path, entry: Entry) -> list[Path]:
        """Where `entry` may lie in a user's folder: by name, as in an unpacked package or a folder of one, or bare if unambiguous."""
        from tiltmeter.datasets.catalogue import PackageSource

        members = [Path(source.member) for source in entry.sources if isinstance(source, PackageSource)]
        names = [Path(entry.name), *members, *(Path(*member.parts[1:]) for member in members)]
        base = Path(entry.name).name
        if sum(Path(other).name == base for other in self._by_name) == 1:
            names.append(Path(base))
        return [folder / name for name in dict.fromkeys(names)]

    def _cached_path(self, name: str) -> Path:
        return self.cache / "datasets" / name

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
            from tiltmeter.datasets.fetching import Fetcher

            self._fetcher = Fetcher(self._catalogue, self._timeout, self._say)
        reasons = []
        for source in entry.sources:
            try:
                contents = self._fetcher.fetch(entry, source)
            except SourceError as error:
                reasons.append(str(error))
                continue
            for name, data in contents.items():
                with writing(self._cached_path(name), IN_CACHE) as aside:
                    aside.write_bytes(data)
            return self._cached_path(entry.name)
        raise DataUnavailable(
            entry.name,
            "; ".join(reasons),
            f"check the network and run `tiltmeter data fetch`, or set TILTMETER_DATA to a folder that holds {entry.name} "
            f"(published at {entry.upstream})",
        )


def encoder_folder(library: Library) -> Path:
    """A folder that holds all files of the default encoder under their own names; fetched if need be (83 MB).

    Raises
    ------
    DataUnavailable
        No source gave a file.
    InputError
        A local copy is not the catalogued file, or the cache folder cannot be written to.
    """
    name = ENCODERS[0]
    paths = {entry: library.path(entry.name) for entry in library.entries if entry.name.startswith(f"{name}/")}
    roots = {path.as_posix().removesuffix(entry.name.removeprefix(name)) for entry, path in paths.items()}
    if len(roots) == 1:
        return Path(roots.pop())
    # Some are the user's copies, some from the cache: bring them together.
    for entry, path in paths.items():
        copy = library.cache / "encoders" / entry.name
        if file_flaw(copy, entry) is not None:
            with writing(copy, IN_CACHE) as aside:
                shutil.copyfile(path, aside)
    return library.cache / "encoders" / name


def read_literal(source: str, name: str, variable: str) -> Any:
    """The value assigned to `variable` at the top level of Python source, which is parsed and never executed.

    Parameters
    ----------
    source
        Python source text; functions, imports and all other statements are passed over.
    name
        What to call the source in messages.
    variable
        Name of the variable.

    Raises
    ------
    InputError
        The text is no Python, has no such variable, or its value is an expression that would have to be executed.
    """
    assigned: dict[str, ast.expr] = {}
    try:
        for statement in ast.parse(source).body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=target)], value=value):
                    assigned[target] = value
                case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value):
                    assigned[target] = value
        return ast.literal_eval(assigned[variable])
    except (SyntaxError, ValueError, TypeError, KeyError, RecursionError, MemoryError) as error:
        raise InputError(
            f"{name} assigns no plain literal to {variable!r} ({type(error).__name__}), and data is never executed; "
            "use the file its catalogue entry describes"
        ) from error
