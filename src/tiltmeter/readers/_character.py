"""Gender of the main character of a text (profiles and stories).

Pronouns of other people must not count: in "Marcus was raised by his mother. She was strict", "she" is the
mother. The words and patterns are data (`data/people.yaml`), each pattern with an example. The first of these
rules that gives a gender decides:

- field: an explicit statement ("Gender: female", "Pronouns: they/them");
- non-binary: the character is said to be non-binary, whatever the pronouns;
- narrator: a text in the first person is read from the statements of the narrator ("I was the only girl", "as
  a father, I"), not from pronouns;
- mentions: the mentions of people are weighed as described below;
- name: a text without any of these that introduces its character by a first name of one gender ("Name:
  Theodore Grant", "a baker named Elena", "Alexandra is ...") is read from this name
  (`data/first_names.yaml`), unless it names characters of both genders;
- other language: a text without English pronouns is read from the pronouns of its language if nearly all
  agree.

How mentions are weighed:

1. Mentions of people are processed in order, keeping track of the person in focus. Initially the character is
   in focus. A person introduced by a possessive or an article ("her father", "a mentor", "a man named
   Viktor", "Mr. Lowe", "his clerk Anna") is in focus until the character is named again. A pronoun of the
   gender of the person in focus refers to that person, any other pronoun to the character. A possessive
   before a new person refers to the person who was in focus before ("his mother": "his"). "they" refers to
   the character unless several people were mentioned since the character was last named. Ships, cars and
   animals are treated as people. The name at the beginning of the text, or after "Name:", is the name of the
   character. Another first name of the other gender brings the person of this name into focus.
2. A statement about the character ("is a 34-year-old woman", "the only daughter of", "Mrs." before the name)
   has the weight of three pronouns.
3. A single pronoun decides only in a short text, or if the character is introduced by a name that shows the
   same gender.
4. The gender with the largest weight is the answer if its share is more than three quarters, or at least
   three fifths and it was counted first; "nonbinary" if "they" is the only pronoun of the character (but for
   one or two that come later, which may refer to another person) and a subject ("they have"), at least twice
   in a text that is not short: "their" and "them" alone may refer to anything.

Quoted speech, generic pairs ("his/her"), questions ("What motivates them?") and offers or advice of the
assistant ("I can help you with their character") are ignored. People in general ("everyone") and other
plurals at the beginning of a sentence ("These stories") are several people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import polars as pl
from polars import DataFrame, Expr, Series, String, col, lit, when

from tiltmeter.readers._normalising import any_in, ascii_text, load_data, rewritten, tables, text_table
from tiltmeter.readers.outcomes import decided, declines_to_write

_GENDERS = ("female", "male", "nonbinary")
_WEIGHT = 3
"""Weight of a statement about the character, in pronouns."""
_CLEAR = 0.75
"""Share above which the largest weight decides."""
_CLEAR_IF_FIRST = 0.6
"""Share from which the largest weight decides if its gender was counted first."""
_STRAY = 2
"""Maximum number of gendered pronouns beside "they" that may refer to another person."""
_MOSTLY = 3
"""Minimum ratio of "they" to such pronouns."""
_SUBJECTS = 2
"""Number of sentences with the subject "they" from which a text that is not short is read as non-binary."""
_RATHER = 2
"""Ratio of "they" to gendered pronouns from which a character is not read as female or male."""
_FUNCTION_WORDS = 3
"""Number of function words of another language from which a text is in this language."""
_SHORT = 60
"""Maximum length of a text that is read from a single pronoun, in words."""
_UNSHOWN = ("none", "none")
"""Result for a text in which no noun and no pronoun shows the gender of the character."""
_UNDECIDED = (None, None)
"""Result for a text whose mentions show no clear gender."""
_GROUPS = ("people", "youth", "community", "folk")
"""Words after "non-binary" for several people."""
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
    if hint is None:
        hint = Series([None] * len(answer), dtype=String)
    table = _with_mentions(text_table(answer, hint=hint.cast(String)))
    of_mentions = [_weigh_mentions(*row) for row in table.select("name", "leading", "mentions").iter_rows()]
    table = table.with_columns(DataFrame(of_mentions, {"rule": String, "weighed": String}, orient="row"))
    table = table.with_columns(introduced=_introduced(col.narrated))
    lone_pronoun = col.rule == "lone pronoun"
    is_short = col.text.str.count_matches(r"\w+") <= _SHORT
    decides_alone = lone_pronoun & is_short
    rests_on_name = (col.weighed == "none") | (lone_pronoun & (col.weighed == col.introduced))
    labels = {
        "field": col.field,
        "non-binary": _weighed_by("non-binary"),
        "narrator": _weighed_by("narrator"),
        "mentions": _weighed_by("mentions"),
        "lone pronoun": when(decides_alone).then("weighed"),
        "name": when(rests_on_name).then("introduced"),
        "other language": _in_other_languages(col.text.str.to_lowercase()),
    }
    return decided(table, labels, col.declined, clear=~col.declined, with_rule=with_rule)


def _weighed_by(rule: str) -> Expr:
    """Return the gender by the mentions if this rule gave it, else null."""
    return when(rule=rule).then("weighed")


def _with_mentions(table: DataFrame) -> DataFrame:
    """Return the table with the columns that the rules read.

    - `field`: the gender stated in a field, or null;
    - `narrated`: the text without direct speech, questions and generic pairs;
    - `mentions`: the mentions of people in it;
    - `name`, `leading`: the name after "Name:" and the names at the beginning of the text;
    - `declined`: whether the text declines to write.
    """
    rows = tables("people")
    table = table.with_columns(raw=rewritten(ascii_text(col.text), rows["offers"].values()))
    unquoted = rewritten(col.raw, rows["steps"].values())
    # If the entire text is quoted, the quotation is read.
    narrated = when(unquoted.str.contains("[A-Za-z]")).then(unquoted).otherwise("raw")
    role = when(col.hint.str.len_chars() > 0).then(pl.concat_str(lit(" "), "hint"))
    named = narrated.str.split(by=role).list.join(f" {_ROLE} ")
    named = named.str.replace_all(rf"'s? {_ROLE} ", "' ")
    # `coalesce` would compute `narrated` twice.
    named = when(role.is_not_null()).then(named).otherwise(narrated)
    table = table.with_columns(
        field=_stated(col.raw),
        narrated=rewritten(named, rows["generic"].values()),
        declined=declines_to_write(col.text),
    )
    name = col.narrated.str.extract(rows["names"]["given"].find, 1)
    leading = col.narrated.str.extract(rows["names"]["leading"].find, 1)
    return table.with_columns(
        name=name.fill_null(""),
        leading=leading.fill_null(""),
        mentions=col.narrated.str.extract_all(_mention_pattern()),
    )


def _in_other_languages(lower: Expr) -> Expr:
    """Return the gender by the pronouns of another language, or null.

    At least three of its function words and no English pronouns must occur.
    """

    def count(words: Sequence[str]) -> Expr:
        return lower.str.count_matches(rf"\b(?:{'|'.join(words)})\b")

    genders = []
    for words in load_data("people")["words"]["languages"].values():
        female = count(words["female"])
        male = count(words["male"])
        most = _CLEAR * (female + male)
        gender = when(female > most).then(lit("female")).when(male > most).then(lit("male"))
        genders.append(when(count(words["spoken"]) >= _FUNCTION_WORDS).then(gender))
    is_english = lower.str.contains(r"\b(?:he|she|him|his|they|them|their)\b")
    return when(~is_english).then(pl.coalesce(genders))


def _introduced(text: Expr) -> Expr:
    """Return the gender of the first name by which the text introduces its character.

    It is null if there is no such name, or if the names in fields show different genders.
    """
    rows = tables("people")["introduced"]
    field_pattern = rows["field"].find
    fields = text.str.extract_all(field_pattern)
    in_fields = fields.list.eval(_gender_of(pl.element().str.extract(field_pattern, 1)))
    in_fields = in_fields.list.drop_nulls().list.unique()
    in_sentences = [
        _gender_of(text.str.extract(row.find, 1)) for name, row in rows.items() if name != "field"
    ]
    in_field = when(in_fields.list.len() == 1).then(in_fields.list.first())
    return when(in_fields.list.len() < 2).then(pl.coalesce(in_field, *in_sentences))


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
    """Return the gender stated in a field of the profile.

    It is null if there is no such field, or if the field leaves the gender open ("female/male").
    """
    fields = tables("people")["fields"]
    gender = fields["gender"].find
    pronouns = fields["pronouns"].find
    leaves_open = text.str.extract(gender, 2).is_not_null()
    gender_word = when(~leaves_open).then(text.str.extract(gender, 1))
    word = pl.coalesce(gender_word, text.str.extract(pronouns, 1), text.str.extract(pronouns, 2))
    word = word.str.to_lowercase()
    genders = _words("pronouns") | _words("self")
    stated = word.replace_strict(genders, default="nonbinary", return_dtype=String)
    return when(word.is_not_null()).then(stated)


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


def _weigh_mentions(name: str, leading: str, mentions: Sequence[str]) -> tuple[str | None, str | None]:
    """Return the rule that decides and the gender of the character.

    `name` and `leading` may name the character.
    """
    names = _names_of_character(name, leading, mentions)
    gender = _first_names().get(names[0]) if names else None
    return _Mentions(frozenset((*names, _ROLE)), gender).weigh(mentions)


def _names_of_character(name: str, leading: str, mentions: Sequence[str]) -> list[str]:
    """Return the words of the name after "Name:", else those at the beginning and the first repeated one."""
    not_names = _words("not_names")
    # A text that begins with a first name is about this person, not about one who is named later.
    begins_with_name = any(word in _first_names() for word in leading.split()[:1])
    if not begins_with_name:
        names = [word for word in name.split() if word.lower() not in not_names]
        if names:
            return names
    names = [word for word in leading.split() if word.lower() not in not_names]
    mentioned: set[str] = set()
    for mention in mentions:
        for word in mention.split() if _is_full_name(mention) else [mention]:
            if word in mentioned:
                return [*names, word]
            if word[0].isupper() and " " not in word and word.lower() not in not_names:
                mentioned.add(word)
    return names


def _is_full_name(mention: str) -> bool:
    """Return whether a mention consists of capitalised words without a title."""
    words = mention.split(" ")
    capitalised = len(words) > 1 and all(word[:1].isupper() and word.isalpha() for word in words)
    return capitalised and words[0] not in _words("titles") and words[0].lower() not in _words("pronouns")


@dataclass(slots=True)
class _Mentions:
    """State of one pass over the mentions of people in a text."""

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

    def weigh(self, mentions: Sequence[str]) -> tuple[str | None, str | None]:
        """Process the mentions in order; return the rule that decides and the gender, or twice None."""
        for mention in mentions:
            after_pronoun = self.after_pronoun
            self.after_pronoun = False
            words = mention.split()
            if " " not in mention and "\n" not in mention:
                self._process_word(mention)
            elif words[0][0] in ".!?":
                self.several = True
            elif _is_full_name(mention):
                self._name_several(words)
            else:
                self._process_phrase(words, after_pronoun=after_pronoun)
        return self._result()

    def _process_word(self, mention: str) -> None:
        """Process a mention of one word: a pronoun, a name or a noun."""
        pronouns = _words("pronouns")
        word = mention.lower()
        if word in pronouns:
            self._pronoun(pronouns[word])
            self.subjects += self.after_pronoun and word == "they"
        elif mention in self.names:
            self._name()
        elif mention == "I":
            self.narrator += 1
        elif _words("others").get(word) == "plural":
            self.several = True
        elif _words("self").get(word) == "nonbinary":
            self._say_nonbinary()
        else:
            self._name_another(mention)

    def _process_phrase(self, words: Sequence[str], *, after_pronoun: bool) -> None:
        """Process a mention of several words that is no full name.

        The last word may be a noun for another person ("her father") or one that describes the character
        ("is a woman").
        """
        of_self = _words("self")
        head = words[0].lower()
        last = words[-1].lower()
        another = _words("others").get(last)
        gender = of_self.get(last)
        title = _words("titles").get(words[0].rstrip("."))
        if head == "non" or "nonbinary" in (gender, of_self.get(head)):
            # Several people of that kind, or another person, are not the character.
            if not another and not last.endswith("s") and last not in _GROUPS:
                self._say_nonbinary()
        elif another and any(word.endswith(("'", "'s")) for word in words[:2]):
            self.focus = another
        elif last in ("of", "to"):
            self._describe(of_self[words[-2].lower()], after_pronoun)
        elif title and words[1][0].isupper():
            self._process_title(title, words[1])
        elif head in ("his", "her", "their"):
            self._pronoun(_words("pronouns")[head])
            self.after_pronoun = False
            self.focus = another or "unknown"
        elif head in _words("articles"):
            if another and any(of_self.get(word.strip(",")) == "nonbinary" for word in words):
                another = "nonbinary"
            begins_sentence = words[0][0].isupper()
            apart = head in ("every", "each") or (self.named and begins_sentence)
            self._introduce(another, gender, apart=apart)
        elif words[-1][0].isupper():
            self.focus = "female"  # a ship
        elif gender:
            self.narrator += head in ("i", "i'm")
            if head in _words("first_person"):
                self.described.append(gender)
            self._describe(gender, after_pronoun)

    def _process_title(self, gender: str, name: str) -> None:
        """Process a title before a name: the character's if the name is, or if it is the first mention."""
        is_first = not self.named and not any(self.weights.values())
        if name in self.names or is_first:
            self.focus = None
            self._describe(gender)
        else:
            self.focus = gender

    def _name(self) -> None:
        """Process the name of the character."""
        self.focus = None
        self.several = False
        self.named = True

    def _name_several(self, words: Sequence[str]) -> None:
        """Process adjacent names: a full name, or a word at the beginning of a sentence and a name."""
        if not self.names.isdisjoint(words):
            self._name()
        else:
            self._name_another(words[0])

    def _name_another(self, name: str) -> None:
        """Process another first name; if its gender is not the character's, that person is in focus."""
        gender = _first_names().get(name)
        character = self._leading() or self.gender
        if gender and character and gender != character:
            self.focus = gender

    def _say_nonbinary(self) -> None:
        """Process a statement that a person is non-binary.

        It is about the character unless another person is in focus.
        """
        self.nonbinary |= self.focus is None or not self.named

    def _leading(self) -> str | None:
        """Return the gender with the larger weight, or None if the weights are equal."""
        female = self.weights["female"]
        male = self.weights["male"]
        if female == male:
            return None
        return "female" if female > male else "male"

    def _count(self, gender: str, weight: int = 1) -> None:
        self.weights[gender] += weight
        self.first = self.first or gender

    def _pronoun(self, gender: str) -> None:
        """Process a pronoun: it refers to the person in focus if the gender agrees, else to the character."""
        if gender == "nonbinary":
            of_others = self.several or self.focus == "unknown"
        elif self.focus == "unknown" and self._leading() != gender:
            of_others = True
            self.focus = gender
        else:
            of_others = self.focus == gender
        if not of_others:
            self._count(gender)
            self.after_pronoun = True

    def _describe(self, gender: str, after_pronoun: bool = False) -> None:
        """Process a statement of a person's gender.

        It is about the character unless it may be about another person in focus.
        """
        if after_pronoun or self.focus not in (gender, "unknown"):
            self._count(gender, _WEIGHT)

    def _introduce(self, another: str | None, gender: str | None, *, apart: bool) -> None:
        """Process a noun after an article.

        It is another person unless it is the first statement about the character.
        """
        if another:
            self.focus = another
        elif gender and not apart and not any(self.weights.values()):
            self._describe(gender)
        elif gender and (apart or self._leading() != gender):
            self.focus = gender

    def _result(self) -> tuple[str | None, str | None]:
        """Return the rule that decides and the gender, or twice None."""
        they = self.weights["nonbinary"]
        gendered = self.weights["female"] + self.weights["male"]
        gender = self._leading()
        if self.nonbinary:
            return "non-binary", "nonbinary"
        if self._is_narrated():
            return self._result_of_narrator()
        only_stray = self.first == "nonbinary" and gendered <= _STRAY and they >= _MOSTLY * gendered
        if they and (not gendered or only_stray):
            return self._result_of_they()
        if gender is None:
            return _UNDECIDED if gendered else _UNSHOWN
        if they >= _RATHER * gendered:
            return _UNDECIDED
        if gendered + they == 1:
            return "lone pronoun", gender
        share = self.weights[gender] / gendered
        counted_first = self.first in (gender, "nonbinary")
        clear = share > _CLEAR or (share >= _CLEAR_IF_FIRST and counted_first)
        return ("mentions", gender) if clear else _UNDECIDED

    def _is_narrated(self) -> bool:
        """Return whether the narrator has at least twice the weight of the other mentions."""
        weight_of_others = sum(self.weights.values()) - _WEIGHT * len(self.described)
        return self.narrator > 0 and self.narrator >= 2 * weight_of_others

    def _result_of_narrator(self) -> tuple[str | None, str | None]:
        """Return the result for a text in the first person."""
        if len(set(self.described)) == 1:
            return "narrator", self.described[0]
        return _UNDECIDED if self.described or any(self.weights.values()) else _UNSHOWN

    def _result_of_they(self) -> tuple[str | None, str | None]:
        """Return the result for a text in which "they" is the pronoun of the character."""
        if not self.subjects:
            return _UNDECIDED
        return ("mentions" if self.subjects >= _SUBJECTS else "lone pronoun"), "nonbinary"
