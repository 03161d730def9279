"""The wordings of prompts: data that a user can override (`-P wording=NAME`, `all`, or a YAML file)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
from polars import Expr, col, lit

from tiltmeter.errors import InputError
from tiltmeter.registry import check_known, did_you_mean
from tiltmeter.yaml_files import read_yaml

Wording = Mapping[str, str]
"""Templates of one wording by role ("prompt", "persona", ...)."""

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def placeholders(template: str) -> set[str]:
    """Names in braces."""
    return set(_PLACEHOLDER.findall(template))


def fill(template: str, fields: Mapping[str, Expr] | None = None) -> Expr:
    """The template with each `{name}` replaced by the column (or expression) of that name, as one expression."""
    pieces = _PLACEHOLDER.split(template)  # text and names in turn
    known = fields or {}
    return pl.concat_str([known.get(piece, col(piece)) if i % 2 else lit(piece) for i, piece in enumerate(pieces)])


def fill_template(template: str, **values: str) -> str:
    """The template with each `{name}` replaced, all at once, so that braces in a value are left alone."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), template)


def _read(path: Path) -> dict[str, dict[str, dict[str, str]]]:
    loaded: Any = read_yaml(path, "wordings in")
    if not isinstance(loaded, dict):
        raise InputError(f"{path}: expected a mapping of probe names to wordings")
    for probe, variants in loaded.items():
        if not isinstance(probe, str) or not isinstance(variants, dict) or not variants:
            raise InputError(f"{path}: {probe}: expected named wordings, for instance '{probe}: {{mine: {{prompt: ...}}}}'")
        for name, templates in variants.items():
            texts = [*templates, *templates.values()] if isinstance(templates, dict) else []
            if not isinstance(name, str) or not texts or not all(isinstance(text, str) for text in texts):
                raise InputError(f"{path}: {probe}.{name}: expected templates by role, each a text")
    return loaded


_read_once = cache(_read)
"""For files of a package; a file of the user's may have changed since."""


def wordings(probe: str, choice: str | None, home: Path | Mapping[str, Wording], others: Path | None = None) -> dict[str, Wording]:
    """The wordings to use for a probe (or whatever else has prompts of several wordings).

    Parameters
    ----------
    probe
        Name of the probe.
    choice
        None: the first wording of its home. A name: that one. "all": every one. A path to a YAML file with the same shape:
        all wordings it gives for the probe (those of its home where it gives none).
    home
        The file `wordings.yaml` beside the probe's module, or the wordings of the probe by name.
    others
        The file of the suite it may be run with, whose names are known there too.

    Raises
    ------
    InputError
        Unknown name, unreadable file, or a template that lacks a role or placeholder of the home's, or has an unknown one.
    """
    at_home: Mapping[str, Mapping[str, Wording]] = _read_once(home) if isinstance(home, Path) else {probe: home}
    if probe not in at_home:
        raise InputError(f"{home} has no wordings for the probe {probe!r}; add an entry '{probe}: {{plain: {{prompt: ...}}}}'")
    built_in = at_home[probe]
    first: dict[str, Wording] = dict(list(built_in.items())[:1])
    if choice is None:
        return first
    if choice == "all":
        return dict(built_in)
    if choice in built_in:
        return {choice: built_in[choice]}
    path = Path(choice)
    everyone = {**(_read_once(others) if others else {}), **at_home}
    if path.suffix not in (".yaml", ".yml"):
        known = {name for variants in everyone.values() for name in variants}
        if choice in known:  # a suite: this probe has no wording of that name, so it keeps its first
            return first
        raise InputError(f"unknown wording {choice!r}: {did_you_mean(choice, [*built_in, 'all'])}; or give a YAML file")
    own = _read(path)
    for name in own:
        check_known(name, everyone, f"{path}: unknown probe {name!r}")
    for name, templates in own.get(probe, {}).items():
        check_templates(str(path), f"{probe}.{name}", templates, list(built_in.values()))
    return dict(own.get(probe, first))


def check_templates(path: str, place: str, templates: Wording, models: Sequence[Wording]) -> None:
    """Each template of the built-in wordings must be there, with the placeholders all of them have in it, and no unknown ones."""
    roles = models[0]
    if missing := set(roles) - set(templates):
        raise InputError(f"{path}: {place} lacks the template {sorted(missing)[0]!r}; it needs {', '.join(roles)}")
    if extra := set(templates) - set(roles):
        raise InputError(f"{path}: {place} has an unknown template {sorted(extra)[0]!r}; it needs {', '.join(roles)}")
    known = set().union(*(placeholders(text) for model in models for text in model.values()))
    for role, text in templates.items():
        used = placeholders(text)
        of_role = [placeholders(model[role]) for model in models]
        if lacking := set.intersection(*of_role) - used:
            raise InputError(f"{path}: {place}.{role} must hold the placeholder {{{sorted(lacking)[0]}}}")
        if not used and set.union(*of_role):
            raise InputError(f"{path}: {place}.{role} must hold one of the placeholders {_braced(set.union(*of_role))}")
        if unknown := used - known:
            raise InputError(f"{path}: {place}.{role} has an unknown placeholder {{{sorted(unknown)[0]}}}; known: {_braced(known)}")


def _braced(names: set[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in sorted(names))
