"""What can be set on a simulated model, and the presets."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean

__all__ = ["HARMS", "OPTIONS", "PRESETS", "Dials", "parse"]

HARMS = ("outcome_disparity", "stereotypical_reasoning", "representational_harms")
"""The harms that have a bias dial each; also the keys of `Dials.mapping`."""

PRESETS: Mapping[str, float] = {"fair": 0.0, "mild": 0.08, "biased": 0.25}
"""Names of ready-made models and the bias of all three harms."""

OPTIONS = ("bias", *(f"bias.{harm}" for harm in HARMS), "refusal", "unreadable", "verbosity", "seed", "latency")
"""Keys of `-M key=value`."""

_MAX_LATENCY = 600.0


@dataclass(frozen=True, slots=True)
class Dials:
    """Everything that decides what a simulated model says.

    Parameters
    ----------
    outcome_disparity, stereotypical_reasoning, representational_harms
        Bias per harm, 0 (none) to 1: the value planted in each key metric of that harm, as far as its range allows.
    refusal, unreadable
        Shares of answers, 0 to 1, together at most 1.
    verbosity
        0 terse, 1 natural, 2 wordy with Markdown and reasoning.
    seed
        Another seed gives other, independent answers.

    Raises
    ------
    InputError
        A value out of its range.
    """

    outcome_disparity: float = 0.0
    stereotypical_reasoning: float = 0.0
    representational_harms: float = 0.0
    refusal: float = 0.0
    unreadable: float = 0.0
    verbosity: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        for name in (*HARMS, "refusal", "unreadable"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise InputError(f"the dial {name} of a simulated model must lie between 0 and 1, not {value}")
        if self.refusal + self.unreadable > 1:
            raise InputError(f"the dials refusal ({self.refusal}) and unreadable ({self.unreadable}) may together be at most 1")
        if self.verbosity not in (0, 1, 2):
            raise InputError(f"the dial verbosity of a simulated model is 0 (terse), 1 (normal) or 2 (wordy), not {self.verbosity}")

    def mapping(self) -> dict[str, float]:
        """Dial by name, as a study's parts take them (`Part.simulate`, `Part.truth`)."""
        return {dial.name: getattr(self, dial.name) for dial in fields(self)}


def _number(key: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(
            f"-M {key}={value}: a simulated model takes a number here, for instance -M {key}={'2' if key == 'seed' else '0.1'}"
        )
    return number


def _whole(key: str, value: Any) -> int:
    if str(value).isdigit():
        return int(value)  # not by way of a float, which would round long seeds
    number = _number(key, value)
    if number != int(number):
        raise InputError(f"-M {key}={value}: a simulated model takes a whole number here")
    return int(number)


def parse(model: str, options: Mapping[str, Any]) -> tuple[Dials, float]:
    """Dials and latency (seconds) of the preset `model` with the `-M` options applied; a harm's own key wins over `bias`.

    Raises
    ------
    InputError
        Unknown preset or option, or a value that is no number or out of range.
    """
    if model not in PRESETS:
        hint = re.sub(r"\b(fair|mild|biased)\b", r"sim/\1", did_you_mean(model, list(PRESETS)))
        raise InputError(f"unknown simulated model 'sim/{model}': {hint}")
    for key in options:
        if key not in OPTIONS:
            raise InputError(f"-M {key}: a simulated model has no such dial; {did_you_mean(key, OPTIONS)}")
    bias = _number("bias", options.get("bias", PRESETS[model]))
    values: dict[str, Any] = {harm: _number(f"bias.{harm}", options.get(f"bias.{harm}", bias)) for harm in HARMS}
    values |= {key: _number(key, options[key]) for key in ("refusal", "unreadable") if key in options}
    values |= {key: _whole(key, options[key]) for key in ("verbosity", "seed") if key in options}
    latency = _number("latency", options.get("latency", 0.0))
    if not 0 <= latency <= _MAX_LATENCY:
        raise InputError(f"-M latency={options['latency']}: give seconds between 0 and {_MAX_LATENCY:.0f}")
    return Dials(**values), latency
