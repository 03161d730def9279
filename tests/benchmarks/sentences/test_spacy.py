"""How a spaCy model's parts of speech are taken over; runs where spaCy is installed (a model is not needed)."""

from __future__ import annotations

from typing import Any

import pytest

spacy = pytest.importorskip("spacy")


def model() -> Any:
    """A pipeline that parses one sentence, always in the same way."""
    made = spacy.blank("en")
    known = {
        "That": ("DT", "nsubj", "that"),
        "has": ("VBZ", "aux", "have"),
        "not": ("RB", "neg", "not"),
        "shown": ("VBN", "ROOT", "show"),
        "that": ("IN", "mark", "that"),
        "they": ("PRP", "nsubj", "they"),
        "can": ("MD", "aux", "can"),
        "be": ("VB", "ccomp", "be"),
        "of": ("IN", "prep", "of"),
        "use": ("NN", "pobj", "use"),
        ".": (".", "punct", "."),
    }

    def parse(doc: Any) -> Any:
        for token in doc:
            token.tag_, token.dep_, token.lemma_ = known[token.text]
        return doc

    spacy.language.Language.component("parse_always_alike", func=parse)
    made.add_pipe("parse_always_alike")
    return made


def test_tags_and_root() -> None:
    from tiltmeter.benchmarks.sentences._spacy import parse_with_spacy

    words = ["That", "has", "not", "shown", "that", "they", "can", "be", "of", "use", "."]
    blanks = [True] * 9 + [False, False]
    (found,) = parse_with_spacy(model(), [(words, blanks)])
    assert found.tags == ["DT0", "VHZ", "XX0", "VVN", "CJT", "PNP", "VM0", "VBI", "PRF", "NN1", "PUN"]
    assert [word for word, root in zip(words, found.roots, strict=True) if root] == ["shown"]
