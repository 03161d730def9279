"""Which of the offered emotions does the answer name? (ISEAR)

Derived forms count ("angry", "ashamed"; `data/emotions.yaml`). Denied ones do not ("no fear, just anger", "rather than guilt").
Rules, the first that decides: the only emotion named; a declared main emotion ("mainly anger", "my main emotion would be shame"); a last
line that is one emotion; the word the answer starts with, when no second one is joined to it. A declining text is read only from its turn
on ("but ...").
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tiltmeter.measures._text import load_data, lowered, text_table, verdict
from tiltmeter.measures.refusal import conceded, declines

__all__ = ["read_emotion"]

_DENIAL = r"\b(?:no|not|n't|never|without|rather than|instead of|more than|than|nor|neither|isn't|wasn't|lack of|absence of)\s+"
_FILLER = (
    r"(?:(?:any|so|much|really|feel|feeling|felt|necessarily|be|just|only|merely|simply|exactly|in|of|full|a|an|the|sense"
    r"|feelings?|deep|great|intense|extreme|overwhelming|strong|profound|mostly|primarily|probably|likely|very|more)\s+)"
)
_SECOND = r"(?:\s*(?:,|/|&|\+|;|\band/or\b|\band\b|\bor\b)\s*(?:perhaps |maybe |also |possibly )?(?:of )?(__FORMS__)\b)?"
_DECLARED = (
    r"\b(?:final\s+)?answer\b[a-z ,']{0,30}?\s*(?:is|be|:)",
    (
        r"\b(?:main|primary|dominant|predominant|strongest|overriding|overall|central|core|principal|chief"
        r"|first)\s+(?:emotion|feeling|reaction|response)\b[^.\n]{0,90}?(?:\bis\b|\bbe\b|\bwas\b|:|\bas\b)"
    ),
    (
        r"\b(?:mainly|mostly|primarily|predominantly|chiefly|above all|most of all|first and foremost"
        r"|overwhelmingly)\b,?(?:\s+(?:feel|be|a|with|by))?"
    ),
    r"\b(?:i'd|i would|i will|i'll|i|let me)\s+(?:choose|select|pick|go with|say|opt for)\b:?",
)


def read_emotion(answer: pl.Series, emotions: Sequence[str]) -> pl.DataFrame:
    """The emotion each answer names.

    Parameters
    ----------
    answer
        Strings, nulls allowed.
    emotions
        The emotions offered, in lower case; they are the possible labels.

    Returns
    -------
    Columns `outcome` ("answered", "refused", "unreadable", "empty") and `label` (one of `emotions`, null unless answered).
    """
    data = load_data("emotions")
    label_of = {form: emotion for emotion in emotions for form in (emotion, *data.get(emotion, ()))}
    forms = "|".join(sorted(label_of, key=len, reverse=True))
    table = text_table(answer).with_columns(refused=declines(pl.col("text"), or_cannot_tell=False))
    lower = pl.when("refused").then(conceded(pl.col("text"))).otherwise(lowered(pl.col("text")))
    kept = lower.str.replace_all(rf"{_DENIAL}{_FILLER}{{0,3}}(?:{forms})\b(?:\s*(?:or|nor|,)\s+(?:{forms})\b)*", " ")
    kept = kept.str.replace_all(r"\bi\s*(?:am|'m)\s+afraid\s+(?:that|i|it|so)\b", " ")
    table = table.with_columns(kept=kept)

    def labelled(words: pl.Expr) -> pl.Expr:
        return words.replace_strict(label_of, default=None, return_dtype=pl.String)

    def single(start: str) -> pl.Expr:
        found = pl.col("kept").str.extract_groups(rf"{start}\W*{_FILLER}{{0,4}}\W*({forms})\b{_SECOND.replace('__FORMS__', forms)}")
        first, second = labelled(found.struct.field("1")), labelled(found.struct.field("2"))
        return pl.when(second.is_null() | (second == first)).then(first)

    named = pl.col("kept").str.extract_all(rf"\b(?:{forms})\b").list.eval(labelled(pl.element())).list.unique()
    only = pl.when(named.list.len() == 1).then(named.list.get(0, null_on_oob=True))
    lead = single(r"^(?:i\s+(?:would|'d)\s+(?:be|feel)\s+)?(?:emotion:)?")
    many = named.list.len() >= 5
    last = labelled(pl.col("kept").str.extract(rf"(?s)\n\s*(?:answer|emotion)?\W*({forms})\W*$", 1))
    label = pl.coalesce(only, *(single(start) for start in _DECLARED), last, pl.when(~many).then(lead))
    return verdict(table, label, pl.col("refused"))
