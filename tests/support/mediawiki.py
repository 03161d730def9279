"""A real HTTP server with the actions query and parse of the MediaWiki API.

It misbehaves as a script says and counts its requests and answers:

wiki = Wiki()
wiki.add("Islam", "<p>Islam is a religion.</p>", links=["Quran"])
wiki.redirect("Moslem faith", "Islam")
with WikiServer(wiki, misbehave=lambda page, nth: Fault(status=503) if nth == 1 else None) as server:
    collect_pages({"Islam": ["Moslem faith"]}, Wikipedia(api=server.api), cache=folder)
assert server.delivered["Islam"] == 1
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any
from urllib.parse import quote

from aiohttp import web

from support.threaded_server import ThreadedServer

LICENCE = "Creative Commons Attribution-Share Alike 4.0"


@dataclass(frozen=True, slots=True)
class Fault:
    """What the server does with one request instead of answering, or before it does."""

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b"<html><body>upstream error</body></html>"
    code: str | None = None
    """An error of the API itself, sent with status 200 as MediaWiki does."""
    delay: float = 0.0
    cut: bool = False
    """Send half of the proper answer, then close the connection."""
    charset: str | None = None
    """Declare this encoding, whatever the bytes are."""
    mark: bool = False
    """Begin with a byte order mark."""
    undecodable: bool = False
    """Put bytes into the text that are no UTF-8."""


@dataclass(slots=True)
class _Page:
    html: str
    links: list[str]
    disambiguation: bool


class Wiki:
    """The contents of the wiki."""

    def __init__(self) -> None:
        self.pages: dict[str, _Page] = {}
        self.redirects: dict[str, str] = {}

    def add(self, title: str, html: str, *, links: Sequence[str] = (), disambiguation: bool = False) -> None:
        """A page; `links` are put into a paragraph at its end, each as a link with its title as words."""
        if links:
            anchors = ", ".join(f'<a href="/wiki/{quote(link)}" title="{link}">{link}</a>' for link in links)
            html += f"<p>This page also speaks of {anchors}.</p>"
        self.pages[title] = _Page(html, list(links), disambiguation)

    def redirect(self, title: str, to: str) -> None:
        self.redirects[title] = to

    def resolve(self, title: str) -> tuple[str, list[tuple[str, str]]]:
        """The last title of a chain of redirects, and its steps."""
        steps: list[tuple[str, str]] = []
        while title in self.redirects and (title, self.redirects[title]) not in steps:
            steps.append((title, self.redirects[title]))
            title = self.redirects[title]
        return title, steps


Misbehave = Callable[[str, int], "Fault | None"]


class WikiServer(ThreadedServer):
    """A server of a wiki; see the docstring of the module.

    Parameters
    ----------
    misbehave
        (page, nth request for it from 1) -> a fault, or None. The page of the licence is "siteinfo", of
        backlinks "backlinks TITLE".
    files
        Other addresses of the server: path -> (content type, body).
    """

    def __init__(
        self,
        wiki: Wiki,
        misbehave: Misbehave | None = None,
        files: Mapping[str, tuple[str, bytes]] | None = None,
        *,
        delay: float = 0.0,
    ) -> None:
        super().__init__()
        self._wiki = wiki
        self._misbehave = misbehave or (lambda page, nth: None)
        self._files = files or {}
        self._delay = delay
        self.asked: Counter[str] = Counter()
        """Requests by page, whatever became of them."""
        self.delivered: Counter[str] = Counter()
        """Whole texts of pages (and other files) that were handed out."""
        self.titles: Counter[str] = Counter()
        """How often each title was asked for, as it was asked for."""
        self.times: list[float] = []
        """When each request came."""
        self.agents: set[str] = set()

    @property
    def most_at_once(self) -> int:
        return self.max_concurrent

    @property
    def api(self) -> str:
        return f"{self.root}/w/api.php"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        page = self._page_of(request)
        with self._lock:
            self.asked[page] += 1
            nth = self.asked[page]
            self.times.append(monotonic())
            self.agents.add(request.headers.get("User-Agent", ""))
        return await self._respond(request, page, self._misbehave(page, nth) or Fault())

    def _page_of(self, request: web.Request) -> str:
        query = request.query
        if request.path != "/w/api.php":
            return request.path
        if query.get("action") == "parse":
            return self._wiki.resolve(query["page"])[0]
        return f"backlinks {query['bltitle']}" if query.get("list") == "backlinks" else "siteinfo"

    async def _respond(self, request: web.Request, page: str, fault: Fault) -> web.StreamResponse:
        await asyncio.sleep(fault.delay or self._delay)
        if fault.status is not None:
            return web.Response(
                status=fault.status, headers=fault.headers, body=fault.body, content_type="text/html"
            )
        if request.path == "/w/api.php":
            kind = f"application/json; charset={fault.charset or 'utf-8'}"
            answer = (
                {"error": {"code": fault.code, "info": "The wiki says no."}}
                if fault.code
                else self._said_to(request.query)
            )
            body = json.dumps(answer, ensure_ascii=False).encode()
        elif request.path in self._files:
            kind, body = self._files[request.path]
        else:
            return web.Response(status=404, text="not found")
        if fault.undecodable:
            body = body.replace(b"religion", b"religion \xff\xfe")
        body = b"\xef\xbb\xbf" * fault.mark + body
        response = web.StreamResponse(
            headers={"Content-Type": kind, "Content-Length": str(len(body)), **fault.headers}
        )
        await response.prepare(request)
        if fault.cut:
            await response.write(body[: len(body) // 2])
            if request.transport is not None:
                request.transport.close()
            return response
        await response.write(body[:-1])
        if not fault.code:  # counted before the client can go on, so that a test never looks too early
            with self._lock:
                self.delivered[page] += 1
        await response.write(body[-1:])
        await response.write_eof()
        return response

    def _said_to(self, query: Mapping[str, str]) -> dict[str, Any]:
        if query.get("formatversion") != "2" or query.get("format") != "json":
            return {"error": {"code": "badformat", "info": "Ask for format=json and formatversion=2."}}
        if query.get("action") == "parse":
            return self._parse(query["page"])
        if query.get("list") == "backlinks":
            return self._backlinks(query)
        return {"batchcomplete": True, "query": {"rightsinfo": {"url": "", "text": LICENCE}}}

    def _parse(self, title: str) -> dict[str, Any]:
        self.titles[title] += 1
        title, steps = self._wiki.resolve((title[:1].upper() + title[1:]).replace("_", " "))
        if not title or set(title) & set("#<>[]|{}") or len(title) > 255:
            return {"error": {"code": "invalidtitle", "info": "Bad title."}}
        page = self._wiki.pages.get(title)
        if page is None:
            return {"error": {"code": "missingtitle", "info": "The page you specified doesn't exist."}}
        links = [
            {"ns": 0, "title": link, "exists": link in self._wiki.pages or link in self._wiki.redirects}
            for link in page.links
        ]
        by_name: dict[str, Any] = {
            "title": title,
            "pageid": 1,
            "redirects": [{"from": old, "to": new} for old, new in steps],
            "links": links,
        }
        by_name["properties"] = {"disambiguation": ""} if page.disambiguation else {}
        return {"parse": {**by_name, "text": f'<div class="mw-parser-output">{page.html}</div>'}}

    def _backlinks(self, query: Mapping[str, str]) -> dict[str, Any]:
        title = query["bltitle"]
        linking = [name for name, page in self._wiki.pages.items() if title in page.links]
        return {
            "query": {"backlinks": [{"ns": 0, "title": name} for name in linking[: int(query["bllimit"])]]}
        }
