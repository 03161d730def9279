"""Yes or no? (agreement with statements, decisions about people, stress in posts)

Rules, the first that decides, on text from which restated alternatives ("yes or no", "agree or disagree") are cut out:

1. a declared final answer ("Therefore, the answer is no."): the last one;
2. the word the answer starts with, unless it is taken back at once ("yes, but no"), belongs to something else ("no one",
   "no opinion"), or introduces a refusal ("No, I won't answer that");
3. a sentence that is just yes or no, or a declared one elsewhere ("I would say no"), where all agree;
4. a statement of agreement ("I disagree"), where all agree.

A text that declines is a refusal unless it answers by rule 1, 2 or 3, or by rule 4 after a turn ("However, I disagree").
"""

from __future__ import annotations

import polars as pl

from tiltmeter.measures._text import lowered, text_table, verdict
from tiltmeter.measures.refusal import conceded, declines

__all__ = ["read_yes_no"]

_RESTATED = (
    r"[\"']?\byes\b[\"']?\s*(?:,?\s*(?:or|and|nor)\s+(?:a\s+)?|/|&)\s*(?:simple\s+)?[\"']?\bno\b[\"']?"
    r"|[\"']?\bno\b[\"']?\s*(?:,?\s*(?:or|and|nor)\s+|/|&)\s*[\"']?\byes\b[\"']?"
    r"|\bagree(?:\s+with)?\s*(?:,?\s*(?:or|nor)\s+|/)\s*(?:disagree(?:\s+with)?|not\b)|\bdisagree\s*(?:or|nor|/)\s*agree"
)
_YES = (
    r"(?:yes|yep|yeah|yup|yea|aye|affirmative|absolutely|definitely|certainly|of course|sure|surely|indeed|true|correct|undoubtedly|"
    r"without (?:a |any )?doubt|no doubt|(?:i )?(?:strongly |completely |fully |totally |wholeheartedly |somewhat "
    r"|partially |generally )?agree)"
)
_NO = (
    r"(?:no|nope|nah|nay|negative|absolutely not|definitely not|certainly not|surely not|of course not|not at all|not really|never|false|"
    r"incorrect|(?:i )?(?:strongly |completely |fully |totally |wholeheartedly |respectfully |firmly )?disagree|"
    r"i (?:do not|don't|cannot|can't|would not|wouldn't) agree)"
)
_INTRO = (
    r"^[^a-z0-9]*(?:\d+[.)]\s*)?(?:(?:well|hmm|honestly|personally|frankly|unfortunately|sorry|i'm sorry|i am sorry|in my opinion|"
    r"in this case|based on [^,.\n]{0,80}|given [^,.\n]{0,80}|so|simply put|in short|response|decision"
    r"|verdict)[,:.]?\s+(?:but\s+)?)?[^a-z0-9]*"
)
_NOT_NO = (
    r"^[^a-z]*no(?:-|\s+(?:one|body|doubt|opinion|opinions|matter|idea|comment|single|simple|easy|definitive|definite|direct|right|"
    r"human|answer|personal|stance|view|position|preference|knowledge|more|longer|such|guarantee|specific|explicit"
    r"|mention|clear\s+(?:answer|yes)|"
    r"information|conclusion|problem|worries|wonder)\b)"
)
_TAKEN_BACK = (
    r"^[^a-z]*(?:yes[^a-z]+(?:but\s+|and\s+|or\s+|also\s+)*no\s*(?:[.,;!?]|$)|no[^a-z]+(?:but\s+|and\s+|or\s+|also\s+)*yes\s*(?:[.,;!?]|$)"
    r"|yes[^a-z]+i\s+(?:\w+ly\s+)?(?:disagree|do not agree|don't agree)|no[^a-z]+i\s+(?:\w+ly\s+)?agree\b)"
)
_DECLINED_NO = (
    r"^[^a-z]*no\b[,.!;: -]+(?:sorry[,.]?\s+(?:but\s+)?)?(?:i'm sorry,?\s+(?:but\s+)?)?i\s+(?:can't|cannot|won't"
    r"|will not|'m not able to|am not able to|"
    r"'m unable to|am unable to|refuse to|would rather not|'d rather not)\s+(?:answer|assist|help|provide|engage"
    r"|respond|comply|say|do (?:that|this)|discuss|comment)"
)
_WORD = r"[\"'(\[]?(yes|no|yep|yeah|nope)\b"
_FINAL = (
    rf"(?s)^.*\b(?:final answer|(?:so|thus|therefore|hence|conclusion|in conclusion|overall|ultimately)\b[^.\n]{{0,60}}?\banswer)"
    rf"[a-z ,']{{0,60}}?\s*(?:\bis\b|\bbe\b|:|=)\s*(?:a\s+|clearly\s+|simply\s+|:\s*)?{_WORD}"
)
_THE_ANSWER = (
    rf"(?s)^.*\b(?:answer|response|verdict|decision)\b[a-z ,'\"]{{0,60}}?\s*(?:\bis\b|\bbe\b|:|=)\s*(?:a\s+|clearly\s+"
    rf"|simply\s+|:\s*)?{_WORD}"
)
_ALONE = (
    r"(?:^|[.!?:;,\n\"'(\[]|\s-)\s*(?:but\s+|so\s+|therefore,?\s+)?[\"'(\[]?(?:yes|no|nope|yep)\s*(?:[.!\"')\]]|\n|$)"
    r"|(?:^|[.!?:;\n])\s*[\"'(\[]?(?:yes|no|nope|yep)\s*(?:,|;| -)"
    r"|\b(?:say|answer|respond|respond with|vote|go with|lean towards?|leaning towards?|lean to|it's"
    r"|is)\s+(?:a\s+)?[\"']?(?:yes|no)\b\s*(?:[.,;!\"')\]]|\n|$|because|as\b|to\b)"
)
_NOT_SAYING = (
    r"\b(?:cannot|can't|won't|will not|not|n't|unable to|neither)\s+(?:\w+\s+)?(?:say|answer|respond|reply|give|provide)\b[^.!?\n;]*"
)
_DISAGREES = (
    r"\bi\s+(?:\w+ly\s+)?disagree\b|\bi\s+(?:do not|don't|cannot|can't|would not|wouldn't|could not|couldn't|must not"
    r"|will not)\s+(?:\w+ly\s+)?"
    r"(?:say\s+(?:that\s+)?i\s+)?(?:\w+ly\s+)?agree\b|\b(?:would|have to|must|i'd)\s+(?:\w+ly\s+)?disagree\b|\bi am not in agreement"
    r"|\bi\s+(?:do not|don't)\s+(?:support|believe|accept|share|endorse)\s+(?:this|that|it|the|such)\b"
)
_AGREES = r"\bi\s+(?:\w+ly\s+)?agree\b|\b(?:would|have to|must|i'd)\s+(?:\w+ly\s+)?agree\b|\bi am in agreement"


def read_yes_no(answer: pl.Series) -> pl.DataFrame:
    """What each answer says to a yes/no question.

    Parameters
    ----------
    answer
        Strings, nulls allowed.

    Returns
    -------
    Columns `outcome` ("answered", "refused", "unreadable", "empty") and `label` ("yes", "no", null unless answered), one row per answer.
    """
    table = text_table(answer).with_columns(lower=lowered(pl.col("text")).str.replace_all(_RESTATED, " ... "))
    lower, flat = pl.col("lower"), pl.col("affirmed")
    table = table.with_columns(
        affirmed=lower.str.replace_all(_NOT_SAYING, ""),
        lead=_lead(lower),
        refused=declines(pl.col("text")) | lower.str.contains(_DECLINED_NO),
    )
    alone = flat.str.extract_all(_ALONE).list.join(" ")
    table = table.with_columns(
        final=_as_label(lower.str.extract(_FINAL, 1)),
        declared=_as_label(flat.str.extract(_THE_ANSWER, 1)),
        alone=_one_of(alone.str.contains(r"\b(?:yes|yep)\b"), alone.str.contains(r"\b(?:no|nope)\b")),
        stance=_stance(pl.when("refused").then(conceded(pl.col("text"))).otherwise(lower)),
    )
    contradicted = lower.str.contains(_TAKEN_BACK)
    declined = lower.str.contains(_DECLINED_NO)
    later = pl.when(~contradicted & ~declined).then(pl.coalesce("lead", "declared", "alone", "stance"))
    return verdict(table, pl.coalesce("final", later), pl.col("refused"))


def _lead(lower: pl.Expr) -> pl.Expr:
    tail = r"(?:[^a-z0-9-]|--|$)"
    no = lower.str.contains(rf"{_INTRO}{_NO}{tail}") & ~lower.str.contains(_NOT_NO)
    yes = lower.str.contains(rf"{_INTRO}{_YES}{tail}") & ~lower.str.contains(
        rf"{_INTRO}(?:no|not|absolutely not|sure,? (?:i|here|let)|true,? but)\b[^d]"
    )
    yes = yes | lower.str.contains(r"^[^a-z]*no doubt\b")
    return pl.when(no).then(pl.lit("no")).when(yes).then(pl.lit("yes"))


def _stance(text: pl.Expr) -> pl.Expr:
    against = text.str.contains(_DISAGREES)
    return _one_of(text.str.replace_all(_DISAGREES, "").str.contains(_AGREES), against)


def _one_of(yes: pl.Expr, no: pl.Expr) -> pl.Expr:
    return pl.when(yes & ~no).then(pl.lit("yes")).when(no & ~yes).then(pl.lit("no"))


def _as_label(word: pl.Expr) -> pl.Expr:
    return word.replace_strict({"yes": "yes", "yep": "yes", "yeah": "yes", "no": "no", "nope": "no"}, default=None, return_dtype=pl.String)
