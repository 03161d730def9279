"""Keywords of concepts, and the sentences in their pages that contain a keyword as a whole word.

Keywords are given, requested from a model, or extracted from the concept's own pages. Texts are split into
sentences by syntok. List items and paragraphs are separated first (syntok only recognises blank lines), and
wrong boundaries are removed: at semicolons, at unknown abbreviations, and inside brackets.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

import polars as pl
from polars import DataFrame, Series, col

from tiltmeter.benchmarks.branching.english_replacement import combining_marks
from tiltmeter.benchmarks.builder.sources import Link, PageSet
from tiltmeter.benchmarks.judge_replies import ask_all, read_words, templates
from tiltmeter.benchmarks.tables import KEYWORDS, SENTENCES
from tiltmeter.designs.wordings import fill_template
from tiltmeter.errors import InputError
from tiltmeter.models import Encoder
from tiltmeter.study import Judge, NotRun

# Tables of keywords


def given_keywords(keywords: Mapping[str, Iterable[str]], *, kind: str = "given") -> DataFrame:
    """Build KEYWORDS from lists (concept -> keywords), with single spaces, in composed form (NFC), without duplicates (in any case).

    Raises
    ------
    InputError
        A keyword contains neither a letter nor a digit.
    """
    rows = []
    for concept, words in keywords.items():
        for word in (" ".join(unicodedata.normalize("NFC", word).split()) for word in words):
            if not any(map(str.isalnum, word)):
                raise InputError(
                    f"the keyword {word!r} of {concept!r} cannot be searched for; it must contain a letter or digit"
                )
            rows.append({"concept": concept, "keyword": word, "kind": kind})
    return join_keywords(DataFrame(rows, schema=KEYWORDS))


def join_keywords(*tables: DataFrame) -> DataFrame:
    """Concatenate tables of keywords; of duplicates of a concept (in any case), the first is kept."""
    whole = pl.concat([DataFrame(schema=KEYWORDS), *(table.select(list(KEYWORDS)) for table in tables)])
    return whole.filter(pl.struct("concept", col.keyword.str.to_lowercase()).is_first_distinct())


def non_containing(keywords: DataFrame, definition: Literal["default", "saged"] = "default") -> DataFrame:
    """Remove keywords that contain another keyword of the same concept, in any case, as the shorter one finds the same sentences.

    By default, a keyword contains another one as whole words, as sentences are searched for whole words:
    "Shia Islam" contains "Islam", but "Islamic" does not. With "saged", any substring counts, as published.
    """
    numbered = keywords.with_row_index("place")
    kept: dict[str, list[re.Pattern[str]]] = {}
    places: list[int] = []
    for place, concept, word in (
        numbered.sort(col.keyword.str.len_chars(), "place").select("place", "concept", "keyword").iter_rows()
    ):
        shorter = kept.setdefault(concept, [])
        if not any(pattern.search(word) for pattern in shorter):
            shorter.append(
                whole_words([word]) if definition == "default" else re.compile(re.escape(word), re.IGNORECASE)
            )
            places.append(place)
    return numbered.filter(col.place.is_in(places)).drop("place")


def nearest(keywords: DataFrame, n: int, encoder: Encoder) -> DataFrame:
    """Return the n keywords of each concept with the largest `similarity` (cosine to the concept), most similar first."""
    if keywords.is_empty():
        return keywords
    import numpy as np

    texts = pl.concat([keywords["keyword"], keywords["concept"]]).unique(maintain_order=True).to_list()
    place = {text: number for number, text in enumerate(texts)}
    vectors = np.asarray(encoder.encode(texts))
    words, concepts = (vectors[[place[text] for text in keywords[name]]] for name in ("keyword", "concept"))
    cosine = np.einsum("ij,ij->i", words, concepts).astype(np.float64)
    ranked = keywords.with_columns(similarity=Series(cosine)).with_row_index("place")
    ranked = ranked.sort(col.place.min().over("concept"), -col.similarity, "place")
    return ranked.group_by("concept", maintain_order=True).head(n).select(list(KEYWORDS))


# Requested from a model

KINDS = ("characteristics", "subcategories", "synonyms", "same_root", "people")
"""Necessary characteristics, sub-categories, synonyms, words with the same root, and famous people (long and
short names)."""


class AskedKeywords(NamedTuple):
    """Keywords from a model."""

    keywords: DataFrame
    """KEYWORDS, of kind "asked:KIND"."""
    unanswered: int
    """Number of questions without an answer."""


def ask_keywords(
    judge: Judge,
    concepts: Sequence[str],
    *,
    domain: str,
    rounds: int = 5,
    kinds: Sequence[str] = KINDS,
    definition: Literal["default", "saged"] = "default",
) -> AskedKeywords:
    """Ask a model for keywords of each concept and kind.

    Each round shows the model the keywords so far and asks for more, all lists at once; a list without new
    keywords is complete. Finally, keywords that contain another one are removed (see `non_containing`).

    Parameters
    ----------
    judge
        The model asked.
    concepts
        Names of the concepts.
    domain
        Subject of the concepts.
    rounds
        Maximum number of rounds for each kind.
    kinds
        Some of KINDS.
    definition
        Passed to `non_containing`.

    Raises
    ------
    InputError
        No answer could be used.
    Unfinished
        The judge was interrupted.
    """
    texts = templates("sources", "keywords")
    lists: dict[tuple[str, str], dict[str, str]] = {
        (concept, kind): {} for concept in concepts for kind in kinds
    }
    growing, problem, unanswered = list(lists), "its lists are empty", 0
    for _ in range(rounds):
        asked = []
        for concept, kind in growing:
            known = json.dumps(list(lists[concept, kind].values()), ensure_ascii=False)
            asked.append(fill_template(texts[kind], concept=concept, domain=domain, known=known))
        answers = zip(growing, ask_all(judge, asked), strict=True)
        growing = []
        for at, (text, failure, _) in answers:
            words, unread, _ = read_words(text or "")
            problem = failure or unread or problem
            unanswered += failure is not None
            before = len(lists[at])
            for word in words or ():
                lists[at].setdefault(word.casefold(), word)
            growing += [at] if len(lists[at]) > before else []
    tables = [
        given_keywords({concept: words.values()}, kind=f"asked:{kind}")
        for (concept, kind), words in lists.items()
    ]
    found = join_keywords(*tables)
    if found.is_empty():
        raise InputError(f"{judge.name} returned no keywords for any concept: {problem}")
    return AskedKeywords(non_containing(found, definition), unanswered)


# Extracted from pages

_WORD = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")
_FEWEST_LETTERS = 3
_LONGEST_NAME = 200
"""Maximum number of characters of a name."""
_POSSESSIVE = re.compile(r"['’]s?$")
_EXPLAINED = re.compile(r"(?<!\s)\s*+\([^()]*\)$")  # "Mercury (planet)"
_SMALL = re.compile(
    r"a|al|an|and|bin|d[aeiou]|das|del|della|de[nr]|des|dos|e|el|en|et|for|from|ibn|in|l[aeo]|las|les|los|of|on|or|the|to|und|van|von|y"
)


def similar_keywords(found: PageSet, *, n: int, encoder: Encoder) -> DataFrame:
    """Return as KEYWORDS the n words of each concept's own pages (depth 0) with the embeddings most similar to the concept.

    Words have their most frequent spelling, without duplicates in another case.
    """
    return nearest(_from_pages(found, "similar", lambda text, _: _spellings(text)), n, encoder)


def linked_keywords(found: PageSet) -> DataFrame:
    """Return as KEYWORDS the names among the links in the running text of each concept's own pages (depth 0).

    A link counts as a name if all its words except small ones ("of", "van") are capitalised and it occurs
    inside a sentence, not only at the beginning. Keywords that contain another one are removed.
    """
    return non_containing(_from_pages(found, "linked", _names))


def _from_pages(
    found: PageSet, kind: str, words_of: Callable[[str, Sequence[Link]], Iterable[str]]
) -> DataFrame:
    """Return as KEYWORDS the words that a function finds in the text and the links of each concept's own pages."""
    tables = []
    own = found.pages.filter(col.depth == 0, col.status == "ok")
    for concept, sources in own.group_by("concept", maintain_order=True).agg("source").iter_rows():
        text = "\n\n".join(found.texts.get(source, "") for source in sources)
        words = words_of(text, [link for source in sources for link in found.links.get(source, ())])
        tables.append(given_keywords({concept: words}, kind=kind))
    return join_keywords(*tables)


def _spellings(text: str) -> list[str]:
    """Return each word in its most frequent spelling."""
    best: dict[str, str] = {}
    for word, _ in Counter(_POSSESSIVE.sub("", word) for word in _WORD.findall(text)).most_common():
        if len(word) >= _FEWEST_LETTERS:
            best.setdefault(word.casefold(), word)
    return list(best.values())


def _names(text: str, links: Sequence[Link]) -> Iterator[str]:
    """Yield the labels of links that are names."""
    for label in dict.fromkeys(_EXPLAINED.sub("", link.label) for link in links):
        words = [word for word in _WORD.findall(label) if not _SMALL.fullmatch(word)]
        capitalised = bool(words) and all(word[0].isupper() for word in words)
        if _FEWEST_LETTERS <= len(label) <= _LONGEST_NAME and capitalised and _inside_sentence(label, text):
            yield label


def _inside_sentence(label: str, text: str) -> bool:
    """Check whether the label occurs after a word or a mark that does not end a sentence."""
    first = text.find(label)
    pattern = re.compile(rf"[\w,;:)\"”’'(–—-]\s?{re.escape(label)}(?!\w)")
    return first >= 0 and pattern.search(text, max(0, first - 2)) is not None


# Sentences

_BULLET = re.compile(
    r"[ \t]*(?:[\u2022\u25e6\u25aa\u25cf\u2023\u00b7\u2043]|(?P<mark>[-*+\u2013\u2014]|\(?\d{1,2}[.)]|\(?[a-z]\)))[ \t]+(?=\S)"
)
_JOINED = re.compile(r"(?:(?<=[a-z]{2})|(?<=\d{2}))([\"\u201d)]?[.!?][\"\u201d\u2019)\]]*)(?=[A-Z][a-z])")
_MAY_END = re.compile(r"[.:;!?\u2026][\"'\u201d\u2019)\]]*\s*$")
_ABBREVIATED = re.compile(
    r"(?:^|[\s(\[\"'\u201c])(?:Mr|Mrs|Ms|Mx|Dr|Prof|St|Ste|Jr|Sr|Rev|Hon|Gov|Sen|Rep|Pres|Gen|Col|Sgt|Capt|Cmdr|Lt|Maj|Msgr|Fr"
    r"|vs|v|viz|etc|cf|ca|c|e\.g|i\.e|a\.k\.a|approx|est|No|no|Nos|nos|Vol|vol|pp?|ed|eds|trans|Ch|ch|Fig|fig|lit|[A-Z])\.$"
)
_INITIALS_END = re.compile(r"(?:\b[A-Z]\.){2,}$")
_LONGEST_BRACKET = 300
"""Maximum number of characters in a bracket; longer brackets are treated as never closed."""
_MANY_BRACKETS, _MOST_BRACKETS = 100, 0.1
"""A paragraph with more opening brackets, in number and as a share of its characters, is not prose and is
kept as one sentence."""


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences.

    White space within a sentence becomes a single space. Blank lines, and bullets or numbers of list items,
    also end a sentence; the bullet or number is removed. Sentences without a space between them ("...
    ended.The next") are separated.

    Raises
    ------
    NotRun
        syntok is not installed.
    """
    try:
        from syntok import segmenter
    except ModuleNotFoundError as error:
        raise NotRun(
            'splitting texts into sentences requires syntok: pip install "tiltmeter[benchmarks]"'
        ) from error
    return [sentence for block in _blocks(text) if block for sentence in _split_block(block, segmenter)]


def _blocks(text: str) -> Iterator[str]:
    """Yield paragraphs and list items, with wrapped lines joined."""
    lines: list[str] = []
    item = False
    for line in text.splitlines():
        bullet = _BULLET.match(line)
        # A dash or a number may start a line because of line wrapping.
        starts = bullet is not None and (
            bullet["mark"] is None or item or not lines or _MAY_END.search(lines[-1]) is not None
        )
        if starts or not line.strip():
            yield " ".join(lines)
            lines, item = [], starts
        if line.strip():
            lines.append(line[bullet.end() :] if bullet and starts else line)
    yield " ".join(lines)


def _split_block(block: str, segmenter: Any) -> list[str]:
    plain = _JOINED.sub(r"\1 ", " ".join(block.split()))
    brackets = sum(map(plain.count, segmenter.State.opening_brackets))
    if brackets > max(_MANY_BRACKETS, _MOST_BRACKETS * (len(plain) - plain.count(" "))):
        return [plain]
    starts = [tokens[0].offset for paragraph in segmenter.analyze(plain) for tokens in paragraph]
    found: list[str] = []
    begin = starts[0] if starts else 0
    for end in [*starts[1:], len(plain)]:
        near = plain[max(begin, end - _LONGEST_BRACKET - 1) : end]
        if not _continues(near.rstrip(), plain[end : end + 1], near.endswith(" ")):
            found.append(plain[begin:end].strip())
            begin = end
    return [sentence for sentence in found if sentence]


def _continues(piece: str, following: str, apart: bool) -> bool:
    """Check whether a sentence continues after `piece`, its last characters.

    `apart`: white space precedes the next character.
    """
    if not following:
        return False
    if piece.endswith((";", ":", ",")) or following in ")]}" or _ABBREVIATED.search(piece):
        return True
    if _INITIALS_END.search(piece) and not apart:
        return True
    depth = 0
    for character in piece[-_LONGEST_BRACKET:]:
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth = max(0, depth - 1)
    return depth > 0 and (apart or following.isalnum())


# Sentences with a keyword

_FEWEST_WORDS = 6
_LETTER = re.compile(r"[^\W_]")
_APOSTROPHE = "['’ʼ]"


def whole_words(keywords: Sequence[str]) -> re.Pattern[str]:
    """Compile one pattern for all keywords, longest first.

    The matching group is named "k" followed by the position of the keyword.

    A keyword matches in any case as a whole word: not next to a letter, digit or combining mark. Spaces match
    any white space, and apostrophes match straight and curly ones. A possessive ('s) may follow, and hyphens
    separate words. Texts must be in composed form (NFC).
    """
    texts = [" ".join(unicodedata.normalize("NFC", keyword).split()) for keyword in keywords]
    # Keywords are grouped by first letter, which is much faster than trying all of them at each word. This
    # does not change the result, as all keywords that match at one position have the same first letter.
    # Groups are named, as their numbers depend on the order.
    by_letter: dict[str, list[int]] = {}
    for place in sorted(range(len(texts)), key=lambda place: (-len(texts[place]), place)):
        by_letter.setdefault(texts[place][:1].casefold(), []).append(place)
    branches = []
    for places in by_letter.values():
        first = "|".join(dict.fromkeys(_pattern_of(texts[place][:1]) for place in places))
        tried = "|".join(f"(?P<k{place}>{_pattern_of(texts[place])})" for place in places)
        branches.append(f"(?={first})(?:{tried})")
    return re.compile(
        rf"(?<!\w)(?:{'|'.join(branches)})(?![\w\u200c\u200d{combining_marks()}])", re.IGNORECASE
    )


def _pattern_of(keyword: str) -> str:
    return re.sub(_APOSTROPHE, _APOSTROPHE, r"\s+".join(map(re.escape, keyword.split(" "))))


def scrape(
    pages: DataFrame,
    texts: Mapping[str, str],
    keywords: DataFrame,
    *,
    split: Callable[[str], list[str]] = split_sentences,
) -> DataFrame:
    """Find sentences of at least six words that contain a keyword.

    For each concept, its own pages are searched for its own keywords. Each sentence is returned once, with
    the keyword that occurs first in it (the longest one if several start there).

    Parameters
    ----------
    pages
        PAGES; pages with a status other than "ok" are ignored.
    texts
        Text by source.
    keywords
        KEYWORDS.
    split
        Function that splits a text into sentences, called once for each text with a keyword.

    Returns
    -------
    SENTENCES, in the order of `pages` and of the sentences in them; `position` counts the sentences of a
    source from 0. See `without_sentences` for concepts and keywords without sentences.
    """
    composed = cache(lambda source: unicodedata.normalize("NFC", texts.get(source, "")))
    sentences = cache(lambda source: [" ".join(sentence.split()) for sentence in split(composed(source))])
    rows: list[tuple[Any, ...]] = []
    for (concept,), its_pages in pages.filter(status="ok").group_by("concept", maintain_order=True):
        words = keywords.filter(concept=concept)["keyword"].unique(maintain_order=True).to_list()
        pattern = whole_words(words)
        seen: set[str] = set()
        for source, tag, licence in its_pages.select("source", "source_tag", "licence").iter_rows():
            if not words or pattern.search(composed(source)) is None:
                continue
            for position, sentence in enumerate(sentences(source)):
                found = pattern.search(sentence)
                if (
                    found is None
                    or sentence.casefold() in seen
                    or sum(map(bool, map(_LETTER.search, sentence.split()))) < _FEWEST_WORDS
                ):
                    continue
                seen.add(sentence.casefold())
                rows.append(
                    (
                        None,
                        concept,
                        words[int(str(found.lastgroup)[1:])],
                        source,
                        tag,
                        position,
                        sentence,
                        licence,
                    )
                )
    return DataFrame(rows, schema=SENTENCES, orient="row")


def without_sentences(pages: DataFrame, keywords: DataFrame, sentences: DataFrame) -> list[str]:
    """Describe concepts without sentences, with the reason, and keywords without sentences of the other concepts."""
    with_any, used = set(sentences["concept"]), set(sentences.select("concept", "keyword").iter_rows())
    missing = []
    for concept in pl.concat([pages["concept"], keywords["concept"]]).unique(maintain_order=True):
        if concept not in with_any:
            reason = f"no sentence of at least {_FEWEST_WORDS} words contains one of its keywords"
            if concept not in keywords["concept"]:
                reason = "it has no keywords"
            elif "ok" not in pages.filter(concept=concept)["status"]:
                reason = (
                    "none of its pages could be read" if concept in pages["concept"] else "it has no pages"
                )
            missing.append(f"the concept {concept!r} has no sentences ({reason})")
    reason = "has no sentences (no sentence contains it, or another keyword occurs first)"
    return missing + [
        f"the keyword {keyword!r} of {concept!r} {reason}"
        for concept, keyword in keywords.select("concept", "keyword").iter_rows()
        if concept in with_any and (concept, keyword) not in used
    ]
