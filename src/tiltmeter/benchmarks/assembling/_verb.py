"""Where the main verb of a sentence stands, by the order of its parts of speech.

The words are read from left to right. A word that opens an embedded clause ("who", "that", "because", ...) waits for a verb of its own;
the first finite verb that nobody waits for is the main one. Participles that only describe ("the term coined by ...") are told from verbs
by what follows them. What stands in brackets or quotation marks is not looked at.

The time grows with the number of words: where a search ends ("the next verb", "the next comma") is known for every word after one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

__all__ = ["Words", "main_verb"]


class Words(NamedTuple):
    """One sentence, a tuple for each column of TAGGED that is needed; only what stands outside brackets and quotation marks."""

    text: Sequence[str]
    tag: Sequence[str]
    name: Sequence[bool]
    place: Sequence[int]
    """Of the word in the whole sentence."""


_CLEAR = ("VBZ", "VBD", "VBB", "VHZ", "VHD", "VHB", "VDZ", "VDD", "VDB", "VM0")
_AUXILIARIES = ("VB", "VH", "VD", "VM")
_OPENERS = ("CJS", "CJT", "PNQ", "DTQ", "AVQ")
_EITHER = frozenset(("as", "since", "after", "before", "until", "till", "than", "like", "once", "so", "but", "except", "whether"))
"""Words that open a clause or stand before a mere noun: what follows decides."""
_RELATIVE = frozenset(("that", "which", "who", "whom", "whose"))
_DETERMINERS = ("AT0", "DPS", "POS", "PRF", "PRP", "AJ0", "AJC", "AJS", "CRD", "ORD")
_NOUNS = ("NN0", "NN1", "NN2", "NN", "NP0", "UNC", "PNP", "PNI", "PNQ", "DT0")
_OBJECT = ("AT0", "DPS", "PNP", "DT0", "CJT", "TO0")
_PRONOUNS = frozenset(("he", "she", "it", "they", "we", "i", "you", "there"))
_SUBJECTS = _PRONOUNS | _RELATIVE
_PASSED = ("AV0", "XX0", "AVP")
_IN_THESE = frozenset(("particular", "general", "turn", "fact", "part"))
_STANDS_ALONE = frozenset(("latter", "former", "many", "others"))
"""Words that are no adverbs, whatever the tagger says."""
_DEGREE = frozenset(("less", "more", "very", "so", "too", "as", "most", "quite", "rather"))
"""What follows these after "is" is a quality: "is less accommodating"."""
_PARTICIPLES = ("VVN", "VBN", "VHN", "VDN")
_FULL, _FEWER_CLAUSES, _PARTICIPLES_TOO, _NOUNS_TOO = range(4)


@cache
def _words(kind: str) -> frozenset[str]:
    import yaml

    listed: dict[str, list[str]] = yaml.safe_load(Path(__file__).with_name("words.yaml").read_text(encoding="utf-8"))
    return frozenset(listed[kind])


def main_verb(words: Words) -> tuple[int, int] | None:
    """First and last word (as places in the whole sentence) of the main verb with its auxiliaries; None where there is none.

    Taggers err. A sentence in which no main verb is found is read again: with doubtful conjunctions taken for prepositions, then with
    participles and at last with nouns taken for verbs where their neighbours allow it.
    """
    first_part = words.text.index(";") if ";" in words.text else len(words.text)
    for count in sorted({first_part, len(words.text)}):
        part = Words(words.text[:count], words.tag[:count], words.name[:count], words.place[:count])
        for leniency in (_FULL, _FEWER_CLAUSES, _PARTICIPLES_TOO, _NOUNS_TOO):
            if (found := _reading(part, leniency).find()) is not None:
                return words.place[found[0]], words.place[found[1]]
    return None


def _reading(words: Words, leniency: int) -> _Reading:
    """The reading that knows whether the sentence begins with a clause of its own."""
    first = _Reading(words, leniency, bool(words.tag) and words.tag[0] == "CJS")
    fronted = first.count > 0 and first.opens(0) and first.text[0] not in _RELATIVE
    return first if fronted == first.fronted else _Reading(words, leniency, fronted)


class _Reading:
    """One way to read the sentence, the more lenient the higher the number."""

    def __init__(self, words: Words, leniency: int, fronted: bool) -> None:
        self.text = [word.lower() for word in words.text]
        self.tag, self.name = words.tag, words.name
        self.count = len(self.text)
        self.leniency = leniency
        self.fronted = fronted
        self._ends: dict[int, int] = {}

    def find(self) -> tuple[int, int] | None:
        waiting, last_embedded = 0, -1
        i = 0
        while i < self.count:
            if self.opens(i):
                waiting += 1
            elif self.finite(i):
                end = self.group_end(i)
                if waiting:
                    waiting -= 1
                    last_embedded = end
                elif last_embedded < 0 or not self.inside(i, last_embedded):
                    return self.first_clause(i) or (i, end)
                i = end
            i += 1
        return None

    def first_clause(self, i: int) -> tuple[int, int] | None:
        """The verb of the first clause, taken for a participle, where the one found is of the second ("X led to Y, but it declined")."""
        before = self.before(i)
        if before < 1 or self.tag[before - 1] != "CJC" or self.text[before] not in _PRONOUNS:
            return None
        found = (k for k in range(1, before) if self.tag[k] == "VVN" and self.taken_for_participle(k, self.kind_before(k)))
        return next(((k, k) for k in found), None)

    def inside(self, i: int, last: int) -> bool:
        """Whether a finite verb after an embedded clause's verb is still in that clause: "who live and work", "when he said it was"."""
        before = self.before(i)
        if before > last and self.tag[before] == "CJC":
            return self.leniency < _PARTICIPLES_TOO
        marks = self.commas[i] > self.commas[last]
        if self.fronted and not marks:
            return self.leniency < _FEWER_CLAUSES
        return before == last + 1 and self.text[before] in _PRONOUNS and not marks

    def before(self, i: int) -> int:
        """The last word before word i that is no adverb; -1 where there is none."""
        return self.befores[i]

    @cached_property
    def befores(self) -> list[int]:
        """`before` of each word."""
        found = [-1]
        for i in range(self.count):
            adverb = self.passed(i) and self.text[i] not in _STANDS_ALONE
            found.append(found[i - 1 if self.text[i] in _IN_THESE else i] if adverb else i)
        return found

    @cached_property
    def commas(self) -> list[int]:
        """Commas before each word."""
        return [0, *accumulate(word == "," for word in self.text)]

    def following(self, fits: Callable[[int], bool]) -> list[int]:
        """Of each word the first from it on that fits; the number of words where there is none."""
        found = [self.count] * (self.count + 2)
        for i in reversed(range(self.count)):
            found[i] = i if fits(i) else found[i + 1]
        return found

    @cached_property
    def next_finite(self) -> list[int]:
        return self.following(self.finite)

    @cached_property
    def next_mark(self) -> list[int]:
        return self.following(lambda i: self.text[i] in (",", ";", ":"))

    @cached_property
    def next_opener(self) -> list[int]:
        return self.following(lambda i: self.tag[i] in _OPENERS and self.text[i] not in _EITHER)

    @cached_property
    def next_no_adverb(self) -> list[int]:
        return self.following(lambda i: self.tag[i] != "AV0")

    @cached_property
    def next_of_group(self) -> list[int]:
        """What an auxiliary may go with: the next word that is no adverb, "not" or "first"."""
        return self.following(lambda i: self.tag[i] not in ("AV0", "XX0") and self.text[i] != "first")

    @cached_property
    def next_verb(self) -> list[int]:
        """Verbs that are finite whatever comes before."""
        return self.following(lambda i: self.clear(i) or (self.tag[i] == "VVZ" and self.kind_before(i) not in _DETERMINERS))

    @cached_property
    def next_clause(self) -> list[int]:
        """What begins or ends a clause, "and" left out."""
        return self.following(lambda i: self.tag[i] in _OPENERS or self.text[i] in (";", ":") or (self.text[i] == "," and self.fronted))

    @cached_property
    def next_and(self) -> list[int]:
        """An "and" that does not only join two nouns."""
        return self.following(lambda i: self.tag[i] == "CJC" and self.kind_after(i)[:2] not in ("NN", "NP", "AJ"))

    def passed(self, i: int) -> bool:
        if self.text[i] in _IN_THESE:
            return i > 0 and self.text[i - 1] == "in"
        return self.tag[i] in _PASSED or self.text[i] == "first"

    def kind_before(self, i: int) -> str:
        """Tag of that word; a name is a name, whatever its words are tagged as."""
        before = self.before(i)
        if before < 0:
            return ""
        return "NP0" if self.name[before] else "NN1" if self.text[before] in _STANDS_ALONE else self.tag[before]

    def kind_after(self, i: int) -> str:
        return self.tag[i + 1] if i + 1 < self.count else "PUN"

    def opens(self, i: int) -> bool:
        """Whether word i opens a clause with a verb of its own."""
        word, kind, after = self.text[i], self.tag[i], self.kind_after(i)
        if word == "that" and kind == "DT0":
            return i > 0 and self.tag[i - 1][:2] in ("NN", "NP") and after[:1] == "V"
        if kind not in _OPENERS or (self.name[i] and i > 0):
            return False
        if i == 0 and (kind in ("PNQ", "DTQ", "AVQ") or word == "that") and after in (*_CLEAR, "VVZ"):
            return False
        if word in ("because", "though", "although") and after in ("PRP", "PRF"):
            return False
        if word in _EITHER:
            return self.leniency == _FULL and self.clause_follows(i)
        return self.kind_after(self.next_no_adverb[i + 1] - 1) not in ("TO0", "VVG", "VVN")

    def clause_follows(self, i: int) -> bool:
        """Whether a verb comes before the next comma, and it is not the only one there is ("Islam as a religion is ...")."""
        verb = self.next_finite[i + 1]
        if verb >= min(self.count, self.next_mark[i + 1], self.next_opener[i + 2]):
            return False
        alone = self.next_finite[self.group_end(verb) + 1] == self.count
        return i == 0 or self.text[i + 1] in _PRONOUNS or not alone

    def finite(self, i: int) -> bool:
        """Whether word i is, or begins, a verb with a subject of its own."""
        kind = self.tag[i]
        if self.name[i]:
            return False
        if kind in _CLEAR:
            return self.clear(i)
        if i == 0:
            return False
        before = self.kind_before(i)
        if kind in ("VVZ", "VVB"):
            return before not in (*_DETERMINERS, "TO0", "VM0") or (before == "CRD" and self.leniency > _FULL)
        if kind == "VVI":
            return before in _NOUNS or before == ""
        if kind == "VVD":
            return not self.describes(i)
        if kind == "AJ0" and before == "PNQ":
            return self.text[i].endswith("ed")
        if kind == "VVN":
            return self.past_tense(i, before) or (self.leniency >= _PARTICIPLES_TOO and self.taken_for_participle(i, before))
        return self.leniency == _NOUNS_TOO and self.taken_for_noun(i, before)

    def clear(self, i: int) -> bool:
        """Whether word i is a form that is never anything but finite, and not the one of ", that is,"."""
        return self.tag[i] in _CLEAR and self.text[max(0, i - 2) : i + 2] != [",", "that", "is", ","]

    def past_tense(self, i: int, before: str) -> bool:
        """Whether what was taken for a participle must be a past tense: "it emerged", "leaders argued that", "he accepted the"."""
        if self.text[i] in _words("past") and before in (*_NOUNS, "PUN"):
            return True
        objects = ("CJT",) if self.text[i] in _words("naming") else ("CJT", "AT0", "DPS", "PNP")
        return before in _NOUNS and self.kind_after(i) in objects

    def describes(self, i: int) -> bool:
        """Whether a form in -ed is a participle that only describes what stands before it: another verb comes for the same subject."""
        before = self.before(i)
        if self.text[i] in _words("past") or self.kind_after(i) in _OBJECT or (before >= 0 and self.text[before] in _SUBJECTS):
            return False
        verb, end = self.next_verb[i + 1], self.next_clause[i + 1]
        if i + 1 < self.count and self.text[i + 1] != "by":
            end = min(end, self.next_and[i + 1])
        return verb < end and self.text[self.before(verb)] not in _PRONOUNS

    def taken_for_participle(self, i: int, before: str) -> bool:
        if self.describes(i) or (i + 1 < self.count and self.text[i + 1] == "by"):
            return False
        return before in _NOUNS or (before == "PUN" and self.leniency == _NOUNS_TOO)

    def taken_for_noun(self, i: int, before: str) -> bool:
        """A verb between subject and object that the tagger took for a noun or an adjective: "some claim that"."""
        after, word = self.kind_after(i), self.text[i]
        if before not in _NOUNS:
            return False
        if self.tag[i] == "AJ0":
            return word.endswith("ed") and (after in _NOUNS or after in (*_OBJECT, "AJ0"))
        stem = word.removesuffix("s") if word not in _words("verb_or_noun") else word
        if self.tag[i] not in ("NN1", "NN2") or not {stem, stem.removesuffix("e")} & _words("verb_or_noun"):
            return False
        if after in _OBJECT or (word == "remains" and after == "AJ0"):
            return True
        agrees = self.plural_subject(i) if self.tag[i] == "NN1" else before in ("NN1", "NP0", "DT0")
        return agrees and after in ("PRP", "NP0", "UNC", "VVG", "AJ0", "NN1", "NN2")

    def plural_subject(self, i: int) -> bool:
        """Whether the first noun before word i is a plural, or two are joined."""
        noun, joined = self.firsts
        return (noun < i and self.tag[noun] in ("NN2", "DT0")) or joined < i

    @cached_property
    def firsts(self) -> tuple[int, int]:
        """Places of the first noun and of the first "and"; the number of words where there is none."""
        nouns = (i for i, kind in enumerate(self.tag) if kind in _NOUNS)
        return next(nouns, self.count), self.text.index("and") if "and" in self.text else self.count

    def group_end(self, i: int) -> int:
        """The last word of the verb that begins with the finite word i: its auxiliaries, "not", adverbs between, and the verb itself."""
        end, passed = i, []
        while end not in self._ends:
            passed.append(end)
            following = self.next_of_group[end + 1]
            if self.tag[end][:2] not in _AUXILIARIES:
                self._ends[end] = end
            elif following >= self.count or not self.continues(end, following):
                self._ends[end] = end + 1 if self.kind_after(end) == "XX0" else end
            else:
                end = following
        self._ends.update(dict.fromkeys(passed, self._ends[end]))
        return self._ends[end]

    def continues(self, end: int, following: int) -> bool:
        """Whether the word goes with the auxiliary before it."""
        kind, auxiliary = self.tag[following], self.tag[end][:2]
        if self.name[following] or self.text[following - 1] in _DEGREE:
            return False
        if auxiliary == "VB":
            adjective = kind == "AJ0" and self.text[following].endswith("ed")
            passive = adjective and self.kind_after(following) in ("PRP", "TO0", "PRF", "CJS")
            return passive or kind in (*_PARTICIPLES, "VVD", "VVG", "VBG", "VHG")
        if auxiliary == "VH":
            return kind in (*_PARTICIPLES, "VVD")
        return kind in ("VVI", "VBI", "VHI", "VDI", "VVB", "VBB", "VHB")
