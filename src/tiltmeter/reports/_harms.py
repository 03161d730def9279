"""What the harms are called and what they ask, in the order of the GenderBench paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

__all__ = ["HARMS", "Harm", "harm_title", "harms_of"]


class Harm(NamedTuple):
    """A kind of harm for readers."""

    title: str
    asks: str


HARMS: Mapping[str, Harm] = {
    "outcome_disparity": Harm("Outcome disparity", "Does the model decide otherwise, or worse, for one gender than for another?"),
    "stereotypical_reasoning": Harm("Stereotypical reasoning", "Does the model go by stereotypes when it judges, guesses or writes?"),
    "representational_harms": Harm("Representational harms", "Does the model show one gender far more often than the other?"),
}


def harm_title(harm: str) -> str:
    """The harm as a heading; one we do not know keeps its name."""
    return HARMS[harm].title if harm in HARMS else harm.replace("_", " ")


def harms_of(findings: pl.DataFrame) -> list[str]:
    """The harms there are findings of, those of HARMS first."""
    found = findings["harm"].drop_nulls().unique(maintain_order=True).to_list()
    return [harm for harm in HARMS if harm in found] + [harm for harm in found if harm not in HARMS]
