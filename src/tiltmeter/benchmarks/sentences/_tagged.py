"""The words of sentences with their places, parts of speech, and what they stand in: brackets, quotation marks, names.

Tags are those of the BNC's C5 set (NN1, VVD, VBZ, AJ0, ...), from HanTa by way of `measures.grammar`, or from spaCy where its small
English model is installed, which then also names the root of the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from tiltmeter.benchmarks.sentences._spacy import Parsed, load_spacy, parse_with_spacy
from tiltmeter.measures import grammar
from tiltmeter.measures.grammar import Token

__all__ = ["TAGGED", "tagged", "tagger"]

TAGGED: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "sentence": pl.UInt32,  # place of the sentence among those given
    "token": pl.UInt32,  # place of the token in its sentence
    "text": pl.String,
    "start": pl.UInt32,  # offsets in the sentence, in characters
    "end": pl.UInt32,
    "tag": pl.String,  # of the BNC's C5 set
    "root": pl.Boolean,  # of the dependency tree; null where no tree was made
    "depth": pl.UInt32,  # brackets it stands in; the brackets themselves count as inside
    "quoted": pl.Boolean,  # between double quotation marks, marks included
    "title": pl.Boolean,  # begins with a capital letter
    "name": pl.Boolean,  # part of a name: a capital inside the sentence, or a small word between two of them ("Bank of England")
}
"""One row per word or mark."""

_WHOLE = re.compile(
    r"(?<!\d)\d++(?:[.,:]\d++)+|(?:(?<!\w)[A-Za-z]\.){2,}"
    r"|(?<![\w.])(?:Mr|Mrs|Ms|Mx|Dr|Prof|St|Jr|Sr|Rev|Gen|Col|Sgt|Capt|Lt|vs|cf|ca|[A-Z])\.(?=\s+\S)"
)
"""Numbers, initials and abbreviations with their marks: one token each."""

_JOINING = ("of", "the", "de", "la", "le", "du", "des", "del", "da", "di", "von", "van", "der", "den", "al", "el", "bin", "ibn", "y")
_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")


def tagger() -> str:
    """Who names the parts of speech here: "hanta", or "spacy" with the name and version of its model."""
    model = load_spacy()
    return "hanta" if model is None else f"spacy {model.meta['lang']}_{model.meta['name']} {model.meta['version']}"


def tagged(sentences: Sequence[str]) -> pl.DataFrame:
    """The words and marks of each sentence.

    Some 25,000 words a second on one core with HanTa.

    Returns
    -------
    TAGGED, in the order of the sentences; a sentence without any word has no rows.
    """
    cut = [_tokens(sentence) for sentence in sentences]
    parsed = list(_parsed(sentences, cut))
    table = pl.DataFrame(
        {
            "sentence": pl.Series(range(len(cut)), dtype=pl.UInt32),
            "text": pl.Series([[token.text for token in tokens] for tokens in cut], dtype=pl.List(pl.String)),
            "start": pl.Series([[token.start for token in tokens] for tokens in cut], dtype=pl.List(pl.UInt32)),
            "end": pl.Series([[token.end for token in tokens] for tokens in cut], dtype=pl.List(pl.UInt32)),
            "tag": pl.Series([one.tags for one in parsed], dtype=pl.List(pl.String)),
            "root": pl.Series([one.roots for one in parsed], dtype=pl.List(pl.Boolean)),
        }
    )
    table = table.filter(pl.col("text").list.len() > 0).explode("text", "start", "end", "tag", "root")
    table = table.with_columns(token=pl.int_range(pl.len()).over("sentence"))
    return (
        table.with_columns(*_brackets(), quoted=_quoted(), title=_title())
        .with_columns(name=_name())
        .select(pl.col(name).cast(kind) for name, kind in TAGGED.items())
    )


def _tokens(sentence: str) -> list[Token]:
    """As in `measures.grammar`, numbers, initials and abbreviations in one piece."""
    found: list[Token] = []
    end = 0
    for whole in _WHOLE.finditer(sentence):
        found += grammar.tokens(sentence, end, whole.start())
        found.append(Token(whole.group(), *whole.span()))
        end = whole.end()
    return found + grammar.tokens(sentence, end)


def _parsed(sentences: Sequence[str], cut: Sequence[Sequence[Token]]) -> Iterator[Parsed]:
    model = load_spacy()
    words = ([token.text for token in tokens] for tokens in cut)
    if model is None:
        return ((Parsed([tag for tag, _ in grammar.tag(one)], [None] * len(one))) for one in words)
    blanks = ([sentence[token.end : token.end + 1].isspace() for token in tokens] for sentence, tokens in zip(sentences, cut, strict=True))
    return parse_with_spacy(model, list(zip(words, blanks, strict=True)))


def _brackets() -> tuple[pl.Expr]:
    text = pl.col("text")
    opened = text.is_in(_OPENING).cast(pl.Int32).cum_sum().over("sentence")
    closed = text.is_in(_CLOSING).cast(pl.Int32).cum_sum().shift(1, fill_value=0).over("sentence")
    raw = opened - closed
    # A bracket closed without having been opened ("a) ...") would make all that follows negative: counted from the lowest level so far.
    return ((raw - raw.cum_min().over("sentence").clip(upper_bound=0)).alias("depth"),)


def _quoted() -> pl.Expr:
    """Straight marks open and close in turn, an odd last one opens nothing; curly ones and guillemets by their shape."""
    text = pl.col("text")
    straight = text == '"'
    count = straight.cum_sum().over("sentence")
    total = straight.sum().over("sentence")
    inside = ((count % 2 == 1) & ((count < total) | straight)) | (straight & (count % 2 == 0))
    odd_last = straight & (count == total) & (total % 2 == 1)
    opened = text.is_in(("\u201c", "\u00ab", "\u201e")).cast(pl.Int32).cum_sum().over("sentence")
    closed = text.is_in(("\u201d", "\u00bb")).cast(pl.Int32).cum_sum().shift(1, fill_value=0).over("sentence")
    last = text.is_in(("\u201d", "\u00bb")).cast(pl.Int32).sum().over("sentence")
    curly = (opened > closed) & (closed < last)
    return (inside & ~odd_last) | curly


def _title() -> pl.Expr:
    first = pl.col("text").str.slice(0, 1)
    return (first != first.str.to_lowercase()) & (first == first.str.to_uppercase())


def _name() -> pl.Expr:
    """Capitals inside the sentence (the first word: where it is tagged as a name or another capital follows), and what joins two."""
    title, joining = pl.col("title"), pl.col("text").is_in(_JOINING)
    near = [pl.col("title").shift(-k, fill_value=False).over("sentence") for k in (1, 2, 3)]
    joins = [joining.shift(-k, fill_value=False).over("sentence") for k in (1, 2)]
    before = [pl.col("title").shift(k, fill_value=False).over("sentence") for k in (1, 2)]
    joined = [joining.shift(k, fill_value=False).over("sentence") for k in (1,)]
    first = pl.col("token") == 0
    capital = title & (~first | (pl.col("tag") == "NP0") | near[0])
    right = near[0] | (joins[0] & near[1])
    left = before[0] | (joined[0] & before[1])
    return capital | (joining & right & left) | (first & title & joins[0] & joins[1] & near[2])
