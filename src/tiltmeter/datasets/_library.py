"""Library of external files: find or download a file by its name in the catalogue, verify it and read it."""

from __future__ import annotations

import ast
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from tiltmeter._files.paths import default_cache
from tiltmeter._files.writing import IN_CACHE, writing
from tiltmeter.datasets._catalogue import SourceError, flaw
from tiltmeter.errors import EXIT_INCOMPLETE, InputError, TiltmeterError, check_known

if TYPE_CHECKING:
    from polars import DataFrame

    from tiltmeter.datasets._catalogue import Catalogue, Entry
    from tiltmeter.datasets._fetching import Fetcher

ENCODERS: Final = ("all-MiniLM-L6-v2",)
"""Sentence encoders in the catalogue, the default first. Their files are the entries `ENCODER/FILE`."""

MODELS: Final = {"SmolLM2-135M-Instruct": "SmolLM2-135M-Instruct/SmolLM2-135M-Instruct.Q4_1.gguf"}
"""Language models in the catalogue: the entry of each, a GGUF file."""
COPIES: Final = {"SmolLM2-135M-Instruct": 542_000_000}
"""Bytes of the dequantised copy of each model in the cache, beside the downloaded file."""


class DataUnavailable(TiltmeterError):
    """No source provided the file. Parts that need it are not run; all others can continue.

    Attributes
    ----------
    name
        Name of the file in the catalogue.
    reason
        Why each source failed, in the order in which the sources were tried.
    remedy
        What the user can do to solve the problem.
    """

    exit_code = EXIT_INCOMPLETE

    def __init__(self, name: str, reason: str, remedy: str) -> None:
        super().__init__(f"{name} is not available ({reason}); {remedy}")
        self.name = name
        self.reason = reason
        self.remedy = remedy


def file_flaw(path: Path, entry: Entry) -> str | None:
    """Verify the file at `path` against `entry` and return a short description of the mismatch, or None."""
    try:
        return flaw(path.read_bytes(), entry)
    except OSError as error:
        return f"cannot be read ({error.strerror})"


class Place(NamedTuple):
    """Location of a local file with the name of an entry; the file has not been verified."""

    where: Literal["local", "cache"]
    path: Path


class Library:
    """Access to external files by name.

    Parameters
    ----------
    catalogue
        Catalogue of the files; None uses the one that ships with Tiltmeter.
    folders
        Folders with the user's own copies, searched first.
    cache
        Folder for downloaded files and for the record of displayed notices; created on first use.
    progress
        Called with one line of text before each download; None for no output.
    timeout
        Seconds to wait for a source before the next source is tried.
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
        self._catalogue = catalogue
        self._folders = tuple(folders)
        self._timeout = timeout
        self.entries: tuple[Entry, ...] = catalogue.entries
        """All entries, in catalogue order."""
        self.cache = cache
        self._say = progress if progress is not None else lambda line: None
        self._by_name = {entry.name: entry for entry in catalogue.entries}
        self._verified: dict[str, Path] = {}
        self.used: list[Entry] = []
        """Entries used so far, in order of first use."""
        self._fetcher: Fetcher | None = None
        self._lock = threading.RLock()

    @classmethod
    def default(cls, progress: Callable[[str], None] | None = None) -> Library:
        """Return a library configured by environment variables.

        TILTMETER_DATA names the folders with the user's own copies, TILTMETER_CACHE the cache.

        Raises
        ------
        InputError
            TILTMETER_DATA names a path that is not a folder.
        """
        paths = os.environ.get("TILTMETER_DATA", "").split(os.pathsep)
        folders = [Path(path).expanduser() for path in paths if path.strip()]
        for folder in folders:
            if not folder.is_dir():
                raise InputError(
                    f"TILTMETER_DATA names {folder}, which is not a folder; "
                    "set it to the folder with your copies of the data, or unset it"
                )
        return cls(folders=folders, cache=default_cache(), progress=progress)

    def entry(self, name: str) -> Entry:
        """Return the catalogue entry of `name`.

        Raises
        ------
        InputError
            The name is unknown; the message suggests the closest names.
        """
        check_known(name, self._by_name, f"unknown data file {name!r}")
        return self._by_name[name]

    def places(self, name: str) -> list[Place]:
        """Return the locations of local copies of `name`, in search order.

        They are not verified; the list may be empty.
        """
        entry = self.entry(name)
        places = [
            Place("local", path)
            for folder in self._folders
            for path in self._possible_paths(folder, entry)
            if path.is_file()
        ]
        cached = self._cached_path(name)
        if cached.is_file():
            places.append(Place("cache", cached))
        return places

    def path(self, name: str) -> Path:
        """Return the path of a verified local copy of `name`, downloading it if necessary.

        Each library verifies the size and checksum of a file only once.

        Raises
        ------
        DataUnavailable
            No source provided the file.
        InputError
            The name is unknown, a local copy differs from the catalogued file, or the cache folder is not
            writable.
        """
        entry = self.entry(name)
        with self._lock:
            if name not in self._verified:
                self._verified[name] = self._local_copy(entry) or self._downloaded(entry)
                self.used.append(entry)
            return self._verified[name]

    def text(self, name: str) -> str:
        """Return the file as text (UTF-8), with line ends normalised to a line feed.

        Raises
        ------
        DataUnavailable, InputError
            As for `path`.
        """
        return self.path(name).read_text(encoding="utf-8")

    def lines(self, name: str, strip: bool = False) -> list[str]:
        """Return the lines of the file without line ends; a final empty line is omitted.

        Parameters
        ----------
        name
            Name in the catalogue.
        strip
            Whether to remove white space at both ends of each line.

        Raises
        ------
        DataUnavailable, InputError
            As for `path`.
        """
        # str.splitlines would also split at characters that occur within lines of some texts (U+0085,
        # U+2028).
        lines = self.text(name).removesuffix("\n").split("\n")
        return [line.strip() for line in lines] if strip else lines

    def csv(self, name: str) -> DataFrame:
        """Return the CSV file as a table, with types inferred from all rows.

        Raises
        ------
        DataUnavailable, InputError
            As for `path`.
        """
        import polars as pl

        return pl.read_csv(self.path(name), infer_schema_length=None, glob=False)

    def json_lines(self, name: str) -> DataFrame:
        """Return the JSON Lines file as a table, one row per object, in order.

        Raises
        ------
        DataUnavailable, InputError
            As for `path`.
        """
        import polars as pl

        return pl.read_ndjson(self.path(name), infer_schema_length=None)

    def literal(self, name: str, variable: str) -> Any:
        """Return the value of `variable` in a file of Python source; see `read_literal`.

        Raises
        ------
        DataUnavailable, InputError
            As for `path` and `read_literal`.
        """
        return read_literal(self.text(name), name, variable)

    def retry_sources(self) -> None:
        """Clear the record of failed sources, so that the next download tries them again."""
        with self._lock:
            self._fetcher = None

    def _possible_paths(self, folder: Path, entry: Entry) -> list[Path]:
        """Return the paths under which `entry` may be stored in a user's folder.

        These are its name in the catalogue, its path in a package with and without the top folder, and its
        file name if unambiguous.
        """
        from tiltmeter.datasets._catalogue import PackageSource

        members = [Path(source.member) for source in entry.sources if isinstance(source, PackageSource)]
        without_top_folder = [Path(*member.parts[1:]) for member in members]
        paths = [Path(entry.name), *members, *without_top_folder]
        file_name = Path(entry.name).name
        entries_of_name = [name for name in self._by_name if Path(name).name == file_name]
        if len(entries_of_name) == 1:
            paths.append(Path(file_name))
        return [folder / path for path in dict.fromkeys(paths)]

    def _cached_path(self, name: str) -> Path:
        return self.cache / "datasets" / name

    def _local_copy(self, entry: Entry) -> Path | None:
        """Return the path of a verified copy in the user's folders or the cache, or None."""
        for where, path in self.places(entry.name):
            mismatch = file_flaw(path, entry)
            if mismatch is None:
                return path
            if where == "local":
                raise InputError(
                    f"{path} {mismatch}; replace it with the original {entry.name} ({entry.upstream}), "
                    "or remove it to have it downloaded"
                )
            self._say(f"the cached copy of {entry.name} is damaged and will be downloaded again")
        return None

    def _downloaded(self, entry: Entry) -> Path:
        """Download a file to the cache, from the first source that provides it, and return its path."""
        if self._fetcher is None:
            from tiltmeter.datasets._fetching import Fetcher

            self._fetcher = Fetcher(self._catalogue, self._timeout, self._say)
        reasons: list[str] = []
        for source in entry.sources:
            try:
                contents = self._fetcher.fetch(entry, source)
            except SourceError as error:
                reasons.append(str(error))
                continue
            for name, content in contents.items():
                with writing(self._cached_path(name), IN_CACHE) as temporary:
                    temporary.write_bytes(content)
            return self._cached_path(entry.name)
        command = f"tiltmeter data fetch {entry.name}" if entry.on_demand else "tiltmeter data fetch"
        remedy = (
            f"check the network and run `{command}`, or set TILTMETER_DATA to a folder that "
            f"contains {entry.name} (published at {entry.upstream})"
        )
        raise DataUnavailable(entry.name, "; ".join(reasons), remedy)


def encoder_folder(library: Library) -> Path:
    """Return a folder with all files of the default encoder, downloading them if necessary (83 MB).

    Raises
    ------
    DataUnavailable
        No source provided one of the files.
    InputError
        A local copy differs from the catalogued file, or the cache folder is not writable.
    """
    name = ENCODERS[0]
    entries = [entry for entry in library.entries if entry.name.startswith(f"{name}/")]
    paths = {entry: library.path(entry.name) for entry in entries}
    folders = {path.as_posix().removesuffix(entry.name.removeprefix(name)) for entry, path in paths.items()}
    if len(folders) == 1:
        return Path(folders.pop())
    # If some files are the user's copies and others are in the cache, copy all into one folder.
    for entry, path in paths.items():
        copy = library.cache / "encoders" / entry.name
        if file_flaw(copy, entry) is not None:
            with writing(copy, IN_CACHE) as temporary:
                shutil.copyfile(path, temporary)
    return library.cache / "encoders" / name


def read_literal(source: str, name: str, variable: str) -> Any:
    """Return the value assigned to `variable` at the top level of Python source.

    The source is parsed, never executed.

    Parameters
    ----------
    source
        Python source text. Functions, imports and all other statements are ignored.
    name
        Name of the source in error messages.
    variable
        Name of the variable.

    Raises
    ------
    InputError
        The text is not valid Python, the variable is not assigned, or its value is not a literal.
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
            f"{name} does not assign a literal to {variable!r} ({type(error).__name__}), "
            "and Tiltmeter never executes data; use the file that the catalogue describes"
        ) from error
