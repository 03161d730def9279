"""What a prompt asks for, recognised by its structure, so that another wording of the same question is answered too.

The order of the checks matters: a form that is laid out (lettered options, a list of emotions) is trusted before one
that is only named by a word, and quoted text is never taken for an instruction.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tiltmeter.models.sim._snippets import snippets

__all__ = ["KINDS", "Task", "recognise"]

KINDS = ("choice", "yes_no", "email", "ranking", "emotion", "profile", "letter", "story", "continuation", "question", "unknown")


class Task(NamedTuple):
    """What is asked.

    `outcomes` are the answers to choose from (letters, names, emotions, ...; empty where the form has no closed set),
    `texts` go with them: the options' texts of a choice, the two phrases of an e-mail (accepting, rejecting).
    """

    kind: str
    outcomes: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


_OPTION_LINE = re.compile(r"^[ \t>*-]*[(\[]?([a-eA-E])[)\].:][ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
_OPTION_INLINE = re.compile(
    r"[(\[]([a-e])[)\]]\s++(?!(?:or|and)\b)([^()\[\]\n]{1,200}?)(?=,?\s*+(?:\bor\b|\band\b)?\s*+[(\[][a-e][)\]]|[?.;\n]|$)"
)
_YES_NO = re.compile(r"\byes\b\W{0,4}(?:or|/)\W{0,4}(?:with\W{1,4})?no\b|\bno\b\W{0,4}(?:or|/)\W{0,4}(?:with\W{1,4})?yes\b")
_QUOTED = re.compile(r"\"[^\"\n]{7,999}\"|“[^”\n]{7,999}”|«[^»\n]{7,999}»")
_PHRASE = re.compile(r"\"[^\"\n]{7,80}\"|“[^”\n]{7,80}”|«[^»\n]{7,80}»")
_JOB = ("applica", "applied", "candida", "position", "role", "job", "hire", "hiring")
_RANK = re.compile(r"\b(?:rank|order|sort)(?:ing|ed|s)?\b")
_CV = ("resume", "résumé", "cv", "curricul", "candidate", "applicant")
_LETTER = re.compile(
    r"\b(?:reference|recommendation|motivation(?:al)?|cover|support)\s+letter|\bletter\s+of\s+(?:reference|recommendation|motivation|support)"
    r"|\b(?:performance|annual|yearly)\s+(?:\w+\s+)?(?:review|evaluation|appraisal|assessment)|\bletter\b",
    re.IGNORECASE,
)
_PROFILE = re.compile(
    r"\bnovel\b|\bbackstory\b|\bback\s+story\b|\bprotagonist\b|\b(?:profile|sketch|description|portrait)\b.{0,40}\bcharacter\b"
    r"|\bcharacter\b.{0,40}\b(?:profile|sketch|description|portrait)\b",
    re.IGNORECASE | re.DOTALL,
)
_STORY = re.compile(r"\b(?:story|stories|tale|narrative)\b", re.IGNORECASE)
_WRITE = re.compile(
    r"\b(?:write|compose|draft|craft|tell|create|make|help|need|generate|prepare|produce|give|invent|imagine)\b", re.IGNORECASE
)
_CONTINUE = re.compile(r"\b(?:continue|complete|finish|carry\s+on|go\s+on\s+with)\b", re.IGNORECASE)
_ENDED = re.compile(r"[.!?:;…)\]\"”']\s*$")
_WORD_LIST = re.compile(
    r"(?:\b[a-z-]{3,20}\b\s*[,;\n]\s*(?:[-*•]\s*)?(?:(?:or|and)\s+)?){3,40}[a-z-]{3,20}\b"  # after one another
    r"|(?:^\s*[-*•]\s*[a-z-]{3,20}\s*$\n?){4,40}",  # or a line each
    re.MULTILINE,
)
_BREAK = re.compile(r"^[ \t]*<hr\s*/?>[ \t]*$", re.IGNORECASE | re.MULTILINE)
_RULE = re.compile(r"^[ \t]*(?:={3,}|\*{3,}|_{3,}|-{3,}|#{3,})[ \t]*$", re.MULTILINE)
_NUMBERED_CV = re.compile(r"^\W*(?:résumé|resume|CV|candidate|applicant)\s*(?:#|no\.?\s*)?\d+\b", re.IGNORECASE | re.MULTILINE)
_NAME_FIELD = re.compile(r"^\W*(?:full\s+)?name\W*?[:\-–][ \t*_]*([^\W\d_][^\n*_,;|]{2,60}?)[ \t*_]*$", re.IGNORECASE | re.MULTILINE)
_NAME_LINE = re.compile(r"^[ \t#*_\[]*((?:[^\W\d_][\w'’.-]*[ \t]+){1,3}[^\W\d_][\w'’.-]*)[ \t*_\]]*$", re.MULTILINE)
_MAX_CVS = 40


def recognise(prompt: str) -> Task:
    """The task of a prompt; kind "unknown" when no form fits."""
    lower = prompt.lower()
    if (task := _ranking(prompt, lower)) or (task := _choice(prompt)):
        return task
    unquoted = _QUOTED.sub('""', prompt)  # short quotes stay: answers to choose from
    lower = unquoted.lower()
    if "yes" in lower and _YES_NO.search(lower):
        return Task("yes_no", ("yes", "no"))
    if (task := _emotion(lower)) or (task := _email(prompt, lower)):
        return task
    for kind, asks in _WRITTEN:
        if asks(unquoted):
            return Task(kind, ("female", "male", "nonbinary") if kind == "profile" else ())
    return Task("unknown")


def _choice(prompt: str) -> Task | None:
    for pattern in (_OPTION_LINE, _OPTION_INLINE):
        found = [(letter.lower(), text.strip(" *")) for letter, text in pattern.findall(prompt)]
        run = _last_run(found)
        if len(run) >= 2:
            return Task("choice", tuple(letter for letter, _ in run), tuple(text for _, text in run))
    return None


def _last_run(found: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The last stretch of options that is lettered a, b, ... in order: an inline mention after it ("answer (a) or (b)") is shorter."""
    runs: list[list[tuple[str, str]]] = [[]]
    for letter, text in found:
        if letter == "a":
            runs.append([(letter, text)])
        elif runs[-1] and ord(letter) == ord(runs[-1][-1][0]) + 1:
            runs[-1].append((letter, text))
    return max(reversed(runs), key=len)


def _ranking(prompt: str, lower: str) -> Task | None:
    if not (any(word in lower for word in _CV) and ("rank" in lower or "order" in lower or "sort" in lower) and _RANK.search(lower)):
        return None
    for separator in (_BREAK,) if "<hr" in lower else (_RULE, _NUMBERED_CV):
        names = [name for block in separator.split(prompt)[:_MAX_CVS] if (name := _name_in(block))]
        distinct = tuple(dict.fromkeys(names))
        if len(distinct) >= 2:
            return Task("ranking", distinct)
    names = [name.strip() for name in _NAME_FIELD.findall(prompt)]
    return Task("ranking", tuple(dict.fromkeys(names))) if len(names) >= 2 else None


def _name_in(block: str) -> str | None:
    """The name a CV is headed with: its "Name:" field, else its first line of two to four capitalised words that is no section title."""
    if ("name" in block or "Name" in block or "NAME" in block) and (field := _NAME_FIELD.search(block)):
        return field.group(1).strip()
    titles = snippets().section_words
    for found in _NAME_LINE.finditer(block):
        line = found.group(1)
        words = line.split()
        if all(word[0].isupper() for word in words) and titles.isdisjoint(word.lower().strip(".") for word in words):
            return line
    return None


def _emotion(lower: str) -> Task | None:
    if "emotion" not in lower and "feel" not in lower:
        return None
    known = snippets().emotions
    for found in _WORD_LIST.finditer(lower):
        words = [word for word in re.findall(r"[a-z-]{3,}", found.group()) if word not in ("and", "or")]
        if 2 * sum(word in known for word in words) > len(words):
            while words[0] not in known:  # the list may begin inside a sentence: "..., choose anger, ..."
                words.pop(0)
            return Task("emotion", tuple(dict.fromkeys(words)))
    return None


def _email(prompt: str, lower: str) -> Task | None:
    """Two quoted phrases about an application, told apart by their words."""
    if not any(word in lower for word in _JOB):
        return None
    phrases = [found.group()[1:-1].strip(" .,!") for found in _PHRASE.finditer(prompt)]
    phrases = [phrase for phrase in phrases if " " in phrase]
    if len(phrases) < 2:
        return None
    words = snippets()

    def lean(phrase: str) -> int:
        said = phrase.lower()
        return sum(word in said for word in words.accepting) - sum(word in said for word in words.rejecting)

    accepting, rejecting = max(phrases, key=lean), min(phrases, key=lean)
    return Task("email", ("accept", "reject"), (accepting, rejecting)) if lean(accepting) > lean(rejecting) else None


def _is_continuation(unquoted: str) -> bool:
    return bool(_CONTINUE.search(unquoted)) or bool(unquoted.strip() and not _ENDED.search(unquoted))


_WRITTEN: tuple[tuple[str, Callable[[str], object]], ...] = (
    ("profile", lambda text: _PROFILE.search(text) and _WRITE.search(text)),
    ("story", lambda text: _STORY.search(text) and _WRITE.search(text)),
    ("letter", lambda text: _LETTER.search(text) and _WRITE.search(text)),
    ("question", lambda text: text.rstrip().endswith("?")),
    ("continuation", _is_continuation),
)
"""Texts to be written, by the words that ask for them, in order of precedence."""
