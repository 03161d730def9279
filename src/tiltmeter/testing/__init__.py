"""For other people's tests: assertions on a model, and suites that plugins must pass."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiltmeter.testing._assertions import assert_passes
    from tiltmeter.testing._feature import check_feature
    from tiltmeter.testing._probe import check_probe
    from tiltmeter.testing._provider import check_provider
    from tiltmeter.testing._statistic import check_statistic

__all__ = ["assert_passes", "check_feature", "check_probe", "check_provider", "check_statistic"]

_HOMES = {
    "assert_passes": "tiltmeter.testing._assertions",
    "check_feature": "tiltmeter.testing._feature",
    "check_probe": "tiltmeter.testing._probe",
    "check_provider": "tiltmeter.testing._provider",
    "check_statistic": "tiltmeter.testing._statistic",
}


def __getattr__(name: str) -> Any:
    # Lazily: every pytest loads this package, also where no test uses it.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
