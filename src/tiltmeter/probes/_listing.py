"""The probes that are available: the modules of `tiltmeter.probes._genderbench`, and those of plugins."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from tiltmeter._plugins.registry import Registry
from tiltmeter.errors import InputError

if TYPE_CHECKING:
    from tiltmeter.probes._parts import Probe

_FOLDER: Final = Path(__file__).parent / "_genderbench"
_MODULES: Final = sorted(path.stem for path in _FOLDER.glob("*.py") if path.stem != "__init__")
PROBES: Final = Registry(
    "probes", "probe", {name: f"tiltmeter.probes._genderbench.{name}:PROBE" for name in _MODULES}
)
"""Probes by name; a built-in probe has the name of its module."""


def load_probe(name: str) -> Probe:
    """Load the probe registered under `name`.

    Raises
    ------
    InputError
        There is no such probe, its module cannot be imported, the object is not a probe, or it has a
        different name.
    """
    from tiltmeter.probes._parts import Probe

    probe = PROBES.load(name)
    if not isinstance(probe, Probe):
        raise InputError(
            f"{PROBES.reference(name)} must be an instance of a subclass of tiltmeter.probes.Probe, not "
            f"{type(probe).__name__}"
        )
    if probe.name != name:
        raise InputError(
            f"the probe registered as {name!r} has the name {probe.name!r}; use the same name for both"
        )
    return probe
