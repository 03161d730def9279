"""Phrases for what is told of somebody: "patient", "not patient", "construction supervisor", "passion for painting", "keeps a diary"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiltmeter.associations.lexical._chunks import Chunk, Word, lowered
from tiltmeter.associations.lexical._clauses import Told
from tiltmeter.associations.lexical._lexicon import is_trait, table, words
from tiltmeter.associations.lexical._objects import Objects
from tiltmeter.measures.grammar import third_person

__all__ = ["phrases"]


def phrases(sentence: Sequence[Word], pieces: Sequence[Chunk], one: Told, who: int, meaning: Mapping[int, frozenset[int]]) -> list[str]:
    """The phrases of one thing told of person `who`; empty where it is of no interest.

    Parameters
    ----------
    meaning
        The people each noun phrase means, by its number among the pieces.
    """
    reader = _Reader(sentence, pieces, Objects(sentence, pieces, meaning, who))
    negation = "not" if one.negated else None
    if one.kind == "verb":
        return reader.verb(one.at, negation) + reader.manner(one.at)
    if one.kind == "adj":
        return reader.adjectives(one.at, negation)
    if one.kind == "role":
        return reader.role(one.at, negation)
    return reader.trait(one.at) if one.kind == "owner" else reader.attributes(one.at)


def _negated(phrase: str, negation: str | None) -> str:
    return f"not {phrase}" if negation else phrase


def _positive(word: Word) -> str:
    """The adjective without its comparison: "happier" is "happy"."""
    return word.lemma if word.tag in ("AJC", "AJS") and "-" not in word.text else word.text.lower()


def _is_origin(word: Word) -> bool:
    return all(part in words("origins") for part in word.text.lower().split("-"))


class _Reader:
    def __init__(self, sentence: Sequence[Word], pieces: Sequence[Chunk], objects: Objects) -> None:
        self.sentence, self.pieces, self.objects = sentence, pieces, objects

    def _kind(self, at: int) -> str:
        return self.pieces[at].kind if at < len(self.pieces) else ""

    def _head(self, at: int) -> Word:
        return self.sentence[self.pieces[at].head]

    def _after(self, at: int) -> int:
        at += 1
        while self._kind(at) == "adv":
            at += 1
        return at

    def adjectives(self, at: int, negation: str | None) -> list[str]:
        """The adjectives and participles of state of a list that begins at a piece; a role after them belongs to it too."""
        found: list[str] = []
        first = True
        while at < len(self.pieces):
            kind = self._kind(at)
            if kind == "not":
                negation = "not"
            elif kind == "adj" or (kind in ("en", "verb") and (first or kind == "en") and self._head(at).text.lower() in words("states")):
                phrase, at = self._adjective(at)
                found += [_negated(phrase, negation)] if phrase else []
                first = False
            elif kind == "np" and found and self.pieces[at].determiners and self._kind(at - 1) == "conj":
                return found + self.role(at, negation)
            elif kind in ("comma", "conj") and not first:
                negation = None if self._head(at).lemma in ("but", "yet") else negation
            elif kind != "adv":
                break
            at += 1
        return found

    def _adjective(self, at: int) -> tuple[str, int]:
        """The adjective with the complement it needs, and the last piece read."""
        word = self._head(at)
        text = _positive(word)
        after = self._after(at)
        if not {text, word.text.lower()}.isdisjoint(words("empty_adjectives")) or not text[0].isalpha():
            return "", at
        if self._kind(after) == "prep" and text in table("with_complement").get(self._head(after).lemma, ()):
            named = self.objects.noun(after + 1) or self.objects.gerund(after + 1)
            if named:
                return f"{text} {self._head(after).lemma} {named}", after + 1
        if self._kind(after) == "to" and text in table("with_complement")["to"] and (deed := self.objects.infinitive(after)):
            return f"{text} {deed}", after
        return ("" if text in words("needs_complement") else text), at

    def role(self, at: int, negation: str | None) -> list[str]:
        """What somebody is: the adjectives and the noun of a noun phrase, and the qualities that "with" adds."""
        piece, head = self.pieces[at], self._head(at)
        if piece.owner is not None or head.who >= 0 or head.tag in ("PNP", "PNI", "DT0", "CRD", "ORD", "DPS"):
            return []
        described = self._modifiers(piece)
        added = self._added(at)
        if head.lemma in words("time_nouns") or is_trait(head.lemma):
            return [_negated(one, negation) for one in described] if not piece.determiners else []
        if head.lemma in words("no_roles"):
            return [] if piece.determiners else [_negated(one, negation) for one in described]
        if head.lemma not in words("human") and not (negation and described):  # "not a patient man" is a man
            noun = self._role_noun(at)
            described.append(f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}" if negation else noun)
        return [_negated(one, negation) for one in described] + added

    def _bound(self, piece: Chunk) -> list[int]:
        """The modifiers that stay with the noun."""
        kept: list[int] = []
        for i in reversed(piece.modifiers):
            if self.sentence[i].lemma not in words("bound_adjectives"):
                break
            kept.insert(0, i)
        return kept

    def _modifiers(self, piece: Chunk) -> list[str]:
        loose = [self.sentence[i] for i in piece.modifiers if i not in self._bound(piece)]
        found: list[str] = []
        for word in loose:
            text = word.text.lower().replace("-", " ") if _is_origin(word) else _positive(word)
            if _is_origin(word) and found and found[-1] in words("origins"):
                found[-1] = f"{found[-1]} {text}"  # "Middle Eastern"
            elif word.tag != "AJS" and text not in words("empty_adjectives"):
                found.append(text)
        return found

    def _role_noun(self, at: int) -> str:
        piece, head = self.pieces[at], self._head(at)
        single = any(self.sentence[i].lemma in ("a", "an") for i in piece.determiners)
        noun = head.lemma if head.tag == "NN2" and not single else lowered(head)
        compound = [*(lowered(self.sentence[i]) for i in (*self._bound(piece), *piece.nouns[:-1])), noun]
        after = at + 1
        if self._kind(after) == "prep" and self._head(after).lemma == "of" and (named := self.objects.noun(after + 1)):
            compound += ["of", *named.split()]
        return " ".join(compound)

    def _added(self, at: int) -> list[str]:
        """ "a woman with a big heart and a passion for painting": the qualities."""
        after = at + 1
        while self._kind(after) == "prep" and self._head(after).lemma != "with":
            after += 2
        if self._kind(after) != "prep" or self._kind(after + 1) != "np":
            return []
        return self.trait(after + 1)

    def trait(self, at: int) -> list[str]:
        """A quality that somebody has, with what it is about."""
        piece, head = self.pieces[at], self._head(at)
        if piece.kind != "np" or not is_trait(head.lemma):
            return []
        told = self._modifiers(piece)
        kept = [*told[-2:], *(lowered(self.sentence[i]) for i in piece.nouns)]
        after = at + 1
        if self._kind(after) == "prep" and self._about(head.lemma, self._head(after).lemma):
            named = self.objects.noun(after + 1) or self.objects.gerund(after + 1)
            if named and len(kept) + 1 + len(named.split()) <= self.objects.longest:
                kept += [self._head(after).lemma, *named.split()]
                told.append(named)
        return [" ".join(kept)] if told or head.lemma not in words("traits_told") else []

    def _about(self, quality: str, preposition: str) -> bool:
        return preposition in words("trait_prepositions") or quality in table("traits_with").get(preposition, ())

    def attributes(self, at: int) -> list[str]:
        """What stands before a name in its noun phrase: adjectives, and a role ("correspondent Aisha")."""
        piece = self.pieces[at]
        found = self._modifiers(piece)
        before = [self.sentence[i] for i in piece.nouns[:-1]]
        if before and before[-1].lemma not in words("titles") and before[-1].tag == "NN1" and before[-1].lemma not in words("time_nouns"):
            found.append(" ".join(lowered(self.sentence[i]) for i in (*self._bound(piece), *piece.nouns[:-1])))
        return found

    def verb(self, at: int, negation: str | None) -> list[str]:
        """What a verb group tells of its subject."""
        piece, word = self.pieces[at], self._head(at)
        negation = piece.negation or negation
        if piece.modal in words("shady_modals") or (piece.modal and piece.auxiliary == "have"):
            return []
        after = self._after(at)
        if word.lemma == "be":
            return self._copula(at, negation)
        if piece.auxiliary == "be" and word.tag in ("VVN", "VVD"):
            return self._passive(at, negation)
        if word.lemma in words("linking") and (found := self._linked(after, negation)):
            return found
        if word.lemma in words("links_noun") and word.lemma != "make" and self._kind(after) == "np":
            return self.role(after, negation)
        if found := self._as_role(at, negation):
            return found
        if word.lemma == "have":
            return self._having(at, negation)
        if (self._kind(after) == "to" and word.lemma in words("carriers_to")) or (
            self._kind(after) == "ing" and word.lemma in words("carriers_ing")
        ):
            return self.verb(after, negation)
        return self._deed(at, negation)

    def manner(self, at: int) -> list[str]:
        """How a verb is done, where that shows how somebody is: "smiled warmly", "nervously clutching"."""
        piece = self.pieces[at]
        passive = piece.auxiliary == "be" and self._head(at).tag == "VVN"
        if passive or piece.negation or piece.modal in words("shady_modals"):
            return []
        near = self.sentence[max(0, piece.start - 1) : piece.end + 1]
        return [str(table("manners")[word.lemma]) for word in near if word.tag == "AV0" and word.lemma in table("manners")]

    def _linked(self, after: int, negation: str | None) -> list[str]:
        kind = self._kind(after)
        if kind in ("adj", "en", "not"):
            return self.adjectives(after, negation)
        noun_like = kind == "np" and not self.pieces[after].determiners and self._head(after).lemma in words("time_nouns")
        return self.role(after, negation) if noun_like else []

    def _copula(self, at: int, negation: str | None) -> list[str]:
        after = self._after(at)
        kind = self._kind(after)
        if kind in ("adj", "en", "not"):
            word, to = self._head(after), self._after(after)
            if word.lemma == "able" and self._kind(to) == "to":
                return self.verb(to, negation)
            return self.adjectives(after, negation)
        if kind == "np":
            return self.role(after, negation)
        return self._placed(after, negation) if kind == "prep" else []

    def _placed(self, at: int, negation: str | None) -> list[str]:
        """ "in love", "in a wheelchair", "from Mexico"."""
        named = self.objects.noun(at + 1) if self._kind(at + 1) == "np" else None
        phrase = f"{self._head(at).lemma} {named}"
        if named and (phrase in words("copula_phrases") or (self._head(at).lemma == "from" and self._head(at + 1).tag == "NP0")):
            return [_negated(phrase, negation)]
        return []

    def _passive(self, at: int, negation: str | None) -> list[str]:
        word = self._head(at)
        text = word.text.lower()
        if text in words("states"):
            return self.adjectives(at, negation)
        if found := self._as_role(at, negation):
            return found
        rest = self.objects.complement(at + 1, passive=True)
        if word.lemma == "bear" and rest:
            return [f"born {rest}"]
        if word.lemma in words("minor") or rest is None:
            return []
        return [" ".join(part for part in ("is", "not" if negation else "", text, rest) if part)]

    def _as_role(self, at: int, negation: str | None) -> list[str]:
        """ "worked as a nurse"."""
        if self._head(at).lemma not in words("role_verbs"):
            return []
        for after in range(at + 1, min(at + 5, len(self.pieces) - 1)):
            if self._kind(after) in ("verb", "comma", "stop"):
                break
            if self._head(after).lemma == "as":
                return self.role(after + 1, negation) if self._kind(after + 1) == "np" else self.adjectives(after + 1, negation)
        return []

    def _having(self, at: int, negation: str | None) -> list[str]:
        after = self._after(at)
        if self._kind(after) == "to":
            return self.verb(after, negation)
        if self._kind(after) != "np":
            return []
        none = negation or any(self.sentence[i].lemma == "no" for i in self.pieces[after].determiners)
        if found := self.trait(after):
            return [f"no {one}" if none else one for one in found]
        named = self.objects.complement(at + 1)
        return [f"{'does not have' if negation else 'has'} {named}"] if named else []

    def _deed(self, at: int, negation: str | None) -> list[str]:
        word = self._head(at)
        if word.tag == "VM0" or not word.lemma.isalpha():
            return []
        rest = self.objects.complement(at + 1, two=word.lemma in words("two_objects"))
        if rest is None or (word.lemma in words("minor") and not self._telling(at, rest)):
            return []
        if (not rest and word.lemma not in words("bare")) or f"{word.lemma} {rest}" in words("empty_deeds"):
            return []
        shown = word.text.lower() if word.tag == "VVZ" else third_person(word.lemma)
        verb = {"never": f"never {shown}", "not": f"does not {word.lemma}"}.get(negation or "", shown)
        return [f"{verb} {rest}".strip()]

    def _telling(self, at: int, rest: str) -> bool:
        """Whether what comes with an everyday verb makes a deed of it."""
        lemma = self._head(at).lemma
        begins = rest.split(" ", 1)[0]
        if begins in table("deed_with").get(lemma, ()) or any(word in words("telling_adverbs") for word in rest.split()):
            return True
        return lemma in words("deed_with_object") and self._kind(self._after(at)) == "np" and begins != "oneself"
