"""Libraries over small catalogues, and a web site to fetch from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.data_sources import MakeLibrary, Record, Site, catalogue
from tiltmeter.datasets import Library


@pytest.fixture
def library(tmp_path: Path) -> MakeLibrary:
    """Builds a library with its cache in a fresh folder and short waits."""

    def make(
        *records: Record,
        wheel: Path | None = None,
        folders: Sequence[Path] = (),
        cache: Path | None = None,
        **more: Any,
    ) -> Library:
        listed = catalogue(*records, wheel=wheel)
        return Library(listed, folders=folders, cache=cache or tmp_path / "cache", **{"timeout": 0.5, **more})

    return make


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TILTMETER_DATA", "TILTMETER_CACHE", "TILTMETER_OFFLINE", "HF_HUB_OFFLINE", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as served:
        yield served
