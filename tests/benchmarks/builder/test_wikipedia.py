"""Pages of a wiki that misbehaves: each is fetched once and politely; one page never ends the others."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from support.judging import Letters
from support.mediawiki import LICENCE, Fault, Wiki, WikiServer
from tiltmeter.benchmarks._builder import (
    Manners,
    MediaWiki,
    PageSet,
    WebClient,
    Wikipedia,
    collect_pages,
    page_set,
)
from tiltmeter.benchmarks._tables import PAGES
from tiltmeter.errors import InputError, ProviderError

HERE = ("127.0.0.1",)
QUICK = Manners(rate=1000, connections=8, pause=0.01, timeout=5, local=HERE)


def religions() -> Wiki:
    wiki = Wiki()
    islam = "<p>Islam is a religion<sup class='reference'><a>[1]</a></sup> of one God.[2]</p>"
    wiki.add("Islam", islam, links=["Quran", "Prayer", "Nowhere"])
    wiki.add("Judaism", "<p>Judaism is a religion too.</p>", links=["Prayer", "Torah", "Islam"])
    wiki.add("Quran", "<p>The Quran is a book.</p>", links=["Islam"])
    wiki.add("Torah", "<p>The Torah is a scroll.</p>", links=["Judaism", "Prayer"])
    wiki.add("Prayer", "<p>Prayer is speech.</p>", links=["Speech"])
    wiki.add("Speech", "<p>Speech is spoken.</p>")
    wiki.add("Mercury", "<p>Mercury may be:</p>", disambiguation=True)
    redirects = {
        "Moslem faith": "Islam",
        "Muslim faith": "Moslem faith",
        "Here": "There",
        "There": "Here",
        "Gone": "Nowhere",
    }
    for title, to in redirects.items():
        wiki.redirect(title, to)
    return wiki


def statuses(pages: PageSet) -> dict[tuple[str, str], str]:
    return {
        (concept, title): status
        for concept, title, status in pages.pages.select("concept", "title", "status").iter_rows()
    }


def pages_of(
    titles: Mapping[str, Sequence[str]] | str,
    api: WikiServer | str,
    cache: Path,
    *,
    depth: int = 0,
    **more: Any,
) -> PageSet:
    """What is found for the titles of each concept, or for a page that is a concept itself."""
    wanted = {titles: [titles]} if isinstance(titles, str) else titles
    wikipedia = Wikipedia(api=api if isinstance(api, str) else api.api, depth=depth)
    return page_set(collect_pages(wanted, wikipedia, cache=cache, **{"manners": QUICK} | more))


def numbered(count: int, html: str) -> tuple[Wiki, dict[str, list[str]]]:
    """A wiki of so many pages, and their titles, each a concept of its own."""
    wiki, titles = Wiki(), [f"P{number}" for number in range(count)]
    for title in titles:
        wiki.add(title, html)
    return wiki, {title: [title] for title in titles}


def test_each_title_is_fetched_once_whichever_concepts_want_it(tmp_path: Path) -> None:
    titles = {"Islam": ["Islam"], "Faith": ["Islam"], "Judaism": ["Judaism"]}
    with WikiServer(religions()) as server:
        pages = pages_of(titles, server, tmp_path, depth=2)
        assert set(server.delivered) == {"siteinfo", "Islam", "Quran", "Prayer", "Judaism", "Torah", "Speech"}
        assert set(server.titles.values()) == {1}, "no title is asked for twice"
        assert server.asked["siteinfo"] == 1
        requests = server.asked.copy()
        again = pages_of(titles, server, tmp_path, depth=2)
        assert server.asked == requests, "what is kept is not fetched again"
    assert again.pages.equals(pages.pages)
    assert again.texts == pages.texts
    assert dict(pages.pages.schema) == dict(PAGES)
    rows = pages.pages.filter(concept="Islam").select("title", "depth").rows()
    assert rows == [("Islam", 0), ("Quran", 1), ("Prayer", 1), ("Speech", 2)], (
        "breadth first; red links are not followed"
    )
    assert set(pages.pages["licence"]) == {LICENCE}
    source = f"{server.root}/wiki/Islam"
    assert set(pages.pages.filter(title="Islam")["source"]) == {source}
    shared = pages.pages.filter(pl.col("concept").is_in(["Islam", "Faith"]), title="Islam")
    assert shared["concept"].to_list() == ["Islam", "Faith"], "each has its row"
    assert pages.texts[source].split("\n\n")[0] == "Islam is a religion of one God."
    assert not any("Prayer" in link.title for link in pages.links[f"{server.root}/wiki/Quran"])


def test_what_cannot_be_had_is_a_row_with_a_status(tmp_path: Path) -> None:
    faults = {"Quran": Fault(status=500), "Torah": Fault(code="permissiondenied")}
    expected = {
        "Mercury": "disambiguation",
        "Nowhere": "missing",
        "Gone": "missing",
        "Here": "missing",
        "a|b": "missing",
        "Quran": "failed",
        "Torah": "failed",
        "Islam": "ok",
        "x" * 300: "missing",
        "Bare": "empty",
    }
    wiki = religions()
    wiki.add("Bare", "<table><tr><td></td></tr></table>")
    with WikiServer(wiki, lambda page, nth: faults.get(page)) as server:
        pages = pages_of({name: [name] for name in expected}, server, tmp_path)
    assert dict(pages.pages.select("concept", "status").rows()) == expected
    assert (pages.pages["problem"].is_null().sum(), len(pages.texts)) == (1, 1)
    assert server.asked["Quran"] == QUICK.tries
    assert server.asked["Torah"] == 1, "what the wiki refuses is not tried again"

    with WikiServer(wiki) as server:  # another address: nothing of the first wiki is taken for its own
        assert pages_of("Quran", server, tmp_path).pages["status"].to_list() == ["ok"]


def test_failures_are_not_kept_but_tried_again_the_next_time(tmp_path: Path) -> None:
    down, titles = True, {"Q": ["Quran"], "I": ["Islam"]}
    with WikiServer(
        religions(), lambda page, nth: Fault(status=503) if down and page == "Quran" else None
    ) as server:
        assert statuses(pages_of(titles, server, tmp_path)) == {
            ("Q", "Quran"): "failed",
            ("I", "Islam"): "ok",
        }
        down = False
        assert set(statuses(pages_of(titles, server, tmp_path)).values()) == {"ok"}
    assert server.delivered["Islam"] == 1


def test_a_page_is_listed_once_whatever_it_is_called(tmp_path: Path) -> None:
    with WikiServer(religions()) as server:
        pages = pages_of({"Faith": ["Muslim faith", "Islam", "islam"]}, server, tmp_path)
    assert pages.pages.select("title", "source").rows() == [("Islam", f"{server.root}/wiki/Islam")]


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=500),
        Fault(status=502),
        Fault(status=429, headers={"Retry-After": "0"}),
        Fault(status=503, headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}),
        Fault(status=200),  # a proxy's page instead of JSON
        Fault(code="maxlag", headers={"Retry-After": "0"}),
        Fault(code="ratelimited"),
        Fault(cut=True),
        Fault(delay=60),
    ],
    ids=["500", "502", "429", "503-date", "html", "maxlag", "ratelimited", "cut", "slow"],
)
def test_what_passes_is_tried_again(tmp_path: Path, fault: Fault) -> None:
    manners = Manners(rate=1000, pause=0.01, timeout=4 if fault.delay else 60, local=HERE)
    with WikiServer(religions(), lambda page, nth: fault if nth == 1 else None) as server:
        pages = pages_of("Islam", server, tmp_path, manners=manners)
    assert pages.pages["status"].to_list() == ["ok"]
    assert server.asked["siteinfo"] == server.asked["Islam"] == 2


def test_odd_encodings(tmp_path: Path) -> None:
    wiki = Wiki()
    wiki.add(
        "Zoë", "<p>Zoe\u0308 (; ) ate\u00a0cre\u00adme bru\u0302le\u0301e\u200b in Đà Nẵng – 中文 – שלום.</p>"
    )
    wiki.add("Broken", "<p>A religion of bytes.</p>")
    faults = {
        "siteinfo": Fault(charset="ascii"),
        "Zoë": Fault(charset="latin-1", mark=True),
        "Broken": Fault(undecodable=True),
    }
    with WikiServer(wiki, lambda page, nth: faults.get(page)) as server:
        pages = pages_of({"Zoë": ["Zoë"], "Broken": ["Broken"]}, server, tmp_path)
    assert pages.texts[f"{server.root}/wiki/Zo%C3%AB"] == "Zoë ate creme brûlée in Đà Nẵng – 中文 – שלום."
    assert pages.texts[f"{server.root}/wiki/Broken"].startswith("A religion ")


def test_huge_pages(tmp_path: Path) -> None:
    wiki = Wiki()
    wiki.add(
        "Huge",
        "".join(
            f"<p>Sentence number {number} of a <b>very</b> long page stands here.</p>"
            for number in range(30_000)
        ),
    )
    wiki.add("Small", "<p>Small is beautiful.</p>")
    with WikiServer(wiki) as server:
        started = time.process_time()
        pages = pages_of("Huge", server, tmp_path / "1")
        assert time.process_time() - started < 8
        assert pages.texts[f"{server.root}/wiki/Huge"].count("\n\n") == 29_999
        tight = Manners(rate=1000, largest=100_000, pause=0.01, local=HERE)
        pages = pages_of({"H": ["Huge"], "S": ["Small"]}, server, tmp_path / "2", manners=tight)
    assert statuses(pages) == {("H", "Huge"): "failed", ("S", "Small"): "ok"}
    assert "larger than 100000 bytes" in pages.pages["problem"][0]


def test_the_rate_is_respected_also_when_told_to_wait(tmp_path: Path) -> None:
    wiki, titles = numbered(12, "<p>Text.</p>")
    throttled = Fault(status=429, headers={"Retry-After": "1"})
    manners = Manners(rate=25, connections=3, pause=0.01, contact="someone@example.org", local=HERE)
    with WikiServer(
        wiki, lambda page, nth: throttled if page == "P5" and nth == 1 else None, delay=0.05
    ) as server:
        pages = pages_of(titles, server, tmp_path, manners=manners)
    assert set(pages.pages["status"]) == {"ok"}
    assert {agent.partition(" ")[2] for agent in server.agents} == {"(someone@example.org)"}
    assert server.most_at_once <= 3
    gaps = np.diff(server.times)
    assert len(gaps) == 1 + 12 + 1 - 1
    assert (server.times[-1] - server.times[0] - 1) * 25 >= len(gaps) - 3, (
        "one request every 40 ms on the whole"
    )
    assert np.partition(gaps, 4)[4] > 0.02, (
        "and no bursts; after a delay by a busy machine, up to four requests follow each other at once"
    )
    # The refusal took 50 ms to come, and up to two more were on their way; then everybody waits.
    assert gaps.max() > 0.9


def test_who_asks_to_wait_for_too_long_is_left_alone(tmp_path: Path) -> None:
    with WikiServer(
        religions(), lambda page, nth: Fault(status=429, headers={"Retry-After": "7200"})
    ) as server:
        pages = pages_of("Islam", server, tmp_path)
    assert server.asked == {"siteinfo": 1}
    assert pages.pages["problem"].to_list() == [
        "the server answered 429 and requests a wait of 7200 seconds; try again later"
    ]


SCRIPT = """
import sys
from pathlib import Path
from tiltmeter.benchmarks._builder import Manners, Wikipedia, collect_pages
titles = {f"P{n}": [f"P{n}"] for n in range(40)}
manners = Manners(rate=200, connections=4, local=["127.0.0.1"])
collect_pages(titles, Wikipedia(api=sys.argv[1]), cache=Path(sys.argv[2]), manners=manners)
"""


def test_killed_in_the_middle_and_started_again_it_fetches_only_what_is_lacking(tmp_path: Path) -> None:
    wiki, titles = numbered(40, "<p>Of a page.</p>" * 200)
    killed = threading.Event()

    def hold_back(page: str, nth: int) -> Fault | None:
        """Answer no page after the thirtieth until the first process has been killed."""
        is_late = page.startswith("P") and int(page.removeprefix("P")) >= 30
        return Fault(delay=300) if is_late and not killed.is_set() else None

    with WikiServer(wiki, hold_back, delay=0.05) as server:
        with subprocess.Popen([sys.executable, "-c", SCRIPT, server.api, str(tmp_path)]) as process:
            give_up = time.monotonic() + 60
            while sum(server.delivered.values()) < 12 and time.monotonic() < give_up:
                time.sleep(0.005)
            assert process.poll() is None, "it is to be killed while at work"
            process.send_signal(signal.SIGKILL)
        killed.set()
        time.sleep(0.2)
        assert not any(path.stat().st_size == 0 for path in tmp_path.glob("*/*.json"))
        cached = len(list(tmp_path.glob("*/*.json"))) - 1  # the licence
        assert 7 <= cached < 40, "at the kill only the four requests under way are lost"
        before = server.asked.copy()
        pages = pages_of(titles, server, tmp_path)
    assert pages.pages["status"].to_list() == ["ok"] * 40
    assert (server.asked - before).total() == 40 - cached


def test_a_kept_page_needs_no_server_and_is_fetched_again_if_damaged(tmp_path: Path) -> None:
    with WikiServer(religions()) as server:
        pages_of("Islam", server, tmp_path)
        for path in tmp_path.rglob("*.json"):
            path.write_bytes(path.read_bytes()[:20])
        assert pages_of("Islam", server, tmp_path).pages["status"].to_list() == ["ok"]
        api = server.api
    assert server.delivered["Islam"] == 2
    assert pages_of("Islam", api, tmp_path).pages["status"].to_list() == ["ok"]
    with pytest.raises(
        ProviderError,
        match=r"cannot connect to 127\.0\.0\.1:\d+ \(.*\); pages fetched so far are cached; run again",
    ):
        pages_of("Quran", api, tmp_path)


def test_the_most_similar_links_are_followed(tmp_path: Path) -> None:
    wiki = Wiki()
    wiki.add("Abba", "<p>Abba.</p>", links=["Zzz", "Baab", "Cab", "Yyy"])
    for title in ("Zzz", "Baab", "Cab", "Yyy"):
        wiki.add(title, f"<p>{title}.</p>")
    with WikiServer(wiki) as server:
        two = Wikipedia(api=server.api, depth=1, pages=2)
        near = page_set(
            collect_pages({"Abba": ["Abba"]}, two, cache=tmp_path, encoder=Letters(), manners=QUICK)
        )
        first = page_set(collect_pages({"Abba": ["Abba"]}, two, cache=tmp_path, manners=QUICK))
        assert server.asked["Yyy"] == 0
    similar = [("Abba", None), ("Baab", pytest.approx(1.0)), ("Cab", pytest.approx(4 / np.sqrt(8 * 3)))]
    assert near.pages.select("title", "similarity").rows() == similar
    assert first.pages["title"].to_list() == ["Abba", "Zzz", "Baab"]


def test_backlinks(tmp_path: Path) -> None:
    wiki = Wiki()
    wiki.add("Hub", "<p>Hub.</p>")
    for number in range(8):
        wiki.add(f"Spoke {number}", "<p>Spoke.</p>", links=["Hub"])
    with WikiServer(wiki) as server:
        for links, height in (("backward", 9), ("backward", 9), ("forward", 1)):
            options = Wikipedia(api=server.api, depth=1, pages=100, links=links)  # type: ignore[arg-type]
            assert (
                page_set(collect_pages({"Hub": ["Hub"]}, options, cache=tmp_path, manners=QUICK)).pages.height
                == height
            )
            assert server.asked["backlinks Hub"] == 1


async def test_it_works_where_an_event_loop_runs_already(tmp_path: Path) -> None:
    with WikiServer(religions()) as server:
        assert pages_of("Islam", server, tmp_path / "1").pages["status"].to_list() == ["ok"]
        async with WebClient(tmp_path / "2", QUICK) as client:
            wiki = MediaWiki(client, server.api)
            several = await asyncio.gather(*(wiki.page("Islam") for _ in range(10)))
        assert {page.title for page in several} == {"Islam"}
        assert server.delivered["Islam"] == 2, "once for each folder, however many ask at one time"


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        InputError,
        match=(
            r"'https://.*wikipedia\.org' \(the API of a wiki\) is not a valid address; it must start"
            r" with https://"
        ),
    ):
        collect_pages({"Islam": ["Islam"]}, Wikipedia(api="https://someone@wikipedia.org"), cache=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"the folder .*file for fetched pages cannot be created"):
        collect_pages({"Islam": ["Islam"]}, Wikipedia(), cache=tmp_path / "file")
