"""Words of English text, split as GenderBench's tokenizer splits them, by Polars string expressions.

GenderBench 1.1.0 reads answers through NLTK's ``word_tokenize``: a sentence splitter (Punkt, English model) followed by
``NLTKWordTokenizer``. Labels depend on its smallest habits (``Yes.`` has the word, ``Yes.I`` has not), so they are kept
here to the letter as of NLTK 3.10.4, as a few replacements that need neither NLTK, nor its data, nor a loop over rows.

Only *words* are promised: tokens that start with a letter. Everything the tokenizer sets apart as punctuation is dropped.
The tests compare the words with NLTK's own on text made of difficult pieces.

What makes this possible is that sentences matter for one thing only: a full stop is set apart from the word before it
where a sentence ends. Punkt looks for an end at each ``.``, ``?`` or ``!`` that is followed by white space or by
punctuation that cannot stand inside a word; of several in one run of non-blanks only the last counts, and closing
quotes and brackets behind it still belong to the sentence. The English model adds abbreviations, initials and numbers
whose full stop does not end a sentence. None of its 156 abbreviations is a word that the readers look for (pronouns,
yes, no, emotions, the vocabulary lists), and whether the full stop of "Dr." or "1." ends a sentence changes no other
word; so the model is not needed, and the tests show that abbreviations make no difference.
"""

from __future__ import annotations

import polars as pl

__all__ = ["word_tokens"]

# Punkt splits runs of non-blanks at ASCII white space only; what it calls white space elsewhere is Unicode's.
_BLANK = r" \t\n\r\x0b\x0c"
_WIDE_BLANK = rf"\s&&[^{_BLANK}]"
_CLOSING = r"\"')\]}‘’“”«»"
"""Marks that stay with the sentence before them when a blank, "--" or the end follows."""
_BREAKING = rf";*:@({{\[{_CLOSING}"
"""Marks that cannot stand inside a word: a full stop before one may end a sentence. "?" and "!" are such marks too."""

# The rest of a run of non-blanks in which nothing more can end a sentence, one character (or one mark and what it needs) at a time.
_INSIDE = rf"(?:[^{_BLANK}.?!]|[.?!]\.*[^{_BLANK}.?!{_BREAKING}[{_WIDE_BLANK}]])"
_QUIET_REST = rf"(?:[{_BREAKING}]|[?!]\.*[^{_BLANK}.?!{_BREAKING}[{_WIDE_BLANK}]]){_INSIDE}*(?:[{_BLANK}]|[.?!]?\.*$)|[?!]\.*$"
# Closing marks that join the sentence in a way the word splitter does not see through: after a line break, after a blank
# with a quote first, or with an opening kind among them. The full stop then stays on its word.
_JOINED = rf"[{_CLOSING}]*(?:\s|--|$)"
_CLINGING = rf" *[{_CLOSING}]*[‘“«]{_JOINED}| +(?:\"|''){_JOINED}|\s*[\s&&[^ ]]\s*[{_CLOSING}]{_JOINED}"

_SENTENCE_END = rf"([^.\s])(?:(\.(?:{_CLINGING}))|\.(\s|{_QUIET_REST}))"
_TEXT_END = r"([^.\s])\.(>[\])}>\"'»”’]*)?$"
_COMMA_OR_COLON = r"[:,](\D)"
_PUNCTUATION = r"[«»‘’“”`\";@#$%&‒–—―?!*\[\](){}<>]+|--|''|\.\.+"
# A quote opens a word unless it starts a clitic; a blank after the clitic changes no word.
_OPENING_QUOTE = r"(?i)(\W)(?:('(?:re|ve|ll|m|t|s|d|n)\b)|'(\w))"
_SHORT_CLITIC = r"([^'\s])(?:'[sSmMdD]?)\s"
_LONG_CLITIC = r"([^'\s])(?:'ll|'LL|'re|'RE|'ve|'VE|n't|N'T)\s"
_MORE_THAN = r"(?i)\b(more)'n\b"


def word_tokens(text: pl.Expr) -> pl.Expr:
    """Split each text into tokens by the rules of NLTK 3.10.4, without the punctuation.

    Args:
        text: strings; null stays null.

    Returns:
        A list of strings per text, in order, in the case of the text. Those that start with a letter are exactly NLTK's;
        others (numbers, clitics, leftovers of punctuation) are not promised.
    """
    steps = (
        (_COMMA_OR_COLON, " ${1}"),
        (_PUNCTUATION, " "),
        (_OPENING_QUOTE, "${1}${2} ${3}"),
        (_SHORT_CLITIC, "${1} "),
        (_LONG_CLITIC, "${1} "),
        (_MORE_THAN, "${1} "),
    )
    text = text.str.strip_chars_end().str.replace(_TEXT_END, "${1} ${2}").str.replace_all(_SENTENCE_END, "${1}${2} ${3}")
    # Blanks at both ends stand in for the edges of the text in the rules that look at a neighbour.
    text = pl.concat_str(pl.lit(" "), text, pl.lit(" "))
    for pattern, replacement in steps:
        text = text.str.replace_all(pattern, replacement)
    return text.str.extract_all(r"\S+")
