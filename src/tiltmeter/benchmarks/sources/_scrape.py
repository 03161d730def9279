"""The sentences of each concept's pages that hold one of its keywords as a whole word."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import polars as pl

from tiltmeter.benchmarks._tables import SENTENCES
from tiltmeter.errors import InputError

__all__ = ["missing", "scrape", "whole_words"]

Split = Callable[[str], list[str]]

_FEWEST_WORDS = 6
_LETTER = re.compile(r"[^\W_]")
_APOSTROPHES = "'’ʼ"


@cache
def _marks() -> str:
    """Characters that belong to the letter before them and that `\\w` leaves out: combining marks and joiners, as a character class."""
    codes = [code for code in range(0x300, sys.maxunicode + 1) if unicodedata.category(chr(code)).startswith("M")]
    codes += [0x200C, 0x200D]
    ranges: list[list[int]] = []
    for code in sorted(codes):
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)


def whole_words(keywords: Sequence[str]) -> re.Pattern[str]:
    """One pattern for all keywords, the longest first; the group that matched is named "k" and the keyword's place.

    A keyword is found whatever its case, as a whole word: neither a letter, digit nor combining mark stands next to it. Spaces in it
    stand for any white space, apostrophes for straight and curly ones. A possessive ('s) may follow, and hyphens part words.
    Texts must be in composed form (NFC).
    """
    texts = [" ".join(unicodedata.normalize("NFC", keyword).split()) for keyword in keywords]
    # At most words of a text only the keywords with its first letter are tried, which is many times faster than trying all. The
    # order is the same: whatever can be found at one place begins alike. A group is named after its keyword, as numbers follow order.
    by_letter: dict[str, list[int]] = {}
    for place in sorted(range(len(texts)), key=lambda place: (-len(texts[place]), place)):
        by_letter.setdefault(texts[place][:1].casefold(), []).append(place)
    branches = []
    for places in by_letter.values():
        first = "|".join(dict.fromkeys(_piece(texts[place][:1]) for place in places))
        tried = "|".join(f"(?P<k{place}>{_piece(texts[place])})" for place in places)
        branches.append(f"(?={first})(?:{tried})")
    either = "|".join(branches)
    return re.compile(rf"(?<!\w)(?:{either})(?![\w{_marks()}])", re.IGNORECASE)


def _piece(keyword: str) -> str:
    escaped = r"\s+".join(re.escape(word) for word in keyword.split(" "))
    return re.sub(f"[{_APOSTROPHES}]", f"[{_APOSTROPHES}]", escaped)


def scrape(pages: pl.DataFrame, texts: Mapping[str, str], keywords: pl.DataFrame, *, split: Split | None = None) -> pl.DataFrame:
    """Find the sentences of at least six words that hold a keyword.

    A concept gets sentences of its own pages by its own keywords only, each sentence once, under the keyword that comes first in it
    (the longest where several begin there).

    Parameters
    ----------
    pages
        PAGES; those with a status other than "ok" are passed over.
    texts
        Text by source.
    keywords
        KEYWORDS.
    split
        Text -> its sentences; None: `tiltmeter.benchmarks.sentences.split_sentences`. Called once for each text that holds a keyword.

    Returns
    -------
    SENTENCES, in the order of `pages` and of the sentences in them; `position` counts the sentences of a source from 0. What
    concepts and keywords got none is told by `missing`.

    Raises
    ------
    InputError
        There is no keyword, or no page, at all.
    """
    if keywords.is_empty():
        raise InputError("there are no keywords: without any, no sentence can be found")
    if pages.is_empty():
        raise InputError("there are no pages: without sources, no sentence can be found")
    of_concept = _by_concept(keywords)
    cut = _Sentences(texts, split or _default_split())
    rows: list[tuple[Any, ...]] = []
    usable = pages.filter(pl.col("status") == "ok")
    for (domain, concept), its_pages in usable.group_by(["domain", "concept"], maintain_order=True):
        words = of_concept.get((domain, concept))
        if not words:
            continue
        pattern = whole_words(words)
        seen: set[str] = set()
        for source, tag, licence in its_pages.select("source", "source_tag", "licence").iter_rows():
            for position, place, sentence in cut.holding(source, pattern, seen):
                rows.append((domain, concept, words[place], source, tag, position, sentence, licence))
    return pl.DataFrame(rows, schema=dict(SENTENCES), orient="row")


class _Sentences:
    """Sentences of texts, each text cut once and only when needed."""

    def __init__(self, texts: Mapping[str, str], split: Split) -> None:
        self._texts, self._split = texts, split
        self._cut: dict[str, list[str]] = {}
        self._plain: dict[str, str] = {}

    def holding(self, source: str, pattern: re.Pattern[str], seen: set[str]) -> Iterator[tuple[int, int, str]]:
        """Position, keyword's place and text of each sentence the pattern is found in and that was not `seen`, which it is then."""
        if source not in self._plain:
            self._plain[source] = unicodedata.normalize("NFC", self._texts.get(source, ""))
        text = self._plain[source]
        if pattern.search(text) is None:
            return
        if source not in self._cut:
            self._cut[source] = [" ".join(sentence.split()) for sentence in self._split(text)]
        for position, sentence in enumerate(self._cut[source]):
            found = pattern.search(sentence)
            if found is None or sum(_LETTER.search(word) is not None for word in sentence.split()) < _FEWEST_WORDS:
                continue
            if (same := sentence.casefold()) not in seen:
                seen.add(same)
                yield position, int(str(found.lastgroup)[1:]), sentence


def _default_split() -> Split:
    from tiltmeter.benchmarks.sentences import split_sentences

    return split_sentences


def _by_concept(keywords: pl.DataFrame) -> dict[tuple[Any, ...], list[str]]:
    """The keywords of each concept, those without a letter, digit or sign in them left out."""
    held = keywords.filter(pl.col("keyword").str.strip_chars().str.len_chars() > 0)
    grouped = held.group_by("domain", "concept", maintain_order=True).agg(pl.col("keyword").unique(maintain_order=True))
    return {(domain, concept): words for domain, concept, words in grouped.iter_rows()}


def missing(pages: pl.DataFrame, keywords: pl.DataFrame, sentences: pl.DataFrame) -> pl.DataFrame:
    """What got no sentence: concepts as a whole (`keyword` null), and single keywords of the others.

    Returns
    -------
    `domain`, `concept`, `keyword`, `pages` (of the concept), `usable` (of these with a text), `reason`; concepts first.
    """
    both = ["domain", "concept"]
    counted = pages.group_by(both).agg(pages=pl.len(), usable=(pl.col("status") == "ok").sum())
    named = keywords.filter(pl.col("keyword").str.strip_chars().str.len_chars() > 0).unique([*both, "keyword"], maintain_order=True)
    concepts = pl.concat([pages.select(both), keywords.select(both)]).unique(maintain_order=True)
    counts = {name: pl.col(name).fill_null(0).cast(pl.Int64) for name in ("pages", "usable")}
    without = (
        concepts.join(sentences, on=both, how="anti", maintain_order="left")
        .join(counted, on=both, how="left", maintain_order="left")
        .join(named.group_by(both).agg(words=pl.len()), on=both, how="left", maintain_order="left")
        .with_columns(**counts, keyword=pl.lit(None, pl.String))
    )
    reason = (
        pl.when(pl.col("words").is_null())
        .then(pl.lit("it has no keywords"))
        .when(pl.col("pages") == 0)
        .then(pl.lit("it has no pages"))
        .when(pl.col("usable") == 0)
        .then(pl.lit("none of its pages could be read"))
        .otherwise(pl.lit(f"no sentence of {_FEWEST_WORDS} words or more holds one of its keywords"))
    )
    single = (
        named.join(without, on=both, how="anti", maintain_order="left")
        .join(sentences, on=[*both, "keyword"], how="anti", maintain_order="left")
        .join(counted, on=both, how="left", maintain_order="left")
        .with_columns(
            **counts, reason=pl.lit("no sentence stands under it: none holds it, or another keyword comes before it in those that do")
        )
    )
    columns = [*both, "keyword", "pages", "usable", "reason"]
    return pl.concat([without.with_columns(reason=reason).select(columns), single.select(columns)])
