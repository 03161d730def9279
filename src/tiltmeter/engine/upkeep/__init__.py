"""Keeping journals in order: what one holds, what can go, moving it elsewhere, whether it is sound, and saving what is left.

print(stats("runs/journal.sqlite").models)
export_rows("runs/journal.sqlite", "answers.parquet")
import_rows("answers.parquet", "postgresql+psycopg://user@host/name")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiltmeter.engine.upkeep._check import Health, check
    from tiltmeter.engine.upkeep._export import export_rows
    from tiltmeter.engine.upkeep._import import Imported, import_rows
    from tiltmeter.engine.upkeep._living import Claimant
    from tiltmeter.engine.upkeep._open import opened_to_read
    from tiltmeter.engine.upkeep._prune import Pruned, prune
    from tiltmeter.engine.upkeep._repair import Repaired, repair
    from tiltmeter.engine.upkeep._rules import Problem
    from tiltmeter.engine.upkeep._stats import ModelStats, Stats, stats

__all__ = [
    "Claimant",
    "Health",
    "Imported",
    "ModelStats",
    "Problem",
    "Pruned",
    "Repaired",
    "Stats",
    "check",
    "export_rows",
    "import_rows",
    "opened_to_read",
    "prune",
    "repair",
    "stats",
]

_HOMES = {
    "_check": ("Health", "check"),
    "_export": ("export_rows",),
    "_import": ("Imported", "import_rows"),
    "_living": ("Claimant",),
    "_open": ("opened_to_read",),
    "_prune": ("Pruned", "prune"),
    "_repair": ("Repaired", "repair"),
    "_rules": ("Problem",),
    "_stats": ("ModelStats", "Stats", "stats"),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
