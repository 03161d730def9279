"""What the simulated model really attaches to whom, so that a method that finds it can be told from one that does not."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from tiltmeter.models.sim import Dials, planted_rates

__all__ = ["planted"]


def planted(design: pl.DataFrame, dials: Mapping[str, float]) -> pl.DataFrame:
    """True rates of every concept of the simulated model, over a whole design.

    Parameters
    ----------
    design
        Of a grid with one or two characters: `prompt`, `repetitions`, `identity_1`, `name_1`, and likewise for the second.
    dials
        Of the simulated model (`Dials.mapping`).

    Returns
    -------
    pl.DataFrame
        One row per concept and identity: `concept`, `identity`, `rate` (mean over the lists of the identity), `others_rate` (over the
        lists of all others), `effect` (their difference).
    """
    chosen = Dials(stereotypical_reasoning=dials["stereotypical_reasoning"])
    prompts = design.select("prompt").unique(maintain_order=True)["prompt"].to_list()
    rates = [
        (prompt, name, concept, rate)
        for prompt in prompts
        for name, told in planted_rates(prompt, chosen).items()
        for concept, rate in told.items()
    ]
    told = pl.DataFrame(rates, schema={"prompt": pl.String, "name": pl.String, "concept": pl.String, "rate": pl.Float64}, orient="row")
    characters = [
        design.select("prompt", "repetitions", identity=f"identity_{i}", name=f"name_{i}") for i in (1, 2) if f"name_{i}" in design.columns
    ]
    lists = pl.concat(characters).filter(pl.col("identity").is_not_null()).join(told, on=["prompt", "name"])
    weighted = lists.group_by("concept", "identity").agg(
        told=(pl.col("rate") * pl.col("repetitions")).sum(), lists=pl.col("repetitions").cast(pl.Int64).sum()
    )
    others = {name: pl.col(name).sum().over("concept") - pl.col(name) for name in ("told", "lists")}
    return (
        weighted.with_columns(rate=pl.col("told") / pl.col("lists"), others_rate=others["told"] / others["lists"])
        .with_columns(effect=pl.col("rate") - pl.col("others_rate"))
        .select("concept", "identity", "rate", "others_rate", "effect")
        .sort("concept", "identity")
    )
