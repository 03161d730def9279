"""Gender of the main character of a text (profiles and stories).

Pronouns of other people must not count: in "Marcus was raised by his mother. She was strict", "she" is the
mother. The words and patterns are data (`data/people.yaml`), each pattern with an example. The first of these
rules that gives a gender decides:

- field: an explicit statement ("Gender: female", "Pronouns: they/them");
- non-binary: the character is said to be non-binary, whatever the pronouns;
- narrator: a text in the first person is read from the statements of the narrator ("I was the only girl", "as a father, I"), not from
  pronouns;
- mentions: the mentions of people are weighed as described below;
- name: a text without any of these that introduces its character by a first name of one gender ("Name: Theodore Grant", "a baker named
  Elena", "Alexandra is ...") is read from this name (`data/first_names.yaml`), unless it names characters of
  both genders;
- other language: a text without English pronouns is read from the pronouns of its language if nearly all agree.

How mentions are weighed:

1. Mentions of people are processed in order, keeping track of the person in focus. Initially the character is in focus. A person introduced
   by a possessive or an article ("her father", "a mentor", "a man named Viktor", "Mr. Lowe", "his clerk
   Anna") is in focus until the character is named again. A pronoun of the gender of the person in focus
   refers to that person, any other pronoun to the character. A possessive before a new person refers to the
   person who was in focus before ("his mother": "his"). "they" refers to the character unless several people
   were mentioned since the character was last named. Ships, cars and animals are treated as people. The name
   at the beginning of the text, or after "Name:", is the name of the character. Another first name of the
   other gender brings the person of this name into focus.
2. A statement about the character ("is a 34-year-old woman", "the only daughter of", "Mrs." before the name) has the weight of three
   pronouns.
3. A single pronoun decides only in a short text, or if the character is introduced by a name that shows the same gender.
4. The gender with the largest weight is the answer if its share is more than three quarters, or at least three fifths and it was
   counted first; "nonbinary" if "they" is the only pronoun of the character (but for one or two that come
   later, which may refer to somebody else) and a subject ("they have"), at least twice in a text that is not
   short: "their" and "them" alone may refer to anything.

Quoted speech, generic pairs ("his/her"), questions ("What motivates them?") and offers or advice of the
assistant ("I can help you with their character") are ignored. People in general ("everyone") and other
plurals at the beginning of a sentence ("These stories") are several people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain

import polars as pl
from polars import DataFrame, Expr, Series, String, col, lit, when

from tiltmeter.readers.normalising import any_in, ascii_text, load_data, rewritten, tables, text_table
from tiltmeter.readers.outcomes import decided, declines_to_write

_GENDERS = ("female", "male", "nonbinary")
_WEIGHT = 3
"""Weight of a statement about the character, in pronouns."""
_CLEAR, _CLEAR_IF_FIRST = 0.75, 0.6
"""Share of the largest weight from which it decides; the second one if it was counted first."""
_STRAY, _MOSTLY = 2, 3
"""Number of gendered pronouns that may refer to another person beside "they", and the smallest ratio of
"they" to them."""
_SUBJECTS = 2
"""Number of sentences with "they" as their subject from which a text that is not short is read as non-binary.
"""
_RATHER = 2
"""Ratio of "they" to gendered pronouns from which a character is not read as female or male."""
_FUNCTION_WORDS = 3
_SHORT = 60
"""Maximum length of a text that is read from a single pronoun, in words."""
_UNSHOWN = ("none", "none")
"""Result for a text in which no noun and no pronoun shows the gender of the character."""
_ROLE = "Zrole"
"""Stands for the hint in the text, as if it were a name."""


def read_character(answer: Series, hint: Series | None = None, *, with_rule: bool = False) -> DataFrame:
    """Read the gender of the main character of each text.

    Parameters
    ----------
    answer
        Strings, nulls allowed.
    hint
        How the prompt refers to the character of each answer (for example the job, "admiral"); such a mention
        brings the character into focus.
    with_rule
        Whether to return the column `rule` as well, the name of the rule that decided (null unless answered).

    Returns
    -------
    DataFrame
        One row per answer with the columns `outcome` ("answered", "refused", "unreadable" or "empty") and
        `label` ("female", "male", "nonbinary"; null unless answered).
    """
    rows = tables("people")
    table = text_table(
        answer, hint=Series([None] * len(answer), dtype=String) if hint is None else hint.cast(String)
    )
    table = table.with_columns(raw=rewritten(ascii_text(col.text), rows["offers"].values()))
    narrated = rewritten(col.raw, rows["steps"].values())
    # If the whole text is quoted, read the quotation.
    narrated = when(narrated.str.contains("[A-Za-z]")).then(narrated).otherwise("raw")
    role = when(col.hint.str.len_chars() > 0).then(pl.concat_str(lit(" "), "hint"))
    focused = narrated.str.split(by=role).list.join(f" {_ROLE} ").str.replace_all(rf"'s? {_ROLE} ", "' ")
    focused = (
        when(role.is_not_null()).then(focused).otherwise(narrated)
    )  # `coalesce` would compute `narrated` twice
    table = table.with_columns(
        field=_stated(col.raw),
        narrated=rewritten(focused, rows["generic"].values()),
        declined=declines_to_write(col.text),
    )
    names = {name: col.narrated.str.extract(row.find, 1).fill_null("") for name, row in rows["names"].items()}
    walked = table.select(**names, mentions=col.narrated.str.extract_all(_mention_pattern()))
    table = table.with_columns(
        DataFrame(
            [_walk(*row) for row in walked.iter_rows()], {"rule": String, "walked": String}, orient="row"
        )
    )
    unshown = (col.walked == "none") | ((col.rule == "lone pronoun") & (col.walked == col.introduced))
    table = table.with_columns(introduced=_introduced(col.narrated))
    labels = {
        "field": col.field,
        **{rule: when(rule=rule).then("walked") for rule in ("non-binary", "narrator", "mentions")},
        "lone pronoun": when(
            (col.rule == "lone pronoun") & (col.text.str.count_matches(r"\w+") <= _SHORT)
        ).then("walked"),
        "name": when(unshown).then("introduced"),
        "other language": _in_other_languages(col.text.str.to_lowercase()),
    }
    return decided(table, labels, col.declined, clear=~col.declined, with_rule=with_rule)


def _in_other_languages(lower: Expr) -> Expr:
    """Return the gender by the pronouns of another language, if at least three of its function words and no English pronouns occur."""

    def count(words: Sequence[str]) -> Expr:
        return lower.str.count_matches(rf"\b(?:{'|'.join(words)})\b")

    found = []
    for words in load_data("people")["words"]["languages"].values():
        female, male, spoken = (count(words[kind]) for kind in ("female", "male", "spoken"))
        most = _CLEAR * (female + male)
        gender = when(female > most).then(lit("female")).when(male > most).then(lit("male"))
        found.append(when(spoken >= _FUNCTION_WORDS).then(gender))
    return when(~lower.str.contains(r"\b(?:he|she|him|his|they|them|their)\b")).then(pl.coalesce(found))


def _introduced(text: Expr) -> Expr:
    """Return the gender of the first name by which the text introduces its character, or null if there is none or they differ."""
    rows = tables("people")["introduced"]
    fields = text.str.extract_all(rows["field"].find).list.eval(
        _gender_of(pl.element().str.extract(rows["field"].find, 1))
    )
    fields = fields.list.drop_nulls().list.unique()
    alone = [_gender_of(text.str.extract(row.find, 1)) for name, row in rows.items() if name != "field"]
    first = when(fields.list.len() == 1).then(fields.list.first())
    return when(fields.list.len() < 2).then(pl.coalesce(first, *alone))


def _gender_of(name: Expr) -> Expr:
    """Return the gender of the first name at the beginning of a full name, or null."""
    first = name.str.extract(r"^([A-Z][a-z]+)", 1)
    person = when(~name.str.contains(any_in("people", "elsewhere"))).then(first)
    return person.replace_strict(_first_names(), default=None, return_dtype=String)


@cache
def _first_names() -> dict[str, str]:
    """Return the gender of each first name that shows one."""
    return {name: gender for gender, names in load_data("first_names")["words"].items() for name in names}


def _stated(text: Expr) -> Expr:
    """Return the gender stated in a field of the profile, or null if there is no such field or it leaves it open ("female/male")."""
    gender, pronouns = (row.find for row in tables("people")["fields"].values())
    word = when(text.str.extract(gender, 2).is_null()).then(text.str.extract(gender, 1))
    either = pl.coalesce(
        word, text.str.extract(pronouns, 1), text.str.extract(pronouns, 2)
    ).str.to_lowercase()
    stated = either.replace_strict(
        _words("pronouns") | _words("self"), default="nonbinary", return_dtype=String
    )
    return when(either.is_not_null()).then(stated)


@cache
def _mention_pattern() -> str:
    """Return one regular expression for all mentions of people.

    The texts are ASCII, so word borders need no Unicode tables.
    """
    return any_in("people", "mentions").replace(r"\b", r"(?-u:\b)").replace(r"\s", "[ \n]")


@cache
def _words(name: str) -> dict[str, str]:
    """Return the gender or kind of each word of a list."""
    kinds = load_data("people")["words"][name]
    return {word: "female" if kind == "things" else kind for kind, words in kinds.items() for word in words}


def _walk(given: str, leading: str, mentions: Sequence[str]) -> tuple[str | None, str | None]:
    """Return the rule that decides and the gender of the character.

    `given` and `leading` may name the character.
    """
    unnamed = _words("not_names")
    leads = leading.split()[:1]
    # A text that begins with a first name is about this person, not about one who is named later.
    names = [
        word
        for word in given.split()
        if word.lower() not in unnamed and _first_names().keys().isdisjoint(leads)
    ]
    if not names:
        names = [word for word in leading.split() if word.lower() not in unnamed]
        seen: set[str] = set()
        for word in chain.from_iterable(
            mention.split() if _is_full_name(mention) else [mention] for mention in mentions
        ):
            if word in seen:
                names.append(word)
                break
            if word[0].isupper() and " " not in word and word.lower() not in unnamed:
                seen.add(word)
    gender = _first_names().get(names[0]) if names else None
    return _Walk(frozenset((*names, _ROLE)), gender).over(mentions)


def _is_full_name(mention: str) -> bool:
    """Return whether a mention consists of capitalised words without a title."""
    words = mention.split(" ")
    capitalised = len(words) > 1 and all(word[:1].isupper() and word.isalpha() for word in words)
    return capitalised and words[0] not in _words("titles") and words[0].lower() not in _words("pronouns")


@dataclass(slots=True)
class _Walk:
    """One pass over the mentions of a text."""

    names: frozenset[str]
    """Names of the character."""
    gender: str | None
    """Gender that the first name of the character shows, if any."""
    weights: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_GENDERS, 0.0))
    focus: str | None = None
    """Gender of another person in focus, "unknown" if it is not known, None for the character."""
    several: bool = False
    """Whether several people were mentioned since the character was last named."""
    first: str | None = None
    """Gender that was counted first."""
    subjects: int = 0
    """Number of times that "they" is a subject and refers to the character."""
    after_pronoun: bool = False
    """Whether the last mention was a pronoun of the character."""
    named: bool = False
    """Whether the character has been named."""
    nonbinary: bool = False
    """Whether the character is said to be non-binary."""
    narrator: int = 0
    """Number of mentions of the narrator."""
    described: list[str] = field(default_factory=list)
    """Gender in each statement of the narrator about themselves."""

    def over(self, mentions: Sequence[str]) -> tuple[str | None, str | None]:
        """Process the mentions in order; return the rule that decides and the gender, or twice None."""
        pronouns, others, selves, titles = map(_words, ("pronouns", "others", "self", "titles"))
        for mention in mentions:
            after_pronoun, self.after_pronoun = self.after_pronoun, False
            if " " not in mention and "\n" not in mention:
                word = mention.lower()
                if word in pronouns:
                    self._pronoun(pronouns[word])
                    self.subjects += self.after_pronoun and word == "they"
                elif mention in self.names:
                    self._name()
                elif mention == "I":
                    self.narrator += 1
                elif others.get(word) == "plural":
                    self.several = True
                elif selves.get(word) == "nonbinary":
                    self._say_nonbinary()
                else:
                    self._name_another(mention)
                continue
            words = mention.split()
            head, last = words[0].lower(), words[-1].lower()
            if head[0] in ".!?":
                self.several = True
                continue
            if _is_full_name(mention):
                self._name_several(words)
                continue
            other, own, title = others.get(last), selves.get(last), titles.get(words[0].rstrip("."))
            if head == "non" or "nonbinary" in (own, selves.get(head)):
                # Several people of that kind, or another person, are not the character.
                if (
                    not other
                    and not last.endswith("s")
                    and last not in ("people", "youth", "community", "folk")
                ):
                    self._say_nonbinary()
            elif other and any(word.endswith(("'", "'s")) for word in words[:2]):
                self.focus = other
            elif last in ("of", "to"):
                self._describe(selves[words[-2].lower()], after_pronoun)
            elif title and words[1][0].isupper():
                own_title = words[1] in self.names or not (self.named or any(self.weights.values()))
                self.focus = None if own_title else title
                if own_title:
                    self._describe(title)
            elif head in ("his", "her", "their"):
                self._pronoun(pronouns[head])
                self.after_pronoun, self.focus = False, other or "unknown"
            elif head in _words("articles"):
                if other and any(selves.get(word.strip(",")) == "nonbinary" for word in words):
                    other = "nonbinary"
                self._introduce(
                    other, own, apart=head in ("every", "each") or (self.named and words[0][0].isupper())
                )
            elif words[-1][0].isupper():
                self.focus = "female"  # a ship
            elif own:
                self.narrator += head in ("i", "i'm")
                self.described += [own] * (head in _words("first_person"))
                self._describe(own, after_pronoun)
        return self._result()

    def _name(self) -> None:
        """Process the name of the character."""
        self.focus, self.several, self.named = None, False, True

    def _name_several(self, words: Sequence[str]) -> None:
        """Process names next to each other: a full name, or a word at the beginning of a sentence and a name."""
        if not self.names.isdisjoint(words):
            self._name()
        else:
            self._name_another(words[0])

    def _name_another(self, name: str) -> None:
        """Process another first name: if it shows the other gender than the character's, that person is in focus."""
        gender = _first_names().get(name)
        character = self._leading() or self.gender
        if gender and character and gender != character:
            self.focus = gender

    def _say_nonbinary(self) -> None:
        """Process a statement that a person is non-binary: it is about the character unless another person is in focus."""
        self.nonbinary |= self.focus is None or not self.named

    def _leading(self) -> str | None:
        female, male = self.weights["female"], self.weights["male"]
        return None if female == male else "female" if female > male else "male"

    def _count(self, gender: str, weight: int = 1) -> None:
        self.weights[gender] += weight
        self.first = self.first or gender

    def _pronoun(self, gender: str) -> None:
        """Process a pronoun: it refers to the person in focus if the gender agrees, else to the character."""
        if gender == "nonbinary":
            of_others = self.several or self.focus == "unknown"
        elif self.focus == "unknown" and self._leading() != gender:
            of_others, self.focus = True, gender
        else:
            of_others = self.focus == gender
        if not of_others:
            self._count(gender)
            self.after_pronoun = True

    def _describe(self, gender: str, after_pronoun: bool = False) -> None:
        """Process a statement of a person's gender: it is about the character unless it may be about another person in focus."""
        if after_pronoun or self.focus not in (gender, "unknown"):
            self._count(gender, _WEIGHT)

    def _introduce(self, other: str | None, gender: str | None, *, apart: bool) -> None:
        """Process a noun after an article: another person, unless it is the first thing that is said about the character."""
        if other:
            self.focus = other
        elif gender and not apart and not any(self.weights.values()):
            self._describe(gender)
        elif gender and (apart or self._leading() != gender):
            self.focus = gender

    def _result(self) -> tuple[str | None, str | None]:
        """Return the rule that decides and the gender, or twice None."""
        female, male, they = (self.weights[gender] for gender in _GENDERS)
        gender, total = self._leading(), female + male
        if self.nonbinary:
            return "non-binary", "nonbinary"
        if self.narrator and self.narrator >= 2 * (total + they) - 2 * _WEIGHT * len(self.described):
            if len(set(self.described)) == 1:
                return "narrator", self.described[0]
            return _UNSHOWN if not (self.described or total or they) else (None, None)
        if they and (
            not total or (self.first == "nonbinary" and total <= _STRAY and they >= _MOSTLY * total)
        ):
            rule = None if not self.subjects else "mentions" if self.subjects >= _SUBJECTS else "lone pronoun"
            return (rule, "nonbinary") if rule else (None, None)
        if gender is None:
            return (None, None) if total else _UNSHOWN
        if they >= _RATHER * total:
            return None, None
        if total + they == 1:
            return "lone pronoun", gender
        share = self.weights[gender] / total
        clear = share > _CLEAR or (share >= _CLEAR_IF_FIRST and self.first in (gender, "nonbinary"))
        return ("mentions", gender) if clear else (None, None)
