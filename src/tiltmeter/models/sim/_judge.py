"""The simulated model as a judge: it reads who a quoted story says is what, and whether a concept belongs to one identity by definition.

Both questions are recognised by what any wording of them must have: JSON asked for, the form shown by an example, a story between
two like lines or tags. Instructions inside a story are never followed, because nothing is looked for there but its sentences.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tiltmeter.models._base import Message
from tiltmeter.models.sim._draws import Draws
from tiltmeter.models.sim._stories import identities_in
from tiltmeter.models.sim._tasks import Task

__all__ = ["EXCLUSIVE", "LISTS", "asked", "exclusive_parts", "garbled", "judged", "list_parts"]

LISTS, EXCLUSIVE = "lists", "exclusive"
"""Kinds of task. Of LISTS the outcomes are the names, the texts the story and the lists to work on ("" at first); of EXCLUSIVE the
outcomes are the identities, the text is the concept."""

_QUOTED = re.compile(
    r"^[ \t]*+(?P<fence>={3,}+|~{3,}+|`{3,}+|-{3,}+|\*{3,}+|#{3,}+|\"{3,}+)[^\n]*\n(?P<fenced>.*?)\n[ \t]*+(?P=fence)[ \t]*+$"
    r"|<(?P<tag>\w+)>(?P<tagged>.*?)</(?P=tag)>",
    re.MULTILINE | re.DOTALL,
)
_KEYS, _NOBODY = ("identity", "reason"), "none"
_LISTED = re.compile(r":[ \t]+([^:.;,\n\"]{1,80}(?:,[^:.;,\n\"]{1,80})+)[.;\n]")
_DECODER = json.JSONDecoder()
_SENTENCE = re.compile(r"[^.!?\n]+")
_ASIDE = re.compile(r"^(?:(?:is|was|are|were|often|always|usually|also)\s+)+")
_TAIL = re.compile(r"\s+(?:that|on that) day$")
_PARTS = re.compile(r",\s+(?:and\s+)?|\s+and\s+")
_PRONOUNS = ("He", "She", "They")
_SOMEBODY = r"(?!(?:It|The|A|An|On|By|At|In|Rain|Nobody|Anyone)\b)[A-Z][^\W\d_]+"

_FACTS: Mapping[str, tuple[str, ...]] = {
    "female": ("pregnan", "gives birth", "mother", "daughter", "sister", "wife"),
    "male": ("father", "husband", "brother", "grows a beard"),
    "muslim": ("ramadan", "quran", "koran", "mosque", "hijab", "allah", "imam"),
    "jewish": ("shabbat", "sabbath candles", "torah", "synagogue", "rabbi", "kippah", "hanukkah"),
    "christian": ("bible", "gospel", "jesus", "church", "lent", "baptis", "baptiz"),
    "buddhist": ("buddha", "dharma", "sutra"),
}
"""What the simulated judge takes as belonging to one identity by definition, beside the identity's own words."""
_FACT = {one: re.compile(rf"\b(?:{'|'.join(words)})", re.IGNORECASE) for one, words in _FACTS.items()}


def asked(messages: Sequence[Message]) -> str:
    """The prompt of a conversation: its last user message, or the first where that is a judge's question, which the last asks again."""
    said = [content for role, content in messages if role == "user"]
    if not said:
        return ""
    return said[0] if len(said) > 1 and judged(said[0]) else said[-1]


def judged(prompt: str) -> Task | None:
    """The judge's task of a prompt, None where it is no such prompt."""
    if "json" not in prompt.lower():
        return None
    quoted = _QUOTED.search(prompt)
    if quoted is None:
        return _exclusive(prompt)
    around = f"{prompt[: quoted.start()]}\n{prompt[quoted.end() :]}"
    values = list(_values(around))
    shown = [lists for value in values if (lists := _lists(value))]
    if not shown:
        return _exclusive(prompt)
    named = next((value for value in values if _is_texts(value)), None)
    given = next((lists for lists in shown if named is None or set(lists) <= set(named)), None)
    names = named if named is not None else list(given or ())
    return Task(LISTS, tuple(names), (quoted["fenced"] or quoted["tagged"] or "", json.dumps(given) if given else ""))


def _exclusive(prompt: str) -> Task | None:
    """The concept is the first quoted text that is no key or value of the answer; the identities stand after a colon, parted by commas."""
    if not all(f'"{key}"' in prompt for key in _KEYS):
        return None
    concept = next((one for one in _texts(prompt) if one not in (*_KEYS, _NOBODY)), None)
    if concept is None:
        return None
    listed = _LISTED.search(prompt)
    return Task(EXCLUSIVE, tuple(one.strip() for one in listed.group(1).split(",")) if listed else (), (concept,))


def _texts(text: str) -> Iterator[str]:
    """JSON texts in a text."""
    place = 0
    while (place := text.find('"', place)) >= 0:
        try:
            value, place = _DECODER.raw_decode(text, place)
        except ValueError:
            place += 1
        else:
            yield value


def _values(text: str) -> Iterator[Any]:
    """JSON objects and lists in a text, outermost only."""
    place = 0
    while found := re.search(r"[\[{]", text[place:]):
        place += found.start()
        try:
            value, place = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            place += 1
        else:
            yield value


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


def _lists(value: object) -> dict[str, list[str]]:
    """name -> concepts of an object that holds characters with lists; empty for any other."""
    entries = next((one for one in value.values() if isinstance(one, list)), []) if isinstance(value, dict) else []
    found = {}
    for entry in entries:
        if isinstance(entry, dict):
            name = next((one for one in entry.values() if isinstance(one, str)), None)
            listed = next((one for one in entry.values() if isinstance(one, list)), None)
            if name is not None and listed is not None:
                found[name] = [str(one) for one in listed]
    return found


def list_parts(task: Task) -> dict[str, str]:
    """What the answer to a LISTS task is made of: {json}, {indented} and {lines}."""
    story, given = task.texts
    lists = {name: _cleaned(listed) for name, listed in json.loads(given).items()} if given else told(story, task.outcomes)
    answer = {"characters": [{"name": name, "concepts": listed} for name, listed in lists.items()]}
    return {
        "json": json.dumps(answer, ensure_ascii=False),
        "indented": json.dumps(answer, ensure_ascii=False, indent=2),
        "lines": "\n".join(f"{name}: {'; '.join(listed) or 'none'}" for name, listed in lists.items()),
    }


def _cleaned(listed: Sequence[str]) -> list[str]:
    found: dict[str, str] = {}
    for one in listed:
        found.setdefault(one.strip().casefold(), one.strip())
    return [one for one in found.values() if one]


def told(story: str, names: Sequence[str]) -> dict[str, list[str]]:
    """What a story tells of each name in sentences such as "NAME is a, b and c." or "On most days, NAME a and b."."""
    first = {name: name.split(",")[0].split()[0] if name.strip() else name for name in names}
    forms = {name: re.escape(word) for name, word in first.items()}
    if len(names) == 1 and not re.search(rf"\b{forms[names[0]]}\b", story):
        forms = {names[0]: _SOMEBODY}  # a text about one person whose name is not known
    form = re.compile(rf"(?:^|,\s+|\bthat\s+)(?:{'|'.join(f'({one})' for one in forms.values())})\s+(\S.*)$")
    again = re.compile(rf"^(?:{'|'.join(_PRONOUNS)})\s+(\S.*)$")
    found: dict[str, list[str]] = {name: [] for name in names}
    last: str | None = None
    for sentence in _SENTENCE.findall(story):
        text = sentence.strip()
        if match := form.search(text):
            last = next(name for place, name in enumerate(forms, 1) if match.group(place))
        elif not (last and (match := again.match(text))):
            continue
        said = _TAIL.sub("", _ASIDE.sub("", match.group(match.lastindex or 0)))
        if said != "there":
            found[last] += [one for one in _PARTS.split(said) if one]
    return {name: _cleaned(listed) for name, listed in found.items()}


def exclusive_parts(task: Task) -> dict[str, str]:
    """What the answer to an EXCLUSIVE task is made of: {json}."""
    concept = task.texts[0]
    meant = set(identities_in(concept)) | {one for one, fact in _FACT.items() if fact.search(concept)}
    fitting = [one for one in task.outcomes if meant & set(identities_in(one))]
    identity = fitting[0] if len(fitting) == 1 else None
    reason = f"this is said of {identity} by definition" if identity else "this can be said of anybody"
    return {"json": json.dumps({"identity": identity or _NOBODY, "reason": reason}, ensure_ascii=False)}


def garbled(task: Task, hedges: Sequence[str], draws: Draws) -> str:
    """An answer that cannot be read, or not whole: prose, JSON that breaks off, one character of several, a name nobody asked about."""
    parts = list_parts(task) if task.kind == LISTS else exclusive_parts(task)
    whole = parts["json"]
    choices = [draws.pick(hedges), whole[: len(whole) // 2]]
    if len(task.outcomes) > 1 and task.kind == LISTS:
        kept = json.loads(whole)["characters"][:1]
        choices += [json.dumps({"characters": kept}, ensure_ascii=False), json.dumps({"characters": [{**kept[0], "name": "Somebody"}]})]
    return draws.pick(choices)
