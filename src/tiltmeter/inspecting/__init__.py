"""All probes as Inspect tasks: `inspect eval tiltmeter/gest --model ...` (requires the extra `inspect`).

Inspect finds this module through its entry point. If Inspect is installed, importing the module registers one
task per probe.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tiltmeter.errors import InputError

if TYPE_CHECKING:
    from tiltmeter.inspecting._tasks import probe_task

__all__ = ["probe_task"]

INSTALLED: bool = find_spec("inspect_ai") is not None

if INSTALLED:
    import_module("tiltmeter.inspecting._tasks")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if not INSTALLED:
        raise InputError(
            'Inspect tasks require a package that is not installed: pip install "tiltmeter[inspect]"'
        )
    return getattr(import_module("tiltmeter.inspecting._tasks"), name)
