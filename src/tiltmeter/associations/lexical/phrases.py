"""Phrases for what is said of a person: "patient", "not patient", "construction supervisor", "passion for painting", "keeps a diary"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

from tiltmeter.associations.lexical.clauses import Statement
from tiltmeter.associations.lexical.sentence import NO_CHUNK, Chunk, Word, is_trait, pronoun_class, table, words
from tiltmeter.readers.grammar import third_person

_LONGEST = 5
"""Words after the verb, and of a quality."""
_LONGEST_NOUN = 4
_PRONOUN_LIKE = ("oneself", "someone", "others", "the other")
"""After these the place belongs to the action: "immerses oneself in books"."""


def phrases(statement: Statement, who: int) -> list[str]:
    """Return the phrases of one statement for person `who`; none where it is of no interest."""
    reader = _Reader(who)
    chunk, negation = statement.chunk, "not" if statement.negated else ""
    match statement.kind:
        case "verb":
            return reader.verb(chunk, negation) + _manner(chunk)
        case "adj":
            return reader.adjectives(chunk, negation)
        case "role":
            return reader.role(chunk, negation)
        case "owner":
            return reader.trait(chunk)
    return _attributes(chunk)


def _negated(found: Iterable[str], negation: str) -> list[str]:
    return [f"not {phrase}" if negation else phrase for phrase in found]


def _after(chunk: Chunk) -> Chunk:
    """Return the chunk after, adverbs left out."""
    chunk = chunk.after
    while chunk.kind == "adv":
        chunk = chunk.after
    return chunk


def _bound(chunk: Chunk) -> list[Word]:
    """Return the adjectives that belong to the noun: "social worker"."""
    return [*takewhile(lambda word: word.lemma in words("bound_adjectives"), reversed(chunk.modifiers))][::-1]


def _qualities(chunk: Chunk) -> list[str]:
    """Return the adjectives of a noun phrase that say something by themselves."""
    found: list[str] = []
    for word in chunk.modifiers[: len(chunk.modifiers) - len(_bound(chunk))]:
        origin = words("origins").issuperset(word.lower.split("-"))
        text = word.lower.replace("-", " ") if origin else _positive(word)
        if origin and found and found[-1] in words("origins"):  # "Middle Eastern"
            found[-1] = f"{found[-1]} {text}"
        elif word.tag != "AJS" and text not in words("empty_adjectives"):
            found.append(text)
    return found


def _positive(adjective: Word) -> str:
    """Return the adjective without its comparison: "happy" for "happier"."""
    return adjective.lemma if adjective.tag in ("AJC", "AJS") and "-" not in adjective.text else adjective.lower


def _shown(found: Iterable[Word]) -> list[str]:
    return [word.shown for word in found]


def _attributes(chunk: Chunk) -> list[str]:
    """Return the adjectives and the role before a name in its noun phrase ("correspondent Aisha")."""
    *before, _ = chunk.nouns
    role = before and before[-1].tag == "NN1" and before[-1].lemma not in words("titles")
    return _qualities(chunk) + ([" ".join(_shown([*_bound(chunk), *before]))] if role else [])


def _manner(chunk: Chunk) -> list[str]:
    """How an action is done, where that shows how a person is: "smiled warmly", "nervously clutching"."""
    passive = chunk.auxiliary == "be" and chunk.head.tag == "VVN"
    if passive or chunk.negation or chunk.modal in words("shady_modals"):
        return []
    near = [*chunk.before.words[-1:], *chunk.words, *chunk.after.words[:1]]
    return [table("manners")[word.lemma] for word in near if word.tag == "AV0" and word.lemma in table("manners")]


class _Reader:
    """Reads what is said of person `who`; people are generalised ("someone", "others"), long complements are cut."""

    def __init__(self, who: int) -> None:
        self._who = who

    def adjectives(self, chunk: Chunk, negation: str) -> list[str]:
        """Return the adjectives and stative participles in the list that begins at a chunk, with a role that follows them."""
        found: list[str] = []
        first = True
        while kind := chunk.kind:
            if kind == "not":
                negation = "not"
            elif kind == "adj" or ((kind == "en" or (kind == "verb" and first)) and chunk.head.lower in words("states")):
                phrase, chunk = self._adjective(chunk)
                found += _negated([phrase] if phrase else [], negation)
                first = False
            elif kind == "np" and found and chunk.determiners and chunk.before.kind == "conj":
                return found + self.role(chunk, negation)
            elif kind in ("comma", "conj") and not first:
                negation = "" if chunk.head.lemma in ("but", "yet") else negation
            elif kind != "adv":
                break
            chunk = chunk.after
        return found

    def _adjective(self, chunk: Chunk) -> tuple[str, Chunk]:
        """Return the adjective with its required complement, and the last chunk used."""
        text, after = _positive(chunk.head), _after(chunk)
        if not words("empty_adjectives").isdisjoint((text, chunk.head.lower)) or not text[0].isalpha():
            return "", chunk
        link = "to" if after.kind == "to" else after.preposition
        if text in table("with_complement").get(link, ()):
            if after.kind == "to":
                if action := self._action(after):
                    return f"{text} {action}", after
            elif named := self._thing(after.after):
                return f"{text} {link} {named}", after.after
        return ("" if text in words("needs_complement") else text), chunk

    def role(self, chunk: Chunk, negation: str) -> list[str]:
        """Return what a noun phrase states about a person: its adjectives, its noun, and traits introduced by "with"."""
        head = chunk.head
        if chunk.owner or head.who >= 0 or head.tag in ("PNP", "PNI", "DT0", "CRD", "ORD", "DPS"):
            return []
        found = _qualities(chunk)
        if head.lemma in words("time_nouns") | words("no_roles") or is_trait(head.lemma):
            return [] if chunk.determiners else _negated(found, negation)
        if head.lemma not in words("human") and not (negation and found):  # "not a patient man" is a man
            noun = self._role_noun(chunk)
            found.append(f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}" if negation else noun)
        after = chunk.after
        while after.preposition not in ("", "with"):
            after = after.after.after
        return _negated(found, negation) + (self.trait(after.after) if after.preposition else [])

    def _role_noun(self, chunk: Chunk) -> str:
        plural = chunk.head.tag == "NN2" and not chunk.determined_by("a", "an")
        noun = chunk.head.lemma if plural else chunk.head.shown
        named = self._noun(chunk.after.after) if chunk.after.preposition == "of" else None
        return " ".join([*_shown([*_bound(chunk), *chunk.nouns[:-1]]), noun, *(["of", named] if named else [])])

    def trait(self, chunk: Chunk) -> list[str]:
        """Return a trait of a person with its complement, as a list of at most one phrase."""
        quality, about = chunk.head.lemma, chunk.after.preposition
        if chunk.kind != "np" or not is_trait(quality):
            return []
        described = _qualities(chunk)
        kept = [*described[-2:], *_shown(chunk.nouns)]
        if about in words("trait_prepositions") or quality in table("traits_with").get(about, ()):
            named = self._thing(chunk.after.after)
            if named and len(kept) + 1 + len(named.split()) <= _LONGEST:
                kept += [about, named]
                described.append(named)
        return [" ".join(kept)] if described or quality not in words("traits_told") else []

    def verb(self, chunk: Chunk, negation: str) -> list[str]:
        """Return the phrases that a verb group predicates of its subject."""
        lemma, after = chunk.head.lemma, _after(chunk)
        negation = chunk.negation or negation
        if chunk.modal in words("shady_modals") or (chunk.modal and chunk.auxiliary == "have"):
            return []
        if lemma == "be":
            return self._copula(after, negation)
        if chunk.auxiliary == "be" and chunk.head.tag in ("VVN", "VVD"):
            return self._passive(chunk, negation)
        if lemma in words("linking") and (found := self._linked(after, negation)):
            return found
        if lemma in words("links_noun") and lemma != "make" and after.kind == "np":
            return self.role(after, negation)
        if found := self._as_role(chunk, negation):
            return found
        if lemma == "have":
            return self._having(chunk, after, negation)
        if (after.kind == "to" and lemma in words("carriers_to")) or (after.kind == "ing" and lemma in words("carriers_ing")):
            return self.verb(after, negation)
        return self._deed(chunk, after, negation)

    def _linked(self, chunk: Chunk, negation: str) -> list[str]:
        if chunk.kind in ("adj", "en", "not"):
            return self.adjectives(chunk, negation)
        noun_like = chunk.kind == "np" and not chunk.determiners and chunk.head.lemma in words("time_nouns")
        return self.role(chunk, negation) if noun_like else []

    def _copula(self, chunk: Chunk, negation: str) -> list[str]:
        """Return the predicate after "is": adjectives, a role, "able to ...", or a state ("in love", "in a wheelchair", "from Mexico")."""
        if chunk.kind in ("adj", "en", "not"):
            able = chunk.head.lemma == "able" and _after(chunk).kind == "to"
            return self.verb(_after(chunk), negation) if able else self.adjectives(chunk, negation)
        if chunk.kind == "np":
            return self.role(chunk, negation)
        place = chunk.after
        named = self._noun(place) if chunk.preposition else None
        phrase = f"{chunk.preposition} {named}"
        origin = chunk.preposition == "from" and place.head.tag == "NP0"
        return _negated([phrase], negation) if named and (origin or phrase in words("copula_phrases")) else []

    def _passive(self, chunk: Chunk, negation: str) -> list[str]:
        text, lemma = chunk.head.lower, chunk.head.lemma
        if text in words("states"):
            return self.adjectives(chunk, negation)
        if found := self._as_role(chunk, negation):
            return found
        rest = self._complement(chunk.after, passive=True)
        if lemma == "bear" and rest:
            return [f"born {rest}"]
        if lemma in words("minor") or rest is None:
            return []
        return [f"is {'not ' if negation else ''}{text} {rest}".strip()]

    def _as_role(self, chunk: Chunk, negation: str) -> list[str]:
        """Return the role after "as" ("worked as a nurse")."""
        if chunk.head.lemma not in words("role_verbs"):
            return []
        for _ in range(4):
            chunk = chunk.after
            if chunk.kind in ("verb", "comma", "stop"):
                break
            if chunk.head.lemma == "as":
                return self.role(chunk.after, negation) if chunk.after.kind == "np" else self.adjectives(chunk.after, negation)
        return []

    def _having(self, chunk: Chunk, after: Chunk, negation: str) -> list[str]:
        if after.kind == "to":
            return self.verb(after, negation)
        if after.kind != "np":
            return []
        if found := self.trait(after):
            return [f"no {one}" if negation or after.determined_by("no") else one for one in found]
        named = self._complement(chunk.after)
        return [f"{'does not have' if negation else 'has'} {named}"] if named else []

    def _deed(self, chunk: Chunk, after: Chunk, negation: str) -> list[str]:
        word, lemma = chunk.head, chunk.head.lemma
        if word.tag == "VM0" or not lemma.isalpha():
            return []
        rest = self._complement(chunk.after, two=lemma in words("two_objects"))
        if rest is None or (not rest and lemma not in words("bare")) or f"{lemma} {rest}" in words("empty_deeds"):
            return []
        if lemma in words("minor"):  # an everyday verb, unless what comes with it makes more of it
            begins, *_ = rest.split(" ")
            object_of_its_own = lemma in words("deed_with_object") and after.kind == "np" and begins != "oneself"
            telling = begins in table("deed_with").get(lemma, ()) or not words("telling_adverbs").isdisjoint(rest.split())
            if not telling and not object_of_its_own:
                return []
        verb = word.lower if word.tag == "VVZ" else third_person(lemma)
        return [f"{ {'never': f'never {verb}', 'not': f'does not {lemma}'}.get(negation, verb) } {rest}".strip()]

    def _noun(self, chunk: Chunk, room: int = _LONGEST_NOUN) -> str | None:
        """Return a noun phrase as an object, with people generalised; None if it is uninformative ("it", "her eyes") or no noun phrase.

        The first adjectives are dropped if the phrase has more words than `room`.
        """
        head = chunk.head
        if chunk.kind != "np":
            return None
        if head.lower.endswith(("self", "selves")):
            return "oneself"
        if head.who >= 0 or pronoun_class(head.lower):
            return self._person(chunk)
        if head.lemma in words("empty_objects"):
            return None
        first = _shown(w for w in chunk.determiners if w.tag != "DPS" and w.lemma not in ("this", "that", "these", "those", "such"))
        described = [*chunk.modifiers, *chunk.nouns]
        rest = _shown(word for word in described if word.lemma not in ("own", "usual"))
        rest = rest[-max(min(room, _LONGEST_NOUN) - len(first), 1) :]
        if rest and first and first[-1] in ("a", "an") and len(rest) < len(described):
            first[-1] = "an" if rest[0][0] in "aeiou" else "a"
        return " ".join(first + rest)

    def _person(self, chunk: Chunk) -> str | None:
        """Generalise a name or pronoun ("someone", "others"); return None for the person described."""
        people = chunk.people
        if people:
            return None if people == {self._who} else "the other" if chunk.head.who < 2 and max(people) < 2 else "someone"
        return {"they": "others", "i": None}.get(str(pronoun_class(chunk.head.lower)), "someone")

    def _thing(self, chunk: Chunk, room: int = _LONGEST) -> str | None:
        """Return a noun phrase or a gerund as an object; None if it is neither."""
        return self._noun(chunk) or (self._action(chunk, room) if chunk.kind == "ing" else None)

    def _action(self, chunk: Chunk, room: int = _LONGEST) -> str | None:
        """Return a verb with its complement in at most `room` words: "helping others", "to explore the world", "explore the world"."""
        verb = [chunk.head.lower if chunk.kind == "ing" else chunk.head.lemma]
        if chunk.kind == "to":
            verb = _shown(word for word in chunk.words if word.tag not in ("AV0", "XX0"))
        rest = self._complement(chunk.after, room=room - len(verb))
        return None if rest is None or (not rest and verb == ["to", "be"]) else " ".join([*verb, *rest.split()])

    def _complement(self, chunk: Chunk, *, passive: bool = False, two: bool = False, room: int = _LONGEST) -> str | None:
        """Return the complement of the verb before a chunk, "" if it has none, or None if it is uninformative.

        Parameters
        ----------
        passive
            Whether the verb is passive and has no object.
        two
            Whether the verb can have two objects ("gives someone a book").
        room
            Maximum number of words.
        """
        found: list[str] = []
        has_object = False
        while kind := chunk.kind:
            if kind in ("to", "ing", "inf") and not found:
                return self._action(chunk, room)
            if kind in ("that", "who", "quote"):
                return " ".join(found) or None
            if kind == "np":
                if passive or (has_object and not (two and chunk.before.kind == "np")):
                    break
                noun = self._noun(chunk, room - len(found))
                if noun is None or (noun in _PRONOUN_LIKE and _after(chunk).kind == "verb"):
                    return None
                read: tuple[Sequence[str], Chunk, bool] | None = (noun.split(), chunk.after, noun not in _PRONOUN_LIKE)
            else:
                read = self._modifier(chunk, has_object, room - len(found))
            if read is None or len(found) + len(read[0]) > room:
                break
            found += read[0]
            chunk, has_object = read[1:]
        return " ".join(found)

    def _modifier(self, chunk: Chunk, has_object: bool, room: int) -> tuple[Sequence[str], Chunk, bool] | None:
        """Return the words of an adverb, particle, adjective or prepositional phrase, the next chunk, and whether no object can follow.

        There are no words if the modifier is uninformative or gives the time. The result is None if it does not belong to the verb.
        """
        kind, text, after = chunk.kind, chunk.head.lower, chunk.after
        if kind == "adv":
            return [text] * (text in words("telling_adverbs")), after, has_object
        if kind == "part":
            return [text], after, has_object
        if kind == "adj" and not has_object:
            return [text] * (text not in words("empty_adjectives") or text == "early"), after, True
        link, beyond = chunk.head.lemma, after.after
        noun = self._thing(after, room - 1) if kind == "prep" or (kind == "sub" and link == "as") else None
        if noun is None or _after(after).kind == "verb":
            return None
        idle = link in words("idle_prepositions") or after.head.lemma in words("time_nouns")
        if has_object and not idle and link in words("scene_prepositions"):
            return None
        if after.kind == "ing":  # the gerund took the rest
            beyond = NO_CHUNK
        elif idle and beyond.kind == "prep":  # "without fear of judgement" goes as a whole
            beyond = beyond.after.after
        return [] if idle else [link, *noun.split()], beyond, True
