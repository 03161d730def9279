"""Missing descriptions of characters, and missing stories, by group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import polars as pl
from polars import DataFrame, Expr, col, lit, when

from tiltmeter.comparisons import COMPARED, Groups, attempts_by_group

FIRST: Final = "named first"
"""End of the attribute by which stories are compared if each is about all groups."""


def descriptions_by_group(
    category: str, measures: DataFrame, lists: DataFrame
) -> Iterator[tuple[Groups, DataFrame]]:
    """Yield the descriptions of characters by group and, if each story is about all groups, the stories.

    A description is missing if its story is, or if none could be extracted from the story. Where each story
    is about all groups, a missing story is missing for all of them: the descriptions of the other stories are
    compared, and the stories by the group of the character that is named first.

    Parameters
    ----------
    category
        Name of the attribute.
    measures
        MEASURES with `attempt`.
    lists
        LISTS.

    Yields
    ------
    The declaration of the groups, and the attempts (see `Part.outcomes_by_group`).
    """
    further = [name for name in measures.columns if name.startswith(COMPARED)]
    stories = measures.select("attempt", "item", *further, story="outcome")
    descriptions = lists.join(stories, on="attempt", how="left", maintain_order="left")
    has_story = col.story == "answered"
    is_missing = has_story & (col.status == "missing")
    descriptions = descriptions.with_columns(
        scene="item",
        item=pl.int_range(pl.len()),
        outcome=when(is_missing).then(lit("unreadable")).otherwise("story"),
    )
    samples = {"stories": col.attempt, "scenes": col.scene, "names": col("name")}
    groups = descriptions["identity"].n_unique()
    identities = descriptions.group_by("attempt").agg(col.identity.n_unique())
    if groups > 1 and (identities["identity"] == groups).all():
        first = descriptions.unique("attempt", keep="first", maintain_order=True)
        of_first = first.with_columns(outcome="story", item=pl.int_range(pl.len()))
        without_stories = {noun: cluster for noun, cluster in samples.items() if noun != "stories"}
        by_first = _groups(f"{category}, {FIRST}", "stories that name a {} character first", lists)
        by_first = replace(by_first, clusters=_varying(of_first, without_stories))
        yield by_first, attempts_by_group(of_first, by_first)
        # Both groups have the same story, so that what is measured on a whole story cannot differ.
        descriptions = descriptions.filter(has_story).drop(further)
    by_group = _groups(category, "{} characters", lists)
    by_group = replace(by_group, clusters=_varying(descriptions, samples))
    yield by_group, attempts_by_group(descriptions, by_group)


def _groups(attribute: str, words: str, lists: DataFrame) -> Groups:
    """Return the declaration of the identities of the lists; `words` says how sentences name them."""
    names = lists["identity"].drop_nulls().unique().sort().to_list()
    return Groups(attribute, col.identity, tuple(names), called={name: words.format(name) for name in names})


def _varying(rows: DataFrame, samples: Mapping[str, Expr]) -> dict[str, Expr]:
    """Return the samples with more than one cluster, and fewer clusters than rows."""
    sizes = rows.select(cluster.n_unique().alias(noun) for noun, cluster in samples.items()).row(
        0, named=True
    )
    return {noun: cluster for noun, cluster in samples.items() if 1 < sizes[noun] < rows.height}
