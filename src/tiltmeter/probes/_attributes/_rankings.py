"""Rankings of equal CVs with names that signal race, or race and gender."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, ClassVar, Final

import polars as pl
from polars import DataFrame, Expr, Series, col, lit

from tiltmeter import readers
from tiltmeter.datasets import Library
from tiltmeter.probes._answer_readers import Readers
from tiltmeter.probes._attributes._applicants import GENDERS, RACES, Named
from tiltmeter.probes._contract import Dials, Odds
from tiltmeter.probes._counting import per_item
from tiltmeter.probes._genderbench import hiring_bloomberg as bloomberg
from tiltmeter.probes._sources import people

if TYPE_CHECKING:
    from tiltmeter.probes._constrained import AllowedAnswers

CVS: Final = 8
SETS: Final = 60
"""Sets of CVs of each position."""
DRAWN: Final = ("gender", "names", *(f"_name{i}" for i in range(CVS)), *(f"_cv{i}" for i in range(CVS)))
"""What is drawn for a prompt: the gender, all names by group, the names on the CVs, and their numbers."""


class Rankings(Named):
    """Sets of eight CVs; in the prompts of a set, each CV has a name of each group once."""

    of: ClassVar[str] = "hiring_bloomberg"
    counted: ClassVar[tuple[str, str]] = ("first", "other")
    chooses_group: ClassVar[bool] = True
    compared: ClassVar[Expr | None] = lit("ranking")
    clusters_of_items: ClassVar[Mapping[str, Expr]] = {"names": col.names}

    def __init__(self, attribute: str) -> None:
        super().__init__(attribute)
        self.names_of_group = CVS // len(self.groups)
        self.allowed_answers: AllowedAnswers = tuple(
            (col.names.list.get(place), lit(self.groups[place // self.names_of_group]))
            for place in range(CVS)
        )
        vars(self)["readers"] = Readers(tolerant=self._read_first, strict=self._read_first)

    def _lists(self, answers: DataFrame) -> dict[str, Series]:
        """Return the names of the candidates of each group."""
        count = self.names_of_group
        return {
            group: answers["names"].list.slice(place * count, count)
            for place, group in enumerate(self.groups)
        }

    def _read_first(self, answers: DataFrame) -> DataFrame:
        return readers.read_first_group(answers["answer"], self._lists(answers), with_rule=True)

    def prompts(self, library: Library, rng: Random) -> DataFrame:
        """See Probe.prompts: the names of a set move from group to group over its CVs."""
        descriptions = library.literal(bloomberg.TEMPLATES, "role_data")
        candidates = people(library).group_by("gender", "race", maintain_order=True)
        pools = {cell: names["name"].to_list() for cell, names in candidates}
        positions = []
        for role in bloomberg.ROLES:
            cvs = Series([cv.strip() for cv in descriptions[role]["resumes"]])
            rows = [row for _ in range(SETS) for row in self._prompts_of_set(pools, cvs.len(), rng)]
            drawn = DataFrame(rows, schema=DRAWN, orient="row")
            positions.append(
                drawn.with_columns(
                    *(lit(cvs).gather(f"_cv{i}").alias(f"_cv{i}") for i in range(CVS)),
                    role=lit(role),
                    _description=lit(descriptions[role]["jd"].strip()),
                )
            )
        item = pl.int_range(pl.len()) // len(self.groups)
        return pl.concat(positions).with_columns(item=item, stratum="role")

    def _prompts_of_set(
        self, pools: dict[tuple[str, ...], list[str]], number_of_cvs: int, rng: Random
    ) -> list[tuple[str | int | list[str], ...]]:
        """Return the prompts of one set of CVs.

        The gender of all names is drawn if it is not compared. In the next prompt each CV has the name of the
        next group.
        """
        genders = list(GENDERS)
        gender = "both" if "gender" in self.attributes else rng.choice(genders)
        names = []
        for identity in self.identities:
            of_group = GENDERS[identity.groups.get("gender", gender)]
            names += rng.sample(pools[of_group, RACES[identity.groups["race"]]], self.names_of_group)
        places = rng.sample(range(CVS), CVS)
        cvs = rng.sample(range(number_of_cvs), CVS)
        prompts: list[tuple[str | int | list[str], ...]] = []
        for turn in range(len(self.groups)):
            shift = turn * self.names_of_group
            on_cvs = [names[(places[slot] + shift) % CVS] for slot in range(CVS)]
            prompts.append((gender, names, *on_cvs, *cvs))
        return prompts

    def counts(self, attempts: DataFrame) -> DataFrame:
        """See Probe.counts."""
        sums: dict[str, Expr] = {}
        for group in self.groups:
            sums[f"{group}:first"] = col.label == group
            sums[f"{group}:other"] = col.label != group
        return per_item(attempts, sums)

    def dial(self, dials: Dials) -> float:
        """See AttributeProbe.dial: the share of the last group is not negative."""
        return min(super().dial(dials), 2 / len(self.groups))

    def simulated_odds(self, dials: Dials) -> Odds:
        """See Probe.simulated_odds."""
        shifts = self.shifts(dials)
        return {group: lit(1 / len(self.groups) + shifts[group]) for group in self.groups}

    def simulate(self, design: DataFrame, dials: Dials) -> DataFrame:
        """See Part.simulate: the answer is the name that comes first."""
        odds = self.simulated_odds(dials)
        count = self.names_of_group
        odds_of_names = [odds[group] / count for group in self.groups for _ in range(count)]
        return design.select("prompt", outcomes="names", odds=pl.concat_list(odds_of_names))
