"""What every reader of sources gives: one row per page and concept, and each page's text once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import polars as pl

from tiltmeter.benchmarks._tables import PAGES
from tiltmeter.errors import InputError

__all__ = ["Link", "Pages", "check_places", "join_pages", "row", "table"]


class Link(NamedTuple):
    """A hyperlink in the running text of a page."""

    title: str
    """Of the page it leads to."""
    label: str
    """The words that are linked."""


@dataclass(frozen=True, slots=True)
class Pages:
    """Pages found for concepts."""

    pages: pl.DataFrame
    """PAGES: one row per page and concept."""
    texts: Mapping[str, str]
    """Text by source, for the pages whose status is "ok"; paragraphs are parted by an empty line."""
    links: Mapping[str, tuple[Link, ...]] = field(default_factory=dict)
    """Links in the running text by source, in order; only pages of a wiki have them."""


def join_pages(*found: Pages) -> Pages:
    """All pages together, in order; a page that was found twice for a concept stands there once, and ok where it is so anywhere."""
    tables = pl.concat([table([]), *(one.pages for one in found)])
    kept = (
        tables.with_row_index("place")
        .sort(pl.col("status") != "ok", "place")
        .unique(["domain", "concept", "source"], keep="first", maintain_order=True)
        .sort("place")
        .drop("place")
    )
    texts = {source: text for one in found for source, text in one.texts.items()}
    links = {source: linked for one in found for source, linked in one.links.items()}
    return Pages(kept, texts, links)


def row(domain: str, concept: str, source: str, source_tag: str, title: str, **more: Any) -> dict[str, Any]:
    """One row of PAGES; what is not given is 0 (depth), "ok" (status) or null."""
    made = dict.fromkeys(PAGES) | {"domain": domain, "concept": concept, "source": source, "source_tag": source_tag, "title": title}
    return made | {"depth": 0, "status": "ok"} | more


def table(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """The rows as PAGES."""
    return pl.DataFrame(list(rows), schema=dict(PAGES), orient="row")


def check_places(places: Mapping[str, Sequence[str]], what: str) -> None:
    """Every concept must have a name and at least one place its text comes from.

    Raises
    ------
    InputError
        There is no concept, or one without a name or place, or a place that is no text.
    """
    if not places:
        raise InputError(f"there is no concept to find sources for: give at least one with its {what}")
    for concept, given in places.items():
        if not concept.strip():
            raise InputError(f"a concept without a name has {what}: give it a name")
        if isinstance(given, str):
            raise InputError(f"the {what} of {concept!r} must be a list, not one text: write [{given!r}]")
        if not given or not all(str(one).strip() for one in given):
            raise InputError(f"the concept {concept!r} has no {what}, or an empty one: give at least one, or leave the concept out")
