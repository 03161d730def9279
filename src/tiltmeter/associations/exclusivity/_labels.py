"""Which identities the labels of a study are about: "a Black", "Muslims", "W", or several at once ("an Asian, M", "Black woman")."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tiltmeter.associations.unifying._terms import Terms, plain_words_of

__all__ = ["APART", "Piece", "bare", "entry_of", "pieces_of"]

APART = ", "
"""What stands between the parts of a label made of several columns."""
_APART = re.compile(r"\s*[,;/|+&]\s*")
_AROUND = " .,;:!?\"'*`()[]"
_ARTICLE = re.compile(r"^(?:an?|the) ")
_PEOPLE = re.compile(r" (?:people|persons?|individuals?|characters?)$")


class Piece(NamedTuple):
    """One identity in a label."""

    text: str
    """As the study writes it."""
    entry: tuple[str, str]
    """(category, identity) of the terms; the category is empty where the terms do not know it."""


def bare(text: str) -> str:
    """A name in plain words, without an article, "people" or marks around it."""
    return _PEOPLE.sub("", _ARTICLE.sub("", plain_words_of(text).strip(_AROUND))).strip(_AROUND)


def entry_of(text: str, terms: Terms) -> tuple[str, str] | None:
    """The identity that a text names and says nothing else of; plurals in -s included."""
    name = bare(text)
    found = (terms.called.get(one) for one in (plain_words_of(text), name, name.removesuffix("s")))
    return next((entry for entry in found if entry is not None), None)


def pieces_of(labels: Sequence[str], terms: Terms) -> dict[str, tuple[Piece, ...]]:
    """The identities in each label, at least one.

    Letters are read as identities only where every one-letter name of the study is such a letter: "W" beside "M", not beside "B".
    """
    named = dict.fromkeys(labels)
    single = {name for label in named for text in (label, *_APART.split(label)) if len(name := bare(text)) == 1}
    lettered = single <= terms.letters.keys() and len({terms.letters[name] for name in single}) > 1
    return {label: _pieces(label, terms, lettered) for label in named}


def _pieces(label: str, terms: Terms, lettered: bool) -> tuple[Piece, ...]:
    entry = terms.letters.get(bare(label)) if lettered else None
    if entry := entry or entry_of(label, terms):
        return (Piece(label, entry),)
    texts = [text for text in _APART.split(label) if text]
    if len(texts) > 1:
        return tuple(piece for text in texts for piece in _pieces(text, terms, lettered))
    return _worded(bare(label), terms) or (Piece(label, ("", bare(label))),)


def _worded(name: str, terms: Terms) -> tuple[Piece, ...]:
    """The identities of a name that is made of names alone ("black woman"); nothing where another word is among them."""
    words, begin = name.split(), 0
    found: list[Piece] = []
    while begin < len(words):
        ends = (end for end in range(len(words), begin, -1) if " ".join(words[begin:end]) in terms.called)
        end = next(ends, None)
        if end is None:
            return ()
        text = " ".join(words[begin:end])
        found.append(Piece(text, terms.called[text]))
        begin = end
    return tuple(found)
