"""Keywords out of the concept's own pages: its words by similarity, and what its running text links to by name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from tiltmeter.benchmarks.keywords._entities import entities
from tiltmeter.benchmarks.keywords._tables import nearest, non_containing, rows
from tiltmeter.benchmarks.sources import Link, Pages
from tiltmeter.errors import InputError
from tiltmeter.study import Encoder

__all__ = ["linked_keywords", "similar_keywords"]

_WORD = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")
_FEWEST_LETTERS = 3
_LONGEST_NAME = 200
"""Characters of what may be a name."""
_POSSESSIVE = re.compile(r"['’]s?$")
_EXPLAINED = re.compile(r"(?<!\s)\s*+\([^()]*\)$")  # "Mercury (planet)"
_SMALL = re.compile(
    r"a|al|an|and|bin|d[aeiou]|das|del|della|de[nr]|des|dos|e|el|en|et|for|from|ibn|in|l[aeo]|las|les|los|of|on|or|the|to|und|van|von|y"
)


def similar_keywords(found: Pages, *, n: int, encoder: Encoder) -> pl.DataFrame:
    """The n words of each concept's own pages (depth 0) that are most similar to it by embedding, as KEYWORDS.

    A word is written as the page writes it most often; no two of one concept are the same but for case.

    Raises
    ------
    InputError
        There are no pages, or n is not positive.
    """
    words = {key: _spellings(texts) for key, texts in _own(found, found.texts).items()}
    return nearest(_table(words, "similar"), n, encoder)


def linked_keywords(found: Pages, *, n: int | None = None, encoder: Encoder | None = None) -> pl.DataFrame:
    """The named entities among what the running text of each concept's own pages (depth 0) links to, as KEYWORDS.

    Entities are recognised by spaCy where it is installed with a model; otherwise a link counts as a name where all words of it but
    small ones ("of", "van") are capitalised and it stands inside a sentence, not only at its beginning. No keyword contains another.

    Parameters
    ----------
    n, encoder
        Keep the n nearest to the concept, by this encoder; None: all of them.

    Raises
    ------
    InputError
        There are no pages, or n is given without an encoder.
    """
    if n is not None and encoder is None:
        raise InputError(f"to keep the {n} nearest keywords an encoder is needed: name one, or keep all")
    texts, links = _own(found, found.texts), _own(found, found.links)
    words = {key: list(_names("\n\n".join(texts[key]), [link for some in links.get(key, ()) for link in some])) for key in texts}
    table = non_containing(_table(words, "linked"))
    return nearest(table, n, encoder) if n is not None and encoder is not None else table


def _own(found: Pages, kept: Mapping[str, Any]) -> dict[tuple[str, str], list[Any]]:
    """What is kept of each concept's own pages."""
    if found.pages.is_empty():
        raise InputError("there are no pages to find keywords in: collect the concepts' own pages first")
    own = found.pages.filter((pl.col("depth") == 0) & (pl.col("status") == "ok"))
    by_concept: dict[tuple[str, str], list[Any]] = {}
    for domain, concept, source in own.select("domain", "concept", "source").iter_rows():
        by_concept.setdefault((domain, concept), []).append(kept.get(source, ""))
    return by_concept


def _table(words: Mapping[tuple[str, str], Sequence[str]], kind: str) -> pl.DataFrame:
    return pl.concat([rows("", {}, kind), *(rows(domain, {concept: some}, kind) for (domain, concept), some in words.items())])


def _spellings(texts: Sequence[str]) -> list[str]:
    """Each word as it is written most often, in order of its first appearance."""
    counted = Counter(_POSSESSIVE.sub("", word) for text in texts for word in _WORD.findall(text))
    best: dict[str, str] = {}
    for word, times in counted.items():
        if len(word) >= _FEWEST_LETTERS and (word.casefold() not in best or times > counted[best[word.casefold()]]):
            best[word.casefold()] = word
    return list(best.values())


def _names(text: str, links: Sequence[Link]) -> Iterator[str]:
    """Links that are names, as the text writes them."""
    recognised = entities(text)
    for label in dict.fromkeys(_EXPLAINED.sub("", link.label) for link in links):
        if recognised is not None:
            named = label.casefold() in recognised
        else:
            named = len(label) <= _LONGEST_NAME and _capitalised(label) and _inside_sentence(label, text)
        if named and len(label) >= _FEWEST_LETTERS:
            yield label


def _inside_sentence(label: str, text: str) -> bool:
    """Whether the label stands in the text after a word or a mark that ends no sentence; looked for from its first place on."""
    first = text.find(label)
    pattern = re.compile(rf"[\w,;:)\"”’'(–—-]\s?{re.escape(label)}(?!\w)")
    return first >= 0 and pattern.search(text, max(0, first - 2)) is not None


def _capitalised(label: str) -> bool:
    words = [word for word in _WORD.findall(label) if not _SMALL.fullmatch(word)]
    return bool(words) and all(word[0].isupper() for word in words)
