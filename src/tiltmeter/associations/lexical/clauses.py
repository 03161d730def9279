"""Who is the subject of what: whom names, pronouns and nouns mean, and one pass over the chunks of each sentence."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tiltmeter.associations.lexical.sentence import NO_CHUNK, NO_ONE, Chunk, People, Word, gender_of_noun, pronoun_class, words

_LEAST_THEY = 3
"""A person is "they" if so many plural pronouns, and no singular one, occur where only that person can be meant."""
_LEAST_SINGLE = 2
"""Evidence for a singular pronoun: 2 where no one else can be meant, 1 where the nearest of several is."""
_BOTH = frozenset({0, 1})


class Cast:
    """The people of a story and what is known of them so far.

    People are numbered: the characters first (0, 1), then others with names. Which pronoun refers to a name is learnt from the story
    itself, never looked up. A pronoun that two people compete for means no one.

    Parameters
    ----------
    narrator
        "I" is the first character; "he" and "she" are not.
    doubtful
        A character to whom every pronoun is given that may mean it and otherwise means no one: shows whether anything is said that
        cannot be attributed.
    """

    def __init__(self, characters: int, narrator: bool = False, doubtful: int = -1) -> None:
        self.characters = characters
        self._doubtful, self._narrator = doubtful, narrator
        self._gender: dict[int, str] = {}
        self._introduced = ""
        self._noun_of: dict[str, People] = {}
        self._subject = self._plural = NO_ONE
        self._rivals: set[str] = set()

    def learn(self, story: Sequence[Sequence[Word]], *, only: bool = False) -> None:
        """Learn which pronouns refer to whom, from the tagged sentences.

        Parameters
        ----------
        only
            The one character has no name in the story and is meant by the most frequent pronoun.
        """
        votes: dict[int, Counter[str]] = defaultdict(Counter)
        before: list[int] = []
        for sentence in story:
            here: list[int] = []
            for word in sentence:
                if word.who >= 0:
                    here.append(word.who)
                elif kind := pronoun_class(word.lower):
                    near = here or before
                    if only:
                        votes[0][kind] += 1
                    elif near and kind != "i":
                        votes[near[0]][kind] += 2 if len({*before, *here}) == 1 else 1
            before = here or before[:1]
        self._gender = {who: gender for who, counts in votes.items() if (gender := _gender(counts))}
        if self.characters > 1 and all(self._gender.get(who) == "they" for who in _BOTH):
            for who in _BOTH:
                del self._gender[who]
        if self._narrator:
            self._gender[0] = "i"

    def paragraph(self) -> None:
        """Start a new paragraph: forget people without a name."""
        if self.characters == 1:
            self._rivals.clear()

    def called(self, noun: str, people: People, *, introduced: bool = False) -> None:
        """From here on "the NOUN" means these people; if it introduces them, "a NOUN" does too."""
        self._noun_of[noun] = people
        if introduced:
            self._introduced = noun

    def meant(self, phrase: Chunk) -> People:
        """Return the people a noun phrase means, as far as can be known."""
        head = phrase.head
        if head.who >= 0:
            return frozenset({head.who})
        if head.tag in ("PNP", "DPS") and pronoun_class(head.lower):
            return self.pronoun(head.lower)
        if self.characters == 2 and head.lower in words("both"):
            return _BOTH
        if self.characters == 2 and phrase.determined_by("both", "two"):
            return _BOTH if gender_of_noun(head.lemma) else NO_ONE
        definite = head.lemma == self._introduced or phrase.determined_by("the", "this", "that")
        return self._noun_of.get(head.lemma, NO_ONE) if definite else NO_ONE

    def pronoun(self, text: str) -> People:
        """Return the people a pronoun means."""
        kind = pronoun_class(text)
        if kind is None:
            return NO_ONE
        people = self._referents(kind)
        if people or self._doubtful < 0 or kind in self._rivals or self._gender.get(self._doubtful, kind) != kind:
            return people
        return frozenset({self._doubtful})

    def _referents(self, kind: str) -> People:
        if kind == "i":
            return frozenset({0}) if self._narrator else NO_ONE
        if kind in self._rivals:
            return NO_ONE
        fitting = [who for who, gender in self._gender.items() if gender == kind]
        if kind == "they" and not fitting:
            return self._plural if self.characters == 2 else NO_ONE
        fitting = fitting or [who for who in range(self.characters) if who not in self._gender]
        unlearnt = self.characters == 2 and len(self._subject) == 1 and not self._subject & self._gender.keys()
        if len(fitting) == 1 and not unlearnt:  # nor is the last subject a character whose pronoun is not known
            return frozenset(fitting)
        return self._subject if len(self._subject) == 1 and self._subject <= set(fitting) else NO_ONE

    def mention(self, phrase: Chunk, people: People, *, subject: bool) -> None:
        """Take note of a noun phrase and of whom it means, for the pronouns after it."""
        head = phrase.head
        if 0 <= head.who < self.characters:
            own = self._gender.get(head.who)
            self._rivals -= self._rivals if self.characters == 1 else {own} if own else {"he", "she"}
        if subject and people:
            self._subject = people
            if any(who >= self.characters and who not in self._gender for who in people):
                self._rivals |= {"he", "she"}
            if people == _BOTH:
                self._plural = people
                self._rivals.discard("they")
        elif not people and head.tag != "PNP" and (gender := "they" if head.lemma == "people" else gender_of_noun(head.lemma)):
            if gender == "they" or head.tag == "NN2":
                self._rivals.add("they")
                self._plural = NO_ONE
            elif subject:
                self._rivals |= {"he", "she"} if gender == "either" else {gender}
                self._subject = NO_ONE

    def end_sentence(self, people: Iterable[int]) -> None:
        """End a sentence about these people; a later "they" means both characters if the sentence mentions no one else."""
        if self.characters == 2 and set(people) >= _BOTH and "they" not in self._rivals:
            self._plural = _BOTH


def _gender(counts: Counter[str]) -> str | None:
    """Return the class of the pronouns counted for one person, None where they are too few or too different."""
    they, single = counts["they"], {kind: n for kind, n in counts.items() if kind not in ("they", "i")}
    total = sum(single.values())
    if they > 3 * total and they >= _LEAST_THEY:
        return "they"
    most = max(single, key=lambda kind: (single[kind], kind), default="")
    return most if single.get(most, 0) >= _LEAST_SINGLE and single[most] > total / 2 else None


# -- statements -------------------------------------------------------------------------------------------------------


class Statement(NamedTuple):
    """Something said of people: `kind` says what the chunk is to them.

    "verb": they are its subject; "adj": it describes them; "role": they are it; "noun": it holds their name; "owner": they have it.
    """

    kind: str
    chunk: Chunk
    people: People
    negated: bool = False


class _Group(NamedTuple):
    """A noun phrase (or several joined by "and") that may become a subject."""

    people: People = NO_ONE
    last: People = NO_ONE
    """The people of the last of the joined phrases."""
    first: Chunk = NO_CHUNK
    chunk: Chunk = NO_CHUNK
    governed: str = ""
    """What it depends on: "verb", "prep", or "" for nothing yet."""
    negated: bool = False


_HYPOTHETICAL = ("if", "unless", "whether")


def statements(chunks: Sequence[Chunk], cast: Cast) -> list[Statement]:
    """Return what a sentence says of whom, in order; each noun phrase and `cast` learn whom it was about."""
    scan = _Scan(cast)
    for chunk in chunks:
        scan.read(chunk)
    cast.end_sentence(scan.mentioned)
    return scan.found


def _previous(chunk: Chunk) -> Chunk:
    """Return the chunk before, adverbs left out."""
    chunk = chunk.before
    while chunk.kind in ("adv", "not", "part"):
        chunk = chunk.before
    return chunk


def _opens_with_as(chunk: Chunk) -> bool:
    """Return whether a noun phrase opens the sentence after "as", as in "As a young woman, ..."."""
    first = chunk.before.head.lemma == "as" and chunk.before.before is NO_CHUNK
    return first and chunk.after.kind in ("comma", "prep") and chunk.determined_by("a", "an")


class _Scan:
    """What has been read of a sentence.

    `_pending`: the noun phrase that waits for its verb; `_current`: the subject of the last verb; `_last`: the last noun phrase;
    `_waiting`: descriptions before the subject they belong to; `_skip`: within a hypothetical clause; `_progressive`: a participle or
    a verb with "be" came before.
    """

    def __init__(self, cast: Cast) -> None:
        self.cast = cast
        self.found: list[Statement] = []
        self.mentioned: set[int] = set()
        self._pending: _Group | None = None
        self._current = self._last = _Group()
        self._waiting: list[tuple[str, Chunk]] = []
        self._skip = self._progressive = False

    def read(self, chunk: Chunk) -> None:
        """Take the next chunk."""
        kind, lemma = chunk.kind, chunk.head.lemma
        if kind == "np":
            self._noun_phrase(chunk)
        elif kind == "verb":
            self._verb(chunk)
        elif kind in ("ing", "adj", "en"):
            self._description(chunk)
        elif kind == "sub":
            self._skip = lemma in _HYPOTHETICAL or (lemma == "as" and chunk.after.head.lemma in ("if", "though"))
        elif kind == "comma" or (kind == "stop" and lemma != "."):
            self._skip = self._skip and self._current.chunk is NO_CHUNK
            self._pending = self._pending if kind == "comma" else None
        self._progressive |= kind == "ing" or (kind == "verb" and chunk.auxiliary == "be")

    def _say(self, kind: str, chunk: Chunk, people: People, *, negated: bool = False) -> None:
        if people:
            self.found.append(Statement(kind, chunk, people, negated))

    def _noun_phrase(self, chunk: Chunk) -> None:
        before, head = _previous(chunk), chunk.head
        people = chunk.people = self.cast.meant(chunk)
        self._possession(chunk, before)
        governed = self._governor(chunk, before)
        current = self._current.people
        if governed == "verb" and current and not people and before.head.lemma in words("links_noun"):
            self._last = _Group(current, current, chunk, chunk, "verb")
            if head.tag == "NN1":
                self.cast.called(head.lemma, current)
            return
        if _opens_with_as(chunk):
            self._waiting.append(("role", chunk))
        self.mentioned |= people
        if head.who >= 0:
            self._say("noun", chunk, people)
        elif head.tag == "NN1" and chunk.determined_by("a", "an"):
            self._say("role", chunk, people)
        if joined := self._joined(before):
            group = joined._replace(people=joined.people | people, last=people, chunk=chunk)
        else:
            neither = chunk.before.kind == "adv" and chunk.before.head.lemma == "neither"
            group = _Group(people, people, chunk, chunk, governed, neither)
        if group.governed:
            self.cast.mention(chunk, people, subject=False)
            self._last = group
        else:
            self._last = self._independent(chunk, before, group)

    def _possession(self, chunk: Chunk, before: Chunk) -> None:
        people = NO_ONE
        if chunk.owner is not None:
            people = self.cast.meant(chunk.owner)
            self.mentioned |= people
        elif chunk.determiners and chunk.determiners[0].tag == "DPS":
            people = self.cast.pronoun(chunk.determiners[0].lower)
        self._say("owner", chunk, people, negated=before.head.lemma == "without")

    def _governor(self, chunk: Chunk, before: Chunk) -> str:
        lemma = before.head.lemma
        as_well_as = lemma == "as" and before.before.head.lemma == "well"
        if _opens_with_as(chunk) or as_well_as or (before.kind == "prep" and lemma not in words("as_clause")):
            return "prep"
        follows_object = before.kind == "np" and self._last.governed == "verb"
        return "verb" if follows_object or before.kind in ("verb", "to", "inf", "ing", "en") else ""

    def _joined(self, conjunction: Chunk) -> _Group | None:
        """Return the group that a noun phrase after the conjunction "and", "or" or "nor" is joined to."""
        if conjunction.kind != "conj" or conjunction.head.lemma not in ("and", "or", "nor"):
            return None
        previous = _previous(conjunction)
        if previous.kind == "comma":
            previous = previous.before
        return self._last if previous.kind == "np" else None

    def _independent(self, chunk: Chunk, before: Chunk, group: _Group) -> _Group:
        """Process an independent noun phrase: the next subject, or an apposition to it."""
        pending = self._pending
        if pending is not None:
            apposed = before.kind == "comma" and pending.chunk is _previous(before)
            renames = pending.chunk is chunk.before and chunk.determined_by("a", "an")  # "John an independent contractor was ..."
            if pending.people and not group.people and (apposed or renames):
                if chunk.determiners or chunk.head.tag != "NN2":
                    self._say("role", chunk, pending.people)
                return group
            if apposed and group.people and pending.people:  # "Emily, John and ..."
                group = _Group(pending.people | group.people, group.people, pending.first, chunk)
            elif apposed and chunk.after.kind == "comma":
                self._say("role", pending.chunk, group.people)
        if group.people:
            for kind, description in self._waiting:
                self._say(kind, description, group.people)
        self._waiting.clear()
        self._pending = group
        return group

    def _verb(self, chunk: Chunk) -> None:
        reflexive = chunk.before.kind == "np" and chunk.before.head.text.endswith(("self", "selves"))
        if self._introduces(chunk) or reflexive:  # "found themselves faced with": a participle
            return
        self._current = group = self._subject(chunk)
        if group.chunk is not NO_CHUNK:
            self.cast.mention(group.chunk, group.people, subject=True)
        if not self._skip:
            self._say("verb", chunk, group.people, negated=group.negated)
        elif self._pending is None and chunk.after.kind in ("", "stop"):
            self._skip = False

    def _subject(self, chunk: Chunk) -> _Group:
        before, last, pending = _previous(chunk), self._last, self._pending
        kind = before.kind
        if kind == "who" or (kind == "that" and _previous(before).kind in ("np", "comma")):
            return _Group(last.last)
        if kind == "np" and last.governed == "verb" and (pending is None or _previous(last.first).head.lemma in words("clausal")):
            return _Group(last.last, chunk=last.chunk)
        if kind in ("quote", "there", "that", "sub"):
            return _Group()
        if pending is not None:
            self._pending = None
            return pending
        if kind == "np" and last.first is not last.chunk:
            return _Group(last.last, chunk=last.chunk)
        return self._current if kind in ("conj", "comma") else _Group()

    def _description(self, chunk: Chunk) -> None:
        """Participles and adjectives outside a verb group or noun phrase."""
        before = _previous(chunk)
        kind = "verb" if chunk.kind == "ing" else "adj"
        in_list = kind == "adj" and before.kind in ("comma", "conj") and _previous(before).kind in ("adj", "en")
        if in_list or self._introduces(chunk):  # a list is read to its end from its first adjective
            return
        if before is NO_CHUNK:
            self._waiting.append((kind, chunk))
        elif not self._skip:
            self._say(kind, chunk, self._described(before, kind))

    def _described(self, before: Chunk, kind: str) -> People:
        """Return whom a participle or adjective after a chunk describes."""
        if before.kind == "np":  # "saw Emily helping a stranger"
            return self._last.last if kind == "verb" and self._last.governed == "verb" and before.head.who >= 0 else NO_ONE
        if self._pending is not None:
            return self._pending.people if before.kind == "comma" and self._pending.chunk is _previous(before) else NO_ONE
        parallel = before.kind == "conj" and kind == "verb" and self._progressive
        return self._current.people if parallel or before.kind == "comma" else NO_ONE

    def _introduces(self, chunk: Chunk) -> bool:
        """Attribute the description before a name to its bearer, as in "a young woman named Maria"; return whether there is one."""
        before, name = _previous(chunk), chunk.after
        if chunk.head.lemma not in ("name", "call") or before.kind != "np" or name.kind != "np":
            return False
        if people := self.cast.meant(name):
            self._say("role", before, people)
            self.mentioned |= people
            if self._pending is not None and self._pending.chunk is before:
                self._pending = _Group(people, people, before, name)
            self._last = _Group(people, people, name, name, self._last.governed)
        return True
