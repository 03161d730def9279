"""Which templates the stories of a setting are asked with: the grid's own, a user's file, or the built-in wordings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tiltmeter._wording import Wording, placeholders, wordings
from tiltmeter.associations.grid._grid import BUILT_IN_LANGUAGE, Grid
from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean

__all__ = ["OPENING", "ROLES", "SOURCE", "TARGET", "templates_of"]

SOURCE, TARGET, OPENING = "open_box_source", "open_box_target", "open_box_opening"
ROLES: Mapping[str, tuple[str, ...]] = {
    "two": ("two",),
    "single": ("single",),
    "balanced": ("balanced",),
    "negative": ("negative",),
    "open_box": (SOURCE, TARGET, OPENING),
}
"""The templates each setting uses."""

_BOTH = frozenset({"first", "second", "location"})
_HOLDS: Mapping[str, frozenset[str]] = {
    "two": _BOTH,
    "single": frozenset({"first", "location"}),
    "balanced": _BOTH,
    "negative": _BOTH,
    SOURCE: _BOTH,
    TARGET: frozenset({"vectors"}),
    OPENING: frozenset(),
}
"""The placeholders of each template: all of them, and no others."""

_HOME = Path(__file__).parent.with_name("wordings.yaml")
_SUBJECT = "stories"
_OF_GRID = "own"


def templates_of(grid: Grid, setting: str, choice: str | None) -> dict[str, Wording]:
    """The templates of a setting, by the name of the wording.

    Parameters
    ----------
    setting
        One of ROLES.
    choice
        `-P wording=`: the name of a built-in wording, or a file; otherwise the grid's own wording is used where it has one.

    Raises
    ------
    InputError
        A template is missing or lacks a placeholder, or the grid is in another language than the wording.
    """
    built_in = wordings(_SUBJECT, "all", _HOME)
    chosen = wordings(_SUBJECT, choice, _HOME)
    unsaid = choice not in built_in and all(built_in.get(name) == templates for name, templates in chosen.items())
    if grid.wording and unsaid:
        for role in grid.wording:
            if role not in _HOLDS:
                raise InputError(f"{grid.place}: wording: unknown template {role!r}: {did_you_mean(role, list(_HOLDS))}")
        chosen, place = {_OF_GRID: grid.wording}, f"{grid.place}: wording"
    elif unsaid and grid.language != BUILT_IN_LANGUAGE:
        raise InputError(
            f"{grid.place}: the language is {grid.language!r}, but the built-in wordings are {BUILT_IN_LANGUAGE!r}; "
            f"add the key 'wording' with the template {ROLES[setting][0]!r}, or give -P wording=FILE"
        )
    else:
        place = f"{choice}: {_SUBJECT}"
    for name, templates in chosen.items():
        for role in ROLES[setting]:
            _check(place if name == _OF_GRID else f"{place}.{name}", role, templates)
    return chosen


def _check(place: str, role: str, templates: Wording) -> None:
    if role not in templates:
        raise InputError(f"{place} lacks the template {role!r}, which this setting is asked with")
    template, needed = templates[role], _HOLDS[role]
    used = placeholders(template)
    if lacking := needed - used:
        raise InputError(f"{place}.{role} must hold the placeholder {{{min(lacking)}}}")
    if unknown := used - needed:
        known = ", ".join(f"{{{one}}}" for one in sorted(needed)) or "none"
        raise InputError(f"{place}.{role} has the placeholder {{{min(unknown)}}}; it can have: {known}")
    if role == TARGET and template.count("{vectors}") != 1:
        raise InputError(f"{place}.{role} must hold the placeholder {{vectors}} exactly once")
