"""Pages from the web, fetched politely and kept in a folder: given addresses, and pages of a wiki by way of its MediaWiki API.

No HTTP cache library is used: they store whole replies, with the errors that a wiki reports with status 200, read a body before its size
is known, and unpickle what they stored. Kept here instead is what was read of a reply, as JSON.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import chain
from operator import itemgetter
from pathlib import Path, PurePosixPath
from time import monotonic
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import quote, unquote, urldefrag, urljoin, urlsplit

import aiohttp
import pydantic_core
from pydantic import BaseModel, TypeAdapter, ValidationError
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_exponential, wait_random

from tiltmeter.benchmarks.builder.sources import KINDS, FoundPage, SourcePage, page_of, read_document, read_html
from tiltmeter.benchmarks.builder.spec import Wikipedia
from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models.endpoints import retry_after
from tiltmeter.safe_writing import IN_CACHE, writing
from tiltmeter.sanitising import printable, redacted
from tiltmeter.study import Encoder

T = TypeVar("T")
_FORMAT = "3"
"""To be raised when what is kept of a page changes its form or its meaning."""


class FetchError(Exception):
    """This one thing cannot be fetched; the message says why."""


class TransientError(FetchError):
    """Worth trying again."""


class UnreachableError(TransientError):
    """The server does not answer at all."""


@dataclass(frozen=True, slots=True)
class Manners:
    """Limits that hold for everything asked of one server."""

    rate: float = 5.0
    """Requests a second at most."""
    connections: int = 2
    """Requests at one time."""
    tries: int = 6
    """Requests for one thing before it is given up."""
    pause: float = 1.0
    """Seconds before the second try; doubled for each further one."""
    patience: float = 120.0
    """Seconds a server may ask to wait before the page is given up instead."""
    timeout: float = 60.0
    """Seconds one answer may take."""
    largest: int = 64 * 2**20
    """Bytes an answer may have."""
    contact: str | None = None
    """A way to reach you (an address or a URL), sent with the name and version; Wikimedia asks for one."""


class HttpReply(NamedTuple):
    """A whole answer."""

    url: str
    """Where it came from, redirects followed."""
    status: int
    headers: Mapping[str, str]
    body: bytes
    charset: str | None = None


class WebClient:
    """Fetches each thing once, within the limits of the manners, and keeps what was read of it; an asynchronous context.

    What is kept is one JSON file for each request. It is written under another name and then renamed, so a process killed at any moment
    leaves whole files only; two processes may use the same folder. What cannot be read, or is not of the shape expected, counts as not
    kept. What failed is not kept.

    Parameters
    ----------
    cache
        The folder.

    Raises
    ------
    InputError
        The folder cannot be made or written to.
    """

    def __init__(self, cache: Path, manners: Manners | None = None) -> None:
        self._cache, self._manners = cache, manners or Manners()
        self._free = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(self._manners.connections))  # by server
        self._next_turn = defaultdict[str, float](float)
        self._asked: dict[Path, asyncio.Task[Any]] = {}
        self._session: aiohttp.ClientSession
        try:
            cache.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"the folder {cache} for fetched pages cannot be made ({error.strerror}): name another one") from error

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            headers={"User-Agent": f"tiltmeter/{version('tiltmeter')} ({self._manners.contact or 'benchmark building; aiohttp'})"},
            timeout=aiohttp.ClientTimeout(total=self._manners.timeout),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=True,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._asked.values():
            task.cancel()
        await asyncio.gather(*self._asked.values(), return_exceptions=True)
        await self._session.close()

    async def get(self, url: str, params: Mapping[str, str], shape: type[T], read: Callable[[HttpReply], T]) -> T:
        """What `read` makes of the answer; it may raise FetchError, or TransientError to have the request tried again.

        Raises
        ------
        FetchError
            It cannot be fetched, or not after all tries.
        UnreachableError
            No connection to the server, after all tries.
        """
        path = self._place(url, params)
        if path not in self._asked:
            self._asked[path] = asyncio.create_task(self._kept_or_fetched(path, url, params, TypeAdapter(shape), read))
        value: T = await asyncio.shield(self._asked[path])
        return value

    def _place(self, url: str, params: Mapping[str, str]) -> Path:
        """The file in which what was read of a reply is kept."""
        name = "\0".join([_FORMAT, url, *chain.from_iterable(sorted(params.items()))])
        digest = hashlib.sha256(name.encode("utf-8", errors="replace")).hexdigest()
        return self._cache / digest[:2] / f"{digest}.json"

    async def _kept_or_fetched(
        self, path: Path, url: str, params: Mapping[str, str], shape: TypeAdapter[T], read: Callable[[HttpReply], T]
    ) -> T:
        try:
            return shape.validate_json(path.read_bytes())
        except (OSError, ValidationError):
            pass
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(TransientError),
            stop=stop_after_attempt(self._manners.tries),
            wait=wait_exponential(self._manners.pause) + wait_random(0, self._manners.pause / 2),
            reraise=True,
        )
        value: T = await retrying(self._try, url, params, read)
        with writing(path, IN_CACHE) as aside:
            aside.write_bytes(pydantic_core.to_json(value))
        return value

    async def _try(self, url: str, params: Mapping[str, str], read: Callable[[HttpReply], T]) -> T:
        reply = await self._ask(url, params)
        try:
            if reply.status in (408, 425, 429) or reply.status >= 500:
                raise TransientError(f"the server answered {reply.status}")
            if reply.status >= 400:
                hint = " (it may require a way to reach you: set contact)" if reply.status == 403 else ""
                raise FetchError(f"the server answered {reply.status}{hint}")
            return await asyncio.to_thread(read, reply)
        except TransientError as error:
            seconds = retry_after(reply.headers) or 0.0
            if seconds > self._manners.patience:
                raise FetchError(f"{error} and asks to wait for {seconds:.0f} seconds: try again later") from None
            server = urlsplit(url).netloc
            self._next_turn[server] = max(self._next_turn[server], monotonic() + seconds)
            raise

    async def _ask(self, url: str, params: Mapping[str, str]) -> HttpReply:
        server = urlsplit(url).netloc
        try:
            async with self._free[server]:
                # The next of evenly spaced turns; a pause that the server asks for moves all that are waiting.
                while (seconds := self._next_turn[server] - monotonic()) > 0:
                    await asyncio.sleep(seconds)
                self._next_turn[server] = monotonic() + 1 / self._manners.rate
                async with self._session.get(url, params=params or None) as response:
                    body = bytearray()
                    async for chunk in response.content.iter_chunked(2**16):
                        body += chunk
                        if len(body) > self._manners.largest:
                            raise FetchError(f"it is larger than {self._manners.largest} bytes")
                    return HttpReply(str(response.url), response.status, response.headers, bytes(body), response.charset)
        except aiohttp.ClientConnectorError as error:
            reason = printable(str(error.__cause__ or error), one_line=True)
            raise UnreachableError(f"cannot connect to {error.host}:{error.port} ({reason})") from None
        except TimeoutError:
            raise TransientError(f"no whole answer within {self._manners.timeout:g} seconds") from None
        except (aiohttp.ClientError, OSError) as error:
            raise TransientError(f"the connection was lost ({type(error).__name__})") from None


def checked_address(url: str, meaning: str) -> str:
    """A URL without its fragment; raises InputError where it is no address of HTTP, or holds a user name."""
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise InputError(f"{redacted(url)!r} ({meaning}) is no address: it should begin with https:// and hold no user name")
    return urldefrag(url.strip()).url


def _fetch_together(client: WebClient, work: Iterable[Awaitable[T]]) -> list[T]:
    """What work with a client gives, in an event loop of its own, also where one is running already (a notebook)."""

    async def fetch() -> list[T]:
        async with client:
            return await asyncio.gather(*work)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, fetch()).result()


# Addresses

_MEDIA_TYPES = {"text/html": "html", "application/xhtml+xml": "html", "text/plain": "txt", "text/markdown": "md", "application/pdf": "pdf"}


def read_urls(
    urls: Mapping[str, Sequence[str]], *, cache: Path, licence: str | None = None, manners: Manners | None = None
) -> list[FoundPage]:
    """Fetch given addresses for each concept, each once for all of them; what the folder `cache` holds is not fetched again.

    The limits of `manners` hold for each server by itself. What cannot be fetched is a row with status "failed" ("missing" for 404).

    Raises
    ------
    InputError
        An address that is none, or a folder that cannot be written to.
    """
    wanted = [(concept, checked_address(url, f"a source of {concept!r}")) for concept, given in urls.items() for url in given]
    client = WebClient(cache, manners)
    pages = _fetch_together(client, (_fetch_page(url, client) for _, url in wanted))
    more = {"source_tag": "web", "licence": licence}
    return [(concept, page, more) for (concept, _), page in zip(wanted, pages, strict=True)]


async def _fetch_page(url: str, client: WebClient) -> SourcePage:
    name = unquote(PurePosixPath(urlsplit(url).path).name) or urlsplit(url).netloc

    def read(reply: HttpReply) -> SourcePage:
        declared = reply.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        kind = _MEDIA_TYPES.get(declared) or KINDS.get(PurePosixPath(urlsplit(reply.url).path).suffix.lower())
        if kind is None:
            raise FetchError(f"it is of a kind that cannot be read ({declared or 'not named'})")
        page = page_of(url, name, read_document(reply.body, kind, reply.charset))
        if page.status == "failed":
            raise FetchError(str(page.problem))
        return page

    try:
        return await client.get(url, {}, SourcePage, read)
    except FetchError as error:
        missing = "answered 404" in str(error) or "answered 410" in str(error)
        return SourcePage(url, name, status="missing" if missing else "failed", problem=str(error))


# A wiki


class _WikiLink(BaseModel):
    title: str
    ns: int = 0
    exists: bool = False


class _Query(BaseModel):
    backlinks: list[_WikiLink] = []
    rightsinfo: dict[str, Any] = {}


class _Parsed(BaseModel):
    title: str
    text: str = ""
    links: list[_WikiLink] = []
    properties: dict[str, Any] | list[Any] = {}


class _ApiError(BaseModel):
    code: str = ""
    info: str = ""


class _ApiReply(BaseModel):
    query: _Query = _Query()
    parse: _Parsed | None = None
    error: _ApiError | None = None


def _read_api_reply(reply: HttpReply) -> _ApiReply:
    """The API's answer; one that says "there is no such page" is without what was asked for."""
    try:
        read = _ApiReply.model_validate_json(reply.body.decode("utf-8-sig", errors="replace"))
    except ValidationError:
        raise TransientError("the server answered something that is not the API's JSON") from None
    if read.error and read.error.code not in ("missingtitle", "nosuchpageid", "invalidtitle"):
        problem = f"the wiki answered {printable(read.error.info or read.error.code, one_line=True)[:200]!r}"
        passes = read.error.code in ("maxlag", "ratelimited", "readonly") or read.error.code.startswith("internal_api_error")
        raise TransientError(problem) if passes else FetchError(problem)
    return read


class MediaWiki:
    """Pages of one wiki, by a client.

    Parameters
    ----------
    api
        Address of the wiki's `api.php`.
    """

    def __init__(self, client: WebClient, api: str) -> None:
        self._client, self._api = client, api

    async def page(self, title: str) -> SourcePage:
        """The page of a title. What cannot be fetched has a status that says so.

        Raises
        ------
        ProviderError
            The server cannot be reached; what was fetched so far is kept.
        """
        asked = {"action": "parse", "redirects": "1", "disableeditsection": "1", "disablelimitreport": "1", "disabletoc": "1"}
        try:  # the licence of all texts first, or it would wait until all pages were fetched
            about = {"action": "query", "meta": "siteinfo", "siprop": "rightsinfo"}
            licence = await self._ask(str, lambda reply: str(reply.query.rightsinfo.get("text") or ""), **about)
            page = await self._ask(
                SourcePage, lambda reply: self._read_page(title, reply), **asked, page=title, prop="text|links|properties"
            )
        except FetchError as error:
            return SourcePage(self._address(title), title, status="failed", problem=str(error))
        return replace(page, licence=licence or None)

    async def backlinks(self, title: str) -> list[str]:
        """Titles of articles that link to a page, as many as one request gives (500); none where they cannot be fetched.

        Raises
        ------
        ProviderError
            The server cannot be reached.
        """
        asked = {"action": "query", "list": "backlinks", "blnamespace": "0", "blfilterredir": "nonredirects", "bllimit": "500"}
        try:
            return await self._ask(list[str], lambda reply: [link.title for link in reply.query.backlinks], **asked, bltitle=title)
        except FetchError:
            return []

    async def _ask(self, shape: type[T], read: Callable[[_ApiReply], T], **asked: str) -> T:
        fixed = {"format": "json", "formatversion": "2", "maxlag": "5", "utf8": "1"}
        try:
            return await self._client.get(self._api, asked | fixed, shape, lambda reply: read(_read_api_reply(reply)))
        except UnreachableError as error:
            raise ProviderError(f"{error}: what was fetched so far is kept, so start again when {self._api} can be reached") from None

    def _address(self, title: str) -> str:
        return urljoin(self._api, "/wiki/" + quote(title.replace(" ", "_"), safe=";@$!*(),/:"))

    def _read_page(self, title: str, reply: _ApiReply) -> SourcePage:
        """The page with its text, and those links of its paragraphs that lead to existing articles."""
        parsed = reply.parse
        if parsed is None:
            return SourcePage(self._address(title), title, status="missing", problem=f"{title!r} does not exist in the wiki")
        if "disambiguation" in parsed.properties:
            problem = f"{parsed.title!r} lists several meanings: give the full title of the page meant"
            return SourcePage(self._address(parsed.title), parsed.title, status="disambiguation", problem=problem)
        html = read_html(parsed.text)
        articles = {link.title for link in parsed.links if link.ns == 0 and link.exists}
        links = tuple(link for link in dict.fromkeys(html.links) if link.title in articles)
        return page_of(self._address(parsed.title), parsed.title, html._replace(title=None, links=links))


def collect_pages(
    titles: Mapping[str, Sequence[str]],
    wiki: Wikipedia,
    *,
    cache: Path,
    encoder: Encoder | None = None,
    manners: Manners | None = None,
) -> list[FoundPage]:
    """Fetch the pages of all concepts, each page once for all of them.

    Killed and called again, it fetches only what the folder `cache` lacks.

    Parameters
    ----------
    titles
        Concept -> titles of its own pages in the wiki (usually one, the concept's name).
    wiki
        Which wiki, and how far and which links are followed from a concept's own pages.
    encoder
        Gives the linked pages whose titles are most similar to the concept; None: the first ones in the order of the text are taken.
    manners
        None: those the wiki is to be asked with.

    Raises
    ------
    InputError
        The address is none, or the folder cannot be written to.
    ProviderError
        The wiki cannot be reached. A single page that cannot be fetched is a row with its status instead.
    """
    client = WebClient(cache, manners or Manners(rate=wiki.rate, contact=wiki.contact))
    site = MediaWiki(client, checked_address(wiki.api, "the API of a wiki"))

    async def search(concept: str, wanted: Iterable[str]) -> list[FoundPage]:
        """The pages of one concept, breadth first, each once whatever its titles."""
        found: list[FoundPage] = []
        visited: set[str] = set()
        similarity: dict[str, float] = {}
        for level in range(wiki.depth + 1):
            wanted = [title for title in dict.fromkeys(wanted) if title not in visited]
            if level and encoder is not None and wanted:
                vectors = encoder.encode([concept, *wanted])
                similarity = dict(zip(wanted, (vectors[1:] @ vectors[0]).tolist(), strict=True))
                wanted = [title for title, _ in sorted(similarity.items(), key=itemgetter(1), reverse=True)]
            wanted = wanted[: wiki.pages] if level else wanted
            linked: list[str] = []
            for title, page in zip(wanted, await asyncio.gather(*map(site.page, wanted)), strict=True):
                if page.title in visited:
                    continue
                visited |= {title, page.title}
                found.append((concept, page, {"source_tag": "wikipedia", "depth": level, "similarity": similarity.get(title)}))
                if level < wiki.depth and page.status == "ok":
                    linked += [link.title for link in page.links] if wiki.links != "backward" else []
                    linked += await site.backlinks(page.title) if wiki.links != "forward" else []
            wanted = linked
        return found

    return list(chain.from_iterable(_fetch_together(client, (search(concept, own) for concept, own in titles.items()))))
