"""Prompt wordings, which the user can choose or override (`-P wording=NAME`, `all`, or a YAML file)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import polars as pl
from polars import Expr, col, lit

from tiltmeter._files.yaml import read_yaml
from tiltmeter.errors import InputError, check_known, did_you_mean

Wording = Mapping[str, str]
"""The templates of one wording, by role ("prompt", "persona", ...)."""

_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")


def placeholders(template: str) -> set[str]:
    """Return the names in braces in a template."""
    return set(_PLACEHOLDER.findall(template))


def fill(template: str, fields: Mapping[str, Expr] | None = None) -> Expr:
    """Return an expression that replaces each `{name}` in a template.

    It is replaced by the expression of that name among the fields, otherwise by the column of that name.
    """
    expressions = fields or {}
    pieces = _PLACEHOLDER.split(template)  # text and names alternate
    parts: list[Expr] = []
    for place, piece in enumerate(pieces):
        is_name = place % 2 == 1
        parts.append(expressions.get(piece, col(piece)) if is_name else lit(piece))
    return pl.concat_str(parts)


def fill_template(template: str, **values: str) -> str:
    """Replace each `{name}` in a template in a single pass, so that braces within values are preserved."""
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), template)


def _read_file(path: Path) -> dict[str, dict[str, dict[str, str]]]:
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


_read_once = cache(_read_file)
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
    of_home: Mapping[str, Mapping[str, Wording]]
    of_home = _read_once(home) if isinstance(home, Path) else {probe: home}
    if probe not in of_home:
        raise InputError(
            f"{home} has no wordings for the probe {probe!r}; add an entry '{probe}: {{plain: {{prompt: "
            "...}}'"
        )
    built_in = of_home[probe]
    first: dict[str, Wording] = dict(list(built_in.items())[:1])
    if choice is None:
        return first
    if choice == "all":
        return dict(built_in)
    if choice in built_in:
        return {choice: built_in[choice]}
    path = Path(choice)
    by_probe = {**(_read_once(others) if others else {}), **of_home}
    if path.suffix not in (".yaml", ".yml"):
        if any(choice in variants for variants in by_probe.values()):
            return first  # another probe of the suite has this wording; this probe uses its first one
        raise InputError(
            f"unknown wording {choice!r}: {did_you_mean(choice, ['dealt', 'all', *built_in])}; or give a "
            "YAML file"
        )
    in_file = _read_file(path)
    for name in in_file:
        check_known(name, by_probe, f"{path}: unknown probe {name!r}")
    for name, templates in in_file.get(probe, {}).items():
        check_templates(str(path), f"{probe}.{name}", templates, list(built_in.values()))
    return dict(in_file.get(probe, first))


def check_templates(path: str, place: str, templates: Wording, models: Sequence[Wording]) -> None:
    """Check the templates of a wording against those of the built-in wordings (`models`).

    All templates must be present, with the placeholders that the built-in ones have in common, and without
    unknown ones.

    Raises
    ------
    InputError
        A template or a placeholder is missing or unknown.
    """
    roles = models[0]
    missing = set(roles) - set(templates)
    if missing:
        raise InputError(
            f"{path}: {place} is missing the template {sorted(missing)[0]!r}; required: {', '.join(roles)}"
        )
    unknown_roles = set(templates) - set(roles)
    if unknown_roles:
        raise InputError(
            f"{path}: {place} has an unknown template {sorted(unknown_roles)[0]!r}; required: "
            f"{', '.join(roles)}"
        )
    possible = set().union(*(placeholders(text) for model in models for text in model.values()))
    for role, text in templates.items():
        of_models = [placeholders(model[role]) for model in models]
        _check_placeholders(f"{path}: {place}.{role}", placeholders(text), of_models, possible)


def _check_placeholders(
    place: str, names: set[str], of_models: Sequence[set[str]], possible: set[str]
) -> None:
    """Check the names of the placeholders of one template.

    `of_models` are the names in the same template of each built-in wording, and `possible` those of all
    templates.
    """
    in_any = set().union(*of_models)
    lacking = set.intersection(*of_models) - names
    if lacking:
        raise InputError(f"{place} must contain the placeholder {{{sorted(lacking)[0]}}}")
    if not names and in_any:
        raise InputError(f"{place} must contain one of the placeholders {_braced(in_any)}")
    unknown = names - possible
    if unknown:
        raise InputError(
            f"{place} has an unknown placeholder {{{sorted(unknown)[0]}}}; known: {_braced(possible)}"
        )


def _braced(names: set[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in sorted(names))
