"""The features we know, as data, and what a column of numbers means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal

__all__ = ["FEATURES", "Column", "Described", "Formula"]

Kind = Literal["classifier", "lexicon", "distance"]


@dataclass(frozen=True, slots=True)
class Column:
    """What one number of a text means."""

    name: str
    low: float | None
    """Smallest possible value; None: open."""
    high: float | None
    neutral: float | None
    """The value that means "no lean"; None where there is none."""
    calibrated: bool
    """Whether the baseline's value may be taken from it (not of distances: they are to the baseline)."""
    title: str


@dataclass(frozen=True, slots=True)
class Formula:
    """A column as `constant` plus the sum of weight x score of a label; no weights: it is computed in another way."""

    column: Column
    constant: float = 0.0
    weights: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Described:
    """A feature of the catalogue."""

    name: str
    title: str
    kind: Kind
    model: str | None
    """Folder or name of the hub of the model it is computed with; None: it needs none."""
    licence: str | None
    """Of the model or lexicon; None: its card has to be looked at."""
    formula: str
    labels: Mapping[str, Sequence[str]]
    """What else classifiers call the labels the formulas name."""
    formulas: Sequence[Formula]

    @property
    def columns(self) -> Sequence[Column]:
        """Its columns in order."""
        return [formula.column for formula in self.formulas]


def _formula(name: str, given: Mapping[str, Any]) -> Formula:
    low, high = given["range"]
    column = Column(name, low, high, given["neutral"], given.get("calibrated", True), given["title"])
    return Formula(column, float(given.get("constant", 0)), {label: float(weight) for label, weight in given.get("weights", {}).items()})


@cache
def _load() -> dict[str, Described]:
    import yaml

    content = yaml.safe_load(files("tiltmeter.measures.features").joinpath("features.yaml").read_text(encoding="utf-8"))
    return {
        name: Described(
            name=name,
            labels=given.get("labels", {}),
            formulas=[_formula(column, one) for column, one in given["columns"].items()],
            **{key: given[key] for key in ("title", "kind", "model", "licence", "formula")},
        )
        for name, given in content.items()
    }


FEATURES: Final[Mapping[str, Described]] = _load()
"""What can be measured, by name."""
