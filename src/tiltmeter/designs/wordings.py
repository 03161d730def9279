"""Prompt wordings, which the user can choose or override (`-P wording=NAME`, `all`, or a YAML file)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
from polars import Expr, col, lit

from tiltmeter.errors import InputError, check_known, did_you_mean
from tiltmeter.files.yaml import read_yaml

Wording = Mapping[str, str]
"""The templates of one wording, by role ("prompt", "persona", ...)."""

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def placeholders(template: str) -> set[str]:
    """Return the names in braces in a template."""
    return set(_PLACEHOLDER.findall(template))


def fill(template: str, fields: Mapping[str, Expr] | None = None) -> Expr:
    """Return an expression that replaces each `{name}` in a template by the column (or expression) of that name."""
    pieces = _PLACEHOLDER.split(template)  # alternating text and names
    known = fields or {}
    return pl.concat_str(
        [known.get(piece, col(piece)) if i % 2 else lit(piece) for i, piece in enumerate(pieces)]
    )


def fill_template(template: str, **values: str) -> str:
    """Replace each `{name}` in a template in a single pass, so that braces within values are preserved."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), template)


def _read(path: Path) -> dict[str, dict[str, dict[str, str]]]:
    loaded: Any = read_yaml(path, "wordings in")
    if not isinstance(loaded, dict):
        raise InputError(f"{path}: expected a mapping of probe names to wordings")
    for probe, variants in loaded.items():
        if not isinstance(probe, str) or not isinstance(variants, dict) or not variants:
            raise InputError(
                f"{path}: {probe}: expected named wordings, such as '{probe}: {{mine: {{prompt: ...}}}}'"
            )
        for name, templates in variants.items():
            texts = [*templates, *templates.values()] if isinstance(templates, dict) else []
            if not isinstance(name, str) or not texts or not all(isinstance(text, str) for text in texts):
                raise InputError(f"{path}: {probe}.{name}: expected templates by role, each a text")
    return loaded


_read_once = cache(_read)
"""Cached reader for files of the package; user files are read again, because they may have changed."""


def wordings(
    probe: str, choice: str | None, home: Path | Mapping[str, Wording], others: Path | None = None
) -> dict[str, Wording]:
    """Return the wordings to use for a probe (or another source of prompts with several wordings).

    Parameters
    ----------
    probe
        Name of the probe.
    choice
        None: the first built-in wording. A name: that wording. "all": all built-in wordings. The path of a
        YAML file of the same shape: the wordings that it defines for the probe, or the first built-in wording
        if it defines none.
    home
        The file `wordings.yaml` next to the probe's module, or the built-in wordings by name.
    others
        The wordings file of the suite that the probe may be run with; the names in it are accepted as well.

    Raises
    ------
    InputError
        The name is unknown, the file cannot be read, or a template has missing or unknown roles or
        placeholders.
    """
    at_home: Mapping[str, Mapping[str, Wording]] = (
        _read_once(home) if isinstance(home, Path) else {probe: home}
    )
    if probe not in at_home:
        raise InputError(
            f"{home} has no wordings for the probe {probe!r}; add an entry '{probe}: {{plain: {{prompt: "
            "...}}'"
        )
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
        if choice in known:  # another probe of the suite has this wording; this probe uses its first one
            return first
        raise InputError(
            f"unknown wording {choice!r}: {did_you_mean(choice, ['dealt', 'all', *built_in])}; or give a "
            "YAML file"
        )
    own = _read(path)
    for name in own:
        check_known(name, everyone, f"{path}: unknown probe {name!r}")
    for name, templates in own.get(probe, {}).items():
        check_templates(str(path), f"{probe}.{name}", templates, list(built_in.values()))
    return dict(own.get(probe, first))


def check_templates(path: str, place: str, templates: Wording, models: Sequence[Wording]) -> None:
    """Check that all templates of the built-in wordings are present with their common placeholders, and no unknown ones."""
    roles = models[0]
    if missing := set(roles) - set(templates):
        raise InputError(
            f"{path}: {place} is missing the template {sorted(missing)[0]!r}; required: {', '.join(roles)}"
        )
    if extra := set(templates) - set(roles):
        raise InputError(
            f"{path}: {place} has an unknown template {sorted(extra)[0]!r}; required: {', '.join(roles)}"
        )
    known = set().union(*(placeholders(text) for model in models for text in model.values()))
    for role, text in templates.items():
        used = placeholders(text)
        of_role = [placeholders(model[role]) for model in models]
        if lacking := set.intersection(*of_role) - used:
            raise InputError(f"{path}: {place}.{role} must contain the placeholder {{{sorted(lacking)[0]}}}")
        if not used and set.union(*of_role):
            raise InputError(
                f"{path}: {place}.{role} must contain one of the placeholders {_braced(set.union(*of_role))}"
            )
        if unknown := used - known:
            raise InputError(
                f"{path}: {place}.{role} has an unknown placeholder {{{sorted(unknown)[0]}}}; known: "
                f"{_braced(known)}"
            )


def _braced(names: set[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in sorted(names))
