"""Names for a chart's axes and keys."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tiltmeter.reports.figures._figure import plain

__all__ = ["file_name", "letters", "short_names"]


def short_names(names: Iterable[str], limit: int = 30) -> dict[str, str]:
    """Each name, short and on one line; no two alike."""
    shown: dict[str, str] = {}
    for name in names:
        if name not in shown:
            short = plain(name, limit)
            shown[name] = short if short not in shown.values() else f"{plain(name, limit - 5)} ({len(shown) + 1})"
    return shown


def letters(names: Iterable[str]) -> dict[str, str]:
    """A letter for each name: A to Z, then AA to AZ and so on."""
    found: dict[str, str] = {}
    for i, name in enumerate(dict.fromkeys(names)):
        found[name] = (chr(ord("A") + i // 26 - 1) if i >= 26 else "") + chr(ord("A") + i % 26)
    return found


def file_name(*parts: str) -> str:
    """Parts of a figure's name, joined: lower-case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")
