"""`-E key=value` of `--engine ray`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean

__all__ = ["RayOptions"]


@dataclass(frozen=True, slots=True)
class RayOptions:
    """How many workers there are, what each one takes of a machine, and how much it is given at a time."""

    workers: tuple[int, int] | None = None
    """Fewest and most workers; None: as many as fit into the cluster when it is opened."""
    cpus: float = 1.0
    """Cores of each worker; may be a fraction."""
    gpus: float = 0.0
    """GPUs of each worker; a fraction lets several workers share one."""
    batch: int | None = None
    """Prompts handed to a worker at a time; None: to begin with as many as it has connections, 16 at least, and more
    as long as they are soon answered."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> RayOptions:
        """From what the user wrote after -E. Raises InputError: an unknown option, or a value that is none of its kind."""
        names = sorted(one.name for one in fields(cls))
        values: dict[str, tuple[int, int] | float | int] = {}
        for name, value in given.items():
            if name not in names:
                raise InputError(f"-E {name}={value}: ray takes no such option: {did_you_mean(name, names)}")
            if name == "workers":
                values[name] = _bounds(value)
            elif name == "batch":
                values[name] = _whole(name, value)
            else:
                values[name] = _amount(name, value, zero=name == "gpus")
        return cls(**values)  # type: ignore[arg-type]


def _bounds(value: str) -> tuple[int, int]:
    least, dash, most = value.partition("-")
    bounds = _whole("workers", least, value), _whole("workers", most if dash else least, value)
    if bounds[0] > bounds[1]:
        raise InputError(f"-E workers={value}: the smaller number comes first, as in 2-8")
    return bounds


def _whole(name: str, value: str, shown: str | None = None) -> int:
    number = int(value) if value.isascii() and value.isdecimal() and len(value) < 7 else 0
    if number < 1:
        kind = "a whole number of 1 or more, or two as in 2-8" if name == "workers" else "a whole number of 1 or more"
        raise InputError(f"-E {name}={value if shown is None else shown}: give {kind}")
    return number


def _amount(name: str, value: str, *, zero: bool) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise InputError(f"-E {name}={value}: give a number above 0, which may be a fraction")
    if number > 1 and number != int(number):
        raise InputError(f"-E {name}={value}: above 1, Ray takes whole numbers only")
    return number
