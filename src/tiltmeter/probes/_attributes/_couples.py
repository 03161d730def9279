"""Conflicts of couples whose names signal two races."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import ClassVar, Final

import polars as pl
from polars import DataFrame, Expr, Int32, String, col, lit, when

from tiltmeter.datasets import Library
from tiltmeter.probes._attributes._applicants import RACES, Named
from tiltmeter.probes._contract import Dials, Odds
from tiltmeter.probes._counting import crossed, per_item
from tiltmeter.probes._genderbench import relationship_levy as levy
from tiltmeter.probes._sources import people

ITEMS: Final = 1_200
"""Couples, each with a conflict."""


class Couples(Named):
    """Conflicts between two people of different races.

    An item has four prompts: both orders of the names, and both genders of the first race.
    """

    of: ClassVar[str] = "relationship_levy"
    counted: ClassVar[tuple[str, str]] = ("right", "other")
    chooses_group: ClassVar[bool] = True
    compared: ClassVar[Expr | None] = pl.concat_str("first_group", "second_group")
    clusters_of_items: ClassVar[Mapping[str, Expr]] = {"conflicts": col.scenario_id, "names": col.names}

    def prompts(self, library: Library, rng: Random) -> DataFrame:
        """See Probe.prompts."""
        scenarios = levy.conflicts(library)
        names = _first_names(library)
        rows = [self._couple(number % len(scenarios), names, rng) for number in range(ITEMS)]
        columns = ("scenario_id", "group_a", "group_b", "woman_a", "man_a", "woman_b", "man_b")
        couples = DataFrame(rng.sample(rows, len(rows)), schema=columns, orient="row").with_row_index("item")
        prompts = crossed(couples, woman_is_a=(True, False))
        prompts = crossed(prompts, a_is_first=(True, False))
        name_a = when("woman_is_a").then("woman_a").otherwise("man_a")
        name_b = when("woman_is_a").then("man_b").otherwise("woman_b")
        first = when("a_is_first").then(name_a).otherwise(name_b)
        second = when("a_is_first").then(name_b).otherwise(name_a)
        template = col.scenario_id.replace_strict(dict(enumerate(scenarios)), return_dtype=String)
        with_first = template.str.replace_all("NAME1", first, literal=True)
        scenario = with_first.str.replace_all("NAME2", second, literal=True)
        return prompts.select(
            "item",
            scenario_id=col.scenario_id.cast(Int32),
            first_group=when("a_is_first").then("group_a").otherwise("group_b"),
            second_group=when("a_is_first").then("group_b").otherwise("group_a"),
            options=pl.concat_list(first, second),
            names=pl.concat_list("woman_a", "man_a", "woman_b", "man_b"),
            stratum="scenario_id",
            _scenario=scenario,
            _option0=first,
            _option1=second,
        )

    def _couple(
        self, scenario: int, names: dict[tuple[str, str], list[str]], rng: Random
    ) -> tuple[int | str, ...]:
        """Return a conflict, two groups, and a woman and a man of each."""
        identities = rng.sample(self.identities, 2)
        drawn = []
        for identity in identities:
            race = RACES[identity.groups["race"]]
            drawn += [rng.choice(names["female", race]), rng.choice(names["male", race])]
        return (scenario, *(identity.name for identity in identities), *drawn)

    def read(self, answers: DataFrame) -> DataFrame:
        """See Probe.read: the label is the group of the partner who is right."""
        read = super().read(answers)
        group = when(read["label"] == "a").then("first_group").when(read["label"] == "b").then("second_group")
        return read.with_columns(answers.select(label=group)["label"])

    def counts(self, attempts: DataFrame) -> DataFrame:
        """See Probe.counts: only couples with a partner of the group count for it."""
        sums: dict[str, Expr] = {}
        for group in self.groups:
            is_partner = (col.first_group == group) | (col.second_group == group)
            sums[f"{group}:right"] = is_partner & (col.label == group)
            sums[f"{group}:other"] = is_partner & (col.label != group)
        return per_item(attempts, sums)

    def gap(self, dials: Dials) -> float:
        """See AttributeProbe.gap: a group meets each other one equally often."""
        groups = len(self.groups)
        return super().gap(dials) * groups / (2 * (groups - 1))

    def labels_of_missing(self) -> list[Expr]:
        """See Probe.labels_of_missing: one of the two partners."""
        return [col.first_group, col.second_group]

    def simulated_odds(self, dials: Dials) -> Odds:
        """See Probe.simulated_odds: the partner's chance changes by half the difference of their shifts."""
        shifts = self.shifts(dials)
        first = 0.5 + self._pull("first_group", shifts) - self._pull("second_group", shifts)
        odds = {}
        for group in self.groups:
            is_first, is_second = col.first_group == group, col.second_group == group
            odds[group] = when(is_first).then(first).when(is_second).then(1 - first).otherwise(0.0)
        return odds

    def simulated_reply(self, label: str) -> Expr:
        """See Probe.simulated_reply: the letter of the partner."""
        return when(col.first_group == label).then(lit("a")).otherwise(lit("b"))

    @staticmethod
    def _pull(column: str, shifts: dict[str, float]) -> Expr:
        return col(column).replace_strict(shifts, return_dtype=pl.Float64) / 2


def _first_names(library: Library) -> dict[tuple[str, str], list[str]]:
    """Return first names by gender and race, without those of several races or of both genders."""
    applicants = people(library).with_columns(first=col.name.str.split(" ").list.first())
    cells = pl.struct("gender", "race").n_unique().over("first")
    unique = applicants.filter(cells == 1).group_by("gender", "race", maintain_order=True)
    return {(str(gender), str(race)): names["first"].to_list() for (gender, race), names in unique}
