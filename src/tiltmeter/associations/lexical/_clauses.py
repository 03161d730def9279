"""Who is the subject of what: one pass over the pieces of a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tiltmeter.associations.lexical._cast import NOBODY, Cast
from tiltmeter.associations.lexical._chunks import Chunk, Word
from tiltmeter.associations.lexical._lexicon import words

__all__ = ["Told", "told"]


class Told(NamedTuple):
    """Something told of people: `kind` says what piece number `at` is to them.

    "verb": they are its subject; "adj": it describes them; "role": they are it; "noun": it holds their name; "owner": they have it.
    """

    kind: str
    at: int
    people: frozenset[int]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class _Group:
    """A noun phrase (or several joined by "and") that may become a subject."""

    people: frozenset[int]
    last: frozenset[int]
    """The people of the last of the joined phrases."""
    first: int
    at: int
    governed: str
    """What it depends on: "verb", "prep", or "" for nothing yet."""
    negated: bool = False


_LOOSE = ("adv", "not", "part")
_HYPOTHETICAL = ("if", "unless", "whether")
_AS_CLAUSE = ("after", "before", "until", "since", "as", "than", "like", "because", "that")
_INTRODUCING = ("name", "call")


def told(sentence: Sequence[Word], pieces: Sequence[Chunk], cast: Cast) -> tuple[list[Told], Mapping[int, frozenset[int]]]:
    """What the sentence tells of whom, in order, and the people each noun phrase (by its number) means; `cast` learns whom it was about."""
    scan = _Scan(sentence, pieces, cast)
    for at in range(len(pieces)):
        scan.read(at)
    cast.together(scan.mentioned)
    return scan.found, scan.meaning


class _Scan:
    def __init__(self, sentence: Sequence[Word], pieces: Sequence[Chunk], cast: Cast) -> None:
        self.sentence, self.pieces, self.cast = sentence, pieces, cast
        self.found: list[Told] = []
        self.meaning: dict[int, frozenset[int]] = {}
        self.mentioned: set[int] = set()
        self._pending: _Group | None = None
        self._current = _Group(NOBODY, NOBODY, -1, -1, "")
        self._last: _Group | None = None
        self._waiting: list[tuple[str, int]] = []
        self._skip = False

    def read(self, at: int) -> None:
        """Take the next piece."""
        piece = self.pieces[at]
        if piece.kind == "np":
            self._noun_phrase(at)
        elif piece.kind == "verb":
            self._verb(at)
        elif piece.kind in ("ing", "adj", "en"):
            self._loose(at)
        elif piece.kind == "sub":
            self._skip = self._lemma(at) in _HYPOTHETICAL or self._as_if(at)
        elif piece.kind == "comma" or (piece.kind == "stop" and self._lemma(at) != "."):
            self._skip = self._skip and self._current.at < 0
            if piece.kind == "stop":
                self._pending = None

    def _lemma(self, at: int) -> str:
        return self.sentence[self.pieces[at].head].lemma

    def _as_if(self, at: int) -> bool:
        return self._lemma(at) == "as" and at + 1 < len(self.pieces) and self._lemma(at + 1) in ("if", "though")

    def _before(self, at: int) -> int:
        """The piece before, adverbs left out; -1 at the start."""
        at -= 1
        while at >= 0 and self.pieces[at].kind in _LOOSE:
            at -= 1
        return at

    def _kind(self, at: int) -> str:
        return self.pieces[at].kind if 0 <= at < len(self.pieces) else ""

    def _noun_phrase(self, at: int) -> None:
        piece = self.pieces[at]
        people = self.cast.meant(self.sentence, piece)
        self.meaning[at] = people
        self._own(at, piece)
        governed = self._governed(at)
        joined = self._joined(at)
        predicate = governed == "verb" and self._current.people and self._lemma_before(at) in words("links_noun")
        if predicate and not people and joined is None:
            people_of = self._current.people
            self._last = _Group(people_of, people_of, at, at, "verb")
            if self.sentence[piece.head].tag == "NN1":
                self.cast.called(self.sentence[piece.head].lemma, people_of)
            return
        if self._in_front(at):
            self._waiting.append(("role", at))
        self.mentioned |= people
        if people and self.sentence[piece.head].who >= 0:
            self.found.append(Told("noun", at, people))
        elif people and self.sentence[piece.head].tag == "NN1" and self._indefinite(at):
            self.found.append(Told("role", at, people))
        negated = self._kind(at - 1) == "adv" and self._lemma(at - 1) == "neither"
        if joined is not None:
            group = _Group(joined.people | people, people, joined.first, at, joined.governed, joined.negated)
        else:
            group = _Group(people, people, at, at, governed, negated)
        if not group.governed:
            group = self._free(at, group)
        else:
            self.cast.heard(self.sentence, piece, people, subject=False)
        self._last = group

    def _indefinite(self, at: int) -> bool:
        return any(self.sentence[i].lemma in ("a", "an") for i in self.pieces[at].determiners)

    def _in_front(self, at: int) -> bool:
        """ "As a young woman, ...", at the start of the sentence."""
        return self._indefinite(at) and at == 1 and self._lemma(0) == "as" and self._kind(at + 1) in ("comma", "prep")

    def _lemma_before(self, at: int) -> str:
        before = self._before(at)
        return self._lemma(before) if before >= 0 else ""

    def _own(self, at: int, piece: Chunk) -> None:
        people = NOBODY
        if piece.owner is not None:
            people = self.cast.meant(self.sentence, piece.owner)
            self.mentioned |= people
        elif piece.determiners and self.sentence[piece.determiners[0]].tag == "DPS":
            people = self.cast.pronoun(self.sentence[piece.determiners[0]].text.lower())
        if people:
            self.found.append(Told("owner", at, people, self._lemma_before(at) in ("without",)))

    def _governed(self, at: int) -> str:
        before = self._before(at)
        kind = self._kind(before)
        if self._in_front(at):
            return "prep"
        if kind == "prep" and self._lemma(before) not in _AS_CLAUSE:
            return "prep"
        if before > 0 and self._lemma(before) == "as" and self._lemma(before - 1) == "well":
            return "prep"
        if kind in ("verb", "to", "inf", "ing", "en"):
            return "verb"
        if kind == "np" and self._last is not None:
            return "verb" if self._last.governed == "verb" else ""
        return ""

    def _joined(self, at: int) -> _Group | None:
        """The group that this noun phrase is joined to by "and", "or", "nor" or "as well as"."""
        before = self._before(at)
        if self._kind(before) != "conj" or self._lemma(before) not in ("and", "or", "nor") or self._last is None:
            return None
        previous = self._before(before)
        if self._kind(previous) == "comma":
            previous -= 1
        return self._last if self._kind(previous) == "np" and self._last.at == previous else None

    def _free(self, at: int, group: _Group) -> _Group:
        """A noun phrase that depends on nothing: the subject to be, or an apposition to it."""
        pending, before = self._pending, self._before(at)
        if (
            pending is not None
            and self._kind(before) == "comma"
            and before > 0
            and pending.at == self._before(before)
            and group.first == at
        ):
            if pending.people and not group.people:
                if self.pieces[at].determiners or self.sentence[self.pieces[at].head].tag != "NN2":
                    self.found.append(Told("role", at, pending.people))
                return group
            if group.people and not pending.people and self._closed(at):
                self.found.append(Told("role", pending.at, group.people))
            if group.people and pending.people:  # "Emily, John and ..."
                group = _Group(pending.people | group.people, group.people, pending.first, at, "")
        if pending is not None and self._renames(at, pending, group):
            self.found.append(Told("role", at, pending.people))
            return group
        if group.people:
            self.found += [Told(kind, where, group.people) for kind, where in self._waiting]
        self._waiting.clear()
        self._pending = group
        return group

    def _renames(self, at: int, pending: _Group, group: _Group) -> bool:
        """ "John an independent contractor was ..."."""
        return self._indefinite(at) and pending.at == at - 1 and bool(pending.people) and not group.people

    def _closed(self, at: int) -> bool:
        return at + 1 < len(self.pieces) and self.pieces[at + 1].kind == "comma"

    def _verb(self, at: int) -> None:
        if self._introduces(at) or self._reflexive(at - 1):  # "found themselves faced with": a participle
            return
        group = self._subject(at)
        self._current = group
        if group.at >= 0:
            piece = self.pieces[group.at]
            self.cast.heard(self.sentence, piece, group.people, subject=True)
        if group.people and not self._skip:
            self.found.append(Told("verb", at, group.people, group.negated))
        if self._skip and self._pending is None:
            self._skip = self._kind(at + 1) not in ("", "stop") and self._skip

    def _reflexive(self, at: int) -> bool:
        return self._kind(at) == "np" and self.sentence[self.pieces[at].head].text.endswith(("self", "selves"))

    def _subject(self, at: int) -> _Group:
        nobody = _Group(NOBODY, NOBODY, -1, -1, "")
        before = self._before(at)
        kind, last = self._kind(before), self._last
        if kind == "who" or (kind == "that" and self._kind(self._before(before)) in ("np", "comma")):
            return _Group(last.last, last.last, -1, -1, "") if last is not None else nobody
        if kind == "np" and last is not None and last.governed == "verb" and last.at == before:
            governor = self._lemma_before(last.first)
            if self._pending is None or governor in words("clausal"):
                return _Group(last.last if last.first != last.at else last.people, last.last, last.at, last.at, "")
        if kind in ("quote", "there", "that", "sub"):
            return nobody
        if self._pending is not None:
            group, self._pending = self._pending, None
            return group
        if kind == "np" and last is not None and last.at == before and last.first != last.at:
            return _Group(last.last, last.last, last.at, last.at, "")
        return self._current if kind in ("conj", "comma") else nobody

    def _loose(self, at: int) -> None:
        """Participles and adjectives outside a verb group or noun phrase."""
        before = self._before(at)
        kind, piece = self._kind(before), self.pieces[at]
        event = "verb" if piece.kind == "ing" else "adj"
        in_list = event == "adj" and kind in ("comma", "conj") and self._kind(self._before(before)) in ("adj", "en")
        if in_list or self._introduces(at):  # whoever began the list reads on to its end
            return
        if before < 0:
            self._waiting.append((event, at))
        elif not self._skip and (people := self._described(before, kind, event)):
            self.found.append(Told(event, at, people))

    def _described(self, before: int, kind: str, event: str) -> frozenset[int]:
        """Whom a participle or adjective after piece `before` (of that kind) is told of."""
        pending, last = self._pending, self._last
        if pending is not None:
            directly = kind == "comma" and pending.at == self._before(before)
            people = pending.people if directly else NOBODY
        else:
            follows = kind == "comma" or (kind == "conj" and event == "verb" and self._parallel(before))
            people = self._current.people if follows else NOBODY
        if not people and event == "verb" and kind == "np" and last is not None and last.at == before and last.governed == "verb":
            return last.last if self.sentence[self.pieces[before].head].who >= 0 else NOBODY  # "saw Emily helping a stranger"
        return people

    def _parallel(self, conj: int) -> bool:
        """Whether an earlier participle or verb group is what "and" joins the participle to."""
        return any(piece.kind == "ing" or (piece.kind == "verb" and piece.auxiliary == "be") for piece in self.pieces[:conj])

    def _introduces(self, at: int) -> bool:
        """ "a young woman named Maria": what stands before is told of whom the name means."""
        before, after = self._before(at), at + 1
        if self._lemma(at) not in _INTRODUCING or self._kind(before) != "np" or self._kind(after) != "np":
            return False
        people = self.cast.meant(self.sentence, self.pieces[after])
        if people:
            self.found.append(Told("role", before, people))
            self.mentioned |= people
            self._last = _Group(people, people, after, after, self._last.governed if self._last else "")
            if self._pending is not None and self._pending.at == before:
                self._pending = _Group(people, people, before, after, "")
        return True
