"""Two runs compared: what differs, how surely; and within one run, what hangs on the wording or on chance."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiltmeter.comparing._compare import Comparison, compare
    from tiltmeter.comparing._judged import DIFFERENCES, VERDICTS, judged_differences
    from tiltmeter.comparing._repeats import STABILITY, repeat_stability
    from tiltmeter.comparing._wordings import WORDINGS, wording_sensitivity
    from tiltmeter.comparing._worse import MARGIN

__all__ = [
    "DIFFERENCES",
    "MARGIN",
    "STABILITY",
    "VERDICTS",
    "WORDINGS",
    "Comparison",
    "compare",
    "judged_differences",
    "repeat_stability",
    "wording_sensitivity",
]

_HOMES = {
    "_compare": ("Comparison", "compare"),
    "_judged": ("DIFFERENCES", "VERDICTS", "judged_differences"),
    "_repeats": ("STABILITY", "repeat_stability"),
    "_wordings": ("WORDINGS", "wording_sensitivity"),
    "_worse": ("MARGIN",),
}


def __getattr__(name: str) -> Any:
    # Lazily: `tiltmeter --help` must not import Polars.
    for module, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
