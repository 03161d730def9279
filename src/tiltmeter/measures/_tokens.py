"""Words of English text, split as GenderBench's tokenizer splits them, by Polars string expressions.

GenderBench 1.1.0 reads answers through NLTK's ``word_tokenize``: a sentence splitter (Punkt, English model) followed by
``NLTKWordTokenizer``. Labels depend on its smallest habits (``Yes.`` has the word, ``Yes.I`` has not), so they are kept
here to the letter as of NLTK 3.10.4, as a few replacements that need neither NLTK, nor its data, nor a loop over rows.
Only words are promised; everything the tokenizer sets apart as punctuation is dropped. The tests compare the words with
NLTK's own on text made of difficult pieces.

What makes this possible is that sentences matter for one thing only: a full stop is set apart from the word before it
where a sentence ends. Punkt looks for an end at each ``.``, ``?`` or ``!`` that is followed by white space or by
punctuation that cannot stand inside a word; of several in one run of non-blanks only the last counts, and closing
quotes and brackets behind it still belong to the sentence. The English model adds abbreviations, initials and numbers
whose full stop may not end a sentence. None of its abbreviations ("dr", "inc", "p.m", ...) is a word that the readers
look for (pronouns, yes, no, emotions, the vocabulary lists), and whether the full stop of "Dr." or "1." ends a sentence
changes no other word; so the model is not needed, and the tests show that abbreviations make no difference.
"""

from __future__ import annotations

import polars as pl

__all__ = ["spaced_words"]

_BLANK = r" \t\n\r\x0b\x0c"
"""Runs of non-blanks, for Punkt, are divided by ASCII white space only; what it calls white space elsewhere is Unicode's."""
_CLOSING = r"\"')\]}‘’“”«»"
"""Marks that stay with the sentence before them when a blank, "--" or the end follows."""
_BREAKING = rf";*:@({{\[{_CLOSING}[\s&&[^{_BLANK}]]"
"""Marks (and wide blanks) before which a full stop may end a sentence. "?" and "!" are such marks too."""

# The rest of a run of non-blanks in which nothing more can end a sentence: one character at a time, or a mark with what it needs.
_INSIDE = rf"(?:[^{_BLANK}.?!]|[.?!]\.*[^{_BLANK}.?!{_BREAKING}])"
_QUIET_REST = rf"(?:[{_BREAKING}]|[?!]\.*[^{_BLANK}.?!{_BREAKING}]){_INSIDE}*(?:[{_BLANK}]|[.?!]?\.*$)|[?!]\.*$"
# Closing marks that join the sentence in a way the word splitter does not see through: with an opening kind among them,
# after a blank with a quote first, or after a line break. The full stop then stays on its word.
_JOINED = rf"[{_CLOSING}]*(?:\s|--|$)"
_CLINGING = rf" *[{_CLOSING}]*[‘“«]{_JOINED}| +(?:\"|''){_JOINED}|\s*[\s&&[^ ]]\s*[{_CLOSING}]{_JOINED}"
_SENTENCE_END = rf"([^.\s])(?:(\.(?:{_CLINGING}))|\.([{_BLANK}]|{_QUIET_REST}))"
_TEXT_END = r"([^.\s])\.(>[\])}>\"'»”’]*)?$"

_STEPS = (
    # A comma or colon before a digit stays.
    (r"[:,](\D)", " ${1}"),
    # These marks are set apart before closing quotes are, the others after: "'she's'," has the word and "('she's')" has not.
    (r"([^'])'([ ;@#$%&‒–—―?!«‘“`]|\.\.)", "${1} ${2}"),
    (r"[«»‘’“”`\";@#$%&‒–—―?!*\[\](){}<>]+|--|''|\.\.+", " "),
    # A quote opens a word unless it starts a clitic; a blank after the clitic changes no word.
    (r"(?i)(\W)(?:('(?:re|ve|ll|m|t|s|d|n)\b)|'(\w))", "${1}${2} ${3}"),
    # A quote or a clitic closes a word; long ones only in one case throughout.
    (r"([^'\s])'[sSmMdD]?\s", "${1} "),
    (r"([^'\s])(?:'ll|'LL|'re|'RE|'ve|'VE|n't|N'T)\s", "${1} "),
    # The only contraction with a word of the vocabulary lists in it.
    (r"(?i)\b(more)'n\b", " ${1} "),
    # Two blanks between words, so that two neighbours can both be found as " word ".
    (r"\s+", "  "),
)


def spaced_words(text: pl.Expr) -> pl.Expr:
    """Set the words of each text apart by the rules of NLTK 3.10.4, without the punctuation.

    Args:
        text: strings; null stays null.

    Returns:
        The tokens of each text in order, in the text's case, each with a blank of its own before and after it. So " warm "
        occurs in it as often as "warm" is among NLTK's tokens. This holds for words: tokens of two letters or more, with
        or without hyphens. Others (numbers, clitics, leftovers of punctuation) and the parts of contractions such as
        "cannot" and "gonna" are not promised.
    """
    # In this order: what ends the text must still be seen when a full stop before it is judged.
    text = text.str.strip_chars_end().str.replace_all(_SENTENCE_END, "${1}${2} ${3}").str.replace(_TEXT_END, "${1} ${2}")
    # Blanks at both ends stand in for the edges of the text in the rules that look at a neighbour.
    text = pl.concat_str(pl.lit(" "), text, pl.lit("\n"))
    for pattern, replacement in _STEPS:
        text = text.str.replace_all(pattern, replacement)
    return text
