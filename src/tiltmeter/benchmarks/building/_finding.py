"""The stages that find: keywords, pages and the sentences in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from tiltmeter.benchmarks._tables import KEYWORDS, SENTENCES, Schema
from tiltmeter.benchmarks.building._needs import Needs, asked_all
from tiltmeter.benchmarks.building._store import Made
from tiltmeter.benchmarks.files import Tiers, read_tiers
from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean

if TYPE_CHECKING:
    from tiltmeter.benchmarks.sources import Manners, Pages
    from tiltmeter.benchmarks.spec import Spec, Wikipedia

__all__ = ["TEXTS", "find_keywords", "find_pages", "find_sentences", "scraped_before"]

TEXTS: Schema = {"source": pl.String, "text": pl.String}
"""The text of each page, once; paragraphs are parted by an empty line."""
_FOLLOW = {"forward": ("forelinks",), "backward": ("backlinks",), "both": ("forelinks", "backlinks")}


def scraped_before(spec: Spec, home: Path) -> Tiers | None:
    """Keywords and sentences of a file of SAGED's; raises InputError where it is about a concept the spec does not know."""
    if spec.sources.saged is None:
        return None
    tiers = read_tiers(home / spec.sources.saged)
    for concept in tiers.keywords["concept"].unique(maintain_order=True):
        if concept not in spec.concepts:
            hint = did_you_mean(concept, list(spec.concepts))
            raise InputError(f"{home / spec.sources.saged} is about {concept!r}, which is no concept of the spec: {hint}; add it there")
    domain = pl.lit(spec.domain).alias("domain")
    return Tiers(tiers.keywords.with_columns(domain), tiers.sentences.with_columns(domain), tiers.sources)


def find_keywords(spec: Spec, before: Tiers | None, needs: Needs) -> Made:
    """Keywords given, found before, asked for, and taken from pages; a concept without any is found by its own name.

    Those given stay as they are. The others are reduced to keywords of which none contains another (or a given one), the nearest to the
    concept.
    """
    from tiltmeter.benchmarks.keywords import given_keywords, join_keywords, nearest, non_containing

    lists = {name: concept.keywords for name, concept in spec.sought.items() if concept.keywords}
    given = given_keywords(lists, domain=spec.domain) if lists else pl.DataFrame(schema=dict(KEYWORDS))
    given = join_keywords(given, *([before.keywords] if before else []))
    found, problems = _further(spec, needs)
    if not found.is_empty():
        reduced = non_containing(join_keywords(given, found), spec.definition).filter(pl.col("kind") != "given")
        found = nearest(reduced, spec.keywords.keep, needs.encoder("keywords.keep"))
    whole = join_keywords(given, found)
    if nameless := [name for name in spec.sought if name not in set(whole["concept"])]:
        whole = join_keywords(whole, given_keywords({name: [name] for name in nameless}, domain=spec.domain))
    return Made({"keywords": _by_concept(spec, whole)}, problems, whole=not problems)


def _further(spec: Spec, needs: Needs) -> tuple[pl.DataFrame, tuple[str, ...]]:
    from tiltmeter.benchmarks.keywords import ask_keywords, join_keywords, linked_keywords, similar_keywords

    wanted, found = spec.keywords, []
    problems: tuple[str, ...] = ()
    if wanted.asked:
        judge = needs.judge("keywords.asked")
        asked = ask_keywords(
            judge, list(spec.sought), domain=spec.domain, rounds=wanted.rounds, kinds=wanted.asked, definition=spec.definition
        )
        problems = asked_all(judge, "keywords")
        found.append(asked.keywords)
    if spec.sources.wikipedia is not None and (wanted.similar or wanted.linked):
        own = _wiki_pages(spec, spec.sources.wikipedia, needs, depth=0)
        if wanted.similar:
            spare = max(len(concept.keywords) for concept in spec.sought.values())  # those given may be among the nearest
            found.append(similar_keywords(own, n=wanted.keep + spare, encoder=needs.encoder("keywords.similar")))
        if wanted.linked:
            found.append(linked_keywords(own))
        problems += _failed("keywords", own.pages)
    return join_keywords(*found), problems


def find_pages(spec: Spec, home: Path, needs: Needs) -> Made:
    """Pages of the wiki, files, web pages and written articles of every concept, with their texts."""
    from tiltmeter.benchmarks.sources import join_pages, read_urls, write_articles

    sources, found = spec.sources, []
    if files := {name: [*concept.local, *sources.local] for name, concept in spec.sought.items() if concept.local or sources.local}:
        found.append(_local(files, home, spec))
    if urls := {name: [*concept.urls, *sources.urls] for name, concept in spec.sought.items() if concept.urls or sources.urls}:
        needs.network("sources.urls")
        found.append(read_urls(urls, domain=spec.domain, cache=needs.cache, licence=sources.licence))
    if sources.wikipedia is not None:
        found.append(_wiki_pages(spec, sources.wikipedia, needs, depth=sources.wikipedia.depth))
    if sources.written is not None:
        judge = needs.judge("sources.written")
        found.append(write_articles(judge, list(spec.sought), domain=spec.domain, words=sources.written.words))
        asked_all(judge, "pages")  # an article that failed stands among the pages, with the reason
    joined = join_pages(*found)
    problems = _failed("pages", joined.pages)
    texts = pl.DataFrame({"source": list(joined.texts), "text": list(joined.texts.values())}, schema=dict(TEXTS))
    made = {"pages": _by_concept(spec, joined.pages), "texts": texts}
    return Made(made, (*problems, *_in_part(joined.pages)), whole=not problems)


def _local(files: Mapping[str, Sequence[str]], home: Path, spec: Spec) -> Pages:
    """Files as the spec names them, wherever it is called from."""
    from tiltmeter.benchmarks.sources import Pages, read_files

    placed = {concept: [str(home / name) for name in names] for concept, names in files.items()}
    found = read_files(placed, domain=spec.domain, licence=spec.sources.licence)
    prefix = "" if home == Path() else f"{home}/"
    named = found.pages.with_columns(pl.col("source").str.strip_prefix(prefix))
    return Pages(named, {source.removeprefix(prefix): text for source, text in found.texts.items()})


def _wiki_pages(spec: Spec, wiki: Wikipedia, needs: Needs, *, depth: int) -> Pages:
    from tiltmeter.benchmarks.sources import collect_pages

    needs.network("sources.wikipedia")
    return collect_pages(
        {name: concept.wikipedia or [name] for name, concept in spec.sought.items()},
        domain=spec.domain,
        cache=needs.cache,
        api=wiki.api,
        depth=depth,
        n=wiki.pages,
        follow=_FOLLOW[wiki.links],  # type: ignore[arg-type]
        encoder=needs.encoder("sources.wikipedia.pages") if depth else None,
        manners=_manners(wiki),
    )


def _manners(wiki: Wikipedia) -> Manners:
    from tiltmeter.benchmarks.sources import Manners

    plain = Manners(rate=wiki.rate)
    return Manners(rate=wiki.rate, user_agent=f"{plain.agent} {wiki.contact}") if wiki.contact else plain


def _failed(stage: str, pages: pl.DataFrame) -> tuple[str, ...]:
    """One sentence about pages that could not be had and may be another time."""
    failed = pages.filter(pl.col("status") == "failed")
    if failed.is_empty():
        return ()
    first = failed.row(0, named=True)
    said = f"{stage}: {failed.height:,} of {pages.height:,} pages could not be had, such as {first['source']} ({first['problem']})"
    return (f"{said}; run the same command again to try once more",)


def _in_part(pages: pl.DataFrame) -> tuple[str, ...]:
    """One sentence about pages that were not read to their end."""
    cut = pages.filter(pl.col("status") == "ok", pl.col("problem").is_not_null()).unique("source", maintain_order=True)
    if cut.is_empty():
        return ()
    first = cut.row(0, named=True)
    return (f"pages: {cut.height:,} of {pages.height:,} pages could not be read whole, such as {first['source']} ({first['problem']})",)


def find_sentences(spec: Spec, before: Tiers | None, keywords: pl.DataFrame, pages: pl.DataFrame, texts: pl.DataFrame) -> Made:
    """The sentences that hold a keyword, and those SAGED scraped; what got none is told."""
    from tiltmeter.benchmarks.sources import missing, scrape

    found = pl.DataFrame(schema=dict(SENTENCES))
    problems: tuple[str, ...] = ()
    if not pages.is_empty():
        found = scrape(pages, dict(texts.iter_rows()), keywords)
    if before is not None:
        found = pl.concat([found, before.sentences]).unique(["concept", "sentence"], keep="first", maintain_order=True)
    elif not pages.is_empty():
        lacking = missing(pages, keywords, found)
        problems = tuple(_lacking(row["concept"], row["keyword"], row["reason"]) for row in lacking.iter_rows(named=True))
    return Made({"sentences": _by_concept(spec, found)}, problems)


def _lacking(concept: str, keyword: str | None, reason: str) -> str:
    about = f"the concept {concept!r}" if keyword is None else f"the keyword {keyword!r} of {concept!r}"
    return f"sentences: {about} has none ({reason})"


def _by_concept(spec: Spec, table: pl.DataFrame) -> pl.DataFrame:
    """In the order of the spec."""
    order = pl.DataFrame({"concept": list(spec.concepts)}).with_row_index("order")
    return (
        table.join(order, on="concept", how="left", maintain_order="left").sort("order", maintain_order=True, nulls_last=True).drop("order")
    )
