"""Texts of the simulated model: answers in words, refusals, unreadable answers, and the answers of a judge.

The templates and sentences are in `answer_texts.yaml`. All randomness comes from `Draws`.
"""

from __future__ import annotations

import json
import re
import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import count, product
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeGuard, TypeVar

from tiltmeter._files.yaml import packaged_yaml
from tiltmeter.models._json_replies import json_values

T = TypeVar("T")

TONES: Final = ("positive", "neutral", "negative")
"""Outcomes of an answer in a tone."""

LETTER_WORDS: Final = 12
"""Number of words drawn for one letter, with replacement; its text contains all of them."""

_CLOSED_FORMS: Mapping[str, frozenset[str]] = {
    "word": frozenset(("yes", "no")),
    "profile": frozenset(("female", "male", "nonbinary")),
    "choice": frozenset("abcde"),
    "decision": frozenset(("accept", "reject")),
    "tone": frozenset(TONES),
}


class Draws:
    """A stream of random numbers determined by `key`: block i of the stream is the hash of the key and i.

    The same key gives the same draws on every machine and Python version, which `random` does not guarantee
    for `shuffle`.

    Parameters
    ----------
    key
        Bytes of any length, for instance the hash of a prompt.
    """

    def __init__(self, key: bytes) -> None:
        self._words = _words_of(key)

    def below(self, n: int) -> int:
        """Return an integer in 0 .. n - 1; the multiply-and-shift bias is below n / 2**32."""
        return (next(self._words) * n) >> 32

    def unit(self) -> float:
        """Return a number in [0, 1), in steps of 2**-32."""
        return self.below(2**32) * 2.0**-32

    def pick(self, choices: Sequence[T]) -> T:
        """Return one of the choices, with equal probability."""
        return choices[self.below(len(choices))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in random order (Fisher-Yates)."""
        mixed = list(items)
        for i in range(len(mixed) - 1, 0, -1):
            j = self.below(i + 1)
            mixed[i], mixed[j] = mixed[j], mixed[i]
        return mixed


def _words_of(key: bytes) -> Iterator[int]:
    """Yield 32-bit numbers indefinitely."""
    for block in count():
        yield from struct.unpack("<16I", blake2b(key + block.to_bytes(4, "little")).digest())


class AnswerPlan(NamedTuple):
    """The plan for answers to one prompt about one subject."""

    form: str
    outcomes: tuple[str, ...]
    odds: tuple[float, ...]
    """Probability of each outcome in a story; cumulative probabilities in any other form."""
    about: str | None = None
    place: str | None = None

    def draw(self, draws: Draws) -> str:
        """Return one outcome, drawn with the cumulative odds."""
        at = bisect_right(self.odds, draws.unit() * self.odds[-1])
        return self.outcomes[min(at, len(self.outcomes) - 1)]


def default_form(outcomes: Sequence[str]) -> str:
    """Return the form of answers with these outcomes, for plans without a form.

    Letters form a "choice" of an option, "accept" and "reject" a "decision" in an e-mail, genders the
    pronouns of a "profile", and TONES a "tone". Full names form a "ranking" (the drawn name first, the others
    in random order). More than LETTER_WORDS single words form a "letter", and fewer a "word" each; longer
    texts are used unchanged ("text").
    """
    for form, vocabulary in _CLOSED_FORMS.items():
        if vocabulary.issuperset(outcomes):
            return form
    if all(" " not in outcome for outcome in outcomes):
        return "letter" if len(outcomes) > LETTER_WORDS else "word"
    if len(outcomes) > 1 and all(_is_full_name(outcome) for outcome in outcomes):
        return "ranking"
    return "text"


def _is_full_name(text: str) -> bool:
    return " " in text and all(word[0].isupper() for word in text.split())


def _phrases() -> Any:
    """Return the content of answer_texts.yaml."""
    return packaged_yaml(Path(__file__).with_name("answer_texts.yaml"))


def _template(form: str, verbosity: int, draws: Draws) -> str:
    return str(draws.pick(_phrases()["forms"][form][("terse", "natural", "wordy")[verbosity]]))


def refusal_text(draws: Draws) -> str:
    """Return a refusal."""
    return str(draws.pick(_phrases()["refusals"]))


def answer_text(plans: Sequence[AnswerPlan], verbosity: int, draws: Draws, *, readable: bool = True) -> str:
    """Return an outcome of the plan in words; for a story, text about the characters of all plans.

    Without plans, a neutral answer.
    """
    if not readable:
        return _unreadable_text(plans, draws)
    if not plans:
        return _template("neutral", verbosity, draws)
    plan = plans[0]
    if plan.form == "story":
        return _story_text(plans, verbosity, draws)
    if plan.form == "letter":
        words = [plan.draw(draws) for _ in range(LETTER_WORDS)]
        return _template("letter", verbosity, draws).format(words=_enumeration(words))
    outcome = plan.draw(draws)
    if plan.form in ("tone", "continuation"):
        continues = plan.form == "continuation"
        return draws.pick(tone_texts(plan.about, outcome, continues=continues, verbosity=verbosity))
    if plan.form == "ranking":
        return _ranking_text(outcome, plan.outcomes, verbosity, draws)
    if plan.form == "profile":
        template = _template("profile", verbosity, draws)
        return template.format(name=draws.pick(_phrases()["names"]), **_phrases()["pronouns"][outcome])
    form = outcome if plan.form == "decision" else plan.form
    capitalised = outcome[:1].upper() + outcome[1:]
    return _template(form, verbosity, draws).format(said=outcome, Said=capitalised)


def _unreadable_text(plans: Sequence[AnswerPlan], draws: Draws) -> str:
    """Return an evasive answer, or a mixture of two outcomes, from which no outcome can be parsed."""
    hedges: Mapping[str, Sequence[str]] = _phrases()["unreadable"]
    if not plans or plans[0].form not in hedges or len(plans[0].outcomes) < 2:
        return draws.pick(hedges["any"])
    x, y = draws.shuffled(plans[0].outcomes)[:2]
    return draws.pick(hedges[plans[0].form]).format(x=x, y=y)


def _enumeration(words: Sequence[str]) -> str:
    """Return the words as an enumeration such as "a, b and c"."""
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def _ranking_text(first: str, outcomes: Sequence[str], verbosity: int, draws: Draws) -> str:
    names = [first, *draws.shuffled([name for name in dict.fromkeys(outcomes) if name != first])]
    numbered = [f"{place}. {name}" for place, name in enumerate(names, 1)]
    bold = [f"{place}. **{name}**" for place, name in enumerate(names, 1)]
    return _template("ranking", verbosity, draws).format(
        plain="\n".join(names), numbered="\n".join(numbered), bold="\n".join(bold)
    )


def _story_text(plans: Sequence[AnswerPlan], verbosity: int, draws: Draws) -> str:
    """Return a story of at most ten sentences (two characters, usual odds).

    Single words are traits, several words are actions.
    """
    phrases = _phrases()["story"]
    sentences: list[str] = []
    for plan in plans:
        odds_of_outcomes = zip(plan.outcomes, plan.odds, strict=True)
        outcomes = [outcome for outcome, odds in odds_of_outcomes if draws.unit() < odds]
        traits = [outcome for outcome in outcomes if " " not in outcome]
        actions = [outcome for outcome in outcomes if " " in outcome]
        for kind, concepts in (("trait", traits), ("deed", actions)):
            forms = phrases[kind][:1] if verbosity == 0 else phrases[kind]
            sentences += _sentences_about(plan.about, draws.shuffled(concepts), forms, draws)
    # The order of the draws is part of the answer: template, opening, order of the sentences, ending.
    template = _template("story", verbosity, draws)
    place = f"at the {plans[0].place}" if plans[0].place else "in town"
    opening = draws.pick(phrases["openings"]).format(place=place)
    body = " ".join(draws.shuffled(sentences)) or " ".join(f"{plan.about} was there." for plan in plans)
    return template.format(opening=opening, body=body, ending=draws.pick(phrases["endings"]))


def _sentences_about(
    character: str | None, concepts: Sequence[str], forms: Sequence[str], draws: Draws
) -> list[str]:
    """Return sentences about a character with up to three concepts each."""
    groups = [_enumeration(concepts[start : start + 3]) for start in range(0, len(concepts), 3)]
    return [draws.pick(forms).format(name=character, list=group) for group in groups]


@lru_cache(maxsize=512)
def tone_texts(
    subject: str | None, tone: str, *, continues: bool = False, verbosity: int = 1
) -> tuple[str, ...]:
    """Return all answers in a tone.

    They are equally likely, so the planted odds determine the true mean of any measure exactly.

    Parameters
    ----------
    subject
        The subject of the answer; None: "this topic".
    tone
        One of TONES.
    continues
        Whether the answer continues a given text.
    verbosity
        Value of the dial: 0 for one sentence, 1 for two, 2 for two as a list with additional text.
    """
    tones = _phrases()["tones"]
    about = [sentence.format(subject=subject or tones["no_subject"]) for sentence in tones[tone]["about"]]
    if continues:
        beginnings, ends = tones[tone]["continued"], about
    else:
        beginnings, ends = about, tones[tone]["further"]
    if verbosity == 0:
        return tuple(beginnings)
    form = "{first} {second}" if verbosity == 1 else tones["wordy"]
    return tuple(form.format(first=first, second=second) for first, second in product(beginnings, ends))


# The judge
# ------------------------------------------------------------------------------------------------------------

_QUOTED = re.compile(
    r"^[ \t]*+(?P<fence>={3,}+|~{3,}+|`{3,}+|-{3,}+|\*{3,}+|#{3,}+)[^\n]*\n"
    r"(?P<fenced>.*?)\n[ \t]*+(?P=fence)[ \t]*+$"
    r"|<(?P<tag>\w+)>(?P<tagged>.*?)</(?P=tag)>",
    re.MULTILINE | re.DOTALL,
)
_LISTED = re.compile(r":[ \t]+([^:.;,\n\"]{1,80}(?:,[^:.;,\n\"]{1,80})+)[.;\n]")
_SAID_OF = re.compile(r"^(?:(?:is|was|are|were|often|always|usually)\s+)+|\s+(?:on )?that day$")
_PARTS = re.compile(r",\s+(?:and\s+)?|\s+and\s+")
_SOME_NAME = r"(?!(?:It|The|A|An|On|By|At|In|Rain|Nobody|Anyone)\b)[A-Z][^\W\d_]+"


def judge_text(prompt: str, verbosity: int, draws: Draws, *, readable: bool = True) -> str | None:
    """Return the answer of a judge to a question about characters, or about the identity of a concept.

    The question is recognised by the requested field of the JSON object: "characters" or "identity". None for
    any other prompt.
    """
    if '"characters"' in prompt:
        answer = _characters_answer(prompt)
    elif '"identity"' in prompt and '"reason"' in prompt:
        answer = _identity_answer(prompt)
    else:
        return None
    text = json.dumps(answer, ensure_ascii=False)
    if not readable:
        choices = [_unreadable_text((), draws), text[: len(text) // 2]]
        if len(answer.get("characters", ())) > 1:
            choices.append(json.dumps({"characters": answer["characters"][:1]}, ensure_ascii=False))
        return draws.pick(choices)
    return _template("judge", verbosity, draws).format(json=text)


def _characters_answer(prompt: str) -> dict[str, Any]:
    """Return the concepts of each character, without duplicates.

    They are those of the lists in the question or, if it has a list of names instead, those in the quoted
    story. Instructions inside the story are ignored: only its sentences are read.
    """
    quoted = _QUOTED.search(prompt)
    story = ""
    question = prompt
    if quoted:
        story = quoted["fenced"] or quoted["tagged"] or ""
        question = f"{prompt[: quoted.start()]}\n{prompt[quoted.end() :]}"
    values = list(json_values(question))
    names = next((value for value in values if _is_list_of_texts(value)), None)
    if names:
        concepts_by_name = _concepts_of_each(story, names)
    else:
        characters: list[dict[str, Any]] = next(
            (value["characters"] for value in values if isinstance(value, dict) and "characters" in value), []
        )
        concepts_by_name = {character["name"]: character["concepts"] for character in characters}
    answers = [{"name": name, "concepts": _distinct(concepts)} for name, concepts in concepts_by_name.items()]
    return {"characters": answers}


def _is_list_of_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _distinct(concepts: Sequence[object]) -> list[str]:
    """Return the concepts without empty ones, and without those that differ only in case."""
    spellings: dict[str, str] = {}
    for concept in concepts:
        text = str(concept).strip()
        spellings.setdefault(text.casefold(), text)
    return [text for text in spellings.values() if text]


def _concepts_of_each(story: str, names: Sequence[str]) -> dict[str, list[str]]:
    """Extract concepts by name from sentences such as "NAME is a, b and c." or "On most days, NAME a and b.".

    A pronoun refers to the last name.
    """
    names_by_first = {(name.split(",")[0].split() or [name])[0]: name for name in reversed(names)}
    pattern = "|".join(map(re.escape, names_by_first))
    if len(names) == 1 and not re.search(rf"\b{pattern}\b", story):
        pattern = _SOME_NAME  # a text about one person with an unknown name
    form = re.compile(rf"(?:^|,\s+|\bthat\s+)({pattern})\s+(\S.*)$|^(?:He|She|They)\s+(\S.*)$")
    concepts: dict[str, list[str]] = {name: [] for name in names}
    last: str | None = None
    for sentence in re.findall(r"[^.!?\n]+", story):
        match = form.search(sentence.strip())
        if match and match[1]:
            last = names_by_first.get(match[1], names[0])
        if match is None or last is None:
            continue
        predicate = _SAID_OF.sub("", match[2] or match[3])
        if predicate != "there":
            concepts[last] += filter(None, _PARTS.split(predicate))
    return concepts


def _identity_answer(prompt: str) -> dict[str, Any]:
    """Return the identity whose name is part of the concept of the question.

    The concept is the first quoted text that is not a field of the answer.
    """
    quoted = re.findall(r'"([^"\n]*)"', prompt)
    concept = next((text for text in quoted if text not in ("identity", "reason", "none")), "")
    listed = _LISTED.search(prompt)
    identities = [identity.strip() for identity in listed[1].split(",")] if listed else []
    matching = [identity for identity in identities if identity and _begins_word(identity, concept)]
    if len(matching) == 1:
        return {"identity": matching[0], "reason": f"this is said of {matching[0]} by definition"}
    return {"identity": "none", "reason": "this can be said of any person"}


def _begins_word(beginning: str, text: str) -> bool:
    """Return whether a word of a text begins with these letters, in any case."""
    return re.search(rf"\b{re.escape(beginning)}", text, re.IGNORECASE) is not None
