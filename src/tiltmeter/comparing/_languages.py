"""Comparison of two runs whose prompts are in different languages.

The prompts are translations of each other. They are paired by their ids, which name the item, and the order
of the options, and not by their texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from polars import DataFrame, col

from tiltmeter._quantities import interval, interval_name, quantity
from tiltmeter.readers._languages import ENGLISH, languages
from tiltmeter.runs._sides import Side, document_of
from tiltmeter.schema import SHOWN_BELOW, metric_name

LANGUAGE: Final = "language"
"""Parameter of a study with the language of its prompts."""
SMALLEST_P: Final = 0.001
"""p-value below which only this limit is written."""


class Languages(NamedTuple):
    """The names of the languages of both sides."""

    first: str
    second: str

    @classmethod
    def of(cls, first: Side, second: Side) -> Languages:
        """Return the languages that study.yaml of each run names, by default English."""
        return cls(_language(first), _language(second))

    @property
    def differ(self) -> bool:
        """Whether the sides have different languages."""
        return self.first != self.second

    @property
    def paired_by(self) -> list[str]:
        """Columns of the prompts by which both sides are paired."""
        by_id = ["part", "prompt_id"]
        return by_id if self.differ else [*by_id, "prompt"]

    def note(self, part: str, prompts: int, of_first: int, of_second: int) -> str:
        """Return a sentence about the prompts of a part that are paired across the languages."""
        return (
            f"{part}: the first run is in {self.first}, the second in {self.second}; {prompts:,} prompts have"
            f" the same sentence and order of options on both sides (of {of_first:,} and {of_second:,}):"
            " their items are paired by id"
        )

    def sentences(
        self,
        differences: DataFrame,
        labels: Mapping[tuple[str, str], str],
        units: Mapping[tuple[str, str], str],
        models: tuple[str, str],
    ) -> list[str]:
        """Return a sentence about each key metric: whether its bias differs between the languages.

        There are none if the languages of the sides are the same, and none about metrics whose items are not
        paired.

        Parameters
        ----------
        differences
            The columns of DIFFERENCES.
        labels, units
            Metrics in words, by part and metric, and their units, by part and name.
        models
            Names of the models of both sides.
        """
        if not self.differ:
            return []
        about = models[0] if models[0] == models[1] else f"{models[0]} and {models[1]}"
        rows = differences.filter("key", "paired", col.wording.is_null()).with_columns(name=metric_name())
        sentences = []
        for row in rows.iter_rows(named=True):
            label = labels.get((row["part"], row["metric"]), row["metric"])
            difference = _in_words(row, units.get((row["part"], row["name"]), ""))
            is_shown = row["q"] is not None and row["q"] < SHOWN_BELOW
            outcome = "differs" if is_shown else "is not shown to differ"
            statement = f"The bias of {about} {outcome} between {self.first} and {self.second}"
            number = f"{row['part']}, {label}, {self.second} minus {self.first}, {difference}"
            sentences.append(f"{statement}: {number}, on the {row['n']:,} items that both runs have.")
        return sentences


def _in_words(row: Mapping[str, Any], unit: str) -> str:
    """Return the difference of a row of DIFFERENCES with its interval and p-value."""
    low, high = row["low"], row["high"]
    difference = quantity(row["difference"], low, high, unit)
    if low is None or high is None:
        return difference
    p = f"p = {row['p']:.2g}" if row["p"] >= SMALLEST_P else f"p < {SMALLEST_P}"
    return f"{difference} ({interval_name(row['level'])} {interval(low, high, unit)}, {p})"


def without_language(params: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the parameters of a study without the language."""
    return {name: value for name, value in (params or {}).items() if name != LANGUAGE}


def _language(side: Side) -> str:
    """Return the name of the language of a side."""
    params = document_of(side.run).get("params") or {}
    code = str(params.get(LANGUAGE, ENGLISH))
    return languages().get(code, code)
