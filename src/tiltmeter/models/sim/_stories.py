"""Stories with planted associations: who is in the prompt, which concepts are told of each, and how often in truth."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from tiltmeter.errors import InputError
from tiltmeter.models.sim._dials import Dials
from tiltmeter.models.sim._draws import Draws
from tiltmeter.models.sim._snippets import load_yaml, snippets
from tiltmeter.registry import did_you_mean

__all__ = ["Character", "cast", "concepts_of", "default_name", "identities_in", "joined", "planted_rates", "story_parts", "story_rates"]


class Character(NamedTuple):
    """Somebody in a story, with the identities the prompt gives (names of stories.yaml)."""

    name: str
    identities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Table:
    base: float
    category: Mapping[str, str]
    """Category of each identity."""
    size: Mapping[str, int]
    """Number of identities in each category."""
    words: re.Pattern[str]
    """Finds identity words; `identity` says which identity a word means."""
    identity: Mapping[str, str]
    gender_of: Mapping[str, str]
    leans: Mapping[str, str | None]
    """The identity each concept leans to."""
    kinds: Mapping[str, str]
    sentences: Mapping[str, tuple[str, ...]]
    openings: tuple[str, ...]
    endings: tuple[str, ...]
    no_names: frozenset[str]


@cache
def _table() -> _Table:
    data = load_yaml("stories.yaml")
    categories: dict[str, dict[str, list[str]]] = data["categories"]
    identity = {word: one for members in categories.values() for one, words in members.items() for word in words}
    longest_first = sorted(identity, key=len, reverse=True)
    return _Table(
        base=data["base"],
        category={one: name for name, members in categories.items() for one in members},
        size={name: len(members) for name, members in categories.items()},
        words=re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b", re.IGNORECASE),
        identity=identity,
        gender_of={name: gender for gender, names in data["names"].items() for name in names},
        leans={concept: facts.get("leans") for concept, facts in data["concepts"].items()},
        kinds={concept: facts["kind"] for concept, facts in data["concepts"].items()},
        sentences={kind: tuple(forms) for kind, forms in data["sentences"].items()},
        openings=tuple(data["openings"]),
        endings=tuple(data["endings"]),
        no_names=frozenset(data["no_names"]),
    )


@cache
def _rates(bias: float, identities: tuple[str, ...]) -> Mapping[str, float]:
    table = _table()
    found = {}
    for concept, leans in table.leans.items():
        shift = 0.0
        if leans is not None:
            share = 1 / table.size[table.category[leans]]
            peers = [one for one in identities if table.category[one] == table.category[leans]]
            shift = sum((one == leans) - share for one in peers)
        found[concept] = min(1.0, max(0.0, table.base + bias * shift))
    return found


def story_rates(dials: Dials, *identities: str) -> dict[str, float]:
    """The true rate of each concept: the chance that a readable story tells it of a character with these identities.

    A concept that leans to identity i, in a category of k identities, has the rate base + bias * (1 - 1/k) for i and
    base - bias / k for the others of the category (cut to 0..1), so the two differ by the dial `stereotypical_reasoning`;
    a character without an identity of that category has the rate base. Concepts are told independently of each other.

    Parameters
    ----------
    dials
        Of the simulated model.
    identities
        Names as in stories.yaml ("female", "asian", "muslim", ...), one a category.

    Raises
    ------
    InputError
        Unknown identity.
    """
    known = list(_table().category)
    for one in identities:
        if one not in known:
            raise InputError(f"unknown identity {one!r} for stories of the simulated model: {did_you_mean(one, known)}")
    return dict(_rates(dials.stereotypical_reasoning, identities))


_NAME = re.compile(r"\b[A-Z][^\W\d_]+(?:[-'’][^\W\d_]+)*\b")
_BEFORE_PLACE = re.compile(r"\b(?:at|in|near|inside|outside|the|an?|location\s+of|location:)\s*\W?$", re.IGNORECASE)
_BEFORE_SENTENCE = re.compile(r"(?:^|[.!?\n])\W*$")
_GOES_ON = re.compile(r"\W{0,2}\s*(?:,|\(|:|;|and\b|is\b|who\b|meets?\b)")
_NAMED = re.compile(r"\b(?:named|called)\W+$", re.IGNORECASE)
_PLACE = re.compile(
    r"\bat\s+(?!(?:most|least|length|once|all|last|first)\b)(?:the\s+location\s+of\s+)?"
    r"\W?((?:the\s+|an?\s+)?[^\W\d_][\w \-]{1,40}?)\W?(?=\s+in\b|\s+where\b|\s*[.,;:\n()]|\s*$)"
)


def identities_in(text: str) -> tuple[str, ...]:
    """Identities named in `text`, the first of each category."""
    table = _table()
    first: dict[str, str] = {}
    for word in table.words.findall(text):
        one = table.identity[word.lower()]
        first.setdefault(table.category[one], one)
    return tuple(first.values())


def _with_gender(identities: tuple[str, ...], name: str) -> tuple[str, ...]:
    """A name tells the gender where the prompt does not: without it, a race whose descriptor alone says "(male)" would lean like men."""
    table = _table()
    gender = table.gender_of.get(name)
    if gender is None or any(table.category[one] == table.category[gender] for one in identities):
        return identities
    return (*identities, gender)


def _named(prompt: str) -> list[re.Match[str]]:
    table = _table()
    found: list[re.Match[str]] = []
    place_ends: int | None = None
    for match in _NAME.finditer(prompt):
        word = match.group()
        before, after = prompt[max(0, match.start() - 20) : match.start()], prompt[match.end() : match.end() + 12]
        if word in table.no_names or word.lower() in table.identity:
            continue
        if _BEFORE_PLACE.search(before) or (place_ends is not None and place_ends + 1 == match.start()):
            place_ends = match.end()
            continue
        if _BEFORE_SENTENCE.search(before) and not _GOES_ON.match(after):
            continue
        if found and found[-1].end() + 1 == match.start():  # a second word of a place's or person's name
            continue
        if word not in [other.group() for other in found]:
            found.append(match)
    return found[:2]


def cast(prompt: str) -> list[Character]:
    """One or two characters of a story prompt.

    A descriptor is looked for after a name ("Zhang, an Asian") or, where the name comes last, before it ("an Asian named Zhang").
    """
    names = _named(prompt)
    if not names:
        return [Character("", identities_in(prompt))]
    found = []
    for i, match in enumerate(names):
        start = names[i - 1].end() if i else 0
        stop = names[i + 1].start() if i + 1 < len(names) else len(prompt)
        if _NAMED.search(prompt[: match.start()]):
            descriptor = prompt[start : match.start()]
        else:
            descriptor = re.split(r"[.!?\n]", prompt[match.end() : stop], maxsplit=1)[0][:80]
        found.append(Character(match.group(), _with_gender(identities_in(descriptor), match.group())))
    return found


def planted_rates(prompt: str, dials: Dials) -> dict[str, dict[str, float]]:
    """For each character of a story prompt, by name, the true rate of each concept (see `story_rates`)."""
    return {one.name: dict(_rates(dials.stereotypical_reasoning, one.identities)) for one in cast(prompt)}


def concepts_of(character: Character, dials: Dials, draws: Draws) -> list[str]:
    """The concepts told of one character in one story, each drawn at its true rate."""
    return [concept for concept, rate in _rates(dials.stereotypical_reasoning, character.identities).items() if draws.unit() < rate]


def joined(words: Sequence[str]) -> str:
    """ "a, b and c"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def story_parts(prompt: str, told: Mapping[str, Sequence[str]], draws: Draws, *, plain: bool) -> dict[str, str]:
    """Opening, body and ending of a story that tells the given concepts of each name; `plain` words all concepts alike.

    Together at most ten sentences for two characters at the usual rates.
    """
    table = _table()
    sentences: list[str] = []
    for name, concepts in told.items():
        for kind, forms in table.sentences.items():
            these = draws.shuffled([one for one in concepts if table.kinds.get(one, "trait") == kind])
            for at in range(0, len(these), 3):
                form = forms[0] if plain else draws.pick(forms)
                sentences.append(form.format(name=name, list=joined(these[at : at + 3])))
    place = _PLACE.search(prompt)
    where = f"at {place.group(1)}" if place else "in town"
    return {
        "opening": draws.pick(table.openings).format(place=where),
        "body": " ".join(draws.shuffled(sentences)) or " ".join(f"{name} was there." for name in told),
        "ending": draws.pick(table.endings),
    }


def default_name(draws: Draws) -> str:
    """A name for a character the prompt does not name."""
    return draws.pick(snippets().names)
