"""Restricted data is announced before it is first used, once per machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.data_sources import SAMPLE, Record, record
from tiltmeter.datasets import Library, first_use_notice, load_catalogue, notice

MakeLibrary = Callable[..., Library]
NON_COMMERCIAL: Record = {"restricted": "non-commercial share-alike", "licence": "CC-BY-NC-SA-3.0", "licence_note": "Not for sale."}
FAIR_USE: Record = {"restricted": "fair use claim", "licence": "none stated", "licence_note": "A claim only."}
FREE = record("free.txt", SAMPLE)


def test_free_data_needs_no_notice(library: MakeLibrary) -> None:
    held = library(FREE)
    assert notice(held.entries) is None
    assert first_use_notice(held, held.entries) is None
    assert not held.cache.exists()


def test_a_notice_names_restriction_licence_files_and_origin(library: MakeLibrary) -> None:
    text = notice(library(FREE, record("a.txt", SAMPLE, **NON_COMMERCIAL), record("b.txt", SAMPLE, **FAIR_USE)).entries)
    assert text is not None
    assert "non-commercial share-alike (licence: CC-BY-NC-SA-3.0). Not for sale.\n  a.txt: A sample, https://example.org/sample" in text
    assert "fair use claim (licence: none stated). A claim only.\n  b.txt" in text
    assert "free.txt" not in text


def test_every_restricted_file_of_the_catalogue_is_announced_with_its_terms() -> None:
    text = notice(load_catalogue().entries)
    assert text is not None
    for entry in load_catalogue().entries:
        assert (f"  {entry.name}: " in text) == (entry.restricted is not None)
        assert entry.restricted is None or f"{entry.restricted} (licence: {entry.licence}). {entry.licence_note}" in text


def test_each_file_is_announced_once_per_machine(library: MakeLibrary) -> None:
    records = [record("a.txt", SAMPLE, **NON_COMMERCIAL), record("b.txt", SAMPLE, **FAIR_USE)]
    held = library(*records)
    a, b = held.entries
    first = first_use_notice(held, [a])
    assert first is not None
    assert "a.txt" in first
    again = library(*records)
    second = first_use_notice(again, again.entries)
    assert second is not None
    assert "a.txt" not in second
    assert "b.txt" in second
    assert first_use_notice(again, [a, b]) is None


def test_changed_terms_are_announced_again(library: MakeLibrary) -> None:
    before = library(record("a.txt", SAMPLE, **FAIR_USE))
    assert first_use_notice(before, before.entries) is not None
    after = library(record("a.txt", SAMPLE, **NON_COMMERCIAL))
    assert first_use_notice(after, after.entries) is not None


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff", b"[[1]]"])
def test_a_damaged_memory_only_repeats_the_notice(library: MakeLibrary, damage: bytes) -> None:
    held = library(record("a.txt", SAMPLE, **FAIR_USE))
    held.cache.mkdir()
    (held.cache / "notices.json").write_bytes(damage)
    assert first_use_notice(held, held.entries) is not None
    assert first_use_notice(held, held.entries) is None


def test_a_cache_that_cannot_be_written_to_only_repeats_the_notice(library: MakeLibrary, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    held = library(record("a.txt", SAMPLE, **FAIR_USE), cache=tmp_path / "file" / "cache")
    assert first_use_notice(held, held.entries) == first_use_notice(held, held.entries) == notice(held.entries)
