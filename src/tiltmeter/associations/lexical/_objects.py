"""What comes after a verb, an adjective or a noun, cut to a sensible length and without names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiltmeter.associations.lexical._chunks import Chunk, Word, lowered
from tiltmeter.associations.lexical._lexicon import pronouns, words

__all__ = ["Objects"]

_LONGEST = 5
"""Words after the verb, and of a quality."""
_LONGEST_NOUN = 4
_REFLEXIVE = ("self", "selves")
_PRONOUN_LIKE = ("oneself", "someone", "others", "the other")
"""After these the place belongs to the deed: "immerses oneself in books"."""
_VOWELS = "aeiou"


class Objects:
    """Reads the complements of one sentence for one person.

    Parameters
    ----------
    meaning
        The people each noun phrase means, by its number among the pieces.
    who
        The person of whom something is told.
    """

    longest = _LONGEST

    def __init__(self, sentence: Sequence[Word], pieces: Sequence[Chunk], meaning: Mapping[int, frozenset[int]], who: int) -> None:
        self._sentence, self._pieces, self._meaning, self._who = sentence, pieces, meaning, who

    def _kind(self, at: int) -> str:
        return self._pieces[at].kind if at < len(self._pieces) else ""

    def _head(self, at: int) -> Word:
        return self._sentence[self._pieces[at].head]

    def noun(self, at: int, room: int = _LONGEST_NOUN) -> str | None:
        """A noun phrase as an object, people generalised; None where it is none or says nothing ("it", "her eyes").

        Of a phrase that has more words than `room` the first adjectives are left out.
        """
        if self._kind(at) != "np":
            return None
        piece, head = self._pieces[at], self._head(at)
        text = head.text.lower()
        if text.endswith(_REFLEXIVE):
            return "oneself"
        if head.who >= 0 or text in pronouns():
            return self._person(at, text)
        if head.lemma in words("empty_objects"):
            return None
        determiners = [self._sentence[i] for i in piece.determiners if self._sentence[i].tag != "DPS"]
        first = [lowered(word) for word in determiners if word.lemma not in ("this", "that", "these", "those", "such")]
        rest = [lowered(self._sentence[i]) for i in (*piece.modifiers, *piece.nouns) if self._sentence[i].lemma not in ("own", "usual")]
        rest = rest[max(0, len(rest) - max(min(room, _LONGEST_NOUN) - len(first), 1)) :]
        if first and first[-1] in ("a", "an"):
            first[-1] = first[-1] if len(rest) == len(piece.modifiers) + len(piece.nouns) else ("an" if rest[0][0] in _VOWELS else "a")
        return " ".join(first + rest)

    def _person(self, at: int, text: str) -> str | None:
        people = self._meaning.get(at, frozenset())
        if people:
            return None if people == {self._who} else "the other" if self._head(at).who < 2 and max(people) < 2 else "someone"
        if self._head(at).who >= 0:
            return "someone"
        return {"they": "others", "i": None}.get(pronouns()[text], "someone")

    def gerund(self, at: int, room: int = _LONGEST) -> str | None:
        """ "helping others"; `room` is the number of words it may have."""
        if self._kind(at) != "ing":
            return None
        rest = self.complement(at + 1, room=room - 1)
        return None if rest is None else f"{self._head(at).text.lower()} {rest}".strip()

    def infinitive(self, at: int, room: int = _LONGEST) -> str | None:
        """ "to explore the world"; `room` is the number of words it may have."""
        if self._kind(at) != "to":
            return None
        group = self._sentence[self._pieces[at].start : self._pieces[at].head + 1]
        verb = [lowered(word) for word in group if word.tag not in ("AV0", "XX0")]
        rest = self.complement(at + 1, room=room - len(verb))
        return None if rest is None or (not rest and verb == ["to", "be"]) else " ".join([*verb, *rest.split()])

    def complement(self, at: int, *, passive: bool = False, two: bool = False, room: int = _LONGEST) -> str | None:
        """What stands from a piece on and belongs to the verb before it, "" where nothing does; None where it says nothing of interest.

        Parameters
        ----------
        passive
            The verb is a passive: it has no object.
        two
            The verb may have two objects ("gives someone a book").
        room
            The number of words it may have.
        """
        found: list[str] = []
        has_object = False
        while at < len(self._pieces):
            kind = self._kind(at)
            if kind in ("to", "ing", "inf") and not found:
                return self._verbal(at, kind, room)
            if kind in ("that", "who", "quote"):
                return " ".join(found) or None
            if kind == "np":
                if passive or (has_object and not (two and self._kind(at - 1) == "np")):
                    break
                noun = self.noun(at, room - len(found))
                if noun is None or (noun in _PRONOUN_LIKE and self._clause(at + 1)):
                    return None
                read: tuple[list[str], int, bool] | None = (noun.split(), at + 1, noun not in _PRONOUN_LIKE)
            else:
                read = self._loose(at, kind, has_object, room - len(found))
            if read is None or len(found) + len(read[0]) > room:
                break
            found += read[0]
            at, has_object = read[1:]
        return " ".join(found)

    def _loose(self, at: int, kind: str, has_object: bool, room: int) -> tuple[list[str], int, bool] | None:
        """The words of an adverb, particle, prepositional phrase or adjective, the piece after it, and whether no object can follow."""
        text = self._head(at).text.lower()
        if kind == "adv":
            return ([text] if text in words("telling_adverbs") else []), at + 1, has_object
        if kind == "part":
            return [text], at + 1, has_object
        if kind == "adj" and not has_object:
            return ([text] if text not in words("empty_adjectives") or text == "early" else []), at + 1, True
        if kind not in ("prep", "sub") or (read := self._prepositional(at, has_object=has_object, room=room)) is None:
            return None
        if self._kind(at + 1) == "ing":  # the gerund took the rest
            return read, len(self._pieces), True
        skipped = not read and self._kind(at + 2) == "prep"  # "without fear of judgement" goes as a whole
        return read, at + (4 if skipped else 2), True

    def _verbal(self, at: int, kind: str, room: int) -> str | None:
        if kind == "inf":
            rest = self.complement(at + 1, room=room - 1)
            return None if rest is None else f"{self._head(at).lemma} {rest}".strip()
        return self.infinitive(at, room) if kind == "to" else self.gerund(at, room)

    def _clause(self, at: int) -> bool:
        """Whether a verb follows, so that what stands before it is its subject."""
        while self._kind(at) == "adv":
            at += 1
        return self._kind(at) == "verb"

    def _prepositional(self, at: int, *, has_object: bool, room: int) -> list[str] | None:
        """The words of a preposition and its noun; [] where they tell the time, None where they do not belong to the verb."""
        word = self._head(at).lemma
        if self._kind(at) == "sub" and word != "as":
            return None
        noun = self.noun(at + 1) or self.gerund(at + 1, room - 1)
        if noun is None or self._clause(at + 2):
            return None
        if word in words("idle_prepositions") or self._head(at + 1).lemma in words("time_nouns"):
            return []
        if has_object and word in words("scene_prepositions"):
            return None
        return [word, *noun.split()]
