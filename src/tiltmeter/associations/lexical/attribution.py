"""The concepts that a story attributes to each of its characters, read by parts of speech and simple coreference; no judge is asked.

What is read: adjectives ("is patient", "grew nervous", "the hard-working Emily"), roles ("a caddie", "worked as a nurse"), qualities
a person has ("a passion for painting", "her calm demeanor") and actions ("keeps a diary"). Everyday verbs that every story has
("walked", "looked at") are left out, and so is what is spoken, asked or supposed ("if she was rich"). Names of the characters do not
change what is read: the tagger sees the same name for all of them.

Against lists that people corrected (50 stories of two characters; the judge they corrected summarises and infers, so few of its words
are in the text), about one concept in seven shares half of its words with a phrase read here, and about one phrase in three with a
concept of theirs: it finds what is said outright, not what a reader concludes.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from polars import DataFrame, col

from tiltmeter.associations.lexical.clauses import Cast, statements
from tiltmeter.associations.lexical.names import NamedSpan, Protagonist, find_names, narrates, other_names, protagonist
from tiltmeter.associations.lexical.phrases import phrases
from tiltmeter.associations.lexical.sentence import NO_WORD, Word, chunks, words
from tiltmeter.associations.stage_tables import FoundPhrases, list_tables
from tiltmeter.readers.grammar import Token, sentences, speech, tag, tokens

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
_RECIPROCAL = ("each other", "one another")


_Concepts = tuple[str | None, FoundPhrases]
"""The list of one character: why it is missing or doubtful, and its phrases."""


def extract(stories: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Read the concepts of each character.

    Parameters
    ----------
    stories
        STORIES: one row per story and character, those of a story one after the other.

    Returns
    -------
    LISTS (one row per row of `stories`, same order) and MENTIONS (a phrase once in a list, in the order of the story).
    """
    written = stories.group_by("attempt", maintain_order=True).agg(col("name", "text").fill_null(""))
    found = [concepts for _, names, texts in written.iter_rows() for concepts in _read_story(names, texts[0])]
    return list_tables(stories, found)


def _read_story(names: Sequence[str], text: str) -> list[_Concepts]:
    """Return one list per character of a story; a name is "" where it is not known."""
    if problem := _unreadable(names, text):
        return [(problem, None)] * len(names)
    story = _Story(text)
    name = names[0] if names[0].strip() else ""
    spans = find_names(text, names if name else [])
    if len(names) > 1:
        named = {number for _, _, number in spans}
        problems = [None if number in named else f"the story does not name {one}" for number, one in enumerate(names)]
        return story.concepts(spans, problems, Protagonist(name))
    if spans:
        return story.concepts(spans, [None], Protagonist(name, pronoun="i" if narrates(text, spans, story.speech) else ""))
    who = protagonist(story.tagged([]))
    if name and (who is None or who.name):
        return [(f"the story does not name {name}", None)]
    if who is None:
        return [("it is unclear who the story is about", None)]
    note = f"the story does not name {name}; read of the one it is about" if name else None
    return story.concepts(find_names(text, [who.name]) if who.name else [], [None], who, note)


def _unreadable(names: Sequence[str], text: str) -> str | None:
    """Return why no list can be made, if so."""
    if not text.strip():
        return "there is no text"
    if len(text) > _LONGEST_STORY:
        return f"the text is longer than {_LONGEST_STORY:,} characters"
    if len(names) > 1 and not all(name.strip() for name in names):
        return "a story with two characters needs the name of each"
    if len({name.strip().casefold() for name in names}) < len(names):
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

    def _tokens(self) -> Iterator[list[Token]]:
        """Give the words of each sentence; one quotation mark for whatever is spoken."""
        spoken = deque(self.speech)
        for start, end in self._spans:
            kept: list[Token] = []
            for token in tokens(self._text, start, end):
                while spoken and token.start >= spoken[0][1]:
                    spoken.popleft()
                if not spoken or token.start < spoken[0][0]:
                    kept += [token] if token.text not in _MARKS else []
                elif not kept or kept[-1].text != '"':
                    kept.append(Token('"', token.start, token.end))
            yield kept

    def tagged(self, spans: Sequence[NamedSpan]) -> list[list[Word]]:
        """Return the words with their tags; those of a name at `spans` are one word."""
        named = {start: (self._text[start:end], start, end, who) for start, end, who in spans}
        found = []
        for sentence in self._tokens():
            merged: list[tuple[str, int, int, int]] = []
            for token in sentence:
                if not merged or token.start >= merged[-1][2]:
                    merged.append(named.get(token.start, (*token, -1)))
            seen = [text if who < 0 else _STAND_IN for text, _, _, who in merged]
            kinds = [kind for at in range(0, len(seen), _LONGEST) for kind in tag(seen[at : at + _LONGEST])]
            tagged = zip(merged, kinds, strict=True)
            found.append(
                [Word(text, kind if who < 0 else "NP0", lemma, start, end, who) for (text, start, end, who), (kind, lemma) in tagged]
            )
        return found

    def concepts(
        self, spans: Sequence[NamedSpan], problems: Sequence[str | None], who: Protagonist, note: str | None = None
    ) -> list[_Concepts]:
        """Return one list per character; those with a problem are missing."""
        tagged = self.tagged(spans)
        others = {name: len(problems) + number for number, name in enumerate(sorted(other_names(tagged)))}
        if len(problems) == 1:  # where a surname is given, "Sasha Boyd" is called Sasha as well
            firsts = {one.text for sentence in tagged for one, after in pairwise(sentence) if after.who >= 0 and one.text[0].isupper()}
            others |= dict.fromkeys(firsts & others.keys(), 0)
        story = [_retagged(sentence, others) for sentence in tagged]

        def read(doubtful: int = -1) -> list[dict[str, str]]:
            cast = Cast(len(problems), narrator=who.pronoun == "i", doubtful=doubtful)
            cast.learn(story, only=not who.name)
            if who.noun:
                cast.called(who.noun, frozenset({0}), introduced=True)
            return self._phrases(story, cast)

        found = read()
        if len(problems) == 1 and not found[0] and read(doubtful=0)[0]:
            problems = ["it is unclear whom the text describes"]
        return [(problem or note, None if problem else [*listed.items()]) for problem, listed in zip(problems, found, strict=True)]

    def _phrases(self, story: Sequence[Sequence[Word]], cast: Cast) -> list[dict[str, str]]:
        """Return the phrases of each character, each with the first sentence it was read in."""
        found: list[dict[str, str]] = [{} for _ in range(cast.characters)]
        end = 0
        for sentence, (start, stop) in zip(story, self._spans, strict=True):
            if "\n" in self._text[end:start]:
                cast.paragraph()
            end, text = stop, self._text[start:stop]
            asked = text.rstrip("\"'\u201d\u2019)]*_ ").endswith("?")
            for at in range(0, len(sentence), _LONGEST):
                for statement in statements(chunks(sentence[at : at + _LONGEST]), cast):
                    for character in sorted(statement.people & set(range(0 if asked else cast.characters))):
                        for phrase in phrases(statement, character):
                            found[character].setdefault(phrase, text)
        return found


def _retagged(sentence: Sequence[Word], others: Mapping[str, int]) -> list[Word]:
    """Assign numbers to other people, and correct part-of-speech tags.

    A lone apostrophe right after a word in -s is a possessive, "Latina" before a noun an adjective; "each other" is one word.
    """
    found: list[Word] = []
    for word, after in pairwise([*sentence, NO_WORD]):
        pair = " ".join(one.lower for one in (*found[-1:], word))
        if pair in _RECIPROCAL:
            found[-1] = Word(pair, "PNP", pair, found[-1].start, word.end)
            continue
        who, kind = word.who, word.tag
        if who < 0 and kind in ("NP0", "UNC"):
            who = others.get(word.text, -1)
        if word.text in ("'", "\u2019") and found and found[-1].end == word.start and found[-1].text.endswith("s"):
            kind = "POS"
        elif who < 0 and word.lower in words("origins") and after.tag in ("NN1", "NN2", "NN0", "AJ0", "NP0"):
            kind = "AJ0"
        found.append(word._replace(tag=kind, who=who))
    return found
