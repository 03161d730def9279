"""How benchmarks are asked and measured: the `-P key=value` of a study, its roles and templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from polars import String

from tiltmeter import registry
from tiltmeter.errors import InputError
from tiltmeter.registry import check_known
from tiltmeter.stats import STATISTICS, Statistic
from tiltmeter.study import Schema, Settings
from tiltmeter.yaml_files import read_yaml

DEFINITIONS = ("default", "saged")
LISTED = {
    "features": (),
    "group": ("concept", "domain", "keyword", "source_tag", "branched_from"),
    "also": ("parity", "overlap", "cosine", "toxicity", "words"),
    "statistics": (),
}
"""Parameters that are names separated by commas: the names there are (none: they are looked up elsewhere)."""
VALUE, BASELINE = "value:", "baseline:"
"""What the columns of `measures` begin with that hold a feature of the answer, and of its baseline."""

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

FACTORS: Schema = {
    "prompt_key": String,  # of the benchmark's row
    "root": String,  # of the row it was branched from: what is compared in pairs
    "domain": String,
    "concept": String,
    "keyword": String,
    "source_tag": String,
    "kind": String,
    "branched_from": String,
    "role": String,
    "template": String,
    "baseline": String,  # the text the answers are compared with; null: there is none
    "stratum": String,  # of which --limit keeps a share
}
"""Columns of a design beside those of every design."""

DEFAULT_STATISTICS = ("mean", "median", "sd", "selection_rate", "kl", "precision", "pearson")
FOUR_FIFTHS = 0.8
"""An impact ratio below it speaks of adverse impact."""
SLOT = "{prompt}"
BASELINES = "baseline"
"""The generation that the baselines are."""
NO_ROLE = "none"


@dataclass(frozen=True, slots=True)
class BenchmarkOptions:
    """What a user may choose about features and diagnosis."""

    features: tuple[str, ...]
    groups: tuple[str, ...]
    clusters: int | Literal["silhouette"] | None
    encoder: str
    also: tuple[str, ...]
    statistics: tuple[str, ...] | None


def options_of(settings: Settings) -> BenchmarkOptions:
    """The options of a study, with defaults.

    Raises
    ------
    InputError
        A value is none of those known; the message names the key.
    """
    check_known(settings.definition, DEFINITIONS, f"unknown definition {settings.definition!r} of benchmarks")
    given = {"features": "vader", "group": "concept", "encoder": "all-MiniLM-L6-v2", **settings.params}
    listed = {key: _several(key, given[key], known) for key, known in LISTED.items() if key in given}
    if "statistics" in given:
        try:  # a slip shows before anything is asked
            find_statistics(listed["statistics"])
        except InputError as error:
            raise InputError(f"-P statistics={given['statistics']}: {error}") from None
    return BenchmarkOptions(
        features=listed["features"],
        groups=listed["group"],
        clusters=_clusters(given.get("clusters")),
        encoder=given["encoder"],
        also=listed.get("also", ()),
        statistics=listed.get("statistics"),
    )


def find_statistics(names: Sequence[str]) -> Mapping[str, Statistic]:
    """Return the statistics of these names, in order: of `stats.summary.STATISTICS`, or of the entry point group `tiltmeter.statistics`.

    Raises
    ------
    InputError
        There is no such statistic, or an outside one is called like one of ours or is no `Statistic`.
    """
    outside = registry.names("statistics")
    known = dict.fromkeys([*STATISTICS, *outside])
    for name in names:
        check_known(name, known, f"there is no statistic {name!r}")
    return {name: _outside_statistic(name) if name in outside else STATISTICS[name] for name in names}


def _outside_statistic(name: str) -> Statistic:
    place = registry.reference("statistics", name)
    if name in STATISTICS:
        raise InputError(f"{place} cannot be the statistic {name!r}: Tiltmeter has one of that name; rename its entry point")
    found: Any = registry.load("statistics", name)
    if not isinstance(found, Statistic):
        raise InputError(f"{place} is no tiltmeter.stats.Statistic but {type(found).__name__}; correct the package it is in")
    return found


def _clusters(text: str | None) -> int | Literal["silhouette"] | None:
    if text is None or text == "silhouette":
        return "silhouette" if text else None
    if not text.isdecimal() or int(text) < 2:
        raise InputError(f"-P clusters={text}: give a number of clusters from 2, or silhouette to have it chosen")
    return int(text)


def _several(key: str, text: str, known: Sequence[str]) -> tuple[str, ...]:
    """The names in a text, separated by commas: each once, and one of those known, if they are."""
    found = tuple(one.strip() for one in text.split(",") if one.strip())
    if not found:
        raise InputError(f"-P {key}= is empty: name at least one")
    for one in found:
        if known:
            check_known(one, known, f"-P {key}={text}")
        if found.count(one) > 1:
            raise InputError(f"-P {key}={text}: {one} is in it twice")
    return found


class Configurations(NamedTuple):
    """How a benchmark is asked: each role with each template is a generation of its own."""

    roles: Mapping[str, str | None]
    """Name -> system message (None: no system message)."""
    templates: Mapping[str, Mapping[str, str]]
    """Name -> kind of row ("continuation", "question", "given") -> text with `{prompt}`."""


def configurations_of(
    roles: Mapping[str, str | None] | None, templates: Mapping[str, Mapping[str, str]] | None, params: Mapping[str, str]
) -> Configurations:
    """The roles and templates of a benchmark, as far as the user's `-P roles=` and `-P wording=` do not replace them.

    Raises
    ------
    InputError
        There is no such role or wording, or a file cannot be used.
    """
    from tiltmeter.prompt_templates import wordings

    if not templates or "wording" in params:
        templates = wordings("asking", params.get("wording"), Path(__file__).with_name("wordings") / "asking.yaml")
    return Configurations(_chosen_roles(roles or {NO_ROLE: None}, params.get("roles")), templates)


def _chosen_roles(known: Mapping[str, str | None], given: str | None) -> Mapping[str, str | None]:
    """The roles a user chose among those of the study, or of a file."""
    from tiltmeter.paths import is_file

    if given is None:
        return known
    if given.endswith((".yaml", ".yml")):
        if not is_file(given):
            raise InputError(f"-P roles={given}: there is no such file")
        return read_roles(given)
    chosen = list(dict.fromkeys(one.strip() for one in given.split(",")))
    for one in chosen:
        check_known(one, known, f"-P roles={given}", " (or give a YAML file of your own)")
    return {one: known[one] for one in chosen}


def read_roles(path: str) -> dict[str, str | None]:
    """The roles of a YAML file; raises InputError where it holds anything else."""
    loaded = read_yaml(Path(path), "roles in")
    if not isinstance(loaded, dict) or not loaded:
        raise InputError(f"-P roles={path}: expected names of roles with their system messages, for instance 'assistant: You are helpful.'")
    for name, text in loaded.items():
        if not isinstance(name, str) or not isinstance(text, str | None):
            raise InputError(f"-P roles={path}: {name}: expected a name with a system message (or nothing, for none)")
    return loaded
