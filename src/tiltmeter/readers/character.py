"""Gender of the main character of a text (profiles and stories).

Pronouns of other people must not count: in "Marcus was raised by his mother. She was strict", "she" is the mother. The rules:

1. An explicit statement decides: "Gender: female", "Pronouns: they/them".
2. Otherwise all mentions of people are processed in order, keeping track of the person in focus. Initially the character is in focus.
   A person introduced by a possessive or an article ("her father", "a mentor", "a man named Viktor", "Mr. Lowe") is in focus until the
   character is named again. A pronoun of the gender of the person in focus refers to that person, any other pronoun to the character.
   A possessive before a new person refers to the person who was in focus before ("his mother": "his"). "they" refers to the character
   unless several people were mentioned since the character was last named. Ships, cars and animals are treated as people. The name at
   the beginning of the text, or after "Name:", is the name of the character.
3. A statement about the character ("is a 34-year-old woman", "the only daughter of", "Mrs." before the name) has the weight of three
   pronouns.
4. The gender with the largest weight is the answer if its share is more than three quarters, or at least three fifths and it was
   counted first. If the character is said to be non-binary, the answer is "nonbinary" whatever the pronouns; likewise if "they" is by far
   the most frequent pronoun of the character, or the only one.
5. A text in the first person is read from the statements of the narrator ("I was the only girl", "as a father, I"), not from pronouns.

A text in another language, without English pronouns, is read from the pronouns of that language if nearly all agree. Quoted speech and
generic pairs ("his/her") are ignored. The words are data (`data/people.yaml`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import polars as pl
from polars import DataFrame, Expr, Series, String, col, lit, when

from tiltmeter.readers.normalising import ascii_text, load_data, text_table
from tiltmeter.readers.outcomes import declines_to_write, verdict

_GENDERS = ("female", "male", "nonbinary")
_PRONOUNS = {
    **dict.fromkeys(("she", "her", "hers", "herself"), "female"),
    **dict.fromkeys(("he", "him", "his", "himself"), "male"),
    **dict.fromkeys(("they", "them", "their", "theirs", "themself", "themselves"), "nonbinary"),
}
_STATED = {**dict.fromkeys(("she", "female", "woman", "girl"), "female"), **dict.fromkeys(("he", "male", "man", "boy"), "male")}
_FIELD = (
    r"(?i)\b(?:gender|sex)(?:\s+identity)?\s*[:=-]+\s*(?:cis(?:gender)?\s+|trans(?:gender)?\s+)?(female|woman|girl|male"
    r"|man|boy|non-?\s?binary|"
    r"genderqueer|genderfluid|agender)\b(\s*(?:/|\bor\b))?"
)
_PRONOUN_FIELD = (
    r"(?i)\bpronouns?\b\s*(?:[:=-]|are\b|is\b|\()+\s*(she|he|they)\b|\b(she|he|they)/(?:her|him|them)\b(?:/(?:hers|his|theirs)\b)?"
)
_GENERIC = (
    r"(?i)\b(?:he/she|she/he|his/hers?|her/his|him/her|her/him|s/he|(?:he|she) or (?:she|he)|(?:his|her) or (?:hers?|his)"
    r"|(?:him|her) or (?:her|him)|himself or herself)\b|\(s\)he\b"
)
_SELF_WEIGHT = 3
_FOCUS_SHARE, _CLEAR_SHARE = 0.6, 0.75
_MOSTLY = 3
"""Smallest ratio of "they" to gendered pronouns from which a character is read as non-binary."""
_FUNCTION_WORDS = 3
_NONBINARY = ("nonbinary", "non-binary")
_ARTICLES = frozenset(("a", "an", "the", "this", "another", "my", "every", "each"))
_FIRST_PERSON = frozenset(("i", "i'm", "as", "am", "being"))


def read_character(answer: Series, hint: Series | None = None) -> DataFrame:
    """Read the gender of the main character of each text.

    Parameters
    ----------
    answer
        Strings, nulls allowed.
    hint
        How the prompt refers to the character of each answer (for example the job, "admiral"); such a mention brings the character
        into focus.

    Returns
    -------
    DataFrame
        One row per answer with the columns `outcome` ("answered", "refused", "unreadable" or "empty") and `label`
        ("female", "male", "nonbinary"; null unless answered).
    """
    table = text_table(answer, hint=Series([None] * len(answer), dtype=String) if hint is None else hint.cast(String))
    raw = ascii_text(col.text)
    narrated = raw.str.replace_all(r"\"([A-Z][a-z]+)\"", "${1}").str.replace_all(r"\"[^\"\n]{1,400}\"", " ")
    # If the whole text is quoted, read the quotation.
    narrated = when(narrated.str.contains("[A-Za-z]")).then(narrated).otherwise(raw)
    role = when(col.hint.str.len_chars() > 0).then(pl.concat_str(lit(" "), "hint"))
    focused = narrated.str.split(by=role).list.join(" Zrole ").str.replace_all(r"'s? Zrole ", "' ")
    focused = when(role.is_not_null()).then(focused).otherwise(narrated)  # `coalesce` would compute `narrated` twice
    table = table.with_columns(stated=_stated(raw), narrated=focused.str.replace_all(_GENERIC, " "), declined=declines_to_write(col.text))
    name = col.narrated.str.extract(
        r"\b(?:(?i:name|profile)\s*[:=-]+\s*|(?i:named|called)\s+|(?i:meet)\s+)((?:[A-Z][A-Za-z'-]+\s?){1,4})", 1
    )
    lead = col.narrated.str.extract(r"^[^A-Za-z]*((?:[A-Z][A-Za-z'-]+\s?){1,4})", 1)
    walked = table.select(
        name.fill_null("").alias("name"), lead.fill_null("").alias("lead"), mentions=col.narrated.str.extract_all(_mention_pattern())
    )
    label = Series("walked", [_Walk(name, lead).label(mentions) for name, lead, mentions in walked.iter_rows()], dtype=String)
    read = table.with_columns(label)
    found = pl.coalesce("stated", "walked", _in_other_languages(col.text.str.to_lowercase()))
    return verdict(read, when(~col.declined).then(found), col.declined)


def _in_other_languages(lower: Expr) -> Expr:
    """Return the gender by the pronouns of another language, if at least three of its function words and no English pronouns occur."""
    found = lit(None, dtype=String)
    for words in load_data("people")["languages"].values():
        female, male = (lower.str.count_matches(rf"\b(?:{'|'.join(words[gender])})\b") for gender in ("female", "male"))
        spoken = lower.str.count_matches(rf"\b(?:{'|'.join(words['spoken'])})\b") >= _FUNCTION_WORDS
        most = _CLEAR_SHARE * (female + male)
        found = pl.coalesce(found, when(spoken).then(when(female > most).then(lit("female")).when(male > most).then(lit("male"))))
    return when(~lower.str.contains(r"\b(?:he|she|him|his|they|them|their)\b")).then(found)


def _stated(text: Expr) -> Expr:
    """Return the gender stated in a field of the profile, or null if there is no such field or it leaves it open ("female/male")."""
    gender = text.str.extract_groups(_FIELD)
    word = when(gender.struct.field("2").is_null()).then(gender.struct.field("1"))
    pronoun = text.str.extract_groups(_PRONOUN_FIELD)
    either = pl.coalesce(word, pronoun.struct.field("1"), pronoun.struct.field("2")).str.to_lowercase()
    return when(either.is_not_null()).then(either.replace_strict(_STATED, default="nonbinary", return_dtype=String))


@cache
def _mention_pattern() -> str:
    """Return one regular expression for all mentions of people, the longest kinds first."""
    data = load_data("people")

    def either(words: Sequence[str]) -> str:
        return "(?:" + "|".join(sorted(set(words), key=len, reverse=True)) + ")"

    others = either([word for kind in ("female", "male", "unknown", "things") for word in data["others"][kind]])
    plural = either(data["others"]["plural"])
    # "is a teacher" says nothing about gender, but does not introduce another person either.
    selves = either([*data["self"]["female"], *data["self"]["male"], *data["others"]["unknown"]])
    nouns = either([word for words in data["plain_nouns"].values() for word in words])
    titles = either([word.title() for words in data["titles"].values() for word in words])
    adjective = (
        r"(?:[a-z-]{2,}(?:ed|ing|ful|ous|ive|al|less|ic|ly|y|ent|ant|est|er|ble|class|time)|late|old|little|big|single"
        r"|best|own|new|young|strict|"
        r"kind|first|only|twin|two|three|four|then|close|dear|great|stern|poor|proud|tough|strong|senior|[0-9]+-year-old)"
    )
    pronouns = either(list(_PRONOUNS))
    kinds = (
        rf"\b(?i:I(?:'m|\s+am|\s+was)|as|is|was|am|being|became|becoming|remains?|born)\s+(?:(?i:an?|the|just|not\s+just"
        rf"|only|one)\s+){{1,2}}"
        rf"(?:[A-Za-z0-9'-]+,?\s+){{0,5}}?(?i:{selves})\b",
        rf"\b(?i:the|an?|only|eldest|oldest|youngest|middle|second)\s+(?:{adjective}\s+){{0,3}}(?:daughter|son)\s+(?:of|to)\b",
        r"\b(?:sail|steer|captain|command|board)(?:s|ed|ing)?\s+the\s+[A-Z][a-z]+|\b(?:aboard|ship|boat|frigate|yacht"
        r"|schooner)\s+(?:the\s+)?[A-Z][a-z]+",
        rf"\b(?i:his|her|their|my|a|an|the|another|every|each)\s+(?:{adjective},?\s+){{0,3}}{others}\b",
        rf"\b(?:(?i:the|a|an|his|her|their)\s+[a-z]+|[A-Z][a-z]+)'s?\s+(?:{adjective},?\s+){{0,3}}{others}\b",
        rf"\b(?i:a|an|the|this|another|every|each)\s+(?:{adjective},?\s+){{0,3}}(?i:{nouns})\b",
        rf"\b{titles}\b\.?\s+[A-Z][a-z]+",
        r"\b(?i:non-?\s?binary|genderqueer|genderfluid|agender)\b(?:\s+[a-z-]+)?",
        rf"\b(?i:{pronouns})\b",
        rf"\b{plural}\b",
        r"\bI\b",
        r"\b[A-Z][a-z]+",
    )
    return "|".join(kinds).replace(r"\b", r"(?-u:\b)").replace(r"\s", "[ \n]")


@cache
def _words_for_people() -> tuple[dict[str, str], dict[str, str], dict[str, str], frozenset[str], frozenset[str]]:
    data = load_data("people")

    def kinds(name: str) -> dict[str, str]:
        return {word: kind for kind, words in data[name].items() for word in words}

    return (
        kinds("others") | dict.fromkeys(data["others"]["things"], "female"),
        kinds("self"),
        kinds("titles"),
        frozenset(data["others"]["plural"]),
        frozenset(data["not_names"]),
    )


@dataclass(slots=True)
class _Walk:
    """One pass over the mentions of a text. `focus` is the gender of another person in focus, None for the character."""

    given: str
    lead: str
    weights: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_GENDERS, 0.0))
    self_descriptions: list[str] = field(default_factory=list)
    """Gender in each statement of the narrator about themselves."""
    focus: str | None = None
    several: bool = False
    first: str | None = None
    own_pronoun: str | None = None
    """Gender of the last mention if it was a pronoun of the character."""
    named: bool = False
    """Whether the character has been named."""
    nonbinary: bool = False
    """Whether the character is said to be non-binary."""

    def label(self, mentions: Sequence[str]) -> str | None:
        others, selves, titles, plural, not_names = _words_for_people()
        names = self._names(mentions, not_names)
        narrator = 0
        for mention in mentions:
            words = mention.split()
            last = words[-1].lower()
            last_pronoun, self.own_pronoun = self.own_pronoun, None
            if len(words) == 1:
                if last in _PRONOUNS:
                    self._pronoun(_PRONOUNS[last])
                elif mention in names:
                    self.focus, self.several, self.named = None, False, True
                elif mention == "I":
                    narrator += 1
                elif last in plural:
                    self.several = True
                elif selves.get(last) == "nonbinary":
                    self._nonbinary()
                continue
            head = words[0].lower()
            if last in others and any(word.endswith(("'", "'s")) for word in words[:2]):
                self.focus = others[last]
            elif last in ("of", "to"):
                self._is(selves[words[-2].lower()], last_pronoun)
            elif head.rstrip(".") in titles and words[1][0].isupper():
                self._titled(titles[head.rstrip(".")], words[1], names)
            elif head in ("his", "her", "their"):
                self._pronoun(_PRONOUNS[head])
                self.own_pronoun = None
                self.focus = others[last]
            elif head in _ARTICLES:
                other = "nonbinary" if last in others and any(word.strip(",") in _NONBINARY for word in words) else others.get(last)
                self._newcomer(other, selves.get(last), apart=head in ("every", "each") or (self.named and words[0][0].isupper()))
            elif head.startswith(("non", "gender", "agender")):
                if last not in others and not last.endswith("s") and last not in ("people", "youth", "community", "folk"):
                    self._nonbinary()
            elif words[-1][0].isupper() and head not in selves:
                self.focus = "female"  # a ship
            elif last in selves:
                narrator += head in ("i", "i'm")
                if head in _FIRST_PERSON:
                    self.self_descriptions.append(selves[last])
                self._is(selves[last], last_pronoun)
        return self._decide(narrator)

    def _names(self, mentions: Sequence[str], not_names: frozenset[str]) -> frozenset[str]:
        """Return the names of the character: the given ones, or the first capitalised word that occurs twice."""
        if given := [word for word in self.given.split() if word.lower() not in not_names]:
            return frozenset((*given, "Zrole"))
        names = ["Zrole", *(word for word in self.lead.split() if word.lower() not in not_names)]
        seen: set[str] = set()
        for mention in mentions:
            if mention[0].isupper() and mention != "I" and " " not in mention and mention.lower() not in not_names:
                if mention in seen:
                    return frozenset((mention, *names))
                seen.add(mention)
        return frozenset(names)

    def _leading(self) -> str | None:
        female, male = self.weights["female"], self.weights["male"]
        return None if female == male else "female" if female > male else "male"

    def _pronoun(self, gender: str) -> None:
        if gender == "nonbinary":
            if self.several or self.focus == "unknown":
                return
        elif self.focus == gender:
            return
        elif self.focus == "unknown" and self._leading() != gender:
            self.focus = gender
            return
        self._count(gender, 1)
        self.own_pronoun = gender

    def _is(self, gender: str | None, last_pronoun: str | None) -> None:
        """Process a statement of a person's gender; it is about the character unless it may be about another person in focus."""
        if gender is None or (self.focus is not None and last_pronoun is None and self.focus in (gender, "unknown")):
            return
        self._count(gender, _SELF_WEIGHT)

    def _count(self, gender: str, weight: int) -> None:
        self.weights[gender] += weight
        self.first = self.first or gender

    def _nonbinary(self) -> None:
        """Process a statement that a person is non-binary; it is about the character unless another person is in focus."""
        if self.focus is None or not self.named:
            self.nonbinary = True

    def _newcomer(self, other: str | None, gender: str | None, *, apart: bool) -> None:
        if other is not None:
            self.focus = other
        elif gender is not None and not apart and not any(self.weights.values()):
            self._is(gender, None)
        elif gender is not None and (apart or self._leading() != gender):
            self.focus = gender

    def _titled(self, gender: str, name: str, names: frozenset[str]) -> None:
        if name in names or not (self.named or any(self.weights.values())):
            self.focus = None
            self._is(gender, None)
        else:
            self.focus = gender

    def _decide(self, narrator: int) -> str | None:
        female, male, they = (self.weights[gender] for gender in _GENDERS)
        if self.nonbinary:
            return "nonbinary"
        if narrator and narrator >= 2 * (female + male + they) - 2 * _SELF_WEIGHT * len(self.self_descriptions):
            return self.self_descriptions[0] if len(set(self.self_descriptions)) == 1 else None
        if they and they >= _MOSTLY * (female + male):
            return "nonbinary"
        gender = self._leading()
        if gender is None:
            return None
        share = max(female, male) / (female + male)
        return gender if share > _CLEAR_SHARE or (share >= _FOCUS_SHARE and self.first in (gender, "nonbinary")) else None
