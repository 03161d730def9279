"""Part-of-speech tags of the words of a sentence, and rules that find its main verb.

Tags are those of the BNC's C5 tag set (NN1, VVD, VBZ, AJ0, ...), from HanTa through `readers.grammar`.

The words are processed from left to right. A word that introduces a subordinate clause ("who", "that",
"because", ...) takes the next verb; the first finite verb that is not taken is the main verb. Attributive
participles ("the term coined by ...") are distinguished from verbs by the following words. Words in brackets
or quotation marks are ignored.

The running time is linear: the ends of searches ("the next verb", "the next comma") are precomputed for all
words in one pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import chain, dropwhile, product
from pathlib import Path
from typing import NamedTuple

from tiltmeter._files.yaml import packaged_yaml
from tiltmeter.readers import _grammar as grammar


class TaggedWord(NamedTuple):
    """A word or punctuation mark of a sentence."""

    text: str
    end: int
    """Offset of its end in the sentence, in characters."""
    tag: str
    bracketed: bool
    """Whether it is in brackets, including the brackets themselves."""
    quoted: bool
    """Whether it is between double quotation marks, including the marks themselves."""
    name: bool
    """Whether it is part of a name: capitalised inside the sentence, or a small word between two such words
    ("Bank of England")."""


_WHOLE = re.compile(
    r"(?<!\d)\d++(?:[.,:]\d++)+|(?:(?<!\w)[A-Za-z]\.){2,}"
    r"|(?<![\w.])(?:Mr|Mrs|Ms|Mx|Dr|Prof|St|Jr|Sr|Rev|Gen|Col|Sgt|Capt|Lt|vs|cf|ca|[A-Z])\.(?=\s+\S)"
)
"""Numbers, initials and abbreviations with their punctuation, each a single token."""


def tag_words(sentence: str) -> list[TaggedWord]:
    """Tokenise and tag a sentence; about 25,000 words per second on one core."""
    tokens: list[grammar.Token] = []
    end = 0
    for whole in _WHOLE.finditer(sentence):
        tokens += [*grammar.tokens(sentence, end, whole.start()), grammar.Token(whole.group(), *whole.span())]
        end = whole.end()
    tokens += grammar.tokens(sentence, end)
    texts = [token.text for token in tokens]
    tags = grammar.tag(texts)
    flags = zip(_bracketed(texts), _quoted(texts), _in_names(texts, tags), strict=True)
    return [
        TaggedWord(token.text, token.end, tag, *these)
        for token, tag, these in zip(tokens, tags, flags, strict=True)
    ]


def between_pairs(marks: Sequence[int]) -> set[int]:
    """Return the positions from the first to the second mark, from the third to the fourth, and so on.

    An unpaired mark is ignored.
    """
    pairs = zip(marks[::2], marks[1::2], strict=False)
    return set(chain.from_iterable(range(first, last + 1) for first, last in pairs))


_OPENING_MARKS = ("\u201c", "\u00ab", "\u201e")
_CLOSING_MARKS = ("\u201d", "\u00bb")


def _bracketed(texts: Sequence[str]) -> list[bool]:
    """Mark the words in brackets; a closing bracket without an opening one ("a) ...") is ignored."""
    in_brackets = []
    depth = 0
    for text in texts:
        depth += text in ("(", "[", "{")
        in_brackets.append(depth > 0)
        depth = max(0, depth - (text in (")", "]", "}")))
    return in_brackets


def _quoted(texts: Sequence[str]) -> list[bool]:
    """Mark the words in quotation marks: straight ones alternate.

    Curly ones and guillemets need a closing mark later on.
    """
    in_straight = between_pairs([i for i, text in enumerate(texts) if text == '"'])
    to_close = sum(text in _CLOSING_MARKS for text in texts)
    in_quotation = []
    opened = 0
    closed = 0
    for i, text in enumerate(texts):
        opened += text in _OPENING_MARKS
        in_quotation.append(i in in_straight or closed < min(opened, to_close))
        closed += text in _CLOSING_MARKS
    return in_quotation


def _in_names(texts: Sequence[str], tags: Sequence[str]) -> list[bool]:
    """Mark the words of names: capitalised words, and words that join them.

    The first word counts only if it is tagged as a name or is before another word of a name.
    """
    # Three additional entries, so that positions before the beginning and after the end are False.
    title = [*(text[:1].isupper() for text in texts), False, False, False]
    joining = [*(text in _words_by_use()["joining"] for text in texts), False, False, False]
    name_follows_first = title[1] or (joining[1] and joining[2] and title[3])
    in_names = []
    for i, tag in enumerate(tags):
        capital = title[i] and (i > 0 or tag == "NP0" or name_follows_first)
        to_the_right = title[i + 1] or (joining[i + 1] and title[i + 2])
        to_the_left = title[i - 1] or (joining[i - 1] and title[i - 2])
        in_names.append(capital or (joining[i] and to_the_right and to_the_left))
    return in_names


# The main verb

_CLEAR = ("VBZ", "VBD", "VBB", "VHZ", "VHD", "VHB", "VDZ", "VDD", "VDB", "VM0")
_AUXILIARIES = ("VB", "VH", "VD", "VM")
_OPENERS = ("CJS", "CJT", "PNQ", "DTQ", "AVQ")
_RELATIVE = frozenset(("that", "which", "who", "whom", "whose"))
_DETERMINERS = ("AT0", "DPS", "POS", "PRF", "PRP", "AJ0", "AJC", "AJS", "CRD", "ORD")
_NOUNS = ("NN0", "NN1", "NN2", "NN", "NP0", "UNC", "PNP", "PNI", "PNQ", "DT0")
_OBJECT = ("AT0", "DPS", "PNP", "DT0", "CJT", "TO0")
_PRONOUNS = frozenset(("he", "she", "it", "they", "we", "i", "you", "there"))
_IN_THESE = frozenset(("particular", "general", "turn", "fact", "part"))
_ALONE = frozenset(("latter", "former", "many", "others"))
"""Words that are not adverbs, regardless of their tag."""
_PARTICIPLES = ("VVN", "VBN", "VHN", "VDN")
_FULL, _FEWER_CLAUSES, _PARTICIPLES_TOO, _NOUNS_TOO = range(4)
_THAT_IS = [",", "that", "is", ","]


@cache
def _words_by_use() -> Mapping[str, frozenset[str]]:
    lists = packaged_yaml(Path(__file__).with_suffix(".yaml"))
    return {use: frozenset(words) for use, words in lists.items()}


def _main_verb(words: Sequence[TaggedWord]) -> TaggedWord | None:
    """Return the last word of the main verb with its auxiliaries; None if there is none.

    Taggers make errors. If no main verb is found, the sentence is analysed again: first with ambiguous
    conjunctions treated as prepositions, then with participles, and finally with nouns treated as verbs where
    their neighbours permit.

    Parameters
    ----------
    words
        The words outside brackets and quotation marks; punctuation before the first word is ignored.
    """
    words = list(dropwhile(lambda word: word.tag in ("PUN", "PUQ"), words))
    semicolon = next((i for i, word in enumerate(words) if word.text == ";"), len(words))
    ends = sorted({semicolon, len(words)})
    for end, leniency in product(ends, (_FULL, _FEWER_CLAUSES, _PARTICIPLES_TOO, _NOUNS_TOO)):
        verb = _reading(words[:end], leniency).main_verb()
        if verb is not None:
            return words[verb]
    return None


def _reading(words: Sequence[TaggedWord], leniency: int) -> _Reading:
    """Analyse a sentence, after finding out whether it starts with a subordinate clause."""
    first = _Reading(words, leniency, fronted=bool(words) and words[0].tag == "CJS")
    fronted = first.count > 0 and first.opens(0) and first.text[0] not in _RELATIVE
    return first if fronted == first.fronted else _Reading(words, leniency, fronted=fronted)


def _kind(word: TaggedWord) -> str:
    """Return the tag of a word; words of names are names, and _ALONE are nouns, regardless of their tags."""
    if word.name:
        return "NP0"
    return "NN1" if word.text.lower() in _ALONE else word.tag


class _Reading:
    """An analysis of the sentence with a given leniency; words are referred to by their positions."""

    def __init__(self, words: Sequence[TaggedWord], leniency: int, *, fronted: bool) -> None:
        self.text = text = [word.text.lower() for word in words]
        self.tag = tag = [word.tag for word in words]
        self.name = [word.name for word in words]
        self.count = len(words)
        self.leniency = leniency
        self.fronted = fronted
        self.before = self._words_before()
        # Position -1, before the first word, has the last entry.
        kinds = [_kind(word) for word in words]
        self.kind_before = [[*kinds, ""][place] for place in self.before]
        self.kind_after = [*tag[1:], "PUN"]
        # For each position, the first position from there on of ...
        self.next_mark = self._next(lambda i: text[i] in (",", ";", ":"))
        self.next_opener = self._next(
            lambda i: tag[i] in _OPENERS and text[i] not in _words_by_use()["either"]
        )
        self.next_no_adverb = self._next(lambda i: tag[i] != "AV0")
        # ... a word that an auxiliary may belong to,
        self.next_of_group = self._next(lambda i: tag[i] not in ("AV0", "XX0") and text[i] != "first")
        # ... a verb that is finite regardless of the words before it,
        self.next_verb = self._next(
            lambda i: self.clear(i) or (tag[i] == "VVZ" and self.kind_before[i] not in _DETERMINERS)
        )
        # ... a word that starts or ends a clause, except "and",
        self.next_clause = self._next(
            lambda i: tag[i] in _OPENERS or text[i] in (";", ":") or (text[i] == "," and fronted)
        )
        # ... an "and" that does not just join two nouns,
        self.next_and = self._next(
            lambda i: tag[i] == "CJC" and self.kind_after[i][:2] not in ("NN", "NP", "AJ")
        )
        self.next_finite = self._next(self.finite)
        self.group_end = self._group_ends()

    def _words_before(self) -> list[int]:
        """Return for each word the last word before it that is not an adverb; -1 if there is none."""
        before = [-1]
        for i, word in enumerate(self.text):
            is_adverb = self.tag[i] in ("AV0", "XX0", "AVP") or word == "first"
            if word in _IN_THESE and i > 0 and self.text[i - 1] == "in":
                before.append(before[i - 1])
            elif is_adverb and word not in _IN_THESE | _ALONE:
                before.append(before[i])
            else:
                before.append(i)
        return before[:-1]

    def _next(self, fits: Callable[[int], bool]) -> list[int]:
        """Return for each word the first word from it on that fits; the number of words if there is none."""
        following = [self.count] * (self.count + 2)
        for i in reversed(range(self.count)):
            following[i] = i if fits(i) else following[i + 1]
        return following

    def _group_ends(self) -> list[int]:
        """Return for each word the last word of a verb group that starts with it.

        A verb group consists of auxiliaries, "not", adverbs, and the verb.
        """
        ends = list(range(self.count))
        for i in reversed(ends):
            if self.tag[i][:2] in _AUXILIARIES:
                following = self.next_of_group[i + 1]
                if following < self.count and self.goes_with(i, following):
                    ends[i] = ends[following]
                elif self.kind_after[i] == "XX0":
                    ends[i] = i + 1
        return ends

    def goes_with(self, auxiliary: int, i: int) -> bool:
        """Check whether word i belongs to the auxiliary before it."""
        kind = self.tag[i]
        if self.name[i] or self.text[i - 1] in _words_by_use()["degree"]:
            return False
        match self.tag[auxiliary][:2]:
            case "VB":
                in_ed = kind == "AJ0" and self.text[i].endswith("ed")
                passive = in_ed and self.kind_after[i] in ("PRP", "TO0", "PRF", "CJS")
                return passive or kind in (*_PARTICIPLES, "VVD", "VVG", "VBG", "VHG")
            case "VH":
                return kind in (*_PARTICIPLES, "VVD")
        return kind in ("VVI", "VBI", "VHI", "VDI", "VVB", "VBB", "VHB")

    def main_verb(self) -> int | None:
        """Return the last word of the first finite verb outside subordinate clauses, or None."""
        claimed = 0
        last_embedded = -1
        i = 0
        while i < self.count:
            if self.opens(i):
                claimed += 1
            elif self.finite(i):
                end = self.group_end[i]
                if claimed:
                    claimed -= 1
                    last_embedded = end
                elif last_embedded < 0 or not self.inside(i, last_embedded):
                    return self.first_clause(i) or end
                i = end
            i += 1
        return None

    def first_clause(self, i: int) -> int | None:
        """Return the verb of the first clause, tagged as a participle, if verb i is in the second clause.

        An example is "X led to Y, but it fell".
        """
        before = self.before[i]
        if before < 1 or self.tag[before - 1] != "CJC" or self.text[before] not in _PRONOUNS:
            return None
        for place in range(1, before):
            if self.tag[place] == "VVN" and self.taken_for_participle(place):
                return place
        return None

    def inside(self, i: int, last: int) -> bool:
        """Check whether a verb after that of a subordinate clause is in the same clause.

        Examples are "who live and work" and "when he said it was".
        """
        before = self.before[i]
        if before > last and self.tag[before] == "CJC":
            return self.leniency < _PARTICIPLES_TOO
        if "," in self.text[last:i]:
            return False
        if self.fronted:
            return self.leniency < _FEWER_CLAUSES
        return before == last + 1 and self.text[before] in _PRONOUNS

    def opens(self, i: int) -> bool:
        """Check whether word i introduces a clause with its own verb."""
        word = self.text[i]
        kind = self.tag[i]
        after = self.kind_after[i]
        if word == "that" and kind == "DT0":
            return i > 0 and self.tag[i - 1][:2] in ("NN", "NP") and after[:1] == "V"
        if kind not in _OPENERS or (self.name[i] and i > 0):
            return False
        if i == 0 and (kind in ("PNQ", "DTQ", "AVQ") or word == "that") and after in (*_CLEAR, "VVZ"):
            return False
        if word in ("because", "though", "although") and after in ("PRP", "PRF"):
            return False
        if word in _words_by_use()["either"]:
            return self.leniency == _FULL and self.clause_follows(i)
        return self.kind_after[self.next_no_adverb[i + 1] - 1] not in ("TO0", "VVG", "VVN")

    def clause_follows(self, i: int) -> bool:
        """Check whether a verb follows before the next comma and is not the only one.

        An example is "Islam as a religion is ...".
        """
        verb = self.next_finite[i + 1]
        if verb >= min(self.count, self.next_mark[i + 1], self.next_opener[i + 2]):
            return False
        second_verb = self.next_finite[self.group_end[verb] + 1]
        return i == 0 or self.text[i + 1] in _PRONOUNS or second_verb < self.count

    def finite(self, i: int) -> bool:
        """Check whether word i is, or starts, a finite verb."""
        kind, before = self.tag[i], self.kind_before[i]
        if self.name[i]:
            return False
        if kind in _CLEAR:
            return self.clear(i)
        if i == 0:
            return False
        match kind:
            case "VVZ" | "VVB":
                after_number = before == "CRD" and self.leniency > _FULL
                return after_number or before not in (*_DETERMINERS, "TO0", "VM0")
            case "VVI":
                return before in _NOUNS or before == ""
            case "VVD":
                return not self.describes(i)
            case "AJ0" if before == "PNQ":
                return self.text[i].endswith("ed")
            case "VVN":
                if self.past_tense(i):
                    return True
                return self.leniency >= _PARTICIPLES_TOO and self.taken_for_participle(i)
        return self.leniency == _NOUNS_TOO and self.taken_for_noun(i)

    def clear(self, i: int) -> bool:
        """Check whether word i is a form that is always finite, except in ", that is,"."""
        return self.tag[i] in _CLEAR and self.text[max(0, i - 2) : i + 2] != _THAT_IS

    def past_tense(self, i: int) -> bool:
        """Check whether a word tagged as a participle must be a past tense.

        Examples are "it emerged", "leaders argued that" and "he accepted the".
        """
        before = self.kind_before[i]
        if self.text[i] in _words_by_use()["past"] and before in (*_NOUNS, "PUN"):
            return True
        objects = ("CJT",) if self.text[i] in _words_by_use()["naming"] else ("CJT", "AT0", "DPS", "PNP")
        return before in _NOUNS and self.kind_after[i] in objects

    def describes(self, i: int) -> bool:
        """Check whether a form in -ed is an attributive participle.

        This holds if another verb follows for the same subject.
        """
        before = self.before[i]
        if self.text[i] in _words_by_use()["past"] or self.kind_after[i] in _OBJECT:
            return False
        if before >= 0 and self.text[before] in _PRONOUNS | _RELATIVE:
            return False
        verb, end = self.next_verb[i + 1], self.next_clause[i + 1]
        if i + 1 < self.count and self.text[i + 1] != "by":
            end = min(end, self.next_and[i + 1])
        return verb < end and self.text[self.before[verb]] not in _PRONOUNS

    def taken_for_participle(self, i: int) -> bool:
        """Check whether a word tagged as a participle may be a finite verb."""
        if self.describes(i) or self.text[i + 1 : i + 2] == ["by"]:
            return False
        return self.kind_before[i] in _NOUNS or (self.kind_before[i] == "PUN" and self.leniency == _NOUNS_TOO)

    def taken_for_noun(self, i: int) -> bool:
        """Check whether a word tagged as a noun or adjective is a verb between subject and object.

        An example is "some claim that".
        """
        after = self.kind_after[i]
        word = self.text[i]
        verbs_or_nouns = _words_by_use()["verb_or_noun"]
        if self.kind_before[i] not in _NOUNS:
            return False
        if self.tag[i] == "AJ0":
            return word.endswith("ed") and after in (*_NOUNS, *_OBJECT, "AJ0")
        stem = word if word in verbs_or_nouns else word.removesuffix("s")
        if self.tag[i] not in ("NN1", "NN2") or not {stem, stem.removesuffix("e")} & verbs_or_nouns:
            return False
        if after in _OBJECT or (word == "remains" and after == "AJ0"):
            return True
        if self.tag[i] == "NN1":
            agrees = self.plural_subject(i)
        else:
            agrees = self.kind_before[i] in ("NN1", "NP0", "DT0")
        return agrees and after in ("PRP", "NP0", "UNC", "VVG", "AJ0", "NN1", "NN2")

    def plural_subject(self, i: int) -> bool:
        """Check whether the first noun before word i is a plural, or two nouns are joined."""
        noun = next((kind for kind in self.tag[:i] if kind in _NOUNS), "")
        return noun in ("NN2", "DT0") or "and" in self.text[:i]


def main_verb_of(words: Sequence[TaggedWord]) -> TaggedWord | None:
    """Find the main verb: words in brackets are ignored.

    Words in quotation marks or between dashes are a second choice.
    """
    outside = [word for word in words if not word.bracketed]
    strictly = _without_inserts(_without_quotations(outside))
    plainly = [word for word in outside if not _is_quotation_mark(word)]
    return _main_verb(strictly) or _main_verb(plainly)


def _is_quotation_mark(word: TaggedWord) -> bool:
    return word.tag == "PUQ" or word.text == '"'


def _without_quotations(words: Sequence[TaggedWord]) -> list[TaggedWord]:
    """Replace each quotation by a noun, its most frequent function in a sentence.

    An example is 'a chapter on "..." appears'.
    """
    unquoted = []
    for before, word in zip([None, *words], words, strict=False):
        if word.quoted:
            begins = before is None or not before.quoted
            if begins:
                unquoted.append(word._replace(tag="NN1", name=False))
        elif not _is_quotation_mark(word):
            unquoted.append(word)
    return unquoted


def _without_inserts(words: Sequence[TaggedWord]) -> list[TaggedWord]:
    """Remove the words between two dashes."""
    inserted = between_pairs([place for place, word in enumerate(words) if word.text == "\u2014"])
    return [word for place, word in enumerate(words) if place not in inserted]
