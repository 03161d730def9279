"""spaCy's small English model, where somebody has installed it: parts of speech, and the root of each sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

__all__ = ["Parsed", "load_spacy", "parse_with_spacy"]

_MODEL = "en_core_web_sm"

_C5 = {
    "CC": "CJC", "CD": "CRD", "DT": "DT0", "EX": "EX0", "FW": "UNC", "IN": "PRP", "JJ": "AJ0", "JJR": "AJC", "JJS": "AJS", "MD": "VM0",
    "NN": "NN1", "NNS": "NN2", "NNP": "NP0", "NNPS": "NP0", "POS": "POS", "PRP": "PNP", "PRP$": "DPS", "RB": "AV0", "RBR": "AV0",
    "RBS": "AV0", "RP": "AVP", "TO": "TO0", "UH": "ITJ", "WDT": "DTQ", "WP": "PNQ", "WP$": "DTQ", "WRB": "AVQ",
}  # fmt: skip
_FORM = {"VB": "I", "VBD": "D", "VBG": "G", "VBN": "N", "VBP": "B", "VBZ": "Z"}
_OWN = {"be": "B", "have": "H", "do": "D"}


class Parsed(NamedTuple):
    """What is known of one sentence's tokens."""

    tags: list[str]
    roots: list[bool | None]


@cache
def load_spacy() -> Any | None:
    """The model, or None where spaCy or the model is not installed."""
    if find_spec("spacy") is None or find_spec(_MODEL) is None:
        return None
    import spacy

    return spacy.load(_MODEL, exclude=["ner"])


def parse_with_spacy(model: Any, sentences: Sequence[tuple[Sequence[str], Sequence[bool]]]) -> Iterator[Parsed]:
    """Tags (of the C5 set) and roots of sentences given as words and whether a blank follows each."""
    from spacy.tokens import Doc

    for doc in model.pipe(Doc(model.vocab, words=list(words), spaces=list(blanks)) for words, blanks in sentences):
        yield Parsed([_tag(token) for token in doc], [token.dep_ == "ROOT" for token in doc])


def _tag(token: Any) -> str:
    word = token.text.lower()
    if form := _FORM.get(token.tag_):
        return f"V{_OWN.get(token.lemma_, 'V')}{form}"
    if token.dep_ == "mark":
        return "CJT" if word == "that" else "CJS"
    if word in ("a", "an", "the"):
        return "AT0"
    if word == "of":
        return "PRF"
    return "XX0" if token.dep_ == "neg" else _C5.get(token.tag_, "PUN")
