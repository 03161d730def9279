"""The design: every prompt of a benchmark in every configuration (role and template)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from tiltmeter._items import first_samples, keep_limit
from tiltmeter.errors import InputError
from tiltmeter.study import DESIGN, Settings

__all__ = ["BASELINES", "FACTORS", "Configurations", "make_design"]

FACTORS = {
    "prompt_key": pl.String,  # of the benchmark's row
    "root": pl.String,  # of the row it was branched from: what is compared in pairs
    "domain": pl.String,
    "concept": pl.String,
    "keyword": pl.String,
    "source_tag": pl.String,
    "kind": pl.String,
    "branched_from": pl.String,
    "role": pl.String,
    "template": pl.String,
    "baseline": pl.String,  # the text the answers are compared with; null: there is none
    "stratum": pl.String,  # of which --limit keeps a share
}
"""Columns of a design beside those of every design."""

SLOT = "{prompt}"
BASELINES = "baseline"
"""The generation that the baselines are."""


class Configurations(NamedTuple):
    """How a benchmark is asked: each role with each template is a generation of its own."""

    roles: Mapping[str, str | None]
    """Name -> system message (None: no system message)."""
    templates: Mapping[str, Mapping[str, str]]
    """Name -> kind of row ("continuation", "question", "given") -> text with `{prompt}`."""


def make_design(benchmark: pl.DataFrame, configurations: Configurations, settings: Settings, name: str) -> pl.DataFrame:
    """One row per prompt: the columns of DESIGN and FACTORS.

    An item is a root with all its branches: it is resampled as a whole, and `--limit` counts items, in proportion to the concepts of
    the roots. `settings.repeats` is the number of answers to each prompt (1 where it is left open).

    Parameters
    ----------
    benchmark
        The columns of BENCHMARK.
    name
        Of the part.

    Raises
    ------
    InputError
        A template lacks `{prompt}`, or has no text for a kind of row the benchmark holds.
    """
    if BASELINES in configurations.roles:
        raise InputError(f"a role cannot be called {BASELINES!r}: that is what the baselines are called beside the roles; rename it")
    items = benchmark.select(pl.col("root").unique(maintain_order=True)).with_row_index("item")
    owner = benchmark.select(root="key", stratum="concept").unique("root", keep="first")
    rows = benchmark.join(items, on="root", maintain_order="left").join(owner, on="root", how="left", maintain_order="left")
    # Where the root itself is no row of the benchmark (a user took it out), its branches stand for it.
    rows = rows.with_columns(pl.col("stratum").fill_null(pl.col("concept").first().over("root")))
    rows = keep_limit(rows.sort("item", maintain_order=True), settings.limit, settings.seed, name)
    kinds = rows["kind"].unique().to_list()
    asked = pl.concat(
        rows.with_columns(
            role=pl.lit(role),
            template=pl.lit(template),
            system=pl.lit(system, pl.String),
            prompt=_filled(texts, kinds, template),
        )
        for role, system in configurations.roles.items()
        for template, texts in configurations.templates.items()
    ).sort("item", maintain_order=True)
    if settings.system_message is not None:
        asked = asked.with_columns(system=pl.coalesce("system", pl.lit(settings.system_message)))
    made = asked.with_columns(
        part=pl.lit(name),
        prompt_index=pl.int_range(pl.len()).over("item"),
        wording=pl.col("template"),
        prompt_key="key",
        repetitions=pl.lit(settings.repeats or 1),
    )
    made = made.with_columns(prompt_id=pl.concat_str(pl.lit(f"{name}/"), "item", pl.lit("/"), "prompt_index"))
    made = made.with_columns(first_sample=first_samples())
    return made.select(pl.col(column).cast(kind) for column, kind in {**DESIGN, **FACTORS}.items())


def _filled(texts: Mapping[str, str], kinds: list[str], template: str) -> pl.Expr:
    for kind in kinds:
        if kind not in texts:
            raise InputError(f"template {template!r} has no text for prompts of kind {kind!r}; it has: {', '.join(texts)}")
        if SLOT not in texts[kind]:
            raise InputError(f"template {template!r}, {kind}: the text lacks {SLOT}, where the prompt goes")
    parts = {kind: texts[kind].split(SLOT, 1) for kind in kinds}
    written = pl.lit(None, pl.String)
    for kind, (before, after) in parts.items():
        written = pl.when(pl.col("kind") == kind).then(pl.concat_str(pl.lit(before), "prompt", pl.lit(after))).otherwise(written)
    return written
