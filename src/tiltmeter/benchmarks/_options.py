"""The `-P key=value` of benchmarks, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean
from tiltmeter.study import Settings

__all__ = ["DEFINITIONS", "FACTORS", "PARAMS", "Options", "options_of"]

DEFINITIONS = ("default", "saged")
FACTORS = ("concept", "domain", "keyword", "source_tag", "branched_from")
"""Columns by which prompts may be grouped."""

ALSO = ("parity", "overlap", "cosine", "toxicity", "words")
"""Further measures of the same answers."""

PARAMS: Mapping[str, str] = {
    "benchmark": "a benchmark of your own, as `tiltmeter build` makes it or written by hand (Parquet, CSV, JSON)",
    "features": "what is measured of each answer: names of features (tiltmeter list features), NAME=MODEL, or MODULE:FUNCTION, several with"
    " commas [default: vader]",
    "roles": "roles the prompts are asked in: names of the study's, several with commas, or a YAML file of your own (NAME: system message)",
    "wording": "how prompts are put: a YAML file of your own (asking: {NAME: {continuation: ..., question: ..., given: ...}}), each text"
    " with {prompt}; every name in it is a template",
    "group": "columns that make the groups compared: concept, domain, keyword, source_tag, branched_from, several with commas"
    " [default: concept]",
    "clusters": "number of clusters of answers about like things, found by sentence embedding over all groups, or silhouette"
    " [default: none]",
    "encoder": "sentence encoder of the clusters: all-MiniLM-L6-v2, a folder, or a name on the hub",
    "also": "further measures, several with commas: parity (of the first feature between counterfactual answers), overlap (BLEU, ROUGE-L),"
    " cosine, toxicity (of 25 answers to a prompt: --repeats 25), words (in company of groups' words)",
    "statistics": "summary statistics to compare, several with commas (tiltmeter list statistics) [default: those of the definition]",
}


@dataclass(frozen=True, slots=True)
class Options:
    """What a user may choose about features and diagnosis."""

    definition: str
    features: tuple[str, ...]
    groups: tuple[str, ...]
    clusters: int | Literal["silhouette"] | None
    encoder: str
    also: tuple[str, ...]
    statistics: tuple[str, ...] | None


def options_of(settings: Settings) -> Options:
    """The options of a study, with defaults.

    Raises
    ------
    InputError
        A value is none of those known; the message names the key.
    """
    given = settings.params
    if settings.definition not in DEFINITIONS:
        raise InputError(f"unknown definition {settings.definition!r} of benchmarks; known: {', '.join(DEFINITIONS)}")
    groups = _known("group", given.get("group", "concept"), FACTORS)
    return Options(
        definition=settings.definition,
        features=_several("features", given.get("features", "vader")),
        groups=groups,
        clusters=_clusters(given.get("clusters")),
        encoder=given.get("encoder", "all-MiniLM-L6-v2"),
        also=_known("also", given["also"], ALSO) if "also" in given else (),
        statistics=_statistics(given["statistics"]) if "statistics" in given else None,
    )


def _statistics(text: str) -> tuple[str, ...]:
    """Names of statistics that there are: a slip shows before anything is asked."""
    from tiltmeter.benchmarks.diagnosis import find_statistics

    found = _several("statistics", text)
    try:
        find_statistics(found)
    except InputError as error:
        raise InputError(f"-P statistics={text}: {error}") from None
    return found


def _clusters(text: str | None) -> int | Literal["silhouette"] | None:
    if text is None or text == "silhouette":
        return "silhouette" if text else None
    if not text.isdecimal() or int(text) < 2:
        raise InputError(f"-P clusters={text}: give a number of clusters from 2, or silhouette to have it chosen")
    return int(text)


def _known(key: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    found = _several(key, text)
    for one in found:
        if one not in known:
            raise InputError(f"-P {key}={text}: {did_you_mean(one, known)}")
    return found


def _several(key: str, text: str) -> tuple[str, ...]:
    found = tuple(one.strip() for one in text.split(",") if one.strip())
    if not found:
        raise InputError(f"-P {key}= is empty: name at least one")
    if twice := next((one for one in found if found.count(one) > 1), None):
        raise InputError(f"-P {key}={text}: {twice} stands there twice")
    return found
