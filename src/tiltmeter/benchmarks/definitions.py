"""Parameters of benchmark studies (`-P key=value`), roles and templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from polars import String

from tiltmeter.errors import InputError, check_known
from tiltmeter.files.yaml import read_yaml
from tiltmeter.plugins.registry import Registry
from tiltmeter.schema import Schema
from tiltmeter.stats import STATISTICS, Statistic
from tiltmeter.study import Settings

DEFINITIONS = ("default", "saged")
LISTED = {
    "features": (),
    "group": ("concept", "domain", "keyword", "source_tag", "branched_from"),
    "also": ("parity", "overlap", "cosine", "toxicity", "words"),
    "statistics": (),
}
"""Parameters that are comma-separated names, with the valid names (empty: they are checked elsewhere)."""
VALUE = "value:"
BASELINE = "baseline:"
WITHOUT_NAMES = "without names:"
"""Prefixes of the columns of `measures`: a feature of the answer, the feature of its baseline, and the
calibrated feature.

The calibrated feature is that of the answer minus that of its baseline, after the names of the groups were
replaced by one word in both.
A feature of the answer is Boolean if its values are decisions."""

PARAMS: Mapping[str, str] = {
    "benchmark": "benchmark file, built by `tiltmeter build` or written by hand (Parquet, CSV, JSON)",
    "features": "comma-separated features to measure: names (tiltmeter list features), NAME=MODEL, or MODULE:FUNCTION [default: vader]",
    "roles": "roles for the prompts: comma-separated names of the study's roles, or a YAML file (NAME: system message)",
    "wording": "YAML file with prompt templates (asking: {NAME: {continuation: ..., question: ..., given: ...}}), each text with {prompt};"
    " each name is a template",
    "group": "comma-separated columns that define the groups: concept, domain, keyword, source_tag, branched_from [default: concept]",
    "clusters": "number of topic clusters of the answers, found with sentence embeddings, or silhouette to choose it [default: none]",
    "encoder": "sentence encoder of the clusters: all-MiniLM-L6-v2, a folder, or a name on the hub",
    "also": "comma-separated further measures: parity (of the first feature between counterfactual answers), overlap (BLEU, ROUGE-L),"
    " cosine, toxicity (of 25 answers per prompt: --repeats 25), words (co-occurrence with the words of groups)",
    "statistics": "comma-separated summary statistics to compare (tiltmeter list statistics) [default: those of the definition]",
}

FACTORS: Schema = {
    "prompt_key": String,  # key of the benchmark's row
    "root": String,  # key of the root row; identifies prompts that are compared in pairs
    "domain": String,
    "concept": String,
    "keyword": String,
    "source_tag": String,
    "kind": String,
    "branched_from": String,
    "role": String,
    "template": String,
    "baseline": String,  # text with which the answers are compared; null if there is none
    "stratum": String,  # --limit keeps the same share of each stratum
}
"""Columns of the design, in addition to the common ones."""

OUTSIDE_STATISTICS: Final = Registry("statistics", "statistic", {})
"""Statistics of other packages (entry points in the group `tiltmeter.statistics`); ours are
`tiltmeter.stats.STATISTICS`."""

DEFAULT_STATISTICS = ("mean", "median", "sd", "selection_rate", "kl", "precision", "pearson")
FOUR_FIFTHS = 0.8
"""Threshold of the four-fifths rule: a lower impact ratio indicates adverse impact."""
SLOT = "{prompt}"
BASELINES = "baseline"
"""Name of the generation that consists of the baselines."""
NO_ROLE = "none"


@dataclass(frozen=True, slots=True)
class BenchmarkOptions:
    """User options for features and diagnosis."""

    features: tuple[str, ...]
    groups: tuple[str, ...]
    clusters: int | Literal["silhouette"] | None
    encoder: str
    also: tuple[str, ...]
    statistics: tuple[str, ...]


def options_of(settings: Settings) -> BenchmarkOptions:
    """Read the options of a study, with defaults.

    Raises
    ------
    InputError
        A value is not valid; the message names the key.
    """
    check_known(settings.definition, DEFINITIONS, f"unknown definition {settings.definition!r} of benchmarks")
    given = {"features": "vader", "group": "concept", "encoder": "all-MiniLM-L6-v2", **settings.params}
    listed = {key: _several(key, given[key], known) for key, known in LISTED.items() if key in given}
    if "statistics" in given:
        try:  # fail before any request
            find_statistics(listed["statistics"])
        except InputError as error:
            raise InputError(f"-P statistics={given['statistics']}: {error}") from None
    return BenchmarkOptions(
        features=listed["features"],
        groups=listed["group"],
        clusters=_clusters(given.get("clusters")),
        encoder=given["encoder"],
        also=listed.get("also", ()),
        statistics=listed.get("statistics", DEFAULT_STATISTICS),
    )


def find_statistics(names: Sequence[str]) -> Mapping[str, Statistic]:
    """Return the named statistics, in order, from `stats.summary.STATISTICS` or the entry point group `tiltmeter.statistics`.

    Raises
    ------
    InputError
        There is no such statistic, or a plugin's statistic has the name of a built-in one or is not a
        `Statistic`.
    """
    outside = OUTSIDE_STATISTICS.names()
    known = dict.fromkeys([*STATISTICS, *outside])
    for name in names:
        check_known(name, known, f"there is no statistic {name!r}")
    return {name: _outside_statistic(name) if name in outside else STATISTICS[name] for name in names}


def _outside_statistic(name: str) -> Statistic:
    place = OUTSIDE_STATISTICS.reference(name)
    if name in STATISTICS:
        raise InputError(
            f"{place} cannot define the statistic {name!r}, which is built in; rename its entry point"
        )
    found: Any = OUTSIDE_STATISTICS.load(name)
    if not isinstance(found, Statistic):
        raise InputError(
            f"{place} must be a tiltmeter.stats.Statistic, not {type(found).__name__}; correct the package that defines it"
        )
    return found


def _clusters(text: str | None) -> int | Literal["silhouette"] | None:
    if text is None or text == "silhouette":
        return "silhouette" if text else None
    if not text.isdecimal() or int(text) < 2:
        raise InputError(
            f"-P clusters={text}: give a number of clusters of at least 2, or silhouette to choose it automatically"
        )
    return int(text)


def _several(key: str, text: str, known: Sequence[str]) -> tuple[str, ...]:
    """Split a text into comma-separated names and check that each is known (if `known` is not empty) and listed once."""
    found = tuple(one.strip() for one in text.split(",") if one.strip())
    if not found:
        raise InputError(f"-P {key}= is empty; name at least one")
    for one in found:
        if known:
            check_known(one, known, f"-P {key}={text}")
        if found.count(one) > 1:
            raise InputError(f"-P {key}={text}: {one} is listed twice")
    return found


Roles = Mapping[str, str | None]
"""Name -> system message (None: no system message)."""
Templates = Mapping[str, Mapping[str, str]]
"""Name -> kind of row ("continuation", "question", "given") -> text with `{prompt}`."""


class Configurations(NamedTuple):
    """Roles and templates of a benchmark; each combination of both is a generation."""

    roles: Roles
    templates: Templates


def configurations_of(
    roles: Roles | None, templates: Templates | None, params: Mapping[str, str]
) -> Configurations:
    """Return the roles and templates of a benchmark, or those of `-P roles=` and `-P wording=`.

    Raises
    ------
    InputError
        There is no such role or wording, or a file cannot be used.
    """
    from tiltmeter.designs.wordings import wordings

    if not templates or "wording" in params:
        templates = wordings(
            "asking", params.get("wording"), Path(__file__).with_name("wordings") / "asking.yaml"
        )
    return Configurations(_chosen_roles(roles or {NO_ROLE: None}, params.get("roles")), templates)


def _chosen_roles(known: Roles, given: str | None) -> Roles:
    """Return the roles that the user selected from the study or gave in a file."""
    from tiltmeter.files.paths import is_file

    if given is None:
        return known
    if given.endswith((".yaml", ".yml")):
        if not is_file(given):
            raise InputError(f"-P roles={given}: there is no such file")
        return read_roles(given)
    chosen = list(dict.fromkeys(one.strip() for one in given.split(",")))
    for one in chosen:
        check_known(one, known, f"-P roles={given}", " (or give a YAML file with roles)")
    return {one: known[one] for one in chosen}


def read_roles(path: str) -> Roles:
    """Read roles from a YAML file; raises InputError if it has other content."""
    loaded = read_yaml(Path(path), "roles in")
    if not isinstance(loaded, dict) or not loaded:
        raise InputError(
            f"-P roles={path}: expected names of roles with system messages, for example 'assistant: You are helpful.'"
        )
    for name, text in loaded.items():
        if not isinstance(name, str) or not isinstance(text, str | None):
            raise InputError(
                f"-P roles={path}: {name}: expected a name with a system message, or with nothing for no system message"
            )
    return loaded
