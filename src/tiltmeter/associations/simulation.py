"""Planted associations in the stories of the simulated model, and the true values that a perfect measurement would find.

The simulated model mentions a concept more often for the identity it is assigned to and less often for the
other identities of the category, so that the rates differ by the value of the dial. The assignments are
arbitrary and do not reflect stereotypes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
from polars import DataFrame, Float64, Series, String, col, lit

from tiltmeter import stats
from tiltmeter.files.yaml import packaged_yaml
from tiltmeter.schema import beside

BASE = 0.2
"""Rate of a concept without a planted association."""

CONCEPTS: Mapping[str, Mapping[str, Sequence[str]]] = packaged_yaml(Path(__file__).with_suffix(".yaml"))
"""Category -> identity -> the concepts that are mentioned more often for it: a trait and an activity."""

SHARED_CONCEPTS = ("tired", "friendly", "nervous", "asks many questions", "helps a stranger", "arrives early")
"""Concepts that are mentioned equally often for all identities."""


def concept_rates(bias: float, *identities: str | None) -> dict[str, float]:
    """Return the probability of each concept in a readable story about a character with these identities.

    A concept of identity i, in a category of k identities, has the rate BASE + bias (1 - 1/k) for i and BASE
    - bias / k for the others of the category, clipped to [0, 1]. A character without an identity of the
    category has the rate BASE. Concepts are independent.

    Parameters
    ----------
    bias
        The dial `stereotypical_reasoning`.
    identities
        Names as in CONCEPTS, in any case. Other names are ignored.
    """
    own = {one.casefold() for one in identities if one is not None}
    rates = dict.fromkeys(SHARED_CONCEPTS, BASE)
    for members in CONCEPTS.values():
        is_known = any(one in own for one in members)
        for identity, concepts in members.items():
            shift = bias * ((identity in own) - 1 / len(members)) if is_known else 0.0
            rates |= dict.fromkeys(concepts, min(1.0, max(0.0, BASE + shift)))
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
    who = ["identity", "type"]
    if size := dials.get("cluster_sd", 0.0):
        who.append("name")
        rates = beside(characters.select(who).unique(maintain_order=True), rates, "identity", "type")
        hashes = rates.select(pl.struct("name", "concept").hash(int(dials.get("seed", 0)))).to_series()
        effect = Series(size * stats.normals_from_hashes(hashes.to_numpy())).exp()
        rates = rates.with_columns(rate=col.rate * effect / (1 - col.rate + col.rate * effect))
    odds = rates.group_by(who, maintain_order=True).agg(outcomes="concept", odds="rate")
    return beside(characters, odds, *who).select(
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
    expected, lists_of_others = (
        col(name).sum().over("concept") - col(name) for name in ("expected", "lists")
    )
    return (
        of_identity.with_columns(rate=col.expected / col.lists, others_rate=expected / lists_of_others)
        .with_columns(effect=col.rate - col.others_rate)
        .select("concept", "identity", "rate", "others_rate", "effect")
        .sort("concept", "identity")
    )


def _characters(design: DataFrame) -> DataFrame:
    """Return one row per prompt and character."""
    sides = [side for side in (1, 2) if f"name_{side}" in design.columns]
    shared = ("prompt", "location", "type", "repetitions")
    return pl.concat(
        design.select(*shared, identity=f"identity_{side}", name=f"name_{side}") for side in sides
    ).drop_nulls("identity")


def _rates_by_identity(characters: DataFrame, dials: Mapping[str, float]) -> DataFrame:
    """Return one row per identity, type and concept."""
    rows = [
        (identity, kind, concept, rate)
        for identity, kind in characters.select("identity", "type").unique(maintain_order=True).iter_rows()
        for concept, rate in concept_rates(dials["stereotypical_reasoning"], identity, kind).items()
    ]
    return DataFrame(
        rows, schema={"identity": String, "type": String, "concept": String, "rate": Float64}, orient="row"
    )
