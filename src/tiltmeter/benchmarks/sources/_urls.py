"""Given addresses as sources: pages of the web, text and PDF."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit

from tiltmeter._text import redacted
from tiltmeter.benchmarks.sources._cache import Cache
from tiltmeter.benchmarks.sources._documents import KINDS, Document, UnreadableError, read_document
from tiltmeter.benchmarks.sources._fetch import Failed, Fetcher, Reply
from tiltmeter.benchmarks.sources._loop import finish
from tiltmeter.benchmarks.sources._manners import Manners
from tiltmeter.benchmarks.sources._pages import Pages, check_places, row, table
from tiltmeter.errors import InputError

__all__ = ["read_urls"]

_TAG = "web"
_KINDS = {"text/html": "html", "application/xhtml+xml": "html", "text/plain": "txt", "text/markdown": "md", "application/pdf": "pdf"}


def read_urls(
    urls: Mapping[str, Sequence[str]], *, domain: str, cache: Path, licence: str | None = None, manners: Manners | None = None
) -> Pages:
    """Fetch given addresses for each concept, each once for all of them; what the folder `cache` holds is not fetched again.

    The limits of `manners` hold for each server by itself. What cannot be had is a row with status "failed" ("missing" for 404).

    Raises
    ------
    InputError
        A concept without addresses, an address that is none, or a folder that cannot be written to.
    """
    check_places(urls, "addresses")
    wanted = {concept: list(dict.fromkeys(_checked(str(url), concept) for url in given)) for concept, given in urls.items()}
    distinct = list(dict.fromkeys(url for given in wanted.values() for url in given))
    found = finish(_fetch(distinct, Cache(cache, "web"), manners or Manners()))
    rows = [
        row(domain, concept, url, _TAG, found[url]["title"], licence=licence, status=found[url]["status"], problem=found[url]["problem"])
        for concept, given in wanted.items()
        for url in given
    ]
    return Pages(table(rows), {url: one["text"] for url, one in found.items() if one["text"]})


def _checked(url: str, concept: str) -> str:
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise InputError(f"{redacted(url)!r} (a source of {concept!r}) is no address: it should begin with https:// and hold no user name")
    return urldefrag(url.strip()).url


async def _fetch(urls: Sequence[str], cache: Cache, manners: Manners) -> dict[str, dict[str, Any]]:
    async with AsyncExitStack() as stack:
        hosts = dict.fromkeys(urlsplit(url).netloc for url in urls)
        fetchers = {host: await stack.enter_async_context(Fetcher(manners)) for host in hosts}
        found = await asyncio.gather(*(_one(url, fetchers[urlsplit(url).netloc], cache) for url in urls))
    return dict(zip(urls, found, strict=True))


async def _one(url: str, fetcher: Fetcher, cache: Cache) -> dict[str, Any]:
    kept: dict[str, Any] | None = cache.get("web", url)
    if kept is not None:
        return kept
    name = unquote(PurePosixPath(urlsplit(url).path).name) or urlsplit(url).netloc
    made: dict[str, Any] = {"title": name, "text": "", "status": "failed", "problem": None}
    try:
        reply = await fetcher.get(url, {}, lambda one: one)
        text, title, note = await asyncio.to_thread(_read, reply)
    except Failed as error:
        missing = "answered 404" in str(error) or "answered 410" in str(error)
        return made | {"status": "missing" if missing else "failed", "problem": str(error)}
    made |= {"title": title or name, "text": text, "status": "ok" if text else "empty", "problem": note if text else "it holds no text"}
    cache.put("web", url, made)
    return made


def _read(reply: Reply) -> Document:
    told = reply.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    kind = _KINDS.get(told) or KINDS.get(PurePosixPath(urlsplit(reply.url).path).suffix.lower())
    if kind is None:
        raise Failed(f"it is of a kind that cannot be read ({told or 'not named'})")
    try:
        return read_document(reply.body, kind, reply.charset)
    except UnreadableError as error:
        raise Failed(str(error)) from None
