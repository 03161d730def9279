"""A polite client of the MediaWiki API: each page is fetched once, ever, as long as its cache folder is kept.

Titles are looked up first, up to fifty in one request: that resolves redirects, and what is missing or a disambiguation page is
known without having been downloaded. Only then the text of each page is asked for, once, whatever it was called.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urljoin, urlsplit

from tiltmeter._text import printable
from tiltmeter.benchmarks.sources._cache import Cache
from tiltmeter.benchmarks.sources._fetch import Again, Failed, Fetcher, Reply, Unreachable
from tiltmeter.benchmarks.sources._html import read_html
from tiltmeter.benchmarks.sources._manners import Manners, retry_after
from tiltmeter.benchmarks.sources._pages import Link
from tiltmeter.errors import InputError, ProviderError

__all__ = ["WIKIPEDIA", "MediaWiki", "WikiPage"]

WIKIPEDIA = "https://en.wikipedia.org/w/api.php"

_BATCH = 50
_LONGEST_QUERY = 4000
_LONGEST_TITLE = 255  # bytes
_MOST_TURNS = 100
"""Requests for the links to one page; a wiki may answer some of them with nothing but where to go on."""
_NOT_IN_TITLES = frozenset("#<>[]|{}\n\x1f")
_WAITS = frozenset({"maxlag", "ratelimited", "readonly"})
_GONE = frozenset({"missingtitle", "nosuchpageid", "invalidtitle"})


@dataclass(frozen=True, slots=True)
class WikiPage:
    """One page of a wiki, or why there is none."""

    title: str
    """Its own, redirects followed."""
    source: str
    """Its URL."""
    status: str
    """As in PAGES: "ok", "missing", "disambiguation", "failed" or "empty"."""
    problem: str | None = None
    licence: str | None = None
    text: str = ""
    links: tuple[Link, ...] = ()
    """Links of the running text to existing articles, in order."""


class MediaWiki:
    """Pages of one wiki; an asynchronous context that may be asked from any number of tasks of one event loop.

    Parameters
    ----------
    cache
        Folder in which pages are kept. What failed is not kept, and is tried again by the next client.
    api
        Address of the wiki's `api.php`.

    Raises
    ------
    InputError
        The address is none, or the folder cannot be written to.
    """

    def __init__(self, cache: Path, *, api: str = WIKIPEDIA, manners: Manners | None = None) -> None:
        parts = urlsplit(api)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise InputError(f"the address {printable(api, one_line=True)!r} is no API of a wiki: it should look like {WIKIPEDIA}")
        self._api, self._cache = api, Cache(cache, api)
        self._fetcher = Fetcher(manners or Manners())
        self._looking = asyncio.Lock()
        self._known: dict[str, WikiPage] = {}  # what a lookup told, by title as asked for
        self._texts: dict[str, asyncio.Task[WikiPage]] = {}  # by resolved title

    async def __aenter__(self) -> Self:
        await self._fetcher.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for task in self._texts.values():
            task.cancel()
        await asyncio.gather(*self._texts.values(), return_exceptions=True)
        await self._fetcher.__aexit__(kind, error, trace)

    async def pages(self, titles: Iterable[str]) -> dict[str, WikiPage]:
        """The page of each title, by the title as given. What cannot be had has a status that says so.

        Raises
        ------
        ProviderError
            The server cannot be reached; what was fetched so far is kept.
        """
        wanted = list(dict.fromkeys(titles))
        async with self._looking:
            await self._look_up([title for title in wanted if title not in self._known])
        found = [self._known[title] for title in wanted]
        for page in found:
            if page.status == "ok" and page.title not in self._texts:
                self._texts[page.title] = asyncio.create_task(self._text(page))
        whole = await asyncio.gather(*(self._texts[page.title] if page.status == "ok" else _itself(page) for page in found))
        return dict(zip(wanted, whole, strict=True))

    async def backlinks(self, title: str, most: int = 500) -> list[str]:
        """Titles of articles that link to a page, at most so many; none where they cannot be had.

        Raises
        ------
        ProviderError
            The server cannot be reached.
        """
        name = f"{most} {title}"
        if isinstance(kept := self._cache.get("backlinks", name), list):
            return [str(one) for one in kept]
        more: Mapping[str, str] = {}
        found: list[str] = []
        asked = {"action": "query", "list": "backlinks", "bltitle": title, "blnamespace": "0", "blfilterredir": "nonredirects"}
        for _ in range(_MOST_TURNS):
            try:
                said = await self._ask({**asked, "bllimit": str(min(500, most - len(found))), **more})
                with _as_the_api_answers():
                    found += [str(one["title"]) for one in said.get("query", {}).get("backlinks", ())]
                    more = {key: str(value) for key, value in said.get("continue", {}).items()}
            except Failed:
                return found
            if not more or len(found) >= most:
                break
        self._cache.put("backlinks", name, found[:most])
        return found[:most]

    async def _look_up(self, titles: Sequence[str]) -> None:
        """Fill `_known` for all titles, in as few requests as may be."""
        asked: list[str] = []
        for title in titles:
            if _is_page(kept := self._cache.get("titles", title)):
                self._known[title] = WikiPage(**kept)
            elif not title.strip() or _NOT_IN_TITLES & set(title) or len(title.encode(errors="replace")) > _LONGEST_TITLE:
                self._known[title] = WikiPage(title, self._address(title), "missing", "no page of a wiki can have this title")
            else:
                asked.append(title)
        await asyncio.gather(*(self._look_up_batch(batch) for batch in _batches(asked)))

    async def _look_up_batch(self, titles: Sequence[str]) -> None:
        asked = {"action": "query", "titles": "|".join(titles), "redirects": "1", "prop": "info|pageprops", "inprop": "url"}
        try:
            said = await self._ask({**asked, "ppprop": "disambiguation", "meta": "siteinfo", "siprop": "rightsinfo"})
            with _as_the_api_answers():
                self._keep(titles, said.get("query", {}))
        except Failed as error:
            self._known |= {title: WikiPage(title, self._address(title), "failed", str(error)) for title in titles}

    def _keep(self, titles: Sequence[str], query: Mapping[str, Any]) -> None:
        """What a lookup says of each title."""
        renamed = {str(one["from"]): str(one["to"]) for step in ("normalized", "redirects") for one in query.get(step, ())}
        pages = {str(one.get("title")): one for one in query.get("pages", ())}
        licence = str(query.get("rightsinfo", {}).get("text") or "") or None
        for title in titles:
            end, seen = title, set[str]()
            while end in renamed and end not in seen:
                seen.add(end)
                end = renamed[end]
            page = self._looked_up(title, end, pages.get(end), licence)
            self._known[title] = page
            self._cache.put("titles", title, {name: getattr(page, name) for name in ("title", "source", "status", "problem", "licence")})

    def _looked_up(self, asked: str, title: str, found: Mapping[str, Any] | None, licence: str | None) -> WikiPage:
        if found is None or found.get("invalid") or found.get("missing") or found.get("special"):
            lost = f"it redirects to {title!r}, which" if title != asked else f"{title!r}"
            return WikiPage(title, self._address(title), "missing", f"{lost} does not exist in the wiki")
        source = str(found.get("fullurl") or self._address(title))
        if "disambiguation" in found.get("pageprops", {}):
            return WikiPage(title, source, "disambiguation", f"{title!r} lists several meanings: give the full title of the page meant")
        return WikiPage(title, source, "ok", licence=licence)

    async def _text(self, page: WikiPage) -> WikiPage:
        """The page with its text, from the cache or the wiki."""
        kept = self._cache.get("pages", page.title)
        if not _is_text(kept):
            asked = {"action": "parse", "page": page.title, "prop": "text|links|revid"}
            asked |= {"disableeditsection": "1", "disablelimitreport": "1", "disabletoc": "1"}
            try:
                said = await self._ask(asked)
                if "parse" not in said:
                    return WikiPage(page.title, page.source, "missing", f"{page.title!r} does not exist in the wiki", page.licence)
                with _as_the_api_answers():
                    kept = await asyncio.to_thread(_read, said["parse"])
            except Failed as error:
                return WikiPage(page.title, page.source, "failed", str(error), page.licence)
            self._cache.put("pages", page.title, kept)
        text, links = str(kept["text"]), tuple(Link(*map(str, link)) for link in kept["links"])
        problem = None if text else "the page holds no paragraph of text"
        return WikiPage(page.title, page.source, "ok" if text else "empty", problem, page.licence, text, links)

    async def _ask(self, asked: Mapping[str, str]) -> dict[str, Any]:
        """The API's answer; one that says "there is no such page" is an object without what was asked for."""
        fixed = {"format": "json", "formatversion": "2", "maxlag": "5", "utf8": "1"}
        try:
            return await self._fetcher.get(self._api, {**asked, **fixed}, _answer)
        except Unreachable as error:
            raise ProviderError(f"{error}: what was fetched so far is kept, so start again when {self._api} can be reached") from None

    def _address(self, title: str) -> str:
        return urljoin(self._api, "/wiki/" + quote(title.replace(" ", "_"), safe=":/(),"))


@contextmanager
def _as_the_api_answers() -> Iterator[None]:
    """Turn what goes wrong with JSON of another shape into Failed."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Failed(f"the server answered JSON that is not the API's ({type(error).__name__})") from error


def _is_page(kept: Any) -> bool:
    """Whether this is what is kept of a title."""
    if not isinstance(kept, dict) or kept.keys() != {"title", "source", "status", "problem", "licence"}:
        return False
    texts = all(isinstance(kept[key], str) for key in ("title", "source", "status"))
    return texts and all(isinstance(kept[key], str | None) for key in ("problem", "licence"))


def _is_text(kept: Any) -> bool:
    """Whether this is what is kept of a page."""
    if not isinstance(kept, dict) or not isinstance(kept.get("text"), str) or not isinstance(kept.get("links"), list):
        return False
    return all(isinstance(link, list) and len(link) == len(Link._fields) for link in kept["links"])


async def _itself(page: WikiPage) -> WikiPage:
    return page


def _batches(titles: Sequence[str]) -> list[list[str]]:
    batches: list[list[str]] = []
    room = 0
    for title in titles:
        needed = len(quote(title)) + 3
        if not batches or len(batches[-1]) >= _BATCH or room < needed:
            batches.append([])
            room = _LONGEST_QUERY
        batches[-1].append(title)
        room -= needed
    return batches


def _answer(reply: Reply) -> dict[str, Any]:
    try:
        value = json.loads(reply.body.decode("utf-8-sig", errors="replace"))
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Again("the server answered something that is not the API's JSON")
    if isinstance(error := value.get("error"), dict):
        code = str(error.get("code"))
        said = printable(str(error.get("info") or code), one_line=True)[:200]
        if code in _WAITS or code.startswith("internal_api_error"):
            raise Again(f"the wiki answered {said!r}", retry_after(reply.headers.get("Retry-After")))
        if code not in _GONE:
            raise Failed(f"the wiki answered {said!r}")
    return value


def _read(parsed: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a page: its text, and those links of its paragraphs that lead to existing articles."""
    html = read_html(str(parsed.get("text") or ""))
    articles = {str(one["title"]) for one in parsed.get("links", ()) if one.get("ns") == 0 and one.get("exists")}
    links = [link for link in dict.fromkeys(html.links) if link.title in articles]
    return {"revision": parsed.get("revid"), "text": html.text, "links": links}
