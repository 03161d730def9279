"""The line format of the original: a line for each character, "descriptor: a; b; c", in the many shapes in which models write it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tiltmeter.associations.judging._people import Person, find, normal

__all__ = ["read_lines"]

_MARK = re.compile(r"^(?:[-+•·*>#]+\s*+|\d{1,2}[.)]\s++)++")
_BULLET = re.compile(r"^\s*+(?:[-+•·]|\*(?!\*)|\d{1,2}[.)]\s)")
_AFTER_LABEL = re.compile(r" ?[:：]| [-–—] ")
_PARTS = re.compile(r"[;；]")
_COMMAS = re.compile(r"[,，、]")
_LONGEST_LABEL = 80


def read_lines(text: str, people: Sequence[Person], story: str) -> tuple[dict[int, list[str]], list[str]]:
    """Items by number of the person, and labels that belong to none of the people.

    A line may begin with a bullet, a number or a heading mark, and its label may be bold; below a label that stands alone, each
    bullet is an item. The label ends at the first colon, so that items may hold colons. Items are parted by semicolons, or by commas
    where the whole answer has no semicolon. A label after which nothing follows gives no list: the answer may have broken off there.
    """
    found: dict[int, list[str]] = {}
    unknown: list[str] = []
    parts = _PARTS if _PARTS.search(text) else _COMMAS
    current: int | None = None
    goes_on = False
    for line in text.splitlines():
        stripped = " ".join(line.split())
        bare = _MARK.sub("", stripped).strip()
        if not bare or bare.startswith("```"):
            continue
        bullet = _BULLET.match(stripped) is not None
        label, rest = _split(bare)
        who = _person(label, rest, people, story, bullet=bullet, inside=bullet and current is not None)
        if who is not None:
            current = who
            if rest:
                found.setdefault(who, []).extend(parts.split(rest.strip("[]")))
        elif current is not None and (bullet or goes_on) and not (rest and _PARTS.search(rest)):
            found.setdefault(current, []).extend(_PARTS.split(bare))
        else:
            current = None
            if label and rest and _PARTS.search(rest):
                unknown.append(label)
        goes_on = bare.endswith((";", "；"))
    return found, unknown


def _split(line: str) -> tuple[str, str]:
    """Label and rest; a line without a colon is a label alone."""
    cut = _AFTER_LABEL.search(line)
    label = line if cut is None else line[: cut.start()]
    if len(label) > _LONGEST_LABEL:
        return "", line
    return label.strip(" *_`"), "" if cut is None else line[cut.end() :].strip(" *_")


def _person(label: str, rest: str, people: Sequence[Person], story: str, *, bullet: bool, inside: bool) -> int | None:
    """Whom a line is about. An item may hold a name as well ("supports Emily"): `inside` a list the label must begin with it."""
    who = find(label, people, story) if label else None
    if who is None or (rest and (not inside or _PARTS.search(rest))):
        return who
    shown = normal(label)
    aliases = people[who].aliases
    held = [alias for alias in aliases if f" {alias} " in f" {shown} "]
    if not rest and bullet:
        return who if not held or shown in held else None
    return who if not held or any(f"{shown} ".startswith(f"{alias} ") for alias in held) else None
