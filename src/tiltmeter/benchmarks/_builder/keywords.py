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

from tiltmeter.benchmarks._branching.english_replacement import combining_marks
from tiltmeter.benchmarks._builder.sources import Link, PageSet
from tiltmeter.benchmarks._judge_replies import ask_all, read_words, templates
from tiltmeter.benchmarks._tables import KEYWORDS, SENTENCES
from tiltmeter.designs.wordings import fill_template
from tiltmeter.errors import InputError
from tiltmeter.models import Encoder
from tiltmeter.study import Judge, NotRun

# Tables of keywords


def given_keywords(keywords: Mapping[str, Iterable[str]], *, kind: str = "given") -> DataFrame:
    """Build KEYWORDS from lists (concept -> keywords).

    Keywords have single spaces and composed characters (NFC). Duplicates, in any case, are removed.

    Raises
    ------
    InputError
        A keyword contains neither a letter nor a digit.
    """
    rows = []
    for concept, words in keywords.items():
        for word in words:
            keyword = _composed(word)
            if not any(map(str.isalnum, keyword)):
                raise InputError(
                    f"the keyword {keyword!r} of {concept!r} cannot be searched for; "
                    "it must contain a letter or digit"
                )
            rows.append({"concept": concept, "keyword": keyword, "kind": kind})
    return join_keywords(DataFrame(rows, schema=KEYWORDS))


def _composed(keyword: str) -> str:
    """Return a keyword with single spaces and composed characters (NFC)."""
    return " ".join(unicodedata.normalize("NFC", keyword).split())


def join_keywords(*tables: DataFrame) -> DataFrame:
    """Concatenate tables of keywords; of duplicates of a concept (in any case), the first is kept."""
    joined = pl.concat([DataFrame(schema=KEYWORDS), *(table.select(list(KEYWORDS)) for table in tables)])
    return joined.filter(pl.struct("concept", col.keyword.str.to_lowercase()).is_first_distinct())


def non_containing(keywords: DataFrame, definition: Literal["default", "saged"] = "default") -> DataFrame:
    """Remove keywords that contain another keyword of the same concept, in any case.

    The shorter keyword finds the same sentences. By default, a keyword contains another one as whole words,
    as sentences are searched for whole words: "Shia Islam" contains "Islam", but "Islamic" does not. With
    "saged", any substring counts, as published.
    """
    numbered = keywords.with_row_index("place")
    shortest_first = numbered.sort(col.keyword.str.len_chars(), "place")
    patterns_of: dict[str, list[re.Pattern[str]]] = {}
    places: list[int] = []
    for place, concept, keyword in shortest_first.select("place", "concept", "keyword").iter_rows():
        shorter = patterns_of.setdefault(concept, [])
        if any(pattern.search(keyword) for pattern in shorter):
            continue
        places.append(place)
        if definition == "default":
            shorter.append(whole_words([keyword]))
        else:
            shorter.append(re.compile(re.escape(keyword), re.IGNORECASE))
    return numbered.filter(col.place.is_in(places)).drop("place")


def nearest(keywords: DataFrame, n: int, encoder: Encoder) -> DataFrame:
    """Return the n keywords of each concept that are most similar to it, most similar first.

    `similarity` is the cosine of the embeddings of keyword and concept.
    """
    if keywords.is_empty():
        return keywords
    import numpy as np

    texts = pl.concat([keywords["keyword"], keywords["concept"]]).unique(maintain_order=True).to_list()
    place = {text: number for number, text in enumerate(texts)}
    vectors = np.asarray(encoder.encode(texts))
    words = vectors[[place[word] for word in keywords["keyword"]]]
    concepts = vectors[[place[concept] for concept in keywords["concept"]]]
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
    growing = list(lists)
    problem = "its lists are empty"
    unanswered = 0
    for _ in range(rounds):
        prompts = []
        for concept, kind in growing:
            words_so_far = json.dumps(list(lists[concept, kind].values()), ensure_ascii=False)
            prompts.append(fill_template(texts[kind], concept=concept, domain=domain, known=words_so_far))
        answers = zip(growing, ask_all(judge, prompts), strict=True)
        growing = []
        for key, (text, failure, _) in answers:
            words, unread, _ = read_words(text or "")
            problem = failure or unread or problem
            unanswered += failure is not None
            words_of_list = lists[key]
            before = len(words_of_list)
            for word in words or ():
                words_of_list.setdefault(word.casefold(), word)
            if len(words_of_list) > before:
                growing.append(key)
    tables = [
        given_keywords({concept: words.values()}, kind=f"asked:{kind}")
        for (concept, kind), words in lists.items()
    ]
    keywords = join_keywords(*tables)
    if keywords.is_empty():
        raise InputError(f"{judge.name} returned no keywords for any concept: {problem}")
    return AskedKeywords(non_containing(keywords, definition), unanswered)


# Extracted from pages

_WORD = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")
_FEWEST_LETTERS = 3
_LONGEST_NAME = 200
"""Maximum number of characters of a name."""
_POSSESSIVE = re.compile(r"['’]s?$")
_EXPLAINED = re.compile(r"(?<!\s)\s*+\([^()]*\)$")  # "Mercury (planet)"
_SMALL = re.compile(
    r"a|al|an|and|bin|d[aeiou]|das|del|della|de[nr]|des|dos|e|el|en|et|for|from|ibn|in|l[aeo]|las|les|los|of"
    r"|on|or|the|to|und|van|von|y"
)


def similar_keywords(found: PageSet, *, n: int, encoder: Encoder) -> DataFrame:
    """Return as KEYWORDS the n words of each concept's own pages (depth 0) that are most similar to it.

    Similarity is that of embeddings. Words have their most frequent spelling, without duplicates in another
    case.
    """
    return nearest(_from_pages(found, "similar", lambda text, _: _spellings(text)), n, encoder)


def linked_keywords(found: PageSet) -> DataFrame:
    """Return as KEYWORDS the names among the links in the running text of each concept's own pages (depth 0).

    A link counts as a name if all its words except small ones ("of", "van") are capitalised and it occurs
    inside a sentence, not only at the beginning. Keywords that contain another one are removed.
    """
    return non_containing(_from_pages(found, "linked", _names))


def _from_pages(
    pages: PageSet, kind: str, words_of: Callable[[str, Sequence[Link]], Iterable[str]]
) -> DataFrame:
    """Return as KEYWORDS the words that a function finds in the pages of each concept."""
    tables = []
    own_pages = pages.pages.filter(col.depth == 0, col.status == "ok")
    sources_of = own_pages.group_by("concept", maintain_order=True).agg("source")
    for concept, sources in sources_of.iter_rows():
        text = "\n\n".join(pages.texts.get(source, "") for source in sources)
        links = [link for source in sources for link in pages.links.get(source, ())]
        tables.append(given_keywords({concept: words_of(text, links)}, kind=kind))
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
    r"[ \t]*(?:[\u2022\u25e6\u25aa\u25cf\u2023\u00b7\u2043]"
    r"|(?P<mark>[-*+\u2013\u2014]|\(?\d{1,2}[.)]|\(?[a-z]\)))[ \t]+(?=\S)"
)
_JOINED = re.compile(r"(?:(?<=[a-z]{2})|(?<=\d{2}))([\"\u201d)]?[.!?][\"\u201d\u2019)\]]*)(?=[A-Z][a-z])")
_MAY_END = re.compile(r"[.:;!?\u2026][\"'\u201d\u2019)\]]*\s*$")
_ABBREVIATED = re.compile(
    r"(?:^|[\s(\[\"'\u201c])(?:Mr|Mrs|Ms|Mx|Dr|Prof|St|Ste|Jr|Sr|Rev|Hon|Gov|Sen|Rep|Pres|Gen|Col|Sgt|Capt"
    r"|Cmdr|Lt|Maj|Msgr|Fr|vs|v|viz|etc|cf|ca|c|e\.g|i\.e|a\.k\.a|approx|est|No|no|Nos|nos|Vol|vol|pp?|ed|eds"
    r"|trans|Ch|ch|Fig|fig|lit|[A-Z])\.$"
)
_INITIALS_END = re.compile(r"(?:\b[A-Z]\.){2,}$")
_LONGEST_BRACKET = 300
"""Maximum number of characters in a bracket; longer brackets are treated as never closed."""
_MANY_BRACKETS = 100
"""A paragraph with more opening brackets is not prose, if their share is large as well, and is kept as one
sentence."""
_MOST_BRACKETS = 0.1
"""Share of opening brackets among the characters from which it is large."""


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
        starts = bullet is not None and (bullet["mark"] is None or item or _has_ended(lines))
        if starts or not line.strip():
            yield " ".join(lines)
            lines = []
            item = starts
        if line.strip():
            lines.append(line[bullet.end() :] if bullet and starts else line)
    yield " ".join(lines)


def _has_ended(lines: Sequence[str]) -> bool:
    """Return whether a sentence may end after these lines of a paragraph."""
    return not lines or _MAY_END.search(lines[-1]) is not None


def _split_block(block: str, segmenter: Any) -> list[str]:
    """Split a paragraph or list item into sentences."""
    plain = _JOINED.sub(r"\1 ", " ".join(block.split()))
    brackets = sum(map(plain.count, segmenter.State.opening_brackets))
    if brackets > max(_MANY_BRACKETS, _MOST_BRACKETS * (len(plain) - plain.count(" "))):
        return [plain]
    starts = [tokens[0].offset for paragraph in segmenter.analyze(plain) for tokens in paragraph]
    sentences: list[str] = []
    begin = starts[0] if starts else 0
    for end in [*starts[1:], len(plain)]:
        near = plain[max(begin, end - _LONGEST_BRACKET - 1) : end]
        if not _continues(near.rstrip(), plain[end : end + 1], near.endswith(" ")):
            sentences.append(plain[begin:end].strip())
            begin = end
    return [sentence for sentence in sentences if sentence]


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
    texts = [_composed(keyword) for keyword in keywords]
    # Keywords are grouped by first letter, which is much faster than trying all of them at each word. This
    # does not change the result, as all keywords that match at one position have the same first letter.
    # Groups are named, as their numbers depend on the order.
    by_letter: dict[str, list[int]] = {}
    for place in sorted(range(len(texts)), key=lambda place: (-len(texts[place]), place)):
        by_letter.setdefault(texts[place][:1].casefold(), []).append(place)
    branches = []
    for places in by_letter.values():
        first = "|".join(dict.fromkeys(_pattern_of(texts[place][:1]) for place in places))
        groups = "|".join(f"(?P<k{place}>{_pattern_of(texts[place])})" for place in places)
        branches.append(f"(?={first})(?:{groups})")
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
    rows: list[dict[str, Any]] = []
    for (concept,), its_pages in pages.filter(status="ok").group_by("concept", maintain_order=True):
        words = keywords.filter(concept=concept)["keyword"].unique(maintain_order=True).to_list()
        pattern = whole_words(words)
        used: set[str] = set()
        for source, tag, licence in its_pages.select("source", "source_tag", "licence").iter_rows():
            if not words or pattern.search(composed(source)) is None:
                continue
            for position, sentence in enumerate(sentences(source)):
                match = pattern.search(sentence)
                if match is None or sentence.casefold() in used or _is_short(sentence):
                    continue
                used.add(sentence.casefold())
                row = {
                    "concept": concept,
                    "keyword": words[int(str(match.lastgroup)[1:])],
                    "source": source,
                    "source_tag": tag,
                    "position": position,
                    "sentence": sentence,
                    "licence": licence,
                }
                rows.append(row)
    return DataFrame(rows, schema=SENTENCES)


def _is_short(sentence: str) -> bool:
    """Return whether a sentence has too few words that contain a letter or digit."""
    words = [word for word in sentence.split() if _LETTER.search(word)]
    return len(words) < _FEWEST_WORDS


def without_sentences(pages: DataFrame, keywords: DataFrame, sentences: DataFrame) -> list[str]:
    """Describe concepts without sentences, and keywords without sentences of the other concepts."""
    with_sentences = set(sentences["concept"])
    used = set(sentences.select("concept", "keyword").iter_rows())
    problems = []
    for concept in pl.concat([pages["concept"], keywords["concept"]]).unique(maintain_order=True):
        if concept not in with_sentences:
            reason = _why_no_sentences(concept, pages, keywords)
            problems.append(f"the concept {concept!r} has no sentences ({reason})")
    reason = "has no sentences (no sentence contains it, or another keyword occurs first)"
    for concept, keyword in keywords.select("concept", "keyword").iter_rows():
        if concept in with_sentences and (concept, keyword) not in used:
            problems.append(f"the keyword {keyword!r} of {concept!r} {reason}")
    return problems


def _why_no_sentences(concept: str, pages: DataFrame, keywords: DataFrame) -> str:
    """Return why a concept has no sentences."""
    if concept not in keywords["concept"]:
        return "it has no keywords"
    if concept not in pages["concept"]:
        return "it has no pages"
    if "ok" not in pages.filter(concept=concept)["status"]:
        return "none of its pages could be read"
    return f"no sentence of at least {_FEWEST_WORDS} words contains one of its keywords"
