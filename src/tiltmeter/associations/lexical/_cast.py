"""Who is meant: names, pronouns and nouns taken for the people of one story."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from tiltmeter.associations.lexical._chunks import Chunk, Word
from tiltmeter.associations.lexical._lexicon import gender_of_noun, pronouns, words

__all__ = ["NOBODY", "Cast"]

NOBODY: frozenset[int] = frozenset()

_LEAST_THEY = 3
"""A person is "they" where that many plural pronouns, and no singular one, stand where only that person can be meant."""


_LEAST_SINGLE = 2
"""Evidence for a singular pronoun: 2 where nobody else can be meant, 1 where the nearest of several is."""


class Cast:
    """The people of a story and what is known of them so far.

    Persons are numbered: the characters first (0, 1), then other people with names. Which pronoun takes up a name is learnt from the
    story itself, never looked up. Where two people compete for a pronoun, nobody is meant.

    Parameters
    ----------
    narrator
        "I" is the first character; "he" and "she" are not.
    doubtful
        A character whom every pronoun means that may mean it and otherwise means nobody: to see whether something is said that cannot be
        attributed.
    """

    def __init__(self, characters: int, narrator: bool = False, doubtful: int | None = None) -> None:
        self.characters = characters
        self._doubtful = doubtful
        self._narrator = narrator
        self._gender: dict[int, str] = {}
        self._introduced: str | None = None
        self._noun_of: dict[str, frozenset[int]] = {}
        self._subject: frozenset[int] = NOBODY
        self._rivals: set[str] = set()
        self._plural: frozenset[int] = NOBODY

    def learn(self, story: Sequence[Sequence[Word]], *, only: bool = False) -> None:
        """Learn which pronouns take up whom, from the tagged sentences.

        Parameters
        ----------
        only
            The one character has no name in the story: it is whoever the most frequent pronoun means.
        """
        votes: dict[int, Counter[str]] = defaultdict(Counter)
        before: list[int] = []
        for sentence in story:
            here: list[int] = []
            for word in sentence:
                if word.who >= 0:
                    here += [word.who] if word.who not in here else []
                elif kind := pronouns().get(word.text.lower()):
                    near = here or before
                    candidates = set(before) | set(here)
                    if only:
                        votes[0][kind] += 1
                    elif near and kind != "i":
                        votes[near[0]][kind] += 2 if len(candidates) == 1 else 1
            before = here or before[:1]
        for who, counts in votes.items():
            self._gender.update({who: gender} if (gender := _gender(counts)) else {})
        if all(self._gender.get(who) == "they" for who in range(self.characters)) and self.characters > 1:
            for who in range(self.characters):
                del self._gender[who]
        if self._narrator:
            self._gender[0] = "i"

    def paragraph(self) -> None:
        """A new paragraph starts: people without a name are forgotten."""
        if self.characters == 1:
            self._rivals.clear()

    def called(self, noun: str, people: frozenset[int], *, introduced: bool = False) -> None:
        """From here on "the NOUN" means these people; if it introduces them, "a NOUN" does too."""
        self._noun_of[noun] = people
        if introduced:
            self._introduced = noun

    def meant(self, sentence: Sequence[Word], phrase: Chunk) -> frozenset[int]:
        """The people a noun phrase means, as far as can be told."""
        head = sentence[phrase.head]
        if head.who >= 0:
            return frozenset({head.who})
        text = head.text.lower()
        if text in pronouns() and head.tag in ("PNP", "DPS"):
            return self.pronoun(text)
        if self.characters == 2 and (text in words("both") or any(sentence[i].lemma in ("both", "two") for i in phrase.determiners)):
            return self._both(text, phrase, head)
        definite = any(sentence[i].lemma in ("the", "this", "that") for i in phrase.determiners)
        return self._noun_of.get(head.lemma, NOBODY) if definite or head.lemma == self._introduced else NOBODY

    def _both(self, text: str, phrase: Chunk, head: Word) -> frozenset[int]:
        person = gender_of_noun(head.lemma) is not None or text in words("both")
        return frozenset({0, 1}) if person else NOBODY

    def pronoun(self, text: str) -> frozenset[int]:
        """The people a pronoun means."""
        kind = pronouns().get(text)
        if kind is None:
            return NOBODY
        people = self._taken_up(kind)
        if people or self._doubtful is None or kind in self._rivals:
            return people
        return frozenset({self._doubtful}) if self._gender.get(self._doubtful, kind) == kind else NOBODY

    def _taken_up(self, kind: str) -> frozenset[int]:
        if kind == "i":
            return frozenset({0}) if self._narrator else NOBODY
        if kind in self._rivals:
            return NOBODY
        fitting = [who for who, gender in self._gender.items() if gender == kind]
        if kind == "they" and not fitting:
            return self._plural if self.characters == 2 else NOBODY
        if not fitting:
            fitting = [who for who in range(self.characters) if who not in self._gender]
        if len(fitting) == 1 and not self._unlearnt():
            return frozenset(fitting)
        return self._subject if len(self._subject) == 1 and self._subject <= set(fitting) else NOBODY

    def _unlearnt(self) -> bool:
        """Whether the last subject is another character whose pronoun is not known."""
        return self.characters == 2 and len(self._subject) == 1 and not self._subject & self._gender.keys() and bool(self._gender)

    def heard(self, sentence: Sequence[Word], phrase: Chunk, people: frozenset[int], *, subject: bool) -> None:
        """A noun phrase was read; what it means for the pronouns after it."""
        head = sentence[phrase.head]
        if head.who >= 0 and head.who < self.characters:
            self._rivals.discard(self._gender.get(head.who, ""))
            self._rivals -= {"he", "she"} if head.who not in self._gender else set()
            if self.characters == 1:
                self._rivals.clear()
        if subject and people:
            self._subject = people
            if any(who >= self.characters and who not in self._gender for who in people):
                self._rivals |= {"he", "she"}
            if people == {0, 1}:
                self._plural = people
                self._rivals.discard("they")
        elif not people and head.tag != "PNP":
            self._rival(head, phrase, subject=subject)

    def _rival(self, head: Word, phrase: Chunk, *, subject: bool) -> None:
        gender = gender_of_noun(head.lemma)
        if gender is None and head.lemma != "people":
            return
        if head.tag == "NN2" or head.lemma == "people":
            self._rivals.add("they")
            self._plural = NOBODY
        elif subject:
            self._rivals |= {"he", "she"} if gender == "either" else {str(gender)}
            self._subject = NOBODY

    def together(self, people: Iterable[int]) -> None:
        """The sentence was about these people; "they" after it means both characters if nobody else was there."""
        if set(range(self.characters)) <= set(people) and self.characters == 2 and "they" not in self._rivals:
            self._plural = frozenset({0, 1})


def _gender(counts: Counter[str]) -> str | None:
    single = {kind: n for kind, n in counts.items() if kind not in ("they", "i")}
    if single:
        kind, most = max(single.items(), key=lambda item: (item[1], item[0]))
        they = counts["they"]
        if they > 3 * sum(single.values()) and they >= _LEAST_THEY:
            return "they"
        return kind if most > sum(single.values()) / 2 and most >= _LEAST_SINGLE else None
    return "they" if counts["they"] >= _LEAST_THEY else None
