"""Pages of a wiki for every concept: its own page, and what is linked with it, breadth first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tiltmeter.benchmarks.sources._loop import finish
from tiltmeter.benchmarks.sources._manners import Manners
from tiltmeter.benchmarks.sources._mediawiki import WIKIPEDIA, MediaWiki, WikiPage
from tiltmeter.benchmarks.sources._pages import Link, Pages, check_places, row, table
from tiltmeter.errors import InputError
from tiltmeter.study import Encoder

__all__ = ["Follow", "collect_pages"]

Follow = Literal["forelinks", "backlinks"]


class _Concept:
    """How far the search for one concept has come."""

    def __init__(self, name: str, titles: Sequence[str]) -> None:
        self.name = name
        self.next: list[str] = [str(title).strip() for title in titles]
        self.similarity: dict[str, float] = {}
        self.visited: set[str] = set()
        self.new: list[WikiPage] = []


class _Settings(NamedTuple):
    domain: str
    n: int
    follow: Sequence[Follow]
    encoder: Encoder | None
    source_tag: str


def collect_pages(
    titles: Mapping[str, Sequence[str]],
    *,
    domain: str,
    cache: Path,
    api: str = WIKIPEDIA,
    depth: int = 0,
    n: int = 10,
    follow: Sequence[Follow] = ("forelinks",),
    encoder: Encoder | None = None,
    source_tag: str = "wikipedia",
    manners: Manners | None = None,
) -> Pages:
    """Fetch the pages of all concepts, each page once for all of them.

    Killed and called again, it fetches only what the folder `cache` lacks.

    Parameters
    ----------
    titles
        Concept -> titles of its own pages in the wiki (usually one, the concept's name).
    depth
        Links followed from a concept's own pages: 0 only these, 1 what they link to, ...
    n
        Linked pages taken for each concept at each depth: those whose titles are most similar to the concept where there is an
        encoder, the first ones in the order of the text otherwise.
    follow
        "forelinks" (what a page's running text links to), "backlinks" (what links to it), or both.

    Raises
    ------
    InputError
        No concept, a concept without title, a negative depth, or a folder that cannot be written to.
    ProviderError
        The wiki cannot be reached. A single page that cannot be had is a row with its status instead.
    """
    check_places(titles, "page title")
    if depth < 0 or n < 1:
        raise InputError(f"depth must be 0 or more and n 1 or more, not {depth} and {n}")
    if unknown := set(follow) - {"forelinks", "backlinks"}:
        raise InputError(f"links can be followed as forelinks or backlinks, not {sorted(unknown)[0]!r}")
    wiki = MediaWiki(cache, api=api, manners=manners)
    return finish(_collect(wiki, titles, depth, _Settings(domain, n, follow, encoder, source_tag)))


async def _collect(wiki: MediaWiki, titles: Mapping[str, Sequence[str]], depth: int, settings: _Settings) -> Pages:
    concepts = [_Concept(name, given) for name, given in titles.items()]
    rows: list[dict[str, Any]] = []
    texts: dict[str, str] = {}
    links: dict[str, tuple[Link, ...]] = {}
    async with wiki:
        for level in range(depth + 1):
            found = await wiki.pages(title for concept in concepts for title in concept.next)
            for concept in concepts:
                rows += _visit(concept, found, level, settings)
                texts |= {page.source: page.text for page in concept.new}
                links |= {page.source: page.links for page in concept.new}
            if level < depth:
                for concept in concepts:
                    _choose(concept, await _linked(wiki, concept.new, settings), settings)
    order = {concept.name: place for place, concept in enumerate(concepts)}
    return Pages(table(sorted(rows, key=lambda one: order[one["concept"]])), texts, links)


def _visit(concept: _Concept, found: Mapping[str, WikiPage], level: int, settings: _Settings) -> list[dict[str, Any]]:
    """Rows of the concept's pages at this depth, those left out that it had already under another title."""
    rows: list[dict[str, Any]] = []
    concept.new = []
    for title in concept.next:
        page = found[title]
        if page.title in concept.visited:
            continue
        concept.visited |= {title, page.title}
        more = {name: getattr(page, name) for name in ("licence", "status", "problem")}
        similarity = concept.similarity.get(title)
        rows.append(
            row(settings.domain, concept.name, page.source, settings.source_tag, page.title, depth=level, similarity=similarity, **more)
        )
        if page.status == "ok":
            concept.new.append(page)
    concept.next = []
    return rows


async def _linked(wiki: MediaWiki, pages: Iterable[WikiPage], settings: _Settings) -> list[str]:
    found: dict[str, None] = {}
    for page in pages:
        if "forelinks" in settings.follow:
            found |= dict.fromkeys(link.title for link in page.links)
        if "backlinks" in settings.follow:
            found |= dict.fromkeys(await wiki.backlinks(page.title))
    return list(found)


def _choose(concept: _Concept, candidates: Sequence[str], settings: _Settings) -> None:
    fresh = [title for title in candidates if title not in concept.visited]
    if settings.encoder is not None and fresh:
        import numpy as np

        vectors = settings.encoder.encode([concept.name, *fresh])
        near = vectors[1:] @ vectors[0]
        nearest = np.argsort(-near, kind="stable")[: settings.n]
        fresh = [fresh[place] for place in nearest]
        concept.similarity = dict(zip(fresh, near[nearest].tolist(), strict=True))
    concept.next = fresh[: settings.n]
