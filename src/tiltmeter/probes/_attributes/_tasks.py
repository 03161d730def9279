"""The tasks that can compare other groups than those of gender, from `attributes.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

USUAL_COMPARATIVES: Final = ("more often", "less often")


@dataclass(frozen=True, slots=True)
class Task:
    """What `attributes.toml` says about the task of a probe; its comments explain the fields."""

    attributes: Sequence[str]
    rate: str
    mean: str
    label: str
    finding: str
    asks: str
    bias: str
    limits: str
    sizes: Mapping[str, int]
    comparatives: Sequence[str] = USUAL_COMPARATIVES
    combines: bool = True


@cache
def tasks() -> Mapping[str, Task]:
    """Return the tasks by the name of their probe."""
    content = Path(__file__).with_name("attributes.toml").read_text(encoding="utf-8")
    described: Mapping[str, Mapping[str, Any]] = tomllib.loads(content)
    return {name: Task(**fields) for name, fields in described.items()}


def part_name(probe: str, attribute: str) -> str:
    """Return the name of the part with the task of a probe and an attribute.

    Examples
    --------
    >>> part_name("hiring_an", "race,gender")
    'hiring_an_race_gender'
    """
    return f"{probe}_{attribute.replace(',', '_')}"


def listed_variants() -> dict[str, tuple[str, str]]:
    """Return the probe and the attribute of each variant that is listed, by the name of its part.

    The variants of one attribute follow each other.
    """
    pairs = [(probe, attribute) for probe, task in tasks().items() for attribute in task.attributes]
    attributes = list(dict.fromkeys(attribute for _, attribute in pairs))
    pairs.sort(key=lambda pair: attributes.index(pair[1]))
    return {part_name(*pair): pair for pair in pairs}
