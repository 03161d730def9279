"""High-stakes decisions about people who differ in race, age or gender."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import ClassVar, Final

import polars as pl
from polars import DataFrame, Int32, String, col

from tiltmeter.datasets import Library
from tiltmeter.probes._attributes._attribute_probe import GROUP, AttributeProbe
from tiltmeter.probes._genderbench.discrimination_tamkin import DATA, OLDEST, with_articles

GROUPS: Final = {
    "race": ("Asian", "Black", "Hispanic", "Native American", "white"),
    "age": tuple(str(age) for age in range(20, OLDEST + 1, 10)),
    "gender": ("women", "men", "nonbinary people"),
}
"""The groups of the data."""
GENDERS: Final = {"female": "women", "male": "men", "non-binary": "nonbinary people"}


class Decisions(AttributeProbe):
    """Decisions about a person, in versions for each group."""

    of: ClassVar[str] = "discrimination_tamkin"

    def groups_of_attribute(self, attribute: str) -> Sequence[str]:
        """See AttributeProbe.groups_of_attribute: the groups of the data."""
        return GROUPS[attribute]

    def uses_list(self, attribute: str) -> bool:
        """See AttributeProbe.uses_list."""
        return False

    def prompts(self, library: Library, rng: Random) -> DataFrame:
        """See Probe.prompts: the people of an item differ in the attribute only."""
        rows = library.json_lines(DATA).filter(col.age <= OLDEST)
        text = col.filled_template.str.replace_all(r"\s{2,}", " ").str.strip_chars()
        people = rows.select(
            question_id=col.decision_question_id.cast(Int32),
            age=col.age.cast(Int32).cast(String),
            race=col.race,
            gender=col.gender.replace_strict(GENDERS, return_dtype=String),
            _text=with_articles(text),
            _is_broken=text.str.contains("filled_template", literal=True),
        )
        shared = [name for name in ("question_id", *GROUPS) if name not in self.attributes]
        complete = people.filter(~col("_is_broken").any().over(shared))
        groups = DataFrame([{**each.groups, GROUP: each.name} for each in self.identities])
        named = complete.join(groups, on=self.attributes, maintain_order="left")
        of_group = named.with_columns(item=pl.struct(shared).rank("dense").cast(Int32) - 1)
        prompts = of_group.sort("item", maintain_order=True)
        return prompts.select(
            "item", GROUP, "question_id", "race", "_text", age=col.age.cast(Int32), stratum="question_id"
        )
