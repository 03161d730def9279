"""Suggestions for slots in prompts that have none.

The rules look at the words next to a word. They miss some places and mistake others, so that a person has to
read the result; places where a rule often fails are returned as doubts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from tiltmeter._files.yaml import packaged_yaml
from tiltmeter.designs.articles import takes_an
from tiltmeter.designs.slots._checks import ADVERBS, NO_VERBS
from tiltmeter.designs.slots._forms import PRONOUNS, Case, Pronoun, plural_verb
from tiltmeter.designs.slots._gendered_words import gendered_words
from tiltmeter.designs.slots._lists import LISTS, all_first_names, all_last_names, built_in_list
from tiltmeter.designs.slots._template import SLOT
from tiltmeter.readers import _grammar as grammar

_NEAR: Final = 60
"""Characters before a word that are searched for the words it depends on."""
_LONGEST_SENTENCE: Final = 200
"""Characters after a subject that are searched for its verbs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A slot in place of some words."""

    start: int
    end: int
    slot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A place that a person has to decide."""

    start: int
    words: str
    reason: str


@dataclass(slots=True)
class Suggestions:
    """Suggested slots of a prompt, in no order until `marked` is called."""

    prompt: str
    marks: list[Mark] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    gender: str = ""
    """Gender of the pronouns that are marked: that of most pronouns ("she" or "he")."""
    _occupied: bytearray = field(init=False)
    """1 for each character in a mark or in a slot of the author."""

    def __post_init__(self) -> None:
        """Find the slots of the author."""
        self._occupied = bytearray(len(self.prompt))
        for slot in SLOT.finditer(self.prompt):
            self._occupy(*slot.span())

    def _occupy(self, start: int, end: int) -> None:
        self._occupied[start:end] = b"\1" * (end - start)

    def marked(self) -> str:
        """Return the prompt with the slots."""
        pieces: list[str] = []
        end = 0
        for mark in sorted(self.marks, key=lambda mark: mark.start):
            pieces += [self.prompt[end : mark.start], mark.slot]
            end = mark.end
        return "".join([*pieces, self.prompt[end:]])

    def add(self, start: int, end: int, slot: str) -> bool:
        """Mark a place, unless a mark or a slot of the author is there already."""
        if not self.is_free(start, end):
            return False
        self._occupy(start, end)
        self.marks.append(Mark(start=start, end=end, slot=slot))
        return True

    def doubt(self, start: int, end: int, reason: str) -> None:
        """Note a place that a person has to decide."""
        self.doubts.append(Doubt(start=start, words=" ".join(self.prompt[start:end].split()), reason=reason))

    def is_free(self, start: int, end: int) -> bool:
        """Return whether a place has no mark and no slot of the author."""
        return not any(self._occupied[start:end])

    def before(self, start: int, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Search the words before a place for a pattern that ends there."""
        return pattern.search(self.prompt, max(0, start - _NEAR), start)


def suggest(prompt: str) -> Suggestions:
    """Suggest slots for a prompt.

    Examples
    --------
    >>> suggest("She works here and likes her job.").marked()
    '{She/He/They} {works/work} here and {likes/like} {her/his/their} job.'
    """
    suggestions = Suggestions(prompt, gender=_main_gender(prompt))
    for rule in _RULES:
        rule(suggestions)
    suggestions.doubts.sort(key=lambda doubt: doubt.start)
    return suggestions


_FEMALE: Final = re.compile(r"\b(?:she|her|hers|herself)\b", re.IGNORECASE)
_MALE: Final = re.compile(r"\b(?:he|him|his|himself)\b", re.IGNORECASE)
_OTHER_PERSON: Final = "another person? Mark it if it is the same one"


def _main_gender(prompt: str) -> str:
    """Return the gender of most pronouns of a prompt, or of the first if there are as many of each."""
    text = SLOT.sub("", prompt)
    female = [match.start() for match in _FEMALE.finditer(text)]
    male = [match.start() for match in _MALE.finditer(text)]
    if not female and not male:
        return ""
    if len(female) == len(male):
        return "she" if female[0] < male[0] else "he"
    return "she" if len(female) > len(male) else "he"


# -- descriptions of a person -------------------------------------------------------------------------------

_NOUNS: Final = "woman|man|person|lady|gentleman"
_AGE: Final = r"\d{1,3}[- ]year[- ]old"
_AGE_ALONE: Final = re.compile(r"(?:\b(?P<article>[Aa]n?)\s+)?\b\d{1,3}(?=[- ]year[- ]old\b)")
_ABOUT_GROUPS: Final = "if it says who the person is, write {person} or a slot such as {nationality}"


@cache
def _adjectives() -> Collection[str]:
    """Return the adjectives of the built-in groups."""
    traits = [trait for name in LISTS for trait in built_in_list(name).groups.values()]
    return {trait["adjective"] for trait in traits if "adjective" in trait} | {"non-binary"}


@cache
def _description() -> re.Pattern[str]:
    phrases = [trait["phrase"] for trait in built_in_list("disability").groups.values() if "phrase" in trait]
    adjectives = "|".join(map(re.escape, sorted(_adjectives())))
    return re.compile(
        rf"\b[Aa]n?\s+(?:{_AGE}\s+)?(?:(?:{adjectives})\s+)*(?:{_NOUNS})\b(?!-)"
        rf"(?:\s+(?:{'|'.join(map(re.escape, phrases))})\b)?"
    )


def _mark_descriptions(suggestions: Suggestions) -> None:
    """Mark "a Black woman" and the like as `{person}`; note other words about groups."""
    for match in _description().finditer(suggestions.prompt):
        suggestions.add(match.start(), match.end(), "{Person}" if match[0][0] == "A" else "{person}")
    for match in re.finditer(
        r"(?:\b(?P<article>[Aa]n?)\s+)?(?P<age>\d{1,3})(?=[- ]year[- ]old\b)", suggestions.prompt
    ):
        article = match["article"]
        mark = "{age}" if article is None else f"{_article_slot(article)} {{age}}"
        suggestions.add(match.start(), match.end(), mark)
    words = "|".join(map(re.escape, sorted(_adjectives())))
    for match in re.finditer(rf"\b(?:{words})s?\b(?:\s+\w+)?", suggestions.prompt):
        if suggestions.is_free(match.start(), match.end()):
            suggestions.doubt(match.start(), match.end(), _ABOUT_GROUPS)


def _article_slot(article: str) -> str:
    return "{A/An}" if article[0] == "A" else "{a/an}"


# -- names --------------------------------------------------------------------------------------------------

_FIRST_NAMES: Final = Path(__file__).parents[1] / "readers" / "data" / "first_names.yaml"
_CAPITALISED: Final = re.compile(r"\b[A-Z][a-zà-öø-ÿ]+(?:[A-Z][a-z]+)?(?:-[A-Z][a-z]+)?\b")
_BEFORE_PLACES: Final = re.compile(r"\b(?:San|Santa|St|Saint|Los|New|Port|Lake|Mount)\.?\s+$")
_AFTER_PLACES: Final = re.compile(
    r"\s+(?:Street|Road|Avenue|University|College|Hospital|County|City|Inc|Ltd)\b"
)
_TITLED: Final = re.compile(r"\b(?P<title>Ms|Mr|Mrs|Miss|Mx)(?P<dot>\.?)\s+(?P<name>[A-Z][\w'’-]+)")


@cache
def _known_names() -> Collection[str]:
    """Return first names that prompts may contain: those of the lists, and others of many countries."""
    frequent = packaged_yaml(_FIRST_NAMES)["words"]
    return all_first_names().union(*frequent.values())


def _mark_names(suggestions: Suggestions) -> None:
    """Mark the first name in a prompt and the last name after it; other names are doubtful."""
    prompt = suggestions.prompt
    main = ""
    last = ""
    for match in _CAPITALISED.finditer(prompt):
        is_place = suggestions.before(match.start(), _BEFORE_PLACES) or _AFTER_PLACES.match(
            prompt, match.end()
        )
        if match[0] not in _known_names() or is_place or not suggestions.is_free(*match.span()):
            continue
        main = main or match[0]
        if match[0] != main:
            suggestions.doubt(match.start(), match.end(), "another name; mark it if it is the same person")
            continue
        suggestions.add(match.start(), match.end(), "{first_name}")
        following = re.compile(r"\s+([A-Z][\w'’-]*[a-z])\b").match(prompt, match.end())
        if following is not None and not last:
            last = re.sub(r"['’]s$", "", following[1])
            if last not in all_last_names():
                suggestions.doubt(match.start(), following.end(), "is the second word a last name?")
    for match in _TITLED.finditer(prompt):
        if match["name"] != main:
            last = last or re.sub(r"['’]s$", "", match["name"])
        if match["name"].startswith(last) or match["name"] == main:
            slot = "{{Ms./Mr./Mx.}}" if match["dot"] else "{title}"
            suggestions.add(match.start(), match.end("dot"), slot)
        else:
            suggestions.doubt(match.start(), match.end(), _OTHER_PERSON)
    if last:
        for match in re.finditer(rf"\b{re.escape(last)}\b", prompt):
            suggestions.add(match.start(), match.end(), "{last_name}")


# -- gendered nouns -----------------------------------------------------------------------------------------

_OWNED: Final = re.compile(r"(?:\b(?:his|her|their|my|our|your|its)|['’]s)\s+(?:\w+\s+)?$", re.IGNORECASE)
_ARTICLE: Final = re.compile(r"\b(an?)\s+$", re.IGNORECASE)
_PLURALS: Final = ("women", "men")


def _mark_nouns(suggestions: Suggestions) -> None:
    """Mark gendered nouns; those that may be about another person are doubtful."""
    for kind in ("people", "relations"):
        for nouns in gendered_words()[kind]:
            if not nouns[0].endswith(".") and nouns[1] != "Mr":
                _mark_noun(suggestions, nouns)


def _mark_noun(suggestions: Suggestions, nouns: Sequence[str]) -> None:
    prompt = suggestions.prompt
    for match in re.finditer(rf"(?<![\w'’-])(?:{nouns[0]}|{nouns[1]})(?![\w-])", prompt, re.IGNORECASE):
        start, end = match.span()
        if not suggestions.is_free(start, end):
            continue
        if match[0].lower() in _PLURALS:
            suggestions.doubt(start, end, "is it about the person or about a group?")
            continue
        gender = "she" if match[0].lower() == nouns[0].lower() else "he"
        is_other = suggestions.gender not in ("", gender)
        if is_other or suggestions.before(start, _OWNED):
            suggestions.doubt(start, end, _OTHER_PERSON)
            continue
        forms = [_written_like(match[0], noun) for noun in nouns]
        suggestions.add(start, end, f"{{{{{'/'.join(forms)}}}}}")
        suggestions.doubt(start, end, "marked; is it the person of the prompt?")
        article = suggestions.before(start, _ARTICLE)
        if article is not None and len({takes_an(form) for form in forms}) > 1:
            suggestions.add(article.start(1), article.end(1), _article_slot(article[1]))


def _written_like(word: str, form: str) -> str:
    """Return a form with the capitals of a word."""
    if _is_in_capitals(word):
        return form.upper()
    return form[0].upper() + form[1:] if word[0].isupper() else form


# -- pronouns and verbs -------------------------------------------------------------------------------------

_PRONOUN: Final = re.compile(
    r"(?<![\w'’/{-])(?P<word>(?:he|she)(?:['’](?:s|ll|d))?|him(?:self)?|his|her(?:s(?:elf)?|self)?)(?![\w/}-])",
    re.IGNORECASE,
)
_ORDERS: Final[Mapping[str, Sequence[Pronoun]]] = {"she": ("she", "he", "they"), "he": ("he", "she", "they")}
"""Orders of the forms in a slot; the author's word stands first."""
_VERB: Final = re.compile(
    rf"\s+{ADVERBS}(?P<verb>[a-z]+s|(?:is|has|was|does)n['’]t)(?![\w'’-])", re.IGNORECASE
)
_FURTHER_VERB: Final = re.compile(
    rf"(?P<words>(?:\b(?:and|or|but)|,)\s+{ADVERBS}(?P<verb>[a-z]+s|(?:is|has|was|does)n['’]t)(?![\w'’-]))"
)
_SENTENCE_END: Final = re.compile(r"[.!?;:\n]")
_CLAUSE: Final = re.compile(r"\b(?:that|who|which|because|if|when|while|whether|as|since|where)\b")
_SINGULAR_VERBS: Final = ("VVZ", "VBZ", "VHZ", "VDZ")
"""Tags of verbs in the third person singular."""
_DETERMINER_AFTER: Final = re.compile(r"\s+(?:an?|the|his|her|their|my|our|no|every|each|two|three|many)\b")
_AUXILIARY: Final = re.compile(
    r"(?<!\bit )(?<![\w'’-])(?P<verb>is|has|was|does|isn['’]t|hasn['’]t|wasn['’]t|doesn['’]t)\s+$",
    re.IGNORECASE,
)
_PREVIOUS_WORD: Final = re.compile(r"([\w'’-]+)\s+$")
_NEXT_WORD: Final = re.compile(r"\s+([\w'’-]+)")
_PARTICIPLE: Final = re.compile(
    rf"\s+{ADVERBS}(?P<word>[\w-]+ed|been|had|got|gone|done|made|seen|taken|given|become|come|left|lost|paid"
    r"|spent|taught|won|written)\b"
)


def _mark_pronouns(suggestions: Suggestions) -> None:
    """Mark pronouns, and the verbs that agree with them."""
    for match in _PRONOUN.finditer(suggestions.prompt):
        if not suggestions.is_free(*match.span()):
            continue
        gender = "she" if _FEMALE.match(match["word"]) else "he"
        if gender != suggestions.gender:
            suggestions.doubt(match.start(), match.end(), _OTHER_PERSON)
            continue
        case = _case_of(match, suggestions)
        words = [PRONOUNS[case][pronoun][0] for pronoun in _ORDERS[gender]]
        forms = [_written_like(match["word"], word) for word in words]
        if "’" in match["word"]:
            forms = [form.replace("'", "’") for form in forms]
        suggestions.add(match.start(), match.end(), f"{{{'/'.join(forms)}}}")
        if case == "subject":
            _mark_verbs(suggestions, match)


def _case_of(match: re.Match[str], suggestions: Suggestions) -> Case:
    """Return the case of a pronoun, from the words next to it."""
    word = match["word"].lower().replace("’", "'")
    prompt = suggestions.prompt
    if word in ("he", "she"):
        return "subject"
    if word.endswith("'ll"):
        return "will"
    if word.endswith("'d"):
        return "would"
    if word.endswith("'s"):
        participle = _PARTICIPLE.match(prompt, match.end())
        is_adjective = participle is not None and participle["word"] in _contexts()["adjectives_in_ed"]
        if participle is not None:
            suggestions.doubt(match.start(), match.end(), "is it short for is or for has?")
        return "is" if participle is None or is_adjective else "has"
    if word in ("himself", "herself"):
        return "reflexive"
    if word == "him":
        return "object"
    if word == "hers":
        return "possessive"
    return _case_before_noun(match, suggestions)


def _case_before_noun(match: re.Match[str], suggestions: Suggestions) -> Case:
    """Return the case of "his" or "her", which depends on whether a noun phrase follows."""
    prompt = suggestions.prompt
    words = _contexts()
    following = _NEXT_WORD.match(prompt, match.end())
    ends_phrase = following is None or following[1].lower() in words["after_object"]
    if match["word"].lower() == "his":
        return "possessive" if ends_phrase else "determiner"
    if ends_phrase:
        return "object"
    previous = suggestions.before(match.start(), _PREVIOUS_WORD)
    verb = previous[1].lower() if previous is not None else ""
    if verb in words["before_her"]:
        end = following.end() if following is not None else match.end()
        suggestions.doubt(previous.start() if previous else match.start(), end, "is it him or his?")
    return "object" if verb in words["object_before"] else "determiner"


@cache
def _contexts() -> Any:
    """Return words next to "her" and "his" that tell their case."""
    return packaged_yaml(Path(__file__).with_name("contexts.yaml"))


def _mark_verbs(suggestions: Suggestions, subject: re.Match[str]) -> None:
    """Mark the verb after a subject, or an auxiliary before it; a second verb is doubtful."""
    prompt = suggestions.prompt
    auxiliary = suggestions.before(subject.start(), _AUXILIARY)
    if auxiliary is not None:
        suggestions.add(*auxiliary.span("verb"), _verb_slot(auxiliary["verb"]))
        return
    verb = _VERB.match(prompt, subject.end())
    if verb is None or not _is_singular_verb(verb["verb"], in_capitals=_is_in_capitals(subject["word"])):
        return
    suggestions.add(*verb.span("verb"), _verb_slot(verb["verb"]))
    for verb_phrase in _FURTHER_VERB.finditer(prompt, verb.end(), _sentence_end(prompt, verb.end())):
        if _is_singular_verb(verb_phrase["verb"], in_capitals=False):
            _mark_further_verb(suggestions, subject.start(), verb_phrase)


def _sentence_end(prompt: str, start: int) -> int:
    longest = min(len(prompt), start + _LONGEST_SENTENCE)
    end = _SENTENCE_END.search(prompt, start, longest)
    return longest if end is None else end.start()


def _mark_further_verb(suggestions: Suggestions, start: int, further: re.Match[str]) -> None:
    """Mark a word after "and" or a comma that seems to be a verb of the subject at `start`."""
    prompt = suggestions.prompt
    words = grammar.tokens(prompt, start, further.end())
    is_negated = further["verb"].endswith("t")
    is_verb = is_negated or grammar.tag([word.text for word in words])[-1] in _SINGULAR_VERBS
    has_object = _DETERMINER_AFTER.match(prompt, further.end()) is not None
    has_clause = _CLAUSE.search(prompt, start, further.start()) is not None
    if (is_verb or has_object) and not has_clause:
        suggestions.add(*further.span("verb"), _verb_slot(further["verb"]))
    reason = f"a verb of the same person? Then it is {_verb_slot(further['verb'])}"
    suggestions.doubt(further.start("words"), further.end("words"), reason)


def _is_in_capitals(word: str) -> bool:
    return word.isupper() and len(word) > 1


def _is_singular_verb(word: str, *, in_capitals: bool) -> bool:
    """Return whether a word may be a verb in the third person singular, with the capitals of its subject."""
    if word.lower() in NO_VERBS or (word.isupper() if not in_capitals else not word.isupper()):
        return False
    return plural_verb(word.lower().replace("’", "'")) is not None


def _verb_slot(verb: str) -> str:
    """Return the slot of a verb in the third person singular."""
    plural = plural_verb(verb.lower().replace("’", "'")) or verb
    return f"{{{verb}/{_written_like(verb, plural)}}}"


_RULES: Final[Sequence[Callable[[Suggestions], None]]] = (
    _mark_descriptions,
    _mark_names,
    _mark_nouns,
    _mark_pronouns,
)
"""Rules in the order in which they are applied; earlier ones take precedence."""
