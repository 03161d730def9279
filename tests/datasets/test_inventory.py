"""What `tiltmeter data list`, `check` and `fetch` show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.data_sources import SAMPLE, Site, record
from tiltmeter.datasets import Copy, Fetched, Library, check, fetch_all, status
from tiltmeter.errors import InputError

MakeLibrary = Callable[..., Library]


@pytest.fixture
def mixed(library: MakeLibrary, site: Site, tmp_path: Path) -> Library:
    """One own copy (also cached, damaged there), one cached, one missing everywhere, one read by nothing, two fetched on demand."""
    mine, cached = tmp_path / "mine", tmp_path / "cache" / "datasets"
    for folder in (mine, cached):
        folder.mkdir(parents=True)
    (mine / "own.txt").write_bytes(SAMPLE)
    (cached / "own.txt").write_bytes(b"damaged")
    (cached / "kept.txt").write_bytes(SAMPLE)
    return library(
        record("own.txt", SAMPLE),
        record("kept.txt", SAMPLE, restricted="fair use claim", licence="none stated"),
        record("gone.txt", SAMPLE, {"url": f"{site.address}/gone.txt"}),
        record("idle.txt", SAMPLE, unused=True),
        record("large/one.bin", SAMPLE, {"url": f"{site.address}/one.bin"}, on_demand=True),
        record("large/in/two.bin", SAMPLE, {"url": f"{site.address}/two.bin"}, on_demand=True),
        folders=[mine],
    )


def test_status_gives_the_copy_that_would_be_used(mixed: Library, tmp_path: Path) -> None:
    own, kept, gone, idle, *_ = status(mixed)
    assert own == Copy("own.txt", "local", tmp_path / "mine" / "own.txt", 31, "CC0-1.0", None, True, None)
    assert kept == Copy("kept.txt", "cache", tmp_path / "cache" / "datasets" / "kept.txt", 31, "none stated", "fair use claim", True, None)
    assert gone == Copy("gone.txt", "missing", None, 31, "CC0-1.0", None, None, None)
    assert idle.where == "missing"
    assert mixed.used == []


def test_check_verifies_every_copy_anew(mixed: Library) -> None:
    mixed.path("kept.txt").write_bytes(SAMPLE[::-1])
    found = [(copy.name, copy.where, copy.ok) for copy in check(mixed, ["own.txt", "kept.txt", "gone.txt"])]
    assert found == [("own.txt", "local", True), ("own.txt", "cache", False), ("kept.txt", "cache", False), ("gone.txt", "missing", None)]
    assert [copy.problem for copy in check(mixed, ["own.txt"])] == [None, "is 7 bytes long, expected 31"]
    assert len(check(mixed)) == 7


def test_fetching_goes_on_past_what_cannot_be_had(mixed: Library, site: Site) -> None:
    own, kept, gone = fetch_all(mixed)
    assert own.path is not None
    assert kept.path is not None
    assert gone.path is None
    assert gone.problem is not None
    assert gone.problem.endswith("answered 404 Not Found")
    assert gone.remedy is not None
    assert gone.remedy.startswith("check the network and run `tiltmeter data fetch`, or set TILTMETER_DATA")
    site.serve("/gone.txt", SAMPLE)
    assert fetch_all(mixed, ["gone.txt"]) == [Fetched("gone.txt", mixed.path("gone.txt"), None, None)]


def test_a_folder_stands_for_the_files_in_it(mixed: Library, site: Site) -> None:
    for name in ("one.bin", "two.bin"):
        site.serve(f"/{name}", SAMPLE)
    for folder in ("large", "large/"):
        assert [(one.name, one.problem) for one in fetch_all(mixed, [folder])] == [("large/one.bin", None), ("large/in/two.bin", None)]
    assert [one.ok for one in check(mixed, ["large/in", "large"])] == [True, True]


@pytest.mark.parametrize("function", [check, fetch_all])
def test_unknown_names_are_refused(mixed: Library, function: Callable[[Library, list[str]], object]) -> None:
    with pytest.raises(InputError, match=r"unknown data file 'onw\.txt': did you mean own\.txt"):
        function(mixed, ["onw.txt"])
