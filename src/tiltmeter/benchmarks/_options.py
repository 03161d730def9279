"""Options of benchmark studies (`-P key=value`), and the roles and templates of their prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from tiltmeter._files.yaml import read_yaml
from tiltmeter.benchmarks._definitions import DEFAULT_STATISTICS, find_statistics
from tiltmeter.benchmarks._tables import NO_ROLE
from tiltmeter.errors import InputError, check_known
from tiltmeter.study import Settings

PARAMS: Mapping[str, str] = {
    "benchmark": "benchmark file, built by `tiltmeter build` or written by hand (Parquet, CSV, JSON)",
    "features": (
        "comma-separated features to measure: names (tiltmeter list features), NAME=MODEL, or "
        "MODULE:FUNCTION [default: vader]"
    ),
    "roles": (
        "roles for the prompts: comma-separated names of the study's roles, or a YAML file "
        "(NAME: system message)"
    ),
    "wording": (
        "YAML file with prompt templates (asking: {NAME: {continuation: ..., question: ..., given: ...}}), "
        "each text with {prompt}; each name is a template"
    ),
    "group": (
        "comma-separated columns that define the groups: concept, domain, keyword, source_tag, "
        "branched_from [default: concept]"
    ),
    "clusters": (
        "number of topic clusters of the answers, found with sentence embeddings, or silhouette to choose it "
        "[default: none]"
    ),
    "encoder": "sentence encoder of the clusters: all-MiniLM-L6-v2, a folder, or a name on the hub",
    "also": (
        "comma-separated further measures: parity (of the first feature between counterfactual answers), "
        "overlap (BLEU, ROUGE-L), cosine, toxicity (of 25 answers per prompt: --repeats 25), words "
        "(co-occurrence with the words of groups)"
    ),
    "statistics": (
        "comma-separated summary statistics to compare (tiltmeter list statistics) "
        "[default: those of the definition]"
    ),
}
VALID_NAMES: Mapping[str, tuple[str, ...]] = {
    "features": (),
    "group": ("concept", "domain", "keyword", "source_tag", "branched_from"),
    "also": ("parity", "overlap", "cosine", "toxicity", "words"),
    "statistics": (),
}
"""Parameters that are comma-separated names, with the valid names (empty: they are checked elsewhere)."""
DEFAULT_PARAMS: Mapping[str, str] = {
    "features": "vader",
    "group": "concept",
    "encoder": "all-MiniLM-L6-v2",
}
DEFAULT_TEMPLATES: Final = Path(__file__).with_name("wordings") / "asking.yaml"

Roles = Mapping[str, str | None]
"""Name -> system message (None: no system message)."""
Templates = Mapping[str, Mapping[str, str]]
"""Name -> kind of row ("continuation", "question", "given") -> text with `{prompt}`."""


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
    params = {**DEFAULT_PARAMS, **settings.params}
    names = {key: _names_in(key, params[key], valid) for key, valid in VALID_NAMES.items() if key in params}
    if "statistics" in params:
        try:  # fail before any request
            find_statistics(names["statistics"])
        except InputError as error:
            raise InputError(f"-P statistics={params['statistics']}: {error}") from None
    return BenchmarkOptions(
        features=names["features"],
        groups=names["group"],
        clusters=_clusters(params.get("clusters")),
        encoder=params["encoder"],
        also=names.get("also", ()),
        statistics=names.get("statistics", DEFAULT_STATISTICS),
    )


def _clusters(text: str | None) -> int | Literal["silhouette"] | None:
    if text is None:
        return None
    if text == "silhouette":
        return "silhouette"
    if not text.isdecimal() or int(text) < 2:
        raise InputError(
            f"-P clusters={text}: give a number of clusters of at least 2, "
            "or silhouette to choose it automatically"
        )
    return int(text)


def _names_in(key: str, text: str, valid: Sequence[str]) -> tuple[str, ...]:
    """Split a text into comma-separated names and check them.

    Each name is one of `valid`, unless that is empty, and is listed once.
    """
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise InputError(f"-P {key}= is empty; name at least one")
    for name in names:
        if valid:
            check_known(name, valid, f"-P {key}={text}")
        if names.count(name) > 1:
            raise InputError(f"-P {key}={text}: {name} is listed twice")
    return names


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
        templates = wordings("asking", params.get("wording"), DEFAULT_TEMPLATES)
    return Configurations(_chosen_roles(roles or {NO_ROLE: None}, params.get("roles")), templates)


def _chosen_roles(roles: Roles, selection: str | None) -> Roles:
    """Return the roles that the user selected by name, or read them from the user's file."""
    from tiltmeter._files.paths import is_file

    if selection is None:
        return roles
    if selection.endswith((".yaml", ".yml")):
        if not is_file(selection):
            raise InputError(f"-P roles={selection}: there is no such file")
        return read_roles(selection)
    names = list(dict.fromkeys(name.strip() for name in selection.split(",")))
    for name in names:
        check_known(name, roles, f"-P roles={selection}", " (or give a YAML file with roles)")
    return {name: roles[name] for name in names}


def read_roles(path: str) -> Roles:
    """Read roles from a YAML file; raises InputError if it has other content."""
    roles = read_yaml(Path(path), "roles in")
    if not isinstance(roles, dict) or not roles:
        raise InputError(
            f"-P roles={path}: expected names of roles with system messages, "
            "for example 'assistant: You are helpful.'"
        )
    for name, text in roles.items():
        if not isinstance(name, str) or not isinstance(text, str | None):
            raise InputError(
                f"-P roles={path}: {name}: expected a name with a system message, "
                "or with nothing for no system message"
            )
    return roles
