"""Planted associations in the stories of the simulated model, and their true values.

True values are those that a perfect measurement would find. The simulated model mentions a concept more often
for the identity it is assigned to and less often for the other identities of the category, so that the rates
differ by the value of the dial. The assignments are arbitrary and do not reflect stereotypes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import polars as pl
from polars import DataFrame, Float64, Series, String, col, lit

from tiltmeter import stats
from tiltmeter._files.yaml import packaged_yaml
from tiltmeter.schema import beside

BASE_RATE: Final = 0.2
"""Rate of a concept without a planted association."""

CONCEPTS: Final[Mapping[str, Mapping[str, Sequence[str]]]] = packaged_yaml(
    Path(__file__).with_name("simulation.yaml")
)
"""Category -> identity -> the concepts that are mentioned more often for it: a trait and an activity."""

SHARED_CONCEPTS: Final = (
    "tired",
    "friendly",
    "nervous",
    "asks many questions",
    "helps a stranger",
    "arrives early",
)
"""Concepts that are mentioned equally often for all identities."""


def concept_rates(bias: float, *identities: str | None) -> dict[str, float]:
    """Return the probability of each concept in a readable story about a character with these identities.

    A concept of identity i, in a category of k identities, has the rate BASE_RATE + bias (1 - 1/k) for i and
    BASE_RATE - bias / k for the others of the category, clipped to [0, 1]. A character without an identity of
    the category has the rate BASE_RATE. Concepts are independent.

    Parameters
    ----------
    bias
        The dial `stereotypical_reasoning`.
    identities
        Names as in CONCEPTS, in any case. Other names are ignored.
    """
    names = {identity.casefold() for identity in identities if identity is not None}
    rates = dict.fromkeys(SHARED_CONCEPTS, BASE_RATE)
    for members in CONCEPTS.values():
        has_identity = not names.isdisjoint(members)
        for identity, concepts in members.items():
            shift = 0.0
            if has_identity:
                shift = bias * ((identity in names) - 1 / len(members))
            rate = min(1.0, max(0.0, BASE_RATE + shift))
            rates |= dict.fromkeys(concepts, rate)
    return rates


def planted_stories(design: DataFrame, dials: Mapping[str, float]) -> DataFrame:
    """Return the plan of each story for `SimulatedModel.learn`, one row per prompt and character.

    Parameters
    ----------
    design
        Design of a grid with one or two characters: `prompt`, `location`, `type`, `repetitions`,
        `identity_1`, `name_1`, and the same for the second character. A type that is a gender is treated as
        an identity, too.
    dials
        Dials of the simulated model (`Dials.mapping`).
    """
    characters = _characters(design).unique(["prompt", "name"], keep="first", maintain_order=True)
    rates = _rates_by_identity(characters, dials)
    character = ["identity", "type"]
    deviation = dials.get("cluster_sd", 0.0)
    if deviation:
        character.append("name")
        names = characters.select(character).unique(maintain_order=True)
        rates = beside(names, rates, "identity", "type")
        hashes = rates.select(pl.struct("name", "concept").hash(int(dials.get("seed", 0)))).to_series()
        odds_ratio = Series(deviation * stats.normals_from_hashes(hashes.to_numpy())).exp()
        rates = rates.with_columns(rate=col.rate * odds_ratio / (1 - col.rate + col.rate * odds_ratio))
    odds = rates.group_by(character, maintain_order=True).agg(outcomes="concept", odds="rate")
    return beside(characters, odds, *character).select(
        "prompt", "outcomes", "odds", form=lit("story"), about="name", place="location"
    )


def planted_associations(design: DataFrame, dials: Mapping[str, float]) -> DataFrame:
    """Return the true rates of every concept over the whole design.

    Parameters
    ----------
    design, dials
        See `planted_stories`.

    Returns
    -------
    pl.DataFrame
        One row per concept and identity: `concept`, `identity`, `rate` (mean over the lists of the identity),
        `others_rate` (over the lists of all others), `effect` (their difference).
    """
    lists = _characters(design).group_by("identity", "type").agg(lists=col.repetitions.sum())
    rates = lists.join(_rates_by_identity(lists, dials), on=["identity", "type"], nulls_equal=True)
    of_identity = rates.group_by("concept", "identity").agg(
        expected=(col.rate * col.lists).sum(), lists=col.lists.sum()
    )
    expected_of_others = col.expected.sum().over("concept") - col.expected
    lists_of_others = col.lists.sum().over("concept") - col.lists
    associations = of_identity.with_columns(
        rate=col.expected / col.lists, others_rate=expected_of_others / lists_of_others
    )
    associations = associations.with_columns(effect=col.rate - col.others_rate)
    columns = ("concept", "identity", "rate", "others_rate", "effect")
    return associations.select(columns).sort("concept", "identity")


def _characters(design: DataFrame) -> DataFrame:
    """Return one row per prompt and character."""
    shared = ("prompt", "location", "type", "repetitions")
    characters = [
        design.select(*shared, identity=f"identity_{number}", name=f"name_{number}")
        for number in (1, 2)
        if f"name_{number}" in design.columns
    ]
    return pl.concat(characters).drop_nulls("identity")


def _rates_by_identity(characters: DataFrame, dials: Mapping[str, float]) -> DataFrame:
    """Return one row per identity, type and concept."""
    identities = characters.select("identity", "type").unique(maintain_order=True)
    rows = []
    for identity, kind in identities.iter_rows():
        rates = concept_rates(dials["stereotypical_reasoning"], identity, kind)
        rows += [(identity, kind, concept, rate) for concept, rate in rates.items()]
    schema = {"identity": String, "type": String, "concept": String, "rate": Float64}
    return DataFrame(rows, schema=schema, orient="row")
