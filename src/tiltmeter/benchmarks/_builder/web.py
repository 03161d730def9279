"""Fetching of web pages, and of wiki pages through the MediaWiki API, with rate limits and a cache.

HTTP cache libraries are not used. They store entire replies (including errors that a wiki reports with
status 200) and do not limit the size of a reply, and some unpickle cached data. They would replace little of
this module: the name and the file of a cached value (`_place` and a part of `_cached_or_fetched`). The cache
here stores the parsed content of replies as JSON.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import chain
from pathlib import Path, PurePosixPath
from time import monotonic
from typing import Any, Literal, NamedTuple, Self, TypeVar
from urllib.parse import quote, unquote, urldefrag, urljoin, urlsplit

import aiohttp
import pydantic_core
from pydantic import BaseModel, TypeAdapter, ValidationError
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_exponential, wait_random
from yarl import URL

from tiltmeter._files.writing import IN_CACHE, writing
from tiltmeter._sanitising import printable, redacted
from tiltmeter.benchmarks._builder.addresses import LOCAL, PublicResolver, leads_to_local, same_server
from tiltmeter.benchmarks._builder.sources import (
    KINDS,
    FoundPage,
    SourcePage,
    page_of,
    read_document,
    read_html,
)
from tiltmeter.benchmarks._builder.spec import Wikipedia
from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models import Encoder
from tiltmeter.models._endpoints import retry_after

T = TypeVar("T")
_FORMAT = "3"
"""Version of the cache format, to be increased when the stored content changes."""
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS = 10
_LONGEST_ADDRESS = 200
"""Maximum number of characters of an address in a message."""


class FetchError(Exception):
    """A resource cannot be fetched; the message gives the reason."""


class TransientError(FetchError):
    """A resource could not be fetched, but a retry may succeed."""


class UnreachableError(TransientError):
    """The server cannot be reached."""


@dataclass(frozen=True, slots=True)
class Manners:
    """Request limits for each server."""

    rate: float = 5.0
    """Maximum number of requests per second."""
    connections: int = 2
    """Maximum number of concurrent requests."""
    tries: int = 6
    """Maximum number of attempts for each resource."""
    pause: float = 1.0
    """Seconds before the first retry, doubled for each further one."""
    patience: float = 120.0
    """Maximum number of seconds to wait if a server requests it; the page fails if it requests more."""
    timeout: float = 60.0
    """Timeout of a request in seconds."""
    largest: int = 64 * 2**20
    """Maximum size of a reply in bytes."""
    contact: str | None = None
    """Contact (an e-mail address or a URL) sent in the User-Agent header; Wikimedia asks for one."""
    local: Collection[str] = ()
    """Hosts of this machine or its network from which given addresses may be fetched. Pages of other servers
    never lead there."""


class HttpReply(NamedTuple):
    """A complete HTTP reply."""

    url: str
    """Final URL after redirects."""
    status: int
    headers: Mapping[str, str]
    body: bytes
    charset: str | None = None


class WebClient:
    """Asynchronous HTTP client that fetches each resource once, within request limits.

    The parsed content is cached. The cache has one JSON file for each request. Files are written atomically,
    so that the process can be killed at any time and several processes can use the same folder. Unreadable
    files, and files with unexpected content, are ignored. Failures are not cached.

    Parameters
    ----------
    cache
        Folder of the cache.
    manners
        Request limits; None: the defaults.

    Raises
    ------
    InputError
        The folder cannot be created or written to.
    """

    def __init__(self, cache: Path, manners: Manners | None = None) -> None:
        self._cache = cache
        self._manners = manners or Manners()
        # Both by server.
        self._free = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(self._manners.connections))
        self._next_turn = defaultdict[str, float](float)
        self._tasks: dict[Path, asyncio.Task[Any]] = {}
        self._session: aiohttp.ClientSession
        try:
            cache.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"the folder {cache} for fetched pages cannot be created ({error.strerror}); "
                "choose another one"
            ) from error

    async def __aenter__(self) -> Self:
        """Open the HTTP session."""
        contact = self._manners.contact or "benchmark building; aiohttp"
        user_agent = f"tiltmeter/{version('tiltmeter')} ({contact})"
        self._session = aiohttp.ClientSession(
            headers={"User-Agent": user_agent},
            timeout=aiohttp.ClientTimeout(total=self._manners.timeout),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=True,
            connector=aiohttp.TCPConnector(resolver=PublicResolver(self._manners.local)),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cancel pending requests and close the session."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._session.close()

    async def get(
        self, url: str, params: Mapping[str, str], shape: type[T], read: Callable[[HttpReply], T]
    ) -> T:
        """Fetch a resource, or take it from the cache; return the value that `read` parses from the reply.

        `read` may raise FetchError, or TransientError for a retry.

        Raises
        ------
        FetchError
            The resource cannot be fetched, or all attempts failed.
        UnreachableError
            The server could not be reached in any attempt.
        """
        path = self._place(url, params)
        if path not in self._tasks:
            work = self._cached_or_fetched(path, url, params, TypeAdapter(shape), read)
            self._tasks[path] = asyncio.create_task(work)
        value: T = await asyncio.shield(self._tasks[path])
        return value

    def _place(self, url: str, params: Mapping[str, str]) -> Path:
        """Return the cache file of a request."""
        name = "\0".join([_FORMAT, url, *chain.from_iterable(sorted(params.items()))])
        digest = hashlib.sha256(name.encode("utf-8", errors="replace")).hexdigest()
        return self._cache / digest[:2] / f"{digest}.json"

    async def _cached_or_fetched(
        self,
        path: Path,
        url: str,
        params: Mapping[str, str],
        shape: TypeAdapter[T],
        read: Callable[[HttpReply], T],
    ) -> T:
        """Return the value in the cache file, or fetch it and write the file."""
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
        """Fetch a resource in a single attempt; a requested wait delays the next request to the server."""
        reply = await self._request(url, params)
        try:
            if reply.status in (408, 425, 429) or reply.status >= 500:
                raise TransientError(f"the server answered {reply.status}")
            if reply.status >= 400:
                hint = " (it may require contact information; set contact)" if reply.status == 403 else ""
                raise FetchError(f"the server answered {reply.status}{hint}")
            return await asyncio.to_thread(read, reply)
        except TransientError as error:
            seconds = retry_after(reply.headers) or 0.0
            if seconds > self._manners.patience:
                raise FetchError(
                    f"{error} and requests a wait of {seconds:.0f} seconds; try again later"
                ) from None
            server = urlsplit(url).netloc
            self._next_turn[server] = max(self._next_turn[server], monotonic() + seconds)
            raise

    async def _request(self, url: str, params: Mapping[str, str]) -> HttpReply:
        """Request a URL when it is its turn; raises FetchError if there is no complete reply."""
        server = urlsplit(url).netloc
        try:
            async with self._free[server]:
                # Requests are evenly spaced in time; a pause requested by the server delays all waiting
                # requests.
                while (seconds := self._next_turn[server] - monotonic()) > 0:
                    await asyncio.sleep(seconds)
                self._next_turn[server] = monotonic() + 1 / self._manners.rate
                return await self._follow(url, params)
        except aiohttp.ClientConnectorError as error:
            reason = printable(str(error.__cause__ or error), one_line=True)
            raise UnreachableError(f"cannot connect to {error.host}:{error.port} ({reason})") from None
        except TimeoutError:
            raise TransientError(f"no complete reply within {self._manners.timeout:g} seconds") from None
        except (aiohttp.ClientError, OSError) as error:
            raise TransientError(f"the connection was lost ({type(error).__name__})") from None

    async def _follow(self, url: str, params: Mapping[str, str]) -> HttpReply:
        """Request a URL, and those to which it redirects.

        Raises FetchError if one of them must not be requested.
        """
        if URL(url).raw_host not in self._manners.local and await asyncio.to_thread(leads_to_local, url):
            raise FetchError(f"its host is {LOCAL}")
        for _ in range(_MOST_REDIRECTS + 1):
            async with self._session.get(url, params=params or None, allow_redirects=False) as response:
                place = response.headers.get("Location")
                if response.status not in _REDIRECTS or place is None:
                    return HttpReply(
                        str(response.url),
                        response.status,
                        response.headers,
                        await self._body(response),
                        response.charset,
                    )
                url = await _redirected(str(response.url), place)
                params = {}
        raise FetchError(f"it redirects more than {_MOST_REDIRECTS} times")

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        """Read the body of a reply; raises FetchError as soon as it is larger than allowed."""
        body = bytearray()
        async for chunk in response.content.iter_chunked(2**16):
            body += chunk
            if len(body) > self._manners.largest:
                raise FetchError(f"the page is larger than {self._manners.largest} bytes")
        return bytes(body)


async def _redirected(url: str, place: str) -> str:
    """Return the URL to which a page redirects.

    Raises FetchError if it is not an HTTP address, or is a local one of another server.
    """
    try:
        target = urljoin(url, place)
        web_address = URL(target).scheme in ("http", "https") and bool(URL(target).raw_host)
    except ValueError:
        web_address = False
    shown = printable(redacted(target if web_address else place), one_line=True)[:_LONGEST_ADDRESS]
    if not web_address:
        raise FetchError(f"it redirects to {shown}, which is not an address of a web page")
    if not same_server(url, target) and await asyncio.to_thread(leads_to_local, target):
        raise FetchError(f"it redirects to {shown}, which is {LOCAL}; such redirects are not followed")
    return target


def checked_address(url: str, meaning: str) -> str:
    """Return a URL without its fragment.

    Raises InputError if it is not an HTTP address or contains a user name.
    """
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise InputError(
            f"{redacted(url)!r} ({meaning}) is not a valid address; "
            "it must start with https:// and contain no user name"
        )
    return urldefrag(url.strip()).url


def _fetch_together(client: WebClient, work: Iterable[Awaitable[T]]) -> list[T]:
    """Run awaitables with a client and return their results.

    A separate event loop is used, so that it also works in notebooks.
    """

    async def fetch() -> list[T]:
        async with client:
            return await asyncio.gather(*work)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, fetch()).result()


# Addresses

_MEDIA_TYPES = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "text/plain": "txt",
    "text/markdown": "md",
    "application/pdf": "pdf",
}


def read_urls(
    urls: Mapping[str, Sequence[str]],
    *,
    cache: Path,
    licence: str | None = None,
    manners: Manners | None = None,
) -> list[FoundPage]:
    """Fetch the given addresses of each concept.

    Each address is fetched once, unless it is in the folder `cache`.

    The limits of `manners` apply to each server separately. Pages that cannot be fetched have the status
    "failed" ("missing" for 404 and 410).

    Raises
    ------
    InputError
        An address is not valid, or the folder cannot be written to.
    """
    addresses = [
        (concept, checked_address(url, f"a source of {concept!r}"))
        for concept, urls_of_concept in urls.items()
        for url in urls_of_concept
    ]
    client = WebClient(cache, manners)
    pages = _fetch_together(client, (_fetch_page(url, client) for _, url in addresses))
    columns = {"source_tag": "web", "licence": licence}
    return [(concept, page, columns) for (concept, _), page in zip(addresses, pages, strict=True)]


async def _fetch_page(url: str, client: WebClient) -> SourcePage:
    name = unquote(PurePosixPath(urlsplit(url).path).name) or urlsplit(url).netloc

    def read(reply: HttpReply) -> SourcePage:
        declared = reply.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        kind = _MEDIA_TYPES.get(declared) or KINDS.get(PurePosixPath(urlsplit(reply.url).path).suffix.lower())
        if kind is None:
            raise FetchError(f"the type of the page is not supported ({declared or 'unknown'})")
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
    """Parse a reply of the API; for a missing page, `parse` is None."""
    try:
        api_reply = _ApiReply.model_validate_json(reply.body.decode("utf-8-sig", errors="replace"))
    except ValidationError:
        raise TransientError("the reply of the server is not valid JSON of the API") from None
    error = api_reply.error
    if error is None or error.code in _MISSING_PAGE:
        return api_reply
    problem = f"the wiki answered {printable(error.info or error.code, one_line=True)[:200]!r}"
    if error.code in _TEMPORARY or error.code.startswith("internal_api_error"):
        raise TransientError(problem)
    raise FetchError(problem)


_MISSING_PAGE = ("missingtitle", "nosuchpageid", "invalidtitle")
"""Codes of errors of the API for a page that does not exist."""
_TEMPORARY = ("maxlag", "ratelimited", "readonly")
"""Codes of errors of the API that pass."""


class MediaWiki:
    """Access to the pages of one wiki.

    Parameters
    ----------
    client
        HTTP client.
    api
        Address of the wiki's `api.php`.
    """

    def __init__(self, client: WebClient, api: str) -> None:
        self._client = client
        self._api = api

    async def page(self, title: str) -> SourcePage:
        """Fetch the page with a title; pages that cannot be fetched have the status "failed".

        Raises
        ------
        ProviderError
            The server cannot be reached; pages fetched so far are cached.
        """
        about_site = {"action": "query", "meta": "siteinfo", "siprop": "rightsinfo"}
        about_page = {
            "action": "parse",
            "redirects": "1",
            "disableeditsection": "1",
            "disablelimitreport": "1",
            "disabletoc": "1",
            "page": title,
            "prop": "text|links|properties",
        }
        try:
            # The licence is fetched first; later, it would be delayed by the requests for all pages.
            licence = await self._query(str, _licence_in, about_site)
            page = await self._query(SourcePage, lambda reply: self._read_page(title, reply), about_page)
        except FetchError as error:
            return SourcePage(self._address(title), title, status="failed", problem=str(error))
        return replace(page, licence=licence or None)

    async def backlinks(self, title: str) -> list[str]:
        """Fetch the titles of up to 500 articles that link to a page; empty if they cannot be fetched.

        Raises
        ------
        ProviderError
            The server cannot be reached.
        """
        query = {
            "action": "query",
            "list": "backlinks",
            "blnamespace": "0",
            "blfilterredir": "nonredirects",
            "bllimit": "500",
            "bltitle": title,
        }
        try:
            return await self._query(list[str], _backlinks_in, query)
        except FetchError:
            return []

    async def _query(self, shape: type[T], read: Callable[[_ApiReply], T], query: dict[str, str]) -> T:
        """Return what a function reads from the reply to a query of the API."""
        params = query | {"format": "json", "formatversion": "2", "maxlag": "5", "utf8": "1"}
        try:
            return await self._client.get(
                self._api, params, shape, lambda reply: read(_read_api_reply(reply))
            )
        except UnreachableError as error:
            raise ProviderError(
                f"{error}; pages fetched so far are cached; run again when {self._api} can be reached"
            ) from None

    def _address(self, title: str) -> str:
        return urljoin(self._api, "/wiki/" + quote(title.replace(" ", "_"), safe=";@$!*(),/:"))

    def _read_page(self, title: str, reply: _ApiReply) -> SourcePage:
        """Parse a page: its text, and the links in its paragraphs to existing articles."""
        parsed = reply.parse
        if parsed is None:
            return SourcePage(
                self._address(title), title, status="missing", problem=f"{title!r} does not exist in the wiki"
            )
        if "disambiguation" in parsed.properties:
            problem = f"{parsed.title!r} is a disambiguation page; give the full title of the intended page"
            return SourcePage(
                self._address(parsed.title), parsed.title, status="disambiguation", problem=problem
            )
        html = read_html(parsed.text)
        articles = {link.title for link in parsed.links if link.ns == 0 and link.exists}
        links = tuple(link for link in dict.fromkeys(html.links) if link.title in articles)
        return page_of(self._address(parsed.title), parsed.title, html._replace(title=None, links=links))


def _licence_in(reply: _ApiReply) -> str:
    return str(reply.query.rightsinfo.get("text") or "")


def _backlinks_in(reply: _ApiReply) -> list[str]:
    return [link.title for link in reply.query.backlinks]


def collect_pages(
    titles: Mapping[str, Sequence[str]],
    wiki: Wikipedia,
    *,
    cache: Path,
    encoder: Encoder | None = None,
    manners: Manners | None = None,
) -> list[FoundPage]:
    """Fetch the wiki pages of all concepts, each page once.

    After an interruption, only pages that are missing in the folder `cache` are fetched.

    Parameters
    ----------
    titles
        Concept -> titles of its own pages in the wiki (usually one, the concept's name).
    wiki
        Address of the wiki, and the depth, direction and number of links followed from a concept's own pages.
    cache
        Folder of the cache.
    encoder
        Sentence encoder used to select the linked pages with the titles most similar to the concept; None:
        the first ones in the text.
    manners
        Request limits; None: those of `wiki`.

    Raises
    ------
    InputError
        The address is not valid, or the folder cannot be written to.
    ProviderError
        The wiki cannot be reached. Single pages that cannot be fetched do not raise; they have a status.
    """
    client = WebClient(cache, manners or Manners(rate=wiki.rate, contact=wiki.contact))
    site = MediaWiki(client, checked_address(wiki.api, "the API of a wiki"))

    async def search(concept: str, linked: Iterable[str]) -> list[FoundPage]:
        """Collect the pages of a concept, breadth first, each page once, even with several titles."""
        pages: list[FoundPage] = []
        visited: set[str] = set()
        similarity: dict[str, float] = {}
        for level in range(wiki.depth + 1):
            level_titles = [title for title in dict.fromkeys(linked) if title not in visited]
            if level and level_titles:
                if encoder is not None:
                    vectors = encoder.encode([concept, *level_titles])
                    cosines = (vectors[1:] @ vectors[0]).tolist()
                    similarity = dict(zip(level_titles, cosines, strict=True))
                    level_titles.sort(key=similarity.__getitem__, reverse=True)
                level_titles = level_titles[: wiki.pages]
            level_pages = await asyncio.gather(*map(site.page, level_titles))
            next_titles: list[str] = []
            for title, page in zip(level_titles, level_pages, strict=True):
                if page.title in visited:
                    continue
                visited |= {title, page.title}
                columns = {"source_tag": "wikipedia", "depth": level, "similarity": similarity.get(title)}
                pages.append((concept, page, columns))
                if level < wiki.depth and page.status == "ok":
                    next_titles += await _linked_titles(site, page, wiki.links)
            linked = next_titles
        return pages

    searches = (search(concept, own_titles) for concept, own_titles in titles.items())
    return list(chain.from_iterable(_fetch_together(client, searches)))


async def _linked_titles(
    site: MediaWiki, page: SourcePage, direction: Literal["forward", "backward", "both"]
) -> list[str]:
    """Return the titles of the pages that a page links to, that link to it, or both."""
    titles: list[str] = []
    if direction != "backward":
        titles += [link.title for link in page.links]
    if direction != "forward":
        titles += await site.backlinks(page.title)
    return titles
