"""Checks that a marked prompt is grammatical for every group."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tiltmeter.designs.articles import takes_an
from tiltmeter.designs.slots._forms import SUBJECTS, plural_verb
from tiltmeter.designs.slots._lists import NAMES
from tiltmeter.designs.slots._template import FieldSlot, GroupSlot, PronounSlot, Template, VerbSlot
from tiltmeter.errors import InputError

ADVERBS: Final = (
    r"(?:(?:also|always|already|actually|again|almost|currently|ever|even|frequently|generally|hardly|just"
    r"|never|normally|not|now|often|once|only|perhaps|probably|rarely|really|recently|seldom|simply|sometimes"
    r"|soon|still|then|therefore|thus|too|usually|\w+ly)\s+)*+"
)
"""Adverbs between a subject and its verb."""
_VERB_AFTER: Final = re.compile(rf"^\s+{ADVERBS}(?P<verb>[a-z]+s|(?:is|has|was|does)n['’]t)(?![\w'’-])")
_NO_VERBS: Final = (
    "across afterwards always as besides hers his its less nowadays ours overseas perhaps plus regardless"
    " sometimes theirs this thus towards unless upwards us versus whereas yes"
)
NO_VERBS: Final = frozenset(_NO_VERBS.split())
"""Words in -s that are no verbs."""
_PLURAL_AFTER: Final = re.compile(
    rf"^(?:['’](?:re|ve)\b|\s+{ADVERBS}(?:are|aren['’]t|haven['’]t|don['’]t|weren['’]t)(?![\w'’-]))"
)
_CONTRACTION_AFTER: Final = re.compile(r"^['’]s\b")
_VERB_BEFORE: Final = re.compile(r"(?<!\bit )\b(?P<verb>(?:is|has|was|does)(?:n['’]t)?)\s+$", re.I)
_PLURAL_BEFORE: Final = re.compile(
    r"(?:^|[.!?,;:\n]\s*|\b(?:why|how|when|where|what)\s+)(?P<verb>are|do|don['’]t|aren['’]t|have)\s+$", re.I
)
_PREPOSITION_BEFORE: Final = re.compile(r"\b(?:to|with|from|about|of|by|at)\s+$", re.IGNORECASE)
_PUNCTUATION_AFTER: Final = re.compile(r"\s*[.,;:!?)]")
_ARTICLE_BEFORE: Final = re.compile(r"(?<![\w'’-])(?P<article>an?)\s+[\"'“‘(*_]*$", re.IGNORECASE)
_DETERMINER_BEFORE: Final = re.compile(
    r"(?<![\w'’-])(?:an?|the|this|every|each|another|my|your|our)\s+$", re.IGNORECASE
)
_ADJECTIVE_BEFORE: Final = re.compile(r"(?<![\w'’-])an?\s+(?P<adjective>[a-z-]+)\s+$", re.IGNORECASE)
NEAR: Final = 60
"""Characters before a slot that are searched for words that must agree with it."""


def check_template(template: Template, *, uses_they: bool) -> None:
    """Raise InputError if the words around a slot do not agree with some of its forms.

    Parameters
    ----------
    uses_they
        Whether the prompt is also about people whose pronoun is "they".
    """
    for index, slot in enumerate(template.slots):
        before, after = template.before(index)[-NEAR:], template.after(index)
        if isinstance(slot, PronounSlot):
            is_last = slot.end == len(template.prompt.rstrip())
            if slot.case == "determiner" and (is_last or _PUNCTUATION_AFTER.match(after)):
                raise InputError(
                    f"{slot.source} stands before a noun; at the end of a phrase write {{his/hers/theirs}} or"
                    " {him/her/them}"
                )
            if slot.case in SUBJECTS:
                _check_subject(slot, before, after, uses_they=uses_they)
        if isinstance(slot, VerbSlot) and index and not template.before(index).strip():
            subject = template.slots[index - 1]
            if isinstance(subject, FieldSlot) and subject.field in (*NAMES, "person"):
                raise InputError(
                    f"the verb after {subject.source} is singular for every group: write {slot.singular} in"
                    f" place of {slot.source}"
                )


def _check_subject(slot: PronounSlot, before: str, after: str, *, uses_they: bool) -> None:
    """Raise InputError if the words before and after a subject do not agree with some of its forms."""
    if uses_they and _CONTRACTION_AFTER.search(after):
        raise InputError(
            f"{slot.source}'s has no form for they; write {{he's/she's/they're}} (is) or"
            " {he's/she's/they've} (has)"
        )
    if slot.case != "subject":
        return
    if _PREPOSITION_BEFORE.search(before):
        raise InputError(f"{slot.source} follows a preposition; write {{him/her/them}}")
    plural = _PLURAL_AFTER.search(after)
    if plural is not None:
        raise InputError(
            f"'{slot.source}{plural[0]}' does not agree with she and he; mark the verb, such as {{is/are}}"
        )
    plural_before = _PLURAL_BEFORE.search(before)
    if plural_before is not None:
        raise InputError(
            f"'{plural_before['verb']} {slot.source}' does not agree with she and he; mark the verb, such as"
            " {Is/Are}"
        )
    if uses_they:
        _check_verbs(slot, before, after)


def _check_verbs(slot: PronounSlot, before: str, after: str) -> None:
    """Raise InputError if a verb next to a subject does not agree with "they"."""
    verb_before = _VERB_BEFORE.search(before)
    if verb_before is not None:
        verb = verb_before["verb"]
        raise InputError(
            f"'{verb} {slot.source}' does not agree with they; mark the verb: {_marked(verb)} {slot.source}"
        )
    verb_after = _VERB_AFTER.search(after)
    if verb_after is None:
        return
    verb = verb_after["verb"]
    if verb in NO_VERBS or verb.endswith(("ss", "ous")):
        return
    raise InputError(
        f"'{slot.source}{verb_after[0]}' does not agree with they; mark the verb:"
        f" {slot.source} {_marked(verb)}"
    )


def _marked(verb: str) -> str:
    plural = plural_verb(verb.lower().replace("’", "'")) or verb
    return f"{{{verb}/{plural.capitalize() if verb[0].isupper() else plural}}}"


def check_filled(template: Template, contents: Sequence[str]) -> None:
    """Raise InputError if the content of a slot does not fit the text around it."""
    for index, slot in enumerate(template.slots):
        if not isinstance(slot, FieldSlot | GroupSlot):
            continue
        content = contents[index]
        before, after = template.before(index)[-NEAR:], template.after(index)
        has_article = re.match(r"(?:an?|the)\s", content, re.IGNORECASE)
        determiner = _DETERMINER_BEFORE.search(before)
        if has_article and determiner is not None:
            raise InputError(
                f"'{determiner[0]}{slot.source}' becomes '{determiner[0]}{content}'; remove"
                f" '{determiner[0].strip()}' before the slot"
            )
        adjective = _ADJECTIVE_BEFORE.search(before)
        if has_article and adjective is not None:
            raise InputError(
                f"'{adjective[0]}{slot.source}' becomes '{adjective[0]}{content}'; write what you say about"
                f" the person after the slot: {slot.source}, {adjective['adjective']}"
            )
        article = _ARTICLE_BEFORE.search(before)
        if article is not None and content.strip():
            needs_an = takes_an(content.split()[0])
            if needs_an is not None and needs_an != (article["article"].lower() == "an"):
                mark = "{A/An}" if article["article"][0].isupper() else "{a/an}"
                raise InputError(
                    f"'{article[0]}{content.strip()}' needs the other article; write {mark} before the slot"
                )
        is_last = slot.end == len(template.prompt)
        if not content and before.endswith((" ", "\n")) and (is_last or re.match(r"[\s.,;:!?)]", after)):
            raise InputError(
                f"{slot.source} leaves two blanks, or one before a punctuation mark, where it is empty; move"
                " the blank before it into the braces"
            )
        if re.match(r"['’]s\b", after) and _ends_in_phrase(slot, content):
            raise InputError(
                f"'{content}’s' is not clear, because the description has words after the noun; write"
                f" 'of {slot.source}'"
            )


def _ends_in_phrase(slot: FieldSlot | GroupSlot, content: str) -> bool:
    """Return whether the content of a slot is a description with words after its noun."""
    return (
        isinstance(slot, FieldSlot)
        and slot.field == "person"
        and bool(re.search(r"\s(?:who|with)\s", content))
    )
