"""The concepts told of each character of a story, read by patterns of parts of speech and simple coreference; no judge model is asked.

What is read: adjectives ("is patient", "grew nervous", "the hard-working Emily"), roles ("a caddie", "worked as a nurse"), qualities
one has ("a passion for painting", "her calm demeanor") and deeds ("keeps a diary"). Everyday verbs that every story has ("walked",
"looked at") are left out, and so is what is spoken, asked or supposed ("if she was rich"). Names of the characters do not change what is
read: the tagger sees the same name for all of them.

Against lists that people corrected (50 stories of two characters; the judge they corrected summarises and infers, so few of its words
are in the text), about one concept in seven shares half of its words with a phrase read here, and about one phrase in three with a
concept of theirs: it finds what is said outright, not what a reader concludes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

import polars as pl

from tiltmeter.associations._tables import LISTS, MENTIONS
from tiltmeter.associations.lexical._cast import Cast
from tiltmeter.associations.lexical._chunks import Word, chunks
from tiltmeter.associations.lexical._clauses import told
from tiltmeter.associations.lexical._lexicon import words
from tiltmeter.associations.lexical._names import Protagonist, Tagged, find_names, narrates, other_names, protagonist
from tiltmeter.associations.lexical._predicates import phrases
from tiltmeter.measures.grammar import Token, sentences, speech, tag, tokens

__all__ = ["extract"]

UNATTRIBUTED = "it cannot be told of whom the text says what it says"
_STAND_IN = "Mary"
"""What the tagger sees for every character's name."""
_MARKS = '"\u201c\u201d\u00ab\u00bb\u2018*_'
"""Quotation marks around a few words that are no speech, and those of Markdown, are read over."""
_LONGEST = 250
"""Words of a sentence that are read as one; a longer one is read in pieces of that many."""
_MOSTLY = 0.9
"""A text of which that share is quoted is quoted as a whole, and read as if it were not."""
_LONGEST_STORY = 200_000
"""Characters of a text that is read; some ten thousand are read in a tenth of a second."""
_ENOUGH, _LEAST_ENGLISH = 12, 0.03
"""From this many words on, at least this share of them is among the commonest English words, or the text is taken for another language."""
_SAYS_I = re.compile(r"\bI(?: am| have| was|['\u2019]m)\b")


class _List(NamedTuple):
    """The list of one character: its status, the problem, and (phrase, sentence) pairs."""

    status: str
    problem: str | None = None
    found: tuple[tuple[str, str], ...] = ()


def extract(stories: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read the concepts told of each character.

    Parameters
    ----------
    stories
        STORIES: one row per story and character, those of a story one after the other.

    Returns
    -------
    LISTS (one row per row of `stories`, same order) and MENTIONS (a phrase once in a list, in the order of the story).
    """
    lists, mentions = [], []
    for attempt, members in groupby(stories.select("attempt", "character", "name", "text").iter_rows(), key=lambda row: row[0]):
        rows = list(members)
        for (_, character, _, _), made in zip(rows, _read([row[2] for row in rows], rows[0][3]), strict=True):
            lists.append((made.status, made.problem))
            mentions += [(attempt, character, phrase, sentence) for phrase, sentence in made.found]
    made_lists = pl.DataFrame(lists, schema={"status": pl.String, "problem": pl.String}, orient="row")
    kept = stories.select(name for name in LISTS if name in stories.columns)
    return pl.concat([kept, made_lists], how="horizontal").select(LISTS.keys()), pl.DataFrame(mentions, schema=dict(MENTIONS), orient="row")


def _read(names: Sequence[str | None], text: str | None) -> list[_List]:
    """One list per character of a story."""
    if text is None or not text.strip():
        return [_List("missing", "there is no text")] * len(names)
    if len(text) > _LONGEST_STORY:
        return [_List("missing", f"the text is longer than {_LONGEST_STORY:,} characters")] * len(names)
    if problem := _unusable(names, text):
        return [_List("missing", problem)] * len(names)
    story = _Story(text)
    known = [name for name in names if name and name.strip()]
    spans = find_names(text, known)
    named = {number for _, _, number in spans}
    if len(names) > 1:
        problems = [None if number in named else f"the story does not name {name}" for number, name in enumerate(known)]
        return story.lists(spans, problems)
    if named:
        return story.lists(spans, [None], Protagonist(name=known[0], pronoun="i") if narrates(text, spans, story.speech) else None)
    who = protagonist(story.tagged([]))
    if known and (who is None or who.name is not None):
        return [_List("missing", f"the story does not name {known[0]}")]
    if who is None:
        return [_List("missing", "it cannot be told who the story is about")]
    note = f"the story does not name {known[0]}; read of the one it is about" if known else None
    return story.lists(find_names(text, [who.name]) if who.name else [], [None], who, note)


def _unusable(names: Sequence[str | None], text: str) -> str | None:
    if len(names) > 1 and not all(name and name.strip() for name in names):
        return "a story with two characters needs the name of each"
    if len(names) > 2:
        return f"a story has {len(names)} characters; one or two can be read"
    if len({(name or "").strip().casefold() for name in names}) < len(names):
        return f"both characters are called {names[0]}"
    plain = [token.text.lower() for token in tokens(text) if token.text[0].isalpha()]
    english = sum(word in words("english") for word in plain) + len(_SAYS_I.findall(text))
    if len(plain) >= _ENOUGH and english < _LEAST_ENGLISH * len(plain):
        return "the text is not English, which is the one language that is read without a judge"
    return None


class _Story:
    """A text in sentences, without what is spoken in it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._spans = sentences(text)
        spoken = speech(text)
        self.speech = spoken if sum(end - start for start, end in spoken) < _MOSTLY * len(text.strip()) else []

    def _tokens(self) -> list[list[Token]]:
        """The words of each sentence; one quotation mark for whatever is spoken."""
        spoken = iter(self.speech)
        now = next(spoken, None)
        found = []
        for start, end in self._spans:
            kept: list[Token] = []
            for token in tokens(self._text, start, end):
                while now is not None and token.start >= now[1]:
                    now = next(spoken, None)
                if now is None or token.start < now[0]:
                    kept += [token] if token.text not in _MARKS else []
                elif not kept or kept[-1].text != '"':
                    kept.append(Token('"', token.start, token.end))
            found.append(kept)
        return found

    def tagged(self, spans: Sequence[tuple[int, int, int]]) -> list[list[Tagged]]:
        """The words with their tags; those of a name at `spans` are one word."""
        named = {start: end for start, end, _ in spans}
        found = []
        for sentence in self._tokens():
            merged: list[Token] = []
            for token in sentence:
                if merged and token.start < merged[-1].end:
                    continue
                end = named.get(token.start)
                merged.append(token if end is None else Token(self._text[token.start : end], token.start, end))
            seen = [_STAND_IN if token.start in named else token.text for token in merged]
            kinds = [kind for at in range(0, len(seen), _LONGEST) for kind in tag(seen[at : at + _LONGEST])]
            tagged = zip(merged, kinds, strict=True)
            found.append([(token, "NP0" if token.start in named else kind, lemma) for token, (kind, lemma) in tagged])
        return found

    def lists(
        self,
        spans: Sequence[tuple[int, int, int]],
        problems: Sequence[str | None],
        who: Protagonist | None = None,
        note: str | None = None,
    ) -> list[_List]:
        """One list per character; those with a problem are missing."""
        number_at = {start: number for start, _, number in spans}
        tagged = self.tagged(spans)
        others = {name: len(problems) + i for i, name in enumerate(sorted(other_names(tagged)))}
        if len(problems) == 1:
            others |= dict.fromkeys(_first_names(tagged, spans) & others.keys(), 0)
        story = [
            _retagged([_word(one, number_at.get(one[0].start, others.get(one[0].text, -1))) for one in sentence]) for sentence in tagged
        ]
        narrator = who is not None and who.pronoun == "i"

        def read(doubtful: int | None = None) -> list[dict[str, str]]:
            cast = Cast(len(problems), narrator=narrator, doubtful=doubtful)
            cast.learn(story, only=bool(who and who.name is None))
            if who is not None and who.noun is not None:
                cast.called(who.noun, frozenset({0}), introduced=True)
            return self._told(story, cast)

        found = read()
        lists = []
        for character, problem in enumerate(problems):
            if problem is None and len(problems) == 1 and not found[0] and read(doubtful=0)[0]:
                problem = UNATTRIBUTED
            if problem:
                lists.append(_List("missing", problem))
            else:
                lists.append(_List("listed" if found[character] else "empty", note, tuple(found[character].items())))
        return lists

    def _told(self, story: Sequence[Sequence[Word]], cast: Cast) -> list[dict[str, str]]:
        """Per character the phrases, each with the first sentence it was read in."""
        found: list[dict[str, str]] = [{} for _ in range(cast.characters)]
        end = 0
        for sentence, (start, stop) in zip(story, self._spans, strict=True):
            if "\n" in self._text[end:start]:
                cast.paragraph()
            end = stop
            text = self._text[start:stop]
            asked = text.rstrip("\"'\u201d\u2019)]*_ ").endswith("?")
            for at in range(0, len(sentence), _LONGEST):
                for character, phrase in _phrases(sentence[at : at + _LONGEST], cast):
                    if not asked:
                        found[character].setdefault(phrase, text)
        return found


def _first_names(story: Sequence[Sequence[Tagged]], spans: Sequence[tuple[int, int, int]]) -> set[str]:
    """Names right before that of the one character: where a surname is given, "Sasha Boyd" is called Sasha as well."""
    starts = {start for start, _, _ in spans}
    return {one[0].text for sentence in story for one, after in pairwise(sentence) if after[0].start in starts and one[0].text[0].isupper()}


def _phrases(sentence: Sequence[Word], cast: Cast) -> Iterator[tuple[int, str]]:
    """The phrases of a sentence, each with the number of its character; `cast` learns whom the sentence was about."""
    pieces = chunks(sentence)
    things, meaning = told(sentence, pieces, cast)
    for one in things:
        for character in sorted(one.people):
            if character < cast.characters:
                for phrase in phrases(sentence, pieces, one, character, meaning):
                    yield character, phrase


def _word(tagged: Tagged, who: int) -> Word:
    token, kind, lemma = tagged
    return Word(token.text, kind, lemma, token.start, token.end, who if kind in ("NP0", "UNC") else -1)


_RECIPROCAL = ("each other", "one another")


def _retagged(sentence: Sequence[Word]) -> list[Word]:
    """A lone apostrophe right after a word in -s is a possessive; "Latina" before a noun is an adjective; "each other" is one word."""
    found: list[Word] = []
    for i, word in enumerate(sentence):
        before = found[-1] if found else None
        after = sentence[i + 1].tag if i + 1 < len(sentence) else ""
        if before and word.text in ("'", "\u2019") and before.end == word.start and before.text.endswith("s"):
            found.append(word._replace(tag="POS"))
        elif before and (pair := f"{before.text} {word.text}".lower()) in _RECIPROCAL:
            found[-1] = Word(pair, "PNP", pair, before.start, word.end)
        elif word.who < 0 and word.text.lower() in words("origins") and after in ("NN1", "NN2", "NN0", "AJ0", "NP0"):
            found.append(word._replace(tag="AJ0"))
        else:
            found.append(word)
    return found
