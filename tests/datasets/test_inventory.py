"""What `tiltmeter data list`, `check` and `fetch` show.

Restricted data is announced before it is first used, once per machine.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.data_sources import SAMPLE, MakeLibrary, Record, Site, record
from tiltmeter.datasets import (
    Copy,
    Fetched,
    Library,
    check,
    fetch_all,
    first_use_notice,
    load_catalogue,
    notice,
    status,
)
from tiltmeter.errors import InputError

NON_COMMERCIAL: Record = {
    "restricted": "non-commercial share-alike",
    "licence": "CC-BY-NC-SA-3.0",
    "licence_note": "Not for sale.",
}
FAIR_USE: Record = {"restricted": "fair use claim", "licence": "none stated", "licence_note": "A claim only."}


@pytest.fixture
def mixed(library: MakeLibrary, site: Site, tmp_path: Path) -> Library:
    """Return a library of a local, a cached, a missing and an unused file, and two fetched on demand.

    The local file also has a damaged copy in the cache.
    """
    user_folder, cached = tmp_path / "mine", tmp_path / "cache" / "datasets"
    for folder in (user_folder, cached):
        folder.mkdir(parents=True)
    (user_folder / "own.txt").write_bytes(SAMPLE)
    (cached / "own.txt").write_bytes(b"damaged")
    (cached / "kept.txt").write_bytes(SAMPLE)
    on_demand = [
        record(f"large/{name}", SAMPLE, {"url": f"{site.address}/{name[-7:]}"}, on_demand=True)
        for name in ("one.bin", "in/two.bin")
    ]
    return library(
        record("own.txt", SAMPLE),
        record("kept.txt", SAMPLE, **FAIR_USE),
        record("gone.txt", SAMPLE, {"url": f"{site.address}/gone.txt"}),
        record("idle.txt", SAMPLE, unused=True),
        *on_demand,
        folders=[user_folder],
    )


def test_status_gives_the_copy_that_would_be_used(mixed: Library, tmp_path: Path) -> None:
    local, cached, gone, idle, *_ = status(mixed)
    assert local == Copy(
        name="own.txt",
        where="local",
        path=tmp_path / "mine" / "own.txt",
        size=31,
        licence="CC0-1.0",
        restricted=None,
        ok=True,
        problem=None,
    )
    assert cached == Copy(
        name="kept.txt",
        where="cache",
        path=tmp_path / "cache" / "datasets" / "kept.txt",
        size=31,
        licence="none stated",
        restricted="fair use claim",
        ok=True,
        problem=None,
    )
    assert gone == Copy(
        name="gone.txt",
        where="missing",
        path=None,
        size=31,
        licence="CC0-1.0",
        restricted=None,
        ok=None,
        problem=None,
    )
    assert idle.where == "missing"
    assert mixed.used == []


def test_check_verifies_every_copy_again(mixed: Library) -> None:
    mixed.path("kept.txt").write_bytes(SAMPLE[::-1])
    entries = [(copy.name, copy.where, copy.ok) for copy in check(mixed, ["own.txt", "kept.txt", "gone.txt"])]
    assert entries == [
        ("own.txt", "local", True),
        ("own.txt", "cache", False),
        ("kept.txt", "cache", False),
        ("gone.txt", "missing", None),
    ]
    assert [copy.problem for copy in check(mixed, ["own.txt"])] == [None, "is 7 bytes long, expected 31"]
    assert len(check(mixed)) == 7


def test_fetching_goes_on_after_a_file_that_cannot_be_had(mixed: Library, site: Site) -> None:
    local, cached, gone = fetch_all(mixed)
    assert [copy.path is None for copy in (local, cached, gone)] == [False, False, True]
    assert str(gone.problem).endswith("answered 404 Not Found")
    assert str(gone.remedy).startswith(
        "check the network and run `tiltmeter data fetch`, or set TILTMETER_DATA"
    )
    site.serve("/gone.txt", SAMPLE)
    assert fetch_all(mixed, ["gone.txt"]) == [Fetched("gone.txt", mixed.path("gone.txt"), None, None)]


def test_the_name_of_a_folder_means_the_files_in_it(mixed: Library, site: Site) -> None:
    for name in ("one.bin", "two.bin"):
        site.serve(f"/{name}", SAMPLE)
    for folder in ("large", "large/"):
        assert [(copy.name, copy.problem) for copy in fetch_all(mixed, [folder])] == [
            ("large/one.bin", None),
            ("large/in/two.bin", None),
        ]
    assert [copy.ok for copy in check(mixed, ["large/in", "large"])] == [True, True]


@pytest.mark.parametrize("function", [check, fetch_all])
def test_unknown_names_are_refused(mixed: Library, function: Callable[[Library, list[str]], object]) -> None:
    with pytest.raises(InputError, match=r"unknown data file 'onw\.txt': did you mean own\.txt"):
        function(mixed, ["onw.txt"])


FREE = record("free.txt", SAMPLE)
BOTH = (record("a.txt", SAMPLE, **NON_COMMERCIAL), record("b.txt", SAMPLE, **FAIR_USE))


def test_free_data_needs_no_notice(library: MakeLibrary) -> None:
    files = library(FREE)
    assert notice(files.entries) is None
    assert first_use_notice(files, files.entries) is None
    assert not files.cache.exists()


def test_a_notice_names_restriction_licence_files_and_origin(library: MakeLibrary) -> None:
    text = notice(library(FREE, *BOTH).entries)
    assert text is not None
    assert (
        "non-commercial share-alike (licence: CC-BY-NC-SA-3.0). Not for sale.\n"
        "  a.txt: A sample, https://example.org/sample" in text
    )
    assert "fair use claim (licence: none stated). A claim only.\n  b.txt" in text
    assert "free.txt" not in text


def test_every_restricted_file_of_the_catalogue_is_announced_with_its_terms() -> None:
    text = notice(load_catalogue().entries)
    assert text is not None
    for entry in load_catalogue().entries:
        assert (f"  {entry.name}: " in text) == (entry.restricted is not None)
        assert (
            entry.restricted is None
            or f"{entry.restricted} (licence: {entry.licence}). {entry.licence_note}" in text
        )


def test_each_file_is_announced_once_per_machine_and_again_if_its_terms_change(library: MakeLibrary) -> None:
    files, again = library(*BOTH), library(*BOTH)
    first, second = (
        str(first_use_notice(files, files.entries[:1])),
        str(first_use_notice(again, again.entries)),
    )
    assert ["a.txt" in first, "a.txt" in second, "b.txt" in second] == [True, False, True]
    assert first_use_notice(again, files.entries) is None
    changed = library(record("a.txt", SAMPLE, **FAIR_USE))
    assert first_use_notice(changed, changed.entries) is not None


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff", b"[[1]]"])
def test_a_damaged_memory_only_repeats_the_notice(library: MakeLibrary, damage: bytes) -> None:
    files = library(record("a.txt", SAMPLE, **FAIR_USE))
    files.cache.mkdir()
    (files.cache / "notices.json").write_bytes(damage)
    assert first_use_notice(files, files.entries) is not None
    assert first_use_notice(files, files.entries) is None


def test_a_cache_that_cannot_be_written_to_only_repeats_the_notice(
    library: MakeLibrary, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    files = library(record("a.txt", SAMPLE, **FAIR_USE), cache=tmp_path / "file" / "cache")
    assert (
        first_use_notice(files, files.entries)
        == first_use_notice(files, files.entries)
        == notice(files.entries)
        is not None
    )
